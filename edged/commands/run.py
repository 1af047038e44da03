"""Runs one profile command on its instrument's line, and makes the result of it.

The conversation (lines, completion, error query, verify) runs on the actor's thread; what the
answer means is worked out here.

A step of a ramp on its way: when its lines had gone out, and that they go to who was met.

A ramp keeps its rate by the first, not by the answer. By the second a step is not sent to a unit
that was switched off and on meanwhile: there it would be a jump.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand, SendProgram
from edged.actions.outcome import Done
from edged.commands.memory import NOTHING_REMEMBERED, Remembering
from edged.commands.pending import LineJob
from edged.commands.rehearsal import Spoken, agreeing, spoken
from edged.commands.send_guard import guarded
from edged.commands.target import SendGuard, Target
from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import (
    Ask,
    Conversation,
    Reply,
    Send,
    asked,
    command_conversation,
    lines_in,
    listen_conversation,
    program_conversation,
    raw_conversation,
)
from edged.instruments.dead_man import Timer
from edged.instruments.instrument import Instrument
from edged.instruments.mailbox import Hold, Job, Priority, Waiter
from edged.profiles.answers import Answer, matches, parse_answer, picked
from edged.profiles.frames import Frame
from edged.profiles.model import (
    Command,
    CompletionKind,
    Connection,
    ImageAnswer,
    ListAnswer,
    Parameter,
    Profile,
    WaveformAnswer,
)
from edged.profiles.raw import asks as is_question
from edged.profiles.template import render
from edged.record import part
from edged.scpi.answer_text import clean_text
from edged.scpi.numbers import number_with_suffix
from edged.yaml.tree import Scalar

Finish = Callable[[Mapping[str, Any], Reply], Done]
Read = Callable[[str], Any]


def _as_it_is(answer: str) -> str:
    return answer


def at_one_meeting(
    action: RunCommand, instrument: Instrument, guard: SendGuard | None
) -> SendGuard:
    """``guard``, and only while the line has not been opened anew since ``action.meeting``."""

    def may_step() -> None:
        if guard is not None:
            guard()
        if action.meeting is not None and instrument.meeting != action.meeting:
            raise Failed(
                f"{instrument.called} was reconnected before {action.command_name} was sent.",
                code=ErrorCode.PREEMPTED,
            )

    return may_step


def noting_write(
    conversation: Conversation[Reply], lines: int, note: Callable[[], None]
) -> Conversation[Reply]:
    """The same conversation; ``note`` is called on the line's thread once ``lines`` are written."""
    left, answer = lines, None
    try:
        while True:
            step = conversation.send(answer)
            answer = yield step
            if isinstance(step, Send | Ask) and left:
                left -= 1
                if not left:
                    note()
    except StopIteration as end:
        reply: Reply = end.value
        return reply
    finally:
        conversation.close()


UNDECODED: Final = "\ufffd"
TRANSFER_S: Final = 60.0
"""What moving the bytes of a trace or of many lines may take besides; a line or a slice of a block
that stands still ends it earlier."""
GRACE_S: Final = 5.0
"""Waiting in the mailbox behind others, on top of what the command itself may take."""

PRIORITY: Final[Mapping[Purpose, Priority]] = {
    Purpose.CALL: Priority.COMMAND,
    Purpose.SEQUENCE_STEP: Priority.COMMAND,
    Purpose.FINALLY_STEP: Priority.SAFE,
    Purpose.SWEEP_STEP: Priority.SWEEP_STEP,
    Purpose.MEASURE: Priority.MEASURE,
    Purpose.STREAM_POINT: Priority.MEASURE,
    Purpose.ABORT: Priority.SAFE,
    Purpose.SETTINGS: Priority.PROBE,
    Purpose.INTERLOCK: Priority.GUARD,
}
"""Why a command runs → its place in the mailbox; an ``is_safe`` command is SAFE whatever it is."""


