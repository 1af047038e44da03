"""Whether two spellings are one SCPI word: long and short forms, numeric suffixes, optional nodes.

Profiles write templates in either form, mostly all upper case (``VOLT``, ``VOLTAGE``), sometimes
as manuals do (``VOLTage``). Only the latter tells which letters may go, so for the former every
word that continues the other is taken for the same: this guards limits, and errs towards "it is
that". A placeholder stands in a template's word as one private character (``FIRST_HOLE``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from edged.profiles.answer_text import read_number
from edged.profiles.suffixes import number_with_suffix

__all__ = ["FIRST_HOLE", "Captures", "match_argument", "match_header", "same_word"]

FIRST_HOLE: Final = 0xE000
"""Placeholder n of a template is the character with this number plus n (private use area)."""

_HOLE: Final = re.compile("[\ue000-\uf8ff]")
_WORD: Final = re.compile("([A-Za-z_]+)([0-9]*|[\ue000-\uf8ff])")
_RAW_WORD: Final = re.compile(r"([A-Za-z_]+)([0-9]*)")
_SHORTEST: Final = 3
"""Letters of the shortest mnemonic that has a longer form."""

_TRUTHS: Final = {"ON": 1, "1": 1, "OFF": 0, "0": 0}

_DROPPED_INSIDE: Final = ("LEV", "IMM", "AMPL", "DC", "NEXT")
_DROPPED_LAST: Final = ("STAT",)
_DROPPED_FIRST: Final = ("SOUR", "SENS")
"""Nodes that manuals put into brackets: anywhere but first, only last, only first."""

Captures = dict[int, str | None]
"""Placeholder number → the text that stood there; ``None``: a numeric suffix that was left out."""


def same_word(template: str, raw: str) -> bool:
    """Whether a raw word is the template's, in its long or short form and any case."""
    written = raw.upper()
    if any(mark.islower() for mark in template) and template[:1].isupper():
        short = re.match(r"[A-Z_*0-9]*", template)
        least = len(short.group()) if short else 0
        return len(written) >= least and template.upper().startswith(written)
    known = template.upper()
    if known == written:
        return True
    short_word, long_word = sorted((known, written), key=len)
    return len(short_word) >= _SHORTEST and long_word.isalpha() and long_word.startswith(short_word)


def match_header(template: Sequence[str], raw: Sequence[str]) -> tuple[Captures, int] | None:
    """Whether a raw header is the template's.

    Returns:
        What stood at its placeholders, and 0 for the same nodes or 1 where optional nodes were
        added or dropped; ``None`` when it is another header.
    """
    captures = _match_nodes(template, raw)
    if captures is not None:
        return captures, 0
    lead, rest = _without_optional(template)
    raw_lead, raw_rest = _without_optional(raw)
    captures = _match_nodes(rest, raw_rest)
    lead_captures = _match_lead(lead, raw_lead)
    if captures is None or lead_captures is None:
        return None
    return {**lead_captures, **captures}, 1


def match_argument(template: str, raw: str) -> Captures | None:
    """Whether a raw argument is the template's, and what stood at its placeholders."""
    if template[:1] in {'"', "'"} and template[-1:] == template[:1]:
        template, raw = template[1:-1], _bare(raw)
    if len(template) == 1 and _HOLE.match(template):
        return {ord(template) - FIRST_HOLE: raw}
    if not _HOLE.search(template):
        return {} if _same_argument(template, _bare(raw)) else None
    unit = re.fullmatch("([\ue000-\uf8ff])([A-Za-z]+)", template)
    if unit is not None:  # "{voltage}V": with or without the unit, "{voltage}mV" only with it
        value = re.sub(f"(?i){unit.group(2)}$", "", raw).strip() or raw
        if value == raw and number_with_suffix(f"1{unit.group(2).upper()}") != 1:
            return None
        return {ord(unit.group(1)) - FIRST_HOLE: value}
    numbered = _match_node(template, raw)
    if numbered is not None and None not in numbered.values():
        return numbered
    return _match_pattern(template.replace(" ", ""), raw.replace(" ", ""))


def _match_nodes(template: Sequence[str], raw: Sequence[str]) -> Captures | None:
    if len(template) != len(raw):
        return None
    captures: Captures = {}
    for known, written in zip(template, raw, strict=True):
        found = _match_node(known, written)
        if found is None:
            return None
        captures |= found
    return captures


def _match_node(template: str, raw: str) -> Captures | None:
    """One mnemonic: letters, and a numeric suffix that is 1 when it is left out."""
    known, written = _WORD.fullmatch(template), _RAW_WORD.fullmatch(raw)
    if known is None or written is None:
        if _HOLE.search(template):
            return _match_pattern(template, raw)
        return {} if template.upper() == raw.upper() else None
    if not same_word(known.group(1), written.group(1)):
        return None
    suffix, raw_suffix = known.group(2), written.group(2)
    if _HOLE.match(suffix):
        return {ord(suffix) - FIRST_HOLE: raw_suffix or None}
    return {} if int(suffix or "1") == int(raw_suffix[:9] or "1") else None


def _match_pattern(template: str, raw: str) -> Captures | None:
    """Placeholders between literal text, as a regular expression of short stretches."""
    pattern, numbers = "", []
    for piece in re.split("([\ue000-\uf8ff])", template):
        if _HOLE.fullmatch(piece):
            numbers.append(ord(piece) - FIRST_HOLE)
            pattern += "(.{1,256}?)"
        else:
            pattern += re.escape(piece)
    match = re.fullmatch(pattern, raw, re.IGNORECASE)
    if match is None:
        return None
    return dict(zip(numbers, match.groups(), strict=True))


def _without_optional(nodes: Sequence[str]) -> tuple[str, list[str]]:
    """The leading SOURce or SENSe (or nothing), and the rest without optional nodes."""
    lead = ""
    rest = list(nodes)
    if len(rest) > 1 and _is_one_of(rest[0], _DROPPED_FIRST):
        lead = rest.pop(0)
    kept = rest[:1] + [node for node in rest[1:] if not _is_one_of(node, _DROPPED_INSIDE)]
    if len(kept) > 1 and _is_one_of(kept[-1], _DROPPED_LAST):
        kept.pop()
    return lead, kept


def _is_one_of(node: str, shorts: Sequence[str]) -> bool:
    word = _WORD.fullmatch(node)
    if word is None:
        return False
    letters = word.group(1).upper()
    return any(
        letters == short or (len(short) >= _SHORTEST and letters.startswith(short))
        for short in shorts
    )


def _match_lead(template: str, raw: str) -> Captures | None:
    """SOURce is not SENSe; either may be left out, its number then is assumed."""
    if template and raw:
        return _match_node(template, raw)
    if raw:
        word = _RAW_WORD.fullmatch(raw)
        return {} if word is not None and int(word.group(2)[:9] or "1") == 1 else None
    return {ord(mark) - FIRST_HOLE: None for mark in _HOLE.findall(template)}


def _same_argument(template: str, raw: str) -> bool:
    known, written = template.replace(" ", "").upper(), raw.replace(" ", "").upper()
    if known == written:
        return True
    if known in _TRUTHS and written in _TRUTHS:
        return _TRUTHS[known] == _TRUTHS[written]
    number, raw_number = read_number(known), read_number(written)
    if number is not None and raw_number is not None:
        return number == raw_number
    numbered = _match_node(template.replace(" ", ""), written)
    return numbered is not None


def _bare(raw: str) -> str:
    return raw[1:-1] if len(raw) > 1 and raw[0] in "\"'" and raw[-1] == raw[0] else raw
