"""The steps of a plan, done: of an experiment, or of a profile's sequence.

Each action takes the command path; nothing is judged here.

A run pauses between two steps, and inside those that only wait or look: ``wait``, ``settle``,
``poll`` and ``ask`` are frozen, and a ramp stops at its last confirmed value.
"""

from __future__ import annotations

import asyncio
import contextlib
import string
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Final

from edged.actions.action import Action, Purpose, RunCommand, SendLines, SendScpi
from edged.actions.outcome import Outcome
from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.experiments.model import (
    AskStep,
    AskType,
    CheckStep,
    FirstStep,
    IfStep,
    LeaveStep,
    LetStep,
    MeasureStep,
    MissingThen,
    OnAtMost,
    OnFail,
    OnMissing,
    OnNoAnswer,
    RampStep,
    ReadStep,
    RepeatStep,
    SettleStep,
    Value,
    way_to,
)
from edged.experiments.targets import arguments_of, set_parameter
from edged.profiles.answers import parse_answer
from edged.profiles.expr import compile_expression, names_in
from edged.profiles.model import (
    SELF,
    CommandStep,
    ForStep,
    OnError,
    OnTimeout,
    ParameterType,
    PollStep,
    QueryStep,
    RowStep,
    ScalarAnswer,
    Step,
    Target,
    WaitStep,
    walk,
)
from edged.profiles.step_values import fill, loop_values, number, rendered, saved
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.experiments.run import (
    NOWHERE,
    LoopNow,
    OpenQuestion,
    PlanRun,
    Position,
    UnitNow,
)
from edged.runs.experiments.view import swept
from edged.runs.moving import Mover, patiently, taken
from edged.runs.recordings.checks import Check, Limits, UnitVerdict, judge, worst
from edged.runs.run import Ended, Ending, mistake
from edged.runs.states import RunEvent
from edged.runs.sweeps.ramp_plan import Axis, SweptThing
from edged.runs.units import unit_of_instrument
from edged.scpi.answer_text import bad_answer, plain_value
from edged.yaml.tree import Scalar

TOO_SOON_S: Final = 0.3
"""An answer so soon after its question belongs to the one before: a scanner that reads twice."""
LEAST_S: Final = 1e-6
TURN_S: Final = 1.0
"""A wait that is longer ends when somebody wants something of the run."""
DEFAULT_MISSING: Final = OnMissing()
NO_LIMITS: Final = Limits()
MAY_BE_MISSING: Final = frozenset(
    {ErrorCode.TIMEOUT, ErrorCode.DISCONNECTED, ErrorCode.BAD_ANSWER, ErrorCode.INSTRUMENT_ERROR}
)
"""What an instrument can be blamed for; what is refused is no missing reading."""


class Leave(Exception):
    """Ends the loop of this name."""

    def __init__(self, loop: str) -> None:
        super().__init__(loop)
        self.loop = loop


class EndUnit(Exception):
    """Ends the pass that is one unit under test."""


class AbortRun(Ended):
    """A step of the plan ends the run as aborted."""

    def __init__(self, why: str) -> None:
        super().__init__(Ending(event=RunEvent.STOP, reason=why))


@record
class Reading:
    """One value that was read, and why it is missing where it is."""

    value: Scalar | None
    flag: str = ""


