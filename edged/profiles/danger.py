"""Words of SCPI that switch something on; how lint knows danger that nobody marked.

A heuristic over templates, for the person who writes a profile. What counts as dangerous at run
time is the profile's mark alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from edged.profiles.model import Command, Parameter, ParameterType

__all__ = ["is_energising", "is_output_command", "is_recalling", "touches_output"]

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


def is_energising(template: str, parameters: Mapping[str, Parameter]) -> bool:
    """Whether a line may switch something on, with the values that its parameters can have."""
    if _CLEAR_SWITCHES_ON.search(template):
        return True
    for found in _SWITCH.finditer(template):
        header = found.group()[: len(found.group()) - len(found.group("rest"))]
        if _OUTPUT_DETAIL.search(header) or "?" in template[found.end() : found.end() + 1]:
            continue
        told = found.group("rest") or header
        if _TOLD_DETAIL.match(told):
            continue
        if _ON.search(_without_channels(told)) or re.search(r"OUT1$", header, re.IGNORECASE):
            return True
        if any(_can_be_on(parameters.get(name)) for name in _switching_names(told)):
            return True
    return False


def _without_channels(told: str) -> str:
    """``CH1,OFF`` and ``OFF,(@1)`` hold a 1 that switches nothing."""
    words = re.sub(r"\(@[^)]*\)|\bCH(?:AN)?\d", "", told, flags=re.IGNORECASE)
    parts = [part.strip() for part in words.split(",")]
    return parts[-1] or next((part for part in parts if part), "")


def _switching_names(told: str) -> list[str]:
    without = re.sub(r"\(@[^)]*\)|\bCH(?:AN)?\{[^}]*\}", "", told, flags=re.IGNORECASE)
    return _HOLE.findall(without)


def _can_be_on(parameter: Parameter | None) -> bool:
    """Whether one of the values that may stand there means "on"."""
    if parameter is None:
        return False
    if parameter.type is ParameterType.BOOL:
        return True
    if parameter.type is ParameterType.ENUM:
        words = [str(parameter.map.get(label, label)) for label in parameter.options]
        return any(_ON.fullmatch(word) for word in words)
    return False


def is_recalling(template: str) -> bool:
    """Whether a line recalls a stored state."""
    return _RECALL.search(template) is not None and "?" not in template


def touches_output(line: str) -> bool:
    """Whether a line sent at connection would change what the instrument gives."""
    return "?" not in line and _ANY_OUTPUT.search(line) is not None


def is_output_command(command: Command) -> bool:
    """Whether a command does nothing but work output switches, on or off."""
    return not command.is_query and all(_is_switching(line) for line in command.scpi)


def _is_switching(line: str) -> bool:
    for found in _SWITCH.finditer(line):
        header = found.group()[: len(found.group()) - len(found.group("rest"))]
        if not _OUTPUT_DETAIL.search(header) and not _TOLD_DETAIL.match(found.group("rest")):
            return True
    return False
