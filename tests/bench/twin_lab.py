"""An engine's core on simulated twins, in this process and in virtual time: hours take no time.

A test says which units there are and what their owner wants; it gets the core, each line that went
out, and may put words into the mouth of a unit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import structlog

from edged.actions.action import NamedAction, StopAll
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome
from edged.engine.rehearsal import TwinBench, TwinCore, _config_in, _knowledge_of
from edged.engine.rehearsals import RealUnit
from edged.engine.virtual_time import VirtualClock, VirtualLoop
from edged.profiles.confirm import Way
from edged.profiles.unit_rules import UnitRules
from edged.runs.experiments.registry import Experiments
from edged.runs.experiments.run import ExperimentRun
from edged.runs.run import Run
from edged.store.audit.queries import AuditFilter
from edged.store.audit.row import AuditRow
from edged.transports.in_memory import FarEnd, Joined
from edged_sim.bench import Station
from edged_sim.twins import Twins, open_twins
from tests.bench.shipped import shipped_library

T = TypeVar("T")
Lie = Callable[[str, str], str | None]
"""Unit and query → what it answers in place of the truth."""
WALL_NS = 1_796_000_000_000_000_000
UNITS = {
    "psu1": "rigol_dp832",
    "dmm1": "keysight_34461a",
    "load1": "rigol_dl3021",
    "smu1": "keithley_2400",
    "smu2": "keithley_2400",
    "tc1": "lakeshore_335",
}


def the_truth(_unit: str, _query: str) -> None:
    return None


class _Wire:
    """One wire, on which everything is heard."""

    def __init__(self, wire: FarEnd, name: str, lab: TwinLab) -> None:
        self.address = wire.address
        self._wire, self._name, self._lab = wire, name, lab
        self._asked = ""

    def join(self, say: Callable[[bytes], None], end: Callable[[], None]) -> Joined | None:
        def said(data: bytes) -> None:
            told = self._lab.lie(self._name, self._asked)
            say(data if told is None else f"{told}\n".encode())

        joined = self._wire.join(said, end)
        return None if joined is None else _Heard(joined, self._hear)

    def _hear(self, data: bytes) -> None:
        for line in data.decode("latin-1").splitlines():
            self._lab.sent.append((self._name, line))
            self._lab.sent_at.append(self._lab.clock.monotonic())
            self._asked = line


class _Heard:
    def __init__(self, joined: Joined, heard: Callable[[bytes], None]) -> None:
        self._joined, self._heard = joined, heard

    def hear(self, data: bytes) -> bool:
        self._heard(data)
        return self._joined.hear(data)

    def leave(self) -> None:
        self._joined.leave()


class _Twins:
    """See ``TwinBench``."""

    def __init__(self, twins: TwinBench, lab: TwinLab, names: list[str]) -> None:
        self._twins, self._lab, self._names = twins, lab, names

    async def add_twin(self, name: str, model: str, serial: str) -> FarEnd | None:
        wire = await self._twins.add_twin(name, model, serial)
        return wire and _Wire(wire, self._names[int(name.removeprefix("unit"))], self._lab)

    async def stop(self) -> None:
        await self._twins.stop()


class TwinLab:
    """What a story has; its methods belong to the loop in virtual time.

    Attributes:
        sent: unit and line, in the order in which they went out; ``sent_at`` monotonic seconds of
            each.
        twins: the simulated bench, whose instruments are called by ``station``.
    """

    core: TwinCore
    twins: Twins

    def __init__(self, lie: Lie, names: Sequence[str], clock: VirtualClock) -> None:
        self.sent: list[tuple[str, str]] = []
        self.sent_at: list[float] = []
        self.lie = lie
        self.clock = clock
        self._names = names

    @property
    def experiments(self) -> Experiments:
        return self.core.work.experiments.get()

    @property
    def data(self) -> Path:
        """Where runs are recorded."""
        return self.core.work.runs.root

    def station(self, name: str) -> Station:
        """The simulated instrument of a unit, at its place on the bench."""
        return self.twins.station(f"unit{self._names.index(name)}")

    def state(self, name: str) -> Mapping[str, Any]:
        """Set-points and outputs of a unit."""
        state: Mapping[str, Any] = self.station(name).instrument.state.describe(
            self.clock.monotonic()
        )
        return state

    async def run(self, plan: str | Mapping[str, Any], **more: Any) -> ExperimentRun:
        """Begin a plan, YAML or an object, which passes the check."""
        key = "text" if isinstance(plan, str) else "plan"
        outcome = await self.start({key: plan, **more})
        assert outcome.error is None, outcome.error
        return self.experiments.find(str(outcome.data["run_id"]))

    async def over(self, run: Run) -> None:
        """Until a run has ended and all of it is recorded."""
        assert run.task is not None
        await run.task

    async def stop_all(self) -> dict[str, Any]:
        """STOP ALL."""
        caller = self.action("bench__stop_all").caller
        action = StopAll(tool="bench__stop_all", caller=caller, action_id=self.core.bench.new_id())
        return await self.core.work.bench_stop.stop_all(action)

    async def tool(self, name: str, **arguments: Any) -> Outcome:
        """One call, by the command path."""
        return await self.core.bench.perform(self.action(name, **arguments))

    def action(self, name: str, **arguments: Any) -> NamedAction:
        return NamedAction(
            operation=name,
            tool=name,
            caller=Caller(route=Route.DIRECT, client="a test", remote="127.0.0.1"),
            action_id=self.core.bench.new_id(),
            arguments=arguments,
        )

    async def start(self, plan: Any, *, answer: bool | None = None) -> Outcome:
        """Start a plan; the question that comes is answered so."""
        calling = asyncio.create_task(self.tool("bench__start_experiment", **plan))
        if answer is not None:
            question = await self.question()
            await self.core._approvals.answer(
                question["approval_id"], is_yes=answer, way=Way.CLI, by="anna"
            )
        return await calling

    async def question(self) -> dict[str, Any]:
        """The one that waits for a person."""
        for _ in range(100):
            if found := self.core._approvals.listed():
                return found[0]
            await self.core.bench.clock.sleep(0.01)
        raise AssertionError("nobody is asked")

    async def answers(self, run_id: str, answers: Sequence[Any], *, number: int = 1) -> None:
        """Answer the questions of a run, the first of which has this number, as they come."""
        experiments, clock = self.experiments, self.core.bench.clock
        run = experiments.find(run_id)
        for question, answer in enumerate(answers, number):
            while run.question is None or run.question.number != question:
                assert not run.ended.is_set(), run.told(clock.monotonic())
                await clock.sleep(0.5)
            await clock.sleep(0.5)
            experiments.answer(run, answer, question)

    async def ended(self, run_id: str) -> dict[str, Any]:
        """How a run ended."""
        experiments = self.experiments
        await experiments.find(run_id).ended.wait()
        return experiments.status(run_id)

    async def rows(self, prefix: str) -> list[AuditRow]:
        """The rows of the audit log whose tool begins so."""
        found = await self.core.bench.store.audit.list(AuditFilter(), limit=1_000)
        return [row for row in found if row.tool.startswith(prefix)]


def on_twins(
    story: Callable[[TwinLab], Awaitable[T]],
    *names: str,
    rules: Mapping[str, UnitRules] | None = None,
    lie: Lie = the_truth,
) -> T:
    """Let a story happen to these units of ``UNITS``; gives what it gives."""
    clock = VirtualClock(wall_ns=WALL_NS)
    with quiet(), asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(_told(story, names, rules or {}, lie, clock))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without a line of the log for each command."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        yield
    finally:
        structlog.reset_defaults()


async def _told(
    story: Callable[[TwinLab], Awaitable[T]],
    names: tuple[str, ...],
    rules: Mapping[str, UnitRules],
    lie: Lie,
    clock: VirtualClock,
) -> T:
    lab = TwinLab(lie, names, clock)
    lab.twins = open_twins(clock=clock, seed=0)
    profiles = shipped_library().profiles
    units = [
        RealUnit(
            name=name,
            profile=profiles[UNITS[name]],
            rules=replace(rules.get(name, UnitRules()), key=name),
        )
        for name in names
    ]
    twins = _Twins(lab.twins, lab, list(names))
    async with contextlib.AsyncExitStack() as parts:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="edged-")))
        lab.core = TwinCore(
            _config_in(directory, {}),
            clock=clock,
            twins=twins,
            knowledge=_knowledge_of(units, ()),
        )
        await lab.core.start(parts)
        for number, unit in enumerate(units):
            assert await lab.core.meet(unit, number), f"{unit.name} has no model"
        lab.sent.clear()
        lab.sent_at.clear()
        return await story(lab)
