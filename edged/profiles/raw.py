"""Raw SCPI → the profile command that it is, however it is spelled: for limits on send_scpi.

Long and short forms, numeric suffixes left out, optional nodes added or dropped, compound lines
with path memory, odd spacing, units in numbers, channel lists. A spelling that has the header of a
command and arguments that nobody can read is that command still, and not certain: the caller
refuses it where the owner set limits.

Some values do not stand in a line: the channel that was selected before, or a suffix left out, by
which some instruments mean the selected channel (Rigol DP800) and not the first. ``readings`` then
holds every possibility, and all of them must be allowed.

One argument of raw SCPI → the value or label that its parameter would have.

A number with a unit has two readings. SCPI-99 lets ``30mV`` be 0.03; many instruments read the
number and pass over what they do not understand, and set 30.

Two commands that send one line and mean two things by it: volts, and amperes. Pure.

A source of voltage or current has one word for its level (Yokogawa GS200: ``:SOUR:LEV``); which it
is, the function that was chosen says. What the owner said of the amperes says nothing of the volts.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Concatenate, Final, Generic, ParamSpec, TypeVar

from edged.profiles.model import (
    Command,
    Connection,
    ErrorCheck,
    ForStep,
    ImageAnswer,
    Parameter,
    ParameterType,
    PollStep,
    Profile,
    QueryStep,
    Scalar,
    Step,
    WaveformAnswer,
)
from edged.profiles.template import (
    Hole,
    Optional,
    Part,
    Text,
    labels,
    optional_names,
    parse_template,
    possible_values,
    wire_text,
)
from edged.scpi.answer_text import read_number, unquoted
from edged.scpi.errors import error_question
from edged.scpi.line import (
    LONGEST_KEPT,
    Message,
    classify,
    is_query,
    kept,
    messages,
    split_compound,
)
from edged.scpi.numbers import NUMBER, number_with_suffix
from edged.scpi.words import FIRST_HOLE, Captures, is_recalling, match_argument, match_header

__all__ = [
    "KeptByProfile",
    "RawMatch",
    "RawPart",
    "asked_in",
    "asks",
    "bare_choices",
    "classify",
    "identify",
    "identify_inside",
    "in_its_unit",
    "is_always_let_pass",
    "is_query",
    "means_another_unit",
    "messages_judged",
    "question_by_heart",
    "split_compound",
    "value_choices",
]

_TRUTHS: Final[Mapping[str, bool]] = {"ON": True, "1": True, "OFF": False, "0": False}
_LEADING_NUMBER: Final = re.compile(NUMBER)
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
    label = _label({unquoted(str(wire)): label for label, wire in parameter.map.items()}, text)
    return _TRUTHS.get(text.upper()) if label is None else label == "true"


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
    return match_header(wire.split(":"), text.split(":")) is not None


S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

MAX_LINE: Final = 16_384
"""Characters of a line that is judged."""

MAX_MESSAGES: Final = 64
"""Messages of a line that is judged."""

_MOST_READINGS: Final = 64
"""More possibilities than this are as good as unknown."""

_MOST_VARIANTS: Final = 4
"""Optional parts of a template that are tried in every combination; beyond: all or none."""

MOST_KEPT: Final = 256
"""Lines that were judged lately."""


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
    """

    command: Command
    readings: tuple[Mapping[str, Scalar], ...]
    unitless: tuple[Mapping[str, Scalar], ...] = ()
    unknown: frozenset[str] = frozenset()
    is_certain: bool = True
    holes: frozenset[str] = frozenset()
    is_fitting: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPart:
    """One message of a line; ``matches`` are the commands that it may be, likeliest first.

    All of them must be allowed for the line to be; no match: the profile does not know it.

    Attributes:
        is_query: an answer will come.
        is_declared: that stands in the profile, and cannot be seen (it has no ``?``).
        beside: commands that send such a message, too, and of which this one does not tell all:
            it is not they, and yet their limits hold for the values that it carries.
    """

    text: str
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
        """Whether it is known, and every value in it is."""
        return bool(self.matches) and all(match.is_certain for match in self.matches)


ALWAYS_LET_PASS: Final = frozenset({"*IDN?", "*OPT?", "*OPC?", "*STB?", "*ESR?", "*CLS"})
"""Who an instrument is, how it stands, and clearing that: RAW_SCPI forbids it nobody."""


