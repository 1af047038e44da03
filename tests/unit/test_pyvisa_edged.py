"""The PyVISA backend needs PyVISA and the standard library alone, and has the daemon's version."""

from __future__ import annotations

import ast
import contextlib
import pickle
import re
import sys
import threading
import tomllib
from pathlib import Path
from typing import cast

import pytest
import pyvisa
from pyvisa import constants
from pyvisa.constants import ResourceAttribute, StatusCode

import edged
import pyvisa_edged
from pyvisa_edged.later import Later
from pyvisa_edged.place import bench_at
from pyvisa_edged.refusal import told
from pyvisa_edged.resource import OpenResource
from pyvisa_edged.wire import Wire
from tests.bench.answering_server import answering_server
from tests.bench.sources import syntax_tree
from tests.promises import promise

FOLDER = Path(pyvisa_edged.__file__).parent


@promise("visa.every-call")
def test_it_imports_pyvisa_and_the_standard_library_alone() -> None:
    imported = set()
    for module in FOLDER.glob("*.py"):
        for node in ast.walk(syntax_tree(module.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"pyvisa", "pyvisa_edged"}
    assert pyvisa_edged.__version__ == edged.__version__


def test_wheel_package_and_page_name_the_same_oldest_pyvisa() -> None:
    """1.11, the oldest that it was tried with: 1.11.0, 1.11.3, 1.12.0, 1.13.0 and 1.16.2."""
    root = FOLDER.parent
    wheel = tomllib.loads((root / "packaging" / "pyvisa-edged.toml").read_text())
    package = (root / "packaging" / "debian" / "control").read_text()
    page = (root / "docs" / "visa.md").read_text()
    assert wheel["project"]["dependencies"] == ["pyvisa>=1.11"]
    assert re.findall(r"python3-pyvisa \(>= ([0-9.]+)\)", package) == ["1.11"]
    assert re.findall(r"PyVISA ([0-9.]+) or newer", page) == ["1.11"]


def test_the_bench_is_what_is_said_else_the_environments_else_this_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGED_URL", raising=False)
    monkeypatch.setenv("STATE_DIR", str(tmp_path))
    assert bench_at("edged").url == "http://127.0.0.1:8767/mcp"
    (tmp_path / "engine.json").write_text('{"mcp_port": 8777, "mcp_path": "/x"}')
    assert bench_at("edged").url == "http://127.0.0.1:8777/x"
    monkeypatch.setenv("EDGED_URL", "https://relay.example/mcp/edge")
    monkeypatch.setenv("EDGED_TOKEN", "t")
    assert bench_at("edged")[:2] == ("https://relay.example/mcp/edge", "t")
    assert bench_at("http://bench:1/mcp").url == "http://bench:1/mcp"


def test_a_refusal_outlives_being_sent_to_another_process() -> None:
    refused = told("psu1 is locked out.", {"code": "locked_out", "scpi": -221})
    again = pickle.loads(pickle.dumps(refused))
    assert (again.error_code, again.reason, again.scpi, str(again)) == (
        StatusCode.error_resource_locked,
        "locked_out",
        -221,
        str(refused),
    )


@pytest.mark.parametrize(
    "body",
    [b"garbage", b"[]", b"\xff\xfe", b"[" * 100_000, b"x" * 17_000_000],
    ids=["text", "a list", "no text", "deep", "much"],
)
def test_whatever_answers_that_is_no_bench_is_said_to_be_none(body: bytes) -> None:
    with answering_server() as server:
        server.answer(body)
        rm = pyvisa.ResourceManager(f"http://127.0.0.1:{server.port}/mcp@edged")
        with pytest.raises(pyvisa_edged.EdgedVisaError) as lost:
            rm.list_resources()
        assert lost.value.error_code == StatusCode.error_connection_lost
        rm.close()


class AnsweringWire:
    """A bench that has these pieces of an answer, hex as it sends them."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def call(self, _session: str, method: str, **_params: object) -> dict[str, object]:
        if method == "edged/visa.write":
            return {"count": 1, "asking": True}
        return {"hex": self.pieces.pop(0).hex(), "end": not self.pieces}


def asked(*pieces: bytes) -> OpenResource:
    resource = OpenResource(cast("Wire", AnsweringWire(*pieces)), Later(), "psu1")
    resource.attributes = {
        ResourceAttribute.termchar: 10,
        ResourceAttribute.termchar_enabled: constants.VI_TRUE,
    }
    resource.write(b"CURV?\n")
    return resource


BLOCK = b"#18\n2345\n78\n"


@pytest.mark.parametrize("pieces", [(BLOCK,), (BLOCK[:5], BLOCK[5:])])
def test_a_line_feed_in_the_data_of_a_block_ends_no_read(pieces: tuple[bytes, ...]) -> None:
    unit = asked(*pieces)
    came, status = b"", StatusCode.success_max_count_read
    reads = 0
    while status is StatusCode.success_max_count_read:
        piece, status = unit.read(1_000)
        came, reads = came + piece, reads + 1
    assert (came, status) == (BLOCK, StatusCode.success_termination_character_read)
    assert reads == len(pieces)


@pytest.mark.parametrize("answer", [b"1\n2\n", b"#x\n2\n", b"#\n2\n", b"#1\n2\n", b"#\xb23\n\n"])
def test_where_no_block_begins_each_line_feed_ends_one(answer: bytes) -> None:
    unit = asked(answer)
    first, status = unit.read(1_000)
    assert first == answer[: answer.index(b"\n") + 1]
    assert status is StatusCode.success_termination_character_read


def test_a_block_that_announces_more_than_comes_ends_where_the_answer_does() -> None:
    unit = asked(b"#299ab\ncd\n")
    assert unit.read(1_000) == (b"#299ab\ncd\n", StatusCode.success)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/mcp",
        "127.0.0.1:1/mcp",
        "https://127.0.0.1:1/mcp",
        "http://127.0.0.1:99999/mcp",
        "http://[::1/mcp",
        "http:///mcp",
        "ftp://bench/mcp",
        "http://bench:1/m cp",
        "http://bench:1/mcp\r\nX: y",
        "http://bänk:1/mcp",
    ],
)
def test_an_address_where_no_bench_can_be_is_an_error_of_visas_that_names_it(url: str) -> None:
    with pytest.raises(pyvisa.VisaIOError) as lost:
        pyvisa.ResourceManager(f"{url}@edged").list_resources()
    assert lost.value.error_code == StatusCode.error_connection_lost
    assert url in str(lost.value) or repr(url) in str(lost.value)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {"jsonrpc": "2.0", "id": 1, "result": {}}),
        (200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "No method."}}),
        (404, {"detail": "Not Found"}),
        (404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "No path."}}),
        (500, b"<html>"),
        (302, b""),
    ],
    ids=["no session", "no method", "no such page", "no such path", "an error", "elsewhere"],
)
def test_what_speaks_http_and_is_no_bench_is_named_too(status: int, body: object) -> None:
    with answering_server() as server:
        server.answer(body, status=status)
        url = f"http://127.0.0.1:{server.port}/else"
        rm = pyvisa.ResourceManager(f"{url}@edged")
        for work in (rm.list_resources, lambda: rm.open_resource("psu1")):
            with pytest.raises(pyvisa.VisaIOError, match=url) as lost:
                work()
            assert lost.value.error_code == StatusCode.error_connection_lost
        rm.close()


def test_the_end_of_a_files_line_is_no_part_of_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGED_TOKEN", "t\n")
    monkeypatch.setenv("EDGED_LEASE", "lease-1\r\n")
    assert bench_at("http://bench:1/mcp")[1:3] == ("t", "lease-1")


class Told:
    """A reader that is told once."""

    def __init__(self) -> None:
        self.is_told = threading.Event()

    def tell_taken(self, before_s: float) -> bool:
        self.is_told.set()
        return True


class CtrlC:
    """A trace function that breaks off at a moment: where a line begins or a function ends."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __call__(self, _frame: object, _event: str, _argument: object) -> CtrlC:
        self.left -= 1
        if self.left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return self


@promise("visa.not-crossed")
def test_ctrl_c_at_any_moment_of_a_note_keeps_no_later_one_waiting() -> None:
    for moment in range(1_000):
        later, first, second, break_off = Later(), Told(), Told(), CtrlC(moment)
        later.note(first)
        assert first.is_told.wait(10)
        with contextlib.suppress(KeyboardInterrupt):
            sys.settrace(break_off)  # type: ignore[arg-type]
            try:
                later.note(first)
            finally:
                sys.settrace(None)
        noting = threading.Thread(target=later.note, args=(second,), daemon=True)
        noting.start()
        assert second.is_told.wait(10), f"it waits for ever after one at moment {moment}"
        later.close()
        if break_off.left >= 0:
            break
    assert moment > 3
