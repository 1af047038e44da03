"""A line on the event loop: gives it back while it waits, and is called and told as on a thread."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE

import pytest

from edged.clock import SystemClock
from edged.transports.link import LinkPreempted
from edged.transports.loop_wake import LoopWake

WITHIN_S = 5.0


async def worked(wake: LoopWake, work: Callable[[], None]) -> None:
    """Have the work done to its end, on the loop."""
    failed: list[BaseException] = []
    over = asyncio.Event()

    def whole() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised in the test
            failed.append(error)
        over.set()

    wake.worker(whole, "line").start()
    async with asyncio.timeout(WITHIN_S):
        await over.wait()
    if failed:
        raise failed[0]


@pytest.fixture
async def wake() -> LoopWake:
    return LoopWake(asyncio.get_running_loop())


async def test_the_loop_goes_on_while_a_line_pauses(wake: LoopWake) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    await worked(wake, lambda: wake.pause(0.05, SystemClock()))
    beside.cancel()
    assert turns > 3


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_a_pre_emption_ends_a_pause_from_any_thread(
    wake: LoopWake, is_elsewhere: bool
) -> None:
    def preempt() -> None:
        if is_elsewhere:
            threading.Thread(target=wake.preempt, args=(1,)).start()
        else:
            wake.preempt(1)

    asyncio.get_running_loop().call_later(0.02, preempt)
    wake.ticket = 1
    with pytest.raises(LinkPreempted):
        await worked(wake, lambda: wake.pause(60, SystemClock()))


async def test_one_for_earlier_work_ends_nothing(wake: LoopWake) -> None:
    wake.ticket = 2
    asyncio.get_running_loop().call_later(0.01, wake.preempt, 1)
    await worked(wake, lambda: wake.pause(0.05, SystemClock()))


async def test_a_socket_is_waited_for_and_what_comes_unasked_does_not_spin(
    wake: LoopWake,
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watch = wake.watch(ours)
        seen: list[tuple[bool, bool]] = []

        def work() -> None:
            seen.append(watch.wait(EVENT_READ, 0.01))
            loop.call_later(0.01, theirs.send, b"x")
            seen.append(watch.wait(EVENT_READ, WITHIN_S))
            ours.recv(10)
            seen.append(watch.wait(EVENT_WRITE, WITHIN_S))
            loop.call_later(0.01, theirs.send, b"unasked")
            wake.pause(0.03, SystemClock())

        loop = asyncio.get_running_loop()
        await worked(wake, work)
        assert seen == [(False, False), (True, False), (True, False)]
        watch.close()
        watch.close()


async def test_tokens_are_waited_for_and_counted(wake: LoopWake) -> None:
    tokens = wake.tokens()
    got: list[str] = []

    def work() -> None:
        with pytest.raises(queue.Empty):
            tokens.get(timeout=0.01)
        for _ in range(3):
            tokens.get()
            got.append("one")

    asyncio.get_running_loop().call_later(0.03, lambda: [tokens.put(None) for _ in range(3)])
    await worked(wake, work)
    assert len(got) == 3


async def test_what_blocks_is_done_apart_and_its_error_raised(wake: LoopWake) -> None:
    threads: list[int] = []

    def fails() -> None:
        threads.append(threading.get_ident())
        raise ZeroDivisionError

    def work() -> None:
        assert wake.apart(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            wake.apart(fails)

    await worked(wake, work)
    assert threads != [threading.get_ident()]


async def test_what_a_line_tells_is_called_outside_of_its_work(wake: LoopWake) -> None:
    order: list[str] = []
    tell = wake.teller(asyncio.get_running_loop())

    def work() -> None:
        tell(order.append, "told")
        order.append("said")
        wake.pause(0.01, SystemClock())

    await worked(wake, work)
    assert order == ["said", "told"]


async def test_whoever_gives_work_is_told_nothing_before_it_has_gone_on(wake: LoopWake) -> None:
    tokens, tell = wake.tokens(), wake.teller(asyncio.get_running_loop())
    order: list[str] = []

    def work() -> None:
        tokens.get()
        tell(order.append, "told")
        tokens.get()

    wake.worker(work, "line").start()
    await asyncio.sleep(0)
    tokens.put(None)
    order.append("went on")
    await asyncio.sleep(0.01)
    assert order == ["went on", "told"]
    tokens.put(None)
    await asyncio.sleep(0)


async def test_one_lines_work_that_wakes_another_is_not_interrupted(wake: LoopWake) -> None:
    other = LoopWake(asyncio.get_running_loop())
    tokens = other.tokens()
    order: list[str] = []

    def others_work() -> None:
        tokens.get()
        order.append("other")

    other.worker(others_work, "other").start()
    await asyncio.sleep(0)

    def work() -> None:
        tokens.put(None)
        order.append("one")
        wake.pause(0.02, SystemClock())

    await worked(wake, work)
    assert order == ["one", "other"]
