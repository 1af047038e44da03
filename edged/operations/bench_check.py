"""bench__check: every unit is asked how it is, all at once, and whoever hangs delays nobody.

A unit in the middle of a sweep or a sequence is not asked: it is told as busy, with what it is busy
with. The others are asked behind whatever waits on their lines: the probe, the error queue, and
whether each output that the abort switches off is on. Nothing is set, and no channel is chosen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import zip_longest
from typing import Any, Final

from edged.actions.action import Action, NamedAction
from edged.actions.caller import Caller
from edged.actions.outcome import Done, Outcome
from edged.commands.memory import Memory
from edged.commands.operation import Operation, Rows, bind
from edged.commands.resolve import Resolver
from edged.commands.static_tool import (
    INSTRUMENT_ID,
    MEASURE,
    StaticTool,
    fitting,
    parameters_of,
    text_of,
)
from edged.commands.target import Target
from edged.errors import EdgedError, ErrorCode, Failed
from edged.instruments.conversation import Ask, Conversation, KnownQuestion, Reply, drain_errors
from edged.instruments.instrument import Instrument
from edged.instruments.mailbox import Priority
from edged.profiles.abort import (
    Proof,
    asked_about,
    judge,
    output_names,
    proofs_of,
    switch_proofs,
    unproved_outputs,
)
from edged.profiles.model import Connection, Profile
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.stop_all import seen_off, wait_for_all
from edged.runs.units import unit_of_instrument
from edged.scpi.answer_text import clean_text
from edged.scpi.errors import InstrumentError

ASK_S: Final = 2.25
"""What one unit may take, waiting for its turn included."""
ANSWER_S: Final = 2.7
"""When the answer is given, whatever has not come by then; 3 s are promised."""
MOST_TEXT: Final = 240
"""Characters of a problem."""
BYTES_OF_A_LIST: Final = 768
"""Of the sweeps, streams, sequences and lockouts each."""
TOLD_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "sweeps": (
        "sweep_id", "status", "instrument_id", "command_name", "set_value", "target_value", "unit",
        "needs_attention",
    ),
    "streams": ("stream_id", "instrument_id", "command_name", "interval_ms", "count"),
    "sequences": ("run_id", "instrument_id", "sequence_name", "steps_executed"),
    "experiments": ("run_id", "experiment", "state", "step", "rows"),
    "lockouts": ("instrument_id", "by", "reason", "since_ms"),
    "leases": ("instruments", "who", "purpose", "expires_ms"),
    "budgets": ("instrument_id", "command", "spent", "per_hour", "wait_s"),
    "interlocks": ("name", "state", "reads", "last", "reason", "cools_s"),
    "approvals": ("approval_id", "instrument", "tool", "who", "expires_ms"),
}  # fmt: skip
"""What the answer tells of each; get_status has the rest."""

UNANSWERED: Final = Failed("It has not answered yet.", code=ErrorCode.TIMEOUT)

UnderWay = Callable[[], Mapping[str, Sequence[Mapping[str, Any]]]]


@record(frozen=False, kw_only=False)
class Findings:
    """What a unit has answered so far; written by its line's work, and whole once that is over.

    Attributes:
        latency_s: of the probe's answer; ``None`` while there is none.
        answers: to the questions about outputs, in their order.
    """

    latency_s: float | None = None
    errors: tuple[InstrumentError, ...] = ()
    answers: list[str] = field(default_factory=list)


@record
class CheckUnit(Action):
    """Ask one. No tool makes this.

    Attributes:
        proofs: what shows which outputs are off.
        findings: takes what is answered, also before something fails.
    """

    instrument_id: str
    proofs: tuple[Proof, ...]
    findings: Findings


@record(frozen=False)
class _Unit:
    """One unit of a check.

    Attributes:
        busy_with: ids of what must not be disturbed.
        asking: its question, if it is asked.
    """

    instrument: Instrument
    busy_with: tuple[str, ...]
    proofs: tuple[Proof, ...] = ()
    unaskable: tuple[str, ...] = ()
    findings: Findings = field(default_factory=Findings)
    asking: asyncio.Task[Outcome] | None = None

    @classmethod
    def of(cls, instrument: Instrument, busy_with: tuple[str, ...]) -> _Unit:
        """Before anything was asked."""
        proofs, unaskable = _outputs_of(instrument.profile)
        return cls(instrument=instrument, busy_with=busy_with, proofs=proofs, unaskable=unaskable)

    @property
    def is_asked(self) -> bool:
        """It is there, and nothing is in the middle of something on it."""
        return self.instrument.is_connected and not self.busy_with

    @property
    def error(self) -> EdgedError | None:
        """What its question failed by."""
        if self.asking is None:
            return None
        if not self.asking.done() or self.asking.cancelled():
            return UNANSWERED
        return self.asking.result().error

    @property
    def is_line_taken(self) -> bool:
        """Its turn did not come: other work was on its line all the time."""
        error = self.error
        return (
            isinstance(error, Failed)
            and error is not UNANSWERED
            and error.code is ErrorCode.TIMEOUT
            and not error.sent
            and not self.instrument.is_silent
        )


@record
class BenchCheck:
    """What it is run with.

    Attributes:
        moves: gives the ids of the sweeps and sequences that are at work on an instrument.
        under_way: gives what runs and what is locked out, by the names in ``TOLD_OF``.
        memory: told which outputs are off.
    """

    bench: Bench
    moves: Callable[[str], tuple[str, ...]]
    under_way: UnderWay
    memory: Memory

    def table(self) -> Rows:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    async def check(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """All of them, or the one that is named.

        Raises:
            NotFound: there is no such instrument.
        """
        named = text_of(action.arguments, "instrument_id")
        instruments = (self.bench.pool.get(named),) if named else self.bench.pool.all()
        caller = action.caller.nested(
            tool=action.tool, scope="", on_behalf_of=f"check-{action.action_id}"
        )
        units = [_Unit.of(instrument, self.moves(instrument.id)) for instrument in instruments]
        try:
            for unit in units:
                if unit.is_asked:
                    unit.asking = asyncio.create_task(
                        self._ask(unit, action, caller), name="edged-check"
                    )
            asking = [unit.asking for unit in units if unit.asking is not None]
            await wait_for_all(self.bench.clock, asking, ANSWER_S)
            return Done(data=self._told(units))
        finally:
            left = [unit.asking for unit in units if unit.asking is not None]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def ask(self, action: CheckUnit, target: Target, _began: float) -> Done:
        """One of them, in its turn."""
        instrument = target.aimed_instrument()
        unit = unit_of_instrument(instrument).key
        told = self.bench.store.told_on.of(unit)
        reply = await instrument.converse(
            lambda: _check(
                instrument.probe,
                instrument.connection,
                [proof.query for proof in action.proofs],
                action.findings,
                self.bench.clock.monotonic,
            ),
            priority=Priority.PROBE,
            timeout_s=ASK_S,
            name=action.tool,
        )
        self.memory.heard_answers(instrument, action.proofs, action.findings.answers)
        # Of two that tell one serial number nobody knows which of them was told.
        if told and len(self.bench.pool.alike(instrument)) == 1:
            off = judge(action.proofs, action.findings.answers).off
            outputs = output_names(instrument.profile) if instrument.profile else ()
            self.bench.store.told_on.clear(unit, seen_off(told, outputs, off))
        return Done(data=None, scpi=reply.sent)

    async def _ask(self, unit: _Unit, action: NamedAction, caller: Caller) -> Outcome:
        return await self.bench.perform(
            CheckUnit(
                tool=action.tool,
                caller=caller,
                action_id=self.bench.new_id(),
                parent_id=action.action_id,
                instrument_id=unit.instrument.id,
                proofs=unit.proofs,
                findings=unit.findings,
            )
        )

    def _told(self, units: Sequence[_Unit]) -> dict[str, Any]:
        told = [self._unit_told(unit) for unit in units]
        under_way = self.under_way()
        is_healthy = not any(one["problems"] for one in told) and not any(
            sweep.get("needs_attention") for sweep in under_way["sweeps"]
        )
        rest: dict[str, Any] = {}
        left_out = 0
        for name, fields in TOLD_OF.items():
            rows = [{key: row[key] for key in fields if key in row} for row in under_way[name]]
            rest[name] = fitting(rows, {}, BYTES_OF_A_LIST)
            left_out += len(rows) - len(rest[name])
        # What is left out, if something must be, is well.
        told.sort(key=lambda one: not one["problems"])
        around = {"is_healthy": is_healthy, "instruments": [], **rest, "more": 0}
        instruments = fitting(told, around)
        return {
            "is_healthy": is_healthy,
            "instruments": instruments,
            **rest,
            "more": left_out + len(told) - len(instruments),
        }

    def _unit_told(self, unit: _Unit) -> dict[str, Any]:
        instrument, findings = unit.instrument, unit.findings
        state = self.bench.state_of(instrument)
        has_answered = findings.latency_s is not None
        is_busy = bool(unit.busy_with) or unit.is_line_taken
        told: dict[str, Any] = {
            "instrument_id": instrument.id,
            "alias": instrument.alias,
            "state": state.value,
            "is_answering": has_answered or (is_busy and not instrument.is_silent),
            "latency_ms": round(1_000 * findings.latency_s, 1) if findings.latency_s else None,
            "outputs": [*_outputs_told(unit)],
            "problems": [text[:MOST_TEXT] for text in _problems(unit, state.value)],
        }
        if is_busy:
            told["busy_with"] = list(unit.busy_with) or ["other work on its line"]
        return told


def _check(
    probe: KnownQuestion | None,
    connection: Connection,
    questions: Sequence[str],
    findings: Findings,
    now: Callable[[], float],
) -> Conversation[Reply]:
    """What a unit is asked; by its line's work.

    Raises:
        Failed: BAD_ANSWER, the probe was answered by something else.
    """
    asked: tuple[str, ...] = ()
    if probe is None:
        # Nothing can be asked of it: that its line is open is all that anybody knows.
        findings.latency_s = 0.0
    else:
        began, asked = now(), (probe.question,)
        answer = yield Ask(probe.question)
        text = answer if isinstance(answer, str) else ""
        findings.latency_s = now() - began
        if not probe.is_answer(text):
            raise Failed(
                f"{probe.question} was answered by {clean_text(text)!r}.",
                code=ErrorCode.BAD_ANSWER,
                sent=asked,
            )
    findings.errors = yield from drain_errors(connection.errors)
    for question in questions:
        answer = yield Ask(question)
        findings.answers.append(answer if isinstance(answer, str) else "")
    return Reply(sent=(*asked, *questions))


def _outputs_of(profile: Profile | None) -> tuple[tuple[Proof, ...], tuple[str, ...]]:
    """What can be asked of its outputs, and those of which nothing can.

    What can be asked only after a channel was selected is not asked: that is a setting.
    """
    if profile is None or not profile.abort:
        return (), ()
    proofs, unproved = proofs_of(profile, profile.abort), unproved_outputs(profile)
    proofs = switch_proofs(profile.abort, proofs)
    selecting = [asked_about(proof) for proof in proofs if proof.selects]
    return tuple(p for p in proofs if not p.selects), tuple(dict.fromkeys([*selecting, *unproved]))


def _outputs_told(unit: _Unit) -> Iterable[dict[str, Any]]:
    for proof, answer in zip_longest(unit.proofs, unit.findings.answers):
        is_on = None if answer is None else not proof.is_given_by(answer)
        told: dict[str, Any] = {"name": asked_about(proof), "is_on": is_on}
        if answer is not None:
            told["answer"] = clean_text(answer)[:40]
        yield told
    for name in unit.unaskable:
        yield {"name": name, "is_on": None}


def _problems(unit: _Unit, state: str) -> Iterable[str]:
    instrument = unit.instrument
    if not instrument.is_connected:
        yield f"It is {state}: {instrument.line_reason or 'nobody answers there'}."
        return
    error = unit.error
    if error is not None and instrument.is_silent:
        yield f"It can be reached, and does not answer: {instrument.line_reason}."
    elif error is not None and not unit.is_line_taken:
        yield error.message
    if instrument.timer is not None and instrument.timer.is_tripped:
        yield instrument.timer.tripped().message
    for complaint in unit.findings.errors:
        yield f"Its error queue had {complaint.code}: {complaint.text}"


def at_the_unit(resolver: Resolver, action: CheckUnit) -> Target:
    """One instrument."""
    return resolver.unit(action.instrument_id)


OPERATIONS: Final = (
    Operation(
        run=BenchCheck.check,
        tool=StaticTool(
            name="bench__check",
            title="Check the bench",
            description=(
                "Ask every connected instrument now whether it answers, its error queue and "
                "which outputs are on; within 3 s. is_on null: it cannot be asked."
            ),
            schema=parameters_of(instrument_id=INSTRUMENT_ID),
            annotations=MEASURE,
            needs_instruments=True,
        ),
    ),
    Operation(action=CheckUnit, run=BenchCheck.ask, aim=at_the_unit),
)
