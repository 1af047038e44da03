"""A program's own error queue and event register: what was refused to it, and what it caused.

A program that knows VISA only ever asks ``SYST:ERR?``, ``*ESR?`` and the status byte. What this
daemon refuses has never reached the instrument, so it stands here, before the instrument's own
entries. Pure.

So ``*CLS``, ``*ESR?``, ``*STB?`` and the error queries stand for the program's own state besides
the instrument's. A message with one of them is taken apart (``steps_of``); what stands between them
goes out as it is, each command from the root, so that none loses the path that it continued.

Source: SCPI-99 volume 2, 21.8; IEEE 488.2, 11.5.1.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from edged.errors import Conflict, EdgedError, ErrorCode, Invalid, Refused
from edged.profiles.model import ErrorCheck, Profile
from edged.profiles.raw import MAX_MESSAGES
from edged.profiles.raw import asks as is_question
from edged.record import record
from edged.scpi.answer_text import leading_integer
from edged.scpi.errors import ErrorQuestion, clears_errors, error_question
from edged.scpi.kinds import ErrorKind
from edged.scpi.line import Message, kept, messages
from edged.scpi.program import ProgramMessage

MAX_ENTRIES: Final = 32
MAX_TEXT: Final = 255
"""Characters of an entry's text (SCPI-99, 21.8.2)."""


class StatusBit(enum.IntFlag):
    """The bits of a status byte that a program's own state sets."""

    EAV = 0x04
    MAV = 0x10


WORDS: Final = {
    -102: "Syntax error",
    -203: "Command protected",
    -221: "Settings conflict",
    -222: "Data out of range",
    -310: "System error",
    -350: "Queue overflow",
    -360: "Communication error",
    -365: "Time out error",
    -410: "Query INTERRUPTED",
    -420: "Query UNTERMINATED",
}
NUMBERS: Final = {
    ErrorCode.BAD_SCPI: -102,
    ErrorCode.REQUIRES_SWEEP: -221,
    ErrorCode.LOCKED_OUT: -221,
    ErrorCode.DEAD_MAN: -221,
    ErrorCode.INTERLOCK: -221,
    ErrorCode.BUDGET: -221,
    ErrorCode.NEEDS_APPROVAL: -221,
    ErrorCode.APPROVAL_DENIED: -221,
    ErrorCode.UNKNOWN_LEASE: -221,
    ErrorCode.TIMEOUT: -365,
    ErrorCode.DISCONNECTED: -360,
}
"""What an error is in SCPI's numbers, where its family does not say it."""
EVENTS: Final = ((-199, 32), (-299, 16), (-399, 8), (-499, 4))
"""The lowest number of a class, and its bit in the event register."""


@record(kw_only=False)
class ErrorEntry:
    """One entry of a queue, as it is answered.

    Attributes:
        answer: what the instrument itself said, where that is no entry of SCPI's.
    """

    number: int
    text: str
    answer: str = ""

    def __str__(self) -> str:
        """``-222,"Data out of range;…"``."""
        return f'{self.number},"{self.text}"'

    def as_own(self, check: ErrorCheck) -> str:
        """The answer to the instrument's own question for errors, in the form of that."""
        if self.answer:
            return self.answer
        if check.kind is not ErrorKind.QUEUE:
            return str(self.number)
        return str(self) if "?" in check.query else f"{self.number}\t{self.text}"


NO_ERROR: Final = ErrorEntry(0, "No error")
_ENTRY_TEXT: Final = re.compile(r"""\s*["']?[+-]?[0-9][0-9.eE+-]*\s*[,;\t ]\s*"?([^\t"]*)""")
"""What stands behind the number of an entry."""


def entry_of(error: EdgedError) -> ErrorEntry:
    """What a program is told of an error of ours: limits are -222, what is held -221."""
    match error:
        case _ if error.code in NUMBERS:
            number = NUMBERS[error.code]
        case Invalid():
            number = -222
        case Refused():
            number = -203
        case Conflict():
            number = -221
        case _:
            number = -310
    return ErrorEntry(number, _text(number, error.message))


