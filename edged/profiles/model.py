"""What a profile says, as frozen values; nothing here reads files or talks to anything.

docs/profiles.md is the grammar; ``loading.py`` makes these from YAML and has checked
every rule of the grammar by the time one exists, so that the rest of the house trusts them.
Times are milliseconds as in the files. Templates stay text here; ``template.py`` fills them.

What is known of every profile: enough to find the one that fits, and to list them.

A library has dozens of profiles and a bench a few; the rest of a profile is its better part by far.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final

from edged.patterns import needed_text
from edged.record import record
from edged.scpi.kinds import AnswerType, ErrorKind
from edged.scpi.numbers import shortest_text
from edged.yaml.tree import Mark, Scalar

ABORT_COMMAND: Final = "abort"
"""The name under which a profile's own abort list is audited; no command may have it."""


class ProfileStatus(enum.StrEnum):
    """Who answers for a profile: a person, or so far only a program that read it off elsewhere."""

    REVIEWED = "reviewed"
    IMPORTED = "imported"


class ParameterType(enum.StrEnum):
    """The ``type`` of a ParameterConfig."""

    FLOAT = "float"
    INT = "int"
    STRING = "string"
    BOOL = "bool"
    ENUM = "enum"


@record
class Bound:
    """Limits of a number or choices of an enum; ``None`` leaves that side open."""

    min: float | None = None
    max: float | None = None
    options: tuple[str, ...] | None = None


@record
class Parameter:
    """One argument of a command or sequence.

    Attributes:
        options: the choices of an enum (labels, in the file's order), else empty.
        default: the value that stands in when the caller gives none; ``None`` is "no default".
        map: label → what goes onto the wire; the caller sees labels only. For a bool the keys are
            ``"true"`` and ``"false"``.
        step: resolution in the parameter's unit.
        by: limits by another parameter: its name → its value → the bound that then holds too.
    """

    name: str
    type: ParameterType
    description: str = ""
    unit: str = ""
    options: tuple[str, ...] = ()
    min: float | None = None
    max: float | None = None
    default: Scalar | None = None
    map: Mapping[str, str | int | float] = field(default_factory=dict, hash=False)
    step: float | None = None
    by: Mapping[str, Mapping[Scalar, Bound]] = field(default_factory=dict, hash=False)


def wire_value(value: Scalar, parameter: Parameter | None) -> Scalar:
    """What goes onto the wire for a value: a label's own value where there is a ``map``."""
    if parameter is None or not parameter.map:
        return value
    label = str(value).lower() if isinstance(value, bool) else str(value)
    return parameter.map.get(label, value)


def wire_text(value: Scalar, parameter: Parameter | None) -> str:
    """What a value is on the wire where the template gives no format; unchecked, for comparing."""
    wire = wire_value(value, parameter) if parameter and parameter.map else value
    if isinstance(wire, bool):
        return "1" if wire else "0"
    return wire if isinstance(wire, str) else shortest_text(wire)


DEFAULT_SENTINELS: Final = (9.9e37, 9.91e37, -9.9e37, -9.91e37)
"""SCPI's numbers for "no value" (SCPI-99 7.2.1.4 and what instruments send in its place)."""


@record
class ScalarAnswer:
    r"""``returns: {type, unit?, map?, scale?}``: the whole answer is one value.

    ``map`` is wire text → label; ``scale`` an expression over ``value``; ``extra_lines`` how many
    lines that mean nothing may follow in the same message. ``keeps_control``: control characters
    stay, as ``\x01``.
    """

    type: AnswerType
    unit: str = ""
    map: Mapping[str, str] = field(default_factory=dict)
    scale: str | None = None
    sentinels: tuple[float, ...] = DEFAULT_SENTINELS
    extra_lines: int = 0
    keeps_control: bool = False
    decimal: str = "."


MOST_ITEMS: Final = 50_000
"""Values of a list: the memory of a data logger, and what becomes JSON without a pause."""


