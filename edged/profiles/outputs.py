"""What a profile can put out: the outputs that its abort switches off, and what lines tell them.

An output is what one line of ``abort`` makes safe: the header, and what stands beside the value
(``OUTP CH3`` of ``OUTP CH3,OFF``, ``AUXV 2`` of ``AUXV 2,0``). A line with the same header, the
same words beside and another value tells that output something. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from edged.errors import EdgedError
from edged.output_words import is_recalling, works_switch
from edged.profiles.model import Command, Profile
from edged.profiles.raw import RawPart, identify
from edged.profiles.render import render_lines
from edged.profiles.scpi_line import Message, messages
from edged.profiles.suffixes import number_with_suffix

__all__ = [
    "ANYTHING",
    "Told",
    "is_switching_off",
    "means_same",
    "output_names",
    "tellings",
    "told_by",
    "told_raw",
]

ANYTHING: Final = "*"
"""Stands for every output of a unit, where it is not known which one was told."""
TRUTHS: Final = {"ON": True, "1": True, "RUN": True, "OFF": False, "0": False, "STOP": False}
"""Tektronix scopes take ``ACQuire:STATE STOP`` and tell it as 0."""
HARMLESS: Final = frozenset({"*CLS", "*WAI", "*OPC", "*ESE", "*SRE", "*SAV", "*PSC"})
"""Common commands (IEEE 488.2) that set no output, though no profile need know them."""
_SELECTS: Final = re.compile(r"(?:INST|SYST|FORM|TRIG|ACQ|DISP|PROG|\*)", re.IGNORECASE)
"""Headers of an abort that prepare, select, or end a measurement: nothing is put out there."""
_BARE_SWITCH: Final = re.compile(r"(OUT)([01])", re.IGNORECASE)
"""``OUT1`` and ``OUT0``: the value stands in the header."""
_CHANNELS: Final = re.compile(r"\(@([0-9]{1,3}):([0-9]{1,3})\)")
_MOST_CHANNELS: Final = 64


@dataclass(frozen=True, slots=True)
class Told:
    """One message that sets something: which output, and to what."""

    output: str
    value: str


def tellings(line: str) -> tuple[Told, ...]:
    """What a line sets, message by message; a channel list (``(@1:3)``) is so many outputs."""
    return tuple(told for message in messages(line) for told in _told(message))


def output_names(profile: Profile) -> tuple[str, ...]:
    """The outputs that the profile's abort makes safe, in its order."""
    return _made_safe(tuple(profile.abort_lines))[0]


@lru_cache(maxsize=64)
def _made_safe(abort_lines: tuple[str, ...]) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The outputs that an abort takes back, and what it tells each; asked at every write."""
    found = (
        told.output for line in abort_lines if is_switching_off(line) for told in tellings(line)
    )
    safe = {told.output: told.value for line in abort_lines for told in tellings(line)}
    return tuple(dict.fromkeys(found)), safe


def is_switching_off(line: str) -> bool:
    """Whether a line of an abort takes an output back, and does more than end a measurement."""
    if works_switch(line):
        return True
    return any(told.value and _SELECTS.match(told.output) is None for told in tellings(line))


def told_by(profile: Profile, command: Command, lines: Sequence[str]) -> frozenset[str]:
    """The outputs that a command tells to put something out; ``ANYTHING`` where nobody knows.

    Args:
        lines: the command's own, rendered.
    """
    if command.is_safe or (command.is_query and not command.is_dangerous):
        return frozenset()
    if any(map(is_recalling, lines)):
        return frozenset({ANYTHING})
    known, safe = _made_safe(tuple(profile.abort_lines))
    found = frozenset(
        told.output
        for line in lines
        for told in tellings(line)
        if told.output in known and not means_same(told.value, safe[told.output])
    )
    if found or not command.is_dangerous or command.name in profile.abort_excludes:
        return found
    return frozenset({ANYTHING})


def told_raw(profile: Profile | None, line: str) -> frozenset[str]:
    """The outputs that a raw line tells; one that no profile knows may tell any of them."""
    if profile is None:
        return frozenset({ANYTHING}) if any(map(_may_set, messages(line))) else frozenset()
    found: frozenset[str] = frozenset()
    for part in identify(profile, line):
        found |= _told_by_part(profile, part)
    return found


def _told_by_part(profile: Profile, part: RawPart) -> frozenset[str]:
    if part.is_certain:
        try:
            return frozenset().union(
                *(
                    told_by(profile, match.command, render_lines(match.command, values))
                    for match in part.matches
                    for values in match.readings
                )
            )
        except EdgedError:
            # Another line of the command has what this one does not say.
            return frozenset({ANYTHING})
    may_set = any(map(_may_set, messages(part.text)))
    return frozenset({ANYTHING}) if may_set else frozenset()


def _may_set(message: Message) -> bool:
    header = ":".join(message.nodes).upper()
    return bool(header) and not message.is_query and header not in HARMLESS


def means_same(one: str, other: str) -> bool:
    """Whether two words of the wire are the same truth, number or word."""
    one, other = one.strip().strip('"').upper(), other.strip().strip('"').upper()
    if one == other:
        return True
    if one in TRUTHS and other in TRUTHS:
        return TRUTHS[one] is TRUTHS[other]
    number, another = number_with_suffix(one), number_with_suffix(other)
    return number is not None and number == another


def _told(message: Message) -> Iterator[Told]:
    header = ":".join((*message.path, *message.nodes)).upper()
    if message.is_query or not header:
        return
    bare = _BARE_SWITCH.fullmatch(header)
    if bare is not None:
        yield Told(bare.group(1).upper(), bare.group(2))
        return
    arguments = message.arguments
    if not arguments:
        yield Told(header, "")
        return
    value, beside = arguments[-1], arguments[:-1]
    if beside and value.startswith("(@"):
        # "OFF,(@1)": the channel list stands behind.
        value, beside = arguments[0], arguments[1:]
    for channel in _channels(beside):
        yield Told(f"{header} {','.join(channel)}".strip(), value)


def _channels(beside: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    found = _CHANNELS.fullmatch(beside[-1]) if beside else None
    if found is None:
        yield tuple(word.upper() for word in beside)
        return
    first, last = int(found.group(1)), int(found.group(2))
    for number in range(first, min(last, first + _MOST_CHANNELS) + 1):
        yield (*(word.upper() for word in beside[:-1]), f"(@{number})")
