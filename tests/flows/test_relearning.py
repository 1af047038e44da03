"""Units that are here, judged anew because profiles or the owner's bench file were changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from edged.clock import SystemClock
from edged.commands.target import Catalog
from edged.config.instruments import InstrumentEntry
from edged.discovery.loop import Discovery
from edged.discovery.registering import Knowledge
from edged.errors import NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.instruments.registration import RegistrationState
from edged.profiles.bench_file import BenchFile
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.model import Bound, Profile
from edged.profiles.unit_rules import UnitRules
from edged.tools.registry import ToolRegistry
from edged.transports.visa import VisaLibrary
from edged.yaml.tree import Mark
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.promises import promise

TEXT = """\
format: 1
profile_key: acme_psu1
manufacturer: Acme
model: PSU1
instrument_class: other
source: "a test"
match: {idn: 'acme,psu1\\b'}
connection: {timeout_ms: 500}
commands:
  set_level:
    scpi: "LEV {level}"
    parameters: {level: {type: float, min: 0, max: 10, unit: V}}
  read: {scpi: "MEAS?"}
"""


def profile(*changes: tuple[str, str]) -> Profile:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_profile(text)


def knowing(*profiles: Profile, units: dict[str, UnitRules] | None = None) -> Knowledge:
    library = ProfileLibrary(profiles={p.key: p for p in profiles})
    return Knowledge(library=library, bench=BenchFile(units=units or {}))


class House:
    """Three units of one model on real sockets, their tools, and how often those changed."""

    def __init__(self, visa: VisaLibrary, units: Sequence[LoopbackInstrument]) -> None:
        self.units = units
        self.pool = InstrumentPool(clock=SystemClock())
        self.catalog = Catalog()
        self.discovery = Discovery(
            self.pool,
            knowledge=knowing(),
            entries=[InstrumentEntry(address=unit.address) for unit in units],
            open_link=visa.open_link,
            clock=SystemClock(),
            rescan_interval_s=3600,
            gone_after_s=60,
        )
        self.tools = ToolRegistry(static=(), pool=self.pool, catalog=self.catalog)
        self.changes = 0
        self.tools.subscribe(self._count)

    def _count(self) -> None:
        self.changes += 1

    async def begin(self) -> None:
        await self.discovery.start()
        await self.discovery.first_look(20)
        assert len(self.pool.all()) == len(self.units)

    async def learn(self, knowledge: Knowledge) -> int:
        """Returns how often the set of tools changed by it."""
        before = self.changes
        await self.discovery.learn(knowledge, before=lambda: None)
        return self.changes - before

    def names(self) -> set[str]:
        return {tool.plain_name for tool in self.tools.tools()}

    def instruments(self) -> list[Instrument]:
        """By serial number: they answer in any order."""
        return sorted(self.pool.all(), key=lambda instrument: instrument.identity.serial)

    @property
    def first(self) -> Instrument:
        return self.instruments()[0]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    visa = VisaLibrary(clock=SystemClock())
    units = [LoopbackInstrument(idn=f"ACME,PSU1,A00{number},1.0") for number in range(3)]
    for unit in units:
        await unit.plug_in()
    house = House(visa, units)
    await house.begin()
    yield house
    await house.discovery.stop()
    await house.pool.stop()
    for unit in units:
        await unit.unplug()
    visa.close()


async def test_all_units_get_their_tools_in_one_change(house: House) -> None:
    assert house.first.registration is RegistrationState.LISTED
    assert await house.learn(knowing(profile())) == 1
    assert [i.registration for i in house.pool.all()] == [RegistrationState.REGISTERED] * 3
    assert house.names() == {"acme_psu1__set_level", "acme_psu1__read"}
    assert await house.learn(knowing(profile())) == 0
    assert await house.learn(knowing(profile(("  read:", "  look:")))) == 1
    assert house.names() == {"acme_psu1__set_level", "acme_psu1__look"}
    assert await house.learn(knowing()) == 1
    assert [i.registration for i in house.pool.all()] == [RegistrationState.LISTED] * 3
    assert house.names() == set()


async def test_a_name_still_never_comes_to_drive_another_unit(house: House) -> None:
    await house.learn(knowing(profile()))
    ours = {tool.name: tool.instrument_id for tool in house.tools.tools()}
    await house.learn(knowing(profile(("acme_psu1", "acme_other"))))
    await house.learn(knowing(profile()))
    again = {tool.name: tool.instrument_id for tool in house.tools.tools()}
    assert again == ours


async def test_an_alias_that_moves_is_found_at_the_other_unit_at_once(house: House) -> None:
    first, second, _ = house.instruments()
    for serial, unit in (("A000", first), ("A001", second), ("A000", first)):
        rules = UnitRules(key=serial, alias="heater")
        await house.learn(knowing(profile(), units={serial: rules}))
        assert house.pool.get("heater") is house.pool.get("HEATER") is unit
    await house.learn(knowing(profile()))
    with pytest.raises(NotFound):
        house.pool.get("heater")


async def test_what_the_owner_wrote_holds_at_once(house: House) -> None:
    await house.learn(knowing(profile()))
    marks = {"": Mark(path="bench.yaml", line=2, column=1)}
    rules = UnitRules(key="A000", limits={"set_level": {"level": Bound(max=5)}}, marks=marks)
    await house.learn(knowing(profile(), units={"A000": rules}))
    profiles = [unit.profile for unit in house.instruments() if unit.profile is not None]
    assert [p.commands["set_level"].parameters["level"].max for p in profiles] == [5, 10, 10]
    # An entry that fits no longer keeps the unit from being offered, until one of both is mended.
    wrong = replace(rules, limits={"set_level": {"level": Bound(max=50)}})
    await house.learn(knowing(profile(), units={"A000": wrong}))
    assert house.first.profile is None
    assert house.first.remark.startswith("Not offered: bench.yaml:2:1: ")


@promise("owner.asked-when-it-goes-out")
async def test_what_the_owner_writes_while_a_unit_is_being_asked_who_it_is_holds_for_it() -> None:
    visa = VisaLibrary(clock=SystemClock())
    async with LoopbackInstrument(idn="ACME,PSU1,A000,1.0") as unit:
        house = House(visa, [unit])
        marks = {"": Mark(path="bench.yaml", line=2, column=1)}
        limits = {"set_level": {"level": Bound(max=5)}}
        rules = UnitRules(key="A000", limits=limits, marks=marks)
        learning: list[asyncio.Task[int]] = []

        def told_meanwhile() -> bytes:
            if not learning:
                known = knowing(profile(), units={"A000": rules})
                learning.append(asyncio.ensure_future(house.learn(known)))
            return b"ACME,PSU1,A000,1.0\n"

        unit.special["*IDN?"] = told_meanwhile
        await house.discovery.learn(knowing(profile()), before=lambda: None)
        await house.begin()
        await learning[0]
        found = house.first.profile
        assert found is not None
        assert found.commands["set_level"].parameters["level"].max == 5
        await house.discovery.stop()
        await house.pool.stop()
    visa.close()


async def test_a_new_profiles_own_question_must_be_answered(house: House) -> None:
    house.units[0].special["LANG?"] = lambda: b"SCPI\n"
    house.units[1].special["LANG?"] = lambda: b"TSP\n"
    asking = profile(("timeout_ms: 500", 'timeout_ms: 500, probe: {query: "LANG?", expect: SCPI}'))
    await house.learn(knowing(asking))
    assert [bool(i.profile) for i in house.instruments()] == [True, False, False]
    assert "probe question" in house.instruments()[1].remark


async def test_what_it_wants_said_at_connection_is_said_now(house: House) -> None:
    await house.learn(knowing(profile()))
    greeting = profile(("timeout_ms: 500", 'timeout_ms: 500, on_connect: ["HEAD OFF"]'))
    await house.learn(knowing(greeting))
    for unit in house.units:
        async with unit.line_came:
            await unit.line_came.wait_for(lambda unit=unit: "HEAD OFF" in unit.received)


async def test_a_run_keeps_what_it_began_with_and_nobody_else_does(house: House) -> None:
    await house.learn(knowing(profile()))
    before = house.catalog.of(house.first)
    changed = knowing(profile(("max: 10", "max: 5")))
    await house.discovery.learn(
        changed, before=lambda: house.catalog.keep_for(["sweep-1"], house.pool.known())
    )
    assert house.catalog.of(house.first, "sweep-1") is before
    assert house.catalog.of(house.first, "sweep-2") is not before
    assert house.catalog.of(house.first).profile is house.first.profile
    # What the owner has limited since holds for it too, but for what leaves things safe at its end.
    house.first.rules = UnitRules(key="A000", limits={"set_level": {"level": Bound(max=3)}})
    narrower = house.catalog.of(house.first, "sweep-1")
    assert narrower.profile.commands["set_level"].parameters["level"].max == 3
    assert house.catalog.of(house.first, "sweep-1") is narrower
    assert house.catalog.of(house.first, "sweep-1", ends_work=True) is before
    house.first.rules = UnitRules()
    assert house.catalog.of(house.first, "sweep-1").profile == before.profile
    # At the next change it still has what it began with; once it is over, nothing is kept of it.
    house.catalog.keep_for(["sweep-1", "stream-1"], house.pool.known())
    assert house.catalog.of(house.first, "sweep-1", ends_work=True) is before
    house.catalog.keep_for([], house.pool.known())
    assert house.catalog.of(house.first, "sweep-1") is not before


async def test_what_makes_a_unit_safe_stays_known_when_its_profile_is_taken_away(
    house: House,
) -> None:
    known = profile(("commands:", "abort: ['LEV 0']\ncommands:"))
    await house.learn(knowing(known))
    await house.learn(knowing())
    assert house.first.profile is None
    assert house.first.safe_by is not None
    assert [step.send for step in house.first.safe_by.abort] == ["LEV 0"]
