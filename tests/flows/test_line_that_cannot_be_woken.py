"""A transport that waits inside one call (VXI-11, USBTMC): nobody waits with it."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from edged.clock import SystemClock
from edged.errors import ErrorCode, Failed
from edged.instruments.actor import Actor
from edged.instruments.conversation import Ask, Conversation
from edged.instruments.line import BoundInstrument
from edged.instruments.mailbox import Priority
from edged.transports.address import parse_address
from tests.bench.scripted_link import ScriptedLink
from tests.bench.waiting import HANGS_S

IDN = "ACME,PSU1,A001,1.0"


def hang() -> Conversation[str]:
    answer = yield Ask("HANG?")
    return str(answer)


class Stuck:
    """An actor on a link whose wait ends when the test says so, whatever is pre-empted."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.link = ScriptedLink({"*IDN?": IDN.encode() + b"\n"})
        self.link.while_waiting = self._wait
        self.actor = Actor(
            address=parse_address("TCPIP::nowhere::INSTR"),
            link=self.link,
            clock=SystemClock(),
            is_same_unit=lambda one, other: one == other,
            report=lambda _actor, _report: None,
        )
        self.actor.start()
        self.actor.settle(BoundInstrument(number=1, idn=IDN))

    def _wait(self) -> None:
        self.let_go.wait(10)

    async def ask(self) -> str:
        return await self.actor.converse(
            hang, unit=1, priority=Priority.COMMAND, timeout_s=0.3, name="hang"
        )


@pytest.fixture
async def stuck() -> AsyncIterator[Stuck]:
    stuck = Stuck()
    yield stuck
    stuck.let_go.set()
    await stuck.actor.stop(2.0)


async def test_its_caller_is_told_in_time_and_what_was_sent(stuck: Stuck) -> None:
    with pytest.raises(Failed) as caught:
        async with asyncio.timeout(HANGS_S):
            await stuck.ask()
    assert caught.value.code is ErrorCode.TIMEOUT
    assert caught.value.sent == ("HANG?",)


async def test_stopping_leaves_its_thread_behind_and_says_so(stuck: Stuck) -> None:
    with pytest.raises(Failed):
        await stuck.ask()
    assert not await stuck.actor.stop(0.05)
