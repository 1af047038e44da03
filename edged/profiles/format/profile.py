"""A whole profile: the root node → Profile, and the rules that hold between its parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from edged.profiles.addressed import PLACEHOLDER, names_address
from edged.profiles.format.commands import ABORT_KIND, read_command
from edged.profiles.format.connection import CONNECTION, IDENTIFY, MATCH
from edged.profiles.format.kinds import (
    EXPRESSION,
    NAME_PATTERN,
    NAMED,
    PATTERN,
    PLAIN_QUESTION,
    QUERY,
    by_name,
    check_name,
    known_name_of,
)
from edged.profiles.format.parameters import read_value
from edged.profiles.format.returns import DECIMAL, is_number
from edged.profiles.format.sequences import answer_fields, read_sequence
from edged.profiles.format.watchdog import WATCHDOG_KIND
from edged.profiles.model import (
    AbortStep,
    Acquisition,
    Changes,
    Command,
    Connection,
    Limiting,
    Match,
    Profile,
    ProfileStatus,
    Sequence,
    Setting,
    WaveformAnswer,
)
from edged.profiles.template import optional_names
from edged.schema.fields import (
    FORMAT,
    Fields,
    Gathering,
    check_format,
    complaint,
    each_of,
    list_of,
    marks_of,
    nearest,
    one_of,
    scalar_of,
    text_of,
)
from edged.schema.tables import (
    TEXT_SCHEMA,
    TRUTH,
    Key,
    Kind,
    Schema,
    Table,
    array,
    choice,
    integer,
    is_word,
    mapping,
    reference,
    text,
)
from edged.scpi.kinds import AnswerType
from edged.scpi.words import may_put_out, side_effect
from edged.yaml.tree import ListNode, MapNode, Mark, Node, Scalar, ScalarNode

_RESERVED_KEY: Final = "bench"
_MOST_COMMANDS: Final = 500
SOURCING: Final = frozenset({"smu", "source_meter", "calibrator", "lcr_meter", "other"})
"""Classes that put something out to measure, or may."""


def _key(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    return check_key(node.mark, text_of(node, fields.name_of(key), most=200))


def check_key(mark: Mark, name: str) -> str:
    """What a profile may be called.

    Raises:
        Invalid: it may not be called so.
    """
    check_name(mark, name, "The profile_key")
    if name == _RESERVED_KEY:
        message = f'No profile may be called "{name}": edged has tools of its own.'
        raise complaint(mark, message)
    return name


def _identity(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    found = text_of(node, fields.name_of(key), most=500)
    if not found.strip():
        raise complaint(fields.mark_of(key), f"{fields.name_of(key)} is empty.")
    return found


def _class(fields: Fields, key: str, node: Node, names: Collection[str]) -> str:
    return check_name(fields.mark_of(key), _identity(fields, key, node, names), f"The {key}")


def _section(part: Table[Any]) -> Kind:
    """A part of the profile; its complaints begin with the part's own name."""
    return part.link._replace(read=lambda _fields, key, node, _names: part.read(node, key))


