"""Every spelling of a profile's commands and queries, found by the header of a message.

One tree of mnemonics for each profile, made at its first raw line: the work for a line grows with
its length and not with the number of the profile's commands. Pure.
"""

from __future__ import annotations

import functools
import itertools
import string
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, NamedTuple

from edged.profiles import model
from edged.profiles.template import (
    Hole,
    Optional,
    Part,
    Text,
    optional_names,
    parse_template,
    possible_values,
)
from edged.record import record
from edged.scpi.line import Message, messages
from edged.scpi.words import (
    FIRST_HOLE,
    Captures,
    first_letter,
    match_header,
    match_node,
    match_pattern,
    side_effect,
    split_at_holes,
    without_optional,
)
from edged.yaml.tree import Scalar

_MOST_VARIANTS: Final = 4
"""Optional parts of a template that are tried in every combination; beyond: all or none."""
_LONGEST_EXACT: Final = 512
"""Characters of a line that is no SCPI and is compared with templates that are none."""
_INSIDE: Final = frozenset(string.ascii_letters + "(")
"""What an argument begins with in which a number is not by itself: ``CH1``, ``(@1)``."""


class _Argument(NamedTuple):
    """One argument of a spelling.

    Attributes:
        text: with one private character for each placeholder.
        holes: the numbers of its placeholders.
        is_quoted: a placeholder stands inside of quotes.
        is_channels: it is a list of channels.
    """

    text: str
    holes: tuple[int, ...]
    is_quoted: bool
    is_channels: bool


@record
class Spelling:
    """One message of a template with its optional parts decided.

    Attributes:
        message: with one private character for each placeholder (``words.FIRST_HOLE``).
        holes: the names of the placeholders, by number.
        names: the same as a set.
        quoted: those that are written as quoted strings.
        arguments: those of the message.
        initial: the letter that the first argument begins with; empty where it may be any.
        inside: the placeholders whose value is not by itself: those of the header, ``CH{n}``,
            ``(@{n})``.
        literal: the longest piece of the text between placeholders, in upper case.
    """

    message: Message
    holes: tuple[str, ...]
    names: frozenset[str]
    quoted: frozenset[str]
    arguments: tuple[_Argument, ...]
    initial: str
    inside: frozenset[int]
    literal: str


@record(eq=False)
class HeaderReader:
    """Reads what is written for a parameter; one object for all parameters that are read alike.

    Attributes:
        parameter: without what does not matter for reading.
        possible: its values, where they can be listed.
    """

    parameter: model.Parameter
    possible: tuple[Scalar, ...]


class Sender(NamedTuple):
    """What sends a spelling.

    Attributes:
        place: among all senders of the profile.
        command: ``None``: it is a query that the engine sends by itself.
        changes: what the line changes that it does not name; ``None``: nothing, or another line
            of the command does.
    """

    place: int
    command: model.Command | None
    changes: model.Changes | None


@record(eq=False)
class HeaderEntry:
    """A spelling with parameters; each is itself and no other.

    Many commands begin with the same line (``INST:NSEL {channel}``): what a message means by it is
    read once for all whose parameters are alike.

    Attributes:
        spelling: how it is written.
        readers: of all parameters, by name.
        may_lack: those that need no value.
        here: those that stand in the spelling.
        strangers: names that stand in the spelling and are no parameter.
        choices: the values of all that need one and can be listed, with room for those in ``here``.
        unlisted: those that need one, and neither stand in the spelling nor can be listed.
        senders: all that send it.
    """

    spelling: Spelling
    readers: Mapping[str, HeaderReader]
    may_lack: frozenset[str]
    here: tuple[str, ...]
    strangers: frozenset[str]
    choices: Mapping[str, tuple[Scalar, ...]]
    unlisted: frozenset[str]
    senders: list[Sender] = field(default_factory=list)

    def is_alike(self, other: HeaderEntry) -> bool:
        """Whether every message means the same by both; they have one spelling."""
        return (
            list(self.readers.items()) == list(other.readers.items())
            and self.may_lack == other.may_lack
        )


_Entries = dict[Spelling, list[HeaderEntry]]


