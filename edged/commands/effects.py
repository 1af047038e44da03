"""What a line sets, and what else may change by it. Pure.

Three kinds, by what they leave as it was. A switch of an output changes nothing else. A number
changes what hangs on it, and what that is, the kind of instrument says: the volts and amperes of a
supply are independent, a generator's amplitude hangs on its load and its function. Everything else
(a function, a mode, a stored state, a line with nothing that can be read) may change anything.

Where the channels of a supply can be coupled (tracking), one channel's volts set another's.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from edged.profiles.abort import HARMLESS, is_selecting, select, tellings
from edged.profiles.model import Command, Parameter, ParameterType, Profile
from edged.profiles.template import placeholders
from edged.record import record
from edged.scpi.line import messages
from edged.scpi.words import is_recalling, works_switch

Key = tuple[str, str]
"""The channel that was selected before, and the header with what stands beside the value."""

_MEASURES: Final = re.compile(r":?(?:MEAS|READ|FETC)", re.IGNORECASE)
_COUPLES: Final = re.compile(r"(?:^|:)(?:TRAC|COUP|COMB|PAIR)", re.IGNORECASE)
_VALUE: Final = attrgetter("value")
_NUMBERS: Final = frozenset({ParameterType.FLOAT, ParameterType.INT, ParameterType.BOOL})


class Effect(enum.Enum):
    """See above."""

    SWITCH = "switch"
    NUMBER = "number"
    ANYTHING = "anything"


class Reach(enum.Enum):
    """What a number that is set leaves as it was: all; what has another unit; the switches."""

    ITSELF = "itself"
    ITS_UNIT = "its unit"
    ALL_NUMBERS = "all numbers"


_REACH: Final[Mapping[str, Reach]] = {
    "power_supply": Reach.ITSELF,
    "electronic_load": Reach.ITSELF,
    "smu": Reach.ITS_UNIT,
    "calibrator": Reach.ITS_UNIT,
}


@record(kw_only=False)
class KnownSetting:
    """One setting and what it was set to; ``text`` is the wire's, empty where it cannot be read."""

    key: Key
    text: str
    effect: Effect
    unit: str = ""


NOBODY_KNOWS: Final = KnownSetting(("", ""), "", Effect.ANYTHING)


def effects_of(command: Command, lines: Sequence[str]) -> tuple[KnownSetting, ...]:
    """What a command sets.

    Args:
        lines: its own, rendered.
    """
    if command.is_query or command.changes is not None:
        return (NOBODY_KNOWS,)
    return _effects(command.scpi, lines, command.parameters)


def effects_of_lines(lines: Sequence[str]) -> tuple[KnownSetting, ...]:
    """What lines set that are sent as they stand."""
    return _effects(lines, lines, {})


def after(
    known: Mapping[Key, KnownSetting], effects: Sequence[KnownSetting], reach: Reach
) -> dict[Key, KnownSetting]:
    """What is known once they are carried out, one after the other."""
    found = dict(known)
    for told in effects:
        if told.effect is not Effect.SWITCH:
            for key, one in tuple(found.items()):
                if not _is_left(one, told, reach):
                    del found[key]
        if told.text:
            found[told.key] = told
    return found


def reach_of(profile: Profile | None) -> Reach:
    """What a number that is set may change besides, on such an instrument."""
    return _REACH.get(profile.instrument_class if profile else "", Reach.ALL_NUMBERS)


def couples_channels(line: str) -> bool:
    """Whether a line has to do with one channel following another."""
    return _COUPLES.search(line) is not None


def is_measuring(line: str) -> bool:
    """Whether it asks for something measured, and not for what was set."""
    return _MEASURES.match(line) is not None


def selected_by(lines: Sequence[str]) -> str:
    """The first part of a ``Key`` after these selections."""
    return "; ".join(lines).upper()


@functools.lru_cache(maxsize=1024)
def asked(line: str) -> Key | None:
    """The setting that a line asks for; ``None`` where it measures, or asks for several."""
    last = None
    for message in messages(line):
        if is_selecting(message.text) and not message.is_query:
            continue
        if last is not None or not message.is_query:
            return None
        last = message
    if last is None or is_measuring(last.text):
        return None
    header = ":".join((*last.path, *last.nodes)).upper()
    beside = ",".join(word.upper() for word in last.arguments)
    return selected_by(select((), line)), f"{header} {beside}".strip()


@functools.lru_cache(maxsize=1024)
def value_name(template: str) -> str:
    """The parameter that stands where a line has its value; empty where there is none."""
    words = template.rpartition(" ")[2].split(",")
    # "OFF,(@{channel})": the channel list stands behind.
    value = words[0] if words[-1].startswith("(@") else words[-1]
    names = [hole.name for hole in placeholders(value)] if value != template else []
    return names[0] if len(names) == 1 else ""


def _effects(
    templates: Sequence[str], lines: Sequence[str], parameters: Mapping[str, Parameter]
) -> tuple[KnownSetting, ...]:
    found: list[KnownSetting] = []
    selected: tuple[str, ...] = ()
    has_told = True
    for template, line in zip(templates, lines, strict=True):
        if is_selecting(line):
            selected, has_told = select(selected, line), False
        elif line.partition(" ")[0].upper() not in HARMLESS:
            has_told = True
            beside = selected_by(selected) if selected else ""
            found += _effects_of_line(template, line, beside, parameters)
    if not has_told:
        # What is said of no channel is about another one from now on.
        found.append(NOBODY_KNOWS)
    return tuple(found)


def _effects_of_line(
    template: str, line: str, selected: str, parameters: Mapping[str, Parameter]
) -> list[KnownSetting]:
    told = tellings(line)
    if not told or line.startswith("*") or is_recalling(line) or not all(map(_VALUE, told)):
        return [NOBODY_KNOWS]
    effect, unit = Effect.ANYTHING, ""
    parameter = parameters.get(value_name(template))
    if works_switch(line):
        effect = Effect.SWITCH
    elif parameter is not None and parameter.type in _NUMBERS:
        effect, unit = Effect.NUMBER, parameter.unit
    found = []
    for one in told:
        found.append(KnownSetting((selected, one.output), one.value, effect, unit))  # noqa: PERF401 - a frame
    return found


def _is_left(one: KnownSetting, told: KnownSetting, reach: Reach) -> bool:
    """Whether something is still known once ``told``, which is no switch, was carried out."""
    if told.effect is Effect.ANYTHING:
        return False
    if one.effect is Effect.SWITCH or reach is Reach.ITSELF:
        return True
    is_other = one.effect is Effect.NUMBER and one.unit not in {"", told.unit}
    return reach is Reach.ITS_UNIT and is_other
