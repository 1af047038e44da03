"""A rehearsal: what an action would send, gathered by the path's own judging. Nothing is sent.

No judge of its own: the path judges the action as it judges every other and stops before the run;
what would go out is what the conversation itself says to an instrument that agrees with everything.

Source: docs/promises.md section 15, "Before it happens".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from edged.actions.action import Action
from edged.actions.outcome import Done, OutcomeStatus
from edged.commands.outgoing import Origin, Outgoing
from edged.commands.static_tool import ANSWER_BYTES, fitting
from edged.commands.target import Target
from edged.commands.telling import outputs_told
from edged.errors import EdgedError, ErrorCode, Failed
from edged.instruments.conversation import Ask, AskBlock, Conversation, Pause, Send
from edged.profiles.arguments import shown
from edged.profiles.model import Command, CompletionKind, Connection, Parameter
from edged.profiles.template import effective_bound
from edged.record import part, record
from edged.yaml.tree import Scalar

MOST_LINES: Final = 2_000
"""Lines that are kept of a rehearsal; how many there are besides is counted."""
MOST_SPOKEN: Final = 1_000
"""Lines of one conversation."""
NEEDS: Final = {ErrorCode.NEEDS_APPROVAL: "approval"}
"""What would be asked for, and is no obstacle by itself."""
OF_THE_CHECKS: Final = 3 * 1024
"""Of the answer's 8 KB, for what is not lines."""
MOST_CHECKS: Final = 20


class Rehearsed(Done):
    """A rehearsal is over."""

    __slots__ = ()
    status = OutcomeStatus.DRY_RUN


@record(kw_only=False)
class Spoken:
    """The lines of one conversation in their order, and the pauses between them in seconds.

    Attributes:
        is_cut: there are more lines than are kept of one conversation.
    """

    lines: tuple[str, ...]
    pauses_s: float = 0.0
    is_cut: bool = False


def agreeing(command: Command) -> Command:
    """The command on an instrument that takes everything and is done at once."""
    needed, complete = command.precondition, command.complete
    return replace(
        command,
        acknowledge="",
        precondition=replace(needed, expect="") if needed else None,
        complete=replace(complete, until="value == value", pattern="", type=None)
        if complete
        else None,
    )


def spoken(
    conversation: Conversation[Any], connection: Connection, command: Command | None = None
) -> Spoken:
    """What a conversation says to an instrument that has no errors; no wire is near.

    Args:
        command: whose own error query counts, too.
    """
    errors = {connection.errors.query}
    if command is not None and command.errors is not None:
        errors.add(command.errors.query)
    lines: list[str] = []
    pauses_s = 0.0
    answer: str | bytes | None = None
    # What it cannot make of such answers it complains of behind its last line.
    with contextlib.suppress(StopIteration, Failed), contextlib.closing(conversation):
        while len(lines) < MOST_SPOKEN:
            step, answer = conversation.send(answer), None
            match step:
                case Send(text=text):
                    lines.append(text)
                case Ask(text=text):
                    lines.append(text)
                    answer = "0" if text in errors else "1"
                case AskBlock(text=text):
                    lines.append(text)
                    answer = b""
                case Pause(seconds=seconds):
                    pauses_s += seconds
                case _:
                    continue
    gaps_s = connection.min_gap_ms / 1000 * max(0, len(lines) - 1)
    return Spoken(tuple(lines), pauses_s + gaps_s, is_cut=len(lines) >= MOST_SPOKEN)