@record(frozen=False, kw_only=False)
class _Branch:
    """One level of the tree: the words that may follow, by their first letter; and what ends here.

    ``patterns`` are words that begin with a placeholder; ``names`` are those of the commands that
    end here.
    """

    words: dict[str, dict[str, _Branch]] = field(default_factory=dict)
    patterns: dict[str, _Branch] = field(default_factory=dict)
    entries: _Entries = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def below(self, word: str) -> _Branch:
        """The level behind a word of a template; made where it is new."""
        first = _initial(word)
        others = self.words.setdefault(first, {}) if first else self.patterns
        return others.setdefault(word, _Branch())

    def ends(self, nodes: tuple[str, ...]) -> Iterator[_Branch]:
        """Where these raw nodes end."""
        if not nodes:
            yield self
            return
        known = self.words.get(nodes[0][:1].upper(), {})
        for word, branch in itertools.chain(known.items(), self.patterns.items()):
            if match_node(word, nodes[0]) is not None:
                yield from branch.ends(nodes[1:])

    def names_below(self, word: str) -> Iterator[str]:
        """The commands behind the words that a raw word may be."""
        for known, branch in self.words.get(_initial(word), {}).items():
            if match_node(known, word) is not None:
                yield from branch.all_names()

    def all_names(self) -> Iterator[str]:
        """The commands that end here or further down."""
        yield from self.names
        for words in (*self.words.values(), self.patterns):
            for branch in words.values():
                yield from branch.all_names()


class Headers:
    """The tree of one profile."""

    def __init__(self, profile: model.Profile) -> None:
        self._tree: dict[bool, _Branch] = {False: _Branch(), True: _Branch()}
        # What is no SCPI is compared with whole templates, by the first letter.
        self._exact: dict[str, _Entries] = {}
        # The same of what is answered without a question mark: in most profiles nothing.
        self._declared: dict[str, _Entries] = {}
        self._count = itertools.count()
        for command in profile.commands.values():
            may_lack = optional_names(command.scpi)
            for template in command.scpi:
                self._add(command, template, command.parameters, may_lack)
        for question in questions(profile):
            if side_effect(question.template):
                # It is known as the command that declares what it changes, or not at all.
                continue
            self._add(None, question.template, question.parameters, question.parameters)
        for question in step_questions(profile):
            # It is known as a command, which declares what it changes, or not at all.
            for spelling in _asking_spellings(question.template):
                self._declare(spelling, [], None, question.template)

    def _add(
        self,
        command: model.Command | None,
        template: str,
        parameters: Mapping[str, model.Parameter],
        may_lack: Collection[str],
    ) -> None:
        for spelling in _spellings(template) if command else _asking_spellings(template):
            message = spelling.message
            new = _entry(spelling, parameters, frozenset(may_lack))
            _lead, rest = without_optional(message.nodes)
            branch = self._tree[message.is_query]
            for word in rest:
                branch = branch.below(word)
            entries = branch.entries.setdefault(spelling, [])
            entry = next(filter(new.is_alike, entries), new)
            if entry is new:
                entries.append(entry)
            changes = None if command is None else _changes_by(command, template)
            entry.senders.append(Sender(next(self._count), command, changes))
            if command is not None:
                branch.names.append(command.name)
            self._exact.setdefault(_initial(message.text), {})[spelling] = entries
            self._declare(spelling, entries, command, template)

    def _declare(
        self,
        spelling: Spelling,
        entries: list[HeaderEntry],
        command: model.Command | None,
        template: str,
    ) -> None:
        message = spelling.message
        if not message.is_query and _is_answered(command, template):
            self._declared.setdefault(_initial(message.text), {})[spelling] = entries

    def find(
        self, nodes: tuple[str, ...], *, is_query: bool
    ) -> Iterator[tuple[list[HeaderEntry], Captures, int]]:
        """The spellings that have a header.

        Yields:
            The entries of one, what stood at the placeholders of its header, and 0 for the
            template's own nodes or 1 where optional ones were added or dropped.
        """
        _lead, rest = without_optional(nodes)
        header: tuple[str, ...] | None = None
        found = None
        for branch in self._tree[is_query].ends(rest):
            for spelling, entries in branch.entries.items():
                if spelling.message.nodes != header:
                    header = spelling.message.nodes
                    found = match_header(header, nodes)
                if found is not None:
                    captures, rank = found
                    yield entries, captures, rank

    def beginning(self, nodes: tuple[str, ...]) -> Iterator[str]:
        """The names of the commands whose header begins with the first mnemonic of another."""
        _lead, rest = without_optional(nodes)
        for word in rest[:1]:
            for branch in self._tree.values():
                yield from branch.names_below(word)

    def find_exactly(self, text: str) -> Iterator[tuple[list[HeaderEntry], Captures, int]]:
        """The spellings that a text is letter for letter, but for case and its values."""
        yield from _exactly(self._exact, text)

    def is_declared(self, text: str) -> bool:
        """Whether the profile says that a text without ``?`` is answered, in this very spelling."""
        return next(_exactly(self._declared, text), None) is not None


