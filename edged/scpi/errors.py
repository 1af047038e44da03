"""What an instrument says about its own errors: an entry of a queue, ``*ESR?``'s bits, a code.

Of a queue's entry only the leading signed integer is trusted: "no error" is spelled
``+0,"No error"``, ``0,"No error"``, ``0  No Error`` and more.

Whether an instrument itself said that it does not know a command. Pure.
"""

from __future__ import annotations

import enum
import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from edged.errors import EdgedError, ErrorCode
from edged.patterns import found_in
from edged.record import record
from edged.scpi.answer_text import clean_text, first_line, leading_integer, unquoted
from edged.scpi.kinds import ErrorKind
from edged.scpi.line import Message
from edged.scpi.words import match_header

_ESR_BITS: Final = {
    4: "query error",
    8: "device-dependent error",
    16: "execution error",
    32: "command error",
}
"""IEEE 488.2, 11.5.1. The other bits (operation complete, user request, power on) are no errors."""

_HEADER: Final = re.compile(
    r"\s*:?(?:[A-Z]+[0-9]*:)*ERR(?:OR)?(?::NEXT)?\??\s+(?=\S)", re.IGNORECASE
)
"""What instruments repeat of the question while headers are on: ``SYST:ERR 0, No error``."""

LONGEST_KEPT: Final = 128
"""Characters of an answer that is kept with what it means."""
_COMMAND_ERROR_BIT: Final = 32
_UNDEFINED_HEADER: Final = -113


@record
class InstrumentError:
    """One answer of the error query.

    Attributes:
        code: the number it begins with; ``None`` when it begins with none.
        text: what to show, cleaned and bounded; empty when there is no error.
        is_undefined: the instrument does not know the command at all.
        is_odd: it does not have the form of an error.
        answer: the line as it came.
    """

    code: int | None
    text: str
    is_undefined: bool = False
    is_odd: bool = False
    answer: str = ""

    @property
    def is_error(self) -> bool:
        """False for "no error": that ends the draining of a queue."""
        return bool(self.text)


_NO_ERROR: Final = InstrumentError(code=0, text="")


class ErrorQuestion(enum.Enum):
    """What of an error queue a question asks for."""

    NEXT = "next"
    NEXT_CODE = "next code"
    ALL = "all"
    ALL_CODES = "all codes"
    COUNT = "count"


_QUESTIONS: Final = (
    (("SYSTem", "ERRor"), ErrorQuestion.NEXT),
    (("STATus", "QUEue"), ErrorQuestion.NEXT),
    (("SYSTem", "ERRor", "CODE"), ErrorQuestion.NEXT_CODE),
    (("SYSTem", "ERRor", "ALL"), ErrorQuestion.ALL),
    (("SYSTem", "ERRor", "CODE", "ALL"), ErrorQuestion.ALL_CODES),
    (("SYSTem", "ERRor", "COUNt"), ErrorQuestion.COUNT),
)
"""SCPI-99 volume 2, 21.8; ``NEXT`` may be left out. ``STATus:QUEue`` is Keithley's."""
TSP_NEXT: Final = "print(errorqueue.next())"
TSP_COUNT: Final = "print(errorqueue.count)"
TSP_CLEAR: Final = "errorqueue.clear()"
"""The same in Keithley's TSP, where a line is a program of Lua."""


def error_question(message: Message, own: str = "") -> ErrorQuestion | None:
    """What of the error queue a message asks for, in any spelling; ``None``: it does not.

    Args:
        own: the question by which this instrument's errors are asked for.
    """
    text = message.text.upper()
    is_own = is_same_question(text, own)
    if is_same_question(text, TSP_COUNT) and is_same_question(own, TSP_NEXT):
        return ErrorQuestion.COUNT
    if is_own or not message.is_query or message.arguments:
        return ErrorQuestion.NEXT if is_own else None
    if "ERR" not in text and "QUE" not in text:
        # Most queries ask for something else, and every one is looked at.
        return None
    for nodes in (*message.headers, message.nodes):
        for header, asked in _QUESTIONS:
            if match_header(header, nodes) is not None:
                return asked
    return None


def is_same_question(text: str, own: str) -> bool:
    """Whether a line is an instrument's own question for its errors, however it is spaced."""
    one, other = ("".join(line.upper().split()).lstrip(":") for line in (text, own))
    return bool(other) and one == other


def clears_errors(text: str, own: str) -> bool:
    """Whether a line empties the error queue of a unit of TSP, and does nothing else."""
    return is_same_question(text, TSP_CLEAR) and is_same_question(own, TSP_NEXT)


