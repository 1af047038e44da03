"""Raw SCPI → what it is: each message unit is known, common or unknown, and nothing else.

A unit is *known* if it is a command or query of the profile, however it is spelled, with every
argument bound to a parameter and nothing left over. It is *common* if it is one of IEEE 488.2's
queries below, or the profile's error query, without an argument. Everything else is *unknown*: a
write that may do anything. A line is as its weakest unit (docs/raw-scpi.md).

Some values do not stand in a line: the channel that was selected before, or a suffix left out, by
which some instruments mean the selected channel (Rigol DP800) and not the first. ``readings`` then
holds every possibility, and all of them must be allowed.

A number with a unit has two readings. SCPI-99 lets ``30mV`` be 0.03; many instruments read the
number and pass over what they do not understand, and set 30.

A source of voltage or current may have one header for its level (Yokogawa GS200: ``:SOUR:LEV``);
its function decides which. A limit of amperes then says nothing about volts. Pure.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import replace
from typing import Concatenate, Final, Generic, NamedTuple, ParamSpec, TypeVar

from edged.profiles import model
from edged.profiles.headers import HeaderEntry, HeaderReader, Headers, Sender, Spelling
from edged.profiles.template import Hole, Part, Text, labels, parse_template, possible_values
from edged.record import record
from edged.scpi.answer_text import unquoted
from edged.scpi.errors import is_same_question
from edged.scpi.line import LONGEST_KEPT, Message, is_query, messages, split_compound
from edged.scpi.numbers import NUMBER, number_with_suffix, read_number
from edged.scpi.words import Captures, match_argument, match_header
from edged.yaml.tree import Scalar

_TRUTHS: Final[Mapping[str, bool]] = {"ON": True, "1": True, "OFF": False, "0": False}
_LEADING_NUMBER: Final = re.compile(NUMBER)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_TSP_PRINT: Final = re.compile(r"\s*print(?:buffer|number)?\s*\(")
"""A line of the Test Script Processor (Keithley) that is answered."""
_STRING: Final = re.compile("\"[^\"]*\"|'[^']*'")
_NUMBERS: Final = frozenset({model.ParameterType.FLOAT, model.ParameterType.INT})


def value_choices(parameter: model.Parameter, text: str | None) -> list[Scalar]:
    """The values that a text may mean; a suffix that was left out may mean the selected channel."""
    if text is not None:
        value = _value(parameter, text)
        return [] if value is None else [value]
    first = _value(parameter, "1")
    others = [value for value in possible_values(parameter) if value != first]
    return others if first is None else [first, *others]


def bare_choices(parameter: model.Parameter, text: str | None) -> list[Scalar] | None:
    """What an instrument that ignores units takes a number for; ``None`` where it has no unit."""
    if text is None or parameter.type not in _NUMBERS or labels(parameter):
        return None
    bare = unquoted(text).strip()
    number = _LEADING_NUMBER.match(bare)
    if number is None or number.end() == len(bare):
        return None
    value = _value(parameter, number.group())
    return [] if value is None else [value]


def _value(parameter: model.Parameter, text: str) -> Scalar | None:
    """A raw argument as its parameter's value or label; ``None`` when it cannot be read."""
    bare = unquoted(text)
    if parameter.type is model.ParameterType.BOOL:
        label = _label(parameter, bare)
        return None if label is None else label == str(True)
    if labels(parameter):
        return _label(parameter, bare)
    if parameter.type is model.ParameterType.STRING:
        return bare
    # Upper case, because SCPI does not tell cases apart: "10mhz" sent is ten megahertz.
    number = read_number(bare.upper())
    if number is None:
        number = number_with_suffix(bare.upper(), parameter.unit, is_strict=True)
    if number is None:
        return None
    if parameter.type is model.ParameterType.FLOAT:
        return float(number)
    return int(number) if float(number).is_integer() else None