def _exactly(
    kept: Mapping[str, _Entries], text: str
) -> Iterator[tuple[list[HeaderEntry], Captures, int]]:
    """Those that a text is, but for its values, by the first letter of their spellings."""
    if not kept or len(text) > _LONGEST_EXACT or not text.isascii():
        return
    upper = text.upper()
    for initial in (upper[:1], ""):
        for spelling, entries in kept.get(initial, {}).items():
            if spelling.literal in upper:
                captures = match_pattern(spelling.message.text, text)
                if captures is not None and _are_values(captures):
                    yield entries, captures, 0


def _initial(text: str) -> str:
    """By what spellings are kept: the first character, empty for a placeholder."""
    first = text[:1]
    return "" if first and ord(first) >= FIRST_HOLE else first.upper()


def _are_values(captures: Captures) -> bool:
    """Each is one word, and no part of the line around it."""
    return all(
        text is not None and text.isprintable() and not set(text) & {" ", ",", ";"}
        for text in captures.values()
    )


def _entry(
    spelling: Spelling, parameters: Mapping[str, model.Parameter], may_lack: frozenset[str]
) -> HeaderEntry:
    readers = {name: _reader(parameter) for name, parameter in parameters.items()}
    needed = {
        name: reader.possible
        for name, reader in readers.items()
        if name in spelling.names or name not in may_lack
    }
    unlisted = {name for name, values in needed.items() if not values} - spelling.names
    return HeaderEntry(
        spelling=spelling,
        readers=readers,
        may_lack=may_lack,
        here=tuple(name for name in readers if name in spelling.names),
        strangers=spelling.names - readers.keys(),
        choices={name: values for name, values in needed.items() if name not in unlisted},
        unlisted=frozenset(unlisted),
    )


def _reader(parameter: model.Parameter) -> HeaderReader:
    return _reader_of(
        replace(parameter, name="", description="", default=None, step=None, by=_NO_BOUNDS)
    )


@functools.lru_cache(maxsize=8192)
def _reader_of(parameter: model.Parameter) -> HeaderReader:
    return HeaderReader(parameter=parameter, possible=tuple(possible_values(parameter)))


@functools.lru_cache(maxsize=8192)
def _spellings(template: str) -> tuple[Spelling, ...]:
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


def _asking_spellings(template: str) -> tuple[Spelling, ...]:
    """Of what is answered: its queries, or where none has SCPI's ``?``, all of it."""
    spellings = _spellings(template)
    queries = tuple(spelling for spelling in spellings if spelling.message.is_query)
    return queries or spellings


def _spelled(parts: list[Part]) -> Iterator[Spelling]:
    text = ""
    holes: list[str] = []
    quoted: set[str] = set()
    for part in parts:
        for piece in part.parts if isinstance(part, Optional) else (part,):
            match piece:
                case Text(literal):
                    text += literal
                case Hole(name, kind):
                    text += chr(FIRST_HOLE + len(holes))
                    holes.append(name)
                    if kind == "q" or text.count('"') % 2 or text.count("'") % 2:
                        quoted.add(name)
    for message in messages(text):
        arguments = tuple(_argument(one, holes, quoted) for one in message.arguments)
        alone = {n for one in arguments if one.text[:1] not in _INSIDE for n in one.holes}
        yield Spelling(
            message=message,
            holes=tuple(holes),
            names=frozenset(holes),
            quoted=frozenset(quoted),
            arguments=arguments,
            initial=first_letter(message.arguments[0]) if arguments else "",
            inside=frozenset(range(len(holes))) - alone,
            literal=max(split_at_holes(message.text)[::2], key=len),
        )


