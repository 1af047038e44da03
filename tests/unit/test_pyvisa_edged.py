"""The PyVISA backend needs PyVISA and the standard library alone, and has the daemon's version."""

from __future__ import annotations

import ast
import base64
import pickle
import sys
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
    """A bench that has these pieces of an answer, base64 as it sends them."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def call(self, method: str, **_params: object) -> dict[str, object]:
        if method == "edged/visa.write":
            return {"count": 1, "asking": True}
        piece = base64.b64encode(self.pieces.pop(0)).decode()
        return {"base64": piece, "end": not self.pieces}


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
