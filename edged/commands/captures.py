"""Commands that answer with a block: waveforms, which stay in the daemon, and pictures.

One capture is one uninterruptible conversation, however many reads it takes. Where the profile says
``chunk_points``, the command's parameters ``first`` and ``last`` bound the points, and the set-up
lines and the data query are said again for each stretch of at most so many.
"""

from __future__ import annotations

import base64
import dataclasses
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand
from edged.commands.recall import recallable
from edged.commands.run_command import GRACE_S, PRIORITY
from edged.commands.target import MayGo, Target
from edged.errors import Failed
from edged.instruments.conversation import Conversation, capture_conversation
from edged.instruments.instrument import Instrument
from edged.profiles.answers import parse_block
from edged.profiles.model import Command, Connection, ImageAnswer, Scalar, WaveformAnswer
from edged.profiles.render import render
from edged.work.waveforms import WaveformBook

__all__ = ["Captures"]

TRANSFER_S: Final = 60.0
"""What moving the bytes may take besides; a slice of a block that stands still ends it earlier."""
FIRST: Final = "first"
LAST: Final = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """One read: what is said before it, and the question for the block."""

    setup: tuple[str, ...]
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Capture:
    """What came of a capture."""

    blocks: tuple[bytes, ...]
    preamble: str | None
    sent: tuple[str, ...]


class Captures:
    """Runs the commands that answer with a block.

    Args:
        waveforms: where traces are kept.
    """

    def __init__(self, waveforms: WaveformBook) -> None:
        self._waveforms = waveforms

    async def run(
        self,
        action: RunCommand,
        instrument: Instrument,
        command: Command,
        target: Target,
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Capture; a waveform goes to the stream on whose behalf it is measured, else to its own.

        Returns:
            The variable part of execute_command's result, {data}, and what was sent.

        Raises:
            Failed: as ``run_command``.
        """
        values, may_go = target.values, target.may_go
        match command.returns:
            case WaveformAnswer() as answer:
                capture = await _converse(
                    action.purpose, instrument, command, answer, values, may_go
                )
                try:
                    waveform = await self._waveforms.decode(
                        answer, capture.blocks, capture.preamble, values
                    )
                except Failed as unreadable:
                    raise _after(unreadable, capture.sent) from unreadable
                stream_id = _stream_of(action)
                index = self._waveforms.add(stream_id, waveform)
                told = {**waveform.told(), "stream_id": stream_id, "point_index": index}
                return {"data": told}, capture.sent
            case ImageAnswer() as answer:
                capture = await _converse(
                    action.purpose, instrument, command, answer, values, may_go
                )
                return {"data": _picture(answer, capture)}, capture.sent
            case _:
                raise TypeError(f"{command.name} answers with no block")


def _stream_of(action: RunCommand) -> str:
    if action.purpose is Purpose.STREAM_POINT:
        return action.caller.on_behalf_of
    return f"mcp-{secrets.token_hex(5)}"


def _picture(answer: ImageAnswer, capture: _Capture) -> dict[str, Any]:
    try:
        data = parse_block(capture.blocks[0])
    except Failed as unreadable:
        raise _after(unreadable, capture.sent) from unreadable
    return {
        "mime": answer.mime,
        "length": len(data),
        "encoding": "base64",
        "image": base64.b64encode(data).decode("ascii"),
    }


async def _converse(
    purpose: Purpose,
    instrument: Instrument,
    command: Command,
    answer: WaveformAnswer | ImageAnswer,
    values: Mapping[str, Scalar],
    may_go: MayGo | None,
) -> _Capture:
    connection = instrument.connection
    if command.timeout_ms is not None:
        connection = dataclasses.replace(connection, timeout_ms=command.timeout_ms)
    stretches = _stretches(command, answer, values)
    preamble: tuple[str, ...] = ()
    if isinstance(answer, WaveformAnswer):
        preamble = tuple(
            render(line, command.parameters, values) for line in answer.preamble_queries
        )
    steps = sum(len(stretch.setup) + 3 for stretch in stretches) + len(preamble)
    own = {line for stretch in stretches for line in (*stretch.setup, stretch.data)}
    return await instrument.converse(
        lambda: recallable(_captured(command, stretches, preamble, connection), own, may_go),
        priority=PRIORITY[purpose],
        timeout_s=steps * connection.timeout_ms / 1000 + TRANSFER_S + GRACE_S,
        name=command.name,
    )


def _stretches(
    command: Command, answer: WaveformAnswer | ImageAnswer, values: Mapping[str, Scalar]
) -> tuple[_Stretch, ...]:
    def stretch(filled: Mapping[str, Scalar]) -> _Stretch:
        setup = answer.setup if isinstance(answer, WaveformAnswer) else ()
        return _Stretch(
            setup=tuple(render(line, command.parameters, filled) for line in setup),
            data=render(answer.data, command.parameters, filled),
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
) -> Conversation[_Capture]:
    """All reads of one capture; what the bytes mean is asked once, at the first."""
    answer = command.returns
    blocks: list[bytes] = []
    meaning: str | None = None
    sent: tuple[str, ...] = ()
    for number, stretch in enumerate(stretches):
        reply = yield from capture_conversation(
            setup=stretch.setup,
            preamble=preamble if number == 0 else (),
            data=stretch.data,
            connection=connection,
            trailing_bytes=answer.trailing_bytes if isinstance(answer, WaveformAnswer) else 0,
            separator=answer.preamble_separator if isinstance(answer, WaveformAnswer) else ",",
            command=command if number == 0 else None,
        )
        blocks.append(reply.block or b"")
        meaning = reply.preamble if number == 0 else meaning
        sent += reply.sent
    return _Capture(blocks=tuple(blocks), preamble=meaning, sent=sent)


def _after(unreadable: Failed, sent: tuple[str, ...]) -> Failed:
    return Failed(
        unreadable.message,
        code=unreadable.code,
        data=unreadable.data,
        remedy=unreadable.remedy,
        sent=sent,
    )
