"""The actor's own thread over a scripted link."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator

import pytest

from edged.actions.cause import Cause
from edged.clock import SystemClock
from edged.errors import ErrorCode, Failed
from edged.instruments.actor import Actor
from edged.instruments.conversation import Ask, Conversation
from edged.instruments.line import BoundInstrument
from edged.instruments.mailbox import Job, Priority
from edged.instruments.pool import LINES_END
from edged.profiles.model import Connection
from edged.runs.wording import all_stopped_by, interlock_tripped
from edged.transports.address import parse_address
from tests.bench.scripted_link import ScriptedLink
from tests.promises import promise

WITHIN_S = 20.0


def ask() -> Conversation[str]:
    answer = yield Ask("READ?")
    return str(answer)


@pytest.fixture
async def link() -> ScriptedLink:
    return ScriptedLink()


@pytest.fixture
async def actor(link: ScriptedLink) -> AsyncIterator[Actor]:
    made = Actor(
        address=parse_address("TCPIP::127.0.0.1::1::SOCKET"),
        link=link,
        clock=SystemClock(),
        is_same_unit=lambda _one, _other: True,
        report=lambda _actor, _report: None,
    )
    made.start()
    yield made
    await made.stop(WITHIN_S)


async def test_a_job_that_made_way_in_the_moment_of_the_stop_is_told_so_at_once(
    actor: Actor, link: ScriptedLink
) -> None:
    """The line's thread may put a job back after the stop has taken out all that waited."""
    loop = asyncio.get_running_loop()
    is_drained = threading.Event()
    waiting: asyncio.Future[str] = loop.create_future()
    late = Job(
        make=ask,
        priority=Priority.COMMAND,
        name="read",
        deadline=SystemClock().monotonic() + 600,
        unit=0,
        future=waiting,
        owner=actor,
    )

    def put_back_late() -> None:
        is_drained.wait(WITHIN_S)
        actor._mailbox.put_back(late)

    link.while_waiting = put_back_late
    serving = asyncio.create_task(
        actor.converse(ask, unit=0, priority=Priority.COMMAND, timeout_s=600, name="read")
    )
    while not link.written:
        await asyncio.sleep(0)
    stopping = asyncio.create_task(actor.stop(WITHIN_S))
    await asyncio.sleep(0)
    is_drained.set()
    async with asyncio.timeout(WITHIN_S):
        for told in (serving, waiting):
            with pytest.raises(Failed) as failed:
                await told
            assert failed.value.code is ErrorCode.DISCONNECTED
        assert await stopping


async def test_the_trial_of_a_stop_is_taken_without_a_byte_and_lets_work_be(
    actor: Actor, link: ScriptedLink
) -> None:
    loop = asyncio.get_running_loop()
    may_answer, is_waiting = threading.Event(), threading.Event()

    def answer() -> bytes:
        is_waiting.set()
        may_answer.wait(WITHIN_S)
        return b"1\n"

    link.answers = {"READ?": answer}
    trial: asyncio.Future[None] = loop.create_future()
    actor.try_stop(trial, WITHIN_S)
    async with asyncio.timeout(WITHIN_S):
        await trial
    assert link.written == []
    assert link.events == []
    serving = asyncio.create_task(
        actor.converse(ask, unit=0, priority=Priority.COMMAND, timeout_s=600, name="read")
    )
    assert await asyncio.to_thread(is_waiting.wait, WITHIN_S)
    late: asyncio.Future[None] = loop.create_future()
    actor.try_stop(late, WITHIN_S)
    assert actor.is_serving
    assert not late.done()
    may_answer.set()
    async with asyncio.timeout(WITHIN_S):
        assert await serving == "1"
        await late