class Steps:
    """Does the steps of one run.

    Args:
        checkpoint: called before each pass of the loop at which the run is resumed.
        position: where a run goes on that was interrupted.
    """

    def __init__(
        self,
        bench: Bench,
        run: PlanRun,
        *,
        checkpoint: Callable[[], Awaitable[None]] | None = None,
        position: Position = NOWHERE,
    ) -> None:
        self._bench = bench
        self._run = run
        self._checkpoint = checkpoint
        self._position = position
        # The loops that it has still to go into on its way back, the outermost first.
        self._way = dict(position.loops)
        self._purpose = Purpose.SEQUENCE_STEP
        # Steps of ``on_pause`` or ``on_resume`` are being done, or it waits between them.
        self._is_pausing = False
        self._mover = Mover(
            bench=bench,
            step=self._command_action,
            ask=self._lines,
            rest=self.until,
            stands=self._widen,
        )

    def _widen(self, thing: SweptThing, held: float) -> None:
        """The way from where a set-point stands to the plan's range is in the envelope, too."""
        approval = self._run.caller.approval
        if approval is not None and approval.envelope is not None:
            unit = unit_of_instrument(thing.instrument).key
            approval.envelope.widen(unit, thing.command.name, thing.plan.parameter, held)

    # Order

    async def do_plan(
        self, beside: AbstractAsyncContextManager[None]
    ) -> tuple[RunEvent, EdgedError | None]:
        """Do the steps of the plan but ``finally``; what ended them, and what went wrong.

        Args:
            beside: open while they go on.
        """
        run = self._run
        ending = run.ending
        if ending is None:
            async with beside:
                ending = await run.until_ended(self._through())
        run.reason = run.reason or ending.reason
        return ending.event, ending.failure

    async def _through(self) -> Ending:
        with contextlib.suppress(Leave, EndUnit):
            await self.do_all(self._run.plan.steps)
        return Ending(event=RunEvent.DONE)

    async def do_all(self, steps: tuple[Step, ...]) -> None:
        """Do steps in order.

        Raises:
            EdgedError: what the first one that failed ended with.
            Leave, EndUnit, AbortRun: a step ends what it stands in.
        """
        for step in steps:
            if self._way and not (isinstance(step, FirstStep) or self._is_on_way((step,))):
                continue
            await self.boundary()
            await self._done(step)

    async def _done(self, step: Step) -> None:
        """Do one step; of ``finally`` only a safe command, once everything was stopped."""
        run = self._run
        run.path = step.path
        if self._purpose is not Purpose.FINALLY_STEP or self._is_safe(step):
            await self._do(step)
        elif run.is_safe_only or not await self._do_unsafe(step):
            run.leave_out(step)

    def _is_on_way(self, steps: tuple[Step, ...]) -> bool:
        return bool(way_to(steps, next(iter(self._way))))

    async def _first(self, step: FirstStep) -> None:
        """All of it, also on the way back to a loop behind it."""
        if not self._way or self._is_on_way((step,)):
            await self.do_all(step.steps)
            return
        way, self._way = self._way, {}
        self._run.is_again = True
        try:
            await self.do_all(step.steps)
        finally:
            self._run.is_again = False
        self._way = way

    async def clean_up_loops(self) -> EdgedError | None:
        """``finally`` of the loops in which the run was interrupted, the innermost first."""
        innermost = next(reversed(tuple(self._position.loops)), "")
        way = way_to(self._run.plan.steps, innermost)
        errors = [
            await self.clean_up(loop.finally_steps)
            for loop in reversed(way)
            if isinstance(loop, ForStep)
        ]
        return next(filter(None, errors), None)

    async def clean_up(
        self, steps: tuple[Step, ...], within_ms: int | None = None
    ) -> EdgedError | None:
        """Do ``finally`` steps: each is tried, also after one that failed; the first error.

        Once everything was stopped (``run.is_safe_only``), what is no safe command is left out: a
        ramp down must not put out what was just switched off.
        """
        run = self._run
        first: EdgedError | None = None
        self._way = {}
        before, self._purpose = self._purpose, Purpose.FINALLY_STEP
        try:
            async with asyncio.timeout(None if within_ms is None else within_ms / 1000):
                for step in steps:
                    (bad,) = await asyncio.gather(self._done(step), return_exceptions=True)
                    if isinstance(bad, Leave | EndUnit | AbortRun | None):
                        continue
                    error = bad if isinstance(bad, EdgedError) else mistake(run.run_id, bad)
                    run.note(f"{step.path} failed: {error.message}")
                    first = first or error
        except TimeoutError:
            first = first or Failed(
                f"They took longer than {within_ms} ms.",
                code=ErrorCode.TIMEOUT,
                remedy="Look at the instrument: its outputs may still be on.",
            )
        finally:
            self._purpose = before
        return first

    async def _do_unsafe(self, step: Step) -> bool:
        """Do a step of ``finally`` until everything is stopped; whether it was done."""
        doing = self._run.unsafe_step = asyncio.ensure_future(self._do(step))
        try:
            await asyncio.wait({doing})
        finally:
            self._run.unsafe_step = None
            if doing.cancel():
                await asyncio.wait({doing})
        if doing.cancelled():
            return False
        doing.result()
        return True

    def _is_safe(self, step: Step) -> bool:
        """Whether it is a safe command, or does nothing but steps that are judged one by one."""
        match step:
            case CommandStep(role=role, command=name):
                profile = self._run.instruments[role].profile
                command = profile.commands.get(name) if profile is not None else None
                return command is not None and command.is_safe
            case ForStep(set=moved, wait_s=wait_s):
                return moved is None and wait_s == 0
            case _:
                return isinstance(step, IfStep | FirstStep)

    async def boundary(self) -> None:
        """Wait here while the run is paused; the plan's own steps for that are done before it."""
        run, plan = self._run, self._run.plan
        if run.going.is_set() or self._is_pausing:
            return
        self._is_pausing = True
        stood = [(axis, axis.confirmed) for axis in run.axes.values()]
        try:
            for step in plan.on_pause:
                await self._do(step)
            try:
                async with asyncio.timeout(plan.pause_at_most_s):
                    await run.going.wait()
            except TimeoutError:
                why = f"it was paused for more than {plan.pause_at_most_s:g} s"
                raise AbortRun(why) from None
            for step in plan.on_resume:
                await self._do(step)
            for axis, value in stood:
                await self._mover.put_back(axis, value)
        finally:
            self._is_pausing = False

    async def until(self, due: float, _value: float) -> None:
        """Wait for a monotonic time, and for the end of a pause."""
        clock = self._bench.clock
        while True:
            await self.boundary()
            left = due - clock.monotonic()
            if left <= 0:
                return
            await self._sleep(left)

    async def rest(self, seconds: float) -> None:
        """Wait so long, a pause not counted."""
        clock, run = self._bench.clock, self._run
        if self._is_pausing:
            await clock.sleep(seconds)
            return
        due = run.elapsed_s(clock.monotonic()) + seconds
        while (left := due - run.elapsed_s(clock.monotonic())) > 0 and not self._is_skipped:
            await self.boundary()
            await self._sleep(left)

    async def _sleep(self, seconds: float) -> None:
        """So long, or until somebody wants something of the run."""
        # What rounding leaves of a wait would not move a clock that only waiting moves.
        seconds = max(seconds, LEAST_S)
        if seconds <= TURN_S:
            await self._bench.clock.sleep(seconds)
            return
        self._run.wanted.clear()
        parts = [
            asyncio.ensure_future(self._bench.clock.sleep(seconds)),
            asyncio.ensure_future(self._run.wanted.wait()),
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    @property
    def _is_skipped(self) -> bool:
        return self._run.waiting is not None and self._run.waiting.is_set()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """What is done in here can be skipped."""
        self._run.waiting = asyncio.Event()
        try:
            yield
        finally:
            self._run.waiting = None

    def _now(self) -> float:
        """Seconds of the run, without its pauses."""
        return self._run.elapsed_s(self._bench.clock.monotonic())

    async def _do(self, step: Step) -> None:
        match step:
            case CommandStep():
                await self._command(step)
            case QueryStep(query=query, save_as=name, type=of):
                said = (await self._query(query)).data["response"]
                answer = parse_answer(ScalarAnswer(type=of), said, {})
                self._run.names |= saved(name, answer.value)
            case WaitStep(wait_ms=wait_ms):
                with self._waiting():
                    milliseconds = self._number(wait_ms, step.path or "wait_ms")
                    await self.rest(max(0.0, milliseconds / 1000))
            case PollStep():
                with self._waiting():
                    await self._poll(step)
            case RowStep(columns=columns):
                names = self._run.names
                row = {name: fill(v, names, is_bare=True) for name, v in columns.items()}
                await self._run.take_row(row)
            case ReadStep(read=read):
                await self._read(read)
            case MeasureStep(measure=measure):
                await self._measure(measure)
            case RampStep():
                await self._move(step.ramp, self._number(step.to, step.path), step.rate, step.path)
            case SettleStep():
                with self._waiting():
                    await self._settle(step)
            case IfStep():
                holds = self._is_on_way(step.then) if self._way else self._holds(step.condition)
                await self.do_all(step.then if holds else step.otherwise)
            case LetStep(let=let):
                for name, value in let.items():
                    self._run.names[name] = self._value(value)
            case CheckStep():
                self._check(step)
            case AskStep():
                await self._ask(step)
            case LeaveStep(loop=loop):
                raise Leave(loop)
            case FirstStep():
                await self._first(step)
            case ForStep():
                await self._for(step)
            case RepeatStep():
                await self._repeat(step)
        self._run.steps_executed += not step.inner

    # Values

    def _value(self, value: Value) -> Scalar | None:
        return fill(value, self._run.names)

    def _number(self, value: Value, path: str) -> float:
        return number(value, self._run.names, path)

    def _holds(self, condition: str) -> bool:
        """Whether a condition holds.

        Raises:
            Failed: it needs a reading that is missing.
        """
        expression = compile_expression(condition)
        known = self._run.names
        missing = [name for name in sorted(expression.names) if known.get(name) is None]
        if missing:
            raise Failed(
                f"{condition} cannot be judged: {', '.join(missing)} has no value.",
                code=ErrorCode.STEP_FAILED,
                remedy="A reading was missing; see on_missing, or check it before.",
            )
        return expression.is_true({n: v for n, v in known.items() if v is not None})

    # Commands

    def _command_action(self, unit: str, command: str, values: Mapping[str, Any]) -> RunCommand:
        return self._run.act(
            RunCommand,
            self._bench.new_id(),
            unit,
            self._purpose,
            command_name=command,
            parameters=values,
        )

    def _lines(self, unit: str, lines: tuple[str, ...]) -> SendLines:
        return self._run.act(SendLines, self._bench.new_id(), unit, Purpose.MEASURE, lines=lines)

    def _arguments(self, target: Target) -> dict[str, Scalar | None]:
        profile = self._run.instruments[target.role].profile
        command = profile.commands.get(target.command) if profile is not None else None
        given = arguments_of(self._run.plan, target, command)
        return {name: self._value(value) for name, value in given.items()}

    async def _act(self, target: Target, purpose: Purpose | None = None) -> Outcome:
        """One command of a role.

        Raises:
            EdgedError: what it ended with.
        """
        unit = self._run.instruments[target.role].id
        arguments = self._arguments(target)

        def action() -> RunCommand:
            made = self._command_action(unit, target.command, arguments)
            return made if purpose is None else replace(made, purpose=purpose)

        return await self._perform(action)

    async def _perform(self, make: Callable[[], Action]) -> Outcome:
        async def once() -> Outcome:
            outcome = await self._bench.perform(make())
            self._run.took(outcome)
            return outcome

        return taken(await patiently(self._bench.clock, once, self._run.most_stalls))

    async def _query(self, template: str) -> Outcome:
        """A raw line that asks; raises EdgedError."""
        run = self._run
        line = rendered(template, run.plan.parameters, run.names)
        unit, new_id = run.instruments[SELF].id, self._bench.new_id

        def action() -> SendScpi:
            return run.act(SendScpi, new_id(), unit, self._purpose, scpi=line, expects_answer=True)

        return await self._perform(action)

    async def _command(self, step: CommandStep) -> None:
        outcome = await self._act(step.target)
        self._forget_axis(step.target)
        if step.save_as:
            data, primary = outcome.data.get("data"), outcome.data.get("primary")
            self._run.names |= saved(step.save_as, data, primary)

    def _forget_axis(self, target: Target) -> None:
        """A command was sent to a unit: where its set-points stand is to be asked again."""
        unit = self._run.instruments[target.role].id
        for key in [key for key in self._run.axes if key[0] == unit]:
            del self._run.axes[key]

    # Readings

    async def _read(self, read: Mapping[str, Target]) -> None:
        for name, reading in (await self._readings(read)).items():
            self._run.names[name] = reading.value

    async def _measure(self, measure: Mapping[str, Target]) -> None:
        readings = await self._readings(measure)
        for name, reading in readings.items():
            self._run.names[name] = reading.value
        flags = "; ".join(f"{name}: {one.flag}" for name, one in readings.items() if one.flag)
        row = {name: one.value for name, one in readings.items()}
        await self._run.take_row({**row, "flags": flags or None})

    async def _readings(self, read: Mapping[str, Target]) -> dict[str, Reading]:
        """All of them: those of one unit one after the other, units side by side.

        Raises:
            EdgedError: one of them failed, and may not be missing.
        """
        by_unit: dict[str, dict[tuple[Any, ...], list[tuple[str, Target]]]] = {}
        for name, target in read.items():
            unit = self._run.instruments[target.role].id
            same = (target.command, tuple(sorted(self._arguments(target).items())))
            by_unit.setdefault(unit, {}).setdefault(same, []).append((name, target))
        found: dict[str, Reading] = {}

        async def one_unit(questions: dict[tuple[Any, ...], list[tuple[str, Target]]]) -> None:
            for wanted in questions.values():
                found.update(await self._answered(wanted))

        if len(by_unit) == 1:
            await one_unit(next(iter(by_unit.values())))
        else:
            await _together(one_unit(questions) for questions in by_unit.values())
        return {name: found[name] for name in read}

    async def _answered(
        self, wanted: list[tuple[str, Target]], purpose: Purpose | None = Purpose.MEASURE
    ) -> dict[str, Reading]:
        """One question, whose answer has all the wanted fields."""
        target = wanted[0][1]
        rule = self._run.plan.on_missing.get(target.role, DEFAULT_MISSING)
        for attempt in range(1, rule.tries + 1):
            try:
                outcome = await self._act(target, purpose)
            except EdgedError as error:
                if attempt < rule.tries:
                    continue
                if rule.then is MissingThen.FAIL or error.code not in MAY_BE_MISSING:
                    raise
                why = error.code.value
                return {name: Reading(value=None, flag=why) for name, _ in wanted}
            return {name: _reading(outcome, one.member) for name, one in wanted}
        raise AssertionError  # tries is at least 1

    async def look(self, target: Target) -> Scalar | None:
        """Read one value beside the steps; raises EdgedError."""
        return _reading(await self._act(target, Purpose.MEASURE), target.member).value

    async def _poll(self, step: PollStep) -> None:
        give_up = self._now() + step.timeout_ms / 1000
        while True:
            value = await self._polled(step)
            if self._is_skipped or (value is not None and self._is_reached(step, value)):
                return
            if self._now() >= give_up:
                said = f"{step.target.text} answered {value!r} at the last; {step.until!r} did not"
                said = f"{said} become true within {step.timeout_ms} ms"
                self._timed_out(step.on_timeout, step.path, said)
                return
            await self.rest(step.every_ms / 1000)

    async def _polled(self, step: PollStep) -> Scalar | None:
        if step.is_command:
            answers = await self._answered([("value", step.target)], self._run.polls_as)
            return answers["value"].value
        return plain_value(str((await self._query(step.poll)).data["response"]))

    def _is_reached(self, step: PollStep, value: Scalar) -> bool:
        """Whether a poll is at its end.

        Raises:
            Failed: BAD_ANSWER, its condition cannot be judged by this answer.
        """
        known = {name: one for name, one in self._run.names.items() if one is not None}
        try:
            return compile_expression(step.until).is_true({**known, "value": value})
        except Invalid as unfit:
            why = f"`until` of its step cannot judge: {unfit.message.rstrip('.')}"
            where = "the plan" if step.path else "its profile"
            remedy = f"Correct `until` in {where}. What was sent before has taken effect."
            raise bad_answer(f'"{step.target.text}"', str(value), why, remedy) from unfit

    async def _settle(self, step: SettleStep) -> None:
        """Settled is what holds for all readings of the last ``for_s``, three at least."""
        began = self._now()
        target = None if step.target is None else self._number(step.target, step.path)
        within = None if step.within is None else self._number(step.within, step.path)
        drift = None if step.drift is None else self._number(step.drift, step.path)
        window: list[tuple[float, float]] = []
        while True:
            at = self._now()
            value = (await self._answered([("value", step.settle)]))["value"].value
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            is_near = target is None or within is None or (
                is_number and abs(float(value or 0) - target) <= within
            )  # fmt: skip
            if is_number and is_near and value is not None:
                window.append((at, float(value)))
            else:
                # What is missing or outside of the band begins the window anew.
                window.clear()
            if self._is_skipped or _is_settled(window, step.for_s, drift):
                return
            window = [entry for entry in window if entry[0] >= at - step.for_s - step.every_s]
            if self._now() - began >= step.timeout_s:
                said = f"{step.settle.text} did not settle within {step.timeout_s:g} s"
                self._timed_out(step.on_timeout, step.path, said)
                return
            await self.rest(max(0.0, at + step.every_s - self._now()))

    def _timed_out(self, what: OnTimeout, path: str, said: str) -> None:
        match what:
            case OnTimeout.NOTE:
                self._run.note(f"{path}: {said}")
                self._run.take_event("timeout", {"path": path, "text": said})
            case OnTimeout.FAIL:
                raise Failed(f"{said}.", code=ErrorCode.TIMEOUT)
            case OnTimeout.END:
                self._leave_innermost()
            case OnTimeout.ABORT:
                self._run.note(f"{path}: {said}")
                raise AbortRun(f"{path}: {said}")

    def _leave_innermost(self) -> None:
        if not self._run.loops:
            raise AbortRun("there is no loop to end")
        raise Leave(self._run.loops[-1].name)

    # Moving

    async def _move(self, target: Target, to: Scalar, rate: Value | None, path: str) -> None:
        """Set a value, at a rate where there is one."""
        run = self._run
        instrument = run.instruments[target.role]
        profile = instrument.profile
        command = profile.commands[target.command] if profile is not None else None
        arguments = self._arguments(target)
        parameter = None if command is None else set_parameter(target, command, arguments)
        if command is None or parameter is None:
            raise Failed(f"{target.text} is not there any more.", code=ErrorCode.STEP_FAILED)
        if parameter.type is ParameterType.INT and isinstance(to, float):
            # A loop over a range counts in floats.
            to = round(to) if to == round(to) else to
        if rate is None or command.sweep is None:
            plain = Target(
                role=target.role,
                command=target.command,
                parameters={**target.parameters, parameter.name: to},
            )
            await self._act(plain)
            self._forget_axis(target)
            return
        known = {name: value for name, value in arguments.items() if value is not None}
        thing = swept(instrument, command, command.sweep,
                      {**known, parameter.name: to})  # fmt: skip
        axis = run.axes.setdefault(thing.key, Axis(thing=thing))
        aim = self._number(to, path)
        why = run.why_no_target(instrument.id, command.name, parameter.name, aim)
        if why:
            raise Invalid(
                f"{target.text} is not ramped: {why}, its bounds. Nothing was sent.",
                remedy="Find out why, before you change `bounds` of the plan, and start it again.",
            )
        await self._mover.move(axis, aim, self._number(rate, f"{path}.rate"))

    # Checks and questions

    def _check(self, step: CheckStep) -> None:
        value = self._value(step.value)
        least, most, near = (
            None if one is None else self._number(one, step.path)
            for one in (step.min, step.max, step.near)
        )
        limits = Limits(least=least, most=most, near=near, unit=step.unit)
        is_judged = isinstance(value, bool) or least is not None or most is not None
        verdict = judge(value, limits) if is_judged else UnitVerdict.ERROR
        self._judged(step.name, verdict, value, limits)
        if verdict in {UnitVerdict.FAIL, UnitVerdict.ERROR}:
            if step.on_fail is OnFail.END_UNIT:
                raise EndUnit
            if step.on_fail is OnFail.ABORT:
                raise AbortRun(f"check {step.name}: {verdict.value}")

    def _judged(
        self,
        name: str,
        verdict: UnitVerdict,
        value: Scalar | None = None,
        limits: Limits = NO_LIMITS,
    ) -> None:
        """A verdict; without a name that of the unit itself."""
        unit = self._run.under_test
        self._run.judged(verdict, name)
        if self._run.sink is None:
            return
        self._run.sink.check(
            Check(
                verdict=verdict,
                time_ms=self._bench.clock.wall_ms(),
                unit=unit.name if unit is not None else "",
                try_number=unit.tries if unit is not None else 1,
                name=name,
                value=value,
                limits=limits,
            )
        )

    async def _ask(self, step: AskStep) -> None:
        value = await self._put(step, _filled(step.text, self._value))
        self._run.names[step.name] = value
        if step.type is AskType.PASS_FAIL and value is not None:
            self._judged(step.name, judge(value, NO_LIMITS), value)
        self._refuse_no(step, value)

    async def _put(self, step: AskStep, text: str) -> Scalar | None:
        """A question to a person; the answer, ``None`` where there is none in time."""
        run, clock = self._run, self._bench.clock
        run.questions += 1
        answer: asyncio.Future[Scalar] = asyncio.get_running_loop().create_future()
        run.question = OpenQuestion(
            step=step, text=text, asked_at=clock.monotonic(), number=run.questions, answer=answer
        )
        self._run.take_event("question", run.question.told())
        give_up = self._now() + step.timeout_s
        try:
            while not answer.done() and self._now() < give_up:
                await self.boundary()
                await asyncio.wait({answer}, timeout=min(TURN_S, max(0.01, give_up - self._now())))
        finally:
            run.question = None
        value = answer.result() if answer.done() else None
        self._run.take_event("answer", {"name": step.name, "value": value})
        return value

    def _refuse_no(self, step: AskStep, value: Scalar | None) -> None:
        """Raises Leave, EndUnit, AbortRun: the answer is no, or did not come."""
        is_no = step.type is AskType.CONFIRM and value is not True
        if value is None or is_no:
            why = "was not answered in time" if value is None else "was answered no"
            self._unanswered(step, f"{step.path}: {step.name} {why}")

    def _unanswered(self, step: AskStep, said: str) -> None:
        in_unit = self._run.under_test is not None
        self._run.note(said)
        match step.on_timeout or (OnNoAnswer.END_UNIT if in_unit else OnNoAnswer.ABORT):
            case OnNoAnswer.END_UNIT if in_unit:
                raise EndUnit
            case OnNoAnswer.END:
                self._leave_innermost()
            case _:
                raise AbortRun(said)

    # Loops

    def _begins_at(self, loop: str) -> int | None:
        """The pass that is repeated of a loop on the way back; ``None``: it begins."""
        return self._way.pop(loop, None)

    async def _begin_pass(self, loop: LoopNow, number: int, value: Scalar) -> None:
        """Before anything of a pass is sent."""
        loop.number, loop.value = number, value
        self._run.names[loop.name] = value
        resume = self._run.plan.resume
        if self._checkpoint is not None and resume is not None and resume.at == loop.name:
            await self._checkpoint()

    async def _for(self, step: ForStep) -> None:
        run = self._run
        place = self._begins_at(step.name)
        used = {name for value in step.values for name in names_in(value)}
        given = {name: known for name in used if (known := run.names.get(name)) is not None}
        if place is not None:
            given = dict(self._position.given.get(step.name, {}))
        values = list(enumerate(loop_values(step, given)))
        begun = run.passes[step.name] = run.passes.get(step.name, 0) + (place is None)
        if step.is_snake and begun % 2 == 0:
            values.reverse()
        loop = LoopNow(name=step.name, count=len(values), given=given)
        run.loops.append(loop)
        if place is not None:
            values = values[[at for at, _ in values].index(place) :]
        try:
            for at, value in values:
                await self._begin_pass(loop, at, value)
                if not await self._pass(step, loop):
                    break
                # A pass that was left before the place was reached has no place any more.
                self._way = {}
        finally:
            self._way = {}
            run.loops.remove(loop)
            if step.finally_steps and step.unit is None:
                await self._cleaned(step.finally_steps)

    async def _pass(self, step: ForStep, loop: LoopNow) -> bool:
        """One pass of a ``for``; whether another may follow."""
        run = self._run
        if step.unit is not None:
            run.under_test = UnitNow(name=str(loop.number + 1), number=loop.number)
            run.under_test.missing = set(checks_of(step.steps))
        try:
            await self.boundary()
            run.path = step.path
            if step.set is not None and loop.value is not None:
                await self._move(step.set, loop.value, step.rate, step.path)
            await self.rest(max(0.0, self._number(step.wait_s, step.path)))
            await self._named_steps(step)
        except Leave as leave:
            if leave.loop != step.name:
                raise
            return False
        except EndUnit:
            if step.unit is None:
                raise
        except EdgedError as error:
            if step.unit is not None and run.under_test is not None:
                run.under_test.verdict = worst((run.under_test.verdict, UnitVerdict.ERROR))
            if step.on_error is OnError.ABORT:
                raise
            run.note(f"{run.path}: {error.message} (pass {loop.number + 1} of {step.name})")
            return step.on_error is OnError.SKIP
        finally:
            if step.unit is not None:
                try:
                    if step.finally_steps:
                        await self._cleaned(step.finally_steps)
                finally:
                    self._unit_over(step)
        return True

    async def _named_steps(self, step: ForStep) -> None:
        """The steps of a pass; its unit has its name as soon as that can be worked out."""
        for inner in step.steps:
            await self.do_all((inner,))
            unit = self._run.under_test
            if step.unit is not None and unit is not None:
                await self._name_unit(step, unit)

    async def _name_unit(self, step: ForStep, unit: UnitNow) -> None:
        """Call it by its name; who scans one that was tested is asked whether it is meant.

        Raises:
            EndUnit: it is not, or nobody says so.
        """
        if unit.name != str(unit.number + 1) or step.unit is None:
            return
        try:
            name = self._value(step.unit)
        except Invalid:
            return
        if name is None:
            return
        before = self._run.unit_verdicts.get(str(name))
        # One that was interrupted is to be tested again.
        if before not in {None, UnitVerdict.ABORTED} and _is_asked_for(step):
            text = f"{name} was tested in this run already: {before}. Test it again?"
            again = AskStep(path=step.path, name="again", text=text, type=AskType.CONFIRM)
            self._refuse_no(again, await self._put(again, text))
        unit.name = str(name)
        unit.tries = self._run.seen[unit.name] = self._run.seen.get(unit.name, 0) + 1
        # The first row of a unit says when it began, also where that is its last.
        self._judged("", UnitVerdict.NONE)
        if self._run.sink is not None:
            await self._run.sink.written()

    def _unit_over(self, step: ForStep) -> None:
        run, unit = self._run, self._run.under_test
        if unit is None:
            return
        if unit.missing:
            # A check that never ran makes it incomplete, and no pass.
            unit.verdict = worst((unit.verdict, UnitVerdict.INCOMPLETE))
        if run.ending is not None:
            unit.verdict = worst((unit.verdict, UnitVerdict.ABORTED))
        own = (
            unit.verdict
            if unit.verdict in {UnitVerdict.ABORTED, UnitVerdict.ERROR}
            else UnitVerdict.NONE
        )
        self._judged("", own)
        run.unit_verdicts[unit.name] = unit.verdict
        run.tested.append(unit)
        del run.tested[:-1000]
        run.under_test = None
        if step.unit is not None:
            for name in _names_given(step):
                run.names.pop(name, None)
        self._run.take_event("unit", unit.told())

    async def _repeat(self, step: RepeatStep) -> None:
        run = self._run
        loop = LoopNow(name=step.name, count=step.at_most)
        run.loops.append(loop)
        try:
            for at in range(self._begins_at(step.name) or 0, step.at_most):
                await self._begin_pass(loop, at, at)
                await self.do_all(step.steps)
                run.path = step.path
                if self._holds(step.until):
                    return
        except Leave as leave:
            if leave.loop != step.name:
                raise
            return
        finally:
            self._way = {}
            run.loops.remove(loop)
        said = f"{step.until} did not hold after {step.at_most} passes"
        if step.on_at_most is OnAtMost.FAIL:
            raise Failed(f"{said}.", code=ErrorCode.STEP_FAILED)
        run.note(f"{step.path}: {said}")

    async def _cleaned(self, steps: tuple[Step, ...]) -> None:
        """The ``finally`` of a loop, to its end whoever cancels meanwhile."""
        ending = asyncio.ensure_future(self.clean_up(steps))
        cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError
        error = ending.result()
        if error is not None:
            raise error


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Side by side; the first error ends all."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except* EdgedError as errors:
        raise errors.exceptions[0] from None


def _reading(outcome: Outcome, member: str) -> Reading:
    value, flag = outcome.data.get("data"), outcome.data.get("flag")
    if isinstance(value, Mapping | list):
        of = value if isinstance(value, Mapping) else {}
        value = of.get(member) if member else outcome.data.get("primary")
    if isinstance(flag, Mapping):
        flag = flag.get(member)
    return Reading(value=_scalar(value), flag=str(flag) if flag else "")


def _scalar(value: object) -> Scalar | None:
    return value if isinstance(value, int | float | str | bool) else None


def _is_settled(window: list[tuple[float, float]], for_s: float, drift: float | None) -> bool:
    """Whether the last ``for_s`` seconds have three readings, all within the drift."""
    if len(window) < 3 or window[-1][0] - window[0][0] < for_s:
        return False
    start = window[-1][0] - for_s
    # The reading at or before the beginning of the span belongs to it.
    values = [value for at, value in window if at >= start]
    before = [value for at, value in window if at < start]
    values = [*before[-1:], *values]
    return len(values) >= 3 and (drift is None or max(values) - min(values) <= drift)


def _filled(text: str, value: Callable[[Value], Scalar | None]) -> str:
    """A question with its expressions filled in."""
    parts = []
    for literal, expression, _, _ in string.Formatter().parse(text):
        parts.append(literal)
        if expression:
            parts.append(str(value(f"{{{expression}}}")))
    return "".join(parts)


def checks_of(steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The names of the checks that each unit, or a run without units, has to come to."""
    found = (
        one.name
        for one in walk(steps)
        if isinstance(one, CheckStep)
        or (isinstance(one, AskStep) and one.type is AskType.PASS_FAIL)
    )
    return tuple(dict.fromkeys(found))


def _is_asked_for(step: ForStep) -> bool:
    """Whether a person says what each unit is called."""
    asked = {one.name for one in walk(step.steps) if isinstance(one, AskStep)}
    return not asked.isdisjoint(names_in(step.unit))


def _names_given(step: ForStep) -> set[str]:
    """Names that a pass gives a value: the next unit begins without those of this one."""
    found: set[str] = set()
    for one in walk(step.steps):
        match one:
            case ReadStep(read=names) | MeasureStep(measure=names) | LetStep(let=names):
                found |= set(names)
            case AskStep(name=name):
                found.add(name)
            case CommandStep(save_as=name) if name:
                found.add(name)
            case _:
                continue
    return found
