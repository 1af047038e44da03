"""What instruments send, before it means anything: cleaned, its one line, unquoted, one value.

Everything here is untrusted text, and strict: whatever does not belong to one value (a second line,
a NUL, a byte that cannot be decoded, something behind a number) makes a bad answer, because it may
be part of another question's answer. Quirks that it copes with: stray CR and LF around an answer,
NULs in front of it and behind its line end (the padding of whole messages), quotes around
everything (Rigol DG1000Z ``APPL?``), a definite block around everything (34970A ``R?``), numbers
with units, and stars or dashes where a value should be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from edged.errors import ErrorCode, Failed
from edged.scpi.blocks import MOST_BRACKETED, definite_head
from edged.scpi.kinds import AnswerType
from edged.scpi.numbers import (
    BASES,
    MOST_NUMBER,
    PLAIN_NUMBER,
    number_with_suffix,
    read_number,
)
from edged.yaml.tree import Scalar

MAX_LABEL: Final = 200
"""Characters of instrument text in messages and labels (docs/promises.md section 5)."""

MAX_ANSWER: Final = 1_000_000
"""Characters of an answer that is data: a full reading buffer as text, and no more."""

NO_TEXT: Final = b"\r\n\x00"
"""Bytes around an answer that are none of it; but for a NUL between it and its line end."""
BLANKS: Final = dict.fromkeys(map(ord, "\t\r\n\xa0"), " ")
"""Characters of a text that are not printable."""
BYTE_FOR_BYTE: Final = "latin-1"
"""How an answer becomes text whose characters are its bytes."""

MOST_SHOWN: Final = 80
"""Bytes of an answer without an end that its error shows."""

ENDS: Final = {
    b"\r\n": "CR LF",
    b"\n\r": "LF CR",
    b"\r": "CR",
    b"\n": "LF",
    b"\x00": "NUL",
    b";": '";"',
}
"""What instruments end their answers by, the longest first, and how people call it."""

UNDECODABLE: Final = "\ufffd"
"""What stands where a byte is no character of the line's encoding, or had a parity error."""

_LINE_ENDS: Final = "\r\n"
_PADDING: Final = " \t\r\n\x00"
"""What may stand around an answer and means nothing."""

_MOST_EXACT: Final = 2**53
"""Below it each whole number is a float."""
_HEX: Final = re.compile(r"(?:0x|#h|\$)?([0-9a-f]{1,16})h?", re.IGNORECASE)
_LEADING_INTEGER: Final = re.compile(
    r"""\s*["']?\s*(([+-]?[0-9]{1,18})(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?)(?![0-9])"""
)
_LEADING_OTHER_BASE: Final = re.compile(
    r"""\s*["']?\s*(?:(?:#h|0x)(?P<hex>[0-9a-f]{1,16})|#q(?P<oct>[0-7]{1,22})"""
    r"""|#b(?P<bin>[01]{1,64}))(?![0-9a-z])""",
    re.IGNORECASE,
)
_BLANKS: Final = " \t"
_LAYOUT: Final = dict.fromkeys(map(ord, "\t\r\n"), " ")
_NO_VALUE: Final = re.compile(
    r"\*[*.]*\*|-[-.]*-|[+-]?(?:nan(?:\(\w*\))?|1\.#(?:[qs]?nan|ind)[0e+]*)"
)
"""Stars, dashes with a point between them too, and what runtimes of C print for no number."""
_OUT_OF_RANGE: Final = re.compile(
    r"([+-]?n?)(?:inf(?:inity)?|1\.#inf[0e+]*|ovld|o\.?l|over(?:load|flow|range)?)"
)
"""What they print for infinity, and what meters show for an overload."""
TRUTH_WORDS: Final = {
    **dict.fromkeys(("on", "true", "yes", "enabled"), True),
    **dict.fromkeys(("off", "false", "no", "disabled"), False),
}
"""The words of a truth value, in lower case."""