@functools.lru_cache(maxsize=1024)
def _wires(parameter: model.Parameter) -> Mapping[str, str]:
    """The labels by what stands for them on the wire."""
    is_bool = parameter.type is model.ParameterType.BOOL
    values: Iterable[Scalar] = (True, False) if is_bool else labels(parameter)
    return {unquoted(model.wire_text(value, parameter)): str(value) for value in values}


def _label(parameter: model.Parameter, text: str) -> str | None:
    """The label whose wire value a text is, the exact spelling first."""
    wires, upper = _wires(parameter), text.upper()
    for wire, label in wires.items():
        if wire.upper() == upper:
            return label
    number = read_number(text)
    for wire, label in wires.items():
        if _is_equal(wire, text, number):
            return label
    return None


def _is_equal(wire: str, text: str, number: float | None) -> bool:
    """Another spelling of one value: ``VOLTAGE:DC`` and ``VOLT``, ``1.0`` and ``1``."""
    if wire.upper() in _TRUTHS and text.upper() in _TRUTHS:
        return _TRUTHS[wire.upper()] == _TRUTHS[text.upper()]
    if number is not None:
        return number == read_number(wire)
    return len(text) <= LONGEST_KEPT and match_header(wire.split(":"), text.split(":")) is not None


S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

MAX_LINE: Final = 65_536
"""Characters of a message that is judged, its blocks apart."""

MAX_MESSAGES: Final = 64
"""Message units of a line that is judged."""

_MOST_READINGS: Final = 64
"""More possibilities than this are as good as unknown."""

_MOST_MATCHES: Final = 1_024
"""Possibilities of a line that are worked out; a message beyond them is unknown."""

ASKED: Final = model.Command(name="", scpi=(), is_query=True)
"""Stands for what the engine asks by itself: no caller can name it."""

MOST_NAMED: Final = 6
"""Commands that are named in a refusal."""

MOST_KEPT: Final = 256
"""Lines that were judged lately."""


class LineClass(enum.IntEnum):
    """What a message unit is; a line is as its highest."""

    COMMON = 0
    KNOWN = 1
    UNKNOWN = 2


_Choices = Mapping[str, tuple[Scalar, ...]]


class RawMatch(NamedTuple):
    """One command that a message may be.

    Attributes:
        choices: the values that each parameter may have; more than one mapping where it may be
            several lines of its command.
        bare: the same for an instrument that ignores units in numbers, where that makes others.
        unknown: parameters whose value cannot be read (``MAX``, a channel range, a missing one).
        is_certain: false when ``unknown`` holds a name, or the arguments do not fit the command.
        holes: parameters that have their place in this very message of the command.
        is_fitting: the arguments are the command's, whether or not their values can be read.
        changes: what this very message of the command changes that it does not name.
    """

    command: model.Command
    choices: tuple[_Choices, ...]
    bare: tuple[_Choices, ...] = ()
    unknown: frozenset[str] = frozenset()
    is_certain: bool = True
    holes: frozenset[str] = frozenset()
    is_fitting: bool = True
    changes: model.Changes | None = None

    @property
    def readings(self) -> tuple[Mapping[str, Scalar], ...]:
        """The values that it may carry, likeliest first; every one must be allowed."""
        return _combined(self.choices)

    @property
    def unitless(self) -> tuple[Mapping[str, Scalar], ...]:
        """The same by ``bare``; of a raw line they must be allowed as well."""
        return _combined(self.bare)


