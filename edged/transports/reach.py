"""Whether anybody listens where an address on the network points, and what to try instead.

Asked before anything is opened for a person who waits: a refused port is told at once, in words,
with the other doors of that host that do open. Nothing is sent through any of them.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from edged.clock import Clock
from edged.errors import ErrorCode, Failed
from edged.record import record
from edged.transports.address import Transport, parse_address

PORT_MAPPER: Final = 111
HISLIP: Final = 4880
RAW: Final = 5025
WITHIN_S: Final = 1.5
"""A host on a bench's network answers in milliseconds, or is not there."""
OTHERS_WITHIN_S: Final = 0.8
OTHER_DOORS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        RAW: ("port 5025", "TCPIP::{host}::5025::SOCKET"),
        HISLIP: ("HiSLIP", "TCPIP::{host}::hislip0::INSTR"),
        PORT_MAPPER: ("the port mapper of VXI-11", "TCPIP::{host}::INSTR"),
    }
)
"""Port → what it is called, and the address that leads there."""
_PLACE: Final = re.compile(r"(?:PRLGX-)?TCPIP\d*::(?P<host>[^:,]+)(?:,(?P<port>\d{1,5}))?::", re.I)


@record
class NetworkDoor:
    """Where the first connection of an address goes.

    Attributes:
        is_typed: the port stands in the address; else it is the transport's own.
    """

    host: str
    port: int
    is_typed: bool


def door_of(address: str) -> NetworkDoor | None:
    """The door of an address on the network; ``None`` for a bus or a serial port.

    Raises:
        Invalid: BAD_CONFIG, this is no address.
    """
    parsed = parse_address(address)
    place = _PLACE.match(parsed.text)
    if place is None:
        return None
    host = place["host"]
    rest = parsed.text.split("::")[2:]
    match parsed.transport:
        case Transport.VXI11:
            typed = place["port"]
            own = PORT_MAPPER
        case Transport.HISLIP:
            named = next(field for field in rest if field.lower().startswith("hislip"))
            typed = named.partition(",")[2]
            own = HISLIP
        case _:
            typed = rest[0]
            own = 0
    if typed and not (typed.isdigit() and int(typed) < 65_536):
        return None
    return NetworkDoor(host=host, port=int(typed or own), is_typed=bool(typed))


def knock(address: str, clock: Clock) -> None:
    """Return if somebody listens there, or if the address is none on the network.

    Raises:
        Failed: DISCONNECTED, nobody does; what to try instead.
        Invalid: BAD_CONFIG, this is no address.
    """
    door = door_of(address)
    if door is None:
        return
    why = _look(door.host, (door.port,), WITHIN_S, clock)[door.port]
    if not why:
        return
    what = f"port {door.port}" if door.is_typed else OTHER_DOORS[door.port][0]
    raise Failed(
        f"No instrument answered at {address}: {what} at {door.host} {why}.",
        code=ErrorCode.DISCONNECTED,
        data={"address": address},
        remedy=_instead(door, clock),
    )


def _instead(door: NetworkDoor, clock: Clock) -> str:
    others = [port for port in OTHER_DOORS if port != door.port]
    found = _look(door.host, others, OTHERS_WITHIN_S, clock)
    is_open = [port for port in others if not found[port]]
    if is_open:
        roads = " or ".join(OTHER_DOORS[port][1].format(host=door.host) for port in is_open)
        names = " and ".join(OTHER_DOORS[port][0] for port in is_open)
        return f"There {names} can be reached: try {roads}."
    tried = ", ".join(OTHER_DOORS[port][0] for port in others)
    return (
        f"Nor does anything else listen there that was tried ({tried}): check the host, whether it "
        "is switched on, whether remote control over the network is switched on at its front "
        "panel, and its manual for the port."
    )


def _look(host: str, ports: Sequence[int], within_s: float, clock: Clock) -> dict[int, str]:
    """Port → what is wrong with it, empty where somebody listens.

    Each look has a thread, because a name that is looked up cannot be hurried.
    """
    found = dict.fromkeys(ports, f"does not answer within {within_s:g} s")

    def look(port: int) -> None:
        try:
            socket.create_connection((host, port), within_s).close()
        except ConnectionRefusedError:
            found[port] = "refuses the connection"
        except socket.gaierror:
            found[port] = "cannot be looked up: there is no host of that name"
        except TimeoutError:
            return
        except OSError as error:
            found[port] = f"cannot be reached: {error.strerror or error}"
        else:
            found[port] = ""

    threads = [threading.Thread(target=look, args=(port,), daemon=True) for port in ports]
    deadline = clock.monotonic() + within_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline + 0.1 - clock.monotonic()))
    return dict(found)