def clean_text(text: str, limit: int = MAX_LABEL) -> str:
    """Instrument text that is fit to be shown: no control characters, bounded, blanks trimmed."""
    shown = text[: limit * 4]
    if not shown.isprintable():
        shown = shown.translate({ord(mark): " " for mark in set(shown) if not mark.isprintable()})
    shown = shown.strip()
    is_whole = len(shown) <= limit and not text[limit * 4 :].strip()
    return shown if is_whole else shown[: limit - 1].rstrip() + "…"


def first_line(text: str) -> str:
    """The first line that holds anything; later ones are junk that came along."""
    rest = text[:MAX_ANSWER].replace("\x00", " ").replace("\r", "\n").lstrip()
    return rest.partition("\n")[0].rstrip()


def escaped(text: str) -> str:
    r"""With each control character as ``\x01``; of ``latin-1`` also those above 0x7f."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def only_line(text: str, extra_lines: int = 0, *, keeps_control: bool = False) -> str:
    """The one line that a typed answer is, without what pads it.

    Args:
        text: the whole message, where the line's transport shows where it ends.
        extra_lines: how many lines may follow that mean nothing; the profile says it.
        keeps_control: control characters mean something, a NUL too; line ends alone end a line.

    Raises:
        Failed: BAD_ANSWER, for more lines than that, and as ``check_text`` does.
    """
    # Nearly every answer ends here.
    if text.isprintable() and UNDECODABLE not in text and text[:1] != "#":
        return text if keeps_control else text.strip(_BLANKS)
    lines = lines_of(text, keeps_control=keeps_control)
    if len(lines) > 1 + extra_lines:
        remedy = "If they belong to it, describe them: returns: {type: list, lines: …}."
        raise bad_answer("The instrument", text, f"has {len(lines)} lines", remedy)
    return lines[0] if lines else ""


def lines_of(text: str, *, keeps_control: bool = False) -> list[str]:
    """The lines of an answer that hold anything, without what pads them or is around them all.

    Raises:
        Failed: BAD_ANSWER, as ``check_text`` does.
    """
    padding = _LINE_ENDS if keeps_control else _PADDING
    inside = unblocked(text)
    whole = inside.strip(padding) if keeps_control else _unpadded(inside)
    check_text(whole.replace("\x00", "") if keeps_control else whole)
    lines = (line.rstrip(padding) for line in whole.replace("\r", "\n").split("\n"))
    return [line for line in lines if line]


def unblocked(text: str) -> str:
    """What is inside a definite block that is the whole answer; any other text as it is.

    Who sends letters beyond ASCII counts bytes, of which UTF-8 has several for one of them.
    """
    begun = text.lstrip(_PADDING)
    head = definite_head(begun[:MOST_BRACKETED].encode("ascii", "replace"))
    if head is None or head.total is None:
        return text
    start, total = head.start, head.total
    data = begun.encode()
    if len(data) >= total and not data[total:].strip(_PADDING.encode()):
        return data[start:total].decode(errors="replace")
    is_whole = len(begun) >= total and not begun[total:].strip(_PADDING)
    return begun[start:total] if is_whole else text


def with_point(text: str, decimal: str) -> str:
    """A number whose decimal mark is a comma, with a point; one with a point then is no number."""
    return text.translate(_SWAPPED) if decimal == "," else text


_SWAPPED: Final = {ord(","): ".", ord("."): ","}


def check_text(text: str) -> None:
    """Refuse an answer that holds what no text holds.

    Raises:
        Failed: BAD_ANSWER, for a NUL inside or behind it and for a byte that is no character.
    """
    if UNDECODABLE in text:
        raise bad_answer("The instrument", text, "holds a byte that cannot be decoded", UNREADABLE)
    if "\x00" in _unpadded(text):
        raise bad_answer("The instrument", text, "holds a NUL")


def _unpadded(text: str) -> str:
    """Without what pads it. A NUL between a value and its line end is no padding, and stays."""
    line = text.rstrip(_PADDING)
    if line and text[len(line) :].lstrip(_BLANKS).startswith("\x00"):
        line += "\x00"
    return line.lstrip(_PADDING)


def unquoted(text: str) -> str:
    """Without one pair of quotes around the whole, doubled ones inside made single."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        quote, inside = text[0], text[1:-1]
        if quote not in inside.replace(quote * 2, ""):
            return inside.replace(quote * 2, quote)
    return text


