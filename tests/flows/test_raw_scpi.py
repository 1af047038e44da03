"""What send_scpi lets past, what its words say of that, and the one line that changes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edged.operations.table import static_tools
from edged.surfaces.mcp.prompts import PROMPTS
from edged.surfaces.mcp.tool_list import SENTENCES
from tests.bench.engine import Engine, running_engine
from tests.bench.waiting import wait_for
from tests.promises import promise

OVER = ":SOUR1:VOLT 33"
"""The profile of this supply allows 32 V."""


def arrived(engine: Engine, line: str) -> tuple[dict[str, Any], bool]:
    """The answer to a raw line, and whether the instrument was sent it."""
    mark = engine.sim("log", since=2**53)["last"]
    answer = engine.tool("send_scpi", instrument_id="psu1", scpi_command=line)
    page = engine.sim("log", instrument="psu1", since=mark)
    sent = [entry["text"] for entry in page["entries"] if entry["direction"] == "in"]
    return answer, any(line in text for text in sent)


def with_supply(engine: Engine) -> None:
    wait_for(lambda: engine.tool("get_status")["result"]["instrument_count"])


@promise("raw.said")
@pytest.mark.parametrize(("mode", "is_sent"), [(None, True), ("all", True), ("known", False)])
def test_by_default_a_value_over_the_profiles_limit_is_sent_raw_and_one_line_ends_that(
    tmp_path: Path, mode: str | None, is_sent: bool
) -> None:
    config = {} if mode is None else {"RAW_SCPI": mode}
    with running_engine(tmp_path, "--instruments", "psu1=rigol_dp832", config=config) as engine:
        with_supply(engine)
        answer, is_there = arrived(engine, OVER)
        assert is_there is is_sent
        if not is_sent:
            assert "maximum" in str(answer["result"]["error"])
        # The command's own tool never lets it past.
        given = {"instrument_id": "psu1", "command_name": "set_voltage"}
        refused = engine.tool("execute_command", **given, parameters={"channel": 1, "voltage": 33})
        assert refused["is_error"]


@promise("raw.said")
def test_the_owners_limit_holds_for_raw_lines_by_default(tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text(
        "format: 1\npsu1: {limits: {set_voltage: {voltage: {max: 12}}}}\n"
    )
    with running_engine(tmp_path, "--instruments", "psu1=rigol_dp832") as engine:
        with_supply(engine)
        assert arrived(engine, ":SOUR1:VOLT 13")[1] is False
        assert arrived(engine, ":SOUR1:VOLT 11")[1] is True


@promise("raw.said")
def test_everything_that_offers_send_scpi_says_so() -> None:
    (tool,) = [one for one in static_tools() if one.name == "send_scpi"]
    told = [tool.description, dict(SENTENCES)["send_scpi"], PROMPTS["write_profile"].text]
    for text in told:
        assert "RAW_SCPI" in text
        assert "known" in text
    assert "NO limit of the profile is checked" in tool.description
    assert "only the owner's bench file holds" in tool.description