@record
class RawPart:
    """One message unit of a line; ``matches`` are the commands that it may be, likeliest first.

    All of them must be allowed for the line to be. An unknown unit may have some, too: the commands
    whose header it has, with arguments that they have not.

    Attributes:
        kind: what it is.
        is_query: an answer will come.
        is_declared: that stands in the profile, and cannot be seen (it has no ``?``).
        beside: commands that send such a message, too, and of which this one does not tell all:
            it is not they, and yet their limits hold for the values that it carries.
        makes_safe: by every header that it may have, it is what a safe command sends.
    """

    text: str
    kind: LineClass
    is_query: bool
    is_declared: bool = False
    matches: tuple[RawMatch, ...] = ()
    beside: tuple[RawMatch, ...] = ()
    makes_safe: bool = False

    @property
    def command(self) -> model.Command | None:
        """The likeliest command."""
        return self.matches[0].command if self.matches else None

    @property
    def values(self) -> Mapping[str, Scalar]:
        """The likeliest values of the likeliest command; labels, not wire values."""
        return self.matches[0].readings[0] if self.matches else {}

    @property
    def is_certain(self) -> bool:
        """Whether it has a command, and every value in it is known."""
        return bool(self.matches) and all(match.is_certain for match in self.matches)

    @property
    def is_unknown(self) -> bool:
        """Whether it may do anything."""
        return self.kind is LineClass.UNKNOWN

    @property
    def is_harmless(self) -> bool:
        """Whether it certainly changes nothing but what waits to be read."""
        if self.kind is LineClass.COMMON:
            return self.is_query
        is_asking = self.kind is LineClass.KNOWN and self.is_query
        return is_asking and not any(match.command.is_write for match in self.matches)


COMMON: Final = frozenset({"*IDN?", "*OPT?", "*OPC?", "*STB?", "*ESR?", "*CLS"})
"""Who an instrument is, how it stands, and clearing that: RAW_SCPI forbids it nobody."""
ERROR_QUERY: Final = "SYST:ERR?"
"""The error query of a unit that has no profile (SCPI-99 volume 2, 21.8)."""


def is_common(message: Message, error_query: str) -> bool:
    """Whether a unit is one of ``COMMON`` or the error query, without an argument."""
    if not message.is_formed:
        return False
    if message.text.upper() in COMMON:
        return True
    own = error_query.upper().lstrip(":")
    if not own or is_same_question(message.text, own):
        return bool(own)
    if message.arguments or not message.is_query or not own.endswith("?"):
        return False
    header = own.rstrip("?").split(":")
    headers = (*message.headers, message.nodes)
    return any(match_header(header, nodes) is not None for nodes in headers)


def class_of(parts: Collection[RawPart]) -> LineClass:
    """The class of a line: that of its weakest unit. An empty one is unknown."""
    return max((part.kind for part in parts), default=LineClass.UNKNOWN)


class KeptByProfile(Generic[S, P, R]):
    """``kept``, of what a profile says of a line: by its identity, for it has no hash.

    The profile is kept beside what was found, so that no other can take its place.
    """

    def __init__(self, judge: Callable[Concatenate[S, str, P], R]) -> None:
        self._judge = judge
        self.found: dict[tuple[object, ...], tuple[S, R]] = {}

    def __call__(self, profile: S, line: str, *more: P.args, **named: P.kwargs) -> R:
        """What the function says."""
        key = (id(profile), line, *more, *named.values())
        known = self.found.get(key)
        if known is not None and known[0] is profile:
            return known[1]
        made = self._judge(profile, line, *more, **named)
        if len(line) <= LONGEST_KEPT:
            if len(self.found) >= MOST_KEPT:
                self.found.clear()
            self.found[key] = (profile, made)
        return made


_Find = Callable[[tuple[str, ...], bool, tuple[str, ...]], list[RawMatch]]
"""A header from the root, whether it asks, and the arguments → what they may be."""


@KeptByProfile
def identify(profile: model.Profile | None, line: str) -> tuple[RawPart, ...]:
    """What a line is, unit by unit; never raises, in time linear in its length.

    A line beyond the bounds is one unknown unit. Of a unit without a profile only what is common is
    known.
    """
    if len(line) > MAX_LINE:
        return (RawPart(text=line, kind=LineClass.UNKNOWN, is_query=False),)
    found = list(itertools.islice(messages(line), MAX_MESSAGES + 1))
    if len(found) > MAX_MESSAGES:
        return (RawPart(text=line, kind=LineClass.UNKNOWN, is_query=False),)
    if profile is None:
        return tuple(_common_or_unknown(message, ERROR_QUERY) for message in found)
    # Programs repeat themselves: what a header with its arguments may be is found once in a line.
    find = functools.cache(_Finder(_headers(profile, "")))
    return tuple(_part(profile, message, find) for message in found)


