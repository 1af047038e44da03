"""An entry of the configuration key INSTRUMENTS: an instrument whose address the owner gives.

How an entry of INSTRUMENTS has its instrument spoken to: error checks, probe, last words.

The same as a profile's ``connection`` has, for one instrument, and under the same rules of safety:
connecting changes no output, and letting go may only switch one off.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from edged.config.kinds import TEXT, list_of, matching, printed_of
from edged.record import record
from edged.schema.fields import Fields, check_pattern, complaint, map_of, number_of, text_of
from edged.schema.tables import (
    TEXT_SCHEMA,
    TRUTH,
    Key,
    Kind,
    Table,
    array,
    choice,
    integer,
    is_word,
)
from edged.yaml.tree import MapNode, Node, ScalarNode

MOST_LINES: Final = 20
LONGEST_LINE: Final = 200
ERROR_KINDS: Final = ("queue", "esr", "code")
ENCODINGS: Final = ("ascii", "latin-1", "utf-8")


@record
class ErrorsEntry:
    """An error check; ``kind`` is one of the profile format's, "none" for no check at all."""

    kind: str = "none"
    query: str = ""
    detail: str = ""
    pattern: str = ""
    none: str = ""


@record
class ProbeEntry:
    """A question and the pattern of its answer; without a query none is asked at all."""

    query: str = ""
    expect: str = ""


@record
class InstrumentEntry:
    """A statically addressed instrument; what is None is left to its profile or transport.

    Attributes:
        address: VISA resource string.
        profile: profile key that is taken without asking ``*IDN?`` for a match.
        name: what the owner calls it.
        bus_address: of one of several units behind one port, its address there, which is then
            part of ``address``; needs ``profile``.
        never_ask_idn: ``*IDN?`` is never sent; needs ``profile``.
        read_termination, write_termination: the characters themselves; empty for none.
        problem: why it cannot be used beside the other entries; it is not opened then.
    """

    address: str
    profile: str | None = None
    name: str | None = None
    bus_address: str | None = None
    read_termination: str | None = None
    write_termination: str | None = None
    timeout_ms: int | None = None
    open_timeout_ms: int | None = None
    baud_rate: int | None = None
    data_bits: int | None = None
    parity: str | None = None
    stop_bits: float | None = None
    flow: str | None = None
    after_write_ms: int | None = None
    min_gap_ms: int | None = None
    chunk_bytes: int | None = None
    encoding: str | None = None
    errors: ErrorsEntry | None = None
    acknowledge: str | None = None
    heartbeat: bool | None = None
    never_ask_idn: bool | None = None
    probe: ProbeEntry | None = None
    before: tuple[str, ...] | None = None
    on_connect: tuple[str, ...] | None = None
    on_release: tuple[str, ...] | None = None
    problem: str = ""


RESOURCE: Final = matching(
    "VISA resource string",
    r"[A-Za-z][A-Za-z0-9_./-]*::\S.{0,250}",
    "be a VISA resource string like TCPIP::192.168.1.20::5025::SOCKET",
)
PORT: Final = re.compile(r"(?:PRLGX-)?TCPIP\d*::[^:]+::(\d+)::(?:SOCKET|\d+)\b.*", re.IGNORECASE)
"""The addresses that have a TCP port, and where."""
HIGHEST_PORT: Final = 65_535
ESCAPES: Final[Mapping[str, str]] = MappingProxyType(
    {"CR": "\r", "LF": "\n", "CRLF": "\r\n", "none": ""}
)


SERIAL_PATH: Final = re.compile(r"ASRL(/.+?)(?:::INSTR)?", re.IGNORECASE)
BEHIND_PORT: Final = re.compile(r"(.+::(?:INSTR|SOCKET))@([A-Za-z0-9_.-]{1,16})", re.IGNORECASE)
BUS_ADDRESS: Final = re.compile(r"[A-Za-z0-9_.-]{1,16}")
STOP_BITS: Final = (1, 1.5, 2)


