"""The first draft of a profile, from what an instrument tells of itself. Pure.

The draft loads and is clean under lint, so that it can be put to use at once and be filled in piece
by piece. What an instrument lists of its own commands (``SYSTem:HELP:HEADers?``) comes as comments:
nobody knows from a name alone what a command does, or that it is no danger.

Which commands of a profile are tried on an instrument, and with which arguments. Pure.

Only questions that cannot give energy are asked. Each is asked once, with its defaults, and where
there is none the smallest value that its limits and checks allow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from edged.errors import Invalid
from edged.profiles.addressed import PLACEHOLDER
from edged.profiles.arguments import ParameterCheck, compile_parameters
from edged.profiles.match import Identity, clean_idn, parse_idn, says_name
from edged.profiles.model import Command, Connection, Parameter, ParameterType, Profile
from edged.profiles.template import effective_bound, optional_names
from edged.record import record
from edged.scpi.answer_text import escaped
from edged.yaml.tree import Scalar
from edged_author.probing import NAME_QUESTION, flow_of

MOST_HEADERS: Final = 1_000
_HEADER: Final = re.compile(
    r"\s*(?P<path>[*:A-Za-z][*:A-Za-z0-9_\[\]<>]{0,120}\??)\s*(?P<kind>/\w+/)?"
)
_NO_KEYS: Final = frozenset({"and", "bench", "false", "not", "null", "or", "true"})
"""Words that mean something else, in YAML, in expressions or in tool names."""
_FRAMES: Final = "".join(map(chr, (*range(0x21), 0x7F)))
"""Control characters and blanks."""
_AS_A_PORT_OPENS: Final = {
    ("baud_rate", 9600),
    ("data_bits", 8),
    ("parity", "none"),
    ("stop_bits", 1),
    ("flow", "none"),
}
"""What a serial port has where nobody says another."""
_SIGNED: Final = re.compile(r"(?<![\w.])[+-][0-9]+\.[0-9]")
"""Of a name there is none; of readings, one for each."""
_KEY_LENGTH: Final = 24
"""Longer keys leave little room: tool names over 64 characters make some clients drop the list."""


@record
class MetInstrument:
    """What an instrument told.

    Attributes:
        idn: its answer to ``question``.
        question: what it says its name to; empty where it says none.
        was_heard: something came at all.
        address: where it was asked.
        bus: its address there, of one of several units behind a port.
        connection: how it is spoken to.
        error_query: the question that it answers with an error number; empty where none was found.
        acknowledge: the pattern of what it answers to what it is told; ``None`` where it is silent,
            or where that could not be known.
        headers: its own list of commands, as ``read_headers`` gives them.
        unknown: sentences about what could not be known.
        on: the day, for the comment.
    """

    idn: str = ""
    question: str = NAME_QUESTION
    was_heard: bool = False
    address: str = ""
    bus: str = ""
    connection: Connection = field(default_factory=Connection)
    error_query: str = ""
    acknowledge: str | None = None
    headers: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    on: str = ""

    @property
    def is_name(self) -> bool:
        """Whether it says who it is, as IEEE 488.2 has it."""
        return self.question == NAME_QUESTION

    @property
    def must_be_named(self) -> bool:
        """Whether an engine that knows no profile of it would ask ``*IDN?`` in vain."""
        needed = flow_of(self.connection).items() - _AS_A_PORT_OPENS
        names = {name for name, _ in needed} - {"timeout_ms", "min_gap_ms"}
        if self.connection.read_termination.endswith("\n"):
            names.discard("read_termination")
        return not self.is_name or bool(names)

    @property
    def asked(self) -> str:
        """``question`` as a profile has it."""
        return self.addressed(self.question)

    def addressed(self, line: str) -> str:
        """A line with ``{address}`` where the bus address stands: first, or as a word."""
        bus = re.escape(self.bus)
        own = rf"^{bus}|(?<![A-Za-z0-9]){bus}(?![A-Za-z0-9])|(?<=[A-Za-z]){bus}(?=\?$)"
        return re.sub(own, PLACEHOLDER, line) if bus else line

    @property
    def name(self) -> str:
        """Its answer without what frames it (STX, ETX), where that can name a model."""
        text = self.idn.strip(_FRAMES)
        is_reading = len(_SIGNED.findall(text)) > 1
        return text if says_name(text) and not is_reading else ""


def read_headers(answer: str) -> tuple[str, ...]:
    """``SYSTem:HELP:HEADers?``: one header a line, ``?`` only where it is a query alone.

    A header that can be both written and asked comes twice. Source: SCPI-99, volume 2, 21.11.
    """
    found: dict[str, None] = {}
    for line in answer.splitlines()[:MOST_HEADERS]:
        match = _HEADER.fullmatch(line.strip())
        if match is None:
            continue
        path, kind = match["path"], (match["kind"] or "").lower()
        if not path.endswith("?"):
            found[path] = None
        if path.endswith("?") or kind not in ("/nquery/", "/qonly/"):
            found[path if path.endswith("?") else f"{path}?"] = None
    return tuple(found)


def key_of(idn: str) -> str:
    """A profile_key for whoever answers so: maker and model in short."""
    identity = parse_idn(idn)
    maker = re.sub(r"[^a-z0-9]+", "_", identity.manufacturer.lower().split(",")[0])
    first = maker.strip("_").split("_")[0]
    model = re.sub(r"[^a-z0-9]+", "_", identity.model.lower()).strip("_")
    key = "_".join(part for part in (first, model) if part)[:_KEY_LENGTH].strip("_")
    return key if key[:1].isalpha() and key not in _NO_KEYS else f"x_{key}".strip("_")


def draft_profile(met: MetInstrument, key: str) -> str:
    """The text of a profile file.

    Args:
        met: what the instrument told.
        key: its profile_key.
    """
    identity = parse_idn(met.name) if met.name else Identity()
    return "\n".join(
        [
            "# yaml-language-server: $schema=profile.schema.json",
            "# (`edged profile schema > profile.schema.json` puts there what editors check by)",
            f"# Drafted from what {met.address} told{f' on {met.on}' if met.on else ''}.",
            "# `edged profile lint` says what is missing, docs/profiles.md what can be written.",
            *(f"# Not known: {sentence}" for sentence in met.unknown),
            "format: 1",
            f"profile_key: {key}",
            "version: 1",
            f"manufacturer: {_quoted(clean_idn(identity.manufacturer) or 'unknown')}",
            f"model: {_quoted(clean_idn(identity.model) or 'unknown')}",
            "# power_supply, multimeter, oscilloscope, smu, electronic_load, …",
            "instrument_class: other",
            "# The manual that you write from: title, number, year.",
            'source: "drafted from the instrument\'s own answers"',
            *_identity(met, identity),
            *_connection(met),
            "# What switches everything off that gives energy; sent by stops and after a crash.",
            '# abort: ["OUTP OFF"]',
            "# Take names off this list as you try them on the real instrument.",
            "unverified: all",
            "commands:",
            *_first_command(met),
            *_EXAMPLES,
            *_commands(met.headers),
            "",
        ]
    )


_ONLY_NAMED: Final = (
    "# It understands *IDN? only with the settings below: INSTRUMENTS must name this profile."
)


def _identity(met: MetInstrument, identity: Identity) -> list[str]:
    """How it is told from others: by its name, or by what its owner says that it answers."""
    if met.is_name:
        return [
            *([_ONLY_NAMED] if met.must_be_named else []),
            "match:",
            "  # Searched in the whole answer, upper and lower case alike.",
            f"  idn: {_quoted(_pattern(identity.manufacturer, identity.model, met.idn))}",
            f"  examples: [{_quoted(clean_idn(met.idn))}]",
        ]
    return [
        "# It does not say its name to *IDN?: used only where INSTRUMENTS names this profile.",
        "never_ask_idn: true",
        "# What shows that it is there, and this one.",
        f"identify: {{ask: {_quoted(met.asked)}, expect: {_quoted(_likeness(met))}}}"
        if met.question
        else "# identify: {ask: 'a question that it answers', expect: '^the answer'}",
    ]


def _likeness(met: MetInstrument) -> str:
    """A pattern for an answer: a name as it came, but for its numbers; anything for a reading."""
    if met.asked.startswith(PLACEHOLDER) and met.idn.startswith(met.bus):
        rest = met.name.removeprefix(met.bus)
        return f"^{PLACEHOLDER}" + (_numberless(rest) if rest else "(?![A-Za-z0-9])")
    if not met.name:
        return "."
    start = "^" if met.idn.startswith(met.name) else ""
    return start + _numberless(met.name)


def _numberless(name: str) -> str:
    return re.sub(r"[0-9]+", "[0-9]+", literal(name[:60].rstrip()))


def _first_command(met: MetInstrument) -> list[str]:
    """A question that was answered; where there was none, one to be replaced."""
    if not met.question:
        return [
            "  ask_something:",
            "    description: Not tried; put a question here that it answers.",
            "    scpi: 'STATUS?'",
            "    returns: {type: string}",
        ]
    lines = [
        "  identify:",
        "    description: Ask who it is.",
        f"    scpi: {_quoted(met.asked)}",
    ]
    if not met.question.endswith("?"):
        lines.append("    is_query: true")
    if not met.idn.isprintable():
        lines.append("    returns: {type: string, control: escape}")
    return lines


_EXAMPLES: Final = (
    "  # set_voltage:",
    "  #   description: Set the output voltage.",
    '  #   scpi: "VOLT {voltage:.3f}"',
    "  #   parameters: {voltage: {type: float, min: 0, max: 30, unit: V}}",
    '  #   verify: {query: "VOLT?", tolerance: 0.001}',
    "  # measure_voltage:",
    "  #   description: Measure the output voltage.",
    '  #   scpi: "MEAS:VOLT?"',
    "  #   returns: {type: float, unit: V}",
    "  # read_readings: {description: Read all., scpi: 'R?', returns: {type: list, unit: V}}",
    "  # read_trace:",
    "  #   description: Read the trace; without header and count where it begins with #.",
    '  #   scpi: "CURV?"',
    "  #   returns: {type: waveform, dtype: i2, byte_order: big, header: none, count: 1000}",
    '  # output_on: {description: Switch on., scpi: "OUTP ON", is_dangerous: true}',
    '  # output_off: {description: Switch off., scpi: "OUTP OFF", is_safe: true}',
)


def _connection(met: MetInstrument) -> list[str]:
    query = _quoted(met.error_query or "SYST:ERR?")
    errors = f"  errors: {{query: {query}, kind: queue}}"
    told = met.connection.acknowledge if met.acknowledge is None else met.acknowledge
    acknowledge = f"  acknowledge: {_quoted(met.addressed(told or '^OK$'))}"
    wire = {"timeout_ms": met.connection.timeout_ms, **flow_of(met.connection)}
    if met.bus:
        wire["before"] = tuple(met.addressed(line) for line in met.connection.before)
        wire["shared"] = True
    if not f"{met.idn}{met.acknowledge}".isascii():
        wire["encoding"] = "latin-1"
    return [
        "connection:",
        *(f"  {key}: {as_yaml(value)}" for key, value in wire.items()),
        errors if met.error_query else f"# {errors}",
        "  # The answer to a line that is not a query.",
        acknowledge if told is not None else f"# {acknowledge}",
        "  # A query makes some units leave local mode; heartbeat_source if the manual says not.",
        "  heartbeat: false",
    ]


def as_yaml(value: object) -> str:
    """A value of ``connection`` as YAML has it; a line end needs double quotes."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, tuple | bool):
        return json.dumps(value)
    return json.dumps(value) if isinstance(value, str) and not value.isalpha() else str(value)