def parse_error(kind: ErrorKind, answer: str, pattern: str = "", none: str = "") -> InstrumentError:
    """Read the answer of an error query; never raises, whatever came.

    Nearly every answer is the one that says that there is no error, so the last ones are kept.

    Args:
        pattern: of an error, with the groups ``code`` and, where there is one, ``text``; empty: it
            begins with a number.
        none: of the answer that says that there is no error; empty: the code is 0, or none.
    """
    read = _kept if len(answer) <= LONGEST_KEPT else _read
    return read(kind, answer, pattern, none)


def _read(kind: ErrorKind, answer: str, pattern: str, none: str) -> InstrumentError:
    line = first_line(answer)
    if kind is ErrorKind.NONE or (none and found_in(line, none) is not None):
        return _NO_ERROR
    found = _described(line, pattern) if pattern else _usual(kind, line)
    if not found.text:
        return found
    return InstrumentError(
        code=found.code,
        text=found.text,
        is_undefined=found.is_undefined,
        is_odd=found.is_odd,
        answer=line,
    )


_kept: Final = functools.lru_cache(maxsize=64)(_read)


def _described(line: str, pattern: str) -> InstrumentError:
    """The error as the profile's pattern finds it."""
    found = found_in(line, pattern)
    if found is None:
        return InstrumentError(code=None, text=clean_text(line), is_odd=bool(line))
    groups = found.groupdict(default="")
    told = groups["code"].strip()
    code = leading_integer(told)
    if not told or code == 0:
        return _NO_ERROR
    text = groups.get("text", "").strip()
    shown = f"{told}, {text}" if text else f"error {told if code is None else code}"
    return InstrumentError(code=code, text=clean_text(shown))


def _usual(kind: ErrorKind, line: str) -> InstrumentError:
    """The error in one of the forms of SCPI."""
    code = leading_integer(line)
    if code is None and kind is ErrorKind.QUEUE:
        line = _HEADER.sub("", line, count=1)
        code = leading_integer(line)
    if code is None and kind in (ErrorKind.CODE, ErrorKind.ESR):
        # Scopes put a header before it while headers are on: ``EXR 0``.
        code = leading_integer(line.rpartition(" ")[2])
    if code is None:
        if not line or "no error" in line.lower():
            return _NO_ERROR
        return InstrumentError(code=None, text=clean_text(line), is_odd=True)
    match kind:
        case ErrorKind.NONE:
            return _NO_ERROR
        case ErrorKind.ESR:
            named = [name for bit, name in _ESR_BITS.items() if code & bit]
            text = f"{', '.join(named)} (ESR {code})" if named else ""
            return InstrumentError(
                code=code, text=text, is_undefined=bool(code & _COMMAND_ERROR_BIT)
            )
        case ErrorKind.CODE:
            return InstrumentError(code=code, text=f"error {code}" if code else "")
        case ErrorKind.QUEUE:
            if code == 0:
                return _NO_ERROR
            text = clean_text(unquoted(line))
            return InstrumentError(code=code, text=text, is_undefined=code == _UNDEFINED_HEADER)


def folded(texts: Sequence[str], *, has_more: bool) -> tuple[str, ...]:
    """Errors for people: each once with how often it came, in the order of their first.

    Args:
        has_more: the queue was not read to its end.
    """
    counted = Counter(texts)
    if has_more and len(counted) == 1:
        (text,) = counted
        return (f"{text} ({len(texts)} times, and more)",)
    told = (text if n == 1 else f"{text} ({n} times)" for text, n in counted.items())
    return (*told, "and more") if has_more else tuple(told)


# SCPI-99 volume 2, 21.8.9: command errors that speak of the header, and the bare "command error"
# and "syntax error" that some makers send instead. Not -114: it speaks of the suffix (a channel).
UNDEFINED_CODES: Final = frozenset({-100, -102, -110, -111, -112, -113})
# What ``profiles.instrument_errors`` makes of the bit for command errors in ``*ESR?``.
ESR_COMMAND_ERROR: Final = re.compile(r"command error\b.*\(ESR \d+\)")


def says_undefined(error: EdgedError | None) -> bool:
    """True if the instrument itself said that it does not know the command."""
    if error is None or error.code is not ErrorCode.INSTRUMENT_ERROR:
        return False
    return any(_is_undefined(str(text)) for text in error.data.get("errors", ()))


def _is_undefined(text: str) -> bool:
    if (code := leading_integer(text)) is not None:
        return code in UNDEFINED_CODES
    return ESR_COMMAND_ERROR.search(text) is not None
