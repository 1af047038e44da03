"""A mistake of edged's own ends a sweep as failed, and what it swept is made safe."""

from __future__ import annotations

import pytest

from edged.runs.sweeps.ramp import Ramp
from tests.bench.driven_clock import DrivenClock
from tests.bench.sweep_bench import SweepHouse


@pytest.mark.parametrize(("broken", "is_held"), [("_readings", False), ("why_strayed", True)])
async def test_a_mistake_of_our_own_fails_a_sweep_and_runs_its_abort(
    driven_clock: DrivenClock, monkeypatch: pytest.MonkeyPatch, broken: str, *, is_held: bool
) -> None:
    async def bug(*_: object) -> None:
        raise KeyError("a bug")

    house = SweepHouse(driven_clock)
    sweep_id = await house.start()
    await driven_clock.advance(0.15)
    monkeypatch.setattr(Ramp, broken, bug)
    if is_held:
        await house.stop(sweep_id, hold=True)
    await driven_clock.advance(5)
    told = await house.status(sweep_id)
    assert told["status"] == "failed"
    assert f"edged made a mistake; its log has it under {sweep_id}." in told["error"]
    assert told["abort"]["state"] == "done"
    assert house.supply.aborts == [":OUTP CH1,OFF"]
    assert house.journal.open == {}
