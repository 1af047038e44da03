"""A rehearsal: a job on simulated twins of units, in virtual time, in a process of its own.

``python -m edged.engine.rehearsal`` reads one request from standard input, does its job, and writes
one line to standard output; ``rehearsals.py`` is the daemon's end of it. Here is an engine's core
(stores, rules, runs, command path) without any port. Its units are twins with the profile, the
owner's rules and the serial number of the real ones, so that limits, budgets and interlocks hold
as they would. What its owner wants to be asked about (``confirm``) is not asked about here.

A request is a mapping of ``job``, ``arguments``, ``units``, ``interlocks``, ``config``, ``seed``,
``wall_ms``, ``processor_s`` and ``deadline_s``, as ``rehearsals.request_of`` makes it. The answer
is ``{"result": …, "no_model": […], "left_out": […], "virtual_s": s}`` or ``{"error": {…}}``.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import faulthandler
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from edged.actions.action import NamedAction, RunSequence
from edged.actions.caller import Caller, Route
from edged.config.instruments import InstrumentEntry
from edged.config.keys import LogFormat, LogLevel
from edged.config.load import Config, load_config
from edged.discovery.registering import Knowledge, examine
from edged.engine.core import Core
from edged.engine.rehearsals import RealUnit
from edged.engine.virtual_time import VirtualClock, VirtualLoop
from edged.errors import EdgedError, Invalid
from edged.experiments.model import AskType
from edged.files import open_update, write_atomically
from edged.host import places_here
from edged.instruments.identity import Seat
from edged.log import set_up_logging
from edged.plugins import load_plugin
from edged.profiles.bench_file import BenchFile, plain
from edged.profiles.interlocks import Interlock
from edged.profiles.library import ProfileLibrary, unpack
from edged.runs.bench import DATABASE_FILE
from edged.runs.experiments.run import ExperimentRun
from edged.runs.recordings.append import Disk
from edged.store.at_once import DatabaseAtOnce
from edged.transports.in_memory import FarEnd, InMemoryLink
from edged.transports.visa import VisaLibrary
from edged.yaml.tree import Scalar

NICE: Final = 10
"""The instruments of the daemon go before its rehearsals."""


class TwinBench(Protocol):
    """What ``edged_sim.twins.open_twins`` gives."""

    async def add_twin(self, name: str, model: str, serial: str) -> FarEnd | None:
        """Put a twin there; gives the way to it, ``None`` where there is no such model."""
        ...

    async def stop(self) -> None:
        """End all of them."""
        ...


class _Unsynced(Disk):
    """What a rehearsal records is read by itself alone, and goes with it."""

    def sync(self, handle: int) -> None:
        """See ``Disk``: that can wait for ever."""

    def put(self, path: Path, text: str | bytes) -> None:
        write_atomically(path, text)

    def overwrite(self, path: Path, data: bytes) -> None:
        with open_update(path) as file:
            file.write(data)


class TwinCore(Core):
    """A core whose units are twins. All methods belong to one loop in virtual time."""

    def __init__(
        self, config: Config, *, clock: VirtualClock, twins: TwinBench, knowledge: Knowledge
    ) -> None:
        super().__init__(
            config,
            clock=clock,
            knowledge=lambda: knowledge,
            visa=VisaLibrary(clock=clock),
            database=DatabaseAtOnce(path=config.state_dir / DATABASE_FILE, clock=clock),
            is_supervised=False,
            visited={},
            disk=_Unsynced(),
        )
        self._path = self._make_path({}, lambda _instrument_id, plain_name: plain_name)
        self._twins = twins

    async def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Start what a job needs; ``parts`` gets what ends it."""
        await self._stores.start(parts)
        self._budgets.start()
        self._leases.start()
        parts.push_async_callback(self._leases.stop)
        parts.push_async_callback(self._twins.stop)
        parts.push_async_callback(self._pool.stop)
        self._work.start(parts)
        await self._guards.interlocks.learn(self._knowledge().bench.interlocks)
        self._guards.start(parts)
        parts.push_async_callback(self._work.end)

    async def meet(self, unit: RealUnit, number: int) -> bool:
        """Make a twin and register it as that unit; whether its profile has a simulated model.

        Args:
            number: counts the units.
        """
        wire = await self._twins.add_twin(f"unit{number}", unit.profile.sim or "", unit.serial)
        if wire is None:
            return False
        entry = InstrumentEntry(address=wire.address, name=unit.name, profile=unit.profile.key)
        actor = self._pool.open_line(wire.address, InMemoryLink(wire, self._clock))
        found = await examine(actor, entry, self._knowledge())
        place = actor.address
        seat = Seat(key=place.key, transport=place.transport, is_configured=True, name=unit.name)
        self._pool.arrive(actor, found, seat)
        return True


