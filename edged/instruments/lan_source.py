"""Instruments on the local network: those that announce themselves, and those that answer a call.

mDNS (LXI's way) and the VXI-11 broadcast both send to everybody, so this is looked at in every
tenth scan only, and only when DISCOVERY has ``lan``. What answers is a candidate, no more: who it
is, ``*IDN?`` tells.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from edged.clock import Clock
from edged.config_instruments import InstrumentEntry
from edged.instruments.lan_calls import Announced, browse_mdns, call_vxi11
from edged.instruments.sources import Candidate, Listing

__all__ = ["LanSource", "Service"]

BROWSE_S: Final = 2.0
CALL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
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
        """See ``Source``."""
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
