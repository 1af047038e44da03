"""Approvals: what the owner wants to be asked about waits here until a person has said yes.

Which calls those are is judged by the unit's ``confirm``; what may go out then is exactly what was
asked about, once. A person answers by the client of the call or at the bench; the first answer
counts, whichever road it came by.

Source: docs/sharing.md; docs/promises.md section 16, "Approval".
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from edged.actions.action import (
    ENDS_WORK,
    Action,
    Progress,
    Purpose,
    RunCommand,
    RunSequence,
    SendScpi,
    StartSweep,
)
from edged.actions.caller import Approval
from edged.actions.cause import Cause
from edged.actions.elicit import CallClient, Elicit, InputRequired, Round
from edged.actions.envelope import OpenEnvelope
from edged.commands.outgoing import Outgoing, shown_line, unpacked
from edged.commands.target import Target, matches_of, moment, sent_parts
from edged.errors import EdgedError, ErrorCode, Failed, Invalid, NeedsApproval, Refused
from edged.instruments.instrument import Instrument
from edged.profiles.arguments import shown
from edged.profiles.confirm import EVERY_WAY, ConfirmRule, Way
from edged.profiles.raw import RawMatch, RawPart
from edged.record import record
from edged.runs.bench import Bench
from edged.sharing.approvals import Approvals, Question, Verdict
from edged.sharing.leases import Moment
from edged.sharing.request_state import RequestState, bad_state, opened, sealed
from edged.yaml.tree import Scalar

TTL_S: Final = 120.0
"""How long a question waits, where the owner says nothing else."""
PROGRESS_EVERY_S: Final = 10.0
CLOSE_WITHIN_S: Final = 1.0
USED: Final = "was used already, or its question has ended"
LOOK_AT_CLIENT_S: Final = 0.5
"""How soon it is noticed that nobody waits for the answer any more."""
MOST_OF_A_FORM: Final = 4_000
"""Characters of a question to a client; a longer one is asked at the bench only."""
MOST_OF_A_QUESTION: Final = 8_000
"""Characters that a person reads before the answer."""
MOST_OF_A_ROW: Final = 3_900
"""Bytes of a question in one row of the audit log, which has 4,096 for JSON in ASCII."""
MOST_OF_A_CHARACTER: Final = 6
"""Bytes of one that a row escapes."""
LINES_A_PAGE: Final = 1_000
"""Lines of one question in one answer of ``approvals.show``."""
IN_THE_TEXT: Final = frozenset(
    {"instrument_id", "command_name", "sequence_name", "scpi_command", "parameters", "lease"}
)
"""Arguments that the text of a question has in another place; a lease is a secret."""

Recheck = Callable[[Action, Target], None]
"""Raises what stands in the way of an action by now."""


# Which calls are asked about


def missing_yes(action: Action, target: Target) -> NeedsApproval | None:
    """What an action lacks that the owner wants to be asked about; ``None``: nothing."""
    if not is_asked_about(action, target):
        return None
    if _is_covered(action, target):
        return None
    return NeedsApproval(target.called, target.command_name or "this line", target.lines)


def is_asked_about(action: Action, target: Target) -> bool:
    """Whether the unit's owner wants to be asked about this very action, its steps apart."""
    instrument = target.instrument
    if instrument is None or not instrument.rules.confirm or not target.is_write or target.is_safe:
        return False
    if target.is_let_through or getattr(action, "purpose", None) in ENDS_WORK:
        return False
    rules = instrument.rules.confirm
    if isinstance(action, RunSequence):
        return any(rule.is_sequence and rule.name == target.command_name for rule in rules)
    if not isinstance(action, RunCommand | SendScpi | StartSweep):
        return False
    name = target.command.name if target.command is not None else ""
    asked = [rule for rule in rules if not rule.is_sequence]
    if isinstance(action, RunCommand) and action.ranged:
        asked = [_of_any_value(rule, name, action.ranged) for rule in asked]
    if any(rule.name == name and _asks_itself(rule, action, target) for rule in asked):
        return True
    return any(
        _asks_of_part(rule, part, is_itself=rule.name == name)
        for part in sent_parts(target, instrument)
        for rule in asked
    )


