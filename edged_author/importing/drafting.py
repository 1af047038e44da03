"""One instrument class → the text of a profile, and what of the class did not arrive."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from edged.errors import EdgedError
from edged.profiles.authoring.lint import is_energising
from edged.profiles.model import Command, ErrorCheck, Parameter, ParameterType, ScalarAnswer
from edged.profiles.template import possible_values, render
from edged.record import record
from edged.scpi.words import is_recalling, works_switch
from edged_author.importing.about import About, about, pattern_for
from edged_author.importing.conversion import Channels, convert
from edged_author.importing.declarations import (
    ChannelGroup,
    Declaration,
    DriverReader,
    LeftOut,
    Members,
)
from edged_author.importing.naming import (
    clean_name,
    command_name,
    key_for,
    parameter_name,
    words_of,
)
from edged_author.importing.passing import hands_id_on
from edged_author.importing.source import ClassSource

MOST_COMMANDS: Final = 480
"""The format takes 500; some are left for what switches off."""
MOST_ABORTS: Final = 32
_OFF: Final = frozenset({"0", "OFF"})


@record
class DraftEntry:
    """A command of a draft, and the declaration that it was.

    Attributes:
        side: ``get`` or ``set``.
        owner: the class in whose body ``declared`` stands, in ``line`` of ``path``.
        ids: of a channel's, those of all channels that have it.
    """

    command: str
    side: str
    path: str
    owner: str
    declared: str
    line: int
    channel_path: str = ""
    channel_class: str = ""
    ids: tuple[str | int, ...] = ()


@record
class Draft:
    """A profile to be looked through by a person."""

    key: str
    path: str
    class_name: str
    instrument_class: str
    text: str
    entries: tuple[DraftEntry, ...]
    left_out: tuple[LeftOut, ...]


def draft_of(members: Members, reader: DriverReader, taken: Collection[str], origin: str) -> Draft:
    """The draft of an instrument class; without entries where nothing of it arrived.

    Args:
        taken: profile keys that are another's.
        origin: what the tree is, for ``source``: a package and its version.
    """
    known = about(members, reader)
    maker = "" if clean_name(known.model).startswith(known.folder) else known.folder
    key = key_for(maker, known.model, taken)
    making = _Making(members, reader, key)
    making.add_own()
    for group in _joined(members.channels):
        making.add_channels(group)
    making.add_safe()
    return Draft(
        key=key,
        path=members.of.path,
        class_name=members.of.name,
        instrument_class=known.instrument_class,
        text=_text(known, key, making, members.of, origin) if making.entries else "",
        entries=tuple(making.entries),
        left_out=(*members.left_out, *making.left_out),
    )


@record
class _Group:
    """All channels of one class."""

    of: ClassSource
    ids: tuple[str | int, ...]
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        """What tells its commands from those of the same name."""
        if len(self.ids) == 1:
            return clean_name(self.names[0])
        plain = clean_name(self.of.name.rpartition(".")[2])
        return plain.removesuffix("_channel").removesuffix("channel").strip("_") or "channel"


def _joined(groups: Collection[ChannelGroup]) -> list[_Group]:
    found: dict[ClassSource, _Group] = {}
    for group in groups:
        before = found.get(group.of)
        found[group.of] = _Group(
            of=group.of,
            ids=(*(before.ids if before else ()), *group.ids),
            names=(*(before.names if before else ()), group.name),
        )
    return list(found.values())


class _Making:
    """The commands of a draft while they are gathered."""

    def __init__(self, members: Members, reader: DriverReader, key: str) -> None:
        self._members = members
        self._reader = reader
        self._key = key
        self.commands: dict[str, Command] = {}
        # Command → what the draft says of its answer.
        self.remarks: dict[str, tuple[str, ...]] = {}
        self.entries: list[DraftEntry] = []
        self.left_out: list[LeftOut] = []
        self.abort: list[str] = []

    def add_own(self) -> None:
        """What the instrument itself declares and inherits."""
        for declaration in self._members.declarations.values():
            self._add(declaration, self._members, None, "")

    def add_channels(self, group: _Group) -> None:
        """What the channels of one class declare."""
        members = self._reader.members(group.of)
        self.left_out += members.left_out
        why = self._why_not(group, members)
        placeholder = self._placeholder(members)
        for declaration in members.declarations.values():
            if why or not placeholder:
                self._leave(declaration, why or "its placeholder is said by code")
                continue
            channels = Channels(ids=group.ids, placeholder=placeholder)
            self._add(declaration, members, channels, group.label)
        for nested in members.channels:
            inner = self._reader.members(nested.of)
            for declaration in inner.declarations.values():
                self._leave(declaration, "it belongs to a channel of a channel")

    def add_safe(self) -> None:
        """What switches off, by the declarations' own words: abort, and safe commands."""
        for name, command in list(self.commands.items()):
            off = _off(command)
            if off is None:
                continue
            lines = list(_lines(command, *off))
            if len(self.abort) + len(lines) > MOST_ABORTS:
                continue
            self.abort += [line for line in lines if line not in self.abort]
            parameter, label = off
            wire = str(command.parameters[parameter].map.get(label, label))
            plain = name.removeprefix("set_")
            safe = command_name("switch_off", plain, self._key, self.commands)
            self.commands[safe] = Command(
                name=safe,
                description=f"Switch off: {words_of(plain)}.",
                scpi=(command.scpi[0].replace("{" + parameter + "}", _escaped(wire)),),
                parameters={n: p for n, p in command.parameters.items() if n != parameter},
                is_safe=True,
            )

    def _why_not(self, group: _Group, members: Members) -> str:
        if len(set(map(str, group.ids))) != len(group.ids):
            return "two of its channels have one id"
        if not members.is_channel:
            return f"{group.of.name} is not a channel that is known"
        for one in members.order:
            for node in one.node.body:
                is_constructor = isinstance(node, ast.FunctionDef) and node.name == "__init__"
                if is_constructor and not hands_id_on(node):
                    return f"code makes the id of its channels ({one.name}, line {node.lineno})"
        return ""

    def _placeholder(self, members: Members) -> str:
        for one in members.order:
            if "placeholder" in one.constants:
                node = one.constants["placeholder"]
                found = node.value if isinstance(node, ast.Constant) else None
                return found if isinstance(found, str) else ""
        return "" if "placeholder" in members.code else "ch"

    def _leave(self, declaration: Declaration, reason: str) -> None:
        self.left_out.append(
            LeftOut(
                path=declaration.owner.path,
                line=declaration.line,
                what=f"{declaration.owner.name}.{declaration.name}",
                reason=reason,
            )
        )

    def _add(
        self, declaration: Declaration, members: Members, channels: Channels | None, label: str
    ) -> None:
        parameter = parameter_name(declaration.name)
        made = convert(declaration, self._reader, members, self._members, channels, parameter)
        for reason in made.reasons:
            self._leave(declaration, reason)
        for side, command in (("get", made.query), ("set", made.write)):
            if command is None:
                continue
            if len(self.commands) >= MOST_COMMANDS:
                self._leave(declaration, f"the draft has {MOST_COMMANDS} commands already")
                continue
            plain = declaration.name
            name = command_name(side, plain, self._key, ())
            if label and (name in self.commands or (channels and len(channels.ids) == 1)):
                plain = f"{label}_{plain}"
            name = command_name(side, plain, self._key, self.commands)
            verb = "Ask" if side == "get" else "Set"
            if side == "get" and made.remarks:
                self.remarks[name] = made.remarks
            self.commands[name] = replace(
                command,
                name=name,
                description=f"{verb} {words_of(plain)}.",
                is_dangerous=_is_dangerous(command),
            )
            self.entries.append(
                DraftEntry(
                    command=name,
                    side=side,
                    path=declaration.owner.path,
                    owner=declaration.owner.name,
                    declared=declaration.name,
                    line=declaration.line,
                    channel_path=members.of.path if channels else "",
                    channel_class=members.of.name if channels else "",
                    ids=channels.ids if channels else (),
                )
            )


