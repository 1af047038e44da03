"""Answers of instruments that nobody described: all of what came, or an error that shows it."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edged.errors import ErrorCode, Failed
from edged.instruments import dialogue
from edged.profiles.frames import Frame
from edged.profiles.model import Connection, ListAnswer, ScalarAnswer, WaveformAnswer
from edged.scpi.kinds import AnswerType
from edged_sim.wires.stream import WireKind
from tests.bench.fault_proxy import How, Spoil
from tests.bench.loopback_instrument import IDN
from tests.bench.paced_unit import End, PacedUnit, Piece, slowly
from tests.bench.roads import Roads
from tests.bench.usb_backend import UsbInstrument, usb_bus
from tests.bench.waiting import HANGS_S, OwnTime
from tests.bench.wired import NETWORK, SIMULATED, Lines, Wired, wired
from tests.promises import promise

T_S = 0.4
SHORT = Connection(timeout_ms=400, encoding="latin-1")
PATIENT = Connection(timeout_ms=10_000, encoding="latin-1")
"""For answers that come: a busy machine is no reason for a time-out."""
MESSAGES = (WireKind.VXI11, WireKind.HISLIP, WireKind.PROLOGIX)
STREAMS = (WireKind.SOCKET, WireKind.SERIAL)
TEXT = ScalarAnswer(type=AnswerType.STRING)
NUMBER = ScalarAnswer(type=AnswerType.FLOAT)
BYTES = WaveformAnswer(data="B?", dtype="u1")
SLOW_S = 10.0
"""What a busy machine takes besides."""


@asynccontextmanager
async def paced(connection: Connection = PATIENT) -> AsyncIterator[tuple[PacedUnit, Roads]]:
    async with PacedUnit() as unit:
        lines = Lines()
        try:
            yield unit, Roads(lines.open(unit.address, IDN, connection), connection)
        finally:
            await lines.close()


@asynccontextmanager
async def on_wire(
    kind: WireKind, connection: Connection = PATIENT
) -> AsyncIterator[tuple[Wired, Roads]]:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            yield bench, Roads(lines.open(bench.address, bench.idn, connection), connection)
        finally:
            await lines.close()


async def is_in_step(roads: Roads) -> bool:
    return await roads.line.ask("ECHO? 42") == "42"


async def is_back(roads: Roads, question: str, answer: str) -> bool:
    """Whether it answers again, once its line has been recovered."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            return await roads.line.ask(question) == answer
        except Failed:
            await asyncio.sleep(0.1)
    return False


# Lines that come later than at once


LATE = [b"1.5\n", 0.02, b"2.5\n"]