_IDENTITY: Final = Kind("text", TEXT_SCHEMA, _identity)
_NAME: Final[Schema] = {"type": "string", "pattern": NAME_PATTERN}
ACQUISITION: Final = Table(
    "acquisition",
    Acquisition,
    "For oscilloscopes and analysers: whether it is running, queried with each waveform and "
    "picture. If the answer matches neither `running` nor `stopped`, it waits for a trigger.",
    Key("ask", PLAIN_QUESTION, "The query for its state.", is_required=True),
    Key("running", PATTERN, "If the answer matches, the trace is new.", is_required=True),
    Key("stopped", PATTERN,
        "If the answer matches, the trace is new only once, and only if one of `started_by` was "
        "run since the last stop.",
        is_required=True),
    Key("started_by", array(NAMED._replace(read=known_name_of), _MOST_COMMANDS),
        "The commands that start a new acquisition; without those that a stopped oscilloscope "
        "ignores, such as a forced trigger."),
)  # fmt: skip
LIMITED: Final = Table(
    "limited",
    Limiting,
    "For sources and loads: whether a limit holds back what is measured. It is queried after "
    "each measurement of an output that is known to be on. `notes` of the result say it.",
    Key("command", NAMED,
        "The command that reports the limit: a query of one line that is not dangerous and has no "
        "`changes`. It is not sent after a measurement without one of its parameters.",
        is_required=True),
    Key("when", EXPRESSION,
        "The condition, over the fields of its answer (or `value`) and the parameters of the "
        "measurement.",
        is_required=True),
    Key("note", text(100), "The text of the note (default: `the current limit was reached`)."),
)  # fmt: skip
SETTING: Final = Table(
    "setting",
    Setting,
    "What is read when a recording starts.",
    Key("get", QUERY, "The query; it can contain the names in `for`.", is_required=True),
    Key("set", NAMED, "The command that sets it."),
    Key("for", mapping("parameter → list of values", {"type": "array", "minItems": 1}),
        "The values for which it is read."),
    Key("unit", text(32), "The unit of the answer."),
    Key("type", choice(AnswerType),
        "The type of the answer; default `float` if it has a unit, else `string`."),
    DECIMAL._replace(sentence="The decimal mark of the answer: `,` for `-1,2`."),
    is_merged=True,
)  # fmt: skip
PROFILE: Final = Table(
    "profile",
    Profile,
    "The top level of the file.",
    Key("format", Kind("1", {"const": FORMAT}), "The version of the format.", is_required=True,
        is_own=True),
    Key("profile_key", Kind("name", _NAME, _key),
        "`[a-z][a-z0-9_]*` without `__`; begins every tool name; not `bench`.",
        field="key", is_required=True, is_own=True),
    Key("version", integer(0, 1_000_000), "The version of this profile, as you number it."),
    Key("manufacturer", _IDENTITY, "The manufacturer.", is_required=True),
    Key("model", _IDENTITY, "The model name.", is_required=True, is_own=True),
    Key("instrument_class", Kind("name", _NAME, _class),
        "`power_supply`, `multimeter`, `oscilloscope`, `smu`, `electronic_load`, …",
        is_required=True),
    Key("source", _IDENTITY, "Where the commands come from: manual, driver, capture.",
        is_required=True),
    Key("status", choice(ProfileStatus),
        "`imported`: made from another program's source code, and not yet compared with a "
        "manual; every command that may switch an output on is dangerous, raw SCPI is checked as "
        "with `known`, and a reviewed profile has priority."),
    Key("match", _section(MATCH),
        "Which instruments it is for; required unless there is `identify` or `never_ask_idn`.",
        is_own=True),
    Key("identify", IDENTIFY.link,
        "The query instead of `*IDN?`, if INSTRUMENTS names the profile.", is_own=True),
    Key("never_ask_idn", TRUTH._replace(read=None),
        "`true`: `*IDN?` is never sent; `identify`, or else `connection.probe`, is sent instead. "
        "The profile is used only if INSTRUMENTS names it."),
    Key("connection", _section(CONNECTION), "The settings of the connection."),
    Key("abort", ABORT_KIND, "The lines that make the whole instrument safe."),
    Key("abort_excludes",
        by_name("command → text", {"type": ["string", "number", "null"]}),
        "Why `abort` need not undo what the command does."),
    Key("watchdog", WATCHDOG_KIND,
        "The timer that switches its outputs off when it gets no messages."),
    Key("acquisition", ACQUISITION.link,
        "For oscilloscopes and analysers: how to query whether it is running."),
    Key("limited",
        LIMITED.link._replace(schema={"anyOf": [reference("limited"), {"type": "null"}]}),
        "For sources and loads: how to query whether a limit was reached."),
    Key("sim", text(64, is_optional=True), "The simulated instrument for this model.",
        is_own=True),
    Key("commands", by_name("name → [command](#command)", reference("command"), least=1),
        "Its commands.", is_required=True),
    Key("settings", by_name("name → [setting](#setting)", reference("setting")),
        "What is read when a recording starts."),
    Key("sequences", by_name("name → [sequence](#sequence)", reference("sequence")),
        "Tools of several steps."),
    Key("extends", text(64, is_optional=True),
        "The `profile_key` of the family that this one differs from.", is_own=True),
    Key("unverified",
        Kind("list of names, or `all`", {"anyOf": [{"const": "all"}, array(text()).schema]}),
        "The commands and sequences that nobody has tried on the real instrument."),
)  # fmt: skip