@record
class ListAnswer:
    """``returns: {type: list, item, separator?, lines?}``: as many values as come.

    ``item`` is the type of each. ``lines`` is how many lines the answer has, each with any number
    of items; ``None`` is as many as come. ``count`` is as in ``FieldsAnswer``.
    """

    type: AnswerType = AnswerType.FLOAT
    separator: str = ","
    lines: int | None = 1
    count: tuple[int, int] | None = None
    unit: str = ""
    map: Mapping[str, str] = field(default_factory=dict)
    scale: str | None = None
    sentinels: tuple[float, ...] = DEFAULT_SENTINELS
    keeps_control: bool = False
    decimal: str = "."


@record
class AnswerField:
    """One field of a structured answer, found by exactly one of index, key or pattern."""

    name: str
    type: AnswerType
    unit: str = ""
    map: Mapping[str, str] = field(default_factory=dict)
    scale: str | None = None
    index: int | None = None
    key: str | None = None
    pattern: str | None = None
    keeps_control: bool = False
    decimal: str = "."


@record
class FieldsAnswer:
    """``returns: {fields: […], separator?, primary?}``: several named values in one answer.

    ``count`` is the least and the most pieces that the answer has; ``None`` is any number.
    ``decimal`` is that of its fields, which have it, too.
    """

    fields: tuple[AnswerField, ...]
    separator: str = ","
    primary: str | None = None
    sentinels: tuple[float, ...] = DEFAULT_SENTINELS
    count: tuple[int, int] | None = None
    extra_lines: int = 0
    decimal: str = "."


@record
class BitField:
    """One field of a status word: the bits under ``mask``, shifted down, with labels by number."""

    name: str
    mask: int
    map: Mapping[str, str] = field(default_factory=dict)


@record
class BitsAnswer:
    """``returns: {bits: {base, fields}}``: a status word."""

    base: int = 10
    fields: tuple[BitField, ...]


@record
class Packets:
    """``packets``: a trace that comes in several answers to the same query.

    Attributes:
        fields: name and number of ASCII digits of what begins each of them.
        until: an expression over these and the command's parameters: it was the last one.
    """

    fields: tuple[tuple[str, int], ...]
    until: str


@record
class WaveformAnswer:
    """``returns: {waveform: …}``: a block of samples and how to make volts and seconds of it.

    ``x_increment`` and ``scale`` are expressions: the first over the preamble's fields and the
    command's parameters, the second over ``value`` (the sample's code) besides. Where a point is
    sent as so many values, the first of them is the sample.

    ``count`` (of points) and ``size`` (in bytes) are expressions as ``x_increment`` is, or empty;
    one of them says where data without a header end. ``prefix``, ``length``, ``skip_bytes`` and
    ``packets``: see ``frames.py``.
    """

    data: str
    dtype: str
    byte_order: str = "little"
    setup: tuple[str, ...] = ()
    preamble_queries: tuple[str, ...] = ()
    preamble_fields: tuple[AnswerField, ...] = ()
    preamble_separator: str = ","
    preamble_count: tuple[int, int] | None = None
    chunk_points: int | None = None
    has_header: bool = True
    count: str = ""
    size: str = ""
    prefix: str = ""
    length: str = ""
    skip_bytes: int = 0
    packets: Packets | None = None
    trailing_bytes: int = 0
    values_per_point: int = 1
    x_increment: str = "1"
    x_unit: str = "s"
    y_unit: str = "V"
    scale: str = "value"


@record
class ImageAnswer:
    """``returns: {image: {mime, data}}``: a picture of the screen."""

    mime: str
    data: str


Returns = ScalarAnswer | ListAnswer | FieldsAnswer | BitsAnswer | WaveformAnswer | ImageAnswer


@record
class Verify:
    """Ask back after a write: ``query`` must answer ``parameter``'s value within ``tolerance``."""

    query: str
    tolerance: float = 0
    parameter: str
    pattern: str = ""
    decimal: str = "."


class CompletionKind(enum.StrEnum):
    """How a command tells that it is done."""

    NONE = "none"
    OPC = "opc"
    POLL = "poll"


@record
class Completion:
    """``complete``: nothing, ``*OPC?``, or a query polled until ``until`` holds for its value.

    The value is what the group of ``pattern`` finds in the answer, read as ``type``; by default the
    whole answer, a number if it is one and else text.
    """

    kind: CompletionKind = CompletionKind.NONE
    query: str = ""
    pattern: str = ""
    type: AnswerType | None = None
    until: str = ""
    every_ms: int = 100
    timeout_ms: int = 10_000


