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
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand
from edged.commands.send_guard import guarded
from edged.commands.target import SendGuard, Target
from edged.errors import ErrorCode, Failed
from edged.instruments.actor import Talk
from edged.instruments.conversation import (
    Ask,
    Conversation,
    Reply,
    Send,
    command_conversation,
    raw_conversation,
)
from edged.instruments.instrument import Instrument
from edged.instruments.mailbox import Priority, Waiter
from edged.profiles.answers import Answer, matches, parse_answer, picked
from edged.profiles.model import (
    Command,
    CompletionKind,
    ImageAnswer,
    Parameter,
    Profile,
    Scalar,
    WaveformAnswer,
)
from edged.profiles.raw import is_query
from edged.profiles.template import render
from edged.scpi.answer_text import clean_text
from edged.scpi.numbers import number_with_suffix

__all__ = [
    "PRIORITY",
    "ask",
    "at_one_meeting",
    "is_plain_query",
    "noting_write",
    "read_reply",
    "run_command",
    "send_raw",
]


def at_one_meeting(
    action: RunCommand, instrument: Instrument, guard: SendGuard | None
) -> SendGuard:
    """``guard``, and only while the line has not been opened anew since ``action.meeting``."""

    def may_step() -> None:
        if guard is not None:
            guard()
        if action.meeting is not None and instrument.meeting != action.meeting:
            raise Failed(
                f"{instrument.id} was connected anew before {action.command_name} was sent.",
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
}
"""Why a command runs → its place in the mailbox; an ``is_safe`` command is SAFE whatever it is."""


async def run_command(
    instrument: Instrument,
    command: Command,
    values: Mapping[str, Scalar],
    lines: tuple[str, ...],
    purpose: Purpose,
    *,
    guard: SendGuard | None = None,
    note_written: Callable[[], None] | None = None,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Send the lines, read what there is to read.

    Args:
        guard: see ``Target``.
        note_written: called on the line's thread once a setter's lines have gone out.

    Returns:
        The variable part of execute_command's result, {data, unit?, flag?, primary?}, and what was
        sent.

    Raises:
        Failed: timeout, disconnect, the instrument's own error, an answer that cannot be read, or a
            verify that missed; ``sent`` says what had gone out.
    """
    profile = _profile(instrument)
    priority = Priority.SAFE if command.is_safe else PRIORITY[purpose]
    verify = render(command.verify.query, command.parameters, values) if command.verify else None
    filled = _with_poll(command, values)

    def make() -> Conversation[Reply]:
        conversation = guarded(
            command_conversation(
                lines=lines,
                command=filled,
                connection=profile.connection,
                read=lambda answer: parse_answer(command.returns, answer, values),
                is_urgent=priority is Priority.SAFE,
                verify=verify,
                confirm=lambda found: _verified(command, values, found),
            ),
            lines,
            guard,
        )
        if note_written is None:
            return conversation
        return noting_write(conversation, len(lines), note_written)

    reply = await instrument.converse(
        make,
        priority=priority,
        timeout_s=_longest_s(command, profile) + GRACE_S,
        name=command.name,
        is_repeatable=command.is_safe,
    )
    if command.is_query:
        return read_reply(reply), reply.sent
    return {"data": {"set": dict(values), "readback": reply.readback}}, reply.sent


def is_plain_query(target: Target) -> bool:
    """Whether running it is one conversation that asks, changes nothing, and brings a text."""
    command = target.command
    return (
        command is not None
        and command.is_query
        and not (target.is_write or target.is_safe or target.is_dangerous)
        and not isinstance(command.returns, WaveformAnswer | ImageAnswer)
    )


def ask(
    instrument: Instrument,
    command: Command,
    values: Mapping[str, Scalar],
    lines: tuple[str, ...],
    waiter: Waiter,
) -> Talk:
    """Begin a plain query; ``waiter`` gets its ``Reply`` on the loop, for ``read_reply``.

    Raises:
        Failed: it cannot be asked now.
        Conflict: BUSY, too many jobs wait already.
    """
    profile = _profile(instrument)
    filled = _with_poll(command, values)
    return instrument.submit(
        lambda: command_conversation(
            lines=lines,
            command=filled,
            connection=profile.connection,
            read=lambda answer: parse_answer(command.returns, answer, values),
        ),
        waiter,
        priority=PRIORITY[Purpose.CALL],
        timeout_s=_longest_s(command, profile) + GRACE_S,
        name=command.name,
    )


def _with_poll(command: Command, values: Mapping[str, Scalar]) -> Command:
    """The command with its completion poll rendered: "is channel 2 done" names the channel."""
    complete = command.complete
    if complete is None or complete.kind is not CompletionKind.POLL:
        return command
    query = render(complete.query, command.parameters, values)
    return dataclasses.replace(command, complete=dataclasses.replace(complete, query=query))


async def send_raw(
    instrument: Instrument,
    lines: tuple[str, ...],
    purpose: Purpose,
    *,
    is_known: bool = False,
    guard: SendGuard | None = None,
) -> Reply:
    """Send raw lines; ask for an answer if the last one is a query.

    Args:
        is_known: see ``raw_conversation``.

    Raises:
        Failed: as ``run_command``.
    """
    connection = instrument.connection
    asks = is_query(lines[-1])
    reply = await instrument.converse(
        lambda: guarded(
            raw_conversation(lines=lines, asks=asks, connection=connection, is_known=is_known),
            lines,
            guard,
        ),
        priority=PRIORITY[purpose],
        timeout_s=connection.timeout_ms / 1000 + GRACE_S,
        name="send_scpi",
    )
    if UNDECODED in (reply.answer or ""):
        raise Failed(
            f'The answer to "{lines[-1][:200]}" has bytes that are no {connection.encoding}: '
            f'"{clean_text(reply.answer or "")}".',
            code=ErrorCode.BAD_ANSWER,
            data={"trace": instrument.recent()},
            remedy="If it always has, set the profile's connection.encoding to latin-1 or utf-8.",
            sent=reply.sent,
        )
    return reply


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
    found = picked(answer, verify.pattern)
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


def _longest_s(command: Command, profile: Profile) -> float:
    """What all the exchanges of one command may take together."""
    one_ms = command.timeout_ms or profile.connection.timeout_ms
    total_ms = one_ms * (len(command.scpi) + 3)
    complete = command.complete
    if complete is not None and complete.kind is not CompletionKind.NONE:
        total_ms += complete.timeout_ms
    return total_ms / 1000


def _profile(instrument: Instrument) -> Profile:
    if instrument.profile is None:
        raise Failed(f"{instrument.id} has lost its profile.", code=ErrorCode.DISCONNECTED)
    return instrument.profile