def read_profile(root: Node, path: str) -> Profile:
    """The profile of one file, its family already merged in.

    Args:
        root: the file's root node.
        path: the file, for messages.

    Raises:
        Invalid: with the place of whatever breaks a rule of the grammar.
    """
    gathering = Gathering()
    fields = PROFILE.begin(root, "The profile", gathering)
    check_format(fields)
    found: dict[str, Any] = {}
    with gathering.part():
        found = PROFILE.values(fields)
        _check_watchdog(fields, found)
        found = _with_naming(fields, found)
    commands = _read_commands(fields, gathering)
    # What builds on a command that cannot be read is not blamed for that.
    broken = frozenset(_names(fields, "commands")) - set(commands)
    _check_readbacks(fields.node, commands, broken, gathering)
    if found.get("status") is ProfileStatus.IMPORTED:
        # One whose class cannot be read counts as one that may put something out.
        sources = found.get("instrument_class", "other") in SOURCING
        commands = {name: _as_imported(one, sources) for name, one in commands.items()}
    sequences = _read_sequences(fields, commands, broken, gathering)
    found["settings"] = _read_settings(fields, commands, broken, gathering)
    names = (*commands, *broken)
    with gathering.part():
        _check_taken_back(fields, found.get("abort", ()), names)
    with gathering.part():
        acquisition = fields.get("acquisition")
        if acquisition is not None:
            found["acquisition"] = ACQUISITION.read(acquisition, "acquisition", names)
    with gathering.part():
        limited = fields.get("limited")
        # A member of a family writes null where its own model cannot tell.
        if limited is not None and not (isinstance(limited, ScalarNode) and limited.value is None):
            found["limited"] = _read_limited(limited, commands, broken)
    with gathering.part():
        found["abort_excludes"] = _read_excludes(fields, names)
    with gathering.part():
        every = (*names, *_names(fields, "sequences"))
        found["unverified"] = _read_unverified(fields, every)
    gathering.end()
    profile = Profile(
        **found,
        commands=commands,
        sequences=sequences,
        source_path=path,
        marks=marks_of(fields.node),
    )
    _check_address(fields, profile)
    _check_encoding(fields, profile)
    return profile


def _check_address(fields: Fields, profile: Profile) -> None:
    """``{address}`` stands for something only where units share a port."""
    connection = profile.connection
    is_shared = any(connection.on_wire(wire).shared for wire in ("", *connection.by_wire))
    named = None if is_shared else _place_of(fields.node, PLACEHOLDER)
    if named is not None and names_address(profile):
        message = "{address} is not a parameter, and connection does not say shared: true."
        raise complaint(named, message, "Write connection: {shared: true}, or name a parameter.")


def _check_encoding(fields: Fields, profile: Profile) -> None:
    """What the profile sends is text that a connection of it can carry."""
    connection = profile.connection
    wires = ("", *connection.by_wire)
    encodings = list(dict.fromkeys(connection.on_wire(wire).encoding for wire in wires))
    remedy = "Write connection: {encoding: latin-1}, or utf-8, if the instrument reads that."
    gathering = Gathering()
    for mark, sent in (*_sent(fields.node), *_sent_values(profile)):
        odd = next((c for c in sent if not any(_carries(one, c) for one in encodings)), "")
        if odd:
            message = f'"{sent}" is sent, and {one_of(encodings)} has no "{odd}".'
            gathering.add(complaint(mark, message, remedy))
    gathering.end()