def is_always_let_pass(message: Message, error_query: str) -> bool:
    """Whether RAW_SCPI leaves it to everybody: one of ``ALWAYS_LET_PASS``, or the error query."""
    if message.text.upper() in ALWAYS_LET_PASS:
        return True
    return error_question(message, error_query) is not None


@kept
def messages_judged(line: str, error_query: str) -> tuple[Message, ...]:
    """The messages of a line that RAW_SCPI is asked about."""
    return tuple(m for m in messages(line) if not is_always_let_pass(m, error_query))


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
def identify(profile: Profile, line: str) -> tuple[RawPart, ...]:
    """What a line would do, message by message; never raises.

    A line that is too long to be judged in bounded time is one part that nobody knows; that it
    asks something as well would not make it a question.
    """
    if len(line) > MAX_LINE:
        return (RawPart(text=line, is_query=False),)
    found = list(itertools.islice(messages(line), MAX_MESSAGES + 1))
    if len(found) > MAX_MESSAGES:
        return (RawPart(text=line, is_query=False),)
    return tuple(_part(profile, message) for message in found)


def identify_inside(profile: Profile, lines: Iterable[str]) -> tuple[RawPart, ...]:
    """Of lines in a block what would do something that is known, if it were no block."""
    parts = (part for line in lines for part in identify(profile, line))
    return tuple(part for part in parts if _may_work(part))


def _may_work(part: RawPart) -> bool:
    if part.is_query:
        return any(match.command.is_write for match in part.matches)
    return is_recalling(part.text) or bool(part.matches)


def _part(profile: Profile, message: Message) -> RawPart:
    is_declared = not message.is_query and _is_declared(profile, message.text)
    matches, beside = _commands_of(profile, message)
    return RawPart(
        text=message.text,
        is_query=message.is_query or is_declared,
        is_declared=is_declared,
        matches=matches,
        beside=beside,
    )


def asks(profile: Profile | None, line: str) -> bool:
    """Whether an answer to a line will come: some message of it asks, or its profile says so.

    The one judge of what is a question; without a profile SCPI's ``?`` alone tells.
    """
    if is_query(line):
        return True
    if profile is None or len(line) > MAX_LINE or not _declared(profile):
        return False
    return any(_is_declared(profile, text) for text in (line.strip(), *split_compound(line)))


def question_by_heart(connection: Connection) -> str:
    """What an idle unit is asked: its probe, else who it is; empty where nothing is known."""
    if connection.probe is not None:
        return connection.probe.query
    if connection.identify is not None:
        return connection.identify.ask
    return "" if connection.never_ask_idn else "*IDN?"


def _is_declared(profile: Profile, text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in _declared(profile))


def _declared(profile: Profile) -> tuple[re.Pattern[str], ...]:
    """What the profile asks though it does not look like a question; mostly nothing."""
    known = _declarations.get(id(profile))
    if known is not None and known[0] is profile:
        return known[1]
    templates = (t for t in dict.fromkeys(_templates_that_ask(profile)) if not is_query(_plain(t)))
    found = tuple(map(_spelled_exactly, templates))
    if len(_declarations) >= MOST_KEPT:
        _declarations.clear()
    _declarations[id(profile)] = (profile, found)
    return found


# As ``KeptByProfile``, for a profile as a whole.
_declarations: Final[dict[int, tuple[Profile, tuple[re.Pattern[str], ...]]]] = {}


def _templates_that_ask(profile: Profile) -> Iterator[str]:
    """Every template whose place says that it asks, wherever it stands in the profile."""
    connection = profile.connection
    yield from _checked(connection.errors)
    if connection.probe is not None:
        yield connection.probe.query
    if connection.identify is not None:
        yield connection.identify.ask
    yield from (step.ask for step in profile.abort if step.ask)
    if profile.acquisition is not None:
        yield profile.acquisition.ask
    if profile.watchdog is not None:
        yield profile.watchdog.tripped.ask
        if profile.watchdog.precondition is not None:
            yield profile.watchdog.precondition.query
    for command in profile.commands.values():
        yield from _asked_by(command)
    yield from (setting.get for setting in profile.settings.values())
    for sequence in profile.sequences.values():
        yield from asked_in((*sequence.steps, *sequence.finally_steps))