@record
class ErrorCheck:
    """The query for the instrument's own verdict on the last write.

    ``pattern`` and ``none`` are those of ``scpi.errors.parse_error``.
    """

    kind: ErrorKind = ErrorKind.NONE
    query: str = ""
    detail: str = ""
    pattern: str = ""
    none: str = ""


@record
class AbortStep:
    """One entry of ``abort``: a line, and how it can be seen that it was obeyed.

    Attributes:
        send: the line; of a sweep's abort a template over the command's parameters.
        ask: the question whose answer shows that it was obeyed; empty where the profile's own
            queries are to be searched for one.
        expect: a pattern that is searched in the answer.
        is_unaskable: the author says that nobody can ask (``ask: none``).
        takes_back: the commands that it takes back though their lines have no word in common with
            it (``START`` and ``STOP``).
    """

    send: str
    ask: str = ""
    expect: str = ""
    is_unaskable: bool = False
    takes_back: tuple[str, ...] = ()


@record
class SweepPlan:
    """``sweep`` of a command: which parameter can be ramped, and how one looks and stops.

    Attributes:
        setpoint: query for what the instrument holds as set, a template over the parameters.
        readback: name of a query command that measures it, or none.
        step: resolution; ``None`` leaves it to the parameter's format.
        pattern: the value in the set-point's answer (one group), where it tells more than that.
        abort: rendered with the sweep's parameters; empty means the profile's abort.
    """

    parameter: str
    setpoint: str
    readback: str | None = None
    interval_ms: int = 100
    step: float | None = None
    abort: tuple[AbortStep, ...] = ()
    pattern: str = ""
    decimal: str = "."


@record
class Acquisition:
    """How an instrument tells whether what it shows is fresh, for its traces and pictures.

    Attributes:
        ask: what it is doing.
        running: a pattern that is searched in the answer: it captures anew all the time.
        stopped: the same: it captures nothing, so what it holds is the last capture; any other
            answer says that it waits for a trigger.
        started_by: the commands after which a capture that has ended by itself is a new one; none
            that a stopped instrument ignores.
    """

    ask: str
    running: str
    stopped: str
    started_by: tuple[str, ...] = ()


@record
class Limiting:
    """How an instrument tells that what it gives is held back while it is measured.

    Attributes:
        command: the query that tells, whose parameters a measurement must have as well.
        when: a condition over its answer (the names of its fields, or ``value``) and the
            measurement's parameters.
        note: what is said of a measurement then.
    """

    command: str
    when: str
    note: str = "the current limit was reached"


@record
class Precondition:
    """What the instrument must answer before a command's lines are sent.

    For what it would otherwise take in another sense than was meant, or never answer: a level
    while the other function is sourced, a reading while the output is off.
    """

    query: str
    expect: str
    hint: str = ""


class Changes(enum.StrEnum):
    """What a command may change that its lines do not name."""

    OUTPUTS = "outputs"
    SETTINGS = "settings"
    ANY = "any"


@record
class Command:
    """One thing an instrument can be told or asked.

    Attributes:
        scpi: the lines of one uninterruptible job, as templates.
        changes: what it may change beyond what its lines name; ``None``: nothing.
        timeout_ms, after_write_ms, errors, acknowledge, complete: ``None`` leaves the
            connection's own.
    """

    name: str
    scpi: tuple[str, ...]
    description: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    is_query: bool = False
    returns: Returns | None = None
    precondition: Precondition | None = None
    verify: Verify | None = None
    complete: Completion | None = None
    errors: ErrorCheck | None = None
    acknowledge: str | None = None
    timeout_ms: int | None = None
    after_write_ms: int | None = None
    is_dangerous: bool = False
    is_safe: bool = False
    changes: Changes | None = None
    requires_sweep: bool = False
    is_essential: bool = False
    sweep: SweepPlan | None = None

    @property
    def is_write(self) -> bool:
        """Whether it may change something, as a query does that is dangerous or acts."""
        return not self.is_query or self.is_dangerous or self.changes is not None


