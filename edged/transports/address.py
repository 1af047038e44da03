"""Addresses of instruments: VISA resource strings, taken apart far enough to compare and to route.

Owners, pyvisa-py and NI-VISA spell one address in several ways (board number left out, USB ids in
decimal or hexadecimal, NUL bytes in serial numbers); ``Address.key`` is the same for all of them.
Nothing here connects to anything.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from edged.errors import ErrorCode, Invalid
from edged.record import record

_BUS: Final = re.compile(r"(.+::(?:INSTR|SOCKET))@([A-Za-z0-9_.-]{1,16})", re.I)
"""``ASRL/dev/ttyUSB0::INSTR@6``: one of several units behind one port; the form is ours."""
_UNPRINTABLE: Final = re.compile(r"[\x00-\x20\x7f]")


class Transport(enum.StrEnum):
    """What carries the bytes."""

    SOCKET = "socket"
    VXI11 = "vxi11"
    HISLIP = "hislip"
    USBTMC = "usbtmc"
    SERIAL = "serial"
    GPIB = "gpib"
    PROLOGIX = "prologix"
    OTHER = "other"

    @property
    def is_plugged(self) -> bool:
        """See ``TransportRow``, as of the others."""
        return TRANSPORTS[self].is_plugged

    @property
    def is_cable(self) -> bool:
        return TRANSPORTS[self].is_cable

    @property
    def has_messages(self) -> bool:
        return TRANSPORTS[self].has_messages

    @property
    def keeps_old_answers(self) -> bool:
        return TRANSPORTS[self].keeps_old_answers

    @property
    def has_heartbeat(self) -> bool:
        return TRANSPORTS[self].has_heartbeat

    @property
    def cleaning(self) -> Cleaning:
        return TRANSPORTS[self].cleaning


class Cleaning(enum.Enum):
    """How a dirty line is made clean; reopening works on every transport."""

    REOPEN = "reopen"
    CLEAR_OR_REOPEN = "clear_or_reopen"


@record
class TransportRow:
    """All that is to be known of one transport besides its module.

    Attributes:
        form: a regular expression of its addresses, in any case: the interface, the board, the
            fields. Of several that fit, the first row of ``TRANSPORTS`` holds.
        wire: the wire at the instrument's own connector, where the address tells it.
        is_on_network: the first field is a host.
        is_visa: VISA knows its addresses; a vendor's VISA opens none of the others.
        link: ``module:class`` in this folder, loaded when the first such line is opened; empty
            where there is none, or where an adapter makes it. Called with (address, clock, wake)
            where it ``is_on_loop``, else with (address, open_resource, clock); a vendor's VISA has
            ``MessageLink`` for all.
        cleaning: how a line is made clean.
        is_plugged: the bus itself tells that a device has left.
        is_cable: what goes out arrives at once, so that a slow confirmation is the instrument's.
        has_messages: the wire marks where an answer ends.
        keeps_old_answers: one that was not read outlives the connection, in the instrument's own
            output or on its way down the line.
        needs: a module of pyvisa-py that registers its sessions when it is imported.
        is_on_loop: every wait of it is for a socket that is read here, so that the line needs no
            thread of its own; its link is given how it waits.
        has_heartbeat: nothing on it tells whether the instrument is there but being asked, and
            being asked puts nothing on a bus that others use.
    """

    form: str
    link: str = ""
    wire: str = ""
    is_on_network: bool = False
    is_visa: bool = True
    cleaning: Cleaning = Cleaning.CLEAR_OR_REOPEN
    is_plugged: bool = False
    is_cable: bool = False
    has_messages: bool = True
    keeps_old_answers: bool = False
    needs: str = ""
    is_on_loop: bool = False
    has_heartbeat: bool = False


TRANSPORTS: Final[Mapping[Transport, TransportRow]] = MappingProxyType(
    {
        # pyvisa-py's clear() of a socket spins for ever once the peer has closed.
        Transport.SOCKET: TransportRow(
            form="(TCPIP)(.*?)::(?:.+::)?SOCKET",
            link="raw_socket:RawSocketLink",
            wire="lan",
            is_on_network=True,
            cleaning=Cleaning.REOPEN,
            has_messages=False,
            is_on_loop=True,
            has_heartbeat=True,
        ),
        Transport.HISLIP: TransportRow(
            form="(TCPIP)(.*?)::.+::hislip.*",
            link="hislip:HislipLink",
            wire="lan",
            is_on_network=True,
            is_on_loop=True,
            has_heartbeat=True,
        ),
        # A gateway makes a new link, and the instrument behind it keeps its output.
        Transport.VXI11: TransportRow(
            form="(TCPIP)(.*?)::.+",
            link="vxi11:Vxi11Link",
            wire="lan",
            is_on_network=True,
            keeps_old_answers=True,
            is_on_loop=True,
            has_heartbeat=True,
        ),
        # Registering its sessions starts libusb with a thread of its own.
        Transport.USBTMC: TransportRow(
            form="(USB)(.*?)::(?:.+::)?INSTR",
            wire="usb",
            link="usbtmc:UsbtmcLink",
            is_plugged=True,
            is_cable=True,
            keeps_old_answers=True,
            needs="pyvisa_py.usb",
        ),
        Transport.SERIAL: TransportRow(
            form="(ASRL)(.*?)::.+",
            wire="serial",
            link="serial:SerialLink",
            cleaning=Cleaning.REOPEN,
            is_plugged=True,
            is_cable=True,
            has_messages=False,
            keeps_old_answers=True,
            has_heartbeat=True,
        ),
        Transport.GPIB: TransportRow(
            form="(GPIB)(.*?)::.+",
            link="message:MessageLink",
            wire="gpib",
            is_cable=True,
            keeps_old_answers=True,
        ),
        # The bus's own clear; a new connection to the adapter would clear no instrument.
        Transport.PROLOGIX: TransportRow(
            form="(PRLGX-TCPIP|PRLGX-ASRL)(.*?)::.+",
            wire="gpib",
            is_on_network=True,
            is_visa=False,
            keeps_old_answers=True,
        ),
        Transport.OTHER: TransportRow(form="(USB|VICP)(.*?)::.+", cleaning=Cleaning.REOPEN),
    }
)


@record
class Address:
    """One resource string.

    Attributes:
        text: as its owner wrote it, without control characters; this is what VISA gets.
        key: canonical form, for comparing only.
        bus: of one of several units behind a port, its address there; empty where it is alone.
    """

    text: str
    key: str
    transport: Transport
    bus: str = ""

    @property
    def port(self) -> str:
        """The canonical address of the port that leads to it."""
        return self.key.removesuffix(f"@{self.bus}") if self.bus else self.key

    @property
    def device(self) -> str:
        """``port``, with the links followed that lead to a serial device as of now."""
        path = self.port.removeprefix("ASRL").removesuffix("::INSTR")
        if self.transport is not Transport.SERIAL or not path.startswith("/"):
            return self.port
        return f"ASRL{os.path.realpath(path)}::INSTR"

    @property
    def wire(self) -> str:
        """The wire at the instrument's own connector; empty where that is not known."""
        if self.transport is Transport.VXI11 and _GPIB_GATEWAY.search(self.key):
            return "gpib"
        return TRANSPORTS[self.transport].wire


