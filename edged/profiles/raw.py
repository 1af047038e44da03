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
import re
import string
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Concatenate, Final, Generic, ParamSpec, TypeVar

from edged.profiles.headers import Entry, Headers
from edged.profiles.model import (
    Changes,
    Command,
    Connection,
    Parameter,
    ParameterType,
    Profile,
    Scalar,
)
from edged.profiles.template import (
    Hole,
    Part,
    Text,
    labels,
    parse_template,
    possible_values,
    wire_text,
)
from edged.scpi.answer_text import read_number, unquoted
from edged.scpi.line import LONGEST_KEPT, Message, is_query, messages, split_compound
from edged.scpi.numbers import NUMBER, number_with_suffix
from edged.scpi.words import FIRST_HOLE, Captures, match_argument, match_header

__all__ = [
    "KeptByProfile",
    "LineClass",
    "RawMatch",
    "RawPart",
    "asks",
    "bare_choices",
    "class_of",
    "identify",
    "in_its_unit",
    "judged_parts",
    "means_another_unit",
    "nearest_commands",
    "question_by_heart",
    "value_choices",
]

_TRUTHS: Final[Mapping[str, bool]] = {"ON": True, "1": True, "OFF": False, "0": False}
_LEADING_NUMBER: Final = re.compile(NUMBER)
_INSIDE: Final = frozenset(string.ascii_letters + "(")
"""What an argument begins with in which a number is not by itself: ``CH1``, ``(@1)``."""
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_STRING: Final = re.compile("\"[^\"]*\"|'[^']*'")
_NUMBERS: Final = frozenset({ParameterType.FLOAT, ParameterType.INT})


def value_choices(parameter: Parameter, text: str | None) -> list[Scalar]:
    """The values that a text may mean; a suffix that was left out may mean the selected channel."""
    if text is not None:
        value = _value(parameter, text)
        return [] if value is None else [value]
    first = _value(parameter, "1")
    others = [value for value in possible_values(parameter) if value != first]
    return others if first is None else [first, *others]


def bare_choices(parameter: Parameter, text: str | None) -> list[Scalar] | None:
    """What an instrument that ignores units takes a number for; ``None`` where it has no unit."""
    if text is None or parameter.type not in _NUMBERS or labels(parameter):
        return None
    bare = unquoted(text).strip()
    number = _LEADING_NUMBER.match(bare)
    if number is None or number.end() == len(bare):
        return None
    value = _value(parameter, number.group())
    return [] if value is None else [value]


def _value(parameter: Parameter, text: str) -> Scalar | None:
    """A raw argument as its parameter's value or label; ``None`` when it cannot be read."""
    bare = unquoted(text)
    if parameter.type is ParameterType.BOOL:
        return _truth(parameter, bare)
    names = labels(parameter)
    if names:
        return _label({unquoted(wire_text(name, parameter)): name for name in names}, bare)
    if parameter.type is ParameterType.STRING:
        return bare
    # Upper case, because SCPI does not tell cases apart: "10mhz" sent is ten megahertz.
    number = read_number(bare.upper())
    if number is None:
        number = number_with_suffix(bare.upper(), parameter.unit, is_strict=True)
    if number is None:
        return None
    if parameter.type is ParameterType.FLOAT:
        return float(number)
    return int(number) if float(number).is_integer() else None


def _truth(parameter: Parameter, text: str) -> bool | None:
    wires = {unquoted(wire_text(value, parameter)): str(value) for value in (True, False)}
    label = _label(wires, text)
    return None if label is None else label == str(True)


def _label(labels_by_wire: Mapping[str, str], text: str) -> str | None:
    """The label whose wire value a text is, the exact spelling first."""
    for is_same in (_is_spelled, _is_equal):
        for wire, label in labels_by_wire.items():
            if is_same(wire, text):
                return label
    return None


def _is_spelled(wire: str, text: str) -> bool:
    return wire.upper() == text.upper()


