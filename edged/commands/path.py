"""The one command path: authorize, resolve, hold, validate, record, run, record.

Every surface, every sequence step, every sweep step and stream point comes through ``begin``. The
order is that of docs/architecture.md: tool and scope are judged before anything is looked up, so
that a refusal tells nothing; danger as soon as the command is known; arguments last, because their
schema belongs to the command.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

import structlog

from edged.actions.action import (
    Action,
    Purpose,
    RunCommand,
    RunSequence,
    StartSweep,
)
from edged.actions.caller import Caller, Route
from edged.actions.elicit import InputRequired
from edged.actions.outcome import Done, Outcome, OutcomeStatus, Tell
from edged.auth.permissions import Permissions
from edged.changes import RULES
from edged.clock import Clock
from edged.commands.approvals import (
    ApprovalControl,
    check_envelope,
    count_in_envelope,
    missing_yes,
    uncount_in_envelope,
)
from edged.commands.budgets import BudgetControl
from edged.commands.interlocks import InterlockControl
from edged.commands.operation import Rows, failure_data
from edged.commands.outgoing import Outgoing
from edged.commands.pending import Held, LineJob, Pending, Running, Work, begun, settled
from edged.commands.policy import Policy
from edged.commands.record import Again, Record
from edged.commands.rehearsal import Rehearsal, Rehearsed
from edged.commands.resolve import NOTHING, Resolver
from edged.commands.send_guard import SendGuards
from edged.commands.target import Precondition, Target
from edged.commands.telling import NoteTold
from edged.errors import (
    Conflict,
    EdgedError,
    ErrorCode,
    Failed,
    Fault,
    NeedsApproval,
    NotFound,
    Refused,
)
from edged.instruments.instrument import Instrument
from edged.profiles.naming import tool_name
from edged.runs.sweeps.request import SweepRequest

PresentTool = Callable[[str, str], str]
End = Callable[[Action, Target, float, Done | Exception], Outcome]
"""Makes the outcome of what was under way."""


class CommandPath:
    """Performs actions.

    Args:
        permissions: who may do what.
        resolver: what names mean.
        policy: judges what may be sent.
        preconditions: what may stand in the way of a write just now.
        record: where attempts are written.
        operations: the key of a row → what it means; the only list of what the daemon can do.
        clock: for execution times.
        present_tool: instrument id and unsuffixed tool name → the name that the tool has now, or
            empty; by it a sweep's measures are judged.
        send_guards: call writes back that have been judged and not been sent.
        note_told: told of what may put something out, before its intent is written down and again
            when it goes.
        approvals: asks a person where the owner wants that.
        interlocks: reads what guards a write before it.
        budgets: counts what goes out.

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
        operations: Rows,
        clock: Clock,
        present_tool: PresentTool,
        send_guards: SendGuards,
        note_told: NoteTold,
        approvals: ApprovalControl,
        interlocks: InterlockControl,
        budgets: BudgetControl,
    ) -> None:
        self.record = record
        self._permissions = permissions
        self._resolver = resolver
        self._policy = policy
        # What may stand in the way of a read: that its answer would come too late.
        self._of_reads: tuple[Precondition, ...] = (interlocks,)
        self._of_writes: tuple[Precondition, ...] = (*preconditions, *self._of_reads)
        self._operations = operations
        self._tasks = {key for key, row in operations.items() if iscoroutinefunction(row.run)}
        self._clock = clock
        self._present_tool = present_tool
        self._send_guards = send_guards
        self._note_told = note_told
        self._approvals = approvals
        self._interlocks = interlocks
        self._budgets = budgets
        self.performed = 0
        self._log = structlog.get_logger("edged.path")

    def authorize(self, caller: Caller, tool: str, scope: str | None = None) -> None:
        """Judge a caller who asks for what is no action: a list, a subscription, a VISA session.

        Raises:
            Refused: NOT_ALLOWED; the refusal is in the record.
        """
        try:
            self._permissions.authorize_tool(caller, tool, scope)
        except Refused as refused:
            self.record.refuse(caller, tool, refused)
            raise

    def judge(self, action: Action, conflicts: list[EdgedError] | None = None) -> Target:
        """Everything up to the record: may it, can it, what exactly would be sent.

        Args:
            conflicts: takes what stands in the way just now, for who only wants to know; without
                it that is raised as well.

        Raises:
            EdgedError: why not; nothing has been sent.
        """
        target = self._judge(action, conflicts)
        if not _is_confirmed_at(target.instrument):
            return target
        needed = missing_yes(action, target)
        if needed is not None:
            if conflicts is None:
                raise needed
            conflicts.append(needed)
        return target

    def _judge(self, action: Action, conflicts: list[EdgedError] | None = None) -> Target:
        """``judge``, whatever its owner wants to be asked about."""
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
            if conflicts is None:
                self.check_still_free(action, target)
            else:
                conflicts.extend(self._in_the_way(action, target))
        target = self._policy.check_values(action, target)
        if action.caller.approval is not None:
            check_envelope(action, target)
        return target

    def _in_the_way(self, action: Action, target: Target) -> Iterator[EdgedError]:
        """Everything that stands in the way just now."""
        for each in (target, *target.inner):
            for precondition in self._of_writes if each.is_write else self._of_reads:
                try:
                    precondition(action, each)
                except (Refused, Conflict) as held:
                    yield held

    def check_still_free(self, action: Action, target: Target) -> None:
        """Raise what is in the way of what was judged, or has come there while it waited."""
        if not (target.is_write or target.inner) and self._is_reading_free:
            return
        for each in (target, *target.inner):
            for precondition in self._of_writes if each.is_write else self._of_reads:
                precondition(action, each)

    @property
    def _is_reading_free(self) -> bool:
        """Whether nothing can stand in the way of what only asks."""
        return not self._interlocks.is_any

    def _resolve(self, action: Action) -> Target:
        """Look up; where something in a ``measure`` is missing, tell only who may use it."""
        try:
            return self._operations[action.row].aim(self._resolver, action)
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

    def precheck(
        self, action: Action, conflicts: list[EdgedError] | None = None
    ) -> tuple[str, ...]:
        """``judge`` for those who only want to know; see ``runs.ports.Judge``.

        Raises:
            NeedsApproval: a step of a run, for which nobody is asked any more.
        """
        return self.judge(action, conflicts).lines

    async def perform(self, action: Action) -> Outcome:
        """``begin``, and wait for what comes of it.

        Returns:
            The outcome; an ``EdgedError`` is in it and never raised.

        Raises:
            asyncio.CancelledError: the caller went away; recorded as such.
        """
        return await settled(partial(self.begin, action))

    def begin(self, action: Action, tell: Tell) -> Outcome | Pending:
        """Judge, record, run, record.

        Args:
            tell: called on the loop, once and later, with the outcome; with ``None`` once what was
                begun has been cancelled. Never raises.

        Returns:
            The outcome of what waited for nothing or was refused, and ``tell`` is never called; or
            what is under way.
        """
        began, mark = self._clock.monotonic(), RULES.mark()
        target: Target | None = None
        self.performed += not action.answers_at_once
        try:
            target = self._judge(action)
            if _is_confirmed_at(target.instrument) and self._must_ask(action, target):
                running: Running = self._once_approved(action, target, began)
            else:
                running = self._run(action, target, began)
            if not isinstance(running, Done):
                end: End = self._outcome
                if self._is_repeatable(action, target, running):
                    target.judged_at = mark
                    end = partial(self._repeatable, partial(self._again, target, None))
                return self._pending(action, target, began, running, tell, end)
        except Exception as error:  # noqa: BLE001 - the top of every call: a bug must not take others along
            outcome = self._concluded(action, target, began, error)
        else:
            outcome = self._concluded(action, target, began, running)
            if target is NOTHING and action.answers_at_once and not action.arguments:
                # Who has no session calls nothing again.
                note = self.record.again(action, target) if action.caller.session_id else None
                make = _made_again(action)
                told = None if note is None else (make(action_id=""), note)
                outcome.again = partial(self._again, target, told, make)
        return outcome

    def _is_repeatable(self, action: Action, target: Target, running: Running) -> bool:
        """Whether the same words mean the same lines for the same unit until ``RULES`` changes.

        A run goes on with what it began with; who presents a lease or can be asked for a yes is
        judged by more than its words, and so is a unit with a timer. An interlock is looked for
        each time.
        """
        if not (
            type(action) is RunCommand
            and action.purpose is Purpose.CALL
            and not (action.parent_id or action.caller.on_behalf_of or action.caller.lease)
            and action.progress is None
        ):
            return False
        instrument = target.instrument
        if instrument is None or target.command is None or target.is_safe or target.inner:
            return False
        rules = instrument.rules
        if rules.confirm or rules.dead_man_s or instrument.timer is not None:
            return False
        if target.is_write:
            return isinstance(running, Held)
        return isinstance(running, LineJob) and target.command.is_query and self._is_reading_free

    def _again(
        self,
        judged: Target,
        told: tuple[Action, Again] | None,
        make: Callable[..., Action],
        action_id: str,
        tell: Tell,
    ) -> Outcome | Pending | None:
        """``begin`` of what was judged before, as far as its words would be judged alike.

        What may stand in the way of a write is asked each time. What has no arguments and aims at
        nothing is judged by the caller's permission alone.

        Args:
            told: in place of ``make``: what it makes but for its id, and what writes that down.
        """
        if judged is not NOTHING and (
            judged.judged_at != RULES.mark() or (not judged.is_write and self._interlocks.is_any)
        ):
            return None
        began = self._clock.monotonic()
        action, note = told or (make(action_id=action_id), None)
        self.performed += not action.answers_at_once
        target: Target | None = None
        try:
            if judged.is_write:
                target = self._freed(action, judged)
                running = self._run(action, target, began)
            else:
                target = judged
                running = self._operations[action.row].run(action, target, began)
            if not isinstance(running, Done):
                return self._pending(action, target, began, running, tell, self._outcome)
        except Exception as error:  # noqa: BLE001 - as in begin
            return self._concluded(replace(action, action_id=action_id), target, began, error)
        if note is None:
            return self._concluded(action, target, began, running)
        spent_ms = (self._clock.monotonic() - began) * 1000
        note(action_id, spent_ms)
        return Outcome(status=running.status, data=running.data, execution_time_ms=spent_ms)

    def _freed(self, action: Action, judged: Target) -> Target:
        """A write whose words were judged before: its own target, if nothing is in the way now."""
        self._permissions.authorize_tool(
            action.caller, action.tool, action.scope, action.plain_tool
        )
        target = judged.of_another_call()
        if target.is_dangerous:
            self._policy.check_danger(action.caller, target)
        self.check_still_free(action, target)
        return target

    def _concluded(
        self, action: Action, target: Target | None, began: float, found: Done | Exception
    ) -> Outcome:
        """What came of it, recorded."""
        outcome = self._outcome(action, target, began, found)
        self.record.conclude(action, target, outcome)
        return outcome

    def _run(self, action: Action, target: Target, began: float) -> Running:
        if not target.is_write or target.is_safe:
            return self._operations[action.row].run(action, target, began)
        interlocks = self._interlocks
        if interlocks.is_any and interlocks.guards(action, target):
            return self._once_admitted(action, target, began)
        return self._begin_write(action, target, began)

    async def _once_admitted(self, action: Action, target: Target, began: float) -> Done | LineJob:
        """Write once what guards it has been read, and is as it must be."""
        # In the same breath as the call: a stop that comes from now on ends it.
        still_wanted = self._send_guards.recalled(target)
        await self._interlocks.admit(action, target)
        still_wanted()
        return await begun(self._begin_write(action, target, began))

    def _begin_write(self, action: Action, target: Target, began: float) -> Running:
        if action.caller.approval is not None:
            count_in_envelope(action, target)
        spend = self._budgets.take(action, target)
        target.send_guard = self._send_guards.of(action, target, spend)
        # In the same breath: what is marked when all is stopped is called back by that.
        self._note_told(action, target)
        written = self.record.intend(action, target)
        if target.share:
            # A step of a sweep has no intent on disk.
            written = self._counted(written)
        go = partial(self._write, action, target, began)
        if written is None:
            return go()
        held = Held(written, go)
        # A task is made for a coroutine at once, so that it begins right when the row is there.
        return begun(held) if action.row in self._tasks else held

    async def _counted(self, written: Awaitable[None] | None) -> None:
        if written is not None:
            await written
        await self._budgets.keep()

    def _must_ask(self, action: Action, target: Target) -> bool:
        """Whether it, or something inside it, may need a person's yes.

        Raises:
            NeedsApproval: it does, and it is a step: nobody is asked in the middle of a run.
        """
        needed = missing_yes(action, target)
        if action.caller.on_behalf_of:
            if needed is not None:
                raise needed
            return False
        return needed is not None or isinstance(action, RunSequence | StartSweep)

    async def _once_approved(self, action: Action, target: Target, began: float) -> Done | LineJob:
        """Run it once a person has said yes to what it would send, if that is needed."""
        # In the same breath as the call: a stop that comes from now on ends it.
        still_wanted = self._send_guards.recalled(target)
        unit = target.unit_key
        would_send, lines = await self._wanted(action, target)
        if lines is None:
            still_wanted()
            return await begun(self._run(action, target, began))
        approved = await self._approvals.obtain(action, target, would_send, lines)
        if isinstance(approved, InputRequired):
            return approved
        action = replace(action, caller=replace(action.caller, approval=approved))
        first, target = target, self.judge(action)
        now, lacking = await self._wanted(action, target)
        is_changed = target.unit_key != unit or now.digest() != would_send.digest()
        if lacking is not None or is_changed:
            raise Conflict(
                f"What {action.tool} would send to {target.called} has changed since it was "
                "approved. Nothing was sent.",
                code=ErrorCode.NEEDS_APPROVAL,
                remedy="Call it again, to be asked about what it would send now.",
            )
        still_wanted()
        try:
            return await begun(self._run(action, target, began))
        finally:
            # What has begun is concluded by what was judged at first.
            first.share = target.share

    async def _wanted(
        self, action: Action, target: Target
    ) -> tuple[Outgoing, frozenset[str] | None]:
        """All that it would send; and the lines that need a yes, ``None`` without any.

        Raises:
            EdgedError: why a step of it would be refused.
        """
        rehearsal = self._rehearsal(asks_instrument=True)
        needed = missing_yes(action, target)
        if needed is not None:
            rehearsal.conflicts.append(needed)
        left = self._operations[action.row].rehearse(action, target, rehearsal)
        if left is not None:
            await left
        asked = [one for one in rehearsal.conflicts if isinstance(one, NeedsApproval)]
        for held in rehearsal.conflicts:
            if not isinstance(held, NeedsApproval):
                raise held
        lines = frozenset(line for one in asked for line in one.lines)
        return rehearsal.outgoing, lines if asked else None

    def _rehearsal(self, *, asks_instrument: bool = False) -> Rehearsal:
        return Rehearsal(
            self.judge,
            lambda step: self._operations[step.row].rehearse,
            asks_instrument=asks_instrument,
        )

    def rehearse(self, action: Action, tell: Tell) -> Outcome | Pending:
        """``begin`` up to the run, and then what that would send: not a byte goes out."""
        began = self._clock.monotonic()
        target: Target | None = None
        rehearsal = self._rehearsal()
        try:
            target = self.judge(action, rehearsal.conflicts)
            rehearsal.check_target(target)
            left = self._operations[action.row].rehearse(action, target, rehearsal)
            if left is not None:
                work = _rehearsed(left, rehearsal)
                return self._pending(action, target, began, work, tell, self._outcome)
        except Exception as error:  # noqa: BLE001 - as in begin
            outcome = self._outcome(action, target, began, error)
        else:
            outcome = self._outcome(action, target, began, Rehearsed(data=rehearsal.told()))
        self.record.conclude(action, target, outcome)
        return outcome

    def _pending(
        self,
        action: Action,
        target: Target,
        began: float,
        running: LineJob | Work | Held,
        tell: Tell,
        end: End,
    ) -> Pending:
        pending = Pending(
            partial(end, action, target, began),
            partial(self.record.conclude, action, target),
            tell,
        )
        pending.run(running)
        return pending

    def _repeatable(
        self,
        again: Callable[..., Outcome | Pending | None],
        action: Action,
        target: Target,
        began: float,
        found: Done | Exception,
    ) -> Outcome:
        """What came of what may be called again."""
        outcome = self._outcome(action, target, began, found)
        if outcome.status is OutcomeStatus.OK:
            outcome.again = partial(again, _made_again(action))
        return outcome

    def _write(self, action: Action, target: Target, began: float) -> Running:
        """Run what may change something, now that its intent is on disk."""
        if target.send_guard is not None:
            target.send_guard()
        # While the disk was waited for, a sweep may have taken what this would change.
        self.check_still_free(action, target)
        # Meanwhile the outputs may have answered that they are off: of what comes now they did not.
        self._note_told(action, target)
        return self._operations[action.row].run(action, target, began)

    def _outcome(
        self, action: Action, target: Target | None, began: float, found: Done | Exception
    ) -> Outcome:
        self.performed += not action.answers_at_once
        if target is not None and target.share:
            self._budgets.over(target)
        if isinstance(found, Done):
            outcome = Outcome(
                status=found.status,
                data=found.data,
                scpi=found.scpi,
                execution_time_ms=(self._clock.monotonic() - began) * 1000,
                written_at=found.written_at,
                pictures=found.pictures,
                links=found.links,
            )
        else:
            error = found if isinstance(found, EdgedError) else self._fault(action, found)
            outcome = self._failure(action, target, error, began)
        is_carried_out = outcome.status is OutcomeStatus.OK or outcome.scpi
        if target is not None and target.planned is not None and not is_carried_out:
            uncount_in_envelope(action, target)
        instrument = target.instrument if target is not None and is_carried_out else None
        is_internal = action.caller.route is Route.INTERNAL
        if target is not None and instrument is not None and not is_internal:
            instrument.note_use(action.caller, is_write=target.is_write)
        return outcome

    def _failure(
        self, action: Action, target: Target | None, error: EdgedError, began: float
    ) -> Outcome:
        spent_ms = (self._clock.monotonic() - began) * 1000
        is_failure = isinstance(error, Failed | Fault)
        return Outcome(
            status=OutcomeStatus.FAILED if is_failure else OutcomeStatus.REFUSED,
            data=failure_data(self._operations[action.row], target, error, spent_ms),
            scpi=error.sent if isinstance(error, Failed) else (),
            execution_time_ms=spent_ms,
            error=error,
        )

    def _fault(self, action: Action, bug: Exception) -> Fault:
        self._log.error("internal_fault", fault_id=action.action_id, tool=action.tool, exc_info=bug)
        return Fault(
            "An internal error occurred; this call did not complete.",
            data={"fault_id": action.action_id},
            remedy=f"Its log has the details under {action.action_id}.",
        )


def _made_again(action: Action) -> Callable[..., Action]:
    """Makes the same action under another ``action_id``.

    Without its client, which would keep the connection of the first call alive, and without the
    check of its arguments, which these have passed.
    """
    kind: Any = type(action)
    return partial(kind, **{name: getattr(action, name) for name in _kept_of(kind)})


@functools.cache
def _kept_of(kind: Any) -> frozenset[str]:
    return frozenset(one.name for one in fields(kind)) - {"action_id", "client", "check"}


def _is_confirmed_at(instrument: Instrument | None) -> bool:
    """Whether its owner wants to be asked about anything at all."""
    return instrument is not None and bool(instrument.rules.confirm)


async def _rehearsed(left: Coroutine[Any, Any, None], rehearsal: Rehearsal) -> Done:
    """What takes turns, to its end."""
    await left
    return Rehearsed(data=rehearsal.told())
