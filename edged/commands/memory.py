"""What each unit was set to last, as far as this daemon knows: by what it set and what it asked.

For two things that a result says besides: what a setter replaced (``previous``), and that a
measurement is one of an output that is off (``notes``). Both are told or not told at all, never
guessed. So everything is forgotten with the line that was opened anew, with a raw line that may
set something, with an abort, and with every command that sets more than one thing or chooses
between kinds of working (a function, a mode, a stored state): it may change what else is set.
While such a one is under way, or where it failed, nothing is remembered. What a person turns at
the front panel nobody tells; what was asked last is then what is known.

Lives on the event loop.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from edged.instruments.instrument import Instrument
from edged.profiles.abort import means_same, tellings
from edged.profiles.model import (
    Command,
    ImageAnswer,
    Parameter,
    ParameterType,
    Profile,
    Scalar,
    WaveformAnswer,
)
from edged.profiles.raw import RawPart, value_choices
from edged.profiles.template import placeholders, render_lines
from edged.scpi.line import messages
from edged.scpi.words import works_switch

__all__ = ["Memory", "Writing"]

Key = tuple[str, str]
"""The channel that was selected before, and the header with what stands beside the value."""

MOST_KNOWN: Final = 256
_SELECTS: Final = re.compile(r":?INST", re.IGNORECASE)
"""The headers by which SCPI's channels are selected for what follows."""
_MEASURES: Final = re.compile(r":?(?:MEAS|READ|FETC)", re.IGNORECASE)
_OUTPUTS: Final = re.compile(r"(?:^|:)(OUTP|INP)", re.IGNORECASE)
_COUNTED: Final = frozenset({ParameterType.FLOAT, ParameterType.INT, ParameterType.BOOL})


class _Sent:
    """Stands for a value that is on its way."""


@dataclass(slots=True)
class _Unit:
    """Of one unit, while its line stays open.

    ``uncertain``: writes that may change anything, which have begun and not ended well.
    """

    meeting: object
    values: dict[Key, str | _Sent] = field(default_factory=dict)
    uncertain: int = 0


@dataclass(slots=True)
class Writing:
    """One write under way; ``previous`` is what its parameters were before it."""

    previous: dict[str, Scalar]
    unit: _Unit
    told: tuple[tuple[Key, str], ...]
    token: _Sent
    is_simple: bool

    def done(self, readback: Scalar | None = None) -> None:
        """The instrument has taken it, and may have said what it holds now."""
        unit = self.unit
        if not self.is_simple:
            unit.uncertain -= 1
            unit.values.clear()
        if unit.uncertain:
            return
        for key, text in self.told:
            if self.is_simple and unit.values.get(key) is not self.token:
                continue
            unit.values[key] = text
        if readback is not None and self.is_simple and len(self.told) == 1:
            key = self.told[0][0]
            if not isinstance(readback, bool | str) and key in unit.values:
                unit.values[key] = repr(readback)