class OnTimeout(enum.StrEnum):
    """What follows when a ``settle`` or ``poll`` does not come to its end in time."""

    NOTE = "note"
    FAIL = "fail"
    END = "end"
    ABORT = "abort"


class OnError(enum.StrEnum):
    """What follows an error inside a pass of a loop."""

    SKIP = "skip"
    END = "end"
    ABORT = "abort"


SELF: Final = "self"
"""The one role of a sequence: the unit whose profile it is of."""


@record
class Target:
    """``role.command`` or ``role.command.field``, with the arguments written beside it.

    ``member`` is a field of the answer where something is read, a parameter where something is set.
    """

    command: str
    role: str = SELF
    member: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As it is written; of a sequence the command alone."""
        role = self.role if self.role != SELF else ""
        return ".".join(filter(None, (role, self.command, self.member)))


@record
class Step:
    """A step of a sequence or of an experiment; its values as ``step_values.fill`` says.

    Attributes:
        path: where it stands in an experiment (``steps[4].steps[1]``); empty in a sequence.
    """

    path: str = ""

    @property
    def inner(self) -> tuple[tuple[Step, ...], ...]:
        """The lists of steps inside it, in the order in which they are done."""
        return ()


@record
class CommandStep(Step):
    """Runs a command of a role."""

    command: str
    role: str = SELF
    parameters: Mapping[str, object] = field(default_factory=dict)
    save_as: str | None = None

    @property
    def target(self) -> Target:
        """What it runs."""
        return Target(role=self.role, command=self.command, parameters=self.parameters)


@record
class QueryStep(Step):
    """Asks by a raw line, judged as send_scpi would be; only of a sequence."""

    query: str
    save_as: str
    type: AnswerType = AnswerType.STRING


@record
class WaitStep(Step):
    """Waits; a number or ``"{expression}"``, in milliseconds."""

    wait_ms: float | str


@record
class PollStep(Step):
    """Repeats a query until a condition on ``value`` is true.

    Attributes:
        poll: a command's name; where not ``is_command`` a raw line, only of a sequence.
    """

    poll: str
    until: str
    is_command: bool = True
    role: str = SELF
    member: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    every_ms: int = 100
    timeout_ms: int = 10_000
    on_timeout: OnTimeout = OnTimeout.FAIL

    @property
    def target(self) -> Target:
        """The command that it asks."""
        return Target(role=self.role, command=self.poll, member=self.member,
                      parameters=self.parameters)  # fmt: skip


@record
class RowStep(Step):
    """Adds a row: column → value."""

    columns: Mapping[str, object]


@record
class ForStep(Step):
    """Repeats steps for each of several values, and can set each at a unit.

    Attributes:
        kind: ``list``, ``lin``, ``log`` or ``count``.
        values: of a list all; of ``lin`` and ``log`` from, to and number; of ``count`` the number.
        unit: each pass is one unit under test, called so.
    """

    name: str
    kind: str
    values: tuple[object, ...]
    steps: tuple[Step, ...]
    set: Target | None = None
    rate: Scalar | None = None
    is_snake: bool = False
    wait_s: Scalar = 0
    unit: Scalar | None = None
    finally_steps: tuple[Step, ...] = ()
    on_error: OnError = OnError.ABORT

    @property
    def inner(self) -> tuple[tuple[Step, ...], ...]:
        return self.steps, self.finally_steps


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Every step at any depth, in the order of the file."""
    for step in steps:
        yield step
        for part in step.inner:
            yield from walk(part)


@record
class Sequence:
    """Steps in order, and those that run whatever happens."""

    name: str
    steps: tuple[Step, ...]
    description: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    finally_steps: tuple[Step, ...] = ()
    finally_timeout_ms: int = 5_000
    result: Mapping[str, object] = field(default_factory=dict)
    is_essential: bool = False
    is_dangerous: bool = False
    """True when the author marked it, or when one of its steps (``finally`` too) is dangerous."""


def is_sequence_dangerous(steps: Collection[Step], commands: Mapping[str, Command]) -> bool:
    """Whether one of the steps, at any depth, runs a dangerous command."""
    return any(commands[name].is_dangerous for name in _commands_of(steps))