class CommandJob(LineJob):
    """One profile command, but for a capture.

    Args:
        lines: rendered, as they will be sent.
        guard: see ``Target``.
        timer: see ``Target``.
        asks_first: a question before its lines, and who is told the answer on the line's thread.
        asks_last: the same behind its answer, unless that says itself that its value is none.
        note_written: called on the line's thread once a setter's lines have gone out.
        finish: makes the result of the variable part of execute_command's, {data, unit?, flag?,
            primary?}, and of the reply.
        remembers: told when it is put on its line, and when it has ended; of what writes.
        ask: all that it says, where that was worked out before.

    Attributes:
        limits_s: what it may take in all, and by itself.
    """

    __slots__ = (
        "_ask",
        "_asks_first",
        "_asks_last",
        "_command",
        "_finish",
        "_guard",
        "_instrument",
        "_lines",
        "_note_written",
        "_priority",
        "_profile",
        "_remembers",
        "_timer",
        "_values",
        "limits_s",
    )

    def __init__(
        self,
        instrument: Instrument,
        command: Command,
        values: Mapping[str, Scalar],
        lines: tuple[str, ...],
        purpose: Purpose,
        *,
        guard: SendGuard | None,
        timer: Timer | None = None,
        finish: Finish,
        remembers: Remembering | None = None,
        note_written: Callable[[], None] | None = None,
        limits_s: tuple[float, float] | None = None,
        ask: Ask | None = None,
        asks_first: tuple[str, Callable[[str], None]] | None = None,
        asks_last: tuple[str, Callable[[str], None]] | None = None,
    ) -> None:
        self._ask = ask
        self._asks_first = asks_first
        self._asks_last = asks_last
        self._instrument = instrument
        self._profile = instrument.profile or _profile(instrument)
        self._command = command
        self._values = values
        self._lines = lines
        self._priority = Priority.SAFE if command.is_safe else PRIORITY[purpose]
        self._guard = guard
        self._timer = timer
        self._note_written = note_written
        self._finish = finish
        self._remembers = remembers
        self.limits_s = limits_s or self._limits_s()

    def submit(self, waiter: Waiter) -> Job:
        if self._remembers is not None:
            self._remembers.begin()
        timeout_s, own_s = self.limits_s
        return self._instrument.submit(
            self._talk,
            waiter,
            priority=self._priority,
            timeout_s=timeout_s,
            name=self._command.name,
            own_s=own_s,
        )

    def done(self, reply: Reply) -> Done:
        """See ``LineJob``; BAD_ANSWER and VERIFY_FAILED were raised by the conversation itself."""
        if self._command.is_query:
            return self._finish(read_reply(reply), reply)
        part = {"data": {"set": dict(self._values), "readback": reply.readback}}
        return self._finish(part, reply)

    def over(self) -> None:
        if self._remembers is not None:
            self._remembers.over()

    async def finished_by_any_line(self) -> Done:
        """``finished``, said by another line too where the first is late or fails."""
        if self._remembers is not None:
            self._remembers.begin()
        try:
            reply = await self._instrument.converse(
                self._talk,
                priority=self._priority,
                timeout_s=self.limits_s[0],
                name=self._command.name,
                is_repeatable=True,
            )
            return self.done(reply)
        finally:
            self.over()

    def _limits_s(self) -> tuple[float, float]:
        """What all its exchanges may take together, waiting besides, and the longest of them."""
        command, connection = self._command, self._profile.connection
        one_ms = own_ms = command.timeout_ms or connection.timeout_ms
        total_s = one_ms * (len(command.scpi) + 3) / 1000 + GRACE_S
        if self._timer is not None:
            total_s += _arming_s(self._timer, connection)
        complete = command.complete
        if complete is not None:
            own_ms = max(one_ms, complete.timeout_ms)
            if complete.kind is not CompletionKind.NONE:
                total_s += complete.timeout_ms / 1000
        if isinstance(command.returns, ListAnswer) and command.returns.lines != 1:
            total_s += TRANSFER_S
        return total_s, own_ms / 1000

    def would_say(self) -> Spoken:
        """Every line of it on an instrument that agrees, questions too; nothing is sent."""
        command = agreeing(self._command)
        conversation = self._conversation(command, _as_it_is, _as_it_is)
        return spoken(conversation, self._profile.connection, command)

    def _talk(self) -> Conversation[Reply]:
        """On the line's thread."""
        read = partial(parse_answer, self._command.returns, values=self._values)
        if self._ask is not None and not (self._asks_first or self._asks_last):
            return asked(self._ask, read)
        confirm = partial(_verified, self._command, self._values)
        conversation = self._conversation(self._command, read, confirm)
        if self._guard is not None:
            conversation = guarded(conversation, self._lines, self._guard)
        if self._note_written is not None:
            conversation = noting_write(conversation, len(self._lines), self._note_written)
        if self._timer is not None:
            conversation = armed_first(conversation, self._timer, self._lines, self._guard)
        return conversation

    def _conversation(self, command: Command, read: Read, confirm: Read) -> Conversation[Reply]:
        values, verify = self._values, command.verify
        if self._ask is not None:
            conversation = asked(self._ask, read)
        else:
            conversation = command_conversation(
                lines=self._lines,
                command=command if command.complete is None else _with_poll(command, values),
                connection=self._profile.connection,
                read=read,
                is_urgent=self._priority is Priority.SAFE,
                verify=render(verify.query, command.parameters, values) if verify else None,
                confirm=confirm,
            )
        if self._asks_last:
            conversation = _asking_last(*self._asks_last, conversation)
        return _asking_first(*self._asks_first, conversation) if self._asks_first else conversation


