"""A profile that nobody has held against the manual: narrowed on every road, and told everywhere.

The shipped profile of a supply marked ``status: imported``, on its simulated instrument. What must
not be sent is read from the byte log of that instrument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY
from tests.promises import promise

SHIPPED = REPOSITORY / "profiles" / "rigol_dp832.yaml"
SEQUENCE = """
sequences:
  asks_raw:
    description: Ask what the profile does not know.
    steps: [{query: ":SYST:WHATEVER?", as: told}]
    result: {told: "{told}"}
"""


def imported(directory: Path, status: str) -> Path:
    profiles = directory / "profiles"
    profiles.mkdir()
    text = SHIPPED.read_text()
    text = text[: text.index("\nsequences:")] + SEQUENCE
    text = re.sub(r"(?m)^version: .*$", f"version: 1\nstatus: {status}", text, count=1)
    (profiles / SHIPPED.name).write_text(text)
    return profiles


@pytest.fixture(scope="module", params=["imported", "reviewed"])
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, bool]]:
    directory = tmp_path_factory.mktemp("imported")
    config: dict[str, Any] = {
        "PROFILE_DIRS": [str(imported(directory, request.param))],
        "DIRECT_DANGER_ALLOW": False,
    }
    words = ("--instruments", "psu1")
    with running_engine(directory, *words, config=config) as engine:
        yield engine, request.param == "imported"


def refusal(engine: Engine, tool: str, **arguments: Any) -> str:
    """Why a call is refused before anything is sent; empty where something was."""
    mark = engine.sim("log", since=2**53)["last"]
    answer = engine.tool(tool, **arguments)
    page = engine.sim("log", instrument="psu1", since=mark)
    sent = [entry["text"] for entry in page["entries"] if entry["direction"] == "in"]
    result = answer["result"] if isinstance(answer["result"], dict) else {}
    said = result.get("error") or (answer.get("error") or {}).get("message") or ""
    # What the instrument itself refused, or did not answer, was sent.
    return "" if sent else str(said["message"] if isinstance(said, dict) else said)


@promise("profile.imported-narrows")
def test_raw_scpi_is_judged_as_known_by_tool_and_by_sequence(
    bench: tuple[Engine, bool],
) -> None:
    engine, is_imported = bench
    for line in (":SYST:WHATEVER 1", ":FETC:UNKNOWN?", "*RCL 1"):
        said = refusal(engine, "send_scpi", instrument_id="psu1", scpi_command=line)
        assert ("nobody has reviewed it" in said) is is_imported, (line, said)
    beyond = refusal(engine, "send_scpi", instrument_id="psu1", scpi_command=":SOUR1:VOLT 99")
    assert bool(beyond) is is_imported
    assert not refusal(engine, "send_scpi", instrument_id="psu1", scpi_command=":SOUR1:VOLT 5")
    given = {"instrument_id": "psu1", "sequence_name": "asks_raw", "parameters": {}}
    said = refusal(engine, "execute_sequence", **given)
    # What the profile itself asks in a sequence is known by that.
    assert "nobody has reviewed it" not in said


@promise("profile.imported-narrows")
def test_whatever_may_put_something_out_is_dangerous(bench: tuple[Engine, bool]) -> None:
    engine, is_imported = bench
    tools = {tool["name"]: tool for tool in engine.rpc("tools/list")["tools"]}
    hints = {
        name: tools[f"rigol_dp832__{name}"]["annotations"]["destructive"]
        for name in ("set_voltage", "measure_voltage", "output_on", "output_off")
    }
    assert hints == {
        "set_voltage": is_imported,
        "measure_voltage": False,
        "output_on": True,
        "output_off": False,
    }
    (entry,) = engine.tool("get_capabilities", instrument_id="psu1")["result"]
    marked = {one["name"] for one in entry["commands"] if one["is_dangerous"]}
    assert ("set_voltage" in marked) is is_imported


@promise("profile.imported-shows")
def test_every_list_and_every_tool_says_so(bench: tuple[Engine, bool]) -> None:
    engine, is_imported = bench
    status = "imported" if is_imported else "reviewed"
    (row,) = engine.tool("list_profiles")["result"]
    assert row["status"] == status
    (entry,) = engine.tool("get_capabilities", instrument_id="psu1")["result"]
    assert entry["profile_status"] == status
    for tool in engine.rpc("tools/list")["tools"]:
        if tool["name"].startswith("rigol_dp832__"):
            assert ("Imported from" in tool["description"]) is is_imported, tool["name"]
    words = ["doctor", "--config", str(engine.state_dir.parent / "edged.yaml")]
    told = command_line.edged(*words).stdout
    assert ("imported and not yet compared with a manual: rigol_dp832" in told) is is_imported
