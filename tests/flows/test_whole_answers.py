"""Answers that are more, less or other than one line of text, on every wire that is simulated."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import (
    Conversation,
    Reply,
    command_conversation,
    program_conversation,
    raw_conversation,
)
from edged.instruments.mailbox import Priority
from edged.profiles.answers import parse_answer
from edged.profiles.frames import Frame
from edged.profiles.model import Command, Connection, ScalarAnswer, WaveformAnswer
from edged.scpi.kinds import AnswerType
from edged_sim.wires.stream import WireKind
from tests.bench.loopback_instrument import IDN, LoopbackInstrument
from tests.bench.usb_backend import UsbInstrument, usb_bus
from tests.bench.wired import SIMULATED, Line, Lines, wired
from tests.promises import promise

MESSAGES = (WireKind.VXI11, WireKind.HISLIP, WireKind.PROLOGIX)
STREAMS = (WireKind.SOCKET, WireKind.SERIAL)
LINES = "".join(f"{point}.5E-01,0\n" for point in range(11))
SHORT = Connection(timeout_ms=3000, encoding="latin-1")


async def hold(line: Line, make: Callable[[], Conversation[Reply]]) -> Reply:
    return await line.actor.converse(
        make, unit=1, priority=Priority.COMMAND, timeout_s=8.0, name="test"
    )


async def raw(line: Line, text: str) -> str | None:
    lines = (text,)
    reply = await hold(line, lambda: raw_conversation(lines=lines, asks=True, connection=SHORT))
    return reply.answer


async def typed(line: Line, text: str, returns: ScalarAnswer) -> Any:
    command = Command(name="get", scpi=(text,), is_query=True, returns=returns)
    reply = await hold(
        line,
        lambda: command_conversation(
            lines=(text,),
            command=command,
            connection=SHORT,
            read=lambda answer: parse_answer(returns, answer).value,
        ),
    )
    return reply.value


async def program(line: Line, text: str, **more: Any) -> bytes:
    reply = await hold(
        line,
        lambda: program_conversation(
            line=text,
            data=text.encode(),
            asks=True,
            connection=SHORT,
            timeout_s=3.0,
            is_known=False,
            **more,
        ),
    )
    assert reply.block is not None
    return bytes(reply.block)


BYTES = (
    b"\x00\x00\x01\x02\x00\n",
    b"\x00\x00\xc0\x3f" + struct.pack("<3f", 0.0, 2.0, 3.0),
    b"\r\n\x00\x01\r",
    b"\x00A\x00B\n",
    b"1.5",
    b"1.5\r\n",
)


@promise("answer.whole")
@pytest.mark.parametrize("kind", MESSAGES)
async def test_a_program_gets_every_byte_where_the_wire_marks_the_end(kind: WireKind) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            for answer in BYTES:
                bench.special[b"B?"] = answer
                assert await program(line, "B?") == answer
                # Also where a profile takes it for a block, and none came.
                form = Frame(WaveformAnswer(data="B?", dtype="f4"))
                assert await program(line, "B?", form=form) == answer
            for answer in BYTES[:4]:
                bench.special[b"B?"] = answer
                text = await raw(line, "B?")
                assert text is not None
                assert text.encode("latin-1") == answer.removesuffix(b"\n")
        finally:
            await lines.close()


@promise("answer.whole")
@pytest.mark.parametrize("kind", STREAMS)
async def test_bytes_in_front_of_a_line_end_are_kept_where_no_wire_marks_the_end(
    kind: WireKind,
) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            bench.special[b"B?"] = BYTES[0]
            assert await program(line, "B?") == BYTES[0]
            assert await raw(line, "B?") == "\x00\x00\x01\x02\x00"
        finally:
            await lines.close()


@promise("answer.whole")
@pytest.mark.parametrize("kind", SIMULATED)
async def test_an_answer_of_several_lines_is_never_its_first_line(kind: WireKind) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            bench.special[b"FORM?"] = LINES.encode()
            for extra in (0, 2):
                returns = ScalarAnswer(type=AnswerType.STRING, extra_lines=extra)
                with pytest.raises(Failed, match="has 11 lines") as refused:
                    await typed(line, "FORM?", returns)
                assert refused.value.code is ErrorCode.BAD_ANSWER
                assert "1.5E-01" in refused.value.message
            assert await program(line, "FORM?") == LINES.encode()
            if kind in MESSAGES:
                assert await raw(line, "FORM?") == LINES.strip()
            else:
                with pytest.raises(Failed, match="has 11 lines where one was due") as refused:
                    await raw(line, "FORM?")
                assert refused.value.data["answer"].strip() == LINES.strip()
            bench.special[b"FORM?"] = b"4\n5\n"
            assert await typed(line, "FORM?", ScalarAnswer(type=AnswerType.INT, extra_lines=1)) == 4
            # What follows is asked and answered as ever.
            assert await line.ask("*IDN?") == bench.idn
        finally:
            await lines.close()


class Slow(LoopbackInstrument):
    """Answers ``1TP`` later than it is quiet after other answers."""

    async def _answer_to(self, line: str) -> bytes:
        if line != "1TP":
            return await super()._answer_to(line)
        await asyncio.sleep(0.15)
        return b"1TP0.5\n"


class HangsUp(LoopbackInstrument):
    """Ends the connection behind the answer to ``TWO?``."""

    async def _answer(self, line: str, writer: asyncio.StreamWriter) -> None:
        await super()._answer(line, writer)
        if line == "TWO?":
            writer.close()


@promise("answer.whole")
async def test_what_an_instrument_says_before_it_hangs_up_is_looked_at_too() -> None:
    async with HangsUp() as unit:
        lines = Lines()
        try:
            line = lines.open(unit.address, IDN, SHORT)
            for answer in (b"1\n2\n", b"1\n"):
                unit.special["TWO?"] = lambda data=answer: data  # type: ignore[misc]
                if answer == b"1\n":
                    assert await raw(line, "TWO?") == "1"
                else:
                    with pytest.raises(Failed, match="has 2 lines"):
                        await raw(line, "TWO?")
                assert await line.ask("ECHO? 5") == "5"
        finally:
            await lines.close()


UNENDED = (
    (b"1.5", '3 bytes came, and no line end: "1.5".* ended in 5'),
    (b"1.5\r", r'4 bytes came, and no line end: "1\.5\\x0d".*LF was waited for.* ended in CR'),
    (b"\x00\x01\x02", r'"\\x00\\x01\\x02"'),
    (b"x" * 200, '200 bytes came.*"x{80}"…'),
    (b"#3500abc", '8 bytes came of a block of 505: "#3500abc"'),
)


@promise("answer.bytes-came")
@pytest.mark.parametrize("kind", STREAMS)
async def test_a_time_out_shows_the_bytes_that_came_and_the_likely_cause(kind: WireKind) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            for answer, told in UNENDED:
                bench.special[b"V?"] = answer
                with pytest.raises(Failed, match=told) as late:
                    await raw(line, "V?")
                assert late.value.code is ErrorCode.TIMEOUT
                assert late.value.sent == ("V?",)
                assert "nothing came" not in late.value.message
                came = [one for one in line.actor.exchanges() if one.direction == "received"]
                assert came[-1].data == answer
            bench.special[b"V?"] = b""
            with pytest.raises(Failed, match="nothing came before the time limit"):
                await raw(line, "V?")
        finally:
            await lines.close()


@promise("answer.bytes-came")
@pytest.mark.parametrize("kind", SIMULATED)
async def test_a_block_is_whole_without_a_line_end_behind_it(kind: WireKind) -> None:
    block = b"#15he\nlo"
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            for answer in (block, block.replace(b"\n", b"l"), block + b"\n"):
                bench.special[b"D?"] = answer
                assert await raw(line, "D?") == answer.decode()[:8]
                assert await program(line, "D?") == answer
                assert await line.fetch("D?") == answer[:8]
                form = Frame(WaveformAnswer(data="D?", dtype="u1"))
                assert await program(line, "D?", form=form) == answer
            bench.special[b"D?;V?"] = block + b";1.5\n"
            assert await raw(line, "D?;V?") == (block + b";1.5").decode()
        finally:
            await lines.close()


@promise("answer.whole")
async def test_usbtmc_gives_a_message_whole() -> None:
    with usb_bus() as bus:
        unit = bus.plug(UsbInstrument())
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn, SHORT)
            for answer in BYTES:
                unit.special["B?"] = lambda data=answer: data  # type: ignore[misc]
                assert await program(line, "B?") == answer
            unit.special["B?"] = lambda: LINES.encode()
            with pytest.raises(Failed, match="has 11 lines"):
                await typed(line, "B?", ScalarAnswer(type=AnswerType.STRING))
        finally:
            await lines.close()


@promise("answer.unasked")
@pytest.mark.parametrize("kind", SIMULATED)
async def test_what_a_raw_line_is_answered_by_that_asks_nothing_is_told(kind: WireKind) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            bench.special[b"R1"] = b"R+1.25\n"
            bench.special[b"R2"] = b""

            async def written(text: str) -> Reply:
                return await hold(
                    line,
                    lambda: raw_conversation(
                        lines=(text,), asks=False, connection=SHORT, is_known=False
                    ),
                )

            for _ in range(2):
                reply = await written("R1")
                assert reply.answer is None
                assert reply.unasked == (("R1", b"R+1.25\n"),)
            assert (await written("R2")).unasked == ()
            assert await raw(line, "R1") == "R+1.25"
            assert await line.ask("*IDN?") == bench.idn
            assert line.actor.line.bound.habits.warning == ""
        finally:
            await lines.close()


@promise("answer.unasked")
async def test_a_line_that_was_answered_late_is_listened_to_for_longer() -> None:
    async with Slow() as unit:
        lines = Lines()
        try:
            line = lines.open(unit.address, IDN, SHORT)
            told: list[Any] = []
            for _ in range(4):
                reply = await hold(
                    line,
                    lambda: raw_conversation(
                        lines=("1TP",), asks=False, connection=SHORT, is_known=False
                    ),
                )
                told.append(reply.unasked)
                assert await line.ask("ECHO? 5") == "5"
            assert told[0] == ()
            # What came too late for its own call is told by the next, and none is lost.
            assert [entry for each in told for entry in each] == [("1TP", b"1TP0.5\n")] * 4
        finally:
            await lines.close()
