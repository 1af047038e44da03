"""Instruments on the local network: those that announce themselves, and those that answer a call.

mDNS (LXI's way) and the VXI-11 broadcast both send to everybody, so this is looked at in every
tenth scan only, and only when DISCOVERY has ``lan``. What answers is a candidate, no more: who it
is, ``*IDN?`` tells.

What goes out on the network to find instruments: mDNS questions and the VXI-11 broadcast.

Runs in the scan thread. The broadcast is ONC RPC's GETPORT for the VXI-11 core channel, sent to the
port mappers of every directly reachable IPv4 network (RFC 1833; VXI-11 rev. 1.0, B.6).
"""

from __future__ import annotations

import contextlib
import ipaddress
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Final

from edged.clock import Clock
from edged.config.instruments import InstrumentEntry
from edged.discovery.buses import Candidate, Listing
from edged.record import record


@record(kw_only=False)
class Announced:
    """One announcement: its kind, and where."""

    kind: str
    host: str
    port: int


PORT_MAPPER: Final = 111
REPLY_BYTES: Final = 1024
MOST_HEARD: Final = 512
RESOLVE_MS: Final = 500
XID: Final = 0x0ED6_ED11
_CALL: Final = struct.pack(
    ">10I4I",
    *(XID, 0, 2, 100_000, 2, 3, 0, 0, 0, 0),  # call, RPC 2, port mapper 2, GETPORT, no credentials
    *(0x0607AF, 1, socket.IPPROTO_TCP, 0),  # the VXI-11 core channel, version 1, over TCP
)
_REPLY: Final = struct.Struct(">7I")


