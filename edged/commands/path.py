"""The one command path: authorize, resolve, hold, validate, record, run, record.

Every surface, every sequence step, every sweep step and stream point comes through ``perform``. The
order is that of docs/architecture.md: tool and scope are judged before anything is looked up, so
that a refusal tells nothing; danger as soon as the command is known; arguments last, because their
schema belongs to the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import structlog

from edged.actions.action import (
    Action,
    RunCommand,
    StartSweep,
)
from edged.actions.outcome import Done, Outcome, OutcomeStatus
from edged.auth.permissions import Permissions
from edged.clock import Clock
from edged.commands.operation import Operation, failure_data
from edged.commands.pending import Asking, Underway
from edged.commands.policy import Policy
from edged.commands.record import Record
from edged.commands.resolve import Resolver
from edged.commands.run import is_plain_query
from edged.commands.send_guard import SendGuards
from edged.commands.target import Precondition, Target
from edged.commands.telling import NoteTold
from edged.errors import EdgedError, ErrorCode, Failed, Fault, NotFound
from edged.instruments.conversation import Reply
from edged.profiles.naming import tool_name
from edged.runs.sweeps.request import SweepRequest

__all__ = ["CommandPath"]


PresentTool = Callable[[str, str], str]


def _nobody_is_told(_action: Action, _target: Target) -> None:
    return


def _no_tool(_instrument_id: str, _plain_name: str) -> str:
    return ""


T = TypeVar("T")


class CommandPath:
    """Performs actions.

    Args:
        permissions: who may do what.
        resolver: what names mean.
        policy: judges what may be sent.
        preconditions: what may stand in the way of an action just now.
        record: where attempts are written.
        operations: action type → what it means; the only list of what the daemon can do.
        clock: for execution times.
        present_tool: instrument id and unsuffixed tool name → the name that the tool has now, or
            empty; by it a sweep's measures are judged.
        asking: runs what ``begin`` begins; without it nothing is begun.
        send_guards: call writes back that have been judged and not been sent.
        note_told: told of what may put something out, before its intent is written down.

    Attributes:
        performed: another number after each beginning and end of an action that may change a thing.
    """

    def __init__(
        self,
        *,
        permissions: Permissions,
        resolver: Resolver,
        policy: Policy,
        preconditions: Sequence[Precondition],
        record: Record,
        operations: Mapping[type[Action], Operation],
        clock: Clock,
        present_tool: PresentTool = _no_tool,
        asking: Asking | None = None,
        send_guards: SendGuards | None = None,
        note_told: NoteTold = _nobody_is_told,
    ) -> None:
        self.record = record
        self._permissions = permissions
        self._resolver = resolver
        self._policy = policy
        self._preconditions = tuple(preconditions)
        self._operations = operations
        self._clock = clock
        self._present_tool = present_tool
        self._asking = asking
        self._send_guards = send_guards or SendGuards()
        self._note_told = note_told
        self.performed = 0
        self._log = structlog.get_logger("edged.path")

    def judge(self, action: Action) -> Target:
        """Everything up to the record: may it, can it, what exactly would be sent.

        Raises:
            EdgedError: why not; nothing has been sent.
        """
        self._permissions.authorize_tool(
            action.caller, action.tool, action.scope, action.plain_tool
        )
        action.check(action.arguments)
        target = self._resolve(action)
        self._policy.check_aim(action, target)
        for measure in target.inner:
            self._authorize_measure(action, measure)
        self._policy.check_danger(action.caller, target, name=action.tool)
        if target.is_aimed and not target.is_safe:
            for each in (target, *target.inner):
                self._policy.check_name(action, each)
            self._check_preconditions(action, target)
        return self._policy.check_values(action, target)

    def _check_preconditions(self, action: Action, target: Target) -> None:
        for precondition in self._preconditions:
            for each in (target, *target.inner):
                precondition(action, each)

    def _resolve(self, action: Action) -> Target:
        """Look up; where something in a ``measure`` is missing, tell only who may use it."""
        try:
            return self._operations[type(action)].aim(self._resolver, action)
        except NotFound:
            if isinstance(action, StartSweep):
                for asked in SweepRequest.measures_asked(action.arguments):
                    name = asked.command_name
                    self._permissions.authorize_measure(action.caller, name, ())
            raise

    def _authorize_measure(self, action: Action, measure: Target) -> None:
        profile = measure.instrument.profile if measure.instrument else None
        plain = tool_name(profile.key, "", measure.command_name) if profile else ""
        present = self._present_tool(measure.instrument_id, plain)
        self._permissions.authorize_measure(action.caller, measure.command_name, (plain, present))

    def precheck(self, action: Action) -> tuple[str, ...]:
        """``judge`` for those who only want to know; see ``runs.ports.Precheck``."""
        return self.judge(action).lines

    async def perform(self, action: Action) -> Outcome:
        """Judge, record, run, record.

        Returns:
            The outcome; an ``EdgedError`` is in it and never raised.

        Raises:
            asyncio.CancelledError: the caller went away; recorded as such.
        """
        if action.answers_at_once:
            return self.perform_at_once(action)
        self.performed += 1
        try:
            return await self._perform(action)
        finally:
            self.performed += 1

    async def _perform(self, action: Action) -> Outcome:
        began = self._clock.monotonic()
        target: Target | None = None
        try:
            target = self.judge(action)
            if target.is_write and not target.is_safe:
                target.send_guard = self._send_guards.of(action, target)
                # In the same breath: what is marked when all is stopped is called back by that.
                self._note_told(action, target)
                await self.record.intend(action, target)
                if target.send_guard is not None:
                    target.send_guard()
                # While the disk was waited for, a sweep may have taken what this would change.
                if target.is_aimed:
                    self._check_preconditions(action, target)
            done = await self._run(action, target, began)
        except asyncio.CancelledError:
            cancelled = Failed("The caller went away.", code=ErrorCode.CANCELLED)
            self._conclude(action, target, began, cancelled)
            raise
        except Exception as error:  # noqa: BLE001 - the top of every call: a bug must not take others along
            return self._conclude(action, target, began, error)
        return self._conclude(action, target, began, done)

    def perform_at_once(self, action: Action) -> Outcome:
        """``perform`` for what ``answers_at_once``: judged, run and recorded in one go."""
        began = self._clock.monotonic()

        def go_on(target: Target) -> Outcome:
            done = self._run_at_once(action, target, began)
            return self._conclude(action, target, began, done)

        return self._judged(action, began, go_on)

    def begin(
        self, action: Action, tell: Callable[[Outcome | None], None]
    ) -> Underway | Outcome | None:
        """``perform`` without a task, for a question to an instrument that changes nothing.

        Args:
            tell: called on the loop, once and later, with the outcome; with ``None`` once what was
                begun has been cancelled. Never raises.

        Returns:
            What is under way; or the outcome, where it ended before anything was sent; or ``None``
            for every other action: nothing has been done, and ``perform`` has to do it.
        """
        asking = self._asking
        if asking is None or type(action) is not RunCommand:
            return None
        began = self._clock.monotonic()

        def go_on(target: Target) -> Underway | None:
            if not is_plain_query(target):
                return None
            self.performed += 1

            def conclude(found: Reply | Exception) -> Outcome:
                self.performed += 1
                try:
                    if isinstance(found, Reply):
                        done = asking.answered(target, found, began)
                        return self._outcome(action, target, began, done)
                except Exception as error:  # noqa: BLE001 - as in perform
                    return self._outcome(action, target, began, error)
                return self._outcome(action, target, began, found)

            def record(outcome: Outcome) -> None:
                self.record.conclude(action, target, outcome)

            underway = Underway(conclude, record, tell)
            underway.talk = asking.ask(target, underway)
            return underway

        begun = self._judged(action, began, go_on)
        if isinstance(begun, Outcome):
            self.performed += 1
        return begun

    def _judged(self, action: Action, began: float, go_on: Callable[[Target], T]) -> T | Outcome:
        """Judge, and go on; or the outcome of what cannot."""
        target: Target | None = None
        try:
            target = self.judge(action)
            return go_on(target)
        except Exception as error:  # noqa: BLE001 - as in perform
            return self._conclude(action, target, began, error)

    def _conclude(
        self, action: Action, target: Target | None, began: float, found: Done | Exception
    ) -> Outcome:
        """The outcome of what came, recorded."""
        outcome = self._outcome(action, target, began, found)
        self.record.conclude(action, target, outcome)
        return outcome

    def _outcome(
        self, action: Action, target: Target | None, began: float, found: Done | Exception
    ) -> Outcome:
        if isinstance(found, Done):
            return self._success(found, began)
        if not isinstance(found, EdgedError):
            found = self._fault(action, found)
        return self._failure(action, target, found, began)

    async def _run(self, action: Action, target: Target, began: float) -> Done:
        done = self._operations[type(action)].run(action, target, began)
        return done if isinstance(done, Done) else await done

    def _run_at_once(self, action: Action, target: Target, began: float) -> Done:
        if action.answers_at_once and not target.is_write:
            done = self._operations[type(action)].run(action, target, began)
            if isinstance(done, Done):
                return done
        raise Fault(f"{type(action).__name__} is none that can be run at once.")

    def _success(self, done: Done, began: float) -> Outcome:
        return Outcome(
            status=OutcomeStatus.OK,
            data=done.data,
            scpi=done.scpi,
            execution_time_ms=self._since_ms(began),
            written_at=done.written_at,
            pictures=done.pictures,
            links=done.links,
        )

    def _failure(
        self, action: Action, target: Target | None, error: EdgedError, began: float
    ) -> Outcome:
        spent_ms = self._since_ms(began)
        is_failure = isinstance(error, Failed | Fault)
        return Outcome(
            status=OutcomeStatus.FAILED if is_failure else OutcomeStatus.REFUSED,
            data=failure_data(self._operations[type(action)], target, error, spent_ms),
            scpi=error.sent if isinstance(error, Failed) else (),
            execution_time_ms=spent_ms,
            error=error,
        )

    def _fault(self, action: Action, bug: Exception) -> Fault:
        self._log.error("internal_fault", fault_id=action.action_id, tool=action.tool, exc_info=bug)
        return Fault(
            "edged made a mistake; this call did not complete.",
            data={"fault_id": action.action_id},
            remedy=f"Its log has the details under {action.action_id}.",
        )

    def _since_ms(self, began: float) -> float:
        return (self._clock.monotonic() - began) * 1000
