"""Answers that a profile describes, on every wire that is simulated: with and without an end."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import (
    Conversation,
    Reply,
    capture_conversation,
    command_conversation,
    program_conversation,
    raw_conversation,
)
from edged.instruments.mailbox import Priority
from edged.profiles.answers import parse_answer
from edged.profiles.frames import Frame
from edged.profiles.model import Command, Connection, ListAnswer, Packets, WaveformAnswer
from edged_sim.wires.stream import WireKind
from tests.bench.wired import SIMULATED, Line, Lines, Wired, wired
from tests.promises import promise

SHORT = Connection(timeout_ms=2_000)
FLOATS = (0.0, 1.5, -2.25, 6.0221e23)
DATA = struct.pack(">4f", *FLOATS) + b"\n\r\x00"  # no sample, and what might be taken for an end
FORM = WaveformAnswer(data="B?", dtype="u1", has_header=False, count=str(len(DATA)))
LINES = b"".join(b"%d.5E-01,0\n" % point for point in range(11))
VALUES = [value for point in range(11) for value in (point * 0.1 + 0.05, 0.0)]
STREAMS = (WireKind.SOCKET, WireKind.SERIAL)


async def hold(line: Line, make: Callable[[], Conversation[Reply]]) -> Reply:
    return await line.actor.converse(
        make, unit=1, priority=Priority.COMMAND, timeout_s=5.0, name="test"
    )


async def captured(line: Line, form: WaveformAnswer) -> bytes:
    reply = await hold(
        line,
        lambda: capture_conversation(
            setup=(), preamble=(), data="B?", connection=SHORT, framed=lambda _: Frame(form)
        ),
    )
    assert reply.block is not None
    return bytes(reply.block)


async def listed(line: Line, form: ListAnswer) -> Any:
    command = Command(name="get", scpi=("B?",), is_query=True, returns=form)
    reply = await hold(
        line,
        lambda: command_conversation(
            lines=("B?",),
            command=command,
            connection=SHORT,
            read=lambda answer: parse_answer(form, answer).value,
        ),
    )
    return reply.value


async def is_in_step(bench: Wired, line: Line) -> bool:
    bench.special[b"A?"] = b"7\n"
    return await line.ask("A?") == "7"


@promise("answer.as-described")
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"], ids=["none", "lf", "crlf"])
@pytest.mark.parametrize("kind", SIMULATED)
async def test_data_without_a_header_come_byte_for_byte(kind: WireKind, end: bytes) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            bench.special[b"B?"] = DATA + end
            for _ in range(3):
                assert await captured(line, FORM) == DATA
                assert await is_in_step(bench, line)
            raw = await hold(
                line,
                lambda: raw_conversation(
                    lines=("B?",), asks=True, connection=SHORT, form=Frame(FORM)
                ),
            )
            assert raw.answer == DATA.decode("latin-1")
            told = await hold(
                line,
                lambda: program_conversation(
                    line="B?",
                    data=b"B?",
                    asks=True,
                    connection=SHORT,
                    timeout_s=2.0,
                    is_known=True,
                    form=Frame(FORM),
                ),
            )
            assert bytes(told.block or b"") == DATA + end
        finally:
            await lines.close()


@promise("answer.as-described")
@pytest.mark.parametrize("kind", SIMULATED)
@pytest.mark.parametrize("sent", [DATA[:-1], DATA + b"x", DATA + b"\x00", DATA * 2])
async def test_fewer_or_more_bytes_than_described_are_an_error_that_shows_them(
    kind: WireKind, sent: bytes
) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            bench.special[b"B?"] = sent
            with pytest.raises(Failed, match=r"\\x00\\x00\\x00\\x00\?") as caught:
                await captured(line, FORM)
            code = caught.value.code
            if kind in STREAMS and len(sent) < len(DATA):
                assert code is ErrorCode.TIMEOUT
            else:
                assert code is ErrorCode.BAD_ANSWER
            assert await is_in_step(bench, line)
        finally:
            await lines.close()


@pytest.mark.parametrize("kind", SIMULATED)
@pytest.mark.parametrize("due", [11, None])
async def test_an_answer_of_several_lines_is_all_of_them(kind: WireKind, due: int | None) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            bench.special[b"B?"] = LINES
            for _ in range(2):
                assert await listed(line, ListAnswer(lines=due)) == pytest.approx(VALUES)
                assert await is_in_step(bench, line)
        finally:
            await lines.close()


@promise("answer.as-described")
@pytest.mark.parametrize("kind", SIMULATED)
@pytest.mark.parametrize("due", [1, 10, 12])
async def test_another_number_of_lines_than_described_is_an_error_that_shows_them(
    kind: WireKind, due: int
) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            bench.special[b"B?"] = LINES
            with pytest.raises(Failed) as caught:
                await listed(line, ListAnswer(lines=due))
            if due < 11 or kind not in STREAMS:
                assert caught.value.code is ErrorCode.BAD_ANSWER
                assert "has 11 lines" in caught.value.message
                assert "0.5E-01,0" in caught.value.message
            else:
                assert caught.value.code is ErrorCode.TIMEOUT
            assert await is_in_step(bench, line)
        finally:
            await lines.close()


@pytest.mark.parametrize("kind", [kind for kind in SIMULATED if kind not in STREAMS])
async def test_the_size_of_a_packet_may_count_the_whole_of_a_message(kind: WireKind) -> None:
    """Source: pyvisa/pyvisa#555."""
    fields = (("size", 9), ("total", 9), ("sent", 9))
    packets = Packets(fields=fields, until="sent + size >= total")
    form = WaveformAnswer(data="B?", dtype="u1", packets=packets)
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            size = 29 + len(DATA)
            bench.special[b"B?"] = b"#9%09d%09d%09d" % (size, len(DATA), 0) + DATA
            for _ in range(2):
                assert await captured(line, form) == DATA
                assert await is_in_step(bench, line)
        finally:
            await lines.close()


@pytest.mark.parametrize("kind", SIMULATED)
async def test_a_list_in_a_block_is_read_on_every_wire(kind: WireKind) -> None:
    async with wired(kind) as bench:
        lines = Lines()
        try:
            line = lines.open(bench.address, bench.idn, SHORT)
            body = LINES.rstrip(b"\n")
            for end in (b"\n", b"", b"\r\n"):
                bench.special[b"B?"] = b"#3%03d" % len(body) + body + end
                assert await listed(line, ListAnswer(lines=11)) == pytest.approx(VALUES)
                assert await listed(line, ListAnswer(lines=None)) == pytest.approx(VALUES)
        finally:
            await lines.close()