def leading_integer(text: str) -> int | None:
    """The signed integer that an answer begins with, or ``None``.

    ``+0,"No error"``; in exponent form, too: ``-2.85000e+02``, as TSP writes it; and in another
    base: ``#H10``, ``0x10``.
    """
    text = text.replace("\x00", " ")
    other = _LEADING_OTHER_BASE.match(text)
    if other is not None and other.lastgroup is not None:
        return int(other.group(other.lastgroup), BASES[other.lastgroup])
    match = _LEADING_INTEGER.match(text)
    if match is None:
        return None
    number = float(match.group(1))
    return int(number) if number.is_integer() and abs(number) < 1e15 else int(match.group(2))


def plain_value(text: str) -> Scalar:
    """An answer without a declared type, for ``until``: a number if it is one, else its text.

    Raises:
        Failed: BAD_ANSWER, as ``only_line`` does.
    """
    line = unquoted(only_line(text))
    number = read_number(line)
    return clean_text(line, MAX_ANSWER) if number is None else number


def plain_float(text: str, sentinels: tuple[float, ...]) -> float | None:
    """A plain decimal number that is no sentinel, as nearly every answer; ``None`` for others."""
    if len(text) > MOST_NUMBER or PLAIN_NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    if not math.isfinite(number):
        return None
    for sentinel in sentinels:
        if math.isclose(number, sentinel, rel_tol=1e-6):
            return None
    return number


def sentinel_flag(text: str, kind: AnswerType, sentinels: tuple[float, ...]) -> str | None:
    """``over_range``, ``under_range`` or ``no_value`` where a number says so; else ``None``."""
    number = number_with_suffix(text) if kind is AnswerType.SI else read_number(text)
    if number is None:
        word = text.strip(_BLANKS).lower()
        if _NO_VALUE.fullmatch(word) is not None:
            return "no_value"
        beyond = _OUT_OF_RANGE.fullmatch(word)
        if beyond is None:
            return None
        return "over_range" if beyond[1] in ("", "+") else "under_range"
    # A loop, since a generator costs more than what it does, and this is done for every answer.
    for sentinel in sentinels:
        if math.isclose(number, sentinel, rel_tol=1e-6):
            break
    else:
        return None
    if math.isclose(abs(number), 9.9e37, rel_tol=1e-6):  # SCPI-99: plus and minus infinity
        return "over_range" if number > 0 else "under_range"
    return "no_value"


def read_value(text: str, kind: AnswerType, unit: str, what: str) -> Scalar:
    """One cleaned piece of an answer as its type says.

    Args:
        text: without quotes and line ends.
        kind: the declared type.
        unit: the declared unit, for ``SI``.
        what: names the piece in the error.

    Raises:
        Failed: BAD_ANSWER.
    """
    if kind is AnswerType.STRING:
        return clean_text(text, MAX_ANSWER)
    if kind is AnswerType.BOOL:
        return _truth(text, what)
    if kind is AnswerType.HEX:
        return _hexadecimal(text, what)
    number = number_with_suffix(text, unit) if kind is AnswerType.SI else read_number(text)
    if number is None:
        raise bad_answer(what, text, f"is not of type {kind.value}")
    if kind is not AnswerType.INT:
        return float(number)
    if isinstance(number, float) and not number.is_integer():
        raise bad_answer(what, text, "is not a whole number")
    if isinstance(number, float) and abs(number) >= _MOST_EXACT:
        raise bad_answer(what, text, "has more digits than could be read exactly")
    return int(number)