def is_sequence_writing(steps: Collection[Step], commands: Mapping[str, Command]) -> bool:
    """Whether one of the steps changes something, other than to make it safe."""
    run = (commands[name] for name in _commands_of(steps))
    return any(command.is_write and not command.is_safe for command in run)


def _commands_of(steps: Collection[Step]) -> Iterator[str]:
    for step in walk(steps):
        match step:
            case CommandStep(command=name) | PollStep(poll=name, is_command=True):
                yield name
            case _:
                pass


@record
class Setting:
    """A state of the instrument worth writing down when a recording starts."""

    name: str
    get: str
    set_command: str | None = None
    for_values: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    unit: str = ""
    type: AnswerType = AnswerType.STRING
    decimal: str = "."


@record
class Match:
    """Which instruments a profile fits: a pattern searched in the whole IDN, ids, real examples.

    Without a pattern it fits none, and is used where the owner names it.
    """

    idn: str = ""
    usb_ids: tuple[tuple[int, int], ...] = ()
    examples: tuple[str, ...] = ()


@record
class Probe:
    """A question whose answer must match before the profile is taken to fit (``*LANG?``)."""

    query: str
    expect: str


@record
class Identify:
    """What is asked in place of ``*IDN?``.

    Attributes:
        expect: a pattern that is searched in the answer: where it fits, it is this instrument.
        serial: its group is the serial number in that answer; empty where none is told.
    """

    ask: str
    expect: str
    serial: str = ""


@record
class Connection:
    """How to talk to the instrument; ``None`` leaves the transport's own.

    ``acknowledge`` is the pattern of what answers a line that asks nothing; ``None`` or empty:
    nothing does. ``heartbeat``: an idle line may be asked its probe by itself, and
    ``heartbeat_source`` says where it stands that this is harmless, or why it is off.
    ``before`` are the lines that address the unit, sent before anything is said to it; where
    its port is ``shared``, again after another unit of that port was spoken to; ``bus_address``
    is then the unit's own address there, by INSTRUMENTS.
    ``serial``, ``gpib``, ``lan`` and ``usb`` hold the settings that differ on such a wire.
    ``identify`` and ``never_ask_idn`` are the profile's own keys; ``unit_name`` is its maker and
    model as they stand for an answer to ``*IDN?``, for a unit that is not asked that.
    """

    read_termination: str = "\n"
    write_termination: str = "\n"
    encoding: str = "ascii"
    timeout_ms: int = 2_000
    open_timeout_ms: int = 5_000
    after_write_ms: int = 0
    min_gap_ms: int = 0
    chunk_bytes: int | None = None
    baud_rate: int | None = None
    data_bits: int | None = None
    parity: str | None = None
    stop_bits: float | None = None
    flow: str | None = None
    errors: ErrorCheck = field(default_factory=ErrorCheck)
    acknowledge: str | None = None
    on_connect: tuple[str, ...] = ()
    on_connect_serial: tuple[str, ...] | None = None
    serial: Mapping[str, Any] = field(default_factory=dict)
    gpib: Mapping[str, Any] = field(default_factory=dict)
    lan: Mapping[str, Any] = field(default_factory=dict)
    usb: Mapping[str, Any] = field(default_factory=dict)
    on_release: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    shared: bool = False
    probe: Probe | None = None
    heartbeat: bool = True
    heartbeat_source: str = ""
    identify: Identify | None = None
    never_ask_idn: bool = False
    unit_name: str = ""
    bus_address: str = ""

    @property
    def asks_idn(self) -> bool:
        """Whether the unit says who it is by ``*IDN?``."""
        return self.identify is None and not self.never_ask_idn

    @property
    def by_wire(self) -> Mapping[str, Mapping[str, Any]]:
        """The settings that differ on each kind of wire, by its name."""
        by_wire = {"serial": self.serial, "gpib": self.gpib, "lan": self.lan, "usb": self.usb}
        if self.on_connect_serial is not None:
            by_wire["serial"] = {"on_connect": self.on_connect_serial, **self.serial}
        return {name: settings for name, settings in by_wire.items() if settings}

    def on_wire(self, name: str) -> Connection:
        """The connection as it is on one kind of wire."""
        settings = self.by_wire.get(name)
        return replace(self, **settings) if settings else self


