"""A line over a real raw socket: late, hung, cut, doubled, split and garbled answers."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from edged.clock import SystemClock
from edged.errors import ErrorCode, Failed
from edged.instruments.actor import Actor
from edged.instruments.conversation import (
    Ask,
    AskBlock,
    Conversation,
    Pause,
    Reply,
    Send,
    lines_conversation,
)
from edged.instruments.line import BoundInstrument, LineDown, LineReport, LineUp
from edged.instruments.line_state import LineState
from edged.instruments.mailbox import Priority
from edged.profiles.model import Connection
from edged.transports.address import parse_address
from edged.transports.tcp import MAX_MESSAGE_BYTES
from edged.transports.visa import VisaLibrary
from tests.bench.fault_proxy import FaultProxy, How, Spoil
from tests.bench.loopback_instrument import IDN, LoopbackInstrument
from tests.bench.waiting import HANGS_S
from tests.promises import promise

STOPS = 36
FOREVER_S = 3_000.0
"""What hangs for so long is still hanging when the test is over."""
"""docs/promises.md section 13's bound, times ten, as the suite holds all such figures."""


def ask(question: str, timeout_s: float | None = None) -> Callable[[], Conversation[str]]:
    def talk() -> Conversation[str]:
        answer = yield Ask(question, timeout_s)
        return str(answer)

    return talk


def say(*lines: str) -> Callable[[], Conversation[Reply]]:
    return lambda: lines_conversation(lines, Connection())


class Caller:
    """Talks on one line as its known unit."""

    def __init__(self, actor: Actor, reports: list[LineReport]) -> None:
        self.actor = actor
        self.reports = reports
        self.news = asyncio.Event()

    async def ask(
        self,
        question: str,
        *,
        answer_s: float | None = None,
        timeout_s: float = HANGS_S,
        priority: Priority = Priority.COMMAND,
    ) -> str:
        return await self.actor.converse(
            ask(question, answer_s), unit=1, priority=priority, timeout_s=timeout_s, name=question
        )

    async def make_safe(self, *lines: str, timeout_s: float = HANGS_S) -> None:
        await self.actor.converse(
            say(*lines), unit=1, priority=Priority.SAFE, timeout_s=timeout_s, name="safe"
        )

    async def heard(self, kind: type[LineReport]) -> None:
        async with asyncio.timeout(HANGS_S):
            while not any(isinstance(report, kind) for report in self.reports):
                self.news.clear()
                await self.news.wait()


Open = Callable[..., Caller]