class _Finder:
    """Finds what a line's messages may be, and nothing more once there was ``_MOST_MATCHES``."""

    def __init__(self, headers: Headers) -> None:
        self._headers = headers
        self._left = _MOST_MATCHES

    def __call__(
        self, nodes: tuple[str, ...], is_query: bool, written: tuple[str, ...]
    ) -> list[RawMatch]:
        """The same as ``_Find``."""
        if self._left <= 0:
            return []
        found = _judged_all(self._headers.find(nodes, is_query=is_query), written)
        self._left -= len(found)
        return found


def _common_or_unknown(message: Message, error_query: str) -> RawPart:
    is_known = is_common(message, error_query)
    is_declared = is_known and not message.is_query and message.text.upper() not in COMMON
    return RawPart(
        text=message.text,
        kind=LineClass.COMMON if is_known else LineClass.UNKNOWN,
        is_query=message.is_query or is_declared,
        is_declared=is_declared,
    )


@KeptByProfile
def _headers(profile: model.Profile, _line: str) -> Headers:
    return Headers(profile)


def _part(profile: model.Profile, message: Message, find: _Find) -> RawPart:
    error_query = profile.connection.errors.query
    if is_common(message, error_query):
        return _common_or_unknown(message, error_query)
    headers = _headers(profile, "")
    is_declared = not message.is_query and headers.is_declared(message.text)
    found = _found(headers, message, find)
    return RawPart(
        text=message.text,
        kind=LineClass.KNOWN if found.is_known else LineClass.UNKNOWN,
        is_query=message.is_query or is_declared,
        is_declared=is_declared,
        matches=found.matches,
        beside=found.beside,
        makes_safe=found.makes_safe,
    )


def judged_parts(
    profile: model.Profile | None, line: str, allowed: Collection[str]
) -> tuple[RawPart, ...]:
    """What a line is to a unit whose owner has listed more lines as harmless (``allow_raw``)."""
    parts = identify(profile, line)
    found = tuple(itertools.islice(messages(line), MAX_MESSAGES + 1)) if allowed else ()
    if class_of(parts) is not LineClass.UNKNOWN or len(found) != len(parts):
        return parts
    return tuple(
        replace(part, kind=LineClass.KNOWN, matches=(), beside=())
        if part.is_unknown and any(_is_same_unit(one, message) for one in allowed)
        else part
        for part, message in zip(parts, found, strict=True)
    )


def nearest_commands(profile: model.Profile, part: RawPart) -> tuple[str, ...]:
    """The commands that come nearest to a unit: those of its header, or of its first mnemonic."""
    named = [match.command.name for match in (*part.matches, *part.beside)]
    message = next(iter(messages(part.text[:LONGEST_KEPT])), None)
    if not named and message is not None:
        named = list(_headers(profile, "").beginning(message.nodes))
    return tuple(dict.fromkeys(named))[:MOST_NAMED]


def _is_same_unit(allowed: str, other: Message) -> bool:
    """Whether a unit is the one that an owner wrote, in any SCPI spelling, its arguments too."""
    (one,) = messages(allowed)
    return (
        other.is_formed
        and not other.path
        and one.is_query == other.is_query
        and len(one.arguments) == len(other.arguments)
        and match_header(one.nodes, other.nodes) == ({}, 0)
        and all(a.upper() == b.upper() for a, b in zip(one.arguments, other.arguments, strict=True))
    )


