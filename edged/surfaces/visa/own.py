"""What of a program message its session answers itself, and what is left for the instrument. Pure.

``*CLS``, ``*ESR?``, ``*STB?`` and the error queries stand for the program's own state besides the
instrument's. A message with one of them is taken apart; what stands between them goes out as it is,
each command from the root, so that none loses the path that it continued.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from typing import Final

from edged.profiles.model import Profile
from edged.profiles.raw import MAX_MESSAGES
from edged.profiles.raw import asks as is_question
from edged.record import record
from edged.scpi.errors import ErrorQuestion, clears_errors, error_question
from edged.scpi.line import Message, kept, messages
from edged.scpi.program import ProgramMessage


class Own(enum.Enum):
    """A common command that is the program's own affair too."""

    CLEAR = "*CLS"
    EVENTS = "*ESR?"
    STATUS = "*STB?"


COMMON: Final = {own.value: own for own in Own}


@record(kw_only=False)
class Step:
    """A part of a message.

    Attributes:
        text: what the instrument would be sent.
        own: what it asks of the program's own state; ``None``: nothing.
        asks: it is answered.
    """

    text: str
    own: Own | ErrorQuestion | None
    asks: bool


def asks(message: ProgramMessage, profile: Profile | None) -> bool:
    """Whether it is answered: some message of it asks, or the profile says that it does."""
    if "?" in message.text and any(one.is_query for one in messages(message.text)):
        return True
    # A block is in it; such a message sets something.
    return message.is_plain and is_question(profile, message.text)


def steps_of(message: ProgramMessage, error_query: str) -> Sequence[Step]:
    """The steps of a message that asks for something of the program's own; empty: it does not.

    Empty, too, for a message of more units than are judged: it is refused as a whole.

    Args:
        error_query: by which this instrument's errors are asked for.
    """
    if not message.is_plain:
        # A block is in it; such a message sets something.
        return ()
    return _steps(message.text, error_query)


@kept
def _steps(text: str, error_query: str) -> Sequence[Step]:
    units = list(itertools.islice(messages(text), MAX_MESSAGES + 1))
    owns = [_own(unit, error_query) for unit in units]
    if not any(owns) or len(units) > MAX_MESSAGES:
        return ()
    steps: list[Step] = []
    for unit, own in zip(units, owns, strict=True):
        text = f":{':'.join(unit.path)}:{unit.text}" if unit.path else unit.text
        if own is None and steps and steps[-1].own is None:
            last = steps.pop()
            steps.append(Step(f"{last.text};{text}", None, last.asks or unit.is_query))
        else:
            asks = unit.is_query or isinstance(own, ErrorQuestion)
            steps.append(Step(text, own, asks))
    return tuple(steps)


def _own(unit: Message, error_query: str) -> Own | ErrorQuestion | None:
    if clears_errors(unit.text, error_query):
        return Own.CLEAR
    return COMMON.get(unit.text.upper()) or error_question(unit, error_query)
