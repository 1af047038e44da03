"""A whole profile: the root node → Profile, and the rules that hold between its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from edged.profiles.format.commands import read_abort, read_command
from edged.profiles.format.connection import check_query, read_connection, read_match
from edged.profiles.format.fields import (
    Fields,
    check_name,
    complaint,
    list_of,
    nearest,
    pattern_of,
    scalar_of,
    template_of,
    text_of,
)
from edged.profiles.format.parameters import read_value
from edged.profiles.format.returns import is_number
from edged.profiles.format.sequences import read_sequence
from edged.profiles.model import Acquisition, Command, Mark, Profile, Scalar, Sequence, Setting
from edged.profiles.template import optional_names
from edged.scpi.answer_text import AnswerType
from edged.yaml.tree import ListNode, MapNode, Node, ScalarNode

__all__ = ["ACQUISITION_KEYS", "FORMAT", "PROFILE_KEYS", "SETTING_KEYS", "read_profile"]

FORMAT: Final = 1
PROFILE_KEYS: Final = frozenset(
    {
        "format", "profile_key", "version", "manufacturer", "model", "instrument_class", "source",
        "match", "connection", "abort", "abort_excludes", "acquisition", "sim", "commands",
        "settings", "sequences", "extends", "unverified",
    }
)  # fmt: skip
ACQUISITION_KEYS: Final = ("ask", "running", "stopped", "started_by")
SETTING_KEYS: Final = ("get", "set", "for", "unit", "type")
_RESERVED_KEY: Final = "bench"
_MOST_COMMANDS: Final = 500
_NOTHING: Final = frozenset[str]()


def read_profile(root: Node, path: str) -> Profile:
    """The profile of one file, its family already merged in.

    Args:
        root: the file's root node.
        path: the file, for messages.

    Raises:
        Invalid: with the place of whatever breaks a rule of the grammar.
    """
    fields = Fields.of(root, "The profile", PROFILE_KEYS)
    check_format(fields)
    key = _read_key(fields)
    match = read_match(fields.need("match"))
    commands = _read_commands(fields)
    _check_readbacks(fields.node, commands)
    sequences = _read_sequences(fields, commands)
    return Profile(
        key=key,
        version=fields.whole("version", 0, 1_000_000) or 0 if fields.has("version") else 1,
        manufacturer=_identity(fields, "manufacturer"),
        model=_identity(fields, "model"),
        instrument_class=_read_class(fields),
        source=_identity(fields, "source"),
        match=match,
        commands=commands,
        connection=read_connection(fields.get("connection")),
        abort=read_abort(fields, _NOTHING),
        abort_excludes=_read_excludes(fields, commands),
        acquisition=_read_acquisition(fields, commands),
        sequences=sequences,
        settings=_read_settings(fields, commands),
        sim=fields.text("sim", most=64) or None,
        extends=fields.text("extends", most=64) or None,
        unverified=_read_unverified(fields, [*commands, *sequences]),
        source_path=path,
        marks=marks_of(fields.node),
    )


def check_format(fields: Fields) -> None:
    """Raises Invalid: no ``format``, or one that this edged does not read."""
    node = fields.need("format")
    value = scalar_of(node, fields.name_of("format"))
    if value != FORMAT or isinstance(value, bool):
        message = f'{fields.name_of("format")} is "{value}"; this edged reads {FORMAT}.'
        is_newer = isinstance(value, int) and not isinstance(value, bool) and value > FORMAT
        remedy = "It was written for a newer edged: upgrade, or write it anew." if is_newer else ""
        raise complaint(node.mark, message, remedy)


def marks_of(root: MapNode) -> dict[str, Mark]:
    """Where everything stands, by dotted path; list entries go by number."""
    found: dict[str, Mark] = {}
    waiting: list[tuple[str, Node]] = [("", root)]
    while waiting:
        prefix, node = waiting.pop()
        match node:
            case MapNode(entries=entries, keys=keys):
                for name, entry in entries.items():
                    path = f"{prefix}{name}"
                    found[path] = keys[name].mark
                    if not isinstance(entry, ScalarNode):
                        waiting.append((path + ".", entry))
            case ListNode(items=items):
                for index, entry in enumerate(items):
                    path = f"{prefix}{index}"
                    found[path] = entry.mark
                    if not isinstance(entry, ScalarNode):
                        waiting.append((path + ".", entry))
            case ScalarNode():
                pass
    return found


def _read_key(fields: Fields) -> str:
    node = fields.need("profile_key")
    key = text_of(node, fields.name_of("profile_key"), most=200)
    check_name(node.mark, key, "The profile_key")
    if key == _RESERVED_KEY:
        raise complaint(node.mark, f'No profile may be called "{key}": edged has tools of its own.')
    return key


def _identity(fields: Fields, key: str) -> str:
    fields.need(key)
    text = fields.text(key, most=500)
    if not text.strip():
        raise complaint(fields.mark_of(key), f"{fields.name_of(key)} is empty.")
    return text


def _read_class(fields: Fields) -> str:
    name = _identity(fields, "instrument_class")
    return check_name(fields.mark_of("instrument_class"), name, "The instrument_class")


def _read_commands(fields: Fields) -> dict[str, Command]:
    fields.need("commands")
    node = fields.mapping("commands", most=_MOST_COMMANDS)
    if node is None or not node.entries:
        raise complaint(fields.mark_of("commands"), "The profile has no commands.")
    return {
        name: read_command(name, node.keys[name], entry) for name, entry in node.entries.items()
    }


def _read_sequences(fields: Fields, commands: Mapping[str, Command]) -> dict[str, Sequence]:
    node = fields.mapping("sequences", most=_MOST_COMMANDS)
    if node is None:
        return {}
    found: dict[str, Sequence] = {}
    for name, entry in node.entries.items():
        if name in commands:
            # One name space keeps deny, expose and limits of the bench file free of doubt.
            message = f'The sequence "{name}" has the name of a command.'
            raise complaint(node.keys[name].mark, message)
        found[name] = read_sequence(name, node.keys[name], entry, commands)
    return found


def _check_readbacks(root: MapNode, commands: Mapping[str, Command]) -> None:
    """A sweep's readback must be a query for one number, answerable with the sweep's parameters."""
    for name, command in commands.items():
        if command.sweep is None or command.sweep.readback is None:
            continue
        mark = _mark_at(root, "commands", name, "sweep", "readback")
        wanted = command.sweep.readback
        readback = commands.get(wanted)
        if readback is None:
            message = f'{name}.sweep: there is no command "{wanted}" to read back with.'
            raise complaint(mark, message, nearest(wanted, commands))
        if not readback.is_query:
            raise complaint(mark, f"{name}.sweep: the readback {wanted} is no query.")
        if not is_number(readback.returns):
            message = f"{name}.sweep: the readback {wanted} does not return one number."
            raise complaint(mark, message, f'Give {wanted} "returns" (fields need "primary").')
        if readback.is_dangerous or readback.requires_sweep:
            raise complaint(mark, f"{name}.sweep: the readback {wanted} does more than measure.")
        optional = optional_names(readback.scpi)
        for other, parameter in readback.parameters.items():
            is_needed = parameter.default is None and other not in optional
            if is_needed and other not in command.parameters:
                message = f"{name}.sweep: the readback {wanted} needs {other}, which {name} lacks."
                raise complaint(mark, message)


def _mark_at(root: MapNode, *path: str) -> Mark:
    mark, node = root.mark, root
    for name in path:
        mark = node.keys[name].mark
        entry = node.entries[name]
        if isinstance(entry, MapNode):
            node = entry
    return mark


def _read_settings(fields: Fields, commands: Mapping[str, Command]) -> dict[str, Setting]:
    node = fields.mapping("settings", most=_MOST_COMMANDS)
    if node is None:
        return {}
    return {
        name: _read_setting(name, node.keys[name], entry, commands)
        for name, entry in node.entries.items()
    }


def _read_setting(name: str, key: Node, node: Node, commands: Mapping[str, Command]) -> Setting:
    check_name(key.mark, name, "The setting")
    fields = Fields.of(node, f"settings.{name}", SETTING_KEYS)
    set_command = _read_set_command(fields, commands)
    for_values = _read_for(fields, set_command)
    get = fields.need("get")
    template = template_of(get, fields.name_of("get"), for_values)
    unit = fields.text("unit", most=32)
    kind = fields.choice("type", list(AnswerType))
    return Setting(
        name=name,
        get=check_query(get, template, fields),
        set_command=None if set_command is None else set_command.name,
        for_values=for_values,
        unit=unit,
        type=AnswerType(kind or (AnswerType.FLOAT if unit else AnswerType.STRING)),
    )


def _read_set_command(fields: Fields, commands: Mapping[str, Command]) -> Command | None:
    if not fields.has("set"):
        return None
    name = fields.text("set", most=64)
    command = commands.get(name)
    if command is None:
        message = f'{fields.owner}: there is no command "{name}".'
        raise complaint(fields.mark_of("set"), message, nearest(name, commands))
    if command.is_query:
        raise complaint(
            fields.mark_of("set"), f"{fields.owner}: {name} is a query; it sets nothing."
        )
    return command


def _read_for(fields: Fields, set_command: Command | None) -> dict[str, tuple[Scalar, ...]]:
    """``for``: a parameter → the values for which the setting is read."""
    node = fields.mapping("for", most=8)
    found: dict[str, tuple[Scalar, ...]] = {}
    for name, entry in ({} if node is None else node.entries).items():
        owner = f"{fields.owner}.for: {name}"
        check_name(fields.mark_of("for"), name, f"{fields.owner}: the parameter")
        parameter = None if set_command is None else set_command.parameters.get(name)
        if set_command is not None and parameter is None:
            message = f"{owner} is no parameter of {set_command.name}."
            raise complaint(fields.mark_of("for"), message, nearest(name, set_command.parameters))
        values = [
            scalar_of(item, owner) if parameter is None else read_value(item, parameter, owner)
            for item in list_of(entry, owner, most=100)
        ]
        if not values:
            raise complaint(entry.mark, f"{owner} lists no values.")
        found[name] = tuple(values)
    return found


def _read_excludes(fields: Fields, commands: Mapping[str, Command]) -> dict[str, str]:
    """``abort_excludes``: a command → why ``abort`` has nothing to do with what it puts out."""
    node = fields.mapping("abort_excludes", most=_MOST_COMMANDS)
    found: dict[str, str] = {}
    for name, entry in ({} if node is None else node.entries).items():
        owner = fields.name_of("abort_excludes")
        if name not in commands:
            message = f'{owner} names "{name}", which is no command.'
            raise complaint(
                node.keys[name].mark if node else entry.mark, message, nearest(name, commands)
            )
        why = text_of(entry, f"{owner}: {name}", most=500)
        if not why.strip():
            raise complaint(entry.mark, f"{owner} gives no reason for {name}.")
        found[name] = why
    return found


def _read_acquisition(fields: Fields, commands: Mapping[str, Command]) -> Acquisition | None:
    """``acquisition``: how the instrument tells whether a trace is fresh."""
    node = fields.get("acquisition")
    if node is None:
        return None
    inner = Fields.of(node, "acquisition", ACQUISITION_KEYS)
    ask = inner.need("ask")
    started_by: list[str] = []
    for item in inner.items("started_by", most=_MOST_COMMANDS):
        name = text_of(item, inner.name_of("started_by"), most=64)
        if name not in commands:
            message = f'{inner.name_of("started_by")} names "{name}", which is no command.'
            raise complaint(item.mark, message, nearest(name, commands))
        started_by.append(name)
    return Acquisition(
        ask=check_query(ask, template_of(ask, inner.name_of("ask"), _NOTHING), inner),
        running=pattern_of(inner.need("running"), inner.name_of("running")),
        stopped=pattern_of(inner.need("stopped"), inner.name_of("stopped")),
        started_by=tuple(started_by),
    )


def _read_unverified(fields: Fields, names: list[str]) -> tuple[str, ...]:
    node = fields.get("unverified")
    if node is None:
        return ()
    owner = fields.name_of("unverified")
    if isinstance(node, ScalarNode) and node.text == "all":
        return tuple(names)
    found: list[str] = []
    for item in list_of(node, owner):
        name = text_of(item, owner, most=64)
        if name not in names:
            message = f'{owner} names "{name}", which is no command and no sequence.'
            raise complaint(item.mark, message, nearest(name, names))
        found.append(name)
    return tuple(found)