def addresses_another(profile: model.Profile, line: str) -> str:
    """The part of a line that may address another unit of the same port; empty: none does.

    Args:
        profile: of the unit, with its address in it.
    """
    bus = profile.connection.bus_address
    if not bus:
        return ""
    before = tuple(own for own in profile.connection.before if bus in own)
    for unit in itertools.islice(messages(line), MAX_MESSAGES):
        if any(_addresses(own, bus, unit) for own in before):
            return unit.text
        # Where no line addresses a unit, each line says by itself whom it is for.
        if not before and not _begins_with(unit.text, bus):
            parts = identify(profile, unit.text)
            if class_of(parts) is LineClass.UNKNOWN:
                return unit.text
    return ""


def _addresses(own: str, bus: str, unit: Message) -> bool:
    """Whether a unit is like the line that addresses, and not that line."""
    if is_same_question(unit.text, own):
        return False
    stem, text = (_tight(part) for part in (own.rpartition(bus)[0], unit.text))
    if stem and text.startswith(stem):
        return True
    first = next(iter(messages(own)), None)
    headers = (*unit.headers, unit.nodes)
    return first is not None and any(match_header(first.nodes, nodes) for nodes in headers)


def _begins_with(text: str, bus: str) -> bool:
    found = re.match(rf"\W{{0,2}}{re.escape(bus)}(.?)", text, re.IGNORECASE)
    return found is not None and not (bus[-1].isdigit() and found[1].isdigit())


def _tight(text: str) -> str:
    return "".join(text.upper().split()).lstrip(":")


def asks(profile: model.Profile | None, line: str) -> bool:
    """Whether an answer to a line will come: some message of it asks, or its profile says so.

    The one judge of what is a question; without a profile ``?`` marks one, and TSP's ``print``.
    """
    if is_query(line) or _TSP_PRINT.match(line) is not None:
        return True
    if profile is None or len(line) > MAX_LINE:
        return False
    headers = _headers(profile, "")
    return any(map(headers.is_declared, (line.strip(), *split_compound(line))))


def sets(profile: model.Profile | None, line: str) -> bool:
    """Whether a line sets something, a query that its profile calls a write among them."""
    if not asks(profile, line):
        return True
    parts = identify(profile, line)
    return any(match.command.is_write for part in parts for match in part.matches)


def question_by_heart(connection: model.Connection) -> str:
    """What an idle unit is asked: its probe, else who it is; empty where nothing is known."""
    if connection.probe is not None:
        return connection.probe.query
    if connection.identify is not None:
        return connection.identify.ask
    return "" if connection.never_ask_idn else "*IDN?"


@record
class _Found:
    """What a profile has for a unit.

    Attributes:
        matches: the commands that it may be: certain ones, or where there are none, all.
        beside: beside certain ones, those that send such a message, too, for its values.
        is_known: by every header that the standard gives it, it is a command, or a query of the
            engine's own.
        makes_safe: by every header that it may have, it is what a safe command sends.
    """

    matches: tuple[RawMatch, ...]
    beside: tuple[RawMatch, ...]
    is_known: bool
    makes_safe: bool


def _found(headers: Headers, message: Message, find: _Find) -> _Found:
    """What a profile has for a unit.

    Some instruments continue the header before it, some start from the root: what it may be there
    is judged, too.
    """
    is_plain_other = message.is_plain and not message.is_formed
    # No SCPI: perhaps the whole text is a line of the profile that is none, either.
    exact = _judged_all(headers.find_exactly(message.text)) if is_plain_other else []
    by_standard, is_known = message.headers, message.is_formed
    if exact:
        every = needed = [exact]
        is_known = True
    else:
        every = [
            find(nodes, message.is_query, message.arguments)
            for nodes in dict.fromkeys((*by_standard, message.nodes))
        ]
        needed = every[: len(by_standard)]
    is_known = is_known and all(any(match.is_certain for match in one) for one in needed)
    found = [match for one in every for match in one if match.command is not ASKED]
    certain = [match for match in found if match.is_certain]
    by_name: dict[str, RawMatch] = {}
    for match in certain or found:
        name = match.command.name
        known = by_name.get(name)
        by_name[name] = match if known is None else _joined(known, match)
    beside = tuple(
        match
        for match in (found if certain else ())
        if not match.is_certain and match.is_fitting and match.command.name not in by_name
    )
    makes_safe = is_known and all(_makes_safe(one) for one in every if one)
    return _Found(
        matches=tuple(by_name.values()), beside=beside, is_known=is_known, makes_safe=makes_safe
    )


