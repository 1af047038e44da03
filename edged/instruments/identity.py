"""Which unit it is that has answered: by maker, model and serial number, and by where. Pure.

Cheap units tell one serial number each time, and simulators do, so a name alone is no proof. What
answers is a unit that was met before

1. at the address at which that one was met;
2. where the owner gave both addresses one name in INSTRUMENTS;
3. at another port of the same host;
4. by USB, serial or GPIB where that one was met on the network or has been taken away, and the
   other way round: as long as no more than one unit tells this serial number.

Entries of INSTRUMENTS that are not joined by name, and two hosts, are never one unit. A unit on the
network that comes back at another host is a new one: nobody can tell whether it has moved or is
its twin, and its names must not come to drive the other.

Source: docs/promises.md section 14.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from edged.profiles.match import Identity, parse_idn
from edged.record import record
from edged.transports.address import Transport


def is_same_unit(known_idn: str, found_idn: str) -> bool:
    """Whether two ``*IDN?`` answers come from one unit; firmware may differ. Any thread."""
    return known_idn == found_idn or is_one_unit(parse_idn(known_idn), parse_idn(found_idn))


def is_one_unit(one: Identity, other: Identity) -> bool:
    """The same for what was read of them."""
    return all(
        a.casefold() == b.casefold()
        for a, b in (
            (one.manufacturer, other.manufacturer),
            (one.model, other.model),
            (one.serial, other.serial),
        )
    )


def tells_itself(identity: Identity) -> bool:
    """Whether the serial number can tell units apart: not where it is empty or one digit (000)."""
    serial = identity.serial
    return bool(serial) and not (serial.isdigit() and len(set(serial)) == 1)


@record
class Seat:
    """An address at which a unit has answered, as far as it tells units apart.

    Attributes:
        key: the canonical address.
        hosts: of an address on the network: what its host's name was resolved to, or that name.
            Of a unit behind an adapter or gateway, with its place there.
        is_configured: it is an entry of INSTRUMENTS.
        name: that the entry gives; empty where it gives none.
    """

    key: str
    transport: Transport
    hosts: frozenset[str] = frozenset()
    is_configured: bool = False
    name: str = ""

    def is_joined_with(self, other: Seat) -> bool:
        """The owner gave both addresses one name: they are one unit's, but not behind one port."""
        both = self.is_configured and other.is_configured and not self.is_beside(other)
        return both and bool(self._called) and self._called == other._called

    def is_beside(self, other: Seat) -> bool:
        """Whether both are behind one port, with a bus address each."""
        return self.key != other.key and bool(self._port) and self._port == other._port

    @property
    def _port(self) -> str:
        """The port of a unit that has a bus address there; empty where it has none."""
        address = self.key.rpartition("@")[0]
        return address if address.endswith(("::INSTR", "::SOCKET")) else ""

    def is_apart_from(self, other: Seat) -> bool:
        """The owner has two entries for them, or calls them by two names."""
        if self.key == other.key or self.is_joined_with(other):
            return False
        has_two_names = bool(self._called and other._called) and self._called != other._called
        return has_two_names or (self.is_configured and other.is_configured)

    @property
    def _called(self) -> str:
        return self.name.strip().casefold()


class Met(Protocol):
    """Of an instrument, what tells whether it is the one that answers now."""

    @property
    def identity(self) -> Identity:
        """What it said of itself."""
        ...

    @property
    def seats(self) -> Mapping[str, Seat]:
        """Where it was met, by canonical address."""
        ...

    def hangs_on(self, transport: Transport) -> bool:
        """Whether it answers by this transport now, as far as anybody has noticed."""
        ...


M = TypeVar("M", bound=Met)


def known_as(found: Identity, seat: Seat, met: Iterable[M]) -> M | None:
    """The unit that answers at ``seat``, if it is one of those that were met; see above."""
    alike = [unit for unit in met if is_one_unit(unit.identity, found)]
    for unit in alike:
        if seat.key in unit.seats:
            return unit
    for unit in alike:
        if any(seat.is_joined_with(other) for other in unit.seats.values()):
            return unit
    if not tells_itself(found):
        return None
    open_to = [u for u in alike if not any(seat.is_apart_from(s) for s in u.seats.values())]
    neighbours = [u for u in open_to if any(are_ports_of_one(seat, s) for s in u.seats.values())]
    if neighbours:
        return neighbours[0] if len(neighbours) == 1 else None
    if len(alike) != 1 or not open_to:
        return None
    (only,) = open_to
    is_elsewhere = bool(seat.hosts) and any(s.hosts for s in only.seats.values())
    # A unit hangs on USB, a serial line or GPIB by one connector only.
    hangs_once = seat.transport.is_plugged or seat.transport is Transport.GPIB
    is_twin = hangs_once and only.hangs_on(seat.transport)
    return None if is_elsewhere or is_twin else only


def are_ports_of_one(one: Seat, other: Seat) -> bool:
    """Whether two addresses are one unit's for certain: of one host, or joined by their owner."""
    is_one = one.key == other.key or one.is_joined_with(other)
    return is_one or (not one.is_apart_from(other) and bool(one.hosts & other.hosts))