def read_errors(
    fields: Fields, key: str, node: Node, table: Table[Any], queue: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What ``errors`` says, with the rules between its keys; without ``kind`` a pattern tells.

    Raises:
        Invalid: neither a kind nor a pattern, a pattern without the group ``code``, or no query
            where its kind is none of ``queue``.
    """
    owner = fields.path_of(key)
    found = table.read_values(node, owner)
    inner = Fields(map_of(node, owner), owner)
    if "pattern" not in found:
        inner.need("kind")
    elif "code" not in re.compile(found["pattern"]).groupindex:
        message = f"{inner.name_of('pattern')} has no group with the name code."
        raise complaint(inner.mark_of("pattern"), message, "Write it like 'E(?P<code>[0-9]+)'.")
    if found.get("kind") not in queue:
        inner.need("query")
    return found


def _check_mapping(fields: Fields, key: str, node: Node, like: str) -> None:
    if not isinstance(node, MapNode):
        raise complaint(node.mark, f"{fields.name_of(key)} must be none or {like}.")


def _errors(fields: Fields, key: str, node: Node, _names: Collection[str]) -> ErrorsEntry:
    if is_word(node, "none"):
        return ErrorsEntry()
    _check_mapping(fields, key, node, '{query: "SYST:ERR?", kind: queue}')
    return ErrorsEntry(**{"kind": "code", **read_errors(fields, key, node, ERRORS)})


def _acknowledge(fields: Fields, key: str, node: Node, names: Collection[str]) -> str:
    return "" if is_word(node, "none") else _pattern(fields, key, node, names)


def _probe(fields: Fields, key: str, node: Node, _names: Collection[str]) -> ProbeEntry:
    if is_word(node, "none"):
        return ProbeEntry()
    _check_mapping(fields, key, node, '{query: "ID?", expect: "^HEATER"}')
    return PROBE.read(node, fields.path_of(key))


def _line(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    return printed_of(node, fields.name_of(key), LONGEST_LINE)


def _lines(why_not: Callable[[str], str]) -> Kind:
    """A list of SCPI lines of which each has no reason against it."""

    def read(fields: Fields, key: str, node: Node, names: Collection[str]) -> str:
        line = _line(fields, key, node, names)
        why = why_not(line)
        if why:
            raise complaint(node.mark, f'{fields.name_of(key)} has "{line}", which {why}.')
        return line

    return array(Kind("SCPI", TEXT_SCHEMA, read), MOST_LINES)


def _query(fields: Fields, key: str, node: Node, names: Collection[str]) -> str:
    if isinstance(node, MapNode):
        return QUESTION.read(node, fields.path_of(key))["ask"]
    line = _line(fields, key, node, names)
    if "?" not in line:
        message = f'{fields.name_of(key)} has "{line}", which is not a query (it has no "?").'
        remedy = f'For a query without "?" write {{ask: "{line}"}}.'
        raise complaint(node.mark, message, remedy)
    return line


def _pattern(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    name = fields.name_of(key)
    return check_pattern(node, name, text_of(node, name, most=LONGEST_PATTERN))


def _why_not_on_connect(line: str) -> str:
    # Every verb reads the configuration, and few of them know SCPI.
    from edged.scpi.words import why_not_on_connect

    return why_not_on_connect(line)


def _why_not_on_release(line: str) -> str:
    from edged.scpi.words import why_not_on_release  # as above

    return why_not_on_release(line)


def _address(fields: Fields, key: str, node: Node, names: Collection[str]) -> str:
    assert RESOURCE.read is not None  # noqa: S101 - it reads
    text: str = RESOURCE.read(fields, key, node, names)
    found = PORT.fullmatch(text)
    if found and not 1 <= int(found[1][:9]) <= HIGHEST_PORT:
        message = f"{fields.name_of(key)} has the port {found[1][:9]}; ports go from 1 to"
        raise complaint(node.mark, f"{message} {HIGHEST_PORT}.")
    return text


def _termination(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    r"""CR, LF, CRLF or none as words; or up to four characters, ``\r`` and ``\n`` spelled out."""
    name = fields.name_of(key)
    text = node.value if isinstance(node, ScalarNode) else None
    if isinstance(text, str) and text in ESCAPES:
        return ESCAPES[text]
    if isinstance(text, str) and "\\" in text and text.isascii():
        try:
            text = codecs.decode(text, "unicode_escape")
        except UnicodeDecodeError as error:
            raise complaint(node.mark, f"{name} has a broken escape: {text!r}.") from error
    if not isinstance(text, str) or len(text) > 4 or not text.isascii():
        message = f"{name} must be CR, LF, CRLF, none or up to four ASCII characters."
        raise complaint(node.mark, message)
    return text


def _bus_address(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    text = node.text if isinstance(node, ScalarNode) else ""
    if not BUS_ADDRESS.fullmatch(text):
        message = f"{fields.name_of(key)} must be up to 16 letters, digits, dots and dashes."
        raise complaint(node.mark, message)
    return text


def _stop_bits(fields: Fields, key: str, node: Node, _names: Collection[str]) -> float:
    value = number_of(node, fields.name_of(key))
    if value not in STOP_BITS:
        raise complaint(node.mark, f"{fields.name_of(key)} must be 1, 1.5 or 2.")
    return float(value)


LONGEST_PATTERN: Final = 300
PAUSE: Final = integer(0, 60_000)
MAX_TIMEOUT_MS: Final = 3_600_000
"""An hour: some calibrations take that long, nothing takes longer."""
TIMEOUT: Final = integer(1, MAX_TIMEOUT_MS)
WIRE_SETTINGS: Final = (
    Key("encoding", choice(ENCODINGS), "The encoding of lines and answers."),
    Key("timeout_ms", TIMEOUT, "The timeout for an answer."),
    Key("open_timeout_ms", integer(1, 600_000), "The timeout for opening the connection."),
    Key("after_write_ms", PAUSE, "The pause after each line that is not a query."),
    Key("min_gap_ms", PAUSE, "The minimum time between two lines."),
    Key("chunk_bytes", integer(16, 64 * 1024 * 1024), "How many bytes are read at a time."),
    Key("baud_rate", integer(50, 12_000_000), "The baud rate of a serial port."),
    Key("data_bits", integer(5, 8), "The data bits of a serial port."),
    Key("parity", choice(("none", "even", "odd", "mark", "space")),
        "The parity of a serial port."),
    Key("stop_bits", Kind("1, 1.5 or 2", {"enum": list(STOP_BITS)}, _stop_bits),
        "The stop bits of a serial port."),
    Key("flow", choice(("none", "xon_xoff", "rts_cts", "dtr_dsr")),
        "The flow control of a serial port."),
)  # fmt: skip
"""What a profile's ``connection`` and an entry of INSTRUMENTS both say of a wire."""
_LINE: Final = Kind("SCPI", TEXT_SCHEMA, _line)
_QUERY: Final = Kind("query", TEXT_SCHEMA, _query)
_PATTERN: Final = Kind("regular expression", TEXT_SCHEMA, _pattern)
_CONNECT_LINES: Final = _lines(_why_not_on_connect)
QUESTION: Final[Table[dict[str, str]]] = Table(
    "question", dict, "A query without `?`.", Key("ask", _LINE, "The query.", is_required=True)
)
ERRORS: Final[Table[dict[str, Any]]] = Table(
    "errors", dict, "The query for an error; or `none`.",
    Key("kind", choice(ERROR_KINDS), "How its answer is read."),
    Key("query", _QUERY, "The query."),
    Key("detail", _QUERY, "A query for the text of an error."),
    Key("pattern", _PATTERN, "Searched in the answer, with the group `code`."),
    Key("none", _PATTERN, "Searched in the answer: if it matches, there is no error."),
)  # fmt: skip
PROBE: Final = Table(
    "probe", ProbeEntry, "A query whose answer must match; or `none`.",
    Key("query", _QUERY, "The query.", is_required=True),
    Key("expect", _PATTERN, "Searched in the answer.", is_required=True),
)  # fmt: skip
INSTRUMENT: Final[Table[dict[str, Any]]] = Table(
    "instrument",
    dict,
    "An instrument with a fixed address.",
    Key("address", Kind("address", TEXT_SCHEMA, _address), "Its address.", is_required=True),
    Key("profile", matching("profile key", r"[a-z0-9_]{1,64}", "be a profile key"),
        "Its profile, which is then taken without a match of `*IDN?`."),
    Key("name", TEXT, "What you call it."),
    Key("bus_address", Kind("text", TEXT_SCHEMA, _bus_address), "Its address behind the port."),
    Key("read_termination", Kind("termination", TEXT_SCHEMA, _termination),
        "The terminator of an answer."),
    Key("write_termination", Kind("termination", TEXT_SCHEMA, _termination),
        "The terminator of a line that is sent."),
    *WIRE_SETTINGS,
    Key("errors", Kind("errors", TEXT_SCHEMA, _errors), "The error query."),
    Key("acknowledge", Kind("pattern", TEXT_SCHEMA, _acknowledge), "The answer to a line."),
    Key("probe", Kind("probe", TEXT_SCHEMA, _probe), "A query whose answer must match."),
    Key("heartbeat", TRUTH, "Whether an idle connection is asked."),
    Key("never_ask_idn", TRUTH, "`*IDN?` is never sent."),
    Key("before", _CONNECT_LINES, "The lines that address the unit."),
    Key("on_connect", _CONNECT_LINES, "Sent when connecting."),
    Key("on_release", _lines(_why_not_on_release), "Sent before the connection is closed."),
)  # fmt: skip
_OF_A_SERIAL_PORT: Final = ("baud_rate", "data_bits", "parity", "stop_bits", "flow")
_HEARTBEAT: Final = ("heartbeat", "heartbeat_source")
LACKS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "serial": ("chunk_bytes",),
        # A gateway is asked for a sign of life, a bus is not.
        "gpib": (*_OF_A_SERIAL_PORT, "chunk_bytes", "shared"),
        "lan": (*_OF_A_SERIAL_PORT, "chunk_bytes"),
        "usb": (*_OF_A_SERIAL_PORT, *_HEARTBEAT, "shared"),
    }
)
"""Settings that mean nothing on a kind of wire."""
_WIRES: Final = {
    "ASRL": ("serial", "a serial port"),
    "GPIB": ("gpib", "GPIB"),
    "PRLGX-TCPIP": ("gpib", "GPIB"),
    "TCPIP": ("lan", "the network"),
    "VICP": ("lan", "the network"),
    "USB": ("usb", "USB"),
}
"""What an address begins with → its kind of wire, and how people call that."""