def _makes_safe(matches: Iterable[RawMatch]) -> bool:
    """Whether a message does no more than safe commands do, which nothing may hold back.

    It may be a line of another command, too; the same bytes have the same effect.
    """
    certain = [match.command for match in matches if match.is_certain]
    is_whole = any(command.is_safe and len(command.scpi) == 1 for command in certain)
    return is_whole or (bool(certain) and all(command.is_safe for command in certain))


def _joined(one: RawMatch, other: RawMatch) -> RawMatch:
    """Two lines of one command, or one line on two paths: all their readings must be allowed."""
    command, choices, bare, unknown, is_certain, holes, is_fitting, changes = one
    changes = changes or other.changes
    if choices != other.choices and not _are_read_alike(choices, other.choices):
        choices += () if other.choices[0] in choices else other.choices
        bare += () if not other.bare or other.bare[0] in bare else other.bare
        unknown |= other.unknown
        holes |= other.holes
    elif changes is one.changes:
        return one
    return RawMatch(command, choices, bare, unknown, is_certain, holes, is_fitting, changes)


def _are_read_alike(some: tuple[_Choices, ...], more: tuple[_Choices, ...]) -> bool:
    """Whether two have the same readings, compared one by one only where that can be."""
    # Readings with other names are others, however many there are.
    has_others = some[0].keys() != more[0].keys() or some[-1].keys() != more[0].keys()
    return len(some) > 1 and not has_others and _combined(some) == _combined(more)


def _judged_all(
    found: Iterable[tuple[list[HeaderEntry], Captures, int]],
    arguments: tuple[str, ...] | None = None,
) -> list[RawMatch]:
    """What these spellings mean by a message with these arguments, likeliest first.

    Args:
        arguments: ``None``: the whole text is the spelling's.
    """
    ranked: tuple[list[tuple[int, RawMatch]], ...] = ([], [])
    initials = {"", arguments[0].lstrip()[:1].upper()} if arguments else None
    for entries, captures, rank in found:
        spelling = entries[0].spelling
        is_other = initials is not None and spelling.initial not in initials
        written = None if is_other else _written(spelling, captures, arguments)
        for entry in entries:
            ranked[rank].extend(_misfits(entry) if written is None else _read_all(entry, written))
    return [match for one in ranked for _, match in sorted(one)]


def _is_plain_number(parameter: model.Parameter, text: str) -> bool:
    """Whether a number inside of a word or a list is read as this everywhere; true of no number.

    Only of a number by itself does SCPI say what an exponent or a unit is; an instrument may read
    others as far as it understands them. A channel that a unit does not have may be another of its
    own: ``CH4294967297`` in 32 bits is ``CH1``.
    """
    if parameter.type not in _NUMBERS or labels(parameter):
        return True
    if _DECIMAL.fullmatch(text) is None:
        return False
    lowest, highest = parameter.min, parameter.max
    return parameter.type is model.ParameterType.FLOAT or not (
        (lowest is not None and float(text) < lowest)
        or (highest is not None and float(text) > highest)
    )


class _Written(NamedTuple):
    """What stands at the placeholders of a spelling, by their names.

    Attributes:
        texts: ``None``: a numeric suffix that was left out.
        mixed: those where two texts stand.
        inside: those whose value is not by itself.
        missing: those of arguments that were left out.
    """

    texts: Mapping[str, str | None]
    mixed: Set[str]
    inside: Set[str]
    missing: Set[str]


