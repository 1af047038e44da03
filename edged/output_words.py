"""Words of SCPI that change what an instrument puts out. Pure; the one place that knows them.

A heuristic over lines, for the people who write profiles and configurations. What counts as
dangerous at run time is the profile's mark alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

__all__ = [
    "is_on",
    "is_recalling",
    "sets_level",
    "switches_on",
    "touches_output",
    "why_not_on_connect",
    "why_not_on_release",
    "works_switch",
]

_SWITCH: Final = re.compile(
    r"(?:^|[;:\s}])(?:OUTP(?:UT)?|INP(?:UT)?|BIAS|SOUR(?:CE)?\d?:STAT(?:E)?|OUT(?=[01{ ]))"
    r"[^\s?;]*(?P<rest>[^;?]*)",
    re.IGNORECASE,
)
"""A header that works an output, an input of a load, or a bias; and what it is told."""
_OUTPUT_DETAIL: Final = re.compile(
    r":(?:LOAD|IMP|POL|PROT|OVP|OCP|MODE|SENS|TRACK|DEL|SMOD|TRIG|SYNC|FILT|COUP|WAVE|VOLT|CURR)\w*",
    re.IGNORECASE,
)
"""Sub-trees of OUTPut that set something about it and do not switch it."""
_TOLD_DETAIL: Final = re.compile(r"\s*(?:LOAD|PLRT),", re.IGNORECASE)
"""What Siglent tells the same header where it sets something and does not switch."""
_CLEAR_SWITCHES_ON: Final = re.compile(r"VOLT\w*:PROT\w*:CLE", re.IGNORECASE)
"""On the DP800 this clear switches the output back on (facts, entry 2)."""
_ON: Final = re.compile(r"(?<![\w.])(?:ON|1)(?![\w.])", re.IGNORECASE)
_HOLE: Final = re.compile(r"\{([a-z][a-z0-9_]*)(?::[^}]*)?\}")
_RECALL: Final = re.compile(r"(?:^|[;:\s])(?:\*RCL|RCL\d?|MEM\w*:REC\w*|SYST\w*:REC\w*)", re.I)
_ANY_OUTPUT: Final = re.compile(
    r"(?:^|[;:\s\d])(?:OUTP|OUT\d|INP\w*:STAT|SOUR|VOLT|CURR|APPL|BIAS|LEV|BSWV|"
    r"\*RST|\*RCL|SYST\w*:PRES|VSET|ISET)",
    re.IGNORECASE,
)
_LEVEL: Final = re.compile(
    r":?(?:SOUR(?:CE)?\d*:|CH\d:|C\d:|BIAS:|\{[a-z0-9_]+\}:)*"
    r"(?:VOLT(?:AGE)?|CURR(?:ENT)?|POW(?:ER)?|LEV(?:EL)?|SLVL|AUXV|AOUT|DAC\w*|MOUT|ANALOG|RELAY|"
    r"SETP|[VI]SET\d?|ROUT\w*:(?:CLOS\w*|OPEN\w*)|DIG\w*:(?:LINE\d*:STAT\w*|OUTP\w*|DATA))"
    r"(?::LEV(?:EL)?|:IMM(?:EDIATE)?|:AMPL(?:ITUDE)?|:AUTO)*(?=[ {]|$)",
    re.IGNORECASE,
)
"""A header that sets how much is put out, auxiliary outputs and relays among them."""


def why_not_on_connect(line: str) -> str:
    """Why a line may not be sent whenever a connection is made; empty when it may."""
    if touches_output(line):
        return "touches an output"
    if is_recalling(line):
        return "recalls a state, in which an output may be on"
    return "asks a question, whose answer nobody reads" if "?" in line else ""


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
    return "asks a question, whose answer nobody reads" if "?" in line else ""


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


def is_recalling(template: str) -> bool:
    """Whether a line recalls a stored state."""
    return _RECALL.search(template) is not None and "?" not in template


def sets_level(template: str) -> bool:
    """Whether a line sets how much an output gives, whatever switch stands before it."""
    parts = template.split(";")
    return any("?" not in part and _LEVEL.match(part.strip()) is not None for part in parts)


def touches_output(line: str) -> bool:
    """Whether a line would change what the instrument gives; a question in it hides nothing."""
    return any("?" not in part and _ANY_OUTPUT.search(part) for part in line.split(";"))


def works_switch(line: str) -> bool:
    """Whether a line works an output switch, on or off."""
    return any(
        not _OUTPUT_DETAIL.search(_header(found)) and not _TOLD_DETAIL.match(found.group("rest"))
        for found in _SWITCH.finditer(line)
    )


def _header(found: re.Match[str]) -> str:
    return found.group()[: len(found.group()) - len(found.group("rest"))]


def _without_channels(told: str) -> str:
    """``CH1,OFF`` and ``OFF,(@1)`` hold a 1 that switches nothing."""
    words = re.sub(r"\(@[^)]*\)|\bCH(?:AN)?\d", "", told, flags=re.IGNORECASE)
    parts = [part.strip() for part in words.split(",")]
    return parts[-1] or next((part for part in parts if part), "")


def _switching_names(told: str) -> list[str]:
    without = re.sub(r"\(@[^)]*\)|\bCH(?:AN)?\{[^}]*\}", "", told, flags=re.IGNORECASE)
    return _HOLE.findall(without)


def _none_can_be_on(_name: str) -> bool:
    return False