def _checked(errors: ErrorCheck | None) -> Iterator[str]:
    if errors is not None:
        yield from filter(None, (errors.query, errors.detail))


def _asked_by(command: Command) -> Iterator[str]:
    # A block is no answer that a raw line could have.
    if command.is_query and not isinstance(command.returns, WaveformAnswer | ImageAnswer):
        yield command.scpi[-1]
    yield from _checked(command.errors)
    if command.precondition is not None:
        yield command.precondition.query
    if command.verify is not None:
        yield command.verify.query
    if command.complete is not None and command.complete.query:
        yield command.complete.query
    if command.sweep is not None:
        yield command.sweep.setpoint
        yield from (step.ask for step in command.sweep.abort if step.ask)


def asked_in(steps: Collection[Step]) -> Iterator[str]:
    """The lines that steps ask by themselves; what commands ask is in the commands."""
    for step in steps:
        match step:
            case QueryStep(query=query) | PollStep(poll=query, is_command=False):
                yield query
            case ForStep(steps=inner):
                yield from asked_in(inner)
            case _:
                pass


def _plain(template: str) -> str:
    """A template with a letter for each placeholder, optional parts left out."""
    return "".join(
        part.text if isinstance(part, Text) else "x"
        for part in parse_template(template)
        if not isinstance(part, Optional)
    )


def _spelled_exactly(template: str) -> re.Pattern[str]:
    """These words and no other form of them: only SCPI has long and short ones."""
    pattern = ""
    for part in parse_template(" ".join(template.split())):
        if isinstance(part, Optional):
            pattern += f"(?:{''.join(map(_piece_pattern, part.parts))})?"
        else:
            pattern += _piece_pattern(part)
    return re.compile(pattern, re.IGNORECASE)