def _written(
    spelling: Spelling, header: Captures, arguments: tuple[str, ...] | None
) -> _Written | None:
    """What stands at the placeholders, by what stood in the header; ``None``: they do not fit."""
    holes, known = spelling.holes, spelling.arguments
    if arguments is None:
        return _named(spelling, header, header.keys(), frozenset())
    if len(arguments) > len(known):
        return None
    found = []
    for argument, raw in zip(known, arguments, strict=False):
        is_bare = argument.is_quoted and _STRING.fullmatch(raw) is None
        one = None if is_bare else match_argument(argument.text, raw)
        if one is None:
            return None
        found.append(one)
    missing: set[str] = set()
    for argument in known[len(arguments) :]:
        if not argument.holes:
            return None
        # Without a list of channels instruments take the selected ones.
        if not argument.is_channels:
            missing.update(holes[number] for number in argument.holes)
    captures = dict(header)
    for one in found:
        captures |= one
    return _named(spelling, captures, spelling.inside, missing)


def _named(spelling: Spelling, captures: Captures, inside: Set[int], missing: Set[str]) -> _Written:
    holes = spelling.holes
    texts = {holes[number]: text for number, text in captures.items()}
    mixed: Set[str] = frozenset()
    if len(texts) < len(captures):
        mixed = {holes[n] for n, text in captures.items() if texts[holes[n]] != text}
    return _Written(
        texts=texts,
        mixed=mixed,
        inside={holes[n] for n in captures if n in inside},
        missing=missing,
    )


@functools.lru_cache(maxsize=8192)
def _misfits(entry: HeaderEntry) -> list[tuple[int, RawMatch]]:
    """What is sent by the header of an entry with arguments that it has not."""
    return [
        (
            place,
            RawMatch(
                command=command or ASKED,
                choices=({},),
                unknown=frozenset(entry.readers),
                is_certain=False,
                holes=entry.spelling.names,
                is_fitting=False,
                changes=changes,
            ),
        )
        for place, command, changes in entry.senders
    ]


def _read_all(entry: HeaderEntry, written: _Written) -> list[tuple[int, RawMatch]]:
    """What the texts mean for each sender of the entry, by its place; they are read once."""
    senders = entry.senders
    match = _read(entry, written, senders[0])
    found = [(senders[0].place, match)]
    if len(senders) > 1:
        found += [
            (place, RawMatch(command or ASKED, *match[1:-1], changes))
            for place, command, changes in senders[1:]
        ]
    return found


def _read(entry: HeaderEntry, written: _Written, sender: Sender) -> RawMatch:
    """Values for the texts, and the possibilities of those that do not stand there."""
    texts, quoted = written.texts, entry.spelling.quoted
    known, unknown = dict(entry.choices), set(entry.unlisted)
    bare: dict[str, tuple[Scalar, ...]] = {}
    if entry.strangers:
        unknown |= texts.keys() & entry.strangers
    unsure = set(written.missing - entry.may_lack) if written.missing else set()
    for name in entry.here:
        reader = entry.readers[name]
        if name in texts:
            meaning = _meaning(reader, texts[name], name in quoted)
            choices, is_read = meaning.choices, meaning.is_read and name not in written.mixed
            if meaning.bare is not None:
                bare[name] = meaning.bare
            if name in written.inside and not meaning.is_plain:
                unsure.add(name)
        elif name in entry.may_lack:
            del known[name]
            continue
        else:
            choices = reader.possible
            is_read = bool(choices)
        if is_read:
            known[name] = choices
        else:
            del known[name]
            unknown.add(name)
    unitless = ({**known, **bare},) if bare else ()
    if math.prod(map(len, known.values())) > _MOST_READINGS:
        unknown |= {name for name, values in known.items() if len(values) > 1}
        known = {name: values[:1] for name, values in known.items()}
    unknown |= unsure
    # By position: this is done for each of many commands that send such a line.
    return RawMatch(
        sender.command or ASKED,
        (known,),
        unitless,
        frozenset(unknown),
        not unknown,
        entry.spelling.names,
        True,
        sender.changes,
    )


