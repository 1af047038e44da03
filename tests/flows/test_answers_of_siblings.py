"""Answers like those of public reports, of other sizes, on other wires: whole, or an error."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from edged.errors import ErrorCode, Failed
from edged.profiles.frames import Frame
from edged.profiles.model import ListAnswer, WaveformAnswer
from edged_sim.wires.stream import WireKind
from tests.bench.paced_unit import End
from tests.bench.roads import Roads
from tests.bench.usb_backend import UsbInstrument, usb_bus
from tests.bench.wired import SIMULATED, Lines
from tests.flows.test_strange_answers import (
    BYTES,
    MESSAGES,
    PATIENT,
    SHORT,
    STREAMS,
    TEXT,
    is_back,
    is_in_step,
    on_wire,
    outcome_of,
    paced,
)
from tests.promises import promise

BLOCK = Frame(WaveformAnswer(data="B?", dtype="u1"))


class Odd(UsbInstrument):
    """Sends the transfers that ``make`` gives of tag and answer, as they are.

    Attributes:
        make: ``None``: it answers as it should.
    """

    make: Callable[[int, bytes], list[bytes]] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.transfers: list[bytes] = []

    def bulk_in(self, count: int, timeout_ms: int) -> bytes:
        with self._news:
            if self.make is not None and self._asked is not None and self._output:
                self.transfers += self.make(self._asked[0], b"".join(self._output))
                self._output.clear()
                self._asked = self.make = None
            if self.transfers:
                return self.transfers.pop(0)
        return super().bulk_in(count, timeout_ms)

    def say_later(self, data: bytes, seconds: float) -> None:
        """One more message."""
        self._later(seconds, data)


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


@promise("answer.whole")
@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_a_block_is_whole_though_the_peer_closes_the_connection_behind_it(end: bytes) -> None:
    async with paced() as (unit, roads):
        unit.paced["B?"] = [b"#15hello" + end, End.CLOSE]
        assert await roads.typed("B?", TEXT) == "hello"
        assert (await roads.raw("B?")).answer == "#15hello"
        assert await roads.program("B?") == b"#15hello" + end
        assert await roads.program("B?", form=BLOCK) == b"#15hello" + end
        assert await roads.captured("B?", BYTES) == b"hello"
        unit.paced["B?"] = [b"#15he\nlo" + end, End.CLOSE]
        assert await roads.typed("B?", TEXT) == "he\nlo"
        assert await roads.program("B?") == b"#15he\nlo" + end
        assert await is_in_step(roads)


@promise("answer.bytes-came")
@pytest.mark.parametrize("road", ["captured", "list"])
@pytest.mark.parametrize("end", [End.CLOSE, End.RESET])
async def test_a_line_before_the_connection_ended_is_shown(end: End, road: str) -> None:
    async with paced(SHORT) as (unit, roads):
        unit.paced["B?"] = [b"1.5\n", 0.1, end]
        many = ListAnswer(lines=3)
        for _ in range(2):
            with pytest.raises(Failed, match=r"1\.5"):
                await (
                    roads.captured("B?", BYTES) if road == "captured" else roads.typed("B?", many)
                )
            assert await is_back(roads, "ECHO? 42", "42")


@promise("answer.whole")
@pytest.mark.parametrize("pause_s", [0.02, 0.15])
@pytest.mark.parametrize("count", [2, 3])
async def test_each_question_of_a_line_may_be_answered_by_a_message(
    count: int, pause_s: float
) -> None:
    with usb_bus() as bus:
        unit = Odd()
        bus.plug(unit)
        lines = Lines()
        try:
            roads = Roads(lines.open(unit.address, unit.idn, PATIENT), PATIENT)
            line = ";".join(["V?"] * count)

            def answer() -> bytes:
                for place in range(1, count):
                    unit.say_later(b"%d\n" % place, place * pause_s)
                return b"0\n"

            unit.special[line] = answer
            whole = "".join(f"{place}\n" for place in range(count))
            for _ in range(2):
                assert (await roads.raw(line)).answer == whole[:-1]
                assert await roads.program(line) == whole.encode()
                assert await roads.line.ask("ECHO? 7") == "7"
            unit.special[line] = lambda: b";".join([b"1"] * count) + b"\n"
            assert (await roads.raw(line)).answer == ";".join("1" * count)
        finally:
            await lines.close()


# USBTMC


def transfer(tag: int, data: bytes, announced: int, *, kind: int = 2, attributes: int = 1) -> bytes:
    return struct.pack("<BBBxLBxxx", kind, tag, ~tag & 0xFF, announced, attributes) + data


TRANSFERS: dict[str, Callable[[int, bytes], list[bytes]]] = {
    "announces more": lambda tag, data: [transfer(tag, data, len(data) + 4)],
    "announces more, aligned": lambda tag, data: [transfer(tag, data + b"\0\0", len(data) + 5)],
    "announces fewer": lambda tag, data: [transfer(tag, data, len(data) - 4)],
    "announces none": lambda tag, data: [transfer(tag, data, 0)],
    "announces all there is": lambda tag, data: [transfer(tag, data, 0xFFFF_FFFF)],
    "another tag": lambda tag, data: [transfer(tag % 255 + 1, data, len(data))],
    "another kind": lambda tag, data: [transfer(tag, data, len(data), kind=126)],
    "no end": lambda tag, data: [transfer(tag, data, len(data), attributes=0)],
    "an end by a character": lambda tag, data: [transfer(tag, data, len(data), attributes=2)],
    "a cut head": lambda tag, data: [transfer(tag, data, len(data))[:2]],
    "an empty packet before": lambda tag, data: [b"", transfer(tag, data, len(data))],
    "an empty packet behind": lambda tag, data: [transfer(tag, data, len(data)), b""],
    "head and data apart": lambda tag, data: [transfer(tag, b"", len(data)), data],
}


@promise("answer.whole")
@promise("answer.bytes-came")
@pytest.mark.parametrize("road", ["typed", "program", "captured", "block for a program"])
@pytest.mark.parametrize("form", TRANSFERS)
async def test_a_usbtmc_transfer_is_whole_or_an_error_that_shows_it(form: str, road: str) -> None:
    with usb_bus() as bus:
        unit = Odd()
        bus.plug(unit)
        lines = Lines()
        try:
            roads = Roads(lines.open(unit.address, unit.idn, SHORT), SHORT)
            assert await roads.line.ask("ECHO? 7") == "7"
            for answer, data in (
                (b"#15he\nlo\n", b"he\nlo"),
                (b"#15\x80\x01\x02\x03\x04", b"\x80\x01\x02\x03\x04"),
            ):
                unit.special["B?"] = lambda answer=answer: answer  # type: ignore[misc]
                asks: dict[str, Callable[[], Awaitable[Any]]] = {
                    "typed": lambda: roads.raw("B?"),
                    "program": lambda: roads.program("B?"),
                    "captured": lambda: roads.captured("B?", BYTES),
                    "block for a program": lambda: roads.program("B?", form=BLOCK),
                }
                unit.make = TRANSFERS[form]
                told, message = await outcome_of(asks[road]())
                unit.transfers.clear()
                if message:
                    shown = r"\x02" if form == "a cut head" else "#15"
                    assert shown in message, message
                    assert form not in {"an empty packet before", "head and data apart"}
                elif road == "typed":
                    assert told.answer.encode("latin-1") in {answer.rstrip(), answer}
                else:
                    assert told == (data if road == "captured" else answer)
                assert await is_back(roads, "ECHO? 8", "8")
        finally:
            await lines.close()