def _of_any_value(rule: ConfirmRule, name: str, ranged: Collection[str]) -> ConfirmRule:
    """A rule as it is of a range, of which only the ends are judged: one value may lie inside."""
    if rule.sign not in ("==", "!=") or (rule.name == name and rule.parameter not in ranged):
        return rule
    return replace(rule, parameter="")


def commands_sent(target: Target) -> frozenset[str]:
    """The names of all commands that what goes out may be, its own too."""
    instrument = target.instrument
    own = {target.command.name} if target.command is not None else set()
    if instrument is None:
        return frozenset(own)
    return frozenset(own | {match.command.name for match in _matches(target, instrument)})


def _matches(target: Target, instrument: Instrument) -> Iterator[RawMatch]:
    """Every command that what goes out may be."""
    for matches in matches_of(target, instrument):
        yield from matches


def _asks_itself(rule: ConfirmRule, action: Action, target: Target) -> bool:
    """A command that is called by its name; a sweep may pass one value on its way to another."""
    if isinstance(action, StartSweep) and rule.sign in ("==", "!="):
        return True
    return rule.asks(target.values)


def _asks_of_part(rule: ConfirmRule, part: RawPart, *, is_itself: bool) -> bool:
    """Whether a message is asked about: as what it may be, or for a value that it sets."""
    named = (match for match in part.matches if match.command.name == rule.name)
    if any(_asks(rule, match, is_itself=is_itself) for match in named):
        return True
    return any(
        rule.asks(values)
        for match in part.beside
        if match.command.name == rule.name and rule.parameter in match.holes
        for values in (*match.readings, *match.unitless)
    )


def _asks(rule: ConfirmRule, match: RawMatch, *, is_itself: bool) -> bool:
    """Whether a line that may be this command is asked about.

    Args:
        is_itself: it is that command for certain, and its values are known: what counts is how the
            line has rounded them.
    """
    if is_itself:
        readings = [values for values in match.readings if rule.parameter in values]
        return any(rule.asks(values) for values in readings)
    values = (*match.readings, *match.unitless) or ({},)
    return not match.is_certain or any(rule.asks(one, match.unknown) for one in values)


def _is_covered(action: Action, target: Target) -> bool:
    approval = action.caller.approval
    if approval is None:
        return False
    if approval.envelope is not None:
        planned = approval.envelope.envelope
        # How often it was sent is judged as it is sent, and not again behind that.
        return bool(approval.approval_id) and not planned.why_outside(
            *_told_to_envelope(action, target)
        )
    if isinstance(action, RunSequence):
        return approval.sequence == target.command_name
    if isinstance(action, StartSweep):
        return approval.ramped == target.command_name
    if getattr(action, "purpose", None) is Purpose.SWEEP_STEP:
        return approval.ramped == target.command_name and _is_within(approval, target)
    return set(target.lines) <= approval.lines


def _why_outside(action: Action, target: Target) -> str:
    """Why a step of a run with a plan is outside of that, as a clause; empty: it is not.

    Safe commands and aborts are let through, as is what only asks.
    """
    envelope = _envelope_of(action, target)
    if envelope is None:
        return ""
    return envelope.why_outside(
        *_told_to_envelope(action, target),
        is_finally=getattr(action, "purpose", None) is Purpose.FINALLY_STEP,
    )


def check_envelope(action: Action, target: Target) -> None:
    """Hold a step to the plan of its run, whatever else would let it pass.

    Raises:
        Refused: NEEDS_APPROVAL, nobody has said yes to it.
        Invalid: nobody was asked, and the plan does not say it.
    """
    why = _why_outside(action, target)
    if not why:
        return
    approval, command = action.caller.approval, target.command_name
    by = approval.approval_id if approval is not None else ""
    rule = f"what a person has approved ({by})" if by else "what its plan says"
    message = (
        f"{target.called}: {command or 'a line'} is outside of {rule}: {why}. Nothing was sent."
    )
    data = {"command": command, "values": dict(target.values), "why": why}
    remedy = "Find out why, before you change `bounds` of the plan, and start it again."
    if by:
        raise Refused(message, code=ErrorCode.NEEDS_APPROVAL, data=data, remedy=remedy)
    raise Invalid(message, code=ErrorCode.BAD_ARGUMENTS, data=data, remedy=remedy)


