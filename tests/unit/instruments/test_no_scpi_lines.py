"""Lines to instruments that are no SCPI: an empty line acknowledges, another question names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from edged.clock import SystemClock
from edged.config.instruments import InstrumentEntry
from edged.discovery.visit import visiting
from edged.errors import ErrorCode, Failed, Invalid
from edged.instruments.conversation import (
    Conversation,
    Reply,
    abort_conversation,
    command_conversation,
    lines_conversation,
    program_conversation,
    raw_conversation,
)
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Changed
from edged.profiles.format.connection_facts import connection_facts, connection_of
from edged.profiles.match import parse_idn
from edged.profiles.model import (
    Command,
    Connection,
    ErrorCheck,
    Identify,
    Match,
    Probe,
    Profile,
)
from edged.runs.units import unit_of_identity, unit_of_instrument
from edged.scpi.kinds import ErrorKind
from edged.transports.visa import VisaLibrary
from tests.bench.lab import PROFILE, Lab
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.promises import promise

QUICK_S = 0.09
"""Under what would be waited for a line that may follow an empty one."""
OLD: Profile = replace(
    PROFILE,
    key="old",
    match=Match(),
    connection=Connection(
        timeout_ms=300,
        identify=Identify(ask="VERSION", expect="^BATH", serial="SN ([0-9]+)"),
        never_ask_idn=True,
        acknowledge="^$",
        unit_name="ACME,Bath",
    ),
)


def reporting(kind: ErrorKind, query: str) -> Profile:
    check = ErrorCheck(kind=kind, query=query)
    return replace(OLD, connection=replace(OLD.connection, errors=check))


WITH_QUEUE = reporting(ErrorKind.QUEUE, "ERR?")
WITH_REGISTER = reporting(ErrorKind.ESR, "*ESR?")


def answers(wire: LoopbackInstrument, serial: str = "12") -> None:
    wire.special |= {
        "VERSION": lambda: f"BATH 4.0 SN {serial}\n".encode(),
        "IN": lambda: b"21.5\n",
        "OUT 1": lambda: b"\n",
        "OUT 2": lambda: b"\n",
        "OFF": lambda: b"\n",
        "BAD": lambda: b"?BAD\n",
        "ERR?": lambda: b"0,None\n",
        "*ESR?": lambda: b"0\n",
    }


class Bench:
    def __init__(self, lab: Lab, instrument: Instrument, wire: LoopbackInstrument) -> None:
        self.lab, self.instrument, self.wire = lab, instrument, wire

    async def tell(self, make: Callable[[], Conversation[Reply]]) -> Reply:
        return await self.instrument.converse(make, timeout_s=3, name="told")

    async def write(self, *lines: str) -> Reply:
        connection = self.instrument.connection
        return await self.tell(
            lambda: raw_conversation(lines=lines, asks=False, connection=connection)
        )

    async def ask(self, line: str) -> str:
        connection = self.instrument.connection
        reply = await self.tell(
            lambda: raw_conversation(lines=(line,), asks=True, connection=connection)
        )
        return reply.answer or ""


@pytest.fixture
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    library = VisaLibrary(library="@py", clock=SystemClock())
    profile: Profile = getattr(request, "param", OLD)
    async with LoopbackInstrument() as wire:
        answers(wire)
        lab = Lab(library, (profile,))
        try:
            entry = InstrumentEntry(address=wire.address, profile=profile.key, timeout_ms=300)
            await lab.begin(entry)
            (instrument,) = lab.pool.all()
            yield Bench(lab, instrument, wire)
        finally:
            await lab.discovery.stop()
            await lab.pool.stop()
            library.close()


async def test_it_is_known_by_its_answer_and_the_serial_number_in_it(bench: Bench) -> None:
    assert bench.wire.received == ["VERSION"]
    identity = bench.instrument.identity
    assert (identity.manufacturer, identity.model, identity.serial) == ("ACME", "Bath", "12")


async def test_an_empty_line_acknowledges_at_once(bench: Bench) -> None:
    await bench.write("OUT 1")
    await bench.ask("IN")
    began = time.monotonic()
    for _ in range(5):
        await bench.write("OUT 1", "OUT 2")
    assert time.monotonic() - began < 10 * QUICK_S
    assert await bench.ask("IN") == "21.5"
    assert bench.instrument.summary()["warning"] == ""
    # Once for each header it is looked whether more follows; a write is never taken for a question.
    assert bench.wire.received.count("VERSION") <= 4


async def test_what_is_answered_by_a_complaint_is_the_instruments_error(bench: Bench) -> None:
    with pytest.raises(Failed) as failed:
        await bench.write("BAD")
    assert failed.value.code is ErrorCode.INSTRUMENT_ERROR
    assert "?BAD" in failed.value.message
    assert await bench.ask("IN") == "21.5"


@pytest.mark.parametrize("is_urgent", [False, True])
@pytest.mark.parametrize("bench", [WITH_QUEUE], indirect=True)
async def test_a_complaint_and_what_the_queue_says_of_it_belong_to_the_same_line(
    bench: Bench, is_urgent: bool
) -> None:
    queue: list[str] = []

    def refuse() -> bytes:
        queue.append("-113,Undefined header")
        return b"?BAD\n"

    bench.wire.special["BAD"] = refuse
    bench.wire.special["ERR?"] = lambda: f"{queue.pop() if queue else '0,None'}\n".encode()
    connection, command = bench.instrument.connection, Command(name="bad", scpi=("BAD",))
    with pytest.raises(Failed, match=r"\?BAD.*-113") as failed:
        await bench.tell(
            lambda: command_conversation(
                lines=("BAD",), command=command, connection=connection, is_urgent=is_urgent
            )
        )
    assert failed.value.code is ErrorCode.INSTRUMENT_ERROR
    await bench.write("OUT 1")  # which is not blamed for it


@pytest.mark.parametrize("bench", [OLD, WITH_QUEUE], indirect=True)
async def test_a_complaint_that_no_queue_tells_of_is_said_in_its_own_words(bench: Bench) -> None:
    with pytest.raises(Failed) as failed:
        await bench.write("BAD")
    # Who shows what the queue tells, else the message, must not show nothing.
    assert "errors" not in failed.value.data


@pytest.mark.parametrize("bench", [WITH_REGISTER], indirect=True)
async def test_the_register_that_a_program_reads_itself_is_not_read_after_a_complaint(
    bench: Bench,
) -> None:
    connection, at_first = bench.instrument.connection, bench.wire.received.count("*ESR?")
    with pytest.raises(Failed, match=r"\?BAD"):
        await bench.tell(
            lambda: program_conversation(
                line="BAD",
                data=b"BAD",
                asks=False,
                connection=connection,
                timeout_s=1,
                is_known=True,
            )
        )
    assert bench.wire.received.count("*ESR?") == at_first


async def test_a_write_that_is_not_acknowledged_has_failed(bench: Bench) -> None:
    del bench.wire.special["OUT 2"]
    with pytest.raises(Failed) as failed:
        await bench.write("OUT 2")
    assert failed.value.code is ErrorCode.TIMEOUT
    assert await bench.ask("IN") == "21.5"


async def test_aborts_and_last_words_are_acknowledged_too(bench: Bench) -> None:
    connection = bench.instrument.connection
    reply = await bench.instrument.converse(
        lambda: abort_conversation(("OUT 1", "OFF"), connection, [("IN",)]),
        timeout_s=3,
        name="abort",
    )
    assert reply.answers == ("21.5",)
    await bench.tell(lambda: lines_conversation(("OFF", "OUT 2"), connection))
    assert await bench.ask("IN") == "21.5"
    with pytest.raises(Failed, match=r"\?BAD"):
        await bench.tell(lambda: lines_conversation(("BAD", "OFF"), connection))
    assert bench.wire.received[-1] == "OFF", "all of it has gone out before anything is judged"


async def test_an_abort_that_is_refused_is_proved_by_its_questions_all_the_same(
    bench: Bench,
) -> None:
    connection = bench.instrument.connection
    with pytest.raises(Failed) as failed:
        await bench.instrument.converse(
            lambda: abort_conversation(("BAD", "OFF"), connection, [("IN",)]),
            timeout_s=3,
            name="abort",
        )
    assert failed.value.code is ErrorCode.INSTRUMENT_ERROR
    assert failed.value.data["answers"] == ["21.5"]
    assert failed.value.sent == ("BAD", "OFF", "IN")


async def test_the_answer_to_a_question_that_a_stop_cut_off_does_not_speak_for_the_stop(
    bench: Bench,
) -> None:
    """A thermostat told the set-point that it was asked for before, and then OK."""
    connection = bench.instrument.connection
    bench.wire.special["OFF"] = lambda: b"21.5\n\n"
    reply = await bench.instrument.converse(
        lambda: abort_conversation(("OFF",), connection, [("IN",)]), timeout_s=3, name="abort"
    )
    assert reply.answers == ("21.5",)
    bench.wire.special["OFF"] = lambda: b"21.5\n?OFF\n"
    with pytest.raises(Failed) as failed:
        await bench.tell(lambda: lines_conversation(("OFF",), connection))
    assert failed.value.code is ErrorCode.INSTRUMENT_ERROR


@pytest.mark.parametrize(
    "bench",
    [replace(OLD, connection=replace(OLD.connection, acknowledge=r"^\x06$"))],
    indirect=True,
)
async def test_a_control_character_acknowledges(bench: Bench) -> None:
    bench.wire.special["OUT 1"] = lambda: b"\x06\n"
    await bench.write("OUT 1")
    bench.wire.special["OUT 1"] = lambda: b"\x15\n"
    with pytest.raises(Failed) as failed:
        await bench.write("OUT 1")
    assert failed.value.code is ErrorCode.INSTRUMENT_ERROR


@promise("profile.never-asked-idn")
async def test_its_name_is_asked_by_its_own_question_after_time_outs_and_reconnects(
    bench: Bench,
) -> None:
    bench.wire.is_silent = True
    with pytest.raises(Failed):
        await bench.ask("IN")
    bench.wire.is_silent = False
    async with asyncio.timeout(10):
        while True:
            try:
                await bench.write("OUT 1")
                break
            except Failed:
                await asyncio.sleep(0.02)
    said = bench.wire.received
    assert said[said.index("IN") + 1] == "VERSION", "before anything is written"
    await bench.wire.unplug()
    await bench.lab.saw(Changed)
    await bench.wire.plug_in()
    async with asyncio.timeout(10):
        while not bench.instrument.is_connected:
            await asyncio.sleep(0.02)
    assert "IDN" not in "".join(said).upper()


async def test_another_serial_number_is_another_unit(bench: Bench) -> None:
    answers(bench.wire, serial="99")
    await bench.wire.unplug()
    await bench.wire.plug_in()
    async with asyncio.timeout(10):
        while not any(i.identity.serial == "99" for i in bench.lab.pool.all()):
            with pytest.raises(Failed):
                await bench.write("OUT 1")
            await asyncio.sleep(0.05)
    assert "OUT 1" not in bench.wire.received


@promise("profile.never-asked-idn")
async def test_idn_is_refused_on_the_line_itself(bench: Bench) -> None:
    for line in ("*IDN?", "*idn ?", "OUT 1;*IDN?"):
        with pytest.raises(Invalid, match="never_ask_idn"):
            await bench.ask(line)
    assert "IDN" not in "".join(bench.wire.received).upper()
    assert await bench.ask("IN") == "21.5"


@promise("profile.never-asked-idn")
async def test_a_visit_after_a_crash_knows_it_by_the_same_question(bench: Bench) -> None:
    """What the journal keeps of its connection is enough, and it is the same unit by it."""
    connection = connection_of(connection_facts(bench.instrument.connection))
    assert connection is not None
    library = VisaLibrary(library="@py", clock=SystemClock())
    said = len(bench.wire.received)
    async with visiting(
        bench.wire.address,
        open_link=library.open_link,
        connection=connection,
        clock=SystemClock(),
    ) as guest:
        idn = await guest.identify()
        answers_to = await guest.abort(("OFF",), [("IN",)])
    library.close()
    own = unit_of_instrument(bench.instrument).key
    assert unit_of_identity(parse_idn(idn), bench.instrument.id).key == own
    assert answers_to == ("21.5",)
    assert bench.wire.received[said:] == ["VERSION", "OFF", "VERSION", "IN"]


@promise("profile.never-asked-idn")
async def test_the_owner_may_forbid_it_for_a_unit_whose_profile_knows_it() -> None:
    library = VisaLibrary(library="@py", clock=SystemClock())
    async with LoopbackInstrument() as wire:
        lab = Lab(library)
        try:
            entry = InstrumentEntry(
                address=wire.address, profile="acme_psu1", timeout_ms=300, never_ask_idn=True
            )
            await lab.begin(entry)
            (instrument,) = lab.pool.all()
            assert instrument.profile is not None
            assert instrument.probe is None, "a heartbeat has nothing to ask"
            assert wire.received == ["HEAD OFF", "SYST:ERR?"]
        finally:
            await lab.discovery.stop()
            await lab.pool.stop()
            library.close()


async def test_a_dead_error_query_is_found_out_without_idn_too() -> None:
    library = VisaLibrary(library="@py", clock=SystemClock())
    connection = replace(
        OLD.connection,
        errors=ErrorCheck(kind=PROFILE.connection.errors.kind, query="STATUS"),
        probe=Probe(query="IN", expect="^2"),
    )
    async with LoopbackInstrument() as wire:
        answers(wire)
        lab = Lab(library, (replace(OLD, connection=connection),))
        try:
            await lab.begin(InstrumentEntry(address=wire.address, profile="old", timeout_ms=300))
            (instrument,) = lab.pool.all()
            assert "errors are not checked" in instrument.warning
            assert "IDN" not in "".join(wire.received).upper()
        finally:
            await lab.discovery.stop()
            await lab.pool.stop()
            library.close()