def _carries(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _sent(node: Node, *, is_sent: bool = False) -> Iterator[tuple[Mark, str]]:
    """Every text below a key whose value is sent."""
    match node:
        case ScalarNode(mark=mark, text=text) if is_sent and not text.isascii():
            yield mark, text
        case ListNode(items=items):
            for item in items:
                yield from _sent(item, is_sent=is_sent)
        case MapNode(entries=entries):
            for key, entry in entries.items():
                yield from _sent(entry, is_sent=key in SENT)


def _sent_values(profile: Profile) -> Iterator[tuple[Mark, str]]:
    """What a parameter's labels are sent as."""
    for command in profile.commands.values():
        for parameter in command.parameters.values():
            mark = profile.marks[f"commands.{command.name}.parameters.{parameter.name}"]
            for label in (*parameter.options, *parameter.map):
                text = str(parameter.map.get(label, label))
                if not text.isascii():
                    yield mark, text


SENT: Final = frozenset(
    {
        "abort", "ask", "before", "clear", "data", "delay", "detail", "disable", "enable", "feeds",
        "get", "on_connect", "on_connect_serial", "on_release", "poll", "query", "scpi", "send",
        "setpoint", "setup",
    }
)  # fmt: skip
"""The keys whose value is SCPI."""


def _place_of(node: Node, text: str) -> Mark | None:
    """Where a text first stands in a tree."""
    if isinstance(node, ScalarNode):
        return node.mark if text in node.text else None
    inside = node.items if isinstance(node, ListNode) else tuple(node.entries.values())
    return next(filter(None, (_place_of(entry, text) for entry in inside)), None)


def _read_limited(
    node: Node, commands: Mapping[str, Command], broken: Collection[str]
) -> Limiting | None:
    """Read how a limit is reported, by a query that may be sent at any time; none if broken."""
    inner = LIMITED.fields(node, "limited")
    name = known_name_of(inner, "command", inner.need("command"), (*commands, *broken))
    if name in broken:
        return None
    command = commands[name]
    if not command.is_query or command.is_write or len(command.scpi) != 1:
        message = f"{inner.name_of('command')}: {name} is no harmless query of one line."
        raise complaint(inner.mark_of("command"), message)
    known = {
        "value",
        *answer_fields(command.returns),
        *(parameter for one in commands.values() for parameter in one.parameters),
    }
    return Limiting(command=name, **LIMITED.read_values(node, "limited", known))


def _names(fields: Fields, key: str) -> tuple[str, ...]:
    """The names under a key, whatever stands there."""
    node = fields.get(key)
    return tuple(node.entries) if isinstance(node, MapNode) else ()


def _entries(fields: Fields, key: str, gathering: Gathering) -> Iterator[tuple[str, Node, Node]]:
    """Each name under a key, where it stands, and what stands under it."""
    node: MapNode | None = None
    with gathering.part():
        node = fields.mapping(key, most=_MOST_COMMANDS)
    if node is not None:
        for name, entry in node.entries.items():
            yield name, node.keys[name], entry


def _mentions(node: Node, names: Collection[str]) -> bool:
    """Whether one of the names stands anywhere below a node."""
    match node:
        case ScalarNode(text=text):
            return text in names
        case ListNode(items=items):
            return any(_mentions(item, names) for item in items)
        case MapNode(entries=entries):
            return any(_mentions(entry, names) for entry in entries.values())


def _with_naming(fields: Fields, head: dict[str, Any]) -> dict[str, Any]:
    """How its instruments say who they are is part of how they are spoken to."""
    node, is_never = fields.get("identify"), fields.truth("never_ask_idn")
    asked = None if node is None else IDENTIFY.read(node, "identify")
    if is_never and fields.has("match"):
        message = "The profile has never_ask_idn, so match cannot be used."
        raise complaint(fields.mark_of("match"), message, "Leave one of them out.")
    if not fields.has("match") and asked is None and not is_never:
        message = 'The profile has no "match".'
        remedy = "Where the instrument does not know *IDN?, give identify in its place."
        raise complaint(fields.mark, message, remedy)
    name = (head[part].replace(",", " ").strip() for part in ("manufacturer", "model"))
    connection = replace(
        head.get("connection", Connection()),
        identify=asked,
        never_ask_idn=is_never,
        unit_name=",".join(name),
    )
    return {"match": Match(), **head, "connection": connection}


def _check_watchdog(fields: Fields, head: Mapping[str, Any]) -> None:
    """It runs until every output is known to be off, and only an abort's proofs tell that."""
    if head.get("watchdog") is not None and not head.get("abort"):
        message = "The profile has a watchdog and no abort: nothing would ever stop it."
        raise complaint(fields.mark_of("watchdog"), message, "Add what switches all outputs off.")


def _read_commands(fields: Fields, gathering: Gathering) -> dict[str, Command]:
    """Those that can be read."""
    found: dict[str, Command] = {}
    with gathering.part():
        fields.need("commands")
        node = fields.mapping("commands", most=_MOST_COMMANDS)
        if node is None or not node.entries:
            raise complaint(fields.mark_of("commands"), "The profile has no commands.")
        for name, entry in node.entries.items():
            with gathering.part():
                found[name] = read_command(name, node.keys[name], entry)
    return found


def _read_sequences(
    fields: Fields, commands: Mapping[str, Command], broken: Collection[str], gathering: Gathering
) -> dict[str, Sequence]:
    found: dict[str, Sequence] = {}
    for name, key, entry in _entries(fields, "sequences", gathering):
        with gathering.part():
            if name in commands:
                # One name space keeps deny, expose and limits of the bench file free of doubt.
                message = f'The sequence "{name}" has the name of a command.'
                raise complaint(key.mark, message)
            found[name] = read_sequence(name, key, entry, commands, broken)
    return found


def _as_imported(command: Command, sources: bool) -> Command:
    """Dangerous where it may put something out: nobody has looked up that it does not.

    A safe command stays safe: it is never refused, so that whatever happens can be ended.
    """
    setup = command.returns.setup if isinstance(command.returns, WaveformAnswer) else ()
    asked = [may_put_out(line, is_query=command.is_query, sources=sources) for line in command.scpi]
    told = [may_put_out(line, is_query=False, sources=sources) for line in setup]
    if command.is_safe or not any((*asked, *told)):
        return command
    is_loading = any(map(side_effect, command.scpi))
    changes = Changes.ANY if is_loading and command.changes is None else command.changes
    return replace(command, is_dangerous=True, changes=changes)


def _check_readbacks(
    root: MapNode, commands: Mapping[str, Command], broken: Collection[str], gathering: Gathering
) -> None:
    """A sweep's readback must be a query for one number, answerable with the sweep's parameters."""
    for name, command in commands.items():
        if command.sweep is None or command.sweep.readback is None:
            continue
        mark = _mark_at(root, "commands", name, "sweep", "readback")
        if command.sweep.readback not in broken:
            with gathering.part():
                _check_readback(mark, command, command.sweep.readback, commands)


def _check_readback(
    mark: Mark, command: Command, wanted: str, commands: Mapping[str, Command]
) -> None:
    name = command.name
    readback = commands.get(wanted)
    if readback is None:
        message = f'{name}.sweep: there is no command "{wanted}" to read back with.'
        raise complaint(mark, message, nearest(wanted, commands))
    if not readback.is_query:
        raise complaint(mark, f"{name}.sweep: the readback {wanted} is not a query.")
    if not is_number(readback.returns):
        message = f"{name}.sweep: the readback {wanted} does not return one number."
        raise complaint(mark, message, f'Give {wanted} "returns" (fields need "primary").')
    if readback.is_write or readback.requires_sweep:
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


def _read_settings(
    fields: Fields, commands: Mapping[str, Command], broken: Collection[str], gathering: Gathering
) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for name, key, entry in _entries(fields, "settings", gathering):
        with gathering.part():
            if not _mentions(entry, broken):
                found[name] = _read_setting(name, key, entry, commands)
    return found


def _read_setting(name: str, key: Node, node: Node, commands: Mapping[str, Command]) -> Setting:
    check_name(key.mark, name, "The setting")
    gathering = Gathering()
    fields = SETTING.begin(node, f"settings.{name}", gathering)
    set_command: Command | None = None
    for_values: dict[str, tuple[Scalar, ...]] = {}
    found: dict[str, Any] = {}
    with gathering.part():
        set_command = _read_set_command(fields, commands)
        for_values = _read_for(fields, set_command)
        found = SETTING.values(fields, for_values)
    gathering.end()
    found.setdefault("type", AnswerType.FLOAT if found.get("unit") else AnswerType.STRING)
    return Setting(
        name=name,
        set_command=None if set_command is None else set_command.name,
        for_values=for_values,
        **found,
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
            message = f"{owner} is not a parameter of {set_command.name}."
            raise complaint(fields.mark_of("for"), message, nearest(name, set_command.parameters))
        values = [
            scalar_of(item, owner) if parameter is None else read_value(item, parameter, owner)
            for item in list_of(entry, owner, most=100)
        ]
        if not values:
            raise complaint(entry.mark, f"{owner} lists no values.")
        found[name] = tuple(values)
    return found


def _check_taken_back(
    fields: Fields, abort: Collection[AbortStep], commands: Collection[str]
) -> None:
    for name in (name for step in abort for name in step.takes_back):
        if name not in commands:
            message = f'abort: "takes_back" names "{name}", which is not a command.'
            raise complaint(fields.mark_of("abort"), message, nearest(name, commands))


def _read_excludes(fields: Fields, commands: Collection[str]) -> dict[str, str]:
    """``abort_excludes``: a command → why ``abort`` has nothing to do with what it puts out."""
    node = fields.mapping("abort_excludes", most=_MOST_COMMANDS)
    found: dict[str, str] = {}
    for name, entry in ({} if node is None else node.entries).items():
        owner = fields.name_of("abort_excludes")
        if name not in commands:
            message = f'{owner} names "{name}", which is not a command.'
            raise complaint(
                node.keys[name].mark if node else entry.mark, message, nearest(name, commands)
            )
        why = text_of(entry, f"{owner}: {name}", most=500)
        if not why.strip():
            raise complaint(entry.mark, f"{owner} gives no reason for {name}.")
        found[name] = why
    return found


def _read_unverified(fields: Fields, names: Collection[str]) -> tuple[str, ...]:
    node = fields.get("unverified")
    if node is None:
        return ()
    owner = fields.name_of("unverified")
    if is_word(node, "all"):
        return tuple(names)
    what = "no command and no sequence"
    return each_of(
        list_of(node, owner), lambda item: known_name_of(fields, "unverified", item, names, what)
    )