@record
class Tripped:
    """How it is asked whether the timer has switched the outputs off; exactly one of the two tells.

    Attributes:
        bit: the weight of the bit that says so, such as 2048; ``None`` where ``expect`` does.
        expect: a pattern that is searched in the answer; where it fits, the timer has.
    """

    ask: str
    bit: int | None = None
    expect: str = ""


@record
class InstrumentWatchdog:
    """The timer inside an instrument that switches its outputs off when it gets no messages.

    Attributes:
        enable: the lines that set it going; like those of ``delay`` they may hold ``{s}`` or
            ``{ms}`` for the time, and nothing else in braces.
        disable: the lines that stop it.
        delay: the lines that set its time; empty where those of ``enable`` do.
        range_s: the shortest and the longest time.
        step_s: the times are multiples of it; 0: any time.
        clear: what a person sends after it has switched off, and the daemon never does.
        feeds: what keeps it from switching off; empty: whatever is said.
        precondition: what must hold before it is any protection.
    """

    enable: tuple[str, ...]
    disable: tuple[str, ...]
    delay: tuple[str, ...] = ()
    range_s: tuple[float, float]
    step_s: float = 0
    clear: tuple[str, ...] = ()
    tripped: Tripped
    feeds: tuple[str, ...] = ()
    precondition: Precondition | None = None


@record
class Profile:
    """One instrument model, whole.

    ``source_path`` is the file it came from (for messages), ``extends`` the family it belongs to.
    Of an ``imported`` one every command that may put something out is dangerous.
    ``abort_excludes`` are the commands that put something out and are no business of ``abort``,
    with the reason of each. ``marks`` says where each entry stands:
    ``"commands.set_voltage.parameters.voltage.max"`` → the place of that key; list entries go by
    number. It is for messages and never compared.
    """

    key: str
    version: int = 1
    manufacturer: str
    model: str
    instrument_class: str
    source: str
    match: Match
    commands: Mapping[str, Command]
    status: ProfileStatus = ProfileStatus.REVIEWED
    connection: Connection = field(default_factory=Connection)
    abort: tuple[AbortStep, ...] = ()
    abort_excludes: Mapping[str, str] = field(default_factory=dict)
    acquisition: Acquisition | None = None
    limited: Limiting | None = None
    sequences: Mapping[str, Sequence] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    watchdog: InstrumentWatchdog | None = None
    sim: str | None = None
    extends: str | None = None
    unverified: tuple[str, ...] = ()
    """Commands and sequences that nobody has tried on the real instrument."""
    source_path: str = ""
    marks: Mapping[str, Mark] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_imported(self) -> bool:
        """Nobody has held it against the manual."""
        return self.status is ProfileStatus.IMPORTED

    @property
    def needed(self) -> str:
        """A text without which ``match`` fits nothing (``patterns.needed_text``)."""
        return needed_text(self.match.idn)

    @property
    def abort_lines(self) -> tuple[str, ...]:
        """What makes the whole instrument safe."""
        return tuple(step.send for step in self.abort)


@record
class ProfileHead:
    """Of one profile, so much that it can be found and listed.

    Attributes:
        needed: a text without which ``match`` fits nothing (``patterns.needed_text``).
        files: all in which a line of it stands: its own, and its family's.
    """

    key: str
    version: int
    manufacturer: str
    model: str
    instrument_class: str
    match: Match
    status: ProfileStatus
    needed: str
    command_count: int
    sequence_count: int
    files: frozenset[str]

    @property
    def is_imported(self) -> bool:
        """Nobody has held it against the manual."""
        return self.status is ProfileStatus.IMPORTED


def head_of(profile: Profile) -> ProfileHead:
    """The head of a whole profile."""
    return ProfileHead(
        key=profile.key,
        version=profile.version,
        manufacturer=profile.manufacturer,
        model=profile.model,
        instrument_class=profile.instrument_class,
        match=profile.match,
        status=profile.status,
        needed=profile.needed,
        command_count=len(profile.commands),
        sequence_count=len(profile.sequences),
        files=frozenset({profile.source_path, *(mark.path for mark in profile.marks.values())}),
    )