class Memory:
    """What is known of all units, by their ids."""

    def __init__(self) -> None:
        self._units: dict[str, _Unit] = {}
        # By profile and command; the profile beside it keeps its id from meaning another.
        self._switches: dict[tuple[int, str], tuple[Profile, tuple[Command, ...]]] = {}

    def begin(self, instrument: Instrument, command: Command, lines: Sequence[str]) -> Writing:
        """A command that sets something is about to be sent."""
        unit = self._unit(instrument)
        told = tuple(_told(lines))
        is_simple = _is_simple(command, told, lines)
        previous: dict[str, Scalar] = {}
        if is_simple:
            name = _value_name(command)
            if name and len(told) == 1 and not unit.uncertain:
                previous = _read(command.parameters[name], unit.values.get(told[0][0]))
        token = _Sent()
        if is_simple:
            for key, _ in told:
                unit.values[key] = token
        else:
            unit.values.clear()
            unit.uncertain += 1
        if len(unit.values) > MOST_KNOWN:
            unit.values.clear()
        return Writing(previous, unit, told, token, is_simple)

    def begin_raw(self, instrument: Instrument, parts: Sequence[RawPart]) -> Writing | None:
        """A raw line is about to be sent; ``None`` where it only asks.

        Args:
            parts: its messages; none where there is no profile, so that nothing is remembered.
        """
        if all(part.is_query for part in parts):
            return None
        unit = self._unit(instrument)
        unit.values.clear()
        unit.uncertain += 1
        return Writing({}, unit, (), _Sent(), is_simple=False)

    def begin_question(
        self, instrument: Instrument, command: Command, lines: Sequence[str]
    ) -> None:
        """A question is about to be sent; it may set how it measures, and none sets an output."""
        unit = self._units.get(instrument.id)
        if unit is None or not unit.values:
            return
        if command.is_dangerous:
            unit.values.clear()
        elif isinstance(command.returns, WaveformAnswer | ImageAnswer) or any(map(_sets, lines)):
            unit.values = {k: known for k, known in unit.values.items() if _OUTPUTS.search(k[1])}

    def forget(self, instrument_id: str) -> None:
        """Its abort is on its way."""
        unit = self._units.get(instrument_id)
        if unit is not None:
            unit.values.clear()

    def heard(
        self, instrument: Instrument, command: Command, lines: Sequence[str], data: Any
    ) -> None:
        """What a question was answered by, in the caller's terms."""
        key = _asked(lines[-1])
        if key is None or command.is_dangerous or isinstance(data, dict | list) or data is None:
            return
        if len(lines) > 1 or getattr(command.returns, "map", None):
            return
        unit = self._unit(instrument)
        if unit.uncertain or len(unit.values) > MOST_KNOWN:
            return
        if not isinstance(unit.values.get(key), _Sent):
            unit.values[key] = str(int(data)) if isinstance(data, bool) else str(data)

    def notes(
        self, instrument: Instrument, command: Command, values: Mapping[str, Scalar]
    ) -> list[str]:
        """That what was measured is off, where that is known."""
        unit, profile = self._units.get(instrument.id), instrument.profile
        if unit is None or profile is None or unit.meeting != instrument.meeting:
            return []
        for off in self._switches_of(profile, command):
            lines = render_lines(off, {name: values[name] for name in off.parameters})
            switched = list(_told([line for line in lines if _is_switch(line)]))
            if len(switched) != 1:
                continue
            ((key, text),) = switched
            known = unit.values.get(key)
            if isinstance(known, str) and means_same(known, text):
                return [_is_off(command, values, key)]
        return []

    def _switches_of(self, profile: Profile, command: Command) -> tuple[Command, ...]:
        """What switches off just what this measures."""
        known = self._switches.get((id(profile), command.name))
        if known is not None and known[0] is profile:
            return known[1]
        found: tuple[Command, ...] = ()
        if command.is_query and _MEASURES.match(command.scpi[-1] if command.scpi else ""):
            found = tuple(
                other
                for other in profile.commands.values()
                if other.is_safe
                and any(map(_is_switch, other.scpi))
                and other.parameters.keys() <= command.parameters.keys()
            )
        if len(self._switches) >= MOST_KNOWN:
            self._switches.clear()
        self._switches[id(profile), command.name] = (profile, found)
        return found

    def _unit(self, instrument: Instrument) -> _Unit:
        meeting = instrument.meeting
        unit = self._units.get(instrument.id)
        if unit is None or unit.meeting != meeting:
            unit = self._units[instrument.id] = _Unit(meeting)
        return unit


def _told(lines: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """What lines set, in their order, each for the channel that was selected before it."""
    selected = ""
    for line in lines:
        if _SELECTS.match(line):
            selected = line.upper()
            continue
        for told in tellings(line):
            if told.value:
                yield (selected, told.output), told.value


def _is_switch(line: str) -> bool:
    return _SELECTS.match(line) is not None or bool(_OUTPUTS.search(line) and works_switch(line))


def _sets(line: str) -> bool:
    return "?" not in line and not _SELECTS.match(line)


@functools.lru_cache(maxsize=1024)
def _asked(line: str) -> Key | None:
    """The setting that a line asks for; ``None`` where it measures, or asks for several."""
    selected, last = "", None
    for message in messages(line):
        if _SELECTS.match(message.text) and not message.is_query:
            selected = message.text.upper()
        elif last is not None or not message.is_query:
            return None
        else:
            last = message
    if last is None or _MEASURES.match(last.text):
        return None
    header = ":".join((*last.path, *last.nodes)).upper()
    beside = ",".join(word.upper() for word in last.arguments)
    return selected, f"{header} {beside}".strip()


def _is_simple(command: Command, told: tuple[tuple[Key, str], ...], lines: Sequence[str]) -> bool:
    """Whether it sets what it says, and nothing that it does not say."""
    if not told:
        return False
    setting = [line for line in lines if not _SELECTS.match(line)]
    if all(map(works_switch, setting)):
        return len(told) >= len(setting)
    name = _value_name(command)
    return len(setting) == 1 and bool(name) and command.parameters[name].type in _COUNTED


def _value_name(command: Command) -> str:
    """The one parameter that stands where a line has its value; empty where there is none."""
    setting = [template for template in command.scpi if not _SELECTS.match(template)]
    if len(setting) != 1:
        return ""
    words = setting[0].rpartition(" ")[2].split(",")
    # "OFF,(@{channel})": the channel list stands behind.
    value = words[0] if words[-1].startswith("(@") else words[-1]
    names = [hole.name for hole in placeholders(value)] if value != setting[0] else []
    return names[0] if len(names) == 1 else ""


def _read(parameter: Parameter, known: str | _Sent | None) -> dict[str, Scalar]:
    """What is known, as its parameter has it."""
    if not isinstance(known, str):
        return {}
    found = value_choices(parameter, known)
    return {parameter.name: found[0]} if len(found) == 1 else {}


def _is_off(command: Command, values: Mapping[str, Scalar], key: Key) -> str:
    kind = "input" if "INP" in key[1].partition(" ")[0] else "output"
    channel = values.get("channel") if "channel" in command.parameters else None
    is_its_own = channel is not None and str(channel) in f"{key[0]} {key[1]}"
    return f"{kind} {channel} is off" if is_its_own else f"the {kind} is off"