def _instrument(fields: Fields, key: str, node: Node, names: Collection[str]) -> InstrumentEntry:
    if not isinstance(node, MapNode):
        return InstrumentEntry(address=_address(fields, key, node, names))
    owner = fields.path_of(key)
    found = InstrumentEntry(**INSTRUMENT.read_values(node, owner))
    begin = re.split(r"[0-9/:]", found.address.upper(), maxsplit=1)[0]
    wire, called = _WIRES.get(begin, ("", ""))
    for lacking in LACKS.get(wire, ()):
        if lacking in node.entries:
            message = f"{owner}: {lacking} means nothing on {called} ({found.address})."
            raise complaint(node.keys[lacking].mark, message, "Leave it out.")
    behind = BEHIND_PORT.fullmatch(found.address)
    if behind is not None:
        # As edged itself writes the address of such a unit.
        bus = found.bus_address or behind[2]
        found = replace(found, address=behind[1], bus_address=bus)
    if found.bus_address is not None:
        found = _behind_port(found, owner, node)
    if found.never_ask_idn and found.profile is None:
        message = f"{owner} has an entry with never_ask_idn and no profile to know it by."
        raise complaint(node.mark, message)
    return found


def _behind_port(entry: InstrumentEntry, owner: str, node: Node) -> InstrumentEntry:
    """One of several units behind a port: its bus address becomes part of its address."""
    said = f"{owner} has an entry with bus_address"
    if entry.profile is None:
        raise complaint(node.mark, f"{said} and no profile to address it by.")
    head, _, tail = entry.address.upper().rpartition("::")
    is_socket = head.startswith("TCPIP") and tail == "SOCKET"
    if not is_socket and not (head.startswith("ASRL") and tail == "INSTR"):
        raise complaint(node.mark, f"{said} that is not at a serial port or a raw socket.")
    return replace(entry, address=f"{entry.address}@{entry.bus_address}")


