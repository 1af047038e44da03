"""Whether two spellings are one SCPI word: long and short forms, numeric suffixes, optional nodes.

Profiles write templates in either form, mostly all upper case (``VOLT``, ``VOLTAGE``), sometimes
as manuals do (``VOLTage``). Only the latter tells which letters may go, so for the former every
word that continues the other is taken for the same: this guards limits, and errs towards "it is
that". A placeholder stands in a template's word as one private character (``FIRST_HOLE``).

Words of SCPI that change what an instrument puts out. Pure; the one place that knows them.

A heuristic over lines, for the people who write profiles and configurations. What counts as
dangerous at run time is the profile's mark alone.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from edged.scpi.numbers import number_with_suffix, read_number

FIRST_HOLE: Final = 0xE000
"""Placeholder n of a template is the character with this number plus n (private use area)."""

_HOLE: Final = re.compile("[\ue000-\uf8ff]")
_LETTERS: Final = "[A-Za-z](?:[A-Za-z_]*[A-Za-z])?"
_WORD: Final = re.compile(f"({_LETTERS})([0-9]*|[\ue000-\uf8ff])")
_RAW_WORD: Final = re.compile(f"({_LETTERS})([0-9]*)")
_STRING: Final = re.compile("\"[^\"]*\"|'[^']*'")
_QUOTES: Final = frozenset("\"'")
_SUFFIX: Final = re.compile("(?:[0-9]+|[\ue000-\uf8ff])$")
_LOOSE_BLANK: Final = re.compile(r"(?<![\w.]) | (?![\w.])")
"""A blank that parts nothing; one between two words makes them two."""
_AT_HOLES: Final = re.compile("([\ue000-\uf8ff])")
_MOST_DIGITS: Final = 9
LONGEST_KEPT: Final = 64
"""Characters of an argument of which it is remembered for a while what it is."""
LONGEST_CAPTURE: Final = 256
"""Characters that stand at a placeholder within a word or argument."""

_TRUTHS: Final = {"ON": 1, "1": 1, "OFF": 0, "0": 0}


def _forms(*words: str) -> frozenset[str]:
    """Every form of words whose short form is in upper case."""
    return frozenset(
        word[:length].upper()
        for word in words
        for length in range(sum(map(str.isupper, word)), len(word) + 1)
    )


_QUANTITIES: Final = ("VOLT", "CURR", "POW", "RES")
_OPTIONAL: Final[Mapping[str, Collection[str]]] = {
    word: frozenset(behind)
    for words, behind in (
        (_forms("LEVel"), (*_QUANTITIES, "PROT")),
        (_forms("IMMediate"), (*_QUANTITIES, "LEV", "TRIG", "INIT")),
        (_forms("AMPLitude"), (*_QUANTITIES, "LEV", "IMM", "TRIG")),
        (_forms("DC"), _QUANTITIES),
        (_forms("NEXT"), ("ERR", "QUE")),
    )
    for word in words
}
_OPTIONAL_LAST: Final = dict.fromkeys(
    _forms("STATe"),
    frozenset({"OUTP", "INP", "SWE", "BURS", "AVER", "MOD", "AM", "FM", "PM", "PULM"}),
)
"""Nodes that manuals put into brackets, and the short forms behind which they do.

Elsewhere such a node makes another command: ``VOLT:PROT:STAT`` is no ``VOLT:PROT`` (SCPI-99
volume 2, 19.21.7).
"""
_DROPPED_FIRST: Final = _forms("SOURce", "SENSe")

Captures = Mapping[int, str | None]
"""Placeholder number → the text that stood there; ``None``: a numeric suffix that was left out."""


def short_form(word: str) -> str:
    """The short form of a mnemonic in upper case; of a short form itself.

    Source: SCPI-99 volume 1, 6.2.1: four letters, or three where the fourth is a vowel.
    """
    if len(word) <= 4:
        return word
    return word[:3] if word[3] in "AEIOU" else word[:4]


def same_word(template: str, raw: str) -> bool:
    """Whether a raw word is the template's, in its long or short form and any case.

    A template in upper case may be either form. ``CALC`` is not ``CAL``: the short form of
    ``CALIBRATION`` is, and ``CALC`` is one of another word.
    """
    written, known = raw.upper(), template.upper()
    if known == written:
        return True
    if len(written) < len(known):
        return known.startswith(written) and len(written) >= len(_least(template))
    return template.isupper() and written.isalpha() and short_form(written) == known


@functools.lru_cache(maxsize=8192)
def _least(template: str) -> str:
    """The shortest form of a template's word: manuals write it in upper case (``VOLTage``)."""
    if template.isupper() or not template[:1].isupper():
        return short_form(template.upper())
    found = re.match(r"[A-Z_*0-9]*", template)
    return found.group() if found else template