def call_vxi11(seconds: float, clock: Clock) -> tuple[str, ...]:
    """Hosts whose port mapper knows a VXI-11 core channel; listens that long.

    Raises:
        OSError: no network takes a broadcast.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        line.bind(("", 0))
        line.setblocking(False)
        refusal: OSError | None = None
        sent = 0
        for target in _broadcast_addresses():
            try:
                line.sendto(_CALL, (target, PORT_MAPPER))
                sent += 1
            except OSError as error:
                refusal = error
        if not sent:
            raise refusal or OSError("no network to search")
        return _listen(line, clock.monotonic() + seconds, clock)


def _listen(line: socket.socket, deadline: float, clock: Clock) -> tuple[str, ...]:
    heard: dict[str, None] = {}
    while len(heard) < MOST_HEARD and (left_s := deadline - clock.monotonic()) > 0:
        if not select.select([line], [], [], left_s)[0]:
            break
        with contextlib.suppress(OSError):
            data, (host, *_) = line.recvfrom(REPLY_BYTES)
            if _tells_a_port(data):
                heard[host] = None
    return tuple(heard)


def _tells_a_port(data: bytes) -> bool:
    """An accepted, successful reply to our call, with a port other than 0."""
    if len(data) < _REPLY.size:
        return False
    xid, kind, status, _flavour, verifier_bytes, accepted, port = _REPLY.unpack_from(data)
    return (xid, kind, status, verifier_bytes, accepted) == (XID, 1, 0, 0, 0) and 0 < port < 65_536


def _broadcast_addresses() -> tuple[str, ...]:
    """The broadcast address of each IPv4 network this machine is in, loopback left out."""
    import psutil

    found: dict[str, None] = {}
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family is not socket.AF_INET or not address.netmask:
                continue
            network = ipaddress.ip_interface(f"{address.address}/{address.netmask}").network
            if not network.is_loopback and network.num_addresses > 2:
                found[address.broadcast or str(network.broadcast_address)] = None
    return tuple(found)


def browse_mdns(kinds: tuple[str, ...], seconds: float) -> tuple[Announced, ...]:
    """Announcements of these kinds; listens that long.

    Raises:
        ImportError: zeroconf is not installed.
        OSError: no interface takes multicast.
    """
    from zeroconf import ServiceBrowser, ServiceStateChange, Zeroconf

    names: dict[tuple[str, str], None] = {}
    guard = threading.Lock()

    def hear(
        zeroconf: Zeroconf,  # noqa: ARG001 - zeroconf calls it by these names
        service_type: str,
        name: str,
        state_change: ServiceStateChange,
    ) -> None:
        with guard:
            if state_change is not ServiceStateChange.Removed and len(names) < MOST_HEARD:
                names[(service_type, name)] = None

    zeroconf = Zeroconf()
    try:
        browser = ServiceBrowser(zeroconf, list(kinds), handlers=[hear])
        threading.Event().wait(seconds)
        browser.cancel()
        with guard:
            heard = tuple(names)
        return tuple(
            Announced(kind, host, info.port or 0)
            for kind, name in heard
            if (info := zeroconf.get_service_info(kind, name, timeout=RESOLVE_MS)) is not None
            for host in info.parsed_addresses()[:1]
        )
    finally:
        zeroconf.close()


BROWSE_S: Final = 2.0
CALL_S: Final = 1.0


@record(kw_only=False)
class Service:
    """A kind of announcement, and the address that it stands for; best first."""

    kind: str
    address: str


SERVICES: Final = (
    Service("_hislip._tcp.local.", "TCPIP0::{host}::hislip0,{port}::INSTR"),
    Service("_vxi-11._tcp.local.", "TCPIP0::{host}::inst0::INSTR"),
    Service("_scpi-raw._tcp.local.", "TCPIP0::{host}::{port}::SOCKET"),
)
"""An LXI device announces several; one session is enough, and many take no second one."""
HISLIP_PORT: Final = 4880


Browse = Callable[[tuple[str, ...], float], Iterable[Announced]]
Call = Callable[[float, Clock], Iterable[str]]


class LanSource:
    """See ``Source``.

    Args:
        browse: mDNS: announcements of these kinds, heard within these seconds.
        call: VXI-11: hosts that answered a broadcast within these seconds.
    """

    name = "lan"
    is_slow = True
    tells_departures = False
    limit_s = 8.0

    def __init__(
        self, clock: Clock, *, browse: Browse = browse_mdns, call: Call = call_vxi11
    ) -> None:
        self._clock = clock
        self._browse = browse
        self._call = call

    def list_now(self) -> Listing:
        heard: list[Announced] = []
        remarks: list[str] = []
        try:
            heard += self._browse(tuple(s.kind for s in SERVICES), BROWSE_S)
        except (ImportError, OSError) as error:
            remarks.append(f"no mDNS ({error})")
        try:
            answered = self._call(CALL_S, self._clock)
            heard += [Announced("_vxi-11._tcp.local.", host, 111) for host in answered]
        except OSError as error:
            remarks.append(f"no VXI-11 broadcast ({error})")
        remark = f"lan: {'; '.join(remarks)}." if remarks else ""
        return Listing(candidates=tuple(_candidates(heard)), remark=remark)


def _candidates(heard: Iterable[Announced]) -> Iterable[Candidate]:
    """One address for each host: that of the best service that it announces."""
    rank = {service.kind: place for place, service in enumerate(SERVICES)}
    best: dict[str, Announced] = {}
    for announced in heard:
        if announced.kind not in rank or not _is_host(announced.host):
            continue
        known = best.get(announced.host)
        if known is None or rank[announced.kind] < rank[known.kind]:
            best[announced.host] = announced
    for host in sorted(best):
        yield Candidate(entry=InstrumentEntry(address=_address(best[host])))


def _address(announced: Announced) -> str:
    if announced.kind == SERVICES[0].kind and announced.port == HISLIP_PORT:
        return f"TCPIP0::{announced.host}::hislip0::INSTR"
    template = next(s.address for s in SERVICES if s.kind == announced.kind)
    return template.format(host=announced.host, port=announced.port)


def _is_host(text: str) -> bool:
    """Announcements are untrusted: an IPv4 address, or nothing."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_multicast or address.is_unspecified)