def count_in_envelope(action: Action, target: Target) -> None:
    """A step that was judged is about to be sent.

    Raises:
        Refused, Invalid: as ``check_envelope``; what was sent meanwhile was all that there is.
    """
    envelope = _envelope_of(action, target)
    if envelope is not None:
        check_envelope(action, target)
        target.planned = envelope.take(*_told_to_envelope(action, target))


def uncount_in_envelope(action: Action, target: Target) -> None:
    """Nothing of such a step was sent: it may be tried again."""
    envelope = _envelope_of(action, target)
    if envelope is not None and target.planned is not None:
        envelope.give_back(target.planned)
        target.planned = None


def _envelope_of(action: Action, target: Target) -> OpenEnvelope | None:
    approval = action.caller.approval
    if approval is None or not target.is_write or target.is_safe or target.is_let_through:
        return None
    is_abort = getattr(action, "purpose", None) is Purpose.ABORT
    return None if is_abort else approval.envelope


def _told_to_envelope(
    action: Action, target: Target
) -> tuple[str, str, Mapping[str, Scalar], float]:
    rate = action.rate if isinstance(action, RunCommand) else 0.0
    return target.unit_key, target.command_name, target.values, rate


def _is_within(approval: Approval, target: Target) -> bool:
    """Whether a step of a ramp sets a value that the approved ramp goes through."""
    sweep = target.command.sweep if target.command is not None else None
    value = target.values.get(sweep.parameter) if sweep is not None else None
    if isinstance(value, str | None):
        return False
    least, most = approval.within
    ends = (least, most)
    return least <= value <= most or any(math.isclose(value, end, abs_tol=1e-12) for end in ends)


# Asking


@record(frozen=False, kw_only=False)
class _Waiting:
    """A call that waits for an answer, and how it is notified."""

    action: Action
    target: Target
    answered: asyncio.Future[Question]


