"""Which piece of an answer a field is: by index, by key, or by pattern."""

from __future__ import annotations

from typing import Final

from edged.profiles.answer_text import bad_answer, unquoted
from edged.profiles.model import AnswerField
from edged.profiles.patterns import found_in

__all__ = ["find_piece", "picked", "split_pieces"]

_BLANKS: Final = " \t"


def find_piece(field: AnswerField, pieces: list[str], text: str) -> str | None:
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


def picked(text: str, pattern: str) -> str:
    """What the one group of ``pattern`` finds; the text itself without a pattern or a find."""
    found = found_in(text, pattern, any_case=False) if pattern else None
    return text if found is None else found.group(1) or ""


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