@part
class Rehearsal:
    """Gathers what one action would do.

    Attributes:
        judge: the path's, given what takes the things that stand in the way just now.
        rehearse: how an action of a type is told; its row's.
        asks_instrument: a person is about to be asked: what an instrument holds may be read for
            that. A dry run sends nothing.
        outgoing: all lines, for the person who is asked.
        conflicts: what stands in the way just now, and would refuse it.
        information: what refuses nothing and should be known before the call, by its message.
        steps: how many there are; ``None`` where that is known only while it runs.
        duration_s: what the waits that are asked for take; the instrument's own time comes besides.
    """

    judge: Callable[[Action, list[EdgedError]], Target]
    rehearse: Callable[[Action], Rehearse]
    asks_instrument: bool = False
    _lines: list[str] = field(default_factory=list)
    _left_out: int = 0
    _times: int = 1
    _guarded: set[str] = field(default_factory=set)
    _checks: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    outgoing: Outgoing = field(default_factory=Outgoing)
    conflicts: list[EdgedError] = field(default_factory=list)
    information: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    steps: int | None = 1
    duration_s: float | None = 0.0

    def say(self, said: Spoken, target: Target) -> None:
        """These lines would go out to the instrument of ``target``."""
        command = target.command
        templates = command.scpi if command is not None else ()
        origins = dict(zip(target.lines, templates, strict=False))
        for line in said.lines:
            template = origins.get(line)
            origin = None
            if command is not None and template is not None:
                origin = Origin(command, template, target.values)
            self.outgoing.add(target.called, line, origin, times=self._times)
        if said.is_cut:
            self.outgoing.gap = f"one command sends more than {MOST_SPOKEN:,} lines"
        self._keep(said.lines)
        if self.duration_s is not None:
            self.duration_s += said.pauses_s

    def set_going(self, action: Action, target: Target) -> None:
        """What has to run in the instrument before it puts something out; said once."""
        instrument = target.instrument
        timer = instrument.timer if instrument is not None else None
        if instrument is None or timer is None or instrument.id in self._guarded:
            return
        if not target.is_write or not outputs_told(action, target, instrument):
            return
        self._guarded.add(instrument.id)
        self.say(spoken(timer.would_begin(target.lines), instrument.connection), target)
        bound = f"silent for {timer.words.limit_s:g} s, it switches its outputs off by itself"
        self.check("its dead-man runs", bound, is_ok=None)

    def _keep(self, lines: Sequence[str]) -> None:
        room = MOST_LINES - len(self._lines)
        self._lines += lines[:room]
        self._left_out += len(lines[room:])

    def check(self, what: str, bound: str = "", *, is_ok: bool | None = True) -> None:
        """One thing that was judged; ``is_ok`` is ``None`` where only the run can tell."""
        told = {"what": what, "is_ok": is_ok, "bound": bound}
        self._checks.setdefault((what, bound), told)

    def check_target(self, target: Target) -> None:
        """What the path has judged of a target: that it is there, danger, values, checks."""
        for instrument in (target.instrument, *(inner.instrument for inner in target.inner)):
            if instrument is not None:
                reason = "" if instrument.is_connected else instrument.line_reason
                name = instrument.alias or instrument.id
                self.check(f"{name} is connected", reason, is_ok=instrument.is_connected)
        if target.is_dangerous:
            self.check("it is dangerous", "this caller may do what is dangerous")
        asked = target.command or target.sequence
        if asked is None:
            return
        self.check_values(asked.parameters, target.values)
        for expression in asked.checks:
            self.check(expression, f"a rule of {asked.name}")
        if target.command is not None:
            self._check_later(target.command)

    def check_values(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Scalar]
    ) -> None:
        """Values that are within their bounds."""
        for name, value in values.items():
            parameter = parameters.get(name)
            if parameter is not None:
                unit = f" {parameter.unit}" if parameter.unit else ""
                self.check(f"{name} {shown(value)}{unit}", _bound(parameter, values))

    def _check_later(self, command: Command) -> None:
        """What only the instrument can tell."""
        needed, verify, complete = command.precondition, command.verify, command.complete
        if needed is not None:
            self.check(f"{needed.query} answers {needed.expect}", needed.hint, is_ok=None)
        if complete is not None and complete.kind is CompletionKind.POLL:
            bound_s = complete.timeout_ms / 1000
            often = f"asked every {complete.every_ms} ms, for {bound_s:g} s at most"
            self.check(f"{complete.query} until {complete.until}", often, is_ok=None)
        if verify is not None:
            near = f" within {verify.tolerance:g}" if verify.tolerance else ""
            self.check(f"the instrument holds {verify.parameter}{near}", "asked back", is_ok=None)

    def step(self, action: Action, *, times: int = 1) -> tuple[str, ...]:
        """One step of what is rehearsed, judged as the path would; see ``runs.ports.Precheck``.

        Args:
            times: it stands for so many; see ``Outgoing.add``.

        Raises:
            EdgedError: why it would be refused.
        """
        inner = Rehearsal(self.judge, self.rehearse)
        inner._guarded = self._guarded
        inner._times = times
        inner.outgoing = self.outgoing
        target = self.judge(action, inner.conflicts)
        self.rehearse(action)(action, target, inner)
        self._keep(inner._lines)
        self._left_out += inner._left_out
        self.conflicts += inner.conflicts
        self.information |= inner.information
        for key, check in inner._checks.items():
            if check["is_ok"] is None:
                self._checks.setdefault(key, check)
        if self.duration_s is not None:
            self.duration_s += inner.duration_s or 0.0
        return target.lines

    def told(self) -> dict[str, Any]:
        """The result of a call with ``dry_run``: whole lines and whole rows, 8 KB at most."""
        lines = fitting(self._lines, {}, ANSWER_BYTES - OF_THE_CHECKS)
        checks = list(self._checks.values())
        checks.sort(key=lambda check: check["is_ok"] is not False)
        checks = fitting(checks[:MOST_CHECKS], {}, OF_THE_CHECKS)
        held = [error for error in self.conflicts if error.code not in NEEDS]
        told: dict[str, Any] = {
            "would_send": lines,
            "checks": checks,
            "conflicts": [
                *{one.message: {"kind": "refusal", **one.for_caller()} for one in held}.values(),
                *(
                    {"kind": "information", "message": message, "data": data}
                    for message, data in self.information.items()
                ),
            ],
            "needs": sorted({NEEDS[one.code] for one in self.conflicts if one.code in NEEDS}),
            "steps": self.steps,
            "duration_s": None if self.duration_s is None else round(self.duration_s, 3),
        }
        more = len(self._lines) - len(lines) + self._left_out
        return {**told, "more": more} if more else told


Rehearse = Callable[..., Coroutine[Any, Any, None] | None]
"""Tells a ``Rehearsal`` what an action would do: (action, target, rehearsal)."""


def no_rehearsal(_family: object, _action: Action, _target: Target, _rehearsal: Rehearsal) -> None:
    """The row of what no tool with ``dry_run`` makes."""


def _bound(parameter: Parameter, values: Mapping[str, Scalar]) -> str:
    """What a parameter may be, for people; by the values beside it, too."""
    bound = effective_bound(parameter, values)
    if bound.options is not None:
        return f"one of {', '.join(bound.options)}"
    unit = f" {parameter.unit}" if parameter.unit else ""
    least = "" if bound.min is None else shown(bound.min)
    most = "" if bound.max is None else shown(bound.max)
    if least and most:
        return f"{least} to {most}{unit}"
    return f"{least}{unit} at least" if least else f"{most}{unit} at most" if most else ""
