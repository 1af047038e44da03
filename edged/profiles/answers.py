"""The text of an answer → the value that a caller gets, as the command's ``returns`` says.

Scalars, lists, named fields, bits of a status word. A sentinel (9.9E37 and its kin) is ``None``
with a flag, never a number. The samples of a waveform are read in ``frames.py``, errors of the
instrument in ``scpi/errors.py``.

A field is a piece of the answer, found by its index, its key or a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from edged.errors import Invalid
from edged.patterns import found_in
from edged.profiles import model
from edged.profiles.expr import compile_expression
from edged.record import record
from edged.scpi.answer_text import (
    MAX_ANSWER,
    TRUTH_WORDS,
    bad_answer,
    check_text,
    clean_text,
    escaped,
    labelled,
    lines_of,
    only_line,
    plain_float,
    read_value,
    sentinel_flag,
    truth_of,
    unblocked,
    unquoted,
    with_point,
)
from edged.scpi.kinds import AnswerType
from edged.scpi.numbers import number_with_suffix, read_number
from edged.yaml.tree import Scalar

_BLANKS: Final = " \t"


def find_piece(field: model.AnswerField, pieces: list[str], text: str) -> str | None:
    """The piece that a field names; ``None`` when a key or pattern is not there."""
    if field.pattern is not None:
        match = found_in(text, field.pattern, any_case=False)
        return None if match is None or match.group(1) is None else match.group(1).strip()
    if field.key is not None:
        return _after_key(field.key.lower(), pieces)
    index = field.index or 0
    if not -len(pieces) <= index < len(pieces):
        raise bad_answer("The instrument", text, f"has no piece {index} for {field.name}")
    return unquoted(pieces[index])


def _after_key(key: str, pieces: list[str]) -> str | None:
    """The value beside a key: ``FRQ,1000HZ`` (pairs), ``FRQ=1000HZ``, ``FRQ:1000HZ``, ``FRQ 1000``.

    The first piece may carry a header (``C1:BSWV WVTP,SINE,…``), which is no part of the key.
    """
    words = [piece.lower() for piece in pieces]
    if words:
        words[0] = words[0].split()[-1] if words[0] else ""
    # Pairs first: a value that happens to equal a key (ARB) must not be taken for one.
    for index in (*range(0, len(words) - 1, 2), *range(1, len(words) - 1, 2)):
        if words[index] == key:
            return unquoted(pieces[index + 1])
    for piece in pieces:
        head, rest = piece[: len(key)].lower(), piece[len(key) :]
        if head == key and rest[:1] in {"=", ":", " "}:
            return unquoted(rest[1:].strip())
    return None


def picked(text: str, pattern: str, decimal: str = ".") -> str:
    """What the one group of ``pattern`` finds; the text itself without a pattern or a find.

    Args:
        decimal: the decimal mark of a number in it; it becomes a point.
    """
    found = found_in(text, pattern, any_case=False) if pattern else None
    return with_point(text if found is None else found.group(1) or "", decimal)


def split_pieces(line: str, separator: str) -> list[str]:
    """Pieces between separators; one inside double quotes does not count."""
    if not separator.strip():
        return line.split()
    if '"' not in line:
        return [piece.strip(_BLANKS) for piece in line.split(separator)]
    pieces: list[str] = []
    piece: list[str] = []
    for number, part in enumerate(line.split('"')):
        if number:
            piece.append('"')
        if number % 2:
            piece.append(part)
            continue
        first, *others = part.split(separator)
        piece.append(first)
        for other in others:
            pieces.append("".join(piece).strip(_BLANKS))
            piece = [other]
    return [*pieces, "".join(piece).strip(_BLANKS)]


_NOTHING: Final[Mapping[str, Scalar]] = {}


@record(frozen=False)
class Answer:
    """What an answer means. Made for every one, so not frozen.

    Attributes:
        value: JSON-ready: a scalar, a list of them, or a dict of them by field name; ``None`` for
            a sentinel.
        unit: of the value or of each in a list, or of the primary field; empty: there is none.
        flag: ``None``, or why a value is missing: ``over_range``, ``under_range``, ``no_value``,
            ``missing``; for fields and lists a dict of those that are missing, by name or place.
        primary: the one number to plot and to average, where there is one.
    """

    value: Any
    unit: str = ""
    flag: Any = None
    primary: float | None = None


def parse_answer(
    returns: model.Returns | None, text: str, values: Mapping[str, Scalar] = _NOTHING
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
        case model.ScalarAnswer():
            return _scalar(returns, text, values)
        case model.ListAnswer():
            return _list(returns, text, values)
        case model.FieldsAnswer():
            return _fields(returns, text, values)
        case model.BitsAnswer():
            return _bits(returns, text)
        case model.WaveformAnswer() | model.ImageAnswer():
            raise bad_answer("The instrument", text, "is text where a block of bytes was due")
        case _:
            assert_never(returns)


def parse_preamble(
    answer: model.WaveformAnswer, text: str, values: Mapping[str, Scalar] = _NOTHING
) -> dict[str, Scalar]:
    """The fields of a waveform's preamble.

    Raises:
        Failed: BAD_ANSWER, also when a field holds no value: a waveform cannot be scaled without.
    """
    fields = model.FieldsAnswer(
        fields=answer.preamble_fields,
        separator=answer.preamble_separator,
        count=answer.preamble_count,
    )
    read = _fields(fields, text, values)
    if read.flag:
        raise bad_answer("The preamble", text, f"lacks {', '.join(read.flag)}")
    return dict(read.value)


def matches(
    returns: model.Returns | None,
    wanted: Scalar,
    answer_text: str,
    tolerance: float,
    *,
    parameter: model.Parameter | None = None,
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
    wanted_number: float | None
    if isinstance(wanted, str | bool) or (parameter is not None and parameter.map):
        wanted_number = read_number(model.wire_text(wanted, parameter))
    else:
        # Its text on the wire reads back equal.
        wanted_number = wanted
    if wanted_number is not None and not isinstance(wanted, bool):
        unit = parameter.unit if parameter is not None else ""
        number = number_with_suffix(line, unit) if got is None else got.primary
        if number is not None:
            # What a binary number loses between two decimal texts is no disagreement.
            rounding = 1e-9 * max(abs(number), abs(wanted_number))
            return abs(number - wanted_number) <= tolerance + rounding
    words = [line] if got is None else [line, str(got.value)]
    forms = (str(wanted), model.wire_text(wanted, parameter))
    return any(_same_word(word, form) for word in words for form in forms)


def _same_word(one: str, other: str) -> bool:
    """Equal in any case, as truth values, or as the long and the short form of one keyword."""
    short, long = sorted((one.strip().upper(), other.strip().upper()), key=len)
    if short == long:
        return True
    if _is_switch(short) and _is_switch(long):
        return truth_of(short) is truth_of(long)
    return len(short) >= _SHORT_FORM and long.isalpha() and long.startswith(short)


def _is_switch(word: str) -> bool:
    """Whether it says on or off, as a word or as 1 or 0 in whatever form."""
    return word.lower() in TRUTH_WORDS or read_number(word) in (0, 1)


_SHORT_FORM: Final = 3
"""Letters of the shortest SCPI keyword that has a longer form."""


def _scalar(returns: model.ScalarAnswer, text: str, values: Mapping[str, Scalar]) -> Answer:
    if returns.type is AnswerType.STRING and (inside := unblocked(text)) is not text:
        return Answer(value=_text_block(returns, inside), unit=returns.unit)
    if returns.type is AnswerType.FLOAT and not (returns.map or returns.scale):
        # Nearly every answer is no more than a number.
        number = plain_float(text, returns.sentinels) if returns.decimal == "." else None
        if number is not None:
            return Answer(value=number, unit=returns.unit, primary=number)
    line = only_line(text, returns.extra_lines, keeps_control=returns.keeps_control)
    piece = line if returns.keeps_control else unquoted(line)
    value, flag = _piece(returns, piece, returns.sentinels, values, "The instrument")
    return Answer(value=value, unit=returns.unit, flag=flag, primary=_as_number(value))


def _text_block(returns: model.ScalarAnswer, inside: str) -> str:
    """A text that an instrument sends in a block, such as a file: its lines are part of it."""
    if len(inside) > MAX_ANSWER:
        why = f"has {len(inside)} characters, more than the {MAX_ANSWER} of a text"
        raise bad_answer("The instrument", inside, why, "Fetch it by a VISA program.")
    if returns.keeps_control:
        return escaped(inside)
    check_text(inside)
    marks = (mark for mark in set(inside) if not (mark.isprintable() or mark in _LAYOUT))
    cleaned = inside.translate({ord(mark): " " for mark in marks})
    return labelled(cleaned, returns.map) or cleaned


_LAYOUT: Final = "\r\n\t"


def _list(returns: model.ListAnswer, text: str, values: Mapping[str, Scalar]) -> Answer:
    lines = lines_of(text, keeps_control=returns.keeps_control)
    is_text = returns.type is AnswerType.STRING
    is_empty = not lines and (is_text or unblocked(text) is not text)
    if not is_empty and len(lines) != (returns.lines or max(1, len(lines))):
        why = f"has {len(lines)} lines in place of {returns.lines or 'some'}"
        raise bad_answer("The instrument", text, why)
    pieces: list[str] = []
    for line in lines:
        found = split_pieces(unquoted(line), returns.separator)
        if not is_text and len(found) > 1 and not found[-1]:
            # A separator behind the last number, as the SR830 sends it, announces none.
            del found[-1]
        pieces += map(unquoted, found) if is_text else found
    _check_pieces(pieces, returns.count or (0, model.MOST_ITEMS), text)
    found_values: list[Scalar | None] = []
    flags: dict[str, str] = {}
    for place, piece in enumerate(pieces):
        value, flag = _piece(returns, piece, returns.sentinels, values, f"The value {place}")
        found_values.append(value)
        if flag is not None:
            flags[str(place)] = flag
    return Answer(value=found_values, unit=returns.unit, flag=flags or None)


def _check_pieces(pieces: Sequence[str], count: tuple[int, int] | None, text: str) -> None:
    least, most = count or (0, len(pieces))
    if not least <= len(pieces) <= most:
        many = f"{least}" if least == most else f"{least} to {most}"
        raise bad_answer("The instrument", text, f"has {len(pieces)} pieces in place of {many}")


def _fields(returns: model.FieldsAnswer, text: str, values: Mapping[str, Scalar]) -> Answer:
    keeps_control = any(field.keeps_control for field in returns.fields)
    line = unquoted(only_line(text, returns.extra_lines, keeps_control=keeps_control))
    pieces = split_pieces(line, returns.separator)
    _check_pieces(pieces, returns.count, text)
    inside = unblocked(text)
    found: dict[str, Scalar | None] = {}
    flags: dict[str, str] = {}
    for field in returns.fields:
        piece = find_piece(field, pieces, inside)
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
    field: model.AnswerField | model.ScalarAnswer | model.ListAnswer,
    piece: str,
    sentinels: tuple[float, ...],
    values: Mapping[str, Scalar],
    what: str,
) -> tuple[Scalar | None, str | None]:
    """One piece of an answer: its value, and the flag when it holds none."""
    if field.decimal == "," and field.type is not AnswerType.STRING:
        piece = with_point(piece, field.decimal)
    if field.type is AnswerType.FLOAT and not field.map and field.scale is None:
        number = plain_float(piece, sentinels)
        if number is not None:
            return number, None
    if field.keeps_control:
        piece = escaped(piece)
    label = labelled(piece, field.map) if field.map else None
    if label is not None:
        piece_is = clean_text(label)
        return (piece_is == "true" if field.type is AnswerType.BOOL else piece_is), None
    if field.type not in (AnswerType.STRING, AnswerType.HEX):
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


def _bits(returns: model.BitsAnswer, text: str) -> Answer:
    line = unquoted(only_line(text))
    word: float | int | None
    if returns.base == _HEXADECIMAL:
        found = _HEX_WORD.fullmatch(line)
        word = None if found is None else int(found.group(1), _HEXADECIMAL)
    else:
        word = read_number(line)
    if not isinstance(word, int) or word < 0:
        raise bad_answer("The instrument", text, f"is not a status word in base {returns.base}")
    return Answer(value={field.name: _bit_value(field, word) for field in returns.fields})


_HEXADECIMAL: Final = 16
_HEX_WORD: Final = re.compile(r"(?:0x|#h|\+)?([0-9a-f]{1,16})", re.IGNORECASE)


def _bit_value(field: model.BitField, word: int) -> Scalar:
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