def _is_dangerous(command: Command) -> bool:
    """What is marked so for good; the status of the draft makes more so until it is reviewed."""
    line = command.scpi[0]
    return is_energising(line, command.parameters) or is_recalling(line)


def _off(command: Command) -> tuple[str, str] | None:
    """The parameter and the label by which a command works a switch, and switches it off."""
    if command.is_query or not works_switch(command.scpi[0]):
        return None
    if not is_energising(command.scpi[0], command.parameters):
        return None
    for name, parameter in command.parameters.items():
        if name == "channel" or not parameter.map:
            continue
        for label, wire in parameter.map.items():
            if str(wire).strip().upper() in _OFF and command.scpi[0].count("{" + name + "}") == 1:
                return name, label
    return None


def _lines(command: Command, parameter: str, label: str) -> Iterator[str]:
    """The line that switches off, for every channel."""
    value: bool | str = label
    if command.parameters[parameter].type is ParameterType.BOOL:
        value = label == "true"
    channel = command.parameters.get("channel")
    cases: list[dict[str, Any]] = (
        [{"channel": one} for one in possible_values(channel)] if channel is not None else [{}]
    )
    for case in cases:
        try:
            yield render(command.scpi[0], command.parameters, {**case, parameter: value})
        except EdgedError:
            continue