class ProgramStatus:
    """The queue and the register of one program on one unit."""

    def __init__(self) -> None:
        self._entries: deque[ErrorEntry] = deque()
        self._events = 0

    @property
    def count(self) -> int:
        """Entries that wait."""
        return len(self._entries)

    @property
    def byte(self) -> int:
        """Its part of the status byte, whether an answer waits apart."""
        return int(StatusBit.EAV) if self._entries else 0

    def refuse(self, error: EdgedError) -> None:
        """Something was refused, or failed."""
        self._enter(entry_of(error))

    def cut(self, number: int) -> None:
        """A question was cut off (-410), or nothing was asked (-420)."""
        self._enter(ErrorEntry(number, WORDS[number]))

    def complain(self, texts: Iterable[str], answers: Iterable[str] = ()) -> None:
        """The instrument's own entries, as they were read after this program's write.

        Args:
            texts: for people.
            answers: the same as the instrument said it, where that is no entry of SCPI's.
        """
        for text, answer in itertools.zip_longest(texts, answers, fillvalue=""):
            number = leading_integer(answer or text)
            said = _ENTRY_TEXT.match(text or answer)
            words = (text or answer) if said is None else said.group(1)
            self._enter(ErrorEntry(-310 if number is None else number, _inside(words), answer))

    def next(self) -> ErrorEntry:
        """The oldest, which is taken."""
        return self._entries.popleft() if self._entries else NO_ERROR

    def all(self) -> list[ErrorEntry]:
        """All of them, which are taken."""
        entries = list(self._entries)
        self._entries.clear()
        return entries

    def events(self) -> int:
        """The register, which is cleared by being read."""
        events, self._events = self._events, 0
        return events

    def clear(self) -> None:
        """``*CLS``."""
        self._entries.clear()
        self._events = 0

    def _enter(self, entry: ErrorEntry) -> None:
        if len(self._entries) >= MAX_ENTRIES:
            self._entries[-1] = ErrorEntry(-350, WORDS[-350])
        else:
            self._entries.append(entry)
        if entry.number < 0:
            self._events |= next((bit for least, bit in EVENTS if entry.number >= least), 8)
        else:
            self._events |= 8


def _text(number: int, sentence: str) -> str:
    return _inside(f"{WORDS[number]};{sentence}")


def _inside(text: str) -> str:
    """What can stand between an entry's quotes."""
    clean = text.replace('"', "'").encode("ascii", errors="replace").decode("ascii")
    return "".join(char if char.isprintable() else " " for char in clean)[:MAX_TEXT]


class Own(enum.Enum):
    """A common command that is the program's own affair too."""

    CLEAR = "*CLS"
    EVENTS = "*ESR?"
    STATUS = "*STB?"


COMMON: Final = {own.value: own for own in Own}


@record(kw_only=False)
class MessagePart:
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


def steps_of(message: ProgramMessage, error_query: str) -> Sequence[MessagePart]:
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
def _steps(text: str, error_query: str) -> Sequence[MessagePart]:
    units = list(itertools.islice(messages(text), MAX_MESSAGES + 1))
    owns = [_own(unit, error_query) for unit in units]
    if not any(owns) or len(units) > MAX_MESSAGES:
        return ()
    steps: list[MessagePart] = []
    for unit, own in zip(units, owns, strict=True):
        text = f":{':'.join(unit.path)}:{unit.text}" if unit.path else unit.text
        if own is None and steps and steps[-1].own is None:
            last = steps.pop()
            steps.append(MessagePart(f"{last.text};{text}", None, last.asks or unit.is_query))
        else:
            asks = unit.is_query or isinstance(own, ErrorQuestion)
            steps.append(MessagePart(text, own, asks))
    return tuple(steps)


def _own(unit: Message, error_query: str) -> Own | ErrorQuestion | None:
    if clears_errors(unit.text, error_query):
        return Own.CLEAR
    return COMMON.get(unit.text.upper()) or error_question(unit, error_query)
