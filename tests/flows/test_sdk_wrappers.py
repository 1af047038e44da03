"""SDK wrappers in a real engine: a library may crash, hang, leak and babble as it likes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.command_line import NO_PROFILES, edged
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

OWN_PATH = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
WRAPPERS = REPOSITORY / "tests" / "bench" / "wrappers"


# The maker's package that the documented example stands on.
RELAYCARD = """
class NoCard(Exception): ...
class Card:
    def __init__(self, port):
        if port != "/dev/relays": raise NoCard(port)
        self.closed = set()
    def is_closed(self, number): return number in self.closed
    def set(self, number, on): (self.closed.add if on else self.closed.discard)(number)
    def disconnect(self): ...
"""


def documented_example() -> str:
    page = (REPOSITORY / "docs" / "sdk-wrappers.md").read_text()
    return page.split("```python\n")[1].split("```")[0]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    directory = tmp_path_factory.mktemp("sdk")
    (directory / "vendor").mkdir()
    (directory / "vendor" / "relaycard.py").write_text(RELAYCARD)
    (directory / "own").mkdir()
    (directory / "own" / "relays.py").write_text(documented_example())
    config = {
        "SDK_WRAPPER_DIRS": [str(WRAPPERS), str(directory / "own")],
        "SDK_SETTINGS": {"relays": {"port": "/dev/relays"}},
        "SDK_MEMORY_MB": 200,
    }
    with engine_process(
        directory,
        sim=False,
        config=config,
        # Before what the engine itself is found by, where that is a path, too.
        environment={"PYTHONPATH": os.pathsep.join([str(directory / "vendor"), *OWN_PATH])},
    ) as running:
        yield running


def told_of(engine: Engine, wrapper: str) -> dict[str, Any]:
    status = engine.tool("get_status")["result"]["sdk"]["wrappers"]
    found: dict[str, Any] = next(one for one in status if one["wrapper"] == wrapper)
    return found


def failure(engine: Engine, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = engine.tool(tool, **arguments)
    assert answer["is_error"] is True, answer
    error: dict[str, Any] = answer["error"]
    return error


def works(engine: Engine) -> bool:
    return bool(engine.tool("rough__add", a=2, b=3)["result"]["data"] == 5)


def rows(engine: Engine, tool: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.rpc("audit.list", tool=tool, limit=10)["rows"]
    return found


@promise("sdk.tools")
def test_each_specification_is_a_tool_with_schema_and_hints(engine: Engine) -> None:
    tools = {tool["name"]: tool for tool in engine.rpc("tools/list")["tools"]}
    schema = tools["rough__add"]["input_schema"]
    assert schema["properties"]["a"]["maximum"] == 10
    assert schema["required"] == ["a"], "the function has a default for b"
    assert tools["rough__add"]["annotations"]["read_only"] is True
    assert tools["rough__arm"]["annotations"]["destructive"] is True
    assert tools["rough__write"]["annotations"]["destructive"] is False
    assert tools["rough__write"]["input_schema"]["properties"]["mode"]["enum"] == ["slow", "fast"]
    assert "bench__stop_all" in tools


@promise("sdk.path")
def test_a_call_is_checked_recorded_and_counted_like_a_command(engine: Engine) -> None:
    refused = failure(engine, "rough__add", a=11)
    assert "maximum 10" in refused["message"]
    assert engine.tool("rough__write", mode="fast")["result"]["data"] == "F"
    phases = [
        (row["phase"], row["instrument"], row["command"]) for row in rows(engine, "rough__write")
    ]
    assert phases[-2:] == [("intent", "sdk:rough", "write"), ("end", "sdk:rough", "write")]
    known = engine.tool("get_capabilities", instrument_id="sdk:rough")["result"][0]
    command = next(one for one in known["commands"] if one["name"] == "write")
    written = sum(phase == "end" for phase, _, _ in phases)
    assert command["experience"]["calls"] == written
    assert command["tool"] == "rough__write"


@promise("sdk.garbage")
def test_what_a_library_prints_goes_to_the_log_and_harms_no_answer(engine: Engine) -> None:
    assert works(engine)
    assert engine.tool("rough__flood")["result"]["data"] == "done"
    assert works(engine)
    log = engine.log.read_text()
    assert "garbage from the library" in log
    assert "\x1b" not in log
    assert log.count("xxxxxxxx") < 2_000 * 200 // 8, "more than a log can bear is counted only"


@promise("sdk.crash")
@pytest.mark.parametrize(
    ("tool", "code", "text"),
    [
        ("rough__crash", "wrapper_failed", "SIGSEGV"),
        ("rough__leak", "wrapper_failed", "200 MiB"),
        ("rough__leave", "wrapper_failed", "status 3"),
        ("rough__hang", "timeout", "0.4 s"),
    ],
)
def test_a_lost_worker_is_told_clearly_and_comes_back(
    engine: Engine, tool: str, code: str, text: str
) -> None:
    error = failure(engine, tool)
    assert error["code"] == code
    assert text in error["message"]
    assert "restarted" in error["remedy"]
    assert works(engine)


@promise("sdk.no-blocking")
def test_the_engine_answers_everybody_while_a_wrapper_hangs_and_a_safe_tool_gets_through(
    engine: Engine,
) -> None:
    answers: list[dict[str, Any]] = []
    caller = threading.Thread(target=lambda: answers.append(engine.tool("rough__hang_long")))
    caller.start()
    try:
        while told_of(engine, "rough")["running"] != "hang_long":
            pass
        assert engine.tool("list_instruments")["is_error"] is False
        off = engine.tool("rough__off")["result"]
        assert off["data"] == "off"
        assert off["execution_time_ms"] < 5_000
    finally:
        caller.join(HANGS_S)
    assert answers[0]["error"]["code"] == "preempted"


def test_exceptions_and_results_that_cannot_be_are_told_with_a_sentence(
    engine: Engine,
) -> None:
    raised = failure(engine, "rough__fail")
    assert raised["message"] == "rough.fail failed: RuntimeError: the fuse is blown [31m"
    assert "object cannot be written as JSON" in failure(engine, "rough__strange")["message"]
    untrue = failure(engine, "rough__untrue")
    assert untrue["code"] == "bad_answer"
    assert "it is of type str, not float" in untrue["message"]
    assert works(engine)


@promise("sdk.broken")
def test_a_broken_wrapper_is_left_out_and_its_line_is_told(engine: Engine) -> None:
    names = {tool["name"] for tool in engine.rpc("tools/list")["tools"]}
    assert not any(name.startswith(("broken__", "misspelt__")) for name in names)
    assert "broken.py:3: " in told_of(engine, "broken")["problem"]
    assert "the licence has expired" in told_of(engine, "broken")["problem"]
    misspelt = told_of(engine, "misspelt")
    assert "misspelt.py:5:" in misspelt["problem"]
    assert 'Did you mean "float"?' in misspelt["remedy"]


@promise("sdk.library-missing")
def test_without_the_vendors_library_a_tool_is_listed_and_says_what_to_install(
    engine: Engine,
) -> None:
    assert "vendorless__measure" in {tool["name"] for tool in engine.rpc("tools/list")["tools"]}
    error = failure(engine, "vendorless__measure")
    assert error["code"] == "sdk_missing"
    assert "a_vendor_that_nobody_has" in error["remedy"]
    assert told_of(engine, "vendorless")["state"] == "library_missing"


@promise("sdk.lockout")
def test_a_wrapper_that_is_locked_out_takes_reads_and_safe_tools_only(
    engine: Engine,
) -> None:
    engine.rpc("lockout.set", instrument_id="sdk:rough", reason="hands inside", by="Ada")
    try:
        assert failure(engine, "rough__write", mode="slow")["code"] == "locked_out"
        assert failure(engine, "rough__arm")["code"] == "locked_out"
        assert works(engine)
        assert engine.tool("rough__off")["result"]["data"] == "off"
    finally:
        engine.rpc("lockout.clear", instrument_id="sdk:rough")
    assert engine.tool("rough__arm")["result"]["data"] == "on"


@promise("sdk.stop-all")
def test_stop_all_runs_what_a_wrapper_marks_as_its_abort(engine: Engine) -> None:
    engine.tool("rough__arm")
    engine.tool("relays__switch", relay=3, to="closed")
    stopped = engine.stop_all()
    told = {one["tool"]: (one["state"], one["unconfirmed"]) for one in stopped["wrappers"]}
    # The one returns what its device says, the other only that it did something.
    assert told == {
        "rough__off": ("taken", ["its device"]),
        "relays__all_open": ("confirmed", []),
    }
    assert stopped["is_confirmed"] is False


@promise("sdk.documented")
def test_the_documented_example_works_as_it_stands(engine: Engine) -> None:
    assert engine.tool("relays__switch", relay=3, to="closed")["result"]["data"] is True
    assert engine.tool("relays__read")["result"]["data"] == [3]
    assert "maximum 8" in failure(engine, "relays__switch", relay=9, to="open")["message"]
    assert engine.tool("relays__all_open")["is_error"] is False
    assert engine.tool("relays__read")["result"]["data"] == []


def test_the_object_of_a_wrapper_is_made_once(engine: Engine) -> None:
    first = engine.tool("rough__count")["result"]["data"]
    assert engine.tool("rough__count")["result"]["data"] == first + 1


@pytest.mark.parametrize(
    ("parameter", "told"),
    [
        ('{"anyOf": [{"type": "float"}, {"type": "string"}]}', "anyOf"),
        ('{"type": ["float", "null"]}', "type"),
        ('{"type": "float", "exclusiveMinimum": 0}', "exclusiveMinimum"),
        ('{"$ref": "#/$defs/volts"}', "$ref"),
        ('{"type": "string", "pattern": "^a"}', "pattern"),
    ],
)
@promise("sdk.broken")
def test_doctor_names_the_line_of_a_schema_that_not_every_client_takes(
    tmp_path: Path, parameter: str, told: str
) -> None:
    (tmp_path / "wrappers").mkdir()
    (tmp_path / "wrappers" / "odd.py").write_text(
        "MCP_TOOL_SPECS = [\n"
        '    {"name": "set", "description": "Set it.", "method": "set_it",\n'
        f'     "parameters": {{"volts": {parameter}}}}},\n'
        "]\n"
        "def set_it(volts): ...\n"
    )
    config = {"SDK_WRAPPER_DIRS": [str(tmp_path / "wrappers")]}
    with running_engine(tmp_path, sim=False, config=config) as engine:
        wait_for(lambda: told_of(engine, "odd").get("problem"))
        words = ("doctor", "--json", "--state-dir", str(engine.state_dir))
        ran = edged(*words, environ=NO_PROFILES)
        lines = {line["check"]: line for line in json.loads(ran.stdout)["checks"]}
    assert lines["SDK wrappers"]["verdict"] == "WARN"
    found = str(lines["SDK wrappers"])
    assert "odd.py:" in found
    assert told in found
