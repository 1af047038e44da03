"""A simulated bench in virtual time, and engines on it that die at any message, as by kill -9.

All is on one loop. An engine that dies sends nothing more, and what its successor finds is what was
on the disk at that moment: a copy of its directory. The bench lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from edged.actions.action import NamedAction
from edged.actions.caller import Approval, Caller, Route
from edged.actions.envelope import OpenEnvelope
from edged.discovery.registering import Knowledge
from edged.engine.rehearsal import TwinCore, _config_in, _knowledge_of
from edged.engine.rehearsals import RealUnit
from edged.engine.virtual_time import VirtualClock, VirtualLoop
from edged.profiles.unit_rules import UnitRules
from edged.runs.experiments.registry import Experiments
from edged.transports.in_memory import FarEnd, InMemoryLink, Joined
from edged_sim.twins import Twins, open_twins
from tests.bench.shipped import shipped_library

WALL_MS = 1_790_000_000_000


@dataclass(slots=True)
class Sent:
    """A message that reached a unit."""

    at_s: float
    unit: str
    text: str
    life: int


@dataclass(slots=True)
class Life:
    """One engine.

    Attributes:
        dies_at: it dies when so many messages of it have arrived; 0: never.
        corpse: where what it left on the disk lies.
    """

    number: int
    directory: Path
    dies_at: int
    core: Any = None
    sent: int = 0
    corpse: Path | None = None
    died: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def experiments(self) -> Experiments:
        found: Experiments = self.core.work.experiments.get()
        return found

    def die(self) -> None:
        """Now, as far as the bench and the disk can tell."""
        if self.corpse is None:
            self.corpse = self.directory.with_name(f"life{self.number + 1}")
            shutil.copytree(self.directory, self.corpse)
            self.died.set()


class Tapped:
    """A wire on which each message counts; implements ``Joined`` and ``FarEnd``."""

    def __init__(self, name: str, wire: FarEnd, bench: Lives) -> None:
        self.name = name
        self.address = wire.address
        self._wire = wire
        self._bench = bench

    def join(self, say: Callable[[bytes], None], end: Callable[[], None]) -> Joined | None:
        if self.name in self._bench.is_off:
            return None
        joined = self._wire.join(say, end)
        return None if joined is None else _Joined(self.name, joined, self._bench, self._bench.now)


@dataclass(slots=True)
class _Joined:
    name: str
    joined: Joined
    bench: Lives
    life: Life

    def hear(self, data: bytes) -> bool:
        life, bench = self.life, self.bench
        if life.corpse is not None or self.name in bench.is_deaf:
            return True
        life.sent += 1
        for text in data.decode("latin-1").splitlines():
            bench.sent.append(Sent(bench.clock.monotonic(), self.name, text, life.number))
        taken = self.joined.hear(data)
        if life.sent == life.dies_at:
            life.die()
        return taken

    def leave(self) -> None:
        self.joined.leave()


class _Core(TwinCore):
    """A core that looks after what its predecessor left."""

    async def start(self, parts: contextlib.AsyncExitStack) -> None:
        await super().start(parts)
        await self._work.clean_up()
        if (experiments := self._work.experiments.made) is not None:
            experiments.left.start(parts)


class Lives:
    """The bench.

    Args:
        units: name → profile.

    Attributes:
        rules: what owners say, by name; read when a life begins.
        is_off: units that take no connection; ``is_deaf`` those that hear nothing.
    """

    def __init__(self, directory: Path, clock: VirtualClock, units: Mapping[str, str]) -> None:
        self.clock = clock
        self.rules: dict[str, UnitRules] = {}
        self.is_off: set[str] = set()
        self.is_deaf: set[str] = set()
        self.sent: list[Sent] = []
        self.twins: Twins = open_twins(clock=clock, seed=1)
        library = shipped_library()
        self.units = [
            RealUnit(name=name, profile=library.profiles[profile])
            for name, profile in units.items()
        ]
        self.wires: dict[str, Tapped] = {}
        self.now = Life(number=0, directory=directory / "life0", dies_at=0)
        self.now.directory.mkdir()

    # ``TwinBench``, for the core of each life.

    async def add_twin(self, name: str, model: str, serial: str) -> FarEnd | None:
        if name not in self.wires:
            wire = await self.twins.add_twin(name, model, serial)
            assert wire is not None
            self.wires[name] = Tapped(self.units[_number(name)].name, wire, self)
        return self.wires[name]

    async def stop(self) -> None:
        """It lives on."""

    def open_link(self, address: str) -> InMemoryLink:
        """A visit to a unit, as ``VisaLibrary`` opens one."""
        (wire,) = (wire for wire in self.wires.values() if wire.address == address)
        return InMemoryLink(wire, self.clock)

    @contextlib.asynccontextmanager
    async def life(self, dies_at: int = 0, absent: tuple[str, ...] = ()) -> AsyncIterator[Life]:
        """One engine, on what the one before has left.

        Args:
            absent: units that it does not meet.
        """
        last = self.now
        life = self.now = Life(
            number=last.number + 1,
            directory=last.corpse or last.directory,
            dies_at=dies_at,
        )
        units = [
            replace(unit, rules=self.rules.get(unit.name, UnitRules(key=unit.name)))
            for unit in self.units
        ]
        knowledge: Knowledge = _knowledge_of(units, ())
        config = _config_in(life.directory, {"DATA_DIR": str(life.directory / "data")})
        async with contextlib.AsyncExitStack() as parts:
            life.core = core = _Core(config, clock=self.clock, twins=self, knowledge=knowledge)
            core._work._visa = self  # type: ignore[assignment]
            await core.start(parts)
            for number, unit in enumerate(units):
                if unit.name not in absent:
                    assert await core.meet(unit, number)
            yield life

    async def swap(self, name: str) -> None:
        """Put another unit of the same model where this one is."""
        number = [unit.name for unit in self.units].index(name)
        model = self.units[number].profile.sim or ""
        wire = await self.twins.add_twin(f"other{number}", model, "")
        assert wire is not None
        self.wires[f"unit{number}"]._wire = wire

    def turn(self, name: str, message: str) -> None:
        """Somebody turns a knob of a unit."""
        number = [unit.name for unit in self.units].index(name)
        joined = self.wires[f"unit{number}"]._wire.join(lambda _said: None, lambda: None)
        assert joined is not None
        joined.hear(f"{message}\n".encode())
        joined.leave()

    def state(self, name: str) -> dict[str, Any]:
        """Set-points and outputs of a unit."""
        number = [unit.name for unit in self.units].index(name)
        told: dict[str, Any] = self.twins.describe()["instruments"][f"unit{number}"]["state"]
        return told

    def writes(self, name: str, head: str, *, since: int = 0) -> list[Sent]:
        """The values that a unit was told, with ``text`` being the value alone."""
        return [
            Sent(one.at_s, name, one.text.removeprefix(head).strip(), one.life)
            for one in self.sent[since:]
            if one.unit == name and one.text.startswith(head)
        ]


def _number(name: str) -> int:
    return int(name.removeprefix("unit"))


def action(core: Any, name: str = "bench__start_experiment", **arguments: Any) -> NamedAction:
    """As a client at the bench calls it."""
    return NamedAction(
        operation=name,
        tool=name,
        caller=Caller(route=Route.DIRECT, client="tester"),
        action_id=core.bench.new_id(),
        arguments=arguments,
    )


async def started(life: Life, plan: str | Mapping[str, Any], approval_id: str = "") -> str:
    """Check and start; the id of the run.

    Args:
        approval_id: of a person who has said yes to it.
    """
    asked = action(life.core)
    checked, problems = await life.experiments.plans.check(asked, plan, {}, {})
    assert checked is not None, [problem.text for problem in problems]
    if approval_id:
        envelope = OpenEnvelope(
            life.experiments.plans.envelope(checked), life.core.bench.clock.monotonic
        )
        approval = Approval(approval_id=approval_id, envelope=envelope)
        asked = replace(asked, caller=replace(asked.caller, approval=approval))
    return (await life.experiments.start(asked, checked)).run_id


async def until(life: Life, what: Callable[[], object]) -> None:
    """Until it is so, or the engine is dead."""
    while not what() and not life.died.is_set():
        await asyncio.sleep(0.05)


async def control(life: Life, run_id: str, wish: str, **more: Any) -> dict[str, Any]:
    """``bench__control_run``; raises what that is refused with."""
    asked = action(life.core, "bench__control_run", run_id=run_id, action=wish, **more)
    outcome = await life.core.bench.perform(asked)
    if outcome.error is not None:
        raise outcome.error
    told: dict[str, Any] = outcome.data
    return told


def is_over(life: Life, run_id: str) -> bool:
    told = life.experiments.status(run_id)
    return told["state"] in {"completed", "stopped", "failed"}


async def operate(life: Life, run_id: str, answers: list[Any]) -> None:
    """Answer the questions of a run, in their order, as a person does."""
    asked = 0
    while answers and not life.died.is_set() and not is_over(life, run_id):
        question = life.experiments.status(run_id)["question"]
        if question is not None and question["number"] != asked:
            asked = question["number"]
            await asyncio.sleep(1)
            await control(life, run_id, "answer", value=answers.pop(0))
        await asyncio.sleep(0.1)


def in_virtual_time(work: Callable[[VirtualClock], Coroutine[Any, Any, None]]) -> None:
    """Run a test that needs no time."""
    clock = VirtualClock(wall_ns=WALL_MS * 1_000_000)
    # Each action of each life would be a line.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
            runner.run(work(clock))
    finally:
        structlog.reset_defaults()
