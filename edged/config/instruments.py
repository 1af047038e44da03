"""An entry of the configuration key INSTRUMENTS: an instrument whose address the owner gives.

How an entry of INSTRUMENTS has its instrument spoken to: error checks, probe, last words.

The same as a profile's ``connection`` has, for one instrument, and under the same rules of safety:
connecting changes no output, and letting go may only switch one off.
"""

from __future__ import annotations

import codecs
import os
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from edged.config.kinds import BOOL, TEXT, BadValue, Kind, Value, integer, list_of, matching
from edged.record import record

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


def _encoding(value: Value, _base: Path) -> str:
    if value.text not in ENCODINGS:
        raise BadValue(f"must be one of {', '.join(ENCODINGS)}", value)
    return value.text


def _errors(value: Value, _base: Path) -> ErrorsEntry:
    if value.data == "none":
        return ErrorsEntry()
    is_described = isinstance(value.data, dict) and "pattern" in value.data
    needed, more = (("query",), ("kind",)) if is_described else (("kind", "query"), ())
    more = (*more, "detail", "pattern", "none")
    fields = _fields(value, needed, more, 'none or {query: "SYST:ERR?", kind: …}')
    kind = fields.get("kind")
    if kind is not None and kind.text not in ERROR_KINDS:
        raise BadValue(f"has the kind {kind.text}; it must be {', '.join(ERROR_KINDS)}", kind)
    readers = {"query": _query, "detail": _query, "pattern": _pattern, "none": _pattern}
    said = {name: read(fields[name]) for name, read in readers.items() if name in fields}
    if is_described and "code" not in re.compile(said["pattern"]).groupindex:
        raise BadValue("has a pattern without the group (?P<code>…)", fields["pattern"])
    return ErrorsEntry(kind="code" if kind is None else kind.text, **said)


def _acknowledge(value: Value, _base: Path) -> str:
    return "" if value.data == "none" else _pattern(value)


def _probe(value: Value, _base: Path) -> ProbeEntry:
    if value.data == "none":
        return ProbeEntry()
    fields = _fields(value, ("query", "expect"), (), 'none or {query: "ID?", expect: "^HEATER"}')
    return ProbeEntry(query=_query(fields["query"]), expect=_pattern(fields["expect"]))


def _lines(why_not: Callable[[str], str]) -> Callable[[Value, Path], tuple[str, ...]]:
    """A list of SCPI lines of which each has no reason against it."""

    def parse(value: Value, _base: Path) -> tuple[str, ...]:
        if not isinstance(value.data, list) or len(value.data) > MOST_LINES:
            raise BadValue(f'must be a list of at most {MOST_LINES} lines like ["HEAD OFF"]', value)
        lines = []
        for entry in value.data:
            line = _line(entry)
            why = why_not(line)
            if why:
                raise BadValue(f'has "{line}", which {why}', entry)
            lines.append(line)
        return tuple(lines)

    return parse


def _fields(
    value: Value, needed: tuple[str, ...], more: tuple[str, ...], like: str
) -> dict[str, Value]:
    if not isinstance(value.data, dict):
        raise BadValue(f"must be {like}", value)
    # A misspelt name is told before the one that is missing because of it.
    for name, entry in value.data.items():
        if name not in needed and name not in more:
            hint = _hint(name, (*needed, *more))
            raise BadValue(f"has the unknown field {name}{hint}", entry)
    if not set(needed) <= set(value.data):
        raise BadValue(f"must be {like}", value)
    return dict(value.data)


def _hint(name: str, known: Collection[str]) -> str:
    """The nearest of the known names, or all of them."""
    import difflib  # for those who mistyped

    near = difflib.get_close_matches(name[:64], known, n=1)
    return f"; did you mean {near[0]}?" if near else f" (there are {', '.join(known)})"


def _line(value: Value) -> str:
    text = value.data
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise BadValue("must hold printable SCPI lines", value)
    if len(text) > LONGEST_LINE:
        raise BadValue(f"has a line of more than {LONGEST_LINE} characters", value)
    return text


