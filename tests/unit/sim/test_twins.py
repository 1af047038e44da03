"""Twins: simulated instruments whose wires are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from edged.engine.virtual_time import VirtualClock, VirtualLoop
from edged.transports.in_memory import InMemoryLink
from edged.transports.link import Link, LinkError, LinkLost, LinkTimeout
from edged_sim.twins import Twins, open_twins

Story = Callable[[Twins, VirtualClock, "Line"], Awaitable[None]]
METER = "keysight_34461a"


class Line:
    """The line's work, as an actor does it: in a greenlet on the loop."""

    def __init__(self, link: Link) -> None:
        self.link = link

    async def does(self, work: Callable[[Link], object]) -> object:
        """What the work gives or raises."""
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def working() -> None:
            try:
                done.set_result(work(self.link))
            except LinkError as error:
                done.set_exception(error)

        self.link.wake.worker(working, "line").start()
        return await done


def tell(story: Story, *, seed: int = 0) -> None:
    clock = VirtualClock(wall_ns=1_790_000_000_000_000_000)

    async def told() -> None:
        twins = open_twins(clock=clock, seed=seed)
        wire = await twins.add_twin("dmm1", METER, "MY1")
        assert wire is not None
        line = Line(InMemoryLink(wire, clock))
        await line.does(lambda link: link.open(1.0))
        try:
            await story(twins, clock, line)
        finally:
            await line.does(lambda link: link.close())
            await twins.stop()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(told())


def ask(question: bytes, timeout_s: float = 2.0) -> Callable[[Link], bytes]:
    def work(link: Link) -> bytes:
        link.write(question, 1.0)
        return link.read_message(b"\n", timeout_s)

    return work


def test_a_twin_has_the_serial_number_of_its_unit_and_answers_after_its_own_time() -> None:
    async def story(_twins: Twins, clock: VirtualClock, line: Line) -> None:
        answer = await line.does(ask(b"*IDN?\n"))
        assert isinstance(answer, bytes)
        assert b",MY1," in answer
        assert 0 < clock.passed_s < 1

    tell(story)


def test_equal_seeds_give_equal_readings_and_other_seeds_others() -> None:
    read: list[object] = []

    async def story(_twins: Twins, _clock: VirtualClock, line: Line) -> None:
        read.append(await line.does(ask(b"MEAS:VOLT:DC?\n")))

    tell(story)
    tell(story)
    tell(story, seed=1)
    assert read[0] == read[1]
    assert read[0] != read[2]


def test_what_is_not_answered_ends_at_its_time_limit() -> None:
    async def story(_twins: Twins, clock: VirtualClock, line: Line) -> None:
        began = clock.passed_s
        with pytest.raises(LinkTimeout):
            await line.does(ask(b"DIAG:DELAY? 900,1\n", timeout_s=3.0))
        assert clock.passed_s - began == pytest.approx(3.0)

    tell(story)


def test_bytes_are_read_by_number_and_the_rest_stays() -> None:
    async def story(_twins: Twins, clock: VirtualClock, line: Line) -> None:
        def work(link: Link) -> tuple[bytes, bytes]:
            link.write(b"DIAG:ECHO? 123456\n", 1.0)
            return link.read_exactly(3, 1.0), link.read_message(b"\n", 1.0)

        assert await line.does(work) == (b"123", b"456")
        assert line.link.is_quiet()

    tell(story)


def test_a_unit_that_closes_the_connection_is_lost_and_can_be_opened_again() -> None:
    async def story(twins: Twins, clock: VirtualClock, line: Line) -> None:
        await twins.station("dmm1").close()
        await clock.sleep(0)
        with pytest.raises(LinkLost):
            await line.does(lambda link: link.open(1.0))
        await twins.station("dmm1").power_on()
        await line.does(lambda link: link.open(1.0))
        assert b"MY1" in bytes(str(await line.does(ask(b"*IDN?\n"))), "ascii")

    tell(story)


def test_messages_that_a_twin_cannot_take_are_refused_and_not_lost_unseen() -> None:
    async def story(_twins: Twins, _clock: VirtualClock, line: Line) -> None:
        with pytest.raises(LinkTimeout, match="takes no more"):
            await line.does(lambda link: link.write(b"*CLS\n" * 1_000, 1.0))

    tell(story)


def test_a_model_that_there_is_not_has_no_address() -> None:
    async def story(twins: Twins, _clock: VirtualClock, _line: Line) -> None:
        assert await twins.add_twin("x", "no_such_model", "") is None
        assert await twins.add_twin("x", "", "") is None

    tell(story)