def labelled(text: str, labels: Mapping[str, str]) -> str | None:
    """The label of a wire text: as written, else in any case, else as a number; ``None``: none."""
    if text in labels:
        return labels[text]
    number = read_number(text)
    for wire, label in labels.items():
        if wire.lower() == text.lower() or (number is not None and read_number(wire) == number):
            return label
    return None


UNREADABLE: Final = (
    "Ask it once more; where it always answers so, set connection.encoding in its profile "
    "(latin-1 takes every byte), or correct the line's speed and parity."
)
MISREAD: Final = (
    "Ask it once more; where it always answers so, correct how its profile reads that answer "
    "(returns), or the line's terminations."
)


def bad_answer(what: str, text: str, why: str, remedy: str = MISREAD) -> Failed:
    """The error for an answer that cannot be right."""
    # Line ends become blanks; whatever else cannot be seen is shown by its number.
    begun = text[: MAX_LABEL * 4].translate(_LAYOUT)
    message = f'{what} answered "{clean_text(escaped(begun.strip()))}", which {why}.'
    return Failed(message, code=ErrorCode.BAD_ANSWER, remedy=remedy)


def _hexadecimal(text: str, what: str) -> int:
    found = _HEX.fullmatch(text.strip(_BLANKS))
    if found is None:
        raise bad_answer(what, text, "is not an hexadecimal number")
    return int(found.group(1), 16)


def truth_of(text: str) -> bool | None:
    """A word of ``TRUTH_WORDS`` or a number, of which 0 is false; ``None`` for anything else."""
    truth = TRUTH_WORDS.get(text.strip(_BLANKS).lower())
    number = read_number(text) if truth is None else None
    return truth if number is None else number != 0


def _truth(text: str, what: str) -> bool:
    truth = truth_of(text)
    if truth is None:
        words = "/".join(word.upper() for word in TRUTH_WORDS)
        raise bad_answer(what, text, f"is neither a number nor one of {words}")
    return truth


def what_came(came: bytes, terminator: bytes, total: int | None) -> str:
    """The bytes of an answer that has no end, and the likely cause.

    Args:
        terminator: what was waited for; empty where the wire itself marks an end.
        total: how many bytes are due, where that is known.
    """
    text = shown(came)
    many = "1 byte" if len(came) == 1 else f"{len(came)} bytes"
    if total is not None and total > len(came):
        return f"{many} came of a block of {total}: {text}"
    if not terminator:
        return f"{many} came, and not the end of the message: {text}"
    if came.endswith(terminator):
        return f"{many} came, and more was due: {text}"
    ended = next((name for end, name in ENDS.items() if came.endswith(end)), text[-2:-1])
    return (
        f"{many} came, and no line end: {text}; read_termination may be wrong: "
        f"{_named(terminator)} was waited for, and it ended in {ended}"
    )


def shown(came: bytes | bytearray) -> str:
    """The first of the bytes, in quotes."""
    text = escaped(came[:MOST_SHOWN].decode(BYTE_FOR_BYTE))
    return f'"{text}"' + ("…" if len(came) > MOST_SHOWN else "")


def _named(terminator: bytes) -> str:
    return ENDS.get(terminator) or escaped(terminator.decode(BYTE_FOR_BYTE))


def is_padded_text(data: bytes | bytearray, encoding: str) -> bool:
    """Whether an answer is one of characters alone, but for what pads it behind its line end."""
    text = data.rstrip(NO_TEXT).decode(encoding, errors="replace")
    if not text and b"\x00" in data:
        return False
    return UNDECODABLE not in text and text.translate(BLANKS).isprintable()


def unpadded_bytes(data: bytes | bytearray) -> bytes | bytearray:
    """Without what pads it. A NUL between a text and its line end stays: no text ends so."""
    text = data.rstrip(NO_TEXT)
    if text and data[len(text) : len(text) + 1] == b"\x00":
        text += b"\x00"
    return text.lstrip(NO_TEXT)
