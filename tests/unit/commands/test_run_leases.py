"""The lease of a run with a plan: all of its units or none, for as long as the plan says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from edged.actions.action import Purpose, RunCommand
from edged.actions.caller import Caller, Route
from edged.commands.leases import LeaseControl
from edged.commands.preconditions import Leased
from edged.commands.target import Target
from edged.errors import Conflict, ErrorCode, Failed, Invalid
from edged.profiles.unit_rules import OnExpiry, UnitRules
from edged.sharing.leases import Lease, Leases
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.fake_instruments import FakeInstrument, FakePool

ALICE = Caller(route=Route.DIRECT, session_id="1", client="alice")
BOB = Caller(route=Route.DIRECT, session_id="2", client="bob")


class Rows:
    """``LeaseRows`` of a disk that can be full."""

    def __init__(self) -> None:
        self.left: tuple[Lease, ...] = ()
        self.left_fences: Mapping[str, int] = {}
        self.is_full = False

    def note(self, leases: Collection[Lease], fences: Mapping[str, int]) -> None:
        self.left, self.left_fences = tuple(leases), fences

    async def keep(self, leases: Collection[Lease], fences: Mapping[str, int]) -> None:
        if self.is_full:
            raise Failed("The disk is full.", code=ErrorCode.STORE_FAILED)
        self.note(leases, fences)


class KnownPool(FakePool):
    def known(self) -> tuple[FakeInstrument, ...]:
        return self.all()


class Lab:
    def __init__(self, clock: DrivenClock, rows: Rows | None = None) -> None:
        self.units = {
            name: FakeInstrument(id=name, profile=None, serial=name) for name in ("psu1", "smu1")
        }
        self.rows = rows or Rows()
        self.ended: list[tuple[str, bool]] = []
        leases = Leases(most_s=100)
        bench = bench_of(clock, store={"leases": self.rows}, pool=KnownPool(*self.units.values()))
        self.control = LeaseControl(
            bench,
            leases=leases,
            wrappers=lambda: ("cam",),
            end_run=self.end_run,
            on_change=lambda: None,
        )
        self.leased = Leased(leases, clock)

    async def end_run(self, run_id: str, is_held: bool) -> None:
        self.ended.append((run_id, is_held))

    def may_write(self, caller: Caller, name: str, *, run_id: str = "", **more: Any) -> bool:
        action = RunCommand(
            tool="x",
            caller=replace(caller, on_behalf_of=run_id),
            action_id="a",
            instrument_id=name,
            command_name="c",
            purpose=more.pop("purpose", Purpose.CALL),
        )
        given: dict[str, Any] = {"instrument": self.units[name], "is_write": True, **more}
        try:
            self.leased.permit(action, Target(**given))
        except Conflict:
            return False
        return True


@pytest.fixture
def lab(driven_clock: DrivenClock) -> Lab:
    return Lab(driven_clock)


async def test_while_a_run_has_its_units_only_the_run_writes_there(lab: Lab) -> None:
    lease_id = await lab.control.take("exp-1", ALICE, ["psu1", "smu1"], 5)

    assert lab.may_write(ALICE, "psu1", run_id="exp-1")
    assert not lab.may_write(ALICE, "psu1")
    assert not lab.may_write(replace(ALICE, lease=lease_id), "smu1")
    assert not lab.may_write(BOB, "smu1")
    for passing in ({"is_safe": True}, {"is_write": False}, {"purpose": Purpose.ABORT}):
        assert lab.may_write(BOB, "psu1", **passing)

    lab.control.pause("exp-1", True)
    assert lab.may_write(ALICE, "psu1")
    assert not lab.may_write(BOB, "psu1")
    lab.control.pause("exp-1", False)
    assert not lab.may_write(ALICE, "psu1")

    lab.control.end("exp-1")
    lab.control.end("exp-1")
    assert lab.may_write(BOB, "psu1")
    assert lab.control.listed() == []


async def test_a_run_lasts_longer_than_other_leases_and_what_the_owner_says_ends_it(
    lab: Lab, driven_clock: DrivenClock
) -> None:
    lab.units["smu1"].rules = UnitRules(key="smu1", on_expiry=OnExpiry.ABORT)
    await lab.control.take("exp-1", ALICE, ["psu1", "smu1"], 2)
    driven_clock.move(7_000)
    assert not lab.may_write(BOB, "psu1")
    assert lab.control.run_on(lab.units["smu1"]) == "exp-1"

    await lab.control.break_("psu1", reason="needed", by="owner")
    await settle()

    assert lab.ended == [("exp-1", False)]
    assert lab.may_write(BOB, "psu1")


async def test_a_run_that_takes_longer_than_its_plan_says_has_its_units_no_more(
    lab: Lab, driven_clock: DrivenClock
) -> None:
    await lab.control.take("exp-1", ALICE, ["psu1"], 2)
    driven_clock.move(7_200)
    assert lab.may_write(BOB, "psu1")


async def test_of_units_that_somebody_has_or_a_run_sets_none_is_given(lab: Lab) -> None:
    await lab.control.reserve(BOB, ["smu1"], ttl_s=60, purpose="burn-in")
    with pytest.raises(Conflict, match="smu1 is reserved by bob for 'burn-in'"):
        await lab.control.take("exp-1", ALICE, ["psu1", "smu1"], 1)
    assert lab.may_write(BOB, "psu1")

    lab.control.run_began("sweep-1", "psu1", ALICE)
    with pytest.raises(Conflict, match="psu1 is held by sweep-1"):
        await lab.control.take("exp-1", ALICE, ["psu1"], 1)
    lab.control.run_ended("sweep-1")
    assert lab.may_write(BOB, "psu1")


@pytest.mark.parametrize("hours", [0, -1, 169, float("nan")])
async def test_a_run_reserves_for_a_week_at_most(lab: Lab, hours: float) -> None:
    with pytest.raises(Invalid, match="at most 168 h"):
        await lab.control.take("exp-1", ALICE, ["psu1"], hours)
    await lab.control.take("exp-1", ALICE, ["psu1", "cam"], 168)


async def test_a_lease_that_cannot_be_written_down_is_not_given(lab: Lab) -> None:
    lab.rows.is_full = True
    with pytest.raises(Failed, match="full"):
        await lab.control.take("exp-1", ALICE, ["psu1"], 1)
    assert lab.may_write(BOB, "psu1")
    assert lab.control.run_on(lab.units["psu1"]) == ""


@pytest.mark.parametrize("runs", [(), ("exp-1",)])
async def test_it_survives_a_restart_only_if_its_run_does(
    lab: Lab, driven_clock: DrivenClock, runs: tuple[str, ...]
) -> None:
    await lab.control.take("exp-1", ALICE, ["psu1"], 1)
    await lab.control.reserve(BOB, ["smu1"], ttl_s=60, purpose="")
    again = Lab(driven_clock, lab.rows)

    again.control.start(runs)

    assert again.may_write(BOB, "psu1") is (runs == ())
    assert again.may_write(BOB, "smu1")
    assert not again.may_write(ALICE, "smu1")
    again.control.end("exp-1")
    assert again.may_write(BOB, "psu1")
    await again.control.stop()
