"""Instruments that come, hang, change, go and come back, on loopback sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from edged.clock import SystemClock
from edged.config.instruments import InstrumentEntry
from edged.discovery.registering import Knowledge
from edged.errors import ErrorCode, Failed, NotFound
from edged.instruments.conversation import lines_conversation
from edged.instruments.line_state import LineState
from edged.instruments.mailbox import Priority
from edged.instruments.pool import Arrived, Changed, Left
from edged.profiles.bench_file import BenchFile
from edged.profiles.library import ProfileLibrary
from edged.profiles.model import (
    Connection,
    Match,
    Probe,
    Profile,
)
from edged.profiles.unit_rules import UnitRules
from edged.transports.visa import VisaLibrary
from tests.bench.lab import PROFILE, Lab
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.waiting import HANGS_S
from tests.promises import promise

MakeLab = Callable[..., Lab]


@pytest.fixture
async def make_lab() -> AsyncIterator[MakeLab]:
    library = VisaLibrary(clock=SystemClock())
    labs: list[Lab] = []

    def make(*profiles: Profile) -> Lab:
        labs.append(Lab(library, profiles or (PROFILE,)))
        return labs[-1]

    yield make
    for lab in labs:
        await lab.discovery.stop()
        await lab.pool.stop()
    library.close()


@pytest.fixture
async def psu() -> AsyncIterator[LoopbackInstrument]:
    async with LoopbackInstrument() as instrument:
        yield instrument


@promise("instruments.no-setting-changed")
async def test_registering_asks_who_it_is_and_changes_no_setting(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    psu.errors = ['-100,"somebody else\'s"']
    lab = make_lab()
    await lab.begin(psu)
    (instrument,) = lab.pool.all()
    assert psu.received == ["*IDN?", "HEAD OFF", "SYST:ERR?", "SYST:ERR?"]
    assert instrument.id == psu.address
    assert instrument.is_offered
    assert instrument.profile is not None
    assert instrument.profile.key == "acme_psu1"
    assert [type(event) for event in lab.events] == [Arrived]
    assert await lab.ask(instrument, "ECHO? 1") == "1"
    assert psu.connections == 1


async def test_a_summary_tells_what_list_instruments_shows(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    lab = make_lab()
    await lab.begin(InstrumentEntry(address=psu.address, name="left"))
    shown = lab.pool.get("left").summary()
    assert (
        shown
        | {
            "manufacturer": "ACME",
            "model": "PSU1",
            "serial": "A001",
            "alias": "left",
            "profile_name": "acme_psu1",
            "instrument_class": "power_supply",
            "is_connected": True,
            "line_state": "ready",
            "transport": "socket",
            "alternatives": [],
        }
        == shown
    )


@pytest.mark.parametrize("name", ["id", "left", "LEFT", "A001", "other spelling"])
async def test_an_instrument_is_found_by_every_name_it_has(
    make_lab: MakeLab, psu: LoopbackInstrument, name: str
) -> None:
    lab = make_lab()
    await lab.begin(InstrumentEntry(address=psu.address, name="left"))
    names = {"id": psu.address, "other spelling": psu.address.replace("TCPIP", "TCPIP0")}
    assert lab.pool.get(names.get(name, name)).address == psu.address
    with pytest.raises(NotFound) as caught:
        lab.pool.get("right")
    assert caught.value.code is ErrorCode.UNKNOWN_INSTRUMENT
    assert psu.address in caught.value.message


async def test_a_name_that_two_units_have_reaches_neither(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    async with LoopbackInstrument("ACME,PSU1,B002,1.0") as other:
        lab = make_lab()
        await lab.begin(
            InstrumentEntry(address=psu.address, name="left"),
            InstrumentEntry(address=other.address, name="Left"),
        )
        with pytest.raises(NotFound) as caught:
            lab.pool.get("left")
        assert caught.value.code is ErrorCode.UNKNOWN_INSTRUMENT
        assert set(caught.value.data["ids"]) == {psu.address, other.address}
        assert lab.pool.get("A001").address == psu.address
        assert lab.pool.get(other.address).address == other.address


async def test_a_name_stays_with_the_unit_that_had_it_first(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    lab = make_lab()
    await lab.begin(InstrumentEntry(address=psu.address, name="left"))
    first = lab.pool.get("left")
    await psu.unplug()
    psu.idn = "ACME,PSU1,B002,1.0"
    await psu.plug_in()
    second = await lab.saw(Arrived, times=2)
    assert second is not first
    assert second.alias == "left"
    assert lab.pool.get("left") is first
    await psu.unplug()
    psu.idn = first.idn
    await psu.plug_in()
    await lab.saw(Arrived, times=3)
    assert lab.pool.get("left") is first
    assert first.is_connected


async def test_an_instrument_without_a_profile_is_listed_and_reachable(
    make_lab: MakeLab,
) -> None:
    async with LoopbackInstrument("OTHER,THING,7,1") as thing:
        lab = make_lab()
        await lab.begin(thing)
        instrument = await lab.saw(Arrived)
        assert not instrument.is_offered
        assert instrument.is_connected
        assert instrument.summary()["profile_name"] == ""
        assert await lab.ask(instrument, "ECHO? x") == "x"


async def test_a_profile_can_be_named_by_the_owner(make_lab: MakeLab) -> None:
    async with LoopbackInstrument("OTHER,THING,7,1") as thing:
        lab = make_lab()
        await lab.begin(InstrumentEntry(address=thing.address, profile="acme_psu1"))
        assert (await lab.saw(Arrived)).is_offered


async def test_an_unknown_profile_that_the_owner_names_is_told_with_the_nearest(
    make_lab: MakeLab,
) -> None:
    why = 'names the profile acme_psu2, which does not exist. Did you mean "acme_psu1"?'
    async with LoopbackInstrument() as psu, LoopbackInstrument() as mute:
        mute.is_silent = True
        lab = make_lab()
        await lab.begin(
            InstrumentEntry(address=psu.address, profile="acme_psu2"),
            InstrumentEntry(address=mute.address, profile="acme_psu2", timeout_ms=100),
        )
        (instrument,) = lab.pool.all()
        assert why in instrument.summary()["remark"]
        assert why in lab.discovery.set_aside()[0]["reason"]


async def test_a_probe_question_that_is_answered_otherwise_rules_the_profile_out(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    probe = Probe(query="ECHO? TSP", expect="^SCPI$")
    connection = Connection(timeout_ms=2000, probe=probe)
    picky = Profile(
        key="picky",
        version=1,
        manufacturer="ACME",
        model="PSU1",
        instrument_class="dmm",
        source="test",
        match=Match(idn="acme,psu1"),
        commands={},
        connection=connection,
    )
    lab = make_lab(picky)
    await lab.begin(psu)
    instrument = await lab.saw(Arrived)
    assert instrument.profile is None
    assert "probe" in instrument.remark


@promise("instruments.set-aside")
async def test_a_device_that_hangs_is_set_aside_and_delays_no_other(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    async with LoopbackInstrument() as mute:
        mute.is_silent = True
        patient = make_lab()
        hung = InstrumentEntry(address=mute.address, timeout_ms=3_000_000)
        for entry in (hung, InstrumentEntry(address=psu.address)):
            patient.discovery.watch(entry)
        await patient.discovery.start()
        # The other is still being asked, and will be for an hour.
        await patient.saw(Arrived)
        assert [i.address for i in patient.pool.all()] == [psu.address]
        lab = make_lab()
        await lab.begin(InstrumentEntry(address=mute.address, timeout_ms=2000))
        (aside,) = lab.discovery.set_aside()
        assert aside["address"] == mute.address
        assert aside["is_set_aside"]
        assert "did not answer" in aside["reason"]
        mute.is_silent, mute.idn = False, "ACME,PSU1,A002,1.0"
        assert [found.address for found in await lab.discovery.scan()] == [mute.address]
        assert lab.discovery.set_aside() == []


async def test_what_is_no_instrument_is_set_aside(
    make_lab: MakeLab,
) -> None:
    async with LoopbackInstrument("HTTP/1.1 400 Bad Request") as web:
        lab = make_lab()
        await lab.begin(web)
        assert lab.pool.all() == ()
        assert "not an instrument" in lab.discovery.set_aside()[0]["reason"]


@pytest.mark.parametrize(
    "garbage",
    ["-ERR unknown command", "500 Syntax error", "login:", "0", 'ERROR,"what?"'],
)
async def test_a_port_that_never_says_who_it_is_is_set_aside(
    make_lab: MakeLab, garbage: str
) -> None:
    async with LoopbackInstrument(garbage) as port:
        lab = make_lab()
        await lab.begin(port)
        assert lab.pool.all() == ()
        assert port.received == ["*IDN?"] * 2
        assert "does not identify itself" in lab.discovery.set_aside()[0]["reason"]


async def test_a_port_that_echoes_is_set_aside_and_says_why(make_lab: MakeLab) -> None:
    async with LoopbackInstrument() as psu:
        psu.before = b"*IDN?\r\n"
        lab = make_lab()
        await lab.begin(psu)
        assert lab.pool.all() == ()
        assert "its echo must be switched off" in lab.discovery.set_aside()[0]["reason"]


async def test_an_odd_name_that_is_said_twice_is_a_name(make_lab: MakeLab) -> None:
    async with LoopbackInstrument("WIDGET 3000") as widget:
        lab = make_lab()
        await lab.begin(widget)
        (instrument,) = lab.pool.all()
        assert instrument.idn == "WIDGET 3000"
        assert instrument.profile is None


async def test_a_unit_behind_a_banner_registers_and_comes_back(make_lab: MakeLab) -> None:
    async with LoopbackInstrument() as psu:
        psu.banner = b"Welcome to Port Server 3, line 4\r\n\r\n"
        lab = make_lab()
        await lab.begin(psu)
        (instrument,) = lab.pool.all()
        assert instrument.idn == psu.idn
        assert instrument.is_offered
        for number in range(2):
            assert await lab.ask(instrument, f"ECHO? {number}") == str(number)
            await psu.unplug()
            await psu.plug_in()
        assert await lab.ask(instrument, "ECHO? again") == "again"


@pytest.mark.parametrize(("before", "after"), [(b"\n", b""), (b"", b"\n"), (b"\r\n", b"\r\n")])
async def test_a_unit_that_sends_empty_lines_with_each_answer_works(
    make_lab: MakeLab, before: bytes, after: bytes
) -> None:
    async with LoopbackInstrument() as psu:
        psu.before, psu.after = before, after
        lab = make_lab()
        await lab.begin(psu)
        (instrument,) = lab.pool.all()
        for number in range(20):
            assert await lab.ask(instrument, f"ECHO? {number}") == str(number)
        assert psu.connections == 1


async def test_an_address_that_refuses_shows_nothing_until_it_answers(
    make_lab: MakeLab, free_port: Callable[[], int]
) -> None:
    port = free_port()
    lab = make_lab()
    await lab.begin(InstrumentEntry(address=f"TCPIP::127.0.0.1::{port}::SOCKET"))
    assert lab.pool.all() == ()
    assert not lab.discovery.set_aside()[0]["is_set_aside"]
    async with LoopbackInstrument(port=port):
        assert (await lab.saw(Arrived)).is_offered


@pytest.mark.parametrize("address", ["nonsense", "USB0::1::2::3::INSTR"])
async def test_an_address_that_cannot_be_opened_is_told_and_harms_nobody(
    make_lab: MakeLab, psu: LoopbackInstrument, address: str
) -> None:
    lab = make_lab()
    await lab.begin(InstrumentEntry(address=address), psu)
    assert len(lab.pool.all()) == 1
    assert lab.discovery.set_aside()[0]["address"] == address
    assert await lab.discovery.scan() == []


async def test_an_address_given_twice_is_one_line(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    lab = make_lab()
    await lab.begin(psu, InstrumentEntry(address=psu.address.replace("TCPIP", "tcpip0")))
    assert psu.connections == 1
    assert len(lab.pool.all()) == 1


@promise("instruments.gone-stays-listed")
async def test_an_instrument_that_goes_loses_its_tools_and_gets_them_back(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    lab = make_lab()
    await lab.begin(psu)
    instrument = await lab.saw(Arrived)
    await psu.unplug()
    await lab.saw(Changed)
    assert not instrument.is_connected
    assert instrument.is_offered
    await lab.saw(Left)
    assert not instrument.is_offered
    assert lab.pool.all() == (instrument,)
    with pytest.raises(Failed) as caught:
        await lab.ask(instrument, "ECHO? 1")
    assert caught.value.code is ErrorCode.DISCONNECTED
    await psu.plug_in()
    assert await lab.saw(Arrived, 2) is instrument
    assert instrument.is_offered
    assert await lab.ask(instrument, "ECHO? 2") == "2"


@promise("scan.waits-for-the-absent")
async def test_a_scan_waits_for_units_that_are_away_and_gives_those_that_came_back(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    lab = make_lab()
    await lab.begin(psu)
    instrument = await lab.saw(Arrived)
    await psu.unplug()
    await lab.saw(Left)
    assert await lab.discovery.scan() == []
    # Long enough that it is looked for by itself only seconds later.
    assert await lab.discovery.scan() == []
    await psu.plug_in()
    assert await lab.discovery.scan() == [instrument]
    assert await lab.discovery.scan() == []
    assert await lab.ask(instrument, "ECHO? 2") == "2"


@promise("scan.waits-for-the-absent")
async def test_a_scan_waits_for_a_silent_unit_while_it_is_being_asked_who_it_is(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    lab = make_lab()
    await lab.begin(psu)
    instrument = await lab.saw(Arrived)
    psu.is_silent = True
    with pytest.raises(Failed):
        await lab.ask(instrument, "ECHO? 1")
    await lab.saw(Left)
    # Its line is open: only the unit at its end does not answer.
    await psu.heard("*IDN?", psu.received.count("*IDN?") + 1)
    assert not instrument.is_connected
    assert instrument.line_state is not LineState.LOST
    psu.is_silent = False
    assert await lab.discovery.scan() == [instrument]


async def test_an_instrument_without_a_profile_that_goes_is_told_once(make_lab: MakeLab) -> None:
    async with LoopbackInstrument("OTHER,THING,7,1") as thing:
        lab = make_lab()
        await lab.begin(thing)
        await thing.unplug()
        instrument = await lab.saw(Left)
        assert [type(event) for event in lab.events] == [Arrived, Changed, Left]
        assert not instrument.is_offered


async def test_a_short_absence_keeps_the_tools(make_lab: MakeLab, psu: LoopbackInstrument) -> None:
    lab = make_lab()
    await lab.begin(psu)
    instrument = await lab.saw(Arrived)
    await psu.unplug()
    await psu.plug_in()
    assert await lab.ask(instrument, "ECHO? 2") == "2"
    assert [type(event) for event in lab.events] == [Arrived]


@promise("instruments.never-another-unit")
async def test_another_unit_at_the_address_is_another_instrument(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    lab = make_lab()
    await lab.begin(psu)
    first = await lab.saw(Arrived)
    await psu.unplug()
    psu.idn = "ACME,PSU1,A777,1.0"
    await psu.plug_in()
    second = await lab.saw(Arrived, 2)
    assert second is not first
    assert second.identity.serial == "A777"
    assert second.id != first.id
    before = len(psu.received)
    for priority in (Priority.COMMAND, Priority.SAFE):
        with pytest.raises(Failed) as caught:
            await first.converse(
                lambda: lines_conversation(("OUTP ON",), Connection()),
                priority=priority,
                timeout_s=2,
                name="out",
            )
        assert caught.value.code is ErrorCode.DISCONNECTED
    assert psu.received[before:] == []
    assert await lab.ask(second, "ECHO? 1") == "1"
    await psu.unplug()
    psu.idn = "ACME,PSU1,A001,1.0"
    await psu.plug_in()
    assert await lab.saw(Arrived, 3) is first
    assert await lab.ask(first, "ECHO? 3") == "3"
    assert not second.is_connected


@promise("instruments.one-unit-two-addresses")
async def test_a_unit_at_two_addresses_is_one_instrument_that_fails_over(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    async with LoopbackInstrument() as again:
        lab = make_lab()
        await lab.begin(InstrumentEntry(address=psu.address, timeout_ms=2000, name="psu"))
        instrument = await lab.saw(Arrived)
        lab.discovery.watch(InstrumentEntry(address=again.address, timeout_ms=2000, name="PSU"))
        await lab.saw(Changed)
        assert instrument.alternatives == (again.address,)
        assert lab.pool.all() == (instrument,)
        await psu.unplug()
        while instrument.address != again.address:
            lab.news.clear()
            async with asyncio.timeout(HANGS_S):
                await lab.news.wait()
        assert await lab.ask(instrument, "ECHO? 1") == "1"
        assert instrument.alternatives == (psu.address,)
        assert instrument.id == psu.address


async def test_two_names_of_the_owner_are_two_units_though_they_tell_one_serial_number(
    make_lab: MakeLab,
) -> None:
    async with LoopbackInstrument() as one, LoopbackInstrument() as other:
        lab = make_lab()
        await lab.begin(
            InstrumentEntry(address=one.address, name="left"),
            InstrumentEntry(address=other.address, name="right"),
        )
        await lab.saw(Arrived, 2)
        for name, unit in (("left", one), ("right", other)):
            assert lab.pool.get(name).address == unit.address
            assert lab.pool.get(name).alternatives == ()
        await one.unplug()
        with pytest.raises(Failed):
            await lab.ask(lab.pool.get("left"), "ECHO? x")
        assert "ECHO? x" not in other.received
        await one.plug_in()
        async with asyncio.timeout(HANGS_S):
            while not lab.pool.get("left").is_connected:
                await asyncio.sleep(0.05)
        assert await lab.ask(lab.pool.get("left"), "ECHO? y") == "y"
        assert len(lab.pool.known()) == 2


@promise("units.twins")
async def test_two_hosts_that_tell_one_serial_number_are_never_each_others_line(
    make_lab: MakeLab,
) -> None:
    async with LoopbackInstrument() as one, LoopbackInstrument(host="127.0.0.2") as other:
        lab = make_lab()
        await lab.begin(one, other)
        await lab.saw(Arrived, 2)
        first, second = lab.pool.get(one.address), lab.pool.get(other.address)
        assert first is not second
        assert (first.alternatives, second.alternatives) == ((), ())
        for unit, twin in ((first, second), (second, first)):
            warning = unit.summary()["warning"]
            assert f"It and {twin.address} have the same serial number A001" in warning
        with pytest.raises(NotFound) as caught:
            lab.pool.get("A001")
        assert set(caught.value.data["ids"]) == {first.id, second.id}
        await one.unplug()
        for road in ("command", "safe"):
            with pytest.raises(Failed):
                await first.converse(
                    lambda: lines_conversation(("VOLT 7",), first.connection),
                    priority=Priority.SAFE if road == "safe" else Priority.COMMAND,
                    timeout_s=1,
                    name="write",
                    is_repeatable=road == "safe",
                )
        await lab.saw(Left)
        assert "VOLT 7" not in other.received
        # Also while the first is away its number is not the second's name.
        with pytest.raises(NotFound):
            lab.pool.get("A001")


@promise("units.twins")
async def test_a_unit_that_comes_back_at_another_host_is_a_new_one(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    """It may have moved, or be its twin: nobody can tell, so no name moves with it."""
    async with LoopbackInstrument(host="127.0.0.2") as elsewhere:
        lab = make_lab()
        await lab.begin(psu)
        first = await lab.saw(Arrived)
        assert lab.pool.get("A001") is first
        await psu.unplug()
        await lab.saw(Left)
        lab.discovery.watch(InstrumentEntry(address=elsewhere.address, timeout_ms=2000))
        second = await lab.saw(Arrived, 2)
        assert second is not first
        assert second.id == elsewhere.address
        with pytest.raises(NotFound):
            lab.pool.get("A001")
        with pytest.raises(Failed):
            await lab.ask(lab.pool.get(psu.address), "ECHO? 1")
        assert "ECHO? 1" not in elsewhere.received


@promise("units.owner-joins")
async def test_two_hosts_are_one_unit_where_the_owner_gives_both_one_name(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    async with LoopbackInstrument(host="127.0.0.2") as again:
        lab = make_lab()
        await lab.begin(
            InstrumentEntry(address=psu.address, timeout_ms=2000, name="psu"),
            InstrumentEntry(address=again.address, timeout_ms=2000, name="psu"),
        )
        await lab.saw(Changed)
        (instrument,) = lab.pool.all()
        assert {instrument.address, *instrument.alternatives} == {psu.address, again.address}
        assert instrument.summary()["warning"] == ""


async def test_two_entries_for_one_host_are_two_units_unless_they_have_one_name(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    async with LoopbackInstrument() as again:
        lab = make_lab()
        await lab.begin(psu, again)
        await lab.saw(Arrived, 2)
        assert [unit.alternatives for unit in lab.pool.all()] == [(), ()]


@promise("units.hosts-resolved")
async def test_a_host_by_its_name_and_by_its_number_is_one(make_lab: MakeLab) -> None:
    async with LoopbackInstrument() as one, LoopbackInstrument() as again:
        by_name = again.address.replace("127.0.0.1", "localhost")
        lab = make_lab()
        lab.bus.plug(by_name)
        await lab.begin(one)
        await lab.saw(Changed)
        (instrument,) = lab.pool.all()
        assert {instrument.address, *instrument.alternatives} == {one.address, by_name}


@promise("units.owners-names")
async def test_no_unit_answers_to_the_name_of_another_that_is_away(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    """Its serial number spells the name that the owner gave to the other."""
    async with LoopbackInstrument("ACME,PSU1,LEFT,1.0") as spelling:
        lab = make_lab()
        lab.bus.plug(spelling.address)
        left = InstrumentEntry(address=psu.address, timeout_ms=2000, name="left")
        await lab.begin(left)
        await lab.saw(Arrived, 2)
        owners = lab.pool.get(psu.address)
        assert lab.pool.get("left") is lab.pool.get("LEFT") is owners
        await psu.unplug()
        await lab.saw(Left)
        assert lab.pool.get("left") is owners
        with pytest.raises(Failed):
            await lab.ask(lab.pool.get("Left"), "ECHO? 1")
        assert "ECHO? 1" not in spelling.received
        assert lab.pool.get(spelling.address).identity.serial == "LEFT"


@promise("units.owners-names")
@pytest.mark.parametrize("giver", ["INSTRUMENTS", "bench.yaml"])
async def test_no_unit_answers_to_the_name_of_another_that_was_never_met(
    make_lab: MakeLab, psu: LoopbackInstrument, giver: str
) -> None:
    psu.idn = "ACME,PSU1,LEFT,1.0"
    lab = make_lab()
    if giver == "INSTRUMENTS":
        lab.discovery.watch(InstrumentEntry(address="TCPIP::127.0.0.9::1::SOCKET", name="left"))
    else:
        rules = UnitRules(key="A001", alias="left")
        knowledge = Knowledge(library=ProfileLibrary(), bench=BenchFile(units={"A001": rules}))
        await lab.discovery.learn(knowledge, lambda: None)
    await lab.begin(psu)
    await lab.saw(Arrived)
    with pytest.raises(NotFound, match="the name that the owner of this bench gave to") as caught:
        lab.pool.get("left")
    assert caught.value.code is ErrorCode.UNKNOWN_INSTRUMENT
    assert lab.pool.get(psu.address).identity.serial == "LEFT"


async def test_units_without_a_serial_number_are_told_apart_by_address(make_lab: MakeLab) -> None:
    async with LoopbackInstrument("ACME,PSU1,0,1") as one, LoopbackInstrument(one.idn) as two:
        lab = make_lab()
        await lab.begin(one, two)
        assert len(lab.pool.all()) == 2


async def test_control_characters_in_a_name_are_not_shown(make_lab: MakeLab) -> None:
    async with LoopbackInstrument("ACME\x1b[31m,PSU1\x07,A\x00001,1.0" + "x" * 999) as odd:
        lab = make_lab()
        await lab.begin(odd)
        shown = lab.pool.all()[0].summary()
        assert all(str(value).isprintable() for value in shown.values())
        assert max(len(str(value)) for value in shown.values()) <= 300


async def test_stopping_leaves_no_thread_though_one_address_hangs(
    make_lab: MakeLab, psu: LoopbackInstrument
) -> None:
    psu.is_silent = True
    lab = make_lab()
    lab.discovery.watch(InstrumentEntry(address=psu.address, timeout_ms=3_000_000))
    await lab.discovery.start()
    await psu.heard("*IDN?")
    async with asyncio.timeout(HANGS_S):
        await lab.discovery.stop()
        await lab.pool.stop()