def match_header(template: Sequence[str], raw: Sequence[str]) -> tuple[Captures, int] | None:
    """Whether a raw header is the template's.

    Returns:
        What stood at its placeholders, and 0 for the same nodes or 1 where optional nodes were
        added or dropped; ``None`` when it is another header.
    """
    captures = _match_nodes(template, raw)
    if captures is not None:
        return captures, 0
    if len(template) == len(raw) == 1:  # Neither is optional.
        return None
    lead, rest = without_optional(tuple(template))
    raw_lead, raw_rest = without_optional(tuple(raw))
    captures = _match_nodes(rest, raw_rest)
    lead_captures = _match_lead(lead, raw_lead)
    if captures is None or lead_captures is None:
        return None
    return {**lead_captures, **captures}, 1


def match_argument(template: str, raw: str) -> Captures | None:
    """Whether a raw argument is the template's, and what stood at its placeholders."""
    return (_match_argument_again if len(raw) <= LONGEST_KEPT else _match_argument)(template, raw)


def first_letter(template: str) -> str:
    """The letter that every raw argument of a template's begins with; empty where others may."""
    first = template[:1].upper()
    is_free = first not in string.ascii_uppercase or template.upper() in _TRUTHS
    return "" if is_free or read_number(template) is not None else first


def _match_argument(template: str, raw: str) -> Captures | None:
    if template[:1] in _QUOTES and _STRING.fullmatch(template) is not None:
        if _STRING.fullmatch(raw) is None or set(raw[1:-1]) & _QUOTES:
            return None
        template, raw = template[1:-1], raw[1:-1]
    if len(template) == 1 and _HOLE.match(template):
        return {ord(template) - FIRST_HOLE: raw}
    template, raw = _tight(template), _tight(raw)
    if not _HOLE.search(template):
        return {} if _same_argument(template, raw) else None
    if " " in raw and " " not in template:
        return None
    unit = re.fullmatch("([\ue000-\uf8ff])([A-Za-z]+)", template)
    if unit is not None:  # "{voltage}V": with or without the unit, "{voltage}mV" only with it
        value = re.sub(f"(?i){unit.group(2)}$", "", raw) or raw
        if value == raw and number_with_suffix(f"1{unit.group(2).upper()}") != 1:
            return None
        if value != raw and value[-1:].isalpha():
            return None
        return {ord(unit.group(1)) - FIRST_HOLE: value}
    numbered = match_node(template, raw) if len(raw) <= LONGEST_KEPT else None
    if numbered is not None and None not in numbered.values():
        return numbered
    return match_pattern(template, raw)


def _tight(text: str) -> str:
    return _LOOSE_BLANK.sub("", text) if " " in text else text


_match_argument_again = functools.lru_cache(maxsize=8192)(_match_argument)


def _match_nodes(template: Sequence[str], raw: Sequence[str]) -> Captures | None:
    if len(template) != len(raw):
        return None
    captures: dict[int, str | None] = {}
    for known, written in zip(template, raw, strict=True):
        found = match_node(known, written)
        if found is None:
            return None
        captures |= found
    return captures


@functools.lru_cache(maxsize=8192)
def match_node(template: str, raw: str) -> Captures | None:
    """One mnemonic: letters, and a numeric suffix that is 1 when it is left out."""
    known, written = _WORD.fullmatch(template), _RAW_WORD.fullmatch(raw)
    if known is None or written is None:
        if _HOLE.search(template):
            return match_pattern(template, raw)
        return {} if template.upper() == raw.upper() else None
    if not same_word(known.group(1), written.group(1)):
        return None
    suffix, raw_suffix = known.group(2), written.group(2)
    if _HOLE.match(suffix):
        return {ord(suffix) - FIRST_HOLE: raw_suffix or None}
    return {} if _suffix_number(suffix) == _suffix_number(raw_suffix) else None


def _suffix_number(digits: str) -> int:
    """The number of a suffix, 1 where it is left out; -1 for one that no instrument has."""
    return int(digits or "1") if len(digits) <= _MOST_DIGITS else -1


@functools.lru_cache(maxsize=8192)
def split_at_holes(template: str) -> tuple[str, ...]:
    """Text and placeholders in turn, in upper case."""
    return tuple(_AT_HOLES.split(template.upper()))