class ApprovalControl:
    """All questions of this bench. Lives on the event loop.

    Args:
        key: what states are made with.
        recheck: what may have come into a waiting call's way.

    Attributes:
        changes: how often anything was asked, answered or ended.
    """

    def __init__(self, bench: Bench, *, key: bytes, recheck: Recheck) -> None:
        self._approvals = Approvals(lambda: f"ask-{secrets.token_hex(4)}")
        self._key = key
        self._bench = bench
        self._recheck = recheck
        self.changes = 0
        self._waiting: dict[str, _Waiting] = {}
        # Those that clients carry about, and what each asks for.
        self._rounds: dict[str, tuple[Question, Action, Target]] = {}
        # Of these, the ones that have ended, until their states would have: by their ids.
        self._void: dict[str, int] = {}
        self._spending: set[asyncio.Future[None]] = set()
        self._log = structlog.get_logger("edged.approvals")

    def listed(self) -> list[dict[str, Any]]:
        """What waits for a person, oldest first."""
        if not self._approvals.is_any:
            return []
        self._drop_ended()
        return [question.told() for question in self._approvals.waiting(self._now())]

    def shown(self, approval_id: str, offset: int) -> dict[str, Any]:
        """A question that waits, with ``LINES_A_PAGE`` of its lines: {…, lines, next_offset?}.

        Raises:
            NotFound: UNKNOWN_APPROVAL.
        """
        question = self._approvals.find(approval_id, self._now())
        lines = unpacked(question.packed)
        page, end = lines[offset : offset + LINES_A_PAGE], offset + LINES_A_PAGE
        more = {"next_offset": end} if end < len(lines) else {}
        return {**question.told(), "lines": page, **more}

    async def obtain(
        self,
        action: Action,
        target: Target,
        outgoing: Outgoing,
        lines: frozenset[str],
        asking: Sequence[Instrument] = (),
    ) -> Approval | InputRequired:
        """A person's yes, however long that takes within the owner's bound.

        Args:
            outgoing: all that it would send.
            lines: the lines of it that need a yes.
            asking: the units whose owners want to be asked; without any that of the target. An
                answer must come by a way that is allowed for each of them.

        Raises:
            Invalid: a person could not be shown all of it.
            Refused: APPROVAL_DENIED, somebody said no; NEEDS_APPROVAL, nobody answered in time.
            Failed: PREEMPTED, everything was stopped meanwhile.
            EdgedError: what came into the way while it waited.
        """
        question = self._question(
            action, target, outgoing, lines, asking or (target.aimed_instrument(),)
        )
        client = action.client if Way.CLIENT in question.ways else None
        given = client.round() if client is not None else None
        if given is not None:
            found = await self._by_round(action, target, given, question)
            if isinstance(found, InputRequired):
                return found
            question = found
        else:
            elicit = client.elicit() if client is not None else None
            if elicit is None and question.ways <= {Way.CLIENT}:
                raise _unanswerable(question, question.remark or "its client cannot be asked")
            question = await self._wait(action, target, question, elicit)
        if question.verdict is not Verdict.APPROVED:
            raise _denied(question)
        is_sweep, is_sequence = isinstance(action, StartSweep), isinstance(action, RunSequence)
        return Approval(
            approval_id=question.approval_id,
            lines=lines,
            sequence=target.command_name if is_sequence else "",
            ramped=target.command_name if is_sweep else "",
            within=outgoing.ramp or (math.nan, math.nan),
            envelope=OpenEnvelope(outgoing.envelope, self._bench.clock.monotonic)
            if outgoing.envelope is not None
            else None,
        )

    async def answer(self, approval_id: str, *, is_yes: bool, way: Way, by: str) -> dict[str, Any]:
        """A person at the bench answers.

        Raises:
            NotFound: UNKNOWN_APPROVAL.
            Conflict: BUSY, it was answered already.
            Refused: it may not be answered by that way.
            Failed: STORE_FAILED; it was denied, until a crash.
        """
        verdict = Verdict.APPROVED if is_yes else Verdict.DENIED
        question = self._answered(approval_id, verdict, way=way, by=by)
        if not is_yes and approval_id not in self._waiting:
            # Its client may come back with a yes, after a crash too.
            now_ms = self._now().wall_ms
            await self._bench.store.spent_states.spend(approval_id, question.until.wall_ms, now_ms)
            self._end_round(question)
        return {**question.told(), "verdict": verdict.value}

    def look(self) -> None:
        """A lease, a lockout or a sweep is new: what it stands in the way of waits no more."""
        for waiting in tuple(self._waiting.values()):
            if waiting.answered.done():
                continue
            try:
                self._recheck(waiting.action, waiting.target)
            except EdgedError as held:
                waiting.answered.set_exception(held)
        for question, action, target in tuple(self._rounds.values()):
            try:
                self._recheck(action, target)
            except EdgedError:
                self._void_round(question)

    async def look_on(self, _instrument_id: str) -> list[str]:
        """``look``, as a lockout calls what ends work; it ends no run."""
        self.look()
        return []

    def stop_all(self, cause: Cause) -> None:
        """Everything is being stopped: nothing waits any more."""
        for question in self._approvals.end_all():
            if question.approval_id in self._rounds:
                self._void_round(question)
            waiting = self._waiting.get(question.approval_id)
            if waiting is not None and not waiting.answered.done():
                waiting.answered.set_exception(
                    Failed(
                        f"{question.tool} was ended {cause.clause} while it waited for approval; "
                        "nothing was sent.",
                        code=ErrorCode.PREEMPTED,
                        remedy="If it is still wanted, call it again.",
                    )
                )

    async def close(self) -> None:
        """The daemon stops: what has ended is written down."""
        if self._spending:
            await asyncio.wait(self._spending, timeout=CLOSE_WITHIN_S)

    def _end_round(self, question: Question) -> None:
        self._rounds.pop(question.approval_id, None)
        self._approvals.end(question.approval_id)
        self._void[question.approval_id] = question.until.wall_ms

    def _void_round(self, question: Question) -> None:
        """A question that a client carries about is not to be answered any more, ever."""
        self._end_round(question)
        self._tell("approval.ended", _row(question, "was ended"), question.instrument_id)
        now_ms = self._now().wall_ms
        spend = self._bench.store.spent_states.spend(
            question.approval_id, question.until.wall_ms, now_ms
        )
        task = asyncio.ensure_future(_quietly(spend))
        self._spending.add(task)
        task.add_done_callback(self._spending.discard)

    def _question(
        self,
        action: Action,
        target: Target,
        outgoing: Outgoing,
        lines: frozenset[str],
        asking: Sequence[Instrument],
    ) -> Question:
        """What a person is asked.

        Raises:
            Invalid: it cannot be shown as a whole, so nobody could know what the yes is for.
        """
        now = self._now()
        ttl_s = min(one.rules.confirm_ttl_s or TTL_S for one in asking)
        called = ", ".join(one.called for one in asking)
        allowed = [one.rules.confirm_by for one in asking if one.rules.confirm_by is not None]
        question = Question(
            approval_id=self._approvals.new_id(),
            digest=_digest(action, target, outgoing, lines),
            who=action.caller.who,
            instrument_id=asking[0].id,
            instrument=called,
            tool=_what(action, target),
            parameters=_parameters(action, target),
            sends=outgoing.summary(target.called),
            count=outgoing.count,
            lines_digest=outgoing.digest(),
            packed=outgoing.packed(),
            ways=EVERY_WAY.intersection(*allowed),
            until=Moment(now.monotonic_s + ttl_s, now.wall_ms + round(ttl_s * 1_000)),
            is_plan=outgoing.envelope is not None,
            remark="" if EVERY_WAY.intersection(*allowed) else f"{called} have no way in common",
        )
        why, size = outgoing.why_incomplete(), len(question.text)
        if not why and size > MOST_OF_A_QUESTION:
            why = f"it takes {size:,} characters, over the maximum {MOST_OF_A_QUESTION:,}"
        if why:
            raise _not_shown(question, why)
        if size > MOST_OF_A_FORM and Way.CLIENT in question.ways:
            question.ways -= {Way.CLIENT}
            question.remark = (
                f"its text of {size:,} characters does not fit the form of a client, which has "
                f"{MOST_OF_A_FORM:,}"
            )
        return question

    # By the call's own way, and at the bench

    async def _wait(
        self, action: Action, target: Target, question: Question, elicit: Elicit | None
    ) -> Question:
        answered: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
        self._ask(question)
        self._waiting[question.approval_id] = _Waiting(action, target, answered)
        parts = [asyncio.create_task(self._report(action, question), name="approval-progress")]
        if elicit is not None:
            parts.append(asyncio.create_task(self._ask_client(question, elicit), name="elicit"))
        timer = asyncio.create_task(self._time_out(question, action.client), name="approval-timer")
        try:
            ends: list[asyncio.Future[Any]] = [answered, timer]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return answered.result()
            raise timer.result()
        finally:
            for part in (*parts, timer):
                part.cancel()
            await asyncio.gather(*parts, timer, return_exceptions=True)
            answered.cancel()
            del self._waiting[question.approval_id]
            self._approvals.end(question.approval_id)
            if question.verdict is None:
                self._tell("approval.ended", _row(question, "ended without an answer"),
                           question.instrument_id)  # fmt: skip

    async def _time_out(self, question: Question, client: CallClient | None) -> EdgedError:
        """Why nobody waits for it any more."""
        if client is not None:
            client.watch()
        while (left_s := question.until.monotonic_s - self._bench.clock.monotonic()) > 0:
            await self._bench.clock.sleep(min(left_s, LOOK_AT_CLIENT_S))
            if client is not None and not client.is_here:
                return Failed(
                    f"The caller went away while {question.tool} waited for approval; nothing was "
                    "sent.",
                    code=ErrorCode.CANCELLED,
                )
        remark = f"; {question.remark}" if question.remark else ""
        return _unanswerable(question, f"nobody answered in time{remark}")

    async def _ask_client(self, question: Question, elicit: Elicit) -> None:
        is_yes = await elicit(question.text)
        if is_yes is None:
            return
        verdict = Verdict.APPROVED if is_yes else Verdict.DENIED
        # Somebody at the bench may have been quicker.
        with contextlib.suppress(EdgedError):
            self._answered(question.approval_id, verdict, way=Way.CLIENT, by=question.who)

    async def _report(self, action: Action, question: Question) -> None:
        """Tell whoever listens that it waits, and for whom."""
        if action.progress is None:
            return
        number = 0
        ways = " or ".join(sorted(question.ways))
        remark = question.remark
        where = f" It must be answered by {ways}: {remark}." if remark else ""
        while True:
            number += 1
            left_s = max(0, round(question.until.monotonic_s - self._bench.clock.monotonic()))
            action.progress(
                Progress(
                    progress=number,
                    message=f"{question.approval_id} waits for a person's approval, for {left_s} s "
                    f"at most.{where}",
                    meta={"approval_id": question.approval_id},
                )
            )
            await self._bench.clock.sleep(PROGRESS_EVERY_S)

    # By an answer that asks, and a call that is repeated

    async def _by_round(
        self, action: Action, target: Target, given: Round, question: Question
    ) -> Question | InputRequired:
        """The answered question; or what the client is to ask."""
        asked = self._asked_before(action, given, question)
        if asked is None:
            asked = self._ask(question)
            self._rounds[asked.approval_id] = (asked, action, target)
        elif given.state and given.answer is not None and asked.verdict is None:
            asked.verdict = Verdict.APPROVED if given.answer else Verdict.DENIED
            asked.by = question.who
            self._note(asked)
        if asked.verdict is None:
            state = RequestState(
                principal=_principal(action),
                digest=question.digest,
                until_ms=asked.until.wall_ms,
                approval_id=asked.approval_id,
            )
            return InputRequired(
                data={"message": asked.text, "request_state": sealed(state, self._key)}
            )
        self._end_round(asked)
        # Of two that repeat it at once, and of one that comes after a restart, one is the first.
        if not await self._bench.store.spent_states.spend(
            asked.approval_id, asked.until.wall_ms, self._now().wall_ms
        ):
            raise bad_state(USED)
        return asked

    def _asked_before(self, action: Action, given: Round, question: Question) -> Question | None:
        """The question that this call repeats.

        Raises:
            Invalid: the state that it brings is not good for it.
        """
        same = self._approvals.same(question.digest, self._now())
        if same is not None and same.approval_id in self._waiting:
            # Another call waits for that answer, and it counts once.
            same = None
        if not given.state:
            return same
        now_ms, principal = self._bench.clock.wall_ms(), _principal(action)
        state = opened(given.state, self._key, principal=principal, now_ms=now_ms)
        if state.digest != question.digest:
            raise bad_state("is of another call, or what would be sent has changed")
        if state.approval_id in self._void:
            raise bad_state(USED)
        if same is not None and same.approval_id == state.approval_id:
            return same
        # Asked by a former life: the state says what, and the disk whether it was used.
        until = Moment(self._now().monotonic_s + 1.0, state.until_ms)
        return replace(question, approval_id=state.approval_id, until=until)

    # What all share

    def _ask(self, question: Question) -> Question:
        self._drop_ended()
        self._approvals.ask(question, self._now())
        for text in _rows(question):
            self._tell("approval.asked", text, question.instrument_id)
        return question

    def _drop_ended(self) -> None:
        """Those of calls that wait are ended by the calls themselves."""
        now_ms = self._bench.clock.wall_ms()
        self._void = {key: until for key, until in self._void.items() if until > now_ms}
        for question in self._approvals.drop_ended(self._now()):
            if question.approval_id not in self._waiting and question.verdict is None:
                self._tell("approval.ended", _row(question, "ended without an answer"),
                           question.instrument_id)  # fmt: skip
            self._rounds.pop(question.approval_id, None)

    def _answered(self, approval_id: str, verdict: Verdict, *, way: Way, by: str) -> Question:
        question = self._approvals.answer(
            approval_id, verdict, way=way.value, by=by, now=self._now()
        )
        self._note(question)
        waiting = self._waiting.get(approval_id)
        if waiting is not None and not waiting.answered.done():
            waiting.answered.set_result(question)
        return question

    def _note(self, question: Question) -> None:
        text = _row(question, f"{question.verdict} by {question.by}")
        self._tell(f"approval.{question.verdict}", text, question.instrument_id)

    def _tell(self, name: str, text: str, instrument_id: str) -> None:
        """Something was asked, answered or ended: a row, and get_status tells it anew."""
        self.changes += 1
        self._bench.tell(name, text, instrument_id, "approvals")

    def _now(self) -> Moment:
        return moment(self._bench.clock)