@pytest.fixture(params=[True, False], ids=["on the loop", "on a thread"])
async def open_line(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Opens lines to loopback ports as the unit that ``LoopbackInstrument`` is."""
    library = VisaLibrary(clock=SystemClock(), is_on_loop=request.param)
    actors = []

    def open_one(port: int, connection: Connection | None = None) -> Caller:
        address = f"TCPIP::127.0.0.1::{port}::SOCKET"
        reports: list[LineReport] = []

        def hear(_actor: Actor, report: LineReport) -> None:
            reports.append(report)
            caller.news.set()

        actor = Actor(
            address=parse_address(address),
            link=library.open_link(address),
            clock=SystemClock(),
            is_same_unit=lambda one, other: one == other,
            report=hear,
        )
        caller = Caller(actor, reports)
        actors.append(actor)
        actor.start()
        actor.settle(BoundInstrument(number=1, idn=IDN, connection=connection or Connection()))
        return caller

    yield open_one
    for actor in actors:
        assert await actor.stop(HANGS_S)
    library.close()


@pytest.fixture
async def instrument() -> AsyncIterator[LoopbackInstrument]:
    async with LoopbackInstrument() as instrument:
        yield instrument


@pytest.fixture
async def proxy(instrument: LoopbackInstrument) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(instrument.port) as proxy:
        yield proxy


# In step, always


@promise("line.no-late-answer")
async def test_twenty_of_twenty_late_answers_never_become_the_next_ones(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)
    for number in range(20):
        instrument.let_go.clear()
        with pytest.raises(Failed) as caught:
            await line.ask("HOLD?", answer_s=0.03)
        assert caught.value.code is ErrorCode.TIMEOUT
        await instrument.heard("HOLD?", number + 1)
        # It comes before the next is asked, or while that is under way.
        if number % 2:
            instrument.let_go.set()
        asked = asyncio.create_task(line.ask(f"ECHO? {number}"))
        await asyncio.sleep(0.01)
        instrument.let_go.set()
        assert await asked == str(number)


@promise("line.no-crossed-answer")
async def test_two_thousand_questions_of_eight_callers_never_cross(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)

    async def caller(name: int) -> None:
        for number in range(250):
            assert await line.ask(f"ECHO? {name}-{number}", timeout_s=20) == f"{name}-{number}"

    await asyncio.gather(*(caller(name) for name in range(8)))
    assert instrument.connections == 1


async def test_what_is_said_unasked_is_never_an_answer(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)
    await line.ask("ECHO? 1")
    await instrument.say(b"surprise\n")
    assert await line.ask("ECHO? 2") == "2"


@pytest.mark.parametrize("how", [How.DOUBLE, How.STRAY, How.SPLIT])
async def test_doubled_stray_and_split_answers_are_right(
    proxy: FaultProxy, open_line: Open, how: How
) -> None:
    line = open_line(proxy.port)
    await line.ask("ECHO? 0")
    for number in range(10):
        proxy.next(Spoil(how, seconds=0.001))
        assert await line.ask(f"ECHO? first {number}") == f"first {number}"
        assert await line.ask(f"ECHO? second {number}") == f"second {number}"


@pytest.mark.parametrize("how", [How.CUT, How.DROP, How.RESET, How.LOSE])
async def test_a_lost_answer_is_an_error_and_the_next_one_is_right(
    proxy: FaultProxy, open_line: Open, how: How
) -> None:
    line = open_line(proxy.port)
    for number in range(5):
        await line.ask("ECHO? 0")
        proxy.next(Spoil(how))
        with pytest.raises(Failed) as caught:
            await line.ask("ECHO? lost", answer_s=0.2)
        assert caught.value.code in {ErrorCode.TIMEOUT, ErrorCode.DISCONNECTED}
        assert caught.value.sent == ("ECHO? lost",)
        assert await line.ask(f"ECHO? {number}") == str(number)


async def test_a_garbled_answer_is_marked_and_the_next_one_is_right(
    proxy: FaultProxy, open_line: Open
) -> None:
    line = open_line(proxy.port)
    await line.ask("ECHO? 0")
    proxy.next(Spoil(How.GARBLE))
    assert set(await line.ask("ECHO? abc")) == {"\ufffd"}
    assert await line.ask("ECHO? 1") == "1"


async def test_a_closed_connection_is_told_at_once_and_not_after_the_time_limit(
    proxy: FaultProxy, open_line: Open
) -> None:
    line = open_line(proxy.port)
    await line.ask("ECHO? 0")
    proxy.next(Spoil(How.DROP))
    with pytest.raises(Failed) as caught:
        await line.ask("ECHO? lost", answer_s=FOREVER_S, timeout_s=FOREVER_S)
    assert caught.value.code is ErrorCode.DISCONNECTED


@pytest.mark.parametrize("length", [1, 1199, 20_020, 1_048_576])
async def test_blocks_come_whole_and_leave_the_line_in_step(
    instrument: LoopbackInstrument, open_line: Open, length: int
) -> None:
    body = (b"\n\r#\x00" * (length // 4 + 1))[:length]
    block = b"#%d%d" % (len(str(length)), length) + body
    instrument.special["WAV?"] = lambda: block + b"\n"
    line = open_line(instrument.port)

    def fetch() -> Conversation[bytes]:
        data = yield AskBlock("WAV?")
        assert isinstance(data, bytearray)
        return data

    got = await line.actor.converse(
        fetch, unit=1, priority=Priority.MEASURE, timeout_s=10, name="wave"
    )
    assert got == block
    assert await line.ask("ECHO? 1") == "1"
    assert instrument.connections == 1


@pytest.mark.parametrize("begin", [b"", b"\n"], ids=["no line end in it", "a line end in it"])
async def test_a_block_longer_than_any_text_is_a_raw_answer_too(
    instrument: LoopbackInstrument, open_line: Open, begin: bytes
) -> None:
    length = MAX_MESSAGE_BYTES + 100_000
    block = b"#7%d" % length + begin.ljust(length, b"x")
    instrument.special["WAV?"] = lambda: block + b"\n"
    line = open_line(instrument.port)

    assert (await line.ask("WAV?", answer_s=10, timeout_s=10)).encode() == block
    assert await line.ask("ECHO? 1") == "1"
    assert instrument.connections == 1


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"x" * (MAX_MESSAGE_BYTES + 100_000), "bytes came without a line end"),
        (b"#9099000000" + b"x" * MAX_MESSAGE_BYTES, "MAX_BLOCK_MB is 64"),
        (b"#H" + b"x" * (MAX_MESSAGE_BYTES + 100_000), "bytes came without a line end"),
    ],
    ids=["no block", "too large a block", "a number"],
)
async def test_an_answer_that_is_too_long_is_told_with_its_cause(
    instrument: LoopbackInstrument, open_line: Open, answer: bytes, cause: str
) -> None:
    instrument.special["WAV?"] = lambda: answer
    line = open_line(instrument.port)

    with pytest.raises(Failed, match=cause):
        await line.ask("WAV?", answer_s=10, timeout_s=10)


# Stopping does not wait


@promise("line.safe-overtakes")
async def test_a_safe_job_reaches_a_line_that_hangs_on(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)
    hung = asyncio.create_task(line.ask("HANG?", answer_s=FOREVER_S, timeout_s=FOREVER_S))
    waiting = asyncio.create_task(line.ask("ECHO? after"))
    await instrument.heard("HANG?")
    async with asyncio.timeout(HANGS_S):
        await line.make_safe("OUTP OFF")
        await instrument.heard("OUTP OFF")
    with pytest.raises(Failed) as caught:
        await hung
    assert caught.value.code is ErrorCode.PREEMPTED
    assert caught.value.sent == ("HANG?",)
    assert await waiting == "after"
    assert instrument.received.index("OUTP OFF") < instrument.received.index("ECHO? after")


@promise("line.safe-overtakes")
async def test_stops_at_any_turn_of_a_stream_of_questions_go_first_and_cross_no_answer(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    """Wherever a question is on its way to the line, on the wire and back to its caller."""
    line = open_line(instrument.port)
    ended: list[Failed] = []
    right = asyncio.Event()
    is_over = asyncio.Event()

    async def caller(name: int) -> None:
        for number in itertools.count():
            if is_over.is_set():
                return
            try:
                assert await line.ask(f"ECHO? {name}-{number}") == f"{name}-{number}"
                right.set()
            except Failed as failed:
                ended.append(failed)

    async with asyncio.timeout(HANGS_S), asyncio.TaskGroup() as callers:
        for name in range(3):
            callers.create_task(caller(name))
        for stop in range(STOPS):
            right.clear()
            await right.wait()
            # From none to more turns of the loop than a question takes.
            for _ in range(stop % 12):
                await asyncio.sleep(0)
            asked = len(instrument.received)
            await line.make_safe(f"OUTP OFF {stop}")
            await instrument.heard(f"OUTP OFF {stop}")
            # Of what waited none went before it; one may have been on the wire.
            assert instrument.received[asked:].index(f"OUTP OFF {stop}") <= 1
        is_over.set()
    assert {failed.code for failed in ended} == {ErrorCode.PREEMPTED}


async def test_a_safe_job_ends_a_pause_and_a_poll(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)

    def long_pause() -> Conversation[None]:
        yield Send("GO")
        yield Pause(FOREVER_S)

    hung = asyncio.create_task(
        line.actor.converse(
            long_pause, unit=1, priority=Priority.COMMAND, timeout_s=FOREVER_S, name="pause"
        )
    )
    await instrument.heard("GO")
    async with asyncio.timeout(HANGS_S):
        await line.make_safe("OUTP OFF")
    with pytest.raises(Failed):
        await hung


async def test_an_instrument_that_reads_nothing_does_not_hold_up_a_safe_job(
    proxy: FaultProxy, instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(proxy.port)
    await line.ask("ECHO? 0")
    proxy.is_black_hole = True
    huge = "X" * 30_000_000
    hung = asyncio.create_task(line.ask(huge, answer_s=FOREVER_S, timeout_s=FOREVER_S))
    while line.actor.line.state is not LineState.BUSY:
        await asyncio.sleep(0)
    await proxy.heal()
    async with asyncio.timeout(HANGS_S):
        await line.make_safe("OUTP OFF")
    with pytest.raises(Failed) as caught:
        await hung
    assert caught.value.code in {ErrorCode.PREEMPTED, ErrorCode.DISCONNECTED}
    await instrument.heard("OUTP OFF")


async def test_a_cancelled_job_frees_the_line(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)
    hung = asyncio.create_task(line.ask("HANG?", answer_s=FOREVER_S, timeout_s=FOREVER_S))
    await instrument.heard("HANG?")
    hung.cancel()
    async with asyncio.timeout(HANGS_S):
        assert await line.ask("ECHO? 1") == "1"


async def test_a_waiting_job_that_is_cancelled_is_never_sent(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)
    first = asyncio.create_task(line.ask("HOLD?", answer_s=HANGS_S))
    await instrument.heard("HOLD?")
    second = asyncio.create_task(line.ask("ECHO? never"))
    await asyncio.sleep(0)
    second.cancel()
    instrument.let_go.set()
    assert await first == "late"
    assert await line.ask("ECHO? 1") == "1"
    assert "ECHO? never" not in instrument.received


async def test_a_job_that_waited_too_long_fails_in_time_and_is_never_sent(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)
    first = asyncio.create_task(line.ask("HOLD?", answer_s=HANGS_S))
    await instrument.heard("HOLD?")
    with pytest.raises(Failed) as caught:
        await line.ask("ECHO? never", timeout_s=0.05)
    assert caught.value.code is ErrorCode.TIMEOUT
    assert caught.value.sent == ()
    instrument.let_go.set()
    assert await first == "late"
    assert "ECHO? never" not in instrument.received


@promise("line.one-hang-delays-no-other")
async def test_a_hung_instrument_delays_no_other(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    async with LoopbackInstrument() as other:
        hung_line, line = open_line(instrument.port), open_line(other.port)
        hung = asyncio.create_task(hung_line.ask("HANG?", answer_s=FOREVER_S, timeout_s=FOREVER_S))
        await instrument.heard("HANG?")
        async with asyncio.timeout(HANGS_S):
            for number in range(200):
                assert await line.ask(f"ECHO? {number}") == str(number)
        assert not hung.done()
        hung.cancel()
        await asyncio.gather(hung, return_exceptions=True)


async def test_a_look_wakes_no_line_on_which_nothing_has_come(
    instrument: LoopbackInstrument, open_line: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = open_line(instrument.port)
    await line.ask("ECHO? 0")
    actor = line.actor
    while actor._serving is not None:
        await asyncio.sleep(0.001)
    with monkeypatch.context() as patched:
        patched.setattr(actor._mailbox, "nudge", lambda: pytest.fail("it was woken"))
        actor.look()
    await instrument.say(b"surprise\n")
    async with asyncio.timeout(HANGS_S):
        while not any(entry.data == b"surprise\n" for entry in actor.exchanges()):
            actor.look()
            await asyncio.sleep(0.005)
    assert await line.ask("ECHO? 1") == "1"


# Coming back


@promise("line.comes-back-by-itself")
async def test_an_instrument_that_was_switched_off_and_on_comes_back_by_itself(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)
    await line.ask("ECHO? 0")
    await instrument.unplug()
    line.actor.look()
    await line.heard(LineDown)
    with pytest.raises(Failed) as caught:
        await line.ask("ECHO? 1")
    assert caught.value.code is ErrorCode.DISCONNECTED
    assert caught.value.sent == ()
    await instrument.plug_in()
    await line.heard(LineUp)
    assert await line.ask("ECHO? 2") == "2"


async def test_a_refused_port_is_found_at_open_and_costs_no_time(
    free_port: Callable[[], int], open_line: Open
) -> None:
    line = open_line(free_port())
    with pytest.raises(Failed) as caught:
        await line.ask("ECHO? 0", timeout_s=FOREVER_S)
    assert caught.value.code is ErrorCode.DISCONNECTED


@promise("line.no-silent-repeat")
async def test_a_write_before_a_reset_is_sent_once(
    proxy: FaultProxy,
    open_line: Open,
    instrument: LoopbackInstrument,
) -> None:
    line = open_line(proxy.port)
    await line.ask("ECHO? 0")
    proxy.next(Spoil(How.RESET))

    def set_and_check() -> Conversation[None]:
        yield Send("VOLT 5")
        yield Ask("SYST:ERR?")

    with pytest.raises(Failed) as caught:
        await line.actor.converse(
            set_and_check, unit=1, priority=Priority.COMMAND, timeout_s=5, name="set"
        )
    assert caught.value.sent == ("VOLT 5",)
    assert await line.ask("ECHO? 1") == "1"
    assert instrument.received.count("VOLT 5") == 1


# The end


@promise("line.stops-while-hung")
async def test_stopping_ends_the_thread_of_a_hung_line_and_fails_what_waits(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port)
    hung = asyncio.create_task(line.ask("HANG?", answer_s=FOREVER_S, timeout_s=FOREVER_S))
    await instrument.heard("HANG?")
    waiting = asyncio.create_task(line.ask("ECHO? 1"))
    await asyncio.sleep(0)
    assert await line.actor.stop(HANGS_S)
    results = await asyncio.gather(hung, waiting, return_exceptions=True)
    assert [r.code for r in results if isinstance(r, Failed)] == [ErrorCode.DISCONNECTED] * 2
    # One that connects apart for another test may not have given up yet; it names no address.
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.endswith(f"::{instrument.port}::SOCKET")]
    with pytest.raises(Failed):
        await line.ask("ECHO? 2")


async def test_last_words_are_said_to_a_healthy_instrument(
    instrument: LoopbackInstrument, open_line: Open
) -> None:
    line = open_line(instrument.port, Connection(on_release=("SYST:LOC",)))
    await line.ask("ECHO? 0")
    await line.actor.stop(HANGS_S)
    await instrument.heard("SYST:LOC")


async def test_the_trace_tells_the_story(instrument: LoopbackInstrument, open_line: Open) -> None:
    line = open_line(instrument.port)
    await line.ask("ECHO? 0")
    told = [(entry.direction.value, entry.data) for entry in line.actor.exchanges()]
    assert told == [
        ("note", b"opened"),
        ("sent", b"*IDN?\n"),
        ("received", IDN.encode()),
        ("sent", b"ECHO? 0\n"),
        ("received", b"0"),
    ]