@pytest.fixture
def long_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is listened to for so long that 20 ms of a busy machine are far below it."""
    for name in ("QUIET_S", "STRAY_LINE_S", "LONGEST_SOON_S"):
        monkeypatch.setattr(dialogue, name, 1.0)


@promise("answer.whole")
@pytest.mark.usefixtures("long_quiet")
async def test_a_second_line_that_comes_a_little_later_is_no_success_with_the_first() -> None:
    async with paced() as (unit, roads):
        unit.paced["V?"] = LATE
        for _ in range(3):
            with pytest.raises(Failed, match=r'"1\.5 2\.5", which has 2 lines') as refused:
                await roads.raw("V?")
            assert refused.value.code is ErrorCode.BAD_ANSWER
            for form in (TEXT, NUMBER):
                with pytest.raises(Failed, match="has 2 lines"):
                    await roads.typed("V?", form)
            assert await is_in_step(roads)


@promise("answer.whole")
@pytest.mark.usefixtures("long_quiet")
async def test_lines_at_the_pace_of_a_slow_serial_port_are_all_of_an_answer() -> None:
    rows: list[Piece] = []
    for number in range(5):
        rows += [b"%d.5,0\n" % number, 0.02]
    async with paced() as (unit, roads):
        unit.paced["FORM?"] = rows
        whole = b"".join(piece for piece in rows if isinstance(piece, bytes))
        assert await roads.program("FORM?") == whole
        with pytest.raises(Failed, match="has 5 lines"):
            await roads.typed("FORM?", TEXT)
        assert len(await roads.typed("FORM?", ListAnswer(lines=5))) == 10
        assert len(await roads.typed("FORM?", ListAnswer(lines=None))) == 10
        with pytest.raises(Failed, match="has 5 lines"):
            await roads.typed("FORM?", ListAnswer(lines=4))
        assert await is_in_step(roads)


@promise("answer.unasked")
async def test_a_line_that_comes_much_later_is_told_by_the_next_raw_line() -> None:
    async with paced() as (unit, roads):
        unit.paced["V?"] = [b"1.5\n", 0.2, b"2.5\n"]
        reply = await roads.raw("V?")
        assert reply.answer == "1.5"
        await asyncio.sleep(0.4)
        unit.paced["A?"] = [b"7\n"]
        reply = await roads.raw("A?")
        assert reply.answer == "7"
        assert reply.unasked == (("V?", b"2.5\n"),)


# Binary data


DATA = b"\n\r\x00#15;abc\n1;2\n\x00\n"
BLOCK = b"#2%d" % len(DATA) + DATA


@promise("answer.whole")
@pytest.mark.usefixtures("long_quiet")
async def test_a_block_of_unknown_length_lasts_to_its_last_line_end() -> None:
    data = b"ab\ncd\x00\n\ne"
    async with paced() as (unit, roads):
        for pieces in ([b"#0" + data + b"\n"], [b"#0ab\n", 0.02, b"cd\x00\n", 0.02, b"\ne\n"]):
            unit.paced["B?"] = pieces
            assert await roads.captured("B?", BYTES) == data
            assert await roads.program("B?") == b"#0" + data + b"\n"
            form = Frame(BYTES)
            assert await roads.program("B?", form=form) == b"#0" + data + b"\n"
            assert await is_in_step(roads)


@promise("answer.whole")
@pytest.mark.usefixtures("long_quiet")
@pytest.mark.parametrize("pause_s", [0.0, 0.004])
async def test_a_block_may_come_byte_by_byte_and_hold_what_looks_like_ends(pause_s: float) -> None:
    async with paced() as (unit, roads):
        for end in (b"\n", b"", b"\r\n"):
            unit.paced["B?"] = slowly(BLOCK + end, pause_s)
            assert await roads.captured("B?", BYTES) == DATA
            assert await roads.program("B?") == BLOCK + end
            assert (await roads.raw("B?")).answer == BLOCK.decode("latin-1")
            assert await is_in_step(roads)


@promise("answer.whole")
async def test_a_block_behind_a_header_comes_whole_to_a_program_whatever_its_pauses() -> None:
    # Tektronix with HEADer ON: the answer does not begin with the block.
    head = b":CURVE #216"
    async with paced() as (unit, roads):
        unit.paced["CURV?"] = [head + b"ab\ncd", 0.12, b"efg", 0.12, b"hijklmnop\n"]
        assert await roads.program("CURV?") == head + b"ab\ncdefghijklmnop\n"
        assert await is_in_step(roads)


@promise("answer.whole")
@pytest.mark.parametrize("kind", SIMULATED)
async def test_an_empty_block_is_empty(kind: WireKind) -> None:
    async with on_wire(kind) as (bench, roads):
        for answer in (b"#10\n", b"#10", b"#3000\n", b"#10\r\n"):
            bench.special[b"B?"] = answer
            assert await roads.captured("B?", BYTES) == b""
            assert await roads.program("B?") == answer
            assert await roads.typed("B?", TEXT) == ""
            assert await roads.typed("B?", ListAnswer()) == []
            assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.whole")
@pytest.mark.parametrize("kind", SIMULATED)
async def test_a_block_whose_length_stands_in_brackets_is_read(kind: WireKind) -> None:
    # Rohde & Schwarz, for a gigabyte and more: the length has ten digits then.
    async with on_wire(kind) as (bench, roads):
        for answer in (b"#(%d)" % len(DATA) + DATA + b"\n", b"#(%010d)" % len(DATA) + DATA):
            bench.special[b"B?"] = answer
            assert await roads.captured("B?", BYTES) == DATA
            assert await roads.program("B?") == answer
            assert await roads.line.ask("*IDN?") == bench.idn


@pytest.mark.parametrize("kind", SIMULATED)
async def test_a_block_of_another_kind_is_not_looked_for_in_its_data(kind: WireKind) -> None:
    # HP 8753 FORM1 to FORM3: two bytes of length behind "#A"; what looks like a head is data.
    async with on_wire(kind) as (bench, roads):
        data = struct.pack(">H", 12) + b"ab#15hello\x00\x01"
        bench.special[b"B?"] = b"#A" + data
        with pytest.raises(Failed, match="#A") as refused:
            await roads.captured("B?", BYTES)
        assert refused.value.code in {ErrorCode.BAD_ANSWER, ErrorCode.TIMEOUT}
        assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.as-described")
@pytest.mark.parametrize("kind", SIMULATED)
async def test_what_stands_behind_a_block_is_told(kind: WireKind) -> None:
    async with on_wire(kind) as (bench, roads):
        bench.special[b"B?"] = b"#15hello;1.5\n"
        with pytest.raises(Failed, match="more") as refused:
            await roads.captured("B?", BYTES)
        assert refused.value.code is ErrorCode.BAD_ANSWER
        assert await roads.program("B?") == b"#15hello;1.5\n"
        with pytest.raises(Failed, match="hello"):
            await roads.typed("B?", NUMBER)
        assert (await roads.raw("B?")).answer == "#15hello;1.5"
        assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.as-described")
@pytest.mark.usefixtures("long_quiet")
async def test_what_comes_a_little_behind_a_block_is_told_too() -> None:
    async with paced() as (unit, roads):
        for pieces in ([b"#15hello", 0.02, b";1.5\n"], [b"#15hello\n", 0.02, b"1.5\n"]):
            unit.paced["B?"] = pieces
            with pytest.raises(Failed, match="more"):
                await roads.captured("B?", BYTES)
            assert await is_in_step(roads)


# What a line without a question mark is answered by


@promise("answer.unasked")
@pytest.mark.parametrize("kind", SIMULATED)
@pytest.mark.parametrize(
    "answer",
    [b"R+1.25\n", b"R+1.25\r\n", b"1\n2\n3\n", b"\x00\x00\x01\x02\x00\n", b"#15he\nlo\n"],
)
async def test_a_program_reads_what_its_write_is_answered_by(kind: WireKind, answer: bytes) -> None:
    async with on_wire(kind) as (bench, roads):
        bench.special[b"TARM SGL"] = answer
        for _ in range(2):
            reply = await roads.written("TARM SGL")
            came = b"".join(data for line, data in reply.unasked or () if line == "TARM SGL")
            assert (came or await roads.listened("TARM SGL")) == answer
            assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.unasked")
@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("answer", [b"R+1.25", b"\x00\x01\x02\x03", b"1\n2", b"#15he\nlo", b"OK\r"])
async def test_a_program_reads_no_line_end_that_was_not_sent(kind: WireKind, answer: bytes) -> None:
    async with on_wire(kind) as (bench, roads):
        bench.special[b"TARM SGL"] = answer
        for _ in range(2):
            reply = await roads.written("TARM SGL")
            came = b"".join(data for line, data in reply.unasked or () if line == "TARM SGL")
            assert (came or await roads.listened("TARM SGL")) == answer
            assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.unasked")
@promise("answer.whole")
@pytest.mark.usefixtures("long_quiet")
@pytest.mark.parametrize(
    "pieces",
    [
        [b"R+1", 0.15, b".25\n"],
        [b"R+1.25", 0.15, b"\r\n"],
        slowly(b"R+1.25\r\n", 0.03),
        [0.02, b"1\n2\n3", 0.15, b"\n"],
        [b"#15he", 0.15, b"\nlo\n"],
        [piece for _ in range(40) for piece in (b"7" * 9_999 + b",", 0.005)] + [b"8\n"],
    ],
)
async def test_what_a_write_is_answered_by_in_pieces_is_whole(pieces: Sequence[Piece]) -> None:
    async with paced() as (unit, roads):
        unit.paced["print(t)"] = pieces
        whole = b"".join(piece for piece in pieces if isinstance(piece, bytes))
        for _ in range(2):
            reply = await roads.written("print(t)")
            came = b"".join(data for line, data in reply.unasked or () if line == "print(t)")
            assert (came or await roads.listened("print(t)")) == whole
            assert await is_in_step(roads)


@promise("answer.unasked")
@pytest.mark.parametrize("kind", SIMULATED)
async def test_an_answer_that_comes_late_to_a_write_is_noticed_beside_other_work(
    kind: WireKind,
) -> None:
    async with on_wire(kind) as (bench, roads):
        bench.special[b"TARM SGL"] = b"R+1.25\n"
        actor = roads.line.actor
        for bench.late_s in (0.0, 0.4):
            reply = await roads.written("TARM SGL")
            assert reply.came == (b"" if bench.late_s else b"R+1.25\n")
        async with asyncio.timeout(HANGS_S):
            while not actor.has_overheard("TARM SGL"):
                await asyncio.sleep(0.05)
        assert await roads.listened("TARM SGL") == b"R+1.25\n"
        assert not actor.has_overheard("TARM SGL")
        bench.late_s = 0.0
        assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.unasked")
async def test_a_late_answer_is_not_given_to_the_same_line_written_again() -> None:
    async with paced() as (unit, roads):
        unit.paced["R1"] = [0.3, b"1\n"]
        assert (await roads.written("R1")).came == b""
        await asyncio.sleep(0.5)
        unit.paced["R1"] = [b"2\n"]
        again = await roads.written("R1")
        assert again.came == b"2\n"
        assert again.unasked == (("R1", b"1\n"), ("R1", b"2\n"))
        assert await is_in_step(roads)


# An instrument that hangs


async def outcome_of(asked: Awaitable[Any]) -> tuple[Any, str]:
    """What a call gave, or the message of its failure."""
    try:
        return await asked, ""
    except Failed as failed:
        return None, failed.message


HANGS: dict[str, Sequence[Piece]] = {
    "silent": [],
    "half": [b"1.2"],
    "half, then closed": [b"1.2", End.CLOSE],
    "half, then reset": [b"1.2", 0.05, End.RESET],
    "closed": [End.CLOSE],
    "reset": [End.RESET],
    "endless": [End.ENDLESS],
    "trickle": [End.TRICKLE],
    "trickle in a block": [b"#9000100000", End.TRICKLE],
    "half a block": [b"#3500abc"],
    "half a block, then closed": [b"#3500abc", End.CLOSE],
    "half a block, then reset": [b"#3500abc", 0.05, End.RESET],
    "empty lines": [b"\n" * 200, End.TRICKLE],
    "lines without end": [b"1\n", 0.01] * 250,
}


@promise("line.recovery-bounded")
@pytest.mark.parametrize("road", ["typed", "raw", "program", "list", "captured", "written"])
@pytest.mark.parametrize("hang", HANGS)
async def test_whatever_hangs_ends_in_time_and_shows_what_came(
    hang: str, road: str, request: pytest.FixtureRequest
) -> None:
    if (hang, road) == ("lines without end", "list"):
        request.getfixturevalue("long_quiet")
    async with paced(SHORT) as (unit, roads):
        unit.paced["B?"] = unit.paced["B"] = HANGS[hang]
        asks: dict[str, Callable[[], Awaitable[Any]]] = {
            "typed": lambda: roads.typed("B?", NUMBER),
            "raw": lambda: roads.raw("B?"),
            "program": lambda: roads.program("B?"),
            "list": lambda: roads.typed("B?", ListAnswer(lines=None)),
            "captured": lambda: roads.captured("B?", BYTES),
            "written": lambda: roads.written("B"),
        }
        for is_again in (False, True):
            with OwnTime() as own:
                told, message = await outcome_of(asks[road]())
                took_s = own.seconds()
            if road == "list" and hang == "lines without end" and not message:
                # They are so many, and each is there in time.
                assert len(told) == 250
                break
            assert took_s < T_S + 1.0 + SLOW_S, (hang, road, took_s)
            assert message or road in {"written", "program", "raw"}, told
            # On a busy machine its line may still be recovering when it is asked again.
            is_recovering = is_again and "is being recovered" in message
            assert "nothing came" not in message or hang == "silent" or is_recovering, message
            if message and hang.startswith("half"):
                assert "1.2" in message or "#3500abc" in message, message
        unit.paced.clear()
        assert await is_back(roads, "ECHO? 42", "42")


@promise("answer.bytes-came")
@pytest.mark.parametrize("kind", NETWORK)
@pytest.mark.parametrize("how", [How.CUT, How.RESET, How.HANG, How.LOSE, How.SPLIT])
async def test_an_answer_that_is_cut_off_by_the_network_ends_in_time(
    kind: WireKind, how: How
) -> None:
    # Byte by byte it is not cut off: a busy machine must not make it so.
    connection = PATIENT if how is How.SPLIT else SHORT
    async with on_wire(kind, connection) as (bench, roads):
        proxy = bench.proxy
        assert proxy is not None
        bench.special[b"B?"] = b"1.25\n"
        assert await Roads(roads.line, PATIENT).typed("B?", NUMBER) == 1.25
        proxy.always = Spoil(how, seconds=0.001)
        for _ in range(2):
            with OwnTime() as own:
                try:
                    told = await roads.typed("B?", NUMBER)
                except Failed:
                    assert how is not How.SPLIT
                else:
                    assert told == 1.25
                    assert how is How.SPLIT
                assert own.seconds() < connection.timeout_ms / 1000 + 1.0 + SLOW_S
        await proxy.heal()
        assert await is_back(roads, "*IDN?", bench.idn)


@promise("answer.whole")
@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("kind", NETWORK)
async def test_a_link_that_was_closed_while_idle_is_made_anew_by_the_first_call(
    kind: WireKind, *, asks: bool
) -> None:
    # pyvisa-py issue 285.
    async with on_wire(kind) as (bench, roads):
        assert bench.proxy is not None
        bench.special[b"B?"] = b"1.25\n"
        assert await roads.typed("B?", NUMBER) == 1.25
        for _ in range(3):
            bench.proxy.close_all()
            await asyncio.sleep(0.05)
            if asks:
                assert await roads.typed("B?", NUMBER) == 1.25
            else:
                await roads.written("VOLT 1")
        assert await roads.typed("B?", NUMBER) == 1.25


# Line ends


@pytest.mark.parametrize(
    ("end", "wanted"),
    [
        ("\n", "\n"),
        ("\n", "\r\n"),
        ("\n", "\n\r"),
        ("\r", "\r"),
        ("\n", "\r\n\x00"),
        ("\n", "\n\n"),
    ],
)
@pytest.mark.parametrize("kind", SIMULATED)
async def test_line_ends_of_all_kinds_are_no_part_of_an_answer(
    kind: WireKind, end: str, wanted: str
) -> None:
    # Who waited for more than has come would wait as long as that.
    connection = Connection(timeout_ms=round(HANGS_S * 1000), read_termination=end)
    async with on_wire(kind, connection) as (bench, roads):
        bench.special[b"V?"] = b"1.5" + wanted.encode()
        bench.special[b"*IDN?"] = bench.idn.encode() + wanted.encode()
        for _ in range(3):
            began = time.monotonic()
            assert await roads.typed("V?", NUMBER) == 1.5
            assert (await roads.raw("V?")).answer == "1.5"
            assert await roads.typed("V?", TEXT) == "1.5"
            assert time.monotonic() - began < HANGS_S / 2


DIGITS = "0123456789" * 7


@promise("answer.whole")
@pytest.mark.parametrize("aligns", [True, False])
@pytest.mark.parametrize("more", [1, 2, 3, 4, 7, 16])
async def test_no_text_that_usbtmc_does_not_announce_is_dropped(more: int, *, aligns: bool) -> None:
    # pyvisa-py issues 449 and 465.
    with usb_bus() as bus:
        unit = bus.plug(UsbInstrument())
        unit.aligns = aligns
        lines = Lines()
        try:
            roads = Roads(lines.open(unit.address, unit.idn, PATIENT), PATIENT)
            unit.special["D?"] = f"{DIGITS}\n".encode
            for _ in range(2):
                unit.unannounced = more
                assert await roads.typed("D?", TEXT) == DIGITS
                unit.unannounced = more
                assert await roads.program("D?") == f"{DIGITS}\n".encode()
        finally:
            await lines.close()


@promise("answer.whole")
async def test_usbtmc_gives_blocks_and_pieces_whole() -> None:
    with usb_bus() as bus:
        unit = bus.plug(UsbInstrument())
        lines = Lines()
        try:
            roads = Roads(lines.open(unit.address, unit.idn, PATIENT), PATIENT)
            for answer in (BLOCK + b"\n", BLOCK, b"#10\n", b"#10", b"#0ab\n\n"):
                unit.special["B?"] = lambda data=answer: data  # type: ignore[misc]
                for fault in ("", "pieces"):
                    unit.faults.extend([fault] * 2)
                    data = b"ab\n" if answer.startswith(b"#0") else answer.rstrip(b"\n")[4:]
                    if answer[:4] == BLOCK[:4]:
                        data = DATA
                    assert await roads.captured("B?", BYTES) == data
                    assert await roads.program("B?") == answer
                    unit.faults.clear()
                    assert await roads.line.ask("ECHO? 7") == "7"
            for answer in (b"", b"\n"):
                unit.special["B?"] = lambda data=answer: data  # type: ignore[misc]
                with pytest.raises(Failed):
                    await Roads(roads.line, SHORT).typed("B?", NUMBER)
                assert await roads.line.ask("ECHO? 7", timeout_s=20) == "7"
        finally:
            await lines.close()
