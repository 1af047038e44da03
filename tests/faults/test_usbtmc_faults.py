"""USBTMC on a bus of our own: short packets, stalls, aborts, silence, plug and unplug."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from edged.errors import ErrorCode, Failed
from tests.bench.scenarios import GARBLED, QUICK, RECOVERY_S
from tests.bench.usb_backend import UsbBus, UsbInstrument, usb_bus
from tests.bench.waiting import OwnTime
from tests.bench.wired import Line, Lines
from tests.promises import promise

FAULTS = ("lose", "late", "garbage", "short", "stall", "wrong_tag", "double", "stray", "pieces")
PAIRS = tuple(itertools.product(("lose", "late", "stall"), FAULTS))
SAFE_BOUND_S = 0.5
PATIENT_S = 5.0
"""For answers that come: a busy machine is no reason for a time-out."""


class Bench:
    """Two instruments on one bus; ``unit`` is the one that suffers."""

    def __init__(self, bus: UsbBus, lines: Lines) -> None:
        self.bus = bus
        self.unit = bus.plug(UsbInstrument("U001"))
        self.other = bus.plug(UsbInstrument("U002"))
        self.line = lines.open(self.unit.address, self.unit.idn, QUICK)
        self.neighbour = lines.open(self.other.address, self.other.idn, QUICK)
        self._nonces = itertools.count()

    async def ask(self, answer_s: float = 0.15, line: Line | None = None) -> bool:
        nonce = f"nonce {next(self._nonces)}"
        try:
            answer = await (line or self.line).ask(f"ECHO? {nonce}", answer_s=answer_s)
        except Failed:
            return False
        assert answer == nonce or GARBLED in answer, f"{answer!r} came for {nonce!r}"
        return answer == nonce

    async def recovers(self) -> None:
        async with asyncio.timeout(RECOVERY_S):
            while not await self.ask(PATIENT_S):
                await asyncio.sleep(0.02)
        assert await self.ask(PATIENT_S)
        assert await self.ask(PATIENT_S, self.neighbour)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    with usb_bus() as bus:
        lines = Lines()
        yield Bench(bus, lines)
        await lines.close()


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_answer_is_right_or_an_error_and_the_next_is_right(
    bench: Bench, fault: str
) -> None:
    await bench.recovers()
    for _ in range(4):
        bench.unit.faults.append(fault)
        await bench.ask()
        assert await bench.ask(PATIENT_S)
        assert await bench.ask(PATIENT_S, bench.neighbour)


DIGITS = "0123456789" * 7


@promise("answer.whole")
@pytest.mark.parametrize("aligns", [True, False])
@pytest.mark.parametrize("more", [1, 2, 3, 4, 5, 8])
async def test_text_beyond_the_announced_size_is_part_of_the_message(
    bench: Bench, more: int, *, aligns: bool
) -> None:
    bench.unit.aligns = aligns
    # pyvisa-py issues 449 and 465: 52 bytes are announced, and 56 come.
    bench.unit.special["D?"] = f"{DIGITS}\n".encode
    for _ in range(2):
        assert await bench.line.ask("D?", answer_s=PATIENT_S) == DIGITS
        bench.unit.unannounced = more
        assert await bench.line.ask("D?", answer_s=PATIENT_S) == DIGITS
    assert bench.unit.clears == 0


@promise("answer.whole")
async def test_bytes_beyond_the_announced_size_that_are_no_text_are_an_error(bench: Bench) -> None:
    bench.unit.special["D?"] = lambda: bytes(range(256))
    assert await bench.ask(PATIENT_S)
    bench.unit.unannounced = 4
    with pytest.raises(Failed, match="announces 52 bytes and brings 56") as refused:
        await bench.line.ask("D?", answer_s=PATIENT_S)
    assert refused.value.code is ErrorCode.BAD_ANSWER
    await bench.recovers()


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_two_faults_in_a_row_are_survived(bench: Bench, first: str, second: str) -> None:
    await bench.recovers()
    bench.unit.faults.extend((first, second))
    await bench.ask()
    await bench.ask()
    bench.unit.faults.clear()
    await bench.recovers()


async def test_a_device_that_cannot_clear_is_reset_once_and_reopened(bench: Bench) -> None:
    await bench.recovers()
    bench.unit.can_clear = False
    opened = bench.unit.opened
    bench.unit.faults.append("lose")
    assert not await bench.ask()
    await bench.recovers()
    assert bench.unit.resets == 1
    assert bench.unit.opened > opened


async def test_a_device_that_takes_nothing_is_an_error_in_time(bench: Bench) -> None:
    await bench.recovers()
    bench.unit.takes_nothing = True
    with OwnTime() as own:
        assert not await bench.ask(0.3)
        assert own.seconds() < 3
    bench.unit.takes_nothing = False
    await bench.recovers()


async def test_unplugging_in_the_middle_is_an_error_at_once(bench: Bench) -> None:
    await bench.recovers()
    asked = asyncio.create_task(bench.line.ask("DELAY? 20", answer_s=30, timeout_s=30))
    assert await asyncio.to_thread(bench.unit.heard, "DELAY? 20")
    with OwnTime() as own:
        bench.bus.unplug(bench.unit)
        with pytest.raises(Failed) as caught:
            await asked
        assert own.seconds() < 2
    assert caught.value.code is ErrorCode.DISCONNECTED
    assert await bench.ask(PATIENT_S, bench.neighbour)
    bench.bus.plug(bench.unit)
    await bench.recovers()


async def test_a_safe_command_does_not_wait_for_a_hung_answer(bench: Bench) -> None:
    await bench.recovers()
    hung = asyncio.create_task(bench.line.ask("DELAY? 30", answer_s=40, timeout_s=40))
    assert await asyncio.to_thread(bench.unit.heard, "DELAY? 30")
    with OwnTime() as own:
        await bench.line.make_safe("OUTP OFF")
        assert own.seconds() < SAFE_BOUND_S * 4
    with pytest.raises(Failed) as caught:
        await hung
    assert caught.value.code is ErrorCode.PREEMPTED
    assert await asyncio.to_thread(bench.unit.heard, "OUTP OFF")
    await bench.recovers()
    bench.unit.stop()


@pytest.mark.parametrize("length", [1, 51, 52, 53, 1_199, 20_020, 65_524, 1_048_576])
async def test_blocks_of_any_length_come_whole(bench: Bench, length: int) -> None:
    body = (b"\n\r#\x00;" * (length // 5 + 1))[:length]
    block = b"#%d%d" % (len(str(length)), length) + body
    bench.unit.special["WAV?"] = lambda: block + b"\n"
    assert await bench.line.fetch("WAV?") == block
    await bench.recovers()
    bench.unit.faults.append("pieces" if length < 30_000 else "short")
    try:
        assert await bench.line.fetch("WAV?") == block
    except Failed:
        await bench.recovers()
        assert bench.unit.clears
    await bench.recovers()