async def _quietly(spend: Awaitable[bool]) -> None:
    # A disk that refuses is told by the database; what has ended has, until a crash.
    with contextlib.suppress(EdgedError):
        await spend


def _what(action: Action, target: Target) -> str:
    name = target.command_name
    return f"{action.tool} {name}".strip() if name and name not in action.tool else action.tool


def _digest(action: Action, target: Target, outgoing: Outgoing, lines: frozenset[str]) -> str:
    """Of caller, unit, call and every line: a call that is repeated is the same, no other is."""
    told: list[object] = [_principal(action), target.unit_key, action.tool, action.arguments]
    told.append(outgoing.digest())
    said = json.dumps([*told, sorted(lines)], sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()


def _principal(action: Action) -> str:
    caller = action.caller
    return f"{caller.route.value} {caller.subject} {caller.remote} {caller.key} {caller.who}"


def _parameters(action: Action, target: Target) -> tuple[str, ...]:
    """Every parameter of a call with its unit, defaults too."""
    called = target.command or target.sequence
    known = called.parameters if called is not None else {}
    swept = target.command.sweep if target.command is not None else None
    found = {name: (value, known.get(name)) for name, value in target.values.items()}
    for name, value in action.arguments.items():
        if name not in IN_THE_TEXT and name not in found:
            found[name] = (value, None)
    unit = known[swept.parameter].unit if swept is not None else ""
    units = {"target_value": unit, "sweep_rate": f"{unit}/s"} if unit else {}
    return tuple(
        f"{name} {_value(value)} {parameter.unit if parameter else units.get(name, '')}".rstrip()
        for name, (value, parameter) in found.items()
    )


def _value(value: object) -> str:
    if isinstance(value, str):
        return shown_line(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return shown(value)
    if isinstance(value, dict):
        return f"({', '.join(f'{shown_line(str(name))} {_value(v)}' for name, v in value.items())})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, default=str)


def _rows(question: Question) -> Iterator[str]:
    """The text of a question as the texts of rows; more than one where one row would cut it."""
    part, size, begin = "", 0, ""
    for char in question.text:
        cost = MOST_OF_A_CHARACTER if char == "\n" else len(json.dumps(char)) - 2
        if size + cost > MOST_OF_A_ROW:
            yield begin + part
            part, size, begin = "", 0, f"{question.approval_id} continues: "
        part, size = part + char, size + cost
    yield begin + part


def _row(question: Question, what: str) -> str:
    return (
        f"{question.approval_id}: {question.tool} on {question.instrument} {what} "
        f"(digest {question.short_digest})"
    )


def _not_shown(question: Question, why: str) -> Invalid:
    return Invalid(
        f"{question.tool} on {question.instrument} needs a person's approval, and what it would "
        f"send cannot be shown as a whole: {why}. Nothing was sent.",
        code=ErrorCode.BAD_ARGUMENTS,
        data={"lines": question.count},
        remedy="Ask for less in one call: fewer points, or in parts.",
    )


def _denied(question: Question) -> Refused:
    return Refused(
        f"{question.tool} on {question.instrument} was denied by {question.by}. Nothing was sent.",
        code=ErrorCode.APPROVAL_DENIED,
        data={"approval_id": question.approval_id},
        remedy="Ask that person before you call it again.",
    )


def _unanswerable(question: Question, why: str) -> Refused:
    ways = sorted(question.ways)
    return Refused(
        f"{question.tool} on {question.instrument} needs approval at the bench: {why}. Nothing was "
        "sent.",
        code=ErrorCode.NEEDS_APPROVAL,
        data={"approval_id": question.approval_id, "ways": ways},
        remedy=f"Somebody must approve it while the call waits, by {' or '.join(ways)}; call again "
        "when somebody is there."
        if ways
        else "Ask for fewer points in one call, or have the owner add cli or page to confirm_by.",
    )