def _escaped(text: str) -> str:
    return "".join(mark * 2 if mark in "{}[]" else mark for mark in text)


def _text(known: About, key: str, making: _Making, of: ClassSource, origin: str) -> str:
    source = f"declarations of class {of.name} in {of.path}"
    source += f" of {origin}" if origin else ""
    lines = [
        "# yaml-language-server: $schema=profile.schema.json",
        f"# Imported: commands, limits and options of {_comment(f'{of.path}, class {of.name}')}; "
        "no text of it.",
        "# Hold each against the manual (`edged profile docs`), mend match and abort, then write",
        "# status: reviewed. Until then every command that may switch an output on is dangerous.",
        "format: 1",
        f"profile_key: {key}",
        "version: 1",
        "status: imported",
        f"manufacturer: {_quoted(known.maker)}",
        f"model: {_quoted(known.model)}",
        f"instrument_class: {known.instrument_class}",
        f"source: {_quoted(source + ': facts and figures only')}",
        "match:",
        "  # A guess from the class's name; add examples of what real ones answer to *IDN?.",
        f"  idn: {_quoted(pattern_for(known))}",
        "connection:",
        *(f"  {name}: {_quoted(value)}" for name, value in known.connection.items()),
        "  heartbeat: false",
        *([f"abort: [{', '.join(map(_quoted, making.abort))}]"] if making.abort else []),
        "unverified: all",
        "commands:",
    ]
    for command in making.commands.values():
        lines += _command(command, making.remarks.get(command.name, ()))
    return "\n".join(lines) + "\n"


def _command(command: Command, remarks: Sequence[str]) -> Iterator[str]:
    yield f"  {command.name}:"
    for remark in remarks:
        yield f"    # {_comment(remark[0].upper() + remark[1:])}."
    yield f"    description: {_quoted(command.description)}"
    yield f"    scpi: {_quoted(command.scpi[0])}"
    if command.is_query and "?" not in command.scpi[0].partition(" ")[0]:
        yield "    is_query: true"
    if command.is_dangerous:
        yield "    is_dangerous: true"
    if command.is_safe:
        yield "    is_safe: true"
    if isinstance(command.errors, ErrorCheck):
        kind = command.errors.kind.value
        yield f"    errors: {{query: {_quoted(command.errors.query)}, kind: {kind}}}"
    if command.parameters:
        yield "    parameters:"
        for parameter in command.parameters.values():
            yield f"      {parameter.name}: {_parameter(parameter)}"
    if isinstance(command.returns, ScalarAnswer):
        yield f"    returns: {_returns(command.returns)}"


def _parameter(parameter: Parameter) -> str:
    said = [f"type: {parameter.type.value}"]
    if parameter.min is not None:
        said.append(f"min: {parameter.min!r}")
    if parameter.max is not None:
        said.append(f"max: {parameter.max!r}")
    if parameter.unit or (parameter.type is ParameterType.FLOAT and parameter.min is not None):
        said.append(f"unit: {_quoted(parameter.unit)}")
    if parameter.map:
        is_plain = all(label == wire for label, wire in parameter.map.items())
        if is_plain and parameter.type is ParameterType.ENUM:
            said.append(f"options: [{', '.join(map(_quoted, parameter.map))}]")
        else:
            said.append(f"map: {_map(parameter.map)}")
    return "{" + ", ".join(said) + "}"


def _returns(returns: ScalarAnswer) -> str:
    said = [f"type: {returns.type.value}"]
    if returns.unit:
        said.append(f"unit: {_quoted(returns.unit)}")
    if returns.map:
        said.append(f"map: {_map(returns.map)}")
    return "{" + ", ".join(said) + "}"


def _map(pairs: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{_quoted(k)}: {_quoted(str(v))}" for k, v in pairs.items()) + "}"


def _quoted(value: object) -> str:
    """JSON's way of writing texts and numbers is YAML's, too."""
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> str:
    return "".join(mark if mark.isprintable() else "?" for mark in text)[:200]