def match_pattern(template: str, raw: str) -> Captures | None:
    """Placeholders between literal text, each of 1 to 256 characters; in any case, in linear time.

    Each literal is taken where it stands first behind what came before.
    """
    if not raw.isascii():
        return None
    first, *rest = split_at_holes(template)
    text, at = raw.upper(), len(first)
    if not text.startswith(first):
        return None
    captures: dict[int, str | None] = {}
    for index in range(0, len(rest), 2):
        hole, literal = rest[index : index + 2]
        if index + 2 == len(rest):
            end = len(text) - len(literal) if text.endswith(literal) else 0
        else:
            end = text.find(literal, at + 1)
        if not 1 <= end - at <= LONGEST_CAPTURE:
            return None
        captures[ord(hole) - FIRST_HOLE] = raw[at:end]
        at = end + len(literal)
    return captures if at == len(text) else None


@functools.lru_cache(maxsize=8192)
def without_optional(nodes: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The leading SOURce or SENSe (or nothing), and the rest without optional nodes.

    An optional node has no suffix but 1.
    """
    has_lead = len(nodes) > 1 and _SUFFIX.sub("", nodes[0]).upper() in _DROPPED_FIRST
    first = int(has_lead)
    kept = list(nodes[first : first + 1])
    for index in range(first + 1, len(nodes)):
        behind = _OPTIONAL.get(nodes[index].upper().removesuffix("1"), ())
        if not behind and index == len(nodes) - 1:
            behind = _OPTIONAL_LAST.get(nodes[index].upper().removesuffix("1"), ())
        if short_form(_SUFFIX.sub("", nodes[index - 1]).upper()) not in behind:
            kept.append(nodes[index])
    return nodes[0] if has_lead else "", tuple(kept)


def _match_lead(template: str, raw: str) -> Captures | None:
    """SOURce is not SENSe; either may be left out, its number then is assumed."""
    if template and raw:
        return match_node(template, raw)
    if raw:
        word = _RAW_WORD.fullmatch(raw)
        return {} if word is not None and _suffix_number(word.group(2)) == 1 else None
    return {ord(mark) - FIRST_HOLE: None for mark in _HOLE.findall(template)}


def _same_argument(template: str, raw: str) -> bool:
    known, written = template.upper(), raw.upper()
    if known == written:
        return True
    if known in _TRUTHS and written in _TRUTHS:
        return _TRUTHS[known] == _TRUTHS[written]
    number = read_number(known)
    if number is not None:
        return number == read_number(written)
    word, raw_word = _WORD.fullmatch(template), _RAW_WORD.fullmatch(raw)
    if word is None or raw_word is None or word.group(2) != raw_word.group(2):
        return False
    return same_word(word.group(1), raw_word.group(1))


_SWITCH: Final = re.compile(
    r"(?:^|[;:\s}])(?:OUTP(?:UT)?|INP(?:UT)?|BIAS|SOUR(?:CE)?\d?:STAT(?:E)?|OUT(?=[01{ ]))"
    r"[^\s?;]*(?P<rest>[^;?]*)",
    re.IGNORECASE,
)
"""A header that works an output, an input of a load, or a bias; and what it is told."""
_OUTPUT_DETAIL: Final = re.compile(
    r":(?:LOAD|IMP|POL|PROT|OVP|OCP|MODE|SENS|TRACK|DEL|SMOD|TRIG|SYNC|FILT|COUP|WAVE|VOLT|CURR|"
    r"(?:ON|OFF):AUTO)\w*",
    re.IGNORECASE,
)
"""Sub-trees of OUTPut that set something about it and do not switch it."""
_TOLD_DETAIL: Final = re.compile(r"\s*(?:LOAD|PLRT),", re.IGNORECASE)
"""What Siglent tells the same header where it sets something and does not switch."""
_CLEAR_SWITCHES_ON: Final = re.compile(r"VOLT\w*:PROT\w*:CLE", re.IGNORECASE)
"""On the DP800 this clear switches the output back on (its manual does not say so)."""
_ON: Final = re.compile(r"(?<![\w.])(?:ON|1)(?![\w.])", re.IGNORECASE)
_VALUE: Final = re.compile(r"\{([a-z][a-z0-9_]*)(?::[^}]*)?\}")
_RECALL: Final = re.compile(r"(?:^|[;:\s])(?:\*RCL|RCL\d?|MEM\w*:REC\w*|SYST\w*:REC\w*)", re.I)
_LOADING: Final = re.compile(
    r"RCL|REC(?:A|AL|ALL)?|PRES(?:E|ET)?|TRAC(?!E)\w*|TIM(?:ER)?|LIST|MAC(?:R|RO)?"
)
"""Nodes of a header, without their digits, that load or couple values; see ``side_effect``."""
_TRACES: Final = ("TRAC", "TRACE", "DISP", "DISPLAY", "CALC", "CALCULATE", "FORM", "FORMAT")
_ANY_OUTPUT: Final = re.compile(
    r"(?:^|[;:\s\d])(?:OUTP|OUT\d|INP\w*:STAT|SOUR|VOLT|CURR|APPL|BIAS|LEV|BSWV|"
    r"\*RST|\*RCL|SYST\w*:PRES|VSET|ISET)",
    re.IGNORECASE,
)
_BEFORE_LEVEL: Final = r":?(?:(?:(?:SOUR(?:CE)?|CH|C)(?:\d*|\{[a-z0-9_]+\})|BIAS|\{[a-z0-9_]+\}):)*"
_AUXILIARY_WORDS: Final = (
    r"AUX[VO]|AOUT|DAC\w*|MOUT|ANALOG|RELAY|ROUT\w*:(?:CLOS\w*|OPEN\w*)|"
    r"DIG\w*:(?:LINE\d*:STAT\w*|OUTP\w*|DATA)"
)
_LEVEL: Final = re.compile(
    rf"{_BEFORE_LEVEL}(?:VOLT(?:AGE)?|CURR(?:ENT)?|POW(?:ER)?|LEV(?:EL)?|SLVL|SETP|[VI]SET\d?|"
    rf"{_AUXILIARY_WORDS})(?::LEV(?:EL)?|:IMM(?:EDIATE)?|:AMPL(?:ITUDE)?|:AUTO)*(?=[ {{]|$)",
    re.IGNORECASE,
)
"""A header that sets how much is put out, auxiliary outputs and relays among them."""
_AUXILIARY_LEVEL: Final = re.compile(rf"{_BEFORE_LEVEL}(?:{_AUXILIARY_WORDS})", re.IGNORECASE)
"""The header of an output that no main output switch works."""


_ONLY_INSIDE: Final = re.compile(
    r"\s*:?(?:\*(?:CLS|ESE|SRE|OPC|WAI|IDN|OPT|STB|ESR)\b|DISP(?:LAY)?\d?:|FORM(?:AT)?[: ]|"
    r"STAT(?:US)?:|SYST(?:EM)?:(?:BEEP|DATE|TIME|KLOC|ERR)|SENS(?:E)?\d?:(?!.*(?:PROT|FUNC|MODE|OUT|"
    r"SOUR|STAT|OCOM)))",
    re.IGNORECASE,
)
"""Headers of SCPI and IEEE 488.2 that work what is inside: display, formats, registers, inputs."""
_DOING_QUERY: Final = re.compile(
    r"(?:^|[;:\s])(?:INIT|CONF|CAL|TEST|\*TST|\*CAL|\*RCL|\*RST|RUN|TRIG)",
    re.IGNORECASE,
)
"""Questions that do something first."""
_SOURCING_QUERY: Final = re.compile(r"(?:^|[;:\s])(?:MEAS|READ)", re.IGNORECASE)


def may_put_out(template: str, *, is_query: bool, sources: bool) -> bool:
    """Whether a line of which nobody knows more may change what is put out.

    Other than ``touches_output`` it errs to the other side: what it does not know, may.

    Args:
        is_query: it is sent for its answer.
        sources: the instrument puts something out to measure, or may.
    """
    parts = [part for part in template.split(";") if part.strip()]
    if is_query and all("?" in part.split()[0] for part in parts):
        doing = (_DOING_QUERY, _SOURCING_QUERY) if sources else (_DOING_QUERY,)
        return any(pattern.search(part) for part in parts for pattern in doing)
    return not all(_ONLY_INSIDE.match(part) for part in parts)


_ASKS_IDN: Final = re.compile(r"\*\s*IDN\s*\?", re.IGNORECASE)


def asks_idn(line: str) -> bool:
    """Whether a line asks ``*IDN?``, also among others."""
    return _ASKS_IDN.search(line) is not None


def why_not_on_connect(line: str) -> str:
    """Why a line may not be sent whenever a connection is made; empty when it may."""
    if touches_output(line):
        return "touches an output"
    if is_recalling(line):
        return "recalls a state, in which an output may be on"
    return "is a query whose answer is not read" if "?" in line else ""


def why_not_on_release(line: str) -> str:
    """Why a line may not be the last word on a line; empty when it may.

    An output may be switched off by it. A set-point may not: that would be a step of any size.
    """
    if switches_on(line, _none_can_be_on):
        return "switches on"
    if is_recalling(line):
        return "recalls a state, in which an output may be on"
    parts = [part for part in line.split(";") if touches_output(part) and not works_switch(part)]
    if parts:
        return "changes what an output gives"
    return "is a query whose answer is not read" if "?" in line else ""


def switches_on(template: str, can_be_on: Callable[[str], bool]) -> bool:
    """Whether a line may switch something on.

    Args:
        can_be_on: whether the placeholder of this name may stand for "on".
    """
    if _CLEAR_SWITCHES_ON.search(template):
        return True
    for found in _SWITCH.finditer(template):
        header = _header(found)
        if _OUTPUT_DETAIL.search(header) or "?" in template[found.end() : found.end() + 1]:
            continue
        told = found.group("rest") or header
        if _TOLD_DETAIL.match(told):
            continue
        if _ON.search(_without_channels(told)) or re.search(r"OUT1$", header, re.IGNORECASE):
            return True
        if any(map(can_be_on, _switching_names(told))):
            return True
    return False


def is_on(word: str) -> bool:
    """Whether a word of the wire means "on"."""
    return _ON.fullmatch(word) is not None


@functools.lru_cache(maxsize=256)
def is_recalling(template: str) -> bool:
    """Whether a line recalls a stored state."""
    return _RECALL.search(template) is not None and "?" not in template


def sets_level(template: str) -> bool:
    """Whether a line sets how much an output gives, whatever switch stands before it."""
    parts = template.split(";")
    return any("?" not in part and _LEVEL.match(part.strip()) is not None for part in parts)


def sets_auxiliary_level(template: str) -> bool:
    """Whether a line sets a level that no main output switch takes back."""
    parts = template.split(";")
    return any("?" not in part and _AUXILIARY_LEVEL.match(part.strip()) for part in parts)


def side_effect(template: str) -> str:
    """The header in a line whose name says that it changes more than it names; empty for none.

    Stored states, resets, presets, tracking, timers, lists and macros; and the two queries of IEEE
    488.2 that act.
    """
    for part in filter(None, map(str.strip, template.split(";"))):
        header = part.split()[0]
        bare = re.sub(r"\{[^}]*\}|\d+(?=:|\?|$)", "", header).upper().strip(":")
        nodes = bare.rstrip("?").split(":")
        if nodes[0].startswith("*"):
            is_acting = bare in {"*RCL", "*RST", "*TST?", "*CAL?"}
        else:
            is_acting = not bare.endswith("?") and _loads(nodes)
        if is_acting:
            return header
    return ""


def _loads(nodes: Sequence[str]) -> bool:
    if nodes[0] in _TRACES:
        # SCPI's TRACe is a memory for readings, and a display's is a curve.
        nodes = [node for node in nodes if not node.startswith("TRAC")]
    if not nodes or (nodes[0] == "TIM" and len(nodes) > 1 and nodes[1] != "SET"):
        # An oscilloscope's TIMebase.
        return False
    # The short form of PRESsure is that of PRESet, which is the last of its header.
    nodes = [*(node for node in nodes[:-1] if node != "PRES"), nodes[-1]]
    # The timer of Siglent's supplies is TIME; elsewhere in a header that is a duration.
    return nodes[0] == "TIME" or any(map(_LOADING.fullmatch, nodes))


def touches_output(line: str) -> bool:
    """Whether a line would change what the instrument gives; a question in it hides nothing."""
    return any("?" not in part and _ANY_OUTPUT.search(part) for part in line.split(";"))


@functools.lru_cache(maxsize=256)
def works_switch(line: str) -> bool:
    """Whether a line works an output switch, on or off."""
    for found in _SWITCH.finditer(line):
        if not _OUTPUT_DETAIL.search(_header(found)) and not _TOLD_DETAIL.match(found["rest"]):
            return True
    return False


def _header(found: re.Match[str]) -> str:
    return found.group()[: len(found.group()) - len(found.group("rest"))]


def _without_channels(told: str) -> str:
    """``CH1,OFF`` and ``OFF,(@1)`` hold a 1 that switches nothing."""
    words = re.sub(r"\(@[^)]*\)|\bCH(?:AN)?\d", "", told, flags=re.IGNORECASE)
    parts = [part.strip() for part in words.split(",")]
    return parts[-1] or next((part for part in parts if part), "")


def _switching_names(told: str) -> list[str]:
    without = re.sub(r"\(@[^)]*\)|\bCH(?:AN)?\{[^}]*\}", "", told, flags=re.IGNORECASE)
    return _VALUE.findall(without)


def _none_can_be_on(_name: str) -> bool:
    return False