def _argument(text: str, names: Sequence[str], quoted: Collection[str]) -> _Argument:
    holes = tuple(ord(mark) - FIRST_HOLE for mark in text if ord(mark) >= FIRST_HOLE)
    return _Argument(
        text=text,
        holes=holes,
        is_quoted=any(names[hole] in quoted for hole in holes),
        is_channels=text.startswith("(@"),
    )


@record(kw_only=False)
class _Question:
    """A query that is asked by no command's own lines.

    Attributes:
        path: what asks it, the dotted path of that in the profile.
        parameters: what the placeholders stand for.
    """

    path: str
    template: str
    parameters: Mapping[str, model.Parameter] = field(default_factory=dict)


_NO_BOUNDS: Final[Mapping[str, Mapping[Scalar, model.Bound]]] = {}


def _changes_by(command: model.Command, template: str) -> model.Changes | None:
    """What one line of a command changes that it does not name.

    Of a query its question does; of others the lines that say so by their header, or else all.
    """
    if command.changes is None:
        return None
    if command.is_query:
        acting: Collection[str] = command.scpi[-1:]
    else:
        acting = [line for line in command.scpi if side_effect(line)] or command.scpi
    return command.changes if template in acting else None


def _is_answered(command: model.Command | None, template: str) -> bool:
    """Whether a line without ``?`` is answered: it is the engine's query, or ends a command.

    A picture is no answer that a raw line could have.
    """
    if command is None:
        return True
    is_last = command.is_query and template == command.scpi[-1]
    is_picture = isinstance(command.returns, model.ImageAnswer)
    return is_last and not is_picture and not any(s.message.is_query for s in _spellings(template))


def questions(profile: model.Profile) -> Iterator[_Question]:
    """What the engine asks by itself, by every template whose place in the profile says so."""
    connection = profile.connection
    asked = [("connection", line) for line in _checked(connection.errors)]
    asked += [("abort", step.ask) for step in profile.abort]
    if connection.probe is not None:
        asked.append(("connection", connection.probe.query))
    if connection.identify is not None:
        asked.append(("identify", connection.identify.ask))
    if profile.acquisition is not None:
        asked.append(("acquisition", profile.acquisition.ask))
    if profile.watchdog is not None:
        asked.append(("watchdog", profile.watchdog.tripped.ask))
        if profile.watchdog.precondition is not None:
            asked.append(("watchdog", profile.watchdog.precondition.query))
    yield from (_Question(path, template) for path, template in asked if template)
    for command in profile.commands.values():
        for template in _asked_by(command):
            yield _Question(f"commands.{command.name}", template, command.parameters)
    for setting in profile.settings.values():
        known = profile.commands.get(setting.set_command or "")
        parameters = known.parameters if known is not None else {}
        yield _Question(f"settings.{setting.name}", setting.get, parameters)


def step_questions(profile: model.Profile) -> Iterator[_Question]:
    """What steps of sequences ask by themselves."""
    for sequence in profile.sequences.values():
        for template in asked_in((*sequence.steps, *sequence.finally_steps)):
            yield _Question(f"sequences.{sequence.name}", template, sequence.parameters)


def _checked(errors: model.ErrorCheck | None) -> Iterator[str]:
    if errors is not None:
        yield from filter(None, (errors.query, errors.detail))


def _asked_by(command: model.Command) -> Iterator[str]:
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


def asked_in(steps: Collection[model.Step]) -> Iterator[str]:
    """The lines that steps ask by themselves; what commands ask is in the commands."""
    for step in model.walk(steps):
        match step:
            case model.QueryStep(query=query) | model.PollStep(poll=query, is_command=False):
                yield query
            case _:
                pass