_GPIB_GATEWAY: Final = re.compile(r"::gpib\d*,", re.I)


def parse_address(text: str) -> Address:
    """Take a resource string apart.

    Raises:
        Invalid: BAD_CONFIG, when this is no VISA resource string.
    """
    cleaned = _UNPRINTABLE.sub("", text)
    behind = _BUS.fullmatch(cleaned)
    if behind is not None:
        port = parse_address(behind[1])
        return replace(port, text=cleaned, key=f"{port.key}@{behind[2]}", bus=behind[2])
    transport, match = _form_of(cleaned)
    rest = cleaned.split("::")[1:]
    if match is None or not all(rest):
        raise Invalid(
            f"{cleaned[:200]!r} is not a VISA resource string.",
            code=ErrorCode.BAD_CONFIG,
            data={"address": cleaned[:200]},
            remedy="Write it like TCPIP::192.168.1.20::5025::SOCKET.",
        )
    interface, board = match[1].upper(), match[2] or "0"
    fields = [_canonical_field(field, interface) for field in rest]
    if interface == "USB" and fields[-1] == "INSTR" and len(fields) == 4:
        fields.insert(3, "0")
    if transport in {Transport.VXI11, Transport.SERIAL} and fields[-1] != "INSTR":
        fields.append("INSTR")
    board = board.upper() if interface != "ASRL" else board
    return Address(text=cleaned, key="::".join([interface + board, *fields]), transport=transport)


def _canonical_field(field: str, interface: str) -> str:
    if field.upper() in {"INSTR", "SOCKET", "RAW", "INTFC"}:
        return field.upper()
    if interface == "USB":
        digits = field.lower()
        if re.fullmatch(r"0x[0-9a-f]+", digits):
            return str(int(digits, 16))
    return field.lower() if interface.endswith("TCPIP") else field


def _form_of(text: str) -> tuple[Transport, re.Match[str] | None]:
    for transport, row in TRANSPORTS.items():
        if match := re.fullmatch(row.form, text, re.IGNORECASE):
            return transport, match
    return Transport.OTHER, None