@promise("audit.causes")
@pytest.mark.parametrize(
    ("cause", "ended"),
    [
        (interlock_tripped("chamber"), "set_voltage was ended by interlock chamber after"),
        (all_stopped_by("ada"), "set_voltage was ended by stop all of ada after"),
        (None, "set_voltage was ended by output_off after"),
    ],
)
async def test_a_job_on_the_wire_is_told_what_interrupted_it(
    actor: Actor, link: ScriptedLink, cause: Cause | None, ended: str
) -> None:
    is_interrupted = threading.Event()
    link.while_waiting = lambda: is_interrupted.wait(WITHIN_S) and None
    serving = asyncio.create_task(
        actor.converse(ask, unit=0, priority=Priority.COMMAND, timeout_s=600, name="set_voltage")
    )
    while not link.written:
        await asyncio.sleep(0)
    making_safe = asyncio.create_task(
        actor.converse(
            ask, unit=0, priority=Priority.SAFE, timeout_s=5, name="output_off", cause=cause
        )
    )
    await asyncio.sleep(0)
    is_interrupted.set()
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(Failed, match=ended) as failed:
            await serving
    assert failed.value.code is ErrorCode.PREEMPTED
    making_safe.cancel()
    await asyncio.gather(making_safe, return_exceptions=True)


@promise("audit.causes")
async def test_a_job_on_the_wire_is_ended_because_the_engine_stopped(
    actor: Actor, link: ScriptedLink
) -> None:
    is_interrupted = threading.Event()
    link.while_waiting = lambda: is_interrupted.wait(WITHIN_S) and None
    serving = asyncio.create_task(
        actor.converse(ask, unit=0, priority=Priority.COMMAND, timeout_s=600, name="set_voltage")
    )
    while not link.written:
        await asyncio.sleep(0)
    stopping = asyncio.create_task(actor.stop(WITHIN_S, LINES_END))
    await asyncio.sleep(0)
    is_interrupted.set()
    await stopping
    with pytest.raises(Failed, match="ended because the engine stopped"):
        await serving


QUICK = Connection(timeout_ms=20)
KNOWN = BoundInstrument(number=1, idn="ACME,M,1,1", connection=QUICK)


@promise("line.recovery-bounded")
async def test_a_call_that_waits_behind_a_recovery_ends_by_its_own_limit_and_is_told_why(
    actor: Actor, link: ScriptedLink
) -> None:
    may_answer, is_asked = threading.Event(), threading.Event()

    def answer() -> bytes:
        is_asked.set()
        may_answer.wait(WITHIN_S)
        return b"ACME,M,1,1\n"

    link.answers = {"*IDN?": answer, "READ?": b"1\n"}
    actor.settle(KNOWN)
    assert await asyncio.to_thread(is_asked.wait, WITHIN_S)
    asked = functools.partial(actor.converse, ask, unit=1, timeout_s=600, name="read")
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(Failed, match=r"read was not sent.* is being recovered") as failed:
            await asked(priority=Priority.COMMAND)
    assert failed.value.code is ErrorCode.TIMEOUT
    assert failed.value.sent == ()
    assert link.written == ["*IDN?"]
    # The recovery has gone on without it.
    may_answer.set()
    async with asyncio.timeout(WITHIN_S):
        assert await asked(priority=Priority.COMMAND) == "1"


@promise("line.recovery-bounded")
async def test_a_call_waits_for_longer_behind_the_work_of_others(
    actor: Actor, link: ScriptedLink
) -> None:
    is_waiting, may_answer = threading.Event(), threading.Event()

    def answer() -> bytes:
        is_waiting.set()
        may_answer.wait(WITHIN_S)
        return b"1\n"

    link.answers = {"*IDN?": b"ACME,M,1,1\n", "READ?": answer}
    actor.settle(KNOWN)
    first, second = (
        asyncio.create_task(
            actor.converse(ask, unit=1, priority=Priority.COMMAND, timeout_s=600, name="read")
        )
        for _ in range(2)
    )
    assert await asyncio.to_thread(is_waiting.wait, WITHIN_S)
    job = next(iter(actor._deadlines._jobs))
    while job.rest_s:
        # Its time behind a recovery passes.
        await asyncio.sleep(0.01)
    may_answer.set()
    async with asyncio.timeout(WITHIN_S):
        assert [await first, await second] == ["1", "1"]
