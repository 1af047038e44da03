"""The text of an answer → the value that a caller gets, as the command's ``returns`` says.

Scalars, fields of a list, bits of a status word. A sentinel (9.9E37 and its kin) is ``None`` with a
flag, never a number. Blocks are in ``blocks.py`` and ``samples.py``, errors of the instrument in
``instrument_errors.py``; this module hands their entrances on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from edged.errors import Invalid
from edged.profiles.answer_pieces import find_piece, split_pieces
from edged.profiles.answer_text import (
    MAX_ANSWER,
    bad_answer,
    check_text,
    clean_text,
    labelled,
    leading_integer,
    only_line,
    plain_float,
    plain_value,
    read_number,
    read_value,
    sentinel_flag,
    unquoted,
)
from edged.profiles.blocks import parse_block
from edged.profiles.expr import compile_expression
from edged.profiles.model import (
    AnswerField,
    AnswerType,
    BitField,
    BitsAnswer,
    FieldsAnswer,
    ImageAnswer,
    Parameter,
    Returns,
    Scalar,
    ScalarAnswer,
    WaveformAnswer,
)
from edged.profiles.render import wire_text
from edged.profiles.suffixes import number_with_suffix

__all__ = [
    "Answer",
    "clean_text",
    "leading_integer",
    "matches",
    "parse_answer",
    "parse_block",
    "parse_preamble",
    "plain_value",
]

_NOTHING: Final[Mapping[str, Scalar]] = {}


@dataclass(slots=True, kw_only=True)
class Answer:
    """What an answer means. Made for every one, so not frozen.

    Attributes:
        value: JSON-ready: a scalar, or a dict of them by field name; ``None`` for a sentinel.
        unit: of the value, or of the primary field; empty when there is none.
        flag: ``None``, or why a value is missing: ``over_range``, ``under_range``, ``no_value``,
            ``missing``; for fields a dict of those that are missing.
        primary: the one number to plot and to average, where there is one.
    """

    value: Any
    unit: str = ""
    flag: Any = None
    primary: float | None = None


def parse_answer(
    returns: Returns | None, text: str, values: Mapping[str, Scalar] = _NOTHING
) -> Answer:
    """Read an answer.

    Args:
        returns: what the command's answer is; ``None`` gives its cleaned text.
        text: as it came, decoded; untrusted.
        values: the command's parameters, which ``scale`` may use beside ``value``.

    Raises:
        Failed: BAD_ANSWER, with the answer in the message.
    """
    match returns:
        case None:
            check_text(text)
            return Answer(value=clean_text(text, MAX_ANSWER))
        case ScalarAnswer():
            return _scalar(returns, text, values)
        case FieldsAnswer():
            return _fields(returns, text, values)
        case BitsAnswer():
            return _bits(returns, text)
        case WaveformAnswer() | ImageAnswer():
            raise bad_answer("The instrument", text, "is text where a block of bytes was due")
        case _:
            assert_never(returns)


def parse_preamble(
    answer: WaveformAnswer, text: str, values: Mapping[str, Scalar] = _NOTHING
) -> dict[str, Scalar]:
    """The fields of a waveform's preamble.

    Raises:
        Failed: BAD_ANSWER, also when a field holds no value: a waveform cannot be scaled without.
    """
    fields = FieldsAnswer(
        fields=answer.preamble_fields,
        separator=answer.preamble_separator,
        count=answer.preamble_count,
    )
    read = _fields(fields, text, values)
    if read.flag:
        raise bad_answer("The preamble", text, f"lacks {', '.join(read.flag)}")
    return dict(read.value)


def matches(
    returns: Returns | None,
    wanted: Scalar,
    answer_text: str,
    tolerance: float,
    *,
    parameter: Parameter | None = None,
) -> bool:
    """Whether an instrument holds what it was told (``verify``).

    Args:
        returns: how to read the answer, or ``None``: a number with or without unit, or a word.
        wanted: the value that was written, a label and not its wire value.
        answer_text: as it came.
        tolerance: absolute, in the parameter's unit.
        parameter: brings label → wire value and the unit.

    Raises:
        Failed: BAD_ANSWER, where ``returns`` does not fit the answer, and for what no answer is.
    """
    line = unquoted(only_line(answer_text))
    got = None if returns is None else parse_answer(returns, answer_text)
    wire = wire_text(wanted, parameter)
    wanted_number = read_number(wire)
    if wanted_number is not None and not isinstance(wanted, bool):
        unit = parameter.unit if parameter is not None else ""
        number = number_with_suffix(line, unit) if got is None else got.primary
        if number is not None:
            # What a binary number loses between two decimal texts is no disagreement.
            rounding = 1e-9 * max(abs(number), abs(wanted_number))
            return abs(number - wanted_number) <= tolerance + rounding
    words = [line] if got is None else [line, str(got.value)]
    return any(_same_word(word, form) for word in words for form in (str(wanted), wire))


def _same_word(one: str, other: str) -> bool:
    """Equal in any case, as truth values, or as the long and the short form of one keyword."""
    short, long = sorted((one.strip().upper(), other.strip().upper()), key=len)
    if short == long:
        return True
    truths = {word: index for index, names in enumerate(_TRUTHS) for word in names}
    if short in truths and long in truths:
        return truths[short] == truths[long]
    return len(short) >= _SHORT_FORM and long.isalpha() and long.startswith(short)


_TRUTHS: Final = (("0", "OFF", "FALSE"), ("1", "ON", "TRUE"))
_SHORT_FORM: Final = 3
"""Letters of the shortest SCPI keyword that has a longer form."""


def _scalar(returns: ScalarAnswer, text: str, values: Mapping[str, Scalar]) -> Answer:
    piece = unquoted(only_line(text, returns.extra_lines))
    value, flag = _piece(returns, piece, returns.sentinels, values, "The instrument")
    return Answer(value=value, unit=returns.unit, flag=flag, primary=_as_number(value))


def _fields(returns: FieldsAnswer, text: str, values: Mapping[str, Scalar]) -> Answer:
    line = unquoted(only_line(text, returns.extra_lines))
    pieces = split_pieces(line, returns.separator)
    least, most = returns.count or (0, len(pieces))
    if not least <= len(pieces) <= most:
        many = f"{least}" if least == most else f"{least} to {most}"
        raise bad_answer("The instrument", text, f"has {len(pieces)} pieces in place of {many}")
    found: dict[str, Scalar | None] = {}
    flags: dict[str, str] = {}
    for field in returns.fields:
        piece = find_piece(field, pieces, text)
        if piece is None:
            found[field.name], flags[field.name] = None, "missing"
            continue
        value, flag = _piece(field, piece, returns.sentinels, values, f"The field {field.name}")
        found[field.name] = value
        if flag is not None:
            flags[field.name] = flag
    if returns.fields and all(flag == "missing" for flag in map(flags.get, found)):
        raise bad_answer("The instrument", text, f"has none of the fields {', '.join(found)}")
    primary = next((f for f in returns.fields if f.name == returns.primary), None)
    if primary is None:
        numeric = (f for f in returns.fields if _as_number(found[f.name]) is not None)
        primary = next(numeric, None)
    return Answer(
        value=found,
        unit=primary.unit if primary else "",
        flag=flags or None,
        primary=_as_number(found[primary.name]) if primary else None,
    )


def _piece(
    field: AnswerField | ScalarAnswer,
    piece: str,
    sentinels: tuple[float, ...],
    values: Mapping[str, Scalar],
    what: str,
) -> tuple[Scalar | None, str | None]:
    """One piece of an answer: its value, and the flag when it holds none."""
    if field.type is AnswerType.FLOAT and not field.map and field.scale is None:
        number = plain_float(piece, sentinels)
        if number is not None:
            return number, None
    label = labelled(piece, field.map) if field.map else None
    if label is not None:
        piece_is = clean_text(label)
        return (piece_is == "true" if field.type is AnswerType.BOOL else piece_is), None
    if field.type not in (AnswerType.STRING, AnswerType.BOOL):
        flag = sentinel_flag(piece, field.type, sentinels)
        if flag is not None:
            return None, flag
    value = read_value(piece, field.type, field.unit, what)
    if field.scale is None:
        return value, None
    try:
        return compile_expression(field.scale).evaluate({**values, "value": value}), None
    except Invalid as error:
        raise bad_answer(what, piece, f"cannot be scaled: {error.message.rstrip('.')}") from error


def _bits(returns: BitsAnswer, text: str) -> Answer:
    line = unquoted(only_line(text))
    word: float | int | None
    if returns.base == _HEXADECIMAL:
        found = _HEX_WORD.fullmatch(line)
        word = None if found is None else int(found.group(1), _HEXADECIMAL)
    else:
        word = read_number(line)
    if not isinstance(word, int) or word < 0:
        raise bad_answer("The instrument", text, f"is no status word in base {returns.base}")
    return Answer(value={field.name: _bit_value(field, word) for field in returns.fields})


_HEXADECIMAL: Final = 16
_HEX_WORD: Final = re.compile(r"(?:0x|#h|\+)?([0-9a-f]{1,16})", re.IGNORECASE)


def _bit_value(field: BitField, word: int) -> Scalar:
    """The bits under the mask: a label, a bool for a single bit without labels, else a number."""
    shift = (field.mask & -field.mask).bit_length() - 1
    number = (word & field.mask) >> max(shift, 0)
    label = field.map.get(str(number))
    if label is not None:
        return label
    return bool(number) if field.mask.bit_count() == 1 and not field.map else number


def _as_number(value: Scalar | None) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)