def _piece_pattern(piece: Text | Hole) -> str:
    if isinstance(piece, Hole):
        return r"[^\s\x00-\x20\x7f,;]{1,64}?"
    return re.escape(piece.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    """A match, and 0 for the template's own nodes or 1 where optional ones came or went."""

    rank: int
    match: RawMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spelling:
    """One message of a template with its optional parts decided; ``holes`` are names by number."""

    message: Message
    holes: tuple[str, ...]


def _commands_of(
    profile: Profile, message: Message
) -> tuple[tuple[RawMatch, ...], tuple[RawMatch, ...]]:
    """The commands that a message may be, certain ones, or where there are none, all.

    Beside certain ones, those that send such a message, too, for the values that it carries.
    """
    headers = [message.nodes]
    if message.path:
        # Some instruments keep the path of a compound line, some start from the root: judge both.
        headers.insert(0, message.path + message.nodes)
    every = [
        sorted(_matches(profile, message, nodes), key=lambda ranked: ranked.rank)
        for nodes in headers
    ]
    found = [match for one in every for match in _nearest(one)]
    certain = [match for match in found if match.is_certain]
    by_name: dict[str, RawMatch] = {}
    for match in certain or found:
        known = by_name.setdefault(match.command.name, match)
        if known is not match and known.readings != match.readings:
            # Two lines of one command, or two paths: all their readings must be allowed.
            by_name[match.command.name] = replace(
                known,
                readings=_joined(known.readings, match.readings),
                unitless=_joined(known.unitless, match.unitless),
                unknown=known.unknown | match.unknown,
                holes=known.holes | match.holes,
            )
    beside = tuple(
        ranked.match
        for one in every
        for ranked in one
        if ranked.match.command.name not in by_name
        and not ranked.match.is_certain
        and ranked.match.is_fitting
    )
    return tuple(by_name.values()), beside


def _joined(
    some: tuple[Mapping[str, Scalar], ...], more: tuple[Mapping[str, Scalar], ...]
) -> tuple[Mapping[str, Scalar], ...]:
    return some + tuple(other for other in more if other not in some)


def _nearest(found: Collection[_Ranked]) -> list[RawMatch]:
    """The certain matches of a header with the fewest nodes added or dropped; or all matches."""
    certain = [ranked for ranked in found if ranked.match.is_certain]
    return [ranked.match for ranked in certain if ranked.rank == certain[0].rank] or [
        ranked.match for ranked in found
    ]


def _matches(profile: Profile, message: Message, nodes: tuple[str, ...]) -> Iterator[_Ranked]:
    for command in profile.commands.values():
        for template in command.scpi:
            for spelling in _spellings(template):
                if spelling.message.is_query != message.is_query:
                    continue
                header = match_header(spelling.message.nodes, nodes)
                if header is not None:
                    captures, rank = header
                    yield _Ranked(rank=rank, match=_judged(command, spelling, message, captures))


def _judged(command: Command, spelling: _Spelling, message: Message, header: Captures) -> RawMatch:
    """A message whose header is the command's, with its arguments read."""
    captures: Captures | None = dict(header)
    known, written = spelling.message.arguments, message.arguments
    for template, raw in itertools.zip_longest(known, written):
        if template is None or captures is None:
            captures = None
            break
        if raw is None:
            continue
        found = match_argument(template, raw)
        captures = None if found is None else captures | found
    is_short = len(written) < len(known) and not _are_holes(known[len(written) :])
    if captures is None or is_short:
        names = frozenset(command.parameters)
        return RawMatch(
            command=command,
            readings=({},),
            unknown=names,
            is_certain=False,
            holes=frozenset(spelling.holes),
            is_fitting=False,
        )
    return _read(command, spelling, captures)


def _are_holes(arguments: tuple[str, ...]) -> bool:
    return all(any(ord(mark) >= FIRST_HOLE for mark in argument) for argument in arguments)


def _read(command: Command, spelling: _Spelling, captures: Captures) -> RawMatch:
    """Values for the captured texts, and the possibilities of those that do not stand there."""
    choices: dict[str, list[Scalar]] = {}
    unknown: set[str] = set()
    texts: dict[str, str | None] = {}
    for number, text in captures.items():
        name = spelling.holes[number]
        if name in texts and texts[name] != text:
            unknown.add(name)
        texts[name] = text
    may_lack = optional_names(command.scpi)
    for name, parameter in command.parameters.items():
        if name in texts:
            choices[name] = value_choices(parameter, texts[name])
        elif name not in may_lack:
            choices[name] = possible_values(parameter)
    bare = {
        name: values
        for name, text in texts.items()
        if (values := bare_choices(command.parameters[name], text)) is not None
        and values != choices[name]
    }
    unknown |= {name for name, values in (*choices.items(), *bare.items()) if not values}
    known = {name: values for name, values in choices.items() if name not in unknown}
    combined = _combined(known)
    if len(combined) > _MOST_READINGS:
        unknown |= {name for name, values in known.items() if len(values) > 1}
        combined = combined[:1]
    return RawMatch(
        command=command,
        readings=combined,
        unitless=_combined({**known, **bare})[:_MOST_READINGS] if bare else (),
        unknown=frozenset(unknown),
        is_certain=not unknown,
        holes=frozenset(spelling.holes),
    )


def _combined(known: Mapping[str, list[Scalar]]) -> tuple[Mapping[str, Scalar], ...]:
    """Every combination of these choices, at most one more than are judged."""
    readings = itertools.islice(itertools.product(*known.values()), _MOST_READINGS + 1)
    return tuple(dict(zip(known, values, strict=True)) for values in readings)


@functools.lru_cache(maxsize=8192)
def _spellings(template: str) -> tuple[_Spelling, ...]:
    """Every message of a template, with each combination of its optional parts."""
    parts = parse_template(template)
    optional = [index for index, part in enumerate(parts) if isinstance(part, Optional)]
    if len(optional) <= _MOST_VARIANTS:
        kept = [
            frozenset(chosen)
            for count in range(len(optional), -1, -1)
            for chosen in itertools.combinations(optional, count)
        ]
    else:
        kept = [frozenset(optional), frozenset()]
    return tuple(
        spelling
        for chosen in kept
        for spelling in _spelled(
            [part for index, part in enumerate(parts) if index not in optional or index in chosen]
        )
    )


def _spelled(parts: list[Part]) -> Iterator[_Spelling]:
    text = ""
    holes: list[str] = []
    for part in parts:
        for piece in part.parts if isinstance(part, Optional) else (part,):
            match piece:
                case Text(literal):
                    text += literal
                case Hole(name):
                    text += chr(FIRST_HOLE + len(holes))
                    holes.append(name)
    for message in messages(text):
        yield _Spelling(message=message, holes=tuple(holes))


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