def _is_equal(wire: str, text: str) -> bool:
    """Another spelling of one value: ``VOLTAGE:DC`` and ``VOLT``, ``1.0`` and ``1``."""
    if wire.upper() in _TRUTHS and text.upper() in _TRUTHS:
        return _TRUTHS[wire.upper()] == _TRUTHS[text.upper()]
    number = read_number(text)
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

ASKED: Final = Command(name="", scpi=(), is_query=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMatch:
    """One command that a message may be.

    Attributes:
        readings: the values that it may carry, likeliest first; every one must be allowed.
        unitless: the same for an instrument that ignores units in numbers, where that makes others;
            of a raw line they must be allowed as well.
        unknown: parameters whose value cannot be read (``MAX``, a channel range, a missing one).
        is_certain: false when ``unknown`` holds a name, or the arguments do not fit the command.
        holes: parameters that have their place in this very message of the command.
        is_fitting: the arguments are the command's, whether or not their values can be read.
        changes: what this very message of the command changes that it does not name.
    """

    command: Command
    readings: tuple[Mapping[str, Scalar], ...]
    unitless: tuple[Mapping[str, Scalar], ...] = ()
    unknown: frozenset[str] = frozenset()
    is_certain: bool = True
    holes: frozenset[str] = frozenset()
    is_fitting: bool = True
    changes: Changes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """

    text: str
    kind: LineClass
    is_query: bool
    is_declared: bool = False
    matches: tuple[RawMatch, ...] = ()
    beside: tuple[RawMatch, ...] = ()

    @property
    def command(self) -> Command | None:
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
    if not own or message.text.upper().lstrip(":") == own:
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


@KeptByProfile
def identify(profile: Profile | None, line: str) -> tuple[RawPart, ...]:
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
    return tuple(_part(profile, message) for message in found)


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
def _headers(profile: Profile, _line: str) -> Headers:
    return Headers(profile)


def _part(profile: Profile, message: Message) -> RawPart:
    error_query = profile.connection.errors.query
    if is_common(message, error_query):
        return _common_or_unknown(message, error_query)
    headers = _headers(profile, "")
    is_declared = not message.is_query and headers.is_declared(message.text)
    found = _found(headers, message)
    return RawPart(
        text=message.text,
        kind=LineClass.KNOWN if found.is_known else LineClass.UNKNOWN,
        is_query=message.is_query or is_declared,
        is_declared=is_declared,
        matches=found.matches,
        beside=found.beside,
    )


def judged_parts(
    profile: Profile | None, line: str, allowed: Collection[str]
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


def nearest_commands(profile: Profile, part: RawPart) -> tuple[str, ...]:
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


def asks(profile: Profile | None, line: str) -> bool:
    """Whether an answer to a line will come: some message of it asks, or its profile says so.

    The one judge of what is a question; without a profile SCPI's ``?`` alone tells.
    """
    if is_query(line):
        return True
    if profile is None or len(line) > MAX_LINE:
        return False
    headers = _headers(profile, "")
    return any(map(headers.is_declared, (line.strip(), *split_compound(line))))


def question_by_heart(connection: Connection) -> str:
    """What an idle unit is asked: its probe, else who it is; empty where nothing is known."""
    if connection.probe is not None:
        return connection.probe.query
    if connection.identify is not None:
        return connection.identify.ask
    return "" if connection.never_ask_idn else "*IDN?"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    """A match, and 0 for the template's own nodes or 1 where optional ones came or went."""

    rank: int
    match: RawMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a profile has for a unit.

    Attributes:
        matches: the commands that it may be: certain ones, or where there are none, all.
        beside: beside certain ones, those that send such a message, too, for its values.
        is_known: by every header that the standard gives it, it is a command, or a query of the
            engine's own.
    """

    matches: tuple[RawMatch, ...]
    beside: tuple[RawMatch, ...]
    is_known: bool


def _found(headers: Headers, message: Message) -> _Found:
    """What a profile has for a unit.

    Some instruments continue the header before it, some start from the root: what it may be there
    is judged, too.
    """
    by_standard = message.headers
    every = [
        sorted(_matches(headers, message, nodes), key=lambda ranked: ranked.rank)
        for nodes in dict.fromkeys((*by_standard, message.nodes))
    ]
    needed = every[: len(by_standard)]
    is_known = message.is_formed
    if message.is_plain and not message.is_formed:
        # No SCPI: perhaps the whole text is a line of the profile that is none, either.
        exact = list(_exact_matches(headers, message.text))
        if exact:
            every, needed, is_known = [exact], [exact], True
    is_known = is_known and all(any(r.match.is_certain for r in one) for one in needed)
    every = [[r for r in one if r.match.command is not ASKED] for one in every]
    found = [ranked.match for one in every for ranked in one]
    certain = [match for match in found if match.is_certain]
    by_name: dict[str, RawMatch] = {}
    for match in certain or found:
        known = by_name.setdefault(match.command.name, match)
        if known is not match and (known.readings, known.changes) != (
            match.readings,
            match.changes,
        ):
            # Two lines of one command, or two paths: all their readings must be allowed.
            by_name[match.command.name] = replace(
                known,
                readings=_joined(known.readings, match.readings),
                unitless=_joined(known.unitless, match.unitless),
                unknown=known.unknown | match.unknown,
                holes=known.holes | match.holes,
                changes=known.changes or match.changes,
            )
    beside = tuple(
        ranked.match
        for one in every
        for ranked in one
        if ranked.match.command.name not in by_name
        and not ranked.match.is_certain
        and ranked.match.is_fitting
    )
    return _Found(matches=tuple(by_name.values()), beside=beside, is_known=is_known)


def _joined(
    some: tuple[Mapping[str, Scalar], ...], more: tuple[Mapping[str, Scalar], ...]
) -> tuple[Mapping[str, Scalar], ...]:
    return some + tuple(other for other in more if other not in some)


def _matches(headers: Headers, message: Message, nodes: tuple[str, ...]) -> Iterator[_Ranked]:
    for entry, captures, rank in headers.find(nodes, is_query=message.is_query):
        yield _Ranked(rank=rank, match=_judged(entry, message, captures))


def _exact_matches(headers: Headers, text: str) -> Iterator[_Ranked]:
    for entry, captures in headers.find_exactly(text):
        match = _with_unknown(_read(entry, captures), _odd(entry, captures))
        yield _Ranked(rank=0, match=match)


def _odd(entry: Entry, captures: Captures) -> set[str]:
    """The parameters whose text inside of a word or a list is not certainly their value."""
    return {
        name
        for number, text in captures.items()
        if (name := entry.spelling.holes[number]) in entry.parameters
        and text is not None
        and not _is_plain_number(entry.parameters[name], text)
    }


def _is_plain_number(parameter: Parameter, text: str) -> bool:
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
    return parameter.type is ParameterType.FLOAT or not (
        (lowest is not None and float(text) < lowest)
        or (highest is not None and float(text) > highest)
    )


def _judged(entry: Entry, message: Message, header: Captures) -> RawMatch:
    """A message whose header is the entry's, with its arguments read."""
    spelling = entry.spelling
    captures: dict[int, str | None] | None = dict(header)
    inside = dict(header)
    known, written = spelling.message.arguments, message.arguments
    for template, raw in itertools.zip_longest(known, written):
        if template is None or captures is None:
            captures = None
            break
        if raw is None:
            continue
        is_text = any(spelling.holes[n] in spelling.quoted for n in _holes(template))
        is_bare = is_text and _STRING.fullmatch(raw) is None
        found = None if is_bare else match_argument(template, raw)
        captures = None if found is None else {**captures, **found}
        if found is not None and template[0] in _INSIDE:
            inside |= found
    missing = known[len(written) :]
    is_short = not all(map(_holes, missing))
    if captures is None or is_short:
        return _misfit(entry)
    # Without a list of channels instruments take the selected ones.
    needed = (_holes(argument) for argument in missing if not argument.startswith("(@"))
    names = {spelling.holes[number] for holes in needed for number in holes}
    names = names.difference(entry.may_lack) | _odd(entry, inside)
    return _with_unknown(_read(entry, captures), names)


@functools.lru_cache(maxsize=8192)
def _misfit(entry: Entry) -> RawMatch:
    """A message with the header of an entry and arguments that it has not."""
    return RawMatch(
        command=entry.command or ASKED,
        readings=({},),
        unknown=frozenset(entry.parameters),
        is_certain=False,
        holes=frozenset(entry.spelling.holes),
        is_fitting=False,
        changes=entry.changes,
    )


@functools.lru_cache(maxsize=8192)
def _holes(argument: str) -> list[int]:
    return [ord(mark) - FIRST_HOLE for mark in argument if ord(mark) >= FIRST_HOLE]


def _with_unknown(match: RawMatch, names: Collection[str]) -> RawMatch:
    """The match with these parameters among those whose value cannot be read."""
    if not names:
        return match
    return replace(match, unknown=match.unknown.union(names), is_certain=False)


def _read(entry: Entry, captures: Captures) -> RawMatch:
    """Values for the captured texts, and the possibilities of those that do not stand there."""
    spelling, parameters = entry.spelling, entry.parameters
    choices: dict[str, list[Scalar]] = {}
    texts: dict[str, str | None] = {}
    unknown: set[str] = set()
    for number, text in captures.items():
        name = spelling.holes[number]
        is_other = name not in parameters or (name in texts and texts[name] != text)
        if is_other or not _is_argument(parameters[name], text, is_quoted=name in spelling.quoted):
            unknown.add(name)
        texts[name] = text
    for name, parameter in parameters.items():
        if name in texts:
            choices[name] = value_choices(parameter, texts[name])
        elif name not in entry.may_lack:
            choices[name] = possible_values(parameter)
    bare = {
        name: values
        for name, text in texts.items()
        if name in parameters
        and (values := bare_choices(parameters[name], text)) is not None
        and values != choices[name]
    }
    unknown |= {name for name, values in (*choices.items(), *bare.items()) if not values}
    known = {name: values for name, values in choices.items() if name not in unknown}
    combined = _combined(known)
    if len(combined) > _MOST_READINGS:
        unknown |= {name for name, values in known.items() if len(values) > 1}
        combined = combined[:1]
    return RawMatch(
        command=entry.command or ASKED,
        readings=combined,
        unitless=_combined({**known, **bare})[:_MOST_READINGS] if bare else (),
        unknown=frozenset(unknown),
        is_certain=not unknown,
        holes=frozenset(spelling.holes),
        changes=entry.changes,
    )


def _is_argument(parameter: Parameter, text: str | None, *, is_quoted: bool) -> bool:
    """Whether a text is no more than one argument: one string, or a word without marks of SCPI.

    Args:
        is_quoted: the template writes it as a quoted string.
    """
    if text is None:
        return True
    if _STRING.fullmatch(text) is not None:
        wires = (wire_text(name, parameter) for name in labels(parameter))
        return is_quoted or any(map(_STRING.fullmatch, wires))
    if parameter.type is not ParameterType.STRING:
        return True
    marks = "\"'" if is_quoted else "\"';,( "
    return not text.startswith("#") and not set(text) & set(marks)


def _combined(known: Mapping[str, list[Scalar]]) -> tuple[Mapping[str, Scalar], ...]:
    """Every combination of these choices, at most one more than are judged."""
    readings = itertools.islice(itertools.product(*known.values()), _MOST_READINGS + 1)
    return tuple(dict(zip(known, values, strict=True)) for values in readings)


def means_another_unit(command: Command, template: str, other: Command) -> bool:
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


def in_its_unit(part: RawPart, command: Command, template: str) -> RawPart:
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