def _query(value: Value) -> str:
    if isinstance(value.data, dict):
        return _line(_fields(value, ("ask",), (), 'a query, or {ask: "VERSION"}')["ask"])
    line = _line(value)
    if "?" not in line:
        told = (
            f'has "{line}", which is not a query (it has no "?"; '
            f'for a query without "?" write {{ask: "{line}"}})'
        )
        raise BadValue(told, value)
    return line


def _pattern(value: Value) -> str:
    # As what judges lines: for those few who give one.
    from edged.patterns import MAX_PATTERN, why_slow

    text = value.data
    if not isinstance(text, str) or not 0 < len(text) <= MAX_PATTERN:
        raise BadValue(f"must have a pattern of 1 to {MAX_PATTERN} characters", value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise BadValue(f"has a pattern that is not a regular expression: {error}", value) from error
    slow = why_slow(text)
    if slow:
        raise BadValue(f"has a pattern that can take very long: {slow}", value)
    return text


def _why_not_on_connect(line: str) -> str:
    # Every verb reads the configuration, and few of them know SCPI.
    from edged.scpi.words import why_not_on_connect

    return why_not_on_connect(line)


def _why_not_on_release(line: str) -> str:
    from edged.scpi.words import why_not_on_release  # as above

    return why_not_on_release(line)


TALK_FIELDS: Final[dict[str, Callable[[Value, Path], Any]]] = {
    "encoding": _encoding,
    "errors": _errors,
    "acknowledge": _acknowledge,
    "heartbeat": BOOL.parse,
    "never_ask_idn": BOOL.parse,
    "probe": _probe,
    "before": _lines(_why_not_on_connect),
    "on_connect": _lines(_why_not_on_connect),
    "on_release": _lines(_why_not_on_release),
}


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


def _address(value: Value, base: Path) -> str:
    text: str = RESOURCE.parse(value, base)
    found = PORT.fullmatch(text)
    if found and not 1 <= int(found[1][:9]) <= HIGHEST_PORT:
        raise BadValue(f"has the port {found[1][:9]}; ports go from 1 to {HIGHEST_PORT}", value)
    return text


def _termination(value: Value, _base: Path) -> str:
    r"""CR, LF, CRLF or none as words; or up to four characters, ``\r`` and ``\n`` spelled out."""
    if value.text in ESCAPES:
        return ESCAPES[value.text]
    if not isinstance(value.data, str) or not value.data.isascii():
        raise BadValue("must be CR, LF, CRLF, none or up to four ASCII characters", value)
    text = value.data
    if "\\" in text:
        try:
            text = codecs.decode(text, "unicode_escape")
        except UnicodeDecodeError as error:
            raise BadValue(f"has a broken escape: {value.data!r}", value) from error
    if len(text) > 4 or not text.isascii():
        raise BadValue("must be CR, LF, CRLF, none or up to four ASCII characters", value)
    return text


def _bus_address(value: Value, _base: Path) -> str:
    if not BUS_ADDRESS.fullmatch(value.text):
        raise BadValue("must be up to 16 letters, digits, dots and dashes", value)
    return value.text


def _word_of(*words: str) -> Callable[[Value, Path], str]:
    def parse(value: Value, _base: Path) -> str:
        if value.text not in words:
            raise BadValue(f"must be one of {', '.join(words)}", value)
        return value.text

    return parse


def _stop_bits(value: Value, _base: Path) -> float:
    if isinstance(value.data, bool) or value.data not in STOP_BITS:
        raise BadValue("must be 1, 1.5 or 2", value)
    return float(value.data)


SERIAL_PATH: Final = re.compile(r"ASRL(/.+?)(?:::INSTR)?", re.IGNORECASE)
BEHIND_PORT: Final = re.compile(r"(.+::(?:INSTR|SOCKET))@([A-Za-z0-9_.-]{1,16})", re.IGNORECASE)
BUS_ADDRESS: Final = re.compile(r"[A-Za-z0-9_.-]{1,16}")
STOP_BITS: Final = (1, 1.5, 2)

FIELDS: Final[Mapping[str, Callable[[Value, Path], Any]]] = MappingProxyType(
    {
        "address": _address,
        "profile": matching("profile key", r"[a-z0-9_]{1,64}", "be a profile key").parse,
        "name": TEXT.parse,
        "bus_address": _bus_address,
        "read_termination": _termination,
        "write_termination": _termination,
        "timeout_ms": integer(1, 3_600_000).parse,
        "open_timeout_ms": integer(1, 600_000).parse,
        "baud_rate": integer(50, 12_000_000).parse,
        "data_bits": integer(5, 8).parse,
        "parity": _word_of("none", "even", "odd", "mark", "space"),
        "stop_bits": _stop_bits,
        "flow": _word_of("none", "xon_xoff", "rts_cts", "dtr_dsr"),
        "after_write_ms": integer(0, 60_000).parse,
        "min_gap_ms": integer(0, 60_000).parse,
        "chunk_bytes": integer(16, 64 * 1024 * 1024).parse,
        **TALK_FIELDS,
    }
)


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
ENTRY_LIKE: Final = "needs entries like {address: TCPIP::192.168.1.20::5025::SOCKET}"


def _instrument(value: Value, base: Path) -> InstrumentEntry:
    if isinstance(value.data, str):
        return InstrumentEntry(address=_address(value, base))
    if not isinstance(value.data, dict):
        raise BadValue(ENTRY_LIKE, value)
    fields: dict[str, Any] = {}
    for key, entry in value.data.items():
        if key not in FIELDS:
            raise BadValue(f"has an entry with the unknown field {key}{_hint(key, FIELDS)}", entry)
        try:
            fields[key] = FIELDS[key](entry, base)
        except BadValue as error:
            raise BadValue(f"has an entry whose {key} {error.reason}", entry) from error
    if "address" not in fields:
        raise BadValue(ENTRY_LIKE, value)
    found = InstrumentEntry(**fields)
    begin = re.split(r"[0-9/:]", found.address.upper(), maxsplit=1)[0]
    wire, called = _WIRES.get(begin, ("", ""))
    for key in LACKS.get(wire, ()):
        if key in value.data:
            why = f"has an entry whose {key} means nothing on {called} ({found.address})"
            raise BadValue(f"{why}: leave it out", value.data[key])
    behind = BEHIND_PORT.fullmatch(found.address)
    if behind is not None:
        # As edged itself writes the address of such a unit.
        bus = found.bus_address or behind[2]
        found = replace(found, address=behind[1], bus_address=bus)
    if found.bus_address is not None:
        found = _behind_port(found, value)
    if found.never_ask_idn and found.profile is None:
        raise BadValue("has an entry with never_ask_idn and no profile to know it by", value)
    return found


def _behind_port(entry: InstrumentEntry, value: Value) -> InstrumentEntry:
    """One of several units behind a port: its bus address becomes part of its address."""
    if entry.profile is None:
        raise BadValue("has an entry with bus_address and no profile to address it by", value)
    head, _, tail = entry.address.upper().rpartition("::")
    is_socket = head.startswith("TCPIP") and tail == "SOCKET"
    if not is_socket and not (head.startswith("ASRL") and tail == "INSTR"):
        raise BadValue(
            "has an entry with bus_address that is not at a serial port or a raw socket", value
        )
    return replace(entry, address=f"{entry.address}@{entry.bus_address}")


def _instruments(value: Value, base: Path) -> tuple[InstrumentEntry, ...]:
    """The list; which of two entries for one address is meant cannot be known."""
    entries: tuple[InstrumentEntry, ...] = LIST.parse(value, base)
    first: dict[str, InstrumentEntry] = {}
    for entry in entries:
        if entry.bus_address is None and entry is not first.setdefault(_port(entry), entry):
            raise BadValue(f"has two different entries for {entry.address}", value)
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


LIST: Final = list_of(Kind(name="instrument", parse=_instrument))
INSTRUMENTS: Final = Kind(name=LIST.name, parse=_instruments)
