"""What a lease keeps out of a unit: others' calls, and what others' runs write there."""

from __future__ import annotations

import pytest

from edged.actions.action import Purpose, RunCommand
from edged.actions.caller import Caller, Route
from edged.commands.preconditions import Leased, holder_of
from edged.commands.target import Target, moment
from edged.errors import Conflict
from edged.runs.units import unit_of_instrument
from edged.sharing.leases import Leases
from tests.bench.driven_clock import DrivenClock
from tests.bench.sweep_bench import SweepHouse
from tests.promises import promise

ALICE = Caller(route=Route.DIRECT, session_id="1")
BOB = Caller(route=Route.DIRECT, session_id="2")


def step(caller: Caller, purpose: Purpose) -> RunCommand:
    return RunCommand(
        tool="start_stream",
        caller=caller.nested(tool="start_stream", scope="read", on_behalf_of="mcp-1"),
        action_id="a",
        instrument_id="psu1",
        command_name="read",
        purpose=purpose,
    )


@promise("lease.every-road")
@pytest.mark.parametrize(
    "purpose", [Purpose.STREAM_POINT, Purpose.MEASURE, Purpose.SEQUENCE_STEP, Purpose.SWEEP_STEP]
)
def test_what_a_run_writes_is_kept_out_of_a_unit_that_somebody_else_reserved_meanwhile(
    driven_clock: DrivenClock, purpose: Purpose
) -> None:
    leases = Leases(most_s=1000)
    leased, supply = Leased(leases, driven_clock), SweepHouse(driven_clock).supply
    writing = Target(instrument=supply, is_write=True)
    unit = unit_of_instrument(supply).key
    permit = leased.permit(step(ALICE, purpose), writing)
    lease = leases.reserve(
        [unit], holder=holder_of(BOB), purpose="", ttl_s=60, now=moment(driven_clock)
    )
    for _ in ("judged", "about to go out"):
        with pytest.raises(Conflict, match="reserved by"):
            leased.permit(step(ALICE, purpose), writing)
        with pytest.raises(Conflict, match="reserved by"):
            leased.check_again(step(ALICE, purpose), writing, permit)
    leased.permit(step(ALICE, purpose), Target(instrument=supply))
    leased.permit(step(ALICE, Purpose.FINALLY_STEP), writing)
    leased.permit(step(BOB, purpose), writing)
    leases.end(lease.lease_id, now=moment(driven_clock))
    # It goes on though its lease has ended, as long as nobody else has the unit.
    leased.permit(step(ALICE, purpose), writing)
    leased.check_again(step(ALICE, purpose), writing, permit)
