"""Answers like those of public reports, of other sizes, on other wires: whole, or an error."""

from __future__ import annotations

import pytest

from edged.errors import ErrorCode, Failed
from edged.profiles.frames import Frame
from edged.profiles.model import WaveformAnswer
from edged_sim.wires.stream import WireKind
from tests.bench.wired import SIMULATED
from tests.flows.test_strange_answers import (
    BYTES,
    MESSAGES,
    SHORT,
    STREAMS,
    TEXT,
    is_in_step,
    on_wire,
    paced,
)
from tests.promises import promise

BLOCK = Frame(WaveformAnswer(data="B?", dtype="u1"))


@promise("answer.as-described")
@pytest.mark.parametrize("lacking", [1, 2, 5])
@pytest.mark.parametrize("kind", MESSAGES)
async def test_no_line_end_is_made_up_for_a_block_that_lacks_bytes(
    kind: WireKind, lacking: int
) -> None:
    short = b"#15hello"[:-lacking]
    async with on_wire(kind, SHORT) as (bench, roads):
        bench.special[b"B?"] = short
        for ask in (lambda: roads.raw("B?"), lambda: roads.typed("B?", TEXT)):
            with pytest.raises(Failed, match="#15") as refused:
                await ask()
            assert refused.value.code is ErrorCode.BAD_ANSWER
        # The wire marks where it ends: a program gets that, and in no more time than it takes.
        assert await roads.program("B?") == short
        assert await roads.program("B?", form=BLOCK) == short
        assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.whole")
@pytest.mark.parametrize(
    "answer", [b"BUSY\n", b"B\n", b"READY\n1.5\n", b"1.5\r\n>\r\n", b"no\ndata\nhere\n"]
)
@pytest.mark.parametrize("kind", SIMULATED)
async def test_a_program_that_fetches_a_block_gets_all_of_what_came_instead(
    kind: WireKind, answer: bytes
) -> None:
    async with on_wire(kind, SHORT) as (bench, roads):
        bench.special[b"B?"] = answer
        for _ in range(3):
            assert await roads.program("B?", form=BLOCK) == answer
            with pytest.raises(Failed, match=answer.decode().strip()[:2]) as refused:
                await roads.captured("B?", BYTES)
            assert refused.value.code is ErrorCode.BAD_ANSWER
            assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.whole")
@pytest.mark.parametrize(
    "answer",
    [
        b"\n\x00\x01\xff\n",
        b"\n\n\x80\x01\n",
        b"\x01\xff\n\n",
        b"\n\x01\n\n\xff\n\n",
        b"\n\x02\r\n",
        b"\xa0\n\x85\n",
    ],
)
@pytest.mark.parametrize("kind", STREAMS)
async def test_line_ends_around_binary_data_are_data_where_no_wire_marks_the_end(
    kind: WireKind, answer: bytes
) -> None:
    async with on_wire(kind, SHORT) as (bench, roads):
        bench.special[b"B?"] = answer
        for _ in range(2):
            assert await roads.program("B?") == answer
            assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.whole")
@pytest.mark.parametrize("answer", [b"\x00\x00\x00\x00", b"\x00", b"\x00\r\n\x00\x00"])
@pytest.mark.parametrize("kind", MESSAGES)
async def test_zeros_alone_are_data(kind: WireKind, answer: bytes) -> None:
    async with on_wire(kind, SHORT) as (bench, roads):
        bench.special[b"B?"] = answer
        assert (await roads.raw("B?")).answer == answer.decode()
        assert await roads.program("B?") == answer
        assert await roads.line.ask("*IDN?") == bench.idn


@promise("answer.bytes-came")
async def test_the_error_for_a_cut_head_of_a_block_does_not_blame_the_line_end() -> None:
    async with paced(SHORT) as (unit, roads):
        unit.paced["B?"] = [b"#9\n"]
        with pytest.raises(Failed, match=r'"#9\\x0a"') as late:
            await roads.captured("B?", BYTES)
        assert "read_termination" not in late.value.message
        assert await is_in_step(roads)