def _pattern(manufacturer: str, model: str, idn: str) -> str:
    """Maker and model as they stand in the answer, the model's end anchored."""
    parts = [re.escape(part) for part in (manufacturer, model) if part]
    found = re.search(r"\s*,\s*".join(parts), clean_idn(idn)) if parts else None
    text = found.group() if found else model or clean_idn(idn)[:40] or "unknown"
    return literal(text) + (r"\b" if text[-1:].isalnum() else "")


def literal(text: str) -> str:
    """A pattern that fits this text alone, and that a YAML file can hold."""
    return escaped(re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text))


def _commands(headers: Sequence[str]) -> Iterator[str]:
    if not headers:
        return
    yield "  # Commands that the instrument lists; remove the # from those that you have looked up."
    taken = {"identify"}
    for header in headers:
        name = _name_of(header)
        if header.startswith("*") or name in taken:
            continue
        taken.add(name)
        scpi = _quoted(_sendable(header))
        returns = ", returns: {type: string}" if header.endswith("?") else ""
        yield f'  # {name}: {{description: "", scpi: {scpi}{returns}}}'


def _sendable(header: str) -> str:
    """The header without its optional words, in short form."""
    plain = re.sub(r"\[[^\]]*\]|<[^>]*>", "", header)
    return "".join(letter for letter in plain if not letter.islower()) or plain