LOOKS_EVERY_S: Final = 5.0
"""How often the person of a rehearsal looks for a question, in virtual time."""
Job = Callable[[Core, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""The core and the arguments → a result that JSON can write."""


async def run_sequence(core: Core, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A sequence of a profile: {instrument_id, sequence_name, parameters} → its outcome."""
    outcome = await core.bench.perform(
        RunSequence(
            tool="execute_sequence",
            caller=Caller(route=Route.DIRECT, client="rehearsal"),
            action_id=core.bench.new_id(),
            scope=arguments["sequence_name"],
            arguments=arguments,
            instrument_id=arguments["instrument_id"],
            sequence_name=arguments["sequence_name"],
            parameters=arguments.get("parameters", {}),
        )
    )
    return {
        "status": outcome.status.value,
        "data": outcome.data,
        "error": outcome.error.to_json() if outcome.error is not None else None,
    }


async def run_experiment(core: Core, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment: {source, roles, parameters} → its last status.

    A person who always says yes answers its questions.
    """
    experiments = core.work.experiments.get()
    action = NamedAction(
        operation="bench__start_experiment",
        tool="bench__start_experiment",
        caller=Caller(route=Route.DIRECT, client="rehearsal"),
        action_id=core.bench.new_id(),
    )
    plan, problems = await experiments.plans.check(
        action, arguments["source"], arguments["roles"], arguments["parameters"]
    )
    if plan is None:
        return {"state": "refused", "errors": [problem.to_json() for problem in problems]}
    run = await experiments.start(action, plan)
    operator = asyncio.create_task(_say_yes(core, run))
    try:
        await run.ended.wait()
    finally:
        operator.cancel()
    return experiments.status(run.run_id)


async def _say_yes(core: Core, run: ExperimentRun) -> None:
    while True:
        await core.bench.clock.sleep(LOOKS_EVERY_S)
        question = run.question
        if question is not None and not question.answer.done():
            step = question.step
            answers: dict[AskType, Scalar] = {
                AskType.NUMBER: step.min if step.min is not None else (step.max or 0.0),
                AskType.CHOICE: next(iter(step.options), ""),
                AskType.TEXT: f"rehearsed {question.number}",
            }
            question.answer.set_result(answers.get(step.type, True))


async def rehearse_here(request: Mapping[str, Any], clock: VirtualClock) -> dict[str, Any]:
    """Do the job of a request on this loop, which is in virtual time.

    Raises:
        Invalid: there is no such job.
        Failed: there are no simulated instruments.
        EdgedError: what the job raises.
    """
    job = JOBS.get(request["job"])
    if job is None:
        raise Invalid(f"There is no job {request['job']!r}; there are {', '.join(JOBS)}.")
    units = [_unit_of(told) for told in request["units"]]
    interlocks, left_out = _rehearsed(_unpacked(request["interlocks"]), units)
    twins: TwinBench = load_plugin("twins", "edged_sim").open_twins(
        clock=clock, seed=request["seed"]
    )
    async with contextlib.AsyncExitStack() as parts:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="edged-")))
        core = TwinCore(
            _config_in(directory, request["config"]),
            clock=clock,
            twins=twins,
            knowledge=_knowledge_of(units, interlocks),
        )
        await core.start(parts)
        no_model = [
            unit.name for number, unit in enumerate(units) if not await core.meet(unit, number)
        ]
        began_s = clock.passed_s
        result = await job(core, request["arguments"])
        return {
            "result": result,
            "no_model": no_model,
            "left_out": left_out,
            "virtual_s": clock.passed_s - began_s,
        }


def _unit_of(told: Mapping[str, str]) -> RealUnit:
    profile, rules = _unpacked(told["packed"])
    return RealUnit(
        name=told["name"],
        profile=profile,
        # Who is asked, is asked before the real run.
        rules=replace(rules, key=told["name"], confirm=()),
        serial=told["serial"],
    )


def _unpacked(text: str) -> Any:
    return unpack(base64.b64decode(text))


def _rehearsed(
    interlocks: Sequence[Interlock], units: Sequence[RealUnit]
) -> tuple[tuple[Interlock, ...], list[str]]:
    """Those that read a twin; and the names of the others, which nobody could answer here."""
    known = {plain(name) for unit in units for name in (unit.name, unit.serial, unit.rules.alias)}
    kept = tuple(rule for rule in interlocks if plain(rule.instrument) in known)
    return kept, [rule.name for rule in interlocks if rule not in kept]


def _knowledge_of(units: Sequence[RealUnit], interlocks: tuple[Interlock, ...]) -> Knowledge:
    library = ProfileLibrary(profiles={unit.profile.key: unit.profile for unit in units})
    rules = {unit.name: unit.rules for unit in units}
    return Knowledge(library=library, bench=BenchFile(units=rules, interlocks=interlocks))


def _config_in(directory: Path, keys: Mapping[str, str]) -> Config:
    places = replace(
        places_here(), config_file=directory / "edged.yaml", bench_file=directory / "bench.yaml"
    )
    set_keys = {"STATE_DIR": str(directory), "DIRECT_DANGER_ALLOW": "true", **keys}
    flags = [(key, text, key) for key, text in set_keys.items()]
    return load_config(places=places, environ={}, flags=flags, is_simulated=True).config


def perform(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do the job of a request in virtual time; gives what the daemon is answered."""
    clock = VirtualClock(request["wall_ms"] * 1_000_000, request["processor_s"])
    try:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
            return runner.run(rehearse_here(request, clock))
    except EdgedError as error:
        return {"error": error.to_json()}


def main() -> None:
    """One request, one answer."""
    answer_to = sys.stdout
    # Nobody else writes where the answer goes.
    sys.stdout = sys.stderr
    set_up_logging(LogLevel.ERROR, LogFormat.JSON)
    request = json.load(sys.stdin)
    # The daemon ends it a moment later; this is for one that has lost its daemon.
    faulthandler.dump_traceback_later(request["deadline_s"], exit=True)
    if sys.platform != "win32":
        os.nice(NICE)
    json.dump(perform(request), answer_to)
    answer_to.flush()


JOBS: Final[Mapping[str, Job]] = MappingProxyType(
    {"sequence": run_sequence, "experiment": run_experiment}
)


if __name__ == "__main__":
    main()