def armed_first(
    conversation: Conversation[Reply],
    timer: Timer | None,
    lines: tuple[str, ...],
    guard: SendGuard | None,
) -> Conversation[Reply]:
    """The same conversation; the timer in the instrument runs before its first line."""
    return conversation if timer is None else _armed_first(conversation, timer, lines, guard)


def _armed_first(
    conversation: Conversation[Reply],
    timer: Timer,
    lines: tuple[str, ...],
    guard: SendGuard | None,
) -> Conversation[Reply]:
    begun = yield from timer.before(lines, guard)
    reply = yield from conversation
    return dataclasses.replace(reply, sent=(*begun, *reply.sent))


def _arming_s(timer: Timer | None, connection: Connection) -> float:
    return 0.0 if timer is None else 4 * connection.timeout_ms / 1000


def _asking_first(
    question: str, hear: Callable[[str], None], conversation: Conversation[Reply]
) -> Conversation[Reply]:
    hear(str((yield Ask(question))))
    reply = yield from conversation
    return dataclasses.replace(reply, sent=(question, *reply.sent))


def _asking_last(
    question: str, hear: Callable[[str], None], conversation: Conversation[Reply]
) -> Conversation[Reply]:
    reply = yield from conversation
    if isinstance(reply.value, Answer) and reply.value.flag is not None:
        return reply
    hear(str((yield Ask(question))))
    return dataclasses.replace(reply, sent=(*reply.sent, question))


@part
class RawJob(LineJob):
    """Raw lines; the answer to the last one, if it is a query.

    Attributes:
        is_known, form: see ``raw_conversation``.
        asks: whether the last one is answered; ``None``: as its "?" and the profile say.
        timer: see ``Target``.
        finish: makes the result.
        remembers: see ``CommandJob``.
    """

    instrument: Instrument
    lines: tuple[str, ...]
    purpose: Purpose
    is_known: bool
    guard: SendGuard | None
    finish: Callable[[Reply], Done]
    form: Frame | int = 1
    asks: bool | None = None
    timer: Timer | None = None
    remembers: Remembering = NOTHING_REMEMBERED
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = self.instrument.connection
        if self.asks is None:
            self.asks = is_question(self.instrument.profile, self.lines[-1])

    def submit(self, waiter: Waiter) -> Job:
        self.remembers.begin()
        armed_s = _arming_s(self.timer, self.connection)
        more_s = 0.0 if self.form == 1 else TRANSFER_S
        return self.instrument.submit(
            self._talk,
            waiter,
            priority=PRIORITY[self.purpose],
            timeout_s=self.connection.timeout_ms / 1000 + more_s + armed_s + GRACE_S,
            name="send_scpi",
        )

    def done(self, reply: Reply) -> Done:
        """See ``LineJob``.

        Raises:
            Failed: BAD_ANSWER, it has bytes that are none of the connection's encoding.
        """
        if UNDECODED in (reply.answer or ""):
            encoding = self.connection.encoding
            raise Failed(
                f'The answer to "{self.lines[-1][:200]}" has bytes that are no {encoding}: '
                f'"{clean_text(reply.answer or "")}".',
                code=ErrorCode.BAD_ANSWER,
                data={"trace": self.instrument.recent()},
                remedy="If it always has, set the profile's connection.encoding to latin-1 or "
                "utf-8.",
                sent=reply.sent,
            )
        return self.finish(reply)

    def over(self) -> None:
        self.remembers.over()

    def would_say(self) -> Spoken:
        connection = dataclasses.replace(self.connection, acknowledge=None)
        return spoken(self._conversation(connection), connection)

    def _talk(self) -> Conversation[Reply]:
        """On the line's thread."""
        conversation = guarded(self._conversation(self.connection), self.lines, self.guard)
        return armed_first(conversation, self.timer, self.lines, self.guard)

    def _conversation(self, connection: Connection) -> Conversation[Reply]:
        return raw_conversation(
            lines=self.lines,
            asks=bool(self.asks),
            connection=connection,
            is_known=self.is_known,
            form=self.form,
        )