def _name_of(header: str) -> str:
    words = re.sub(r"\[[^\]]*\]|<[^>]*>|[?*]", "", header).lower().split(":")
    verb = "get" if header.endswith("?") else "set"
    return "_".join([verb, *(word for word in words if word)])[:48].rstrip("_")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@record
class TrialQuestion:
    """One command of the trial; ``why_not`` says why it is passed over, empty where it is asked."""

    command: str
    arguments: Mapping[str, Scalar]
    why_not: str = ""


def plan_trial(profile: Profile) -> tuple[TrialQuestion, ...]:
    """Every command of the profile, those that are asked with their arguments."""
    return tuple(_question(profile, command) for command in profile.commands.values())


def _question(profile: Profile, command: Command) -> TrialQuestion:
    why_not = ""
    arguments: Mapping[str, Scalar] | None = {}
    if not command.is_query:
        why_not = "it writes"
    elif command.is_dangerous:
        why_not = "it is dangerous"
    elif command.changes is not None:
        why_not = f"it changes {command.changes}"
    else:
        arguments = _arguments(profile, command)
        if arguments is None:
            why_not = "no arguments were found that its checks allow"
    return TrialQuestion(command=command.name, arguments=arguments or {}, why_not=why_not)


def _arguments(profile: Profile, command: Command) -> Mapping[str, Scalar] | None:
    check = compile_parameters(
        command.name,
        command.parameters,
        command.checks,
        optional_names(command.scpi),
        encoding=profile.connection.encoding,
    )
    return next((tried for tried in _attempts(command) if _is_valid(check, tried)), None)


def _attempts(command: Command) -> Iterator[dict[str, Scalar]]:
    """The defaults; those with the smallest of what has none; the smallest; the largest of all."""
    needed = [p for p in command.parameters.values() if p.default is None]
    yield {p.name: _end(p, {}, is_max=False) for p in needed}
    for is_max in (False, True):
        found: dict[str, Scalar] = {}
        for parameter in command.parameters.values():
            found[parameter.name] = _end(parameter, found, is_max=is_max)
        yield found


def _end(parameter: Parameter, others: Mapping[str, Scalar], *, is_max: bool) -> Scalar:
    bound = effective_bound(parameter, others)
    match parameter.type:
        case ParameterType.BOOL:
            return is_max
        case ParameterType.STRING:
            return "A"
        case ParameterType.ENUM:
            options = bound.options or parameter.options
            return options[-1 if is_max else 0]
        case _:
            value = bound.max if is_max else bound.min
            value = (1 if is_max else 0) if value is None else value
            return int(value) if parameter.type is ParameterType.INT else value


def _is_valid(check: ParameterCheck, arguments: Mapping[str, Scalar]) -> bool:
    try:
        check.validate(arguments)
    except Invalid:
        return False
    return True
