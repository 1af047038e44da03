"""Commands that answer with a block: waveforms, which stay in the daemon, and pictures.

One capture is one uninterruptible conversation, however many reads it takes. Where the profile says
``chunk_points``, the command's parameters ``first`` and ``last`` bound the points, and the set-up
lines and the data query are said again for each stretch of at most so many.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand
from edged.actions.outcome import Picture, ResourceLink
from edged.commands.freshness import Acquisitions, notes_of
from edged.commands.rehearsal import Spoken, agreeing, spoken
from edged.commands.run import GRACE_S, PRIORITY, TRANSFER_S
from edged.commands.send_guard import guarded
from edged.commands.target import SendGuard, Target
from edged.errors import Failed
from edged.instruments.conversation import (
    Ask,
    Conversation,
    capture_conversation,
    require,
)
from edged.instruments.dead_man import Timer
from edged.instruments.instrument import Instrument
from edged.profiles.answers import parse_preamble
from edged.profiles.frames import Frame, Samples, check_count
from edged.profiles.model import (
    Acquisition,
    Command,
    Connection,
    ImageAnswer,
    Returns,
    WaveformAnswer,
)
from edged.profiles.template import render
from edged.record import record
from edged.runs.points import LargePicture, as_base64
from edged.runs.streams.waveforms import PICTURE_URI, WaveformRegistry
from edged.yaml.tree import Scalar

LARGEST_INLINE_BYTES: Final = 4 * 1024 * 1024
"""Of a picture in a result; a larger one is told as a resource only."""
SHOWN: Final = frozenset({"image/png", "image/jpeg"})
"""The kinds of pictures that clients show."""
FIRST: Final = "first"
LAST: Final = "last"


@record
class _Stretch:
    """One read: what is said before it, the question for the block, and the values in both."""

    setup: tuple[str, ...]
    data: str
    values: Mapping[str, Scalar]


@record
class _Capture:
    """What came of a capture; ``doing``: what the instrument said that it was doing before it."""

    blocks: tuple[Samples, ...]
    preamble: str | None
    sent: tuple[str, ...]
    doing: str | None = None


@record
class Captured:
    """What came of a command that answers with a block.

    Attributes:
        part: the variable part of execute_command's result, {data, notes?}.
        links: where a picture is read that is too large for a result.
        pictures: the picture, where it is one that clients show.
    """

    part: Mapping[str, Any]
    sent: tuple[str, ...]
    links: tuple[ResourceLink, ...] = ()
    pictures: tuple[Picture, ...] = ()


class Captures:
    """Runs the commands that answer with a block.

    Args:
        waveforms: where traces are kept, and whose thread does what takes long.
        acquisitions: which instruments capture, as far as they were told here.
    """

    def __init__(
        self,
        waveforms: WaveformRegistry,
        acquisitions: Acquisitions,
    ) -> None:
        self._waveforms = waveforms
        self._acquisitions = acquisitions

    async def run(
        self,
        action: RunCommand,
        instrument: Instrument,
        command: Command,
        target: Target,
    ) -> Captured:
        """Capture; a waveform goes to the stream on whose behalf it is measured, else to its own.

        Raises:
            Failed: as ``run_command``.
        """
        values = target.values
        match command.returns:
            case WaveformAnswer() as answer:
                capture = await self._capture(action.purpose, instrument, command, target)
                try:
                    waveform = await self._waveforms.decode(
                        answer, capture.blocks, capture.preamble, values
                    )
                except Failed as unreadable:
                    raise _after(unreadable, capture.sent) from unreadable
                freshness = self._freshness(target, capture)
                stream_id = _stream_of(action)
                waveform = replace(waveform, freshness=freshness)
                index = self._waveforms.add(stream_id, waveform, action.caller)
                told = {
                    **waveform.told(),
                    "x_first": waveform.x_first,
                    "stream_id": stream_id,
                    "point_index": index,
                }
                return Captured(part=_part(told, freshness), sent=capture.sent)
            case ImageAnswer() as answer:
                capture = await self._capture(action.purpose, instrument, command, target)
                data = memoryview(capture.blocks[0])
                if len(data) > LARGEST_INLINE_BYTES:
                    return self._as_resource(action, target, capture, answer.mime, data)
                told = await self._waveforms.on_thread(_picture, answer, data)
                part = _part(told, self._freshness(target, capture))
                return Captured(part=part, sent=capture.sent, pictures=_shown_as(answer.mime, data))
            case _:
                raise TypeError(f"{command.name} did not answer with a block")

    async def _capture(
        self, purpose: Purpose, instrument: Instrument, command: Command, target: Target
    ) -> _Capture:
        return await _converse(purpose, instrument, command, target)

    def _as_resource(
        self,
        action: RunCommand,
        target: Target,
        capture: _Capture,
        mime: str,
        data: memoryview,
    ) -> Captured:
        """Keep a large picture, and tell where it is read."""
        made_by = action.caller.outer_tool or action.tool
        picture = LargePicture(
            tool=made_by, command_name=action.command_name, mime=mime, samples=data
        )
        picture_id = self._waveforms.add_picture(picture)
        uri = PICTURE_URI.format(
            tool=made_by, command_name=action.command_name, picture_id=picture_id
        )
        told = {"mime": mime, "length": len(data), "uri": uri, "picture_id": picture_id}
        part = _part(told, self._freshness(target, capture))
        note = (
            f"The picture has {len(data)} bytes, more than the {LARGEST_INLINE_BYTES} that a "
            f"result holds: read it by resources/read of {uri} (over RPC by pictures.show), soon."
        )
        return Captured(
            part={**part, "notes": [*part.get("notes", ()), note]},
            sent=capture.sent,
            links=(ResourceLink(uri=uri, name=picture_id, mime=mime, size=len(data)),),
        )

    def _freshness(self, target: Target, capture: _Capture) -> dict[str, Any]:
        """{is_fresh, notes?}: whether what was fetched is of now; empty where nobody can know."""
        instrument, command = target.aimed_command()
        acquisition = _acquisition_of(instrument)
        if acquisition is None or capture.doing is None:
            return {}
        is_fresh = self._acquisitions.is_fresh(
            instrument.id, acquisition, capture.doing, command, target.values
        )
        what = "picture" if isinstance(command.returns, ImageAnswer) else "trace"
        notes = notes_of(is_fresh, what)
        return {"is_fresh": is_fresh, **({"notes": notes} if notes else {})}


def _part(told: Mapping[str, Any], freshness: Mapping[str, Any]) -> dict[str, Any]:
    """{data, notes?} of what was fetched."""
    known = dict(freshness)
    notes = known.pop("notes", None)
    part = {"data": {**told, **known}}
    return {**part, "notes": notes} if notes else part


def _acquisition_of(instrument: Instrument) -> Acquisition | None:
    return instrument.profile.acquisition if instrument.profile is not None else None


def _stream_of(action: RunCommand) -> str:
    if action.purpose is Purpose.STREAM_POINT:
        return action.caller.on_behalf_of
    return f"mcp-{secrets.token_hex(5)}"


def _shown_as(mime: str, data: memoryview) -> tuple[Picture, ...]:
    return (Picture(mime=mime, data=bytes(data)),) if mime in SHOWN else ()


def _picture(answer: ImageAnswer, data: memoryview) -> dict[str, Any]:
    return {
        "mime": answer.mime,
        "length": len(data),
        "encoding": "base64",
        "image": as_base64(data),
    }


async def _converse(
    purpose: Purpose,
    instrument: Instrument,
    command: Command,
    target: Target,
) -> _Capture:
    values, guard = target.values, target.send_guard
    connection = instrument.connection
    if command.timeout_ms is not None:
        connection = dataclasses.replace(connection, timeout_ms=command.timeout_ms)
    stretches, preamble, question = _plan(instrument, command, values)
    steps = sum(len(stretch.setup) + 3 for stretch in stretches) + len(preamble) + bool(question)
    own = {line for stretch in stretches for line in (*stretch.setup, stretch.data)}
    timeout_s = steps * connection.timeout_ms / 1000 + TRANSFER_S + GRACE_S

    def talk() -> Conversation[_Capture]:
        capture = _captured(command, stretches, preamble, connection, values, question)
        capture = guarded(capture, own, guard)
        return capture if target.timer is None else _armed_first(capture, target.timer, own, guard)

    return await instrument.converse(
        talk,
        priority=PRIORITY[purpose],
        timeout_s=timeout_s if instrument.timer is None else instrument.timer.bounded(timeout_s),
        name=command.name,
    )


def _armed_first(
    capture: Conversation[_Capture], timer: Timer, own: Collection[str], guard: SendGuard | None
) -> Conversation[_Capture]:
    begun = yield from timer.before(own, guard)
    came = yield from capture
    return dataclasses.replace(came, sent=(*begun, *came.sent))


def would_capture(instrument: Instrument, command: Command, values: Mapping[str, Scalar]) -> Spoken:
    """Every line of a capture where the instrument agrees; nothing is sent."""
    connection = dataclasses.replace(instrument.connection, acknowledge=None)
    stretches, preamble, question = _plan(instrument, command, values)
    willing = agreeing(command)
    conversation = _captured(willing, stretches, preamble, connection, values, question)
    return spoken(conversation, connection)


def _plan(
    instrument: Instrument, command: Command, values: Mapping[str, Scalar]
) -> tuple[tuple[_Stretch, ...], tuple[str, ...], str]:
    """What is read, how it is told what that means, and what asks whether it is fresh."""
    answer = command.returns
    if not isinstance(answer, WaveformAnswer | ImageAnswer):
        raise TypeError(f"{command.name} did not answer with a block")
    preamble: tuple[str, ...] = ()
    if isinstance(answer, WaveformAnswer):
        preamble = tuple(
            render(line, command.parameters, values) for line in answer.preamble_queries
        )
    acquisition = _acquisition_of(instrument)
    question = acquisition.ask if acquisition is not None else ""
    return _stretches(command, answer, values), preamble, question


def _stretches(
    command: Command, answer: WaveformAnswer | ImageAnswer, values: Mapping[str, Scalar]
) -> tuple[_Stretch, ...]:
    def stretch(filled: Mapping[str, Scalar]) -> _Stretch:
        setup = answer.setup if isinstance(answer, WaveformAnswer) else ()
        return _Stretch(
            setup=tuple(render(line, command.parameters, filled) for line in setup),
            data=render(answer.data, command.parameters, filled),
            values=filled,
        )

    first, last = values.get(FIRST), values.get(LAST)
    size = answer.chunk_points if isinstance(answer, WaveformAnswer) else None
    if size is None or not isinstance(first, int) or not isinstance(last, int):
        return (stretch(values),)
    return tuple(
        stretch({**values, FIRST: start, LAST: min(start + size - 1, last)})
        for start in range(first, max(first, last) + 1, size)
    )


def _captured(
    command: Command,
    stretches: tuple[_Stretch, ...],
    preamble: tuple[str, ...],
    connection: Connection,
    values: Mapping[str, Scalar],
    question: str,
) -> Conversation[_Capture]:
    """All reads of one capture; what the bytes mean is asked once, at the first.

    Args:
        question: what the instrument is doing, asked before anything else; empty where it cannot
            be asked.

    Raises:
        Failed: BAD_ANSWER, for another number of samples than was announced: here, because it tells
            that the line is out of step.
    """
    answer = command.returns
    blocks: list[Samples] = []
    meaning: str | None = None
    doing: str | None = None
    sent: tuple[str, ...] = ()
    needed = command.precondition
    if question and (needed is None or needed.query != question):
        said = yield Ask(question, connection.timeout_ms / 1000)
        doing, sent = str(said), (question,)
    if needed is not None:
        met = yield from require(command.name, needed, connection)
        if needed.query == question:
            doing, sent = met, (question,)
    for number, stretch in enumerate(stretches):
        reply = yield from capture_conversation(
            setup=stretch.setup,
            preamble=preamble if number == 0 else (),
            data=stretch.data,
            connection=connection,
            framed=partial(_framed, answer, stretch.values, meaning),
            separator=answer.preamble_separator if isinstance(answer, WaveformAnswer) else ",",
        )
        blocks.append(reply.block or b"")
        meaning = reply.preamble if number == 0 else meaning
        sent += reply.sent
    if isinstance(answer, WaveformAnswer):
        try:
            check_count(answer, blocks, _known(answer, values, meaning))
        except Failed as unreadable:
            raise _after(unreadable, sent) from unreadable
    return _Capture(blocks=tuple(blocks), preamble=meaning, sent=sent, doing=doing)


def _framed(
    answer: Returns | None, values: Mapping[str, Scalar], earlier: str | None, preamble: str | None
) -> Frame:
    """The form of one read; what the preamble says of it is looked at when its bytes come."""
    said = preamble if earlier is None else earlier
    return Frame(answer, cache(partial(_known, answer, values, said)))


def _known(
    answer: Returns | None, values: Mapping[str, Scalar], preamble: str | None
) -> Mapping[str, Scalar]:
    """What expressions of a waveform may use."""
    if preamble is None or not isinstance(answer, WaveformAnswer):
        return values
    return {**values, **parse_preamble(answer, preamble, values)}


def _after(unreadable: Failed, sent: tuple[str, ...]) -> Failed:
    return Failed(
        unreadable.message,
        code=unreadable.code,
        data=unreadable.data,
        remedy=unreadable.remedy,
        sent=sent,
    )
