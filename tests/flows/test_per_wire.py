"""Instruments whose line ends differ by wire, over a pty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.engine import running_engine
from tests.bench.pty_unit import PtyUnit, on_a_pty
from tests.promises import promise


@promise("instruments.per-wire")
@pytest.mark.parametrize("key", ["srs_sr830", "srs_sr844"])
def test_a_lock_in_that_ends_its_answers_with_a_carriage_return_works_by_rs_232(
    tmp_path: Path, key: str
) -> None:
    model = key.removeprefix("srs_").upper()
    answers = {
        "*IDN?": f"Stanford_Research_Systems,{model},s/n50066,ver1.07",
        "*ESR?": "0",
        "OUTP? 3": "1.25e-3",
    }
    unit = PtyUnit(answers=answers, takes=b"\n", ends="\r", baud_rate=9600)
    with on_a_pty(unit):
        config = {"INSTRUMENTS": [{"address": unit.address, "profile": key, "name": "lock_in"}]}
        with running_engine(tmp_path, sim=False, config=config) as engine:
            answer = engine.tool(
                "execute_command", instrument_id=unit.address, command_name="measure_r"
            )
    assert answer["is_error"] is False, answer
    assert answer["result"]["data"] == 1.25e-3
    assert "OUTX 0" in unit.heard
    assert "OUTX 1" not in unit.heard