@part
class ProgramJob(LineJob):
    """One message of a program that knows VISA; see ``program_conversation``.

    Attributes:
        asks: it is answered.
        finish, remembers: see ``RawJob``.
    """

    action: SendProgram
    target: Target
    asks: bool
    finish: Callable[[Reply], Done]
    remembers: Remembering = NOTHING_REMEMBERED
    instrument: Instrument = field(init=False)
    connection: Connection = field(init=False)
    timeout_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.instrument = self.target.aimed_instrument()
        self.connection = self.instrument.connection
        self.timeout_s = max(self.action.timeout_s, self.connection.timeout_ms / 1000)

    def submit(self, waiter: Waiter) -> Job:
        self.remembers.begin()
        hold = self.action.hold
        return self.instrument.submit(
            self._talk,
            waiter,
            priority=PRIORITY[self.action.purpose],
            timeout_s=self.timeout_s + _arming_s(self.target.timer, self.connection) + GRACE_S,
            name=self._name[:80],
            hold=hold if isinstance(hold, Hold) else None,
            own_s=self.timeout_s,
            listens=bool(self.action.listens_to),
        )

    @property
    def _name(self) -> str:
        action = self.action
        return f"A read after {action.listens_to}" if action.listens_to else action.scpi

    def done(self, reply: Reply) -> Done:
        return self.finish(reply)

    def over(self) -> None:
        self.remembers.over()

    def would_say(self) -> Spoken:
        connection = dataclasses.replace(self.connection, acknowledge=None)
        return spoken(self._conversation(connection), connection)

    def _talk(self) -> Conversation[Reply]:
        """On the line's thread."""
        target, lines = self.target, self.target.lines
        talk = guarded(self._conversation(self.connection), lines, target.send_guard)
        return armed_first(talk, target.timer, lines, target.send_guard)

    def _conversation(self, connection: Connection) -> Conversation[Reply]:
        target = self.target
        if self.action.listens_to:
            return listen_conversation(line=self.action.listens_to, timeout_s=self.timeout_s)
        return program_conversation(
            line=target.lines[0],
            data=self.action.data,
            asks=self.asks,
            connection=connection,
            timeout_s=self.timeout_s,
            is_known=target.is_one_command,
            may_answer=any(part.is_unknown for part in target.parts),
            form=answer_form(target),
        )


def answer_form(target: Target) -> Frame | int:
    """In which form a raw line is answered, as far as it is one command's; else one line.

    Data whose end only a preamble gives are read as a line, too.
    """
    command = target.parts[0].command if len(target.parts) == 1 else None
    if command is None:
        return 1
    returns = command.returns
    if not isinstance(returns, WaveformAnswer | ImageAnswer):
        return lines_in(returns)
    frame = Frame(returns, lambda: target.parts[0].values)
    try:
        frame.find(b"")
    except Failed:
        return 1
    return frame


def _with_poll(command: Command, values: Mapping[str, Scalar]) -> Command:
    """The command with its completion poll rendered: "is channel 2 done" names the channel."""
    complete = command.complete
    if complete is None or complete.kind is not CompletionKind.POLL:
        return command
    query = render(complete.query, command.parameters, values)
    return dataclasses.replace(command, complete=dataclasses.replace(complete, query=query))


def read_reply(reply: Reply) -> dict[str, Any]:
    """What a query's answer means: {data, unit?, flag?, primary?}."""
    answer: Answer = reply.value
    part: dict[str, Any] = {"data": answer.value}
    if answer.unit:
        part["unit"] = answer.unit
    if answer.flag is not None:
        part["flag"] = answer.flag
    if answer.primary is not None and isinstance(answer.value, dict):
        part["primary"] = answer.primary
    return part


def _verified(command: Command, values: Mapping[str, Scalar], answer: str) -> Scalar | None:
    """What the instrument holds now, asked back after the write.

    Raises:
        Failed: VERIFY_FAILED, naming what was set and what came back.
    """
    verify = command.verify
    if verify is None:
        return None
    wanted = values[verify.parameter]
    found = picked(answer, verify.pattern, verify.decimal)
    parameter = command.parameters[verify.parameter]
    if matches(None, wanted, found, verify.tolerance, parameter=parameter):
        return read_back(found, wanted, parameter)
    raise Failed(
        f"{command.name} set {verify.parameter} to {wanted!r}, but the instrument says "
        f"{clean_text(found)!r} (tolerance {verify.tolerance:g}).",
        code=ErrorCode.VERIFY_FAILED,
        data={"parameter": verify.parameter, "wanted": wanted, "found": clean_text(found)},
        remedy="It may have ignored or rounded the value; look at its display and its limits.",
    )


def read_back(answer: str, wanted: Scalar, parameter: Parameter) -> Scalar:
    """What the instrument said it holds: its number where one was set, else what was wanted."""
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return wanted
    number = number_with_suffix(answer, parameter.unit)
    return wanted if number is None else number


def _profile(instrument: Instrument) -> Profile:
    if instrument.profile is None:
        raise Failed(f"{instrument.called} has lost its profile.", code=ErrorCode.DISCONNECTED)
    return instrument.profile