class _Meaning(NamedTuple):
    """What a text means where a parameter stands.

    Attributes:
        choices: the values that it may have.
        bare: those of an instrument that ignores units, where they are others.
        is_read: it is one argument, and has a value either way.
        is_plain: inside of a word or a list, too.
    """

    choices: tuple[Scalar, ...]
    bare: tuple[Scalar, ...] | None
    is_read: bool
    is_plain: bool


def _mean(reader: HeaderReader, text: str | None, is_quoted: bool) -> _Meaning:
    parameter = reader.parameter
    choices, bare = value_choices(parameter, text), bare_choices(parameter, text)
    is_argument = _is_argument(parameter, text, is_quoted=is_quoted)
    return _Meaning(
        choices=tuple(choices),
        bare=None if bare is None or bare == choices else tuple(bare),
        is_read=is_argument and bool(choices) and bare != [],
        is_plain=text is None or _is_plain_number(parameter, text),
    )


_mean_again = functools.lru_cache(maxsize=4096)(_mean)


def _meaning(reader: HeaderReader, text: str | None, is_quoted: bool) -> _Meaning:
    """What a text means; of short ones it is remembered for a while."""
    is_short = text is None or len(text) <= LONGEST_KEPT
    return (_mean_again if is_short else _mean)(reader, text, is_quoted)


def _is_argument(parameter: model.Parameter, text: str | None, *, is_quoted: bool) -> bool:
    """Whether a text is no more than one argument: one string, or a word without marks of SCPI.

    Args:
        is_quoted: the template writes it as a quoted string.
    """
    if text is None:
        return True
    if _STRING.fullmatch(text) is not None:
        wires = (model.wire_text(name, parameter) for name in labels(parameter))
        return is_quoted or any(map(_STRING.fullmatch, wires))
    if parameter.type is not model.ParameterType.STRING:
        return True
    marks = "\"'" if is_quoted else "\"';,( "
    return not text.startswith("#") and not set(text) & set(marks)


def _combined(choices: tuple[_Choices, ...]) -> tuple[Mapping[str, Scalar], ...]:
    """Every combination of these choices, once each."""
    found: list[Mapping[str, Scalar]] = []
    for one in choices:
        for values in itertools.islice(itertools.product(*one.values()), _MOST_READINGS):
            reading = dict(zip(one, values, strict=True))
            if len(choices) == 1 or reading not in found:
                found.append(reading)
    return tuple(found)


def means_another_unit(command: model.Command, template: str, other: model.Command) -> bool:
    """Whether a template has another unit where a line of another command has its value.

    Only where the two templates are alike but for their placeholders; a unit that is not told is
    any unit.
    """
    parts = parse_template(template)
    for theirs in map(parse_template, other.scpi):
        if len(parts) != len(theirs) or not all(map(_is_alike, parts, theirs)):
            continue
        for mine, own in zip(parts, theirs, strict=True):
            if isinstance(mine, Hole) and isinstance(own, Hole):
                units = command.parameters[mine.name].unit, other.parameters[own.name].unit
                if all(units) and units[0] != units[1]:
                    return True
    return False


def in_its_unit(part: RawPart, command: model.Command, template: str) -> RawPart:
    """A message of a command without what means another unit by it."""
    matches, beside = (
        tuple(one for one in found if not means_another_unit(command, template, one.command))
        for found in (part.matches, part.beside)
    )
    return replace(part, matches=matches, beside=beside)


def _is_alike(one: Part, other: Part) -> bool:
    match one, other:
        case Text(text=a), Text(text=b):
            return a.casefold() == b.casefold()
        case Hole(), Hole():
            return True
        case _:
            return False