def _instruments(
    fields: Fields, key: str, node: Node, names: Collection[str]
) -> tuple[InstrumentEntry, ...]:
    """The list; which of two entries for one address is meant cannot be known."""
    assert LIST.read is not None  # noqa: S101 - it reads
    entries: tuple[InstrumentEntry, ...] = LIST.read(fields, key, node, names)
    first: dict[str, InstrumentEntry] = {}
    for entry in entries:
        if entry.bus_address is None and entry is not first.setdefault(_port(entry), entry):
            message = f"{fields.name_of(key)} has two different entries for {entry.address}."
            raise complaint(node.mark, message)
    return _beside_each_other(entries)


def _beside_each_other(entries: tuple[InstrumentEntry, ...]) -> tuple[InstrumentEntry, ...]:
    """Entries of one port, with what is wrong beside the others."""
    buses: dict[str, list[str]] = {}
    alone: dict[str, InstrumentEntry] = {}
    for entry in dict.fromkeys(entries):
        if entry.bus_address is not None:
            buses.setdefault(_device(entry), []).append(_bus(entry))
        else:
            alone.setdefault(_device(entry), entry)

    def problem(entry: InstrumentEntry) -> str:
        there = buses.get(_device(entry), [])
        if entry.bus_address is None:
            if there:
                named = f"INSTRUMENTS has units with a bus_address at {entry.address}"
                return f"{named}, and this entry has none."
            first = alone[_device(entry)]
            named = f"{entry.address} is another path to {first.address}"
            return "" if first == entry else f"{named}, which INSTRUMENTS has, too."
        is_twice = there.count(_bus(entry)) > 1
        named = f"INSTRUMENTS has two different entries for bus_address {entry.bus_address}"
        return f"{named} of {entry.address.rpartition('@')[0]}." if is_twice else ""

    return tuple(replace(entry, problem=problem(entry)) for entry in entries)


def _port(entry: InstrumentEntry) -> str:
    address = entry.address.upper()
    return address if entry.bus_address is None else address.rpartition("@")[0]


def _device(entry: InstrumentEntry) -> str:
    """``_port``, with the links followed that lead to a serial device as of now."""
    address = entry.address if entry.bus_address is None else entry.address.rpartition("@")[0]
    found = SERIAL_PATH.fullmatch(address)
    return _port(entry) if found is None else os.path.realpath(found[1])


def _bus(entry: InstrumentEntry) -> str:
    """What tells units of a port apart: 6 and 06 are one."""
    return (entry.bus_address or "").upper().lstrip("0")


LIST: Final = list_of(Kind("instrument", TEXT_SCHEMA, _instrument))
INSTRUMENTS: Final = LIST._replace(read=_instruments)
