"""Lockout: in force at once, work stopped, writes refused with the reason, reads and safe pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edged.actions.action import Purpose, RunCommand, SendScpi
from edged.actions.caller import Caller, Route
from edged.commands.lockout import LockoutControl
from edged.commands.preconditions import locked_out
from edged.commands.resolve import Resolver
from edged.commands.target import Catalog, Target
from edged.errors import ErrorCode, Failed, NotFound, Refused
from edged.profiles.match import Identity
from tests.bench.context import bench_of
from tests.bench.fake_instruments import FakeInstrument as ToySupply
from tests.bench.fake_instruments import FakePool, toy_profile
from tests.bench.store_bench import StoreBench, running_store
from tests.promises import promise

ADDRESS = "TCPIP::192.168.1.9::5555::SOCKET"


class FakeInstrument:
    id = called = ADDRESS
    identity = Identity(manufacturer="Rigol", model="DP832", serial="S1", firmware="1")


class Twin(FakeInstrument):
    id = called = ADDRESS.replace("1.9", "1.10")


class LockedPool:
    def __init__(self, *, has_twin: bool = False) -> None:
        self.all = (FakeInstrument(), Twin()) if has_twin else (FakeInstrument(),)

    def get(self, name: str) -> Any:
        found = self.bearers(name)
        if len(found) != 1:
            raise NotFound(f"There is no instrument {name!r}.")
        return found[0]

    def bearers(self, name: str) -> tuple[Any, ...]:
        if name == "S1":
            return self.all
        return tuple(i for i in self.all if name == i.id or (name, i.id) == ("psu", ADDRESS))

    def alike(self, _instrument: Any) -> tuple[Any, ...]:
        return self.all


class Rooms:
    def __init__(self, store: StoreBench, *, has_twin: bool = False) -> None:
        self.store = store
        self.stopped: list[str] = []
        self.was_in_force: list[bool] = []
        self.dispatcher = LockoutControl(
            bench_of(
                store.clock,
                store={"lockouts": store.lockouts},
                pool=LockedPool(has_twin=has_twin),
            ),
            stop_on=(self.stop_streams, self.stop_badly),
            is_wrapper=lambda _name: False,
        )
        self.hold = locked_out(lambda instrument: store.lockouts.find(instrument.id))

    async def stop_streams(self, instrument_id: str) -> list[str]:
        self.stopped.append(instrument_id)
        self.was_in_force.append(self.store.lockouts.find(instrument_id) is not None)
        return ["mcp-1"]

    async def stop_badly(self, instrument_id: str) -> list[str]:
        raise Failed("The line is gone.")


@pytest.fixture
async def rooms(tmp_path: Path) -> AsyncIterator[Rooms]:
    async with running_store(tmp_path / "edged.db") as store:
        yield Rooms(store)


def act(purpose: Purpose = Purpose.CALL) -> RunCommand:
    return RunCommand(
        tool="execute_command",
        caller=Caller(route=Route.DIRECT),
        action_id="a1",
        instrument_id="psu",
        command_name="set_voltage",
        purpose=purpose,
    )


def aim(*, is_write: bool) -> Target:
    return Target(instrument=FakeInstrument(), is_write=is_write)  # type: ignore[arg-type]


@promise("lockout.stops-first")
async def test_it_is_in_force_before_what_runs_is_stopped_and_says_what_was(rooms: Rooms) -> None:
    told = await rooms.dispatcher.set("psu", reason="probe in the fixture", by="anna")
    assert rooms.was_in_force == [True]
    assert told["instrument_id"] == ADDRESS
    assert (told["stopped"], told["failures"]) == (["mcp-1"], ["The line is gone."])
    assert told["is_present"]
    assert told["is_persisted"]


@promise("lockout.refuses-writes")
async def test_writes_are_refused_with_the_reason_and_reads_pass(rooms: Rooms) -> None:
    await rooms.dispatcher.set("psu", reason="probe in the fixture", by="anna")
    with pytest.raises(Refused, match="locked out by anna: probe in the fixture") as refused:
        rooms.hold(act(), aim(is_write=True))
    assert refused.value.code is ErrorCode.LOCKED_OUT
    rooms.hold(act(), aim(is_write=False))


async def test_what_ends_running_work_passes(rooms: Rooms) -> None:
    await rooms.dispatcher.set("psu", reason="r", by="anna")
    for purpose in (Purpose.FINALLY_STEP, Purpose.ABORT):
        rooms.hold(act(purpose), aim(is_write=True))
    with pytest.raises(Refused):
        rooms.hold(act(Purpose.SWEEP_STEP), aim(is_write=True))


async def test_cleared_by_alias_or_id_it_holds_nothing_back(rooms: Rooms) -> None:
    await rooms.dispatcher.set(ADDRESS, reason="r", by="anna")
    assert [lock["by"] for lock in rooms.dispatcher.list()] == ["anna"]
    await rooms.dispatcher.clear("psu")
    rooms.hold(act(), aim(is_write=True))
    with pytest.raises(NotFound, match="is not locked out"):
        await rooms.dispatcher.clear("psu")


@promise("units.shared-lockout")
@pytest.mark.parametrize("name", ["S1", "psu", Twin.id])
async def test_a_lockout_holds_for_all_that_tell_the_serial_number(rooms: Rooms, name: str) -> None:
    both = Rooms(rooms.store, has_twin=True)
    told = await both.dispatcher.set(name, reason="r", by="anna")
    assert sorted(told["instrument_ids"]) == sorted(both.stopped) == sorted((ADDRESS, Twin.id))
    find, unit = rooms.store.lockouts.find, told["unit"]
    for known in (ADDRESS, Twin.id):
        assert find(known, unit) is not None
        assert find("elsewhere", unit.upper()) is not None
    assert len(rooms.store.lockouts.all()) == 1
    assert (await both.dispatcher.clear("S1"))["still_locked"] == []
    assert rooms.store.lockouts.all() == ()


@promise("units.shared-lockout")
async def test_lifting_ones_own_lockout_leaves_that_of_another_person_in_force(
    rooms: Rooms,
) -> None:
    both = Rooms(rooms.store, has_twin=True)
    await both.dispatcher.set(ADDRESS, reason="hands", by="anna")
    await both.dispatcher.set(Twin.id, reason="hands", by="bert")
    told = await both.dispatcher.clear(ADDRESS)
    assert [lock["by"] for lock in told["still_locked"]] == ["bert"]
    assert rooms.store.lockouts.find(ADDRESS, told["unit"]) is not None


async def test_an_address_where_nothing_answers_may_be_locked_out_but_no_misspelt_name(
    rooms: Rooms,
) -> None:
    told = await rooms.dispatcher.set("TCPIP::10.0.0.7::5025::SOCKET", reason="r", by="anna")
    assert not told["is_present"]
    with pytest.raises(NotFound):
        await rooms.dispatcher.set("psv", reason="r", by="anna")


async def test_on_a_full_disk_it_is_in_force_and_says_that_it_is_not_written_down(
    rooms: Rooms,
) -> None:
    await rooms.store.fill_the_disk()
    async with asyncio.timeout(10):
        for number in range(200):
            told = await rooms.dispatcher.set("psu", reason="x" * 400 + str(number), by="anna")
            if not told["is_persisted"]:
                break
            rooms.store.audit.event("filler", "x" * 4000)
    assert not told["is_persisted"]
    assert "disk is full" in told["remark"]
    with pytest.raises(Refused):
        rooms.hold(act(), aim(is_write=True))


@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ("*IDN?", True),
        (":MEAS?", True),
        (":OUTP OFF", True),
        ("*STB?;:MEAS?;:OUTP OFF", True),
        (":OUTP ON", False),
        ("*IDN?;:OUTP ON", False),
        (":MEAS:ON?", False),
        (":FOO?", False),
        (":FOO OFF", False),
    ],
)
async def test_raw_scpi_passes_where_it_only_reads_or_makes_safe(
    rooms: Rooms, line: str, passes: bool
) -> None:
    await rooms.dispatcher.set("psu", reason="r", by="anna")
    supply = FakeInstrument()
    action = SendScpi(
        tool="send_scpi",
        caller=Caller(route=Route.DIRECT),
        action_id="a1",
        instrument_id="psu",
        scpi=line,
    )
    pool = FakePool(ToySupply(id=ADDRESS, profile=toy_profile(), alias="psu"))
    resolver = Resolver(pool=pool, catalog=Catalog())
    target = replace(resolver.raw(action), instrument=supply)  # type: ignore[arg-type]
    assert target.is_write, "its intent is recorded all the same"
    if passes:
        rooms.hold(action, target)
    else:
        with pytest.raises(Refused):
            rooms.hold(action, target)
