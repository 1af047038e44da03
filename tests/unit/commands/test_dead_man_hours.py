"""A hundred minutes of ordinary work on each maker's timer, engines ending and beginning anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from edged.commands.dead_man import DeadManControl
from edged.errors import EdgedError, ErrorCode, Failed
from edged.instruments.conversation import Ask, Conversation, Send
from edged.instruments.dead_man import Words
from edged.profiles.match import parse_idn
from edged.profiles.unit_rules import UnitRules
from edged.store.dead_man import ArmedUnit
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.shipped import shipped_library
from tests.bench.simulated import PretendedBench
from tests.promises import promise

LIMIT_S = 10.0
MINUTES = 100
UNANSWERED_S = 2.0
"""How long it takes to see that an answer is lost."""
ON = {
    "keysight_n6700": "OUTP ON,(@1)",
    "keysight_n7951a": "OUTP ON",
    "tdk_g10_100": "OUTP:STAT ON",
    "delta_sm500_cp_90": "OUTP ON",
}


class Supply:
    """An instrument with one line, on simulated hardware; what this test needs of one."""

    alias, address, actor = "psu1", "TCPIP::127.0.0.1::5025::SOCKET", None

    def __init__(self, model: str, clock: DrivenClock, random: Random) -> None:
        self.id = self.called = self.address
        self.profile = shipped_library().profiles[model]
        self.connection = self.profile.connection
        self.rules = UnitRules(key="psu1", dead_man_s=LIMIT_S)
        self.timer: Any = None
        self.meeting: object = None
        self.bench = PretendedBench()
        self.unit = self.bench.add(model)
        self.identity = parse_idn(self.unit.ask("*IDN?"))
        self._clock = clock
        self._random = random
        self._line = asyncio.Lock()
        self._jobs: set[asyncio.Task[None]] = set()

    @property
    def truth(self) -> Mapping[str, Any]:
        self.bench.now = max(self.bench.now, self._clock.monotonic())
        return self.unit.instrument.state.describe(self.bench.now)  # type: ignore[no-any-return]

    @property
    def is_on(self) -> bool:
        return bool(self.truth["ch1"]["is_on"])

    def say(self, text: str) -> str:
        self.bench.now = max(self.bench.now, self._clock.monotonic())
        return (self.unit.raw(text) or b"").decode().strip()

    async def hold(self, conversation: Conversation[Any], *, takes_s: float = 0.0) -> Any:
        """On the line, in its turn; sometimes an answer is lost."""
        async with self._line:
            answer: str | None = None
            try:
                while True:
                    step: Any = conversation.send(answer)
                    await self._clock.sleep(takes_s or self._random.uniform(0.001, 0.2))
                    answer = self.say(step.text) if isinstance(step, Ask | Send) else None
                    if isinstance(step, Ask) and self._random.random() < 0.002:
                        await self._clock.sleep(UNANSWERED_S)
                        raise Failed("no answer", code=ErrorCode.TIMEOUT)
            except StopIteration as end:
                return end.value

    async def converse(self, make: Callable[[], Conversation[Any]], **_: Any) -> Any:
        return await self.hold(make())

    def submit(self, make: Callable[[], Conversation[Any]], waiter: Any, **_: Any) -> None:
        async def work() -> None:
            try:
                waiter.set_result(await self.hold(make()))
            except EdgedError as error:
                waiter.set_exception(error)

        task = asyncio.get_running_loop().create_task(work())
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def cut(self) -> None:
        """Whoever held the line is gone."""
        for task in self._jobs:
            task.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        self._line, self.timer = asyncio.Lock(), None


class Rows(dict[str, ArmedUnit]):
    """What is on disk."""

    def note(self, unit: ArmedUnit) -> None:
        self[unit.instrument_id] = unit

    def remove(self, instrument_id: str) -> None:
        self.pop(instrument_id, None)

    def all(self) -> tuple[ArmedUnit, ...]:
        return tuple(self.values())

    def find(self, instrument_id: str, unit: str) -> ArmedUnit | None:
        found = self.get(instrument_id)
        return found if found is not None and found.unit == unit else None


class Lives:
    """One engine after the other."""

    def __init__(self, model: str, clock: DrivenClock, random: Random) -> None:
        self.clock, self.random = clock, random
        self.supply = Supply(model, clock, random)
        self.rows = Rows()
        self.told: dict[str, int] = {}
        self.events: list[str] = []
        self.lives = 0

    @contextlib.asynccontextmanager
    async def visit(self, _address: str, _facts: Mapping[str, Any]) -> AsyncIterator[Any]:
        async def identify() -> str:
            return self.supply.say("*IDN?")

        async def feed(words: Words) -> None:
            if words.watchdog.feeds:
                await self.supply.hold(words.feed(self.supply.connection))

        yield SimpleNamespace(identify=identify, feed=feed)

    async def begin(self) -> DeadManControl:
        """Another engine; it meets the supply some time after it has fed it."""
        self.lives += 1
        pool: Any = SimpleNamespace(
            subscribe=lambda _: None, all=lambda: [self.supply], has_line=lambda _: False
        )
        control = DeadManControl(
            bench=bench_of(
                self.clock,
                store={
                    "armed": self.rows,
                    "told_on": SimpleNamespace(of=lambda _: self.told),
                },
                pool=pool,
                tell=lambda name, _text, _id, _part: self.events.append(name),
            ),
            visit=self.visit,
            fail_on=(),
            is_supervised=True,
        )
        self.supply.meeting = object()
        await control.feed_left()
        await self.clock.sleep(self.random.uniform(0.1, 2.0))
        control.start()
        return control

    async def work(self, seconds: float, control: DeadManControl) -> None:
        """Questions, settings, long answers, and nobody there for longer than the timer runs."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            timer = self.supply.timer
            with contextlib.suppress(Failed):
                await self.supply.hold(_question(), takes_s=self.random.choice([0, 0, 1.0, 3.0]))
            assert timer is None or timer.state.may_talk(self.clock.monotonic(), is_on_loop=True)
            assert control.listed()[0]["state"] == "armed"
            await self.clock.sleep(self.random.choice([0.05, 0.5, 2.0, 1.5 * LIMIT_S]))

    async def run(self, minutes: float) -> None:
        end = self.clock.monotonic() + 60 * minutes
        while self.clock.monotonic() < end:
            control = await self.begin()
            if self.lives == 1:
                timer = control.before(self.supply)  # type: ignore[arg-type]
                self.told = {"OUTP": 1}
                await self.supply.hold(timer.before([ON[self.supply.profile.key]], None))
                await self.supply.hold(_sent(ON[self.supply.profile.key]))
                assert self.supply.is_on
            await self.work(self.random.uniform(20, 300), control)
            if self.lives % 2:
                await control.stop()
            else:
                await self.kill(control)
            await self.supply.cut()
            await self.clock.sleep(self.random.uniform(0.5, 3.0))

    async def kill(self, control: DeadManControl) -> None:
        """Without a word."""
        tasks = [control._task, *control._others]
        for task in tasks:
            assert task is not None
            task.cancel()
        await asyncio.gather(*(task for task in tasks if task), return_exceptions=True)


def _question() -> Conversation[str]:
    return (yield Ask("*IDN?"))


def _sent(line: str) -> Conversation[None]:
    yield Send(line)


@promise("dead-man.ordinary-work")
@pytest.mark.parametrize("model", sorted(ON))
async def test_a_hundred_minutes_of_work_and_restarts_never_trip_it_and_silence_does(
    model: str, driven_clock: DrivenClock
) -> None:
    lives = Lives(model, driven_clock, Random(model))
    working = asyncio.create_task(lives.run(MINUTES))
    while not working.done():
        await driven_clock.advance(1.0)
        if lives.told and lives.lives:
            assert not lives.supply.truth["watchdog"]["is_tripped"], driven_clock.monotonic()
    await working
    assert lives.lives > 20
    assert lives.supply.is_on
    assert "dead_man.tripped" not in lives.events
    # The last one is killed, and none follows.
    driven_clock.move(LIMIT_S + 1)
    assert not lives.supply.is_on
    assert lives.supply.truth["watchdog"]["is_tripped"]
