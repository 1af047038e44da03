"""Serial ports that may be asked who is there: those the owner names, and known USB ids.

Nothing else is ever written to: a port may lead to a door lock, a modem or a CNC machine, and some
devices act on any byte that comes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Final

from edged.config.instruments import InstrumentEntry
from edged.discovery.buses import Candidate, Listing

UNASKED_NAMED: Final = 8

UsbId = tuple[int, int]


class SerialSource:
    """See ``Source``.

    Args:
        ports: SERIAL_PORTS: ports that may be asked whatever hangs there, as device names
            (``/dev/ttyUSB0``, ``/dev/serial/by-id/…``, ``COM3``) or as VISA addresses.
        known: USB ids that some profile names.
        comports: lists ports as pyserial does.
    """

    name = "serial"
    is_slow = False
    tells_departures = True
    limit_s = 5.0

    def __init__(
        self,
        ports: Iterable[str],
        known: frozenset[UsbId],
        comports: Callable[[], Iterable[Any]] | None = None,
    ) -> None:
        self._ports = tuple(_device(port) for port in ports)
        self._known = known
        self._comports = comports

    def list_now(self) -> Listing:
        allowed = {os.path.realpath(port): port for port in self._ports}
        found: list[Candidate] = []
        unasked: list[str] = []
        seen: set[UsbId] = set()
        for port in self._list():
            device = str(port.device)
            usb_id = _usb_id(port)
            if usb_id is not None:
                seen.add(usb_id)
            spelled = allowed.pop(os.path.realpath(device), None)
            if spelled is None and usb_id not in self._known:
                if usb_id is not None:
                    unasked.append(f"{device} ({usb_id[0]:04x}:{usb_id[1]:04x})")
                continue
            found.append(_candidate(spelled or device, port, usb_id))
        # A port that the owner names may be of a kind that the list does not have (a pty, a
        # driver's own): if it is there, it counts.
        found += [
            Candidate(entry=InstrumentEntry(address=serial_address(port)))
            for real, port in allowed.items()
            if os.path.exists(real)  # noqa: PTH110 - a port's name is no path on Windows
        ]
        return Listing(candidates=tuple(found), remark=_remark(unasked), usb_ids=frozenset(seen))

    def _list(self) -> Iterable[Any]:
        if self._comports is not None:
            return self._comports()
        # Imported late: who has no serial ports need not wait for it.
        from serial.tools.list_ports import comports

        return comports()


def serial_address(device: str) -> str:
    """The resource string of a serial port."""
    return f"ASRL{device}::INSTR"


def known_usb_ids(profiles: Iterable[Any]) -> frozenset[UsbId]:
    """Every USB id that some profile names."""
    return frozenset(usb_id for profile in profiles for usb_id in profile.match.usb_ids)


def _candidate(device: str, port: Any, usb_id: UsbId | None) -> Candidate:
    return Candidate(
        entry=InstrumentEntry(address=serial_address(device)),
        usb_id=usb_id,
        plug=f"{port.location or ''} {port.serial_number or ''}".strip(),
    )


def _usb_id(port: Any) -> UsbId | None:
    return (port.vid, port.pid) if port.vid is not None and port.pid is not None else None


def _device(port: str) -> str:
    """A port as the operating system names it, from either spelling."""
    head, _, _ = port.partition("::")
    return head[4:] if head.upper().startswith("ASRL") and len(head) > 4 else head


def _remark(unasked: list[str]) -> str:
    if not unasked:
        return ""
    shown = ", ".join(unasked[:UNASKED_NAMED])
    more = f" and {len(unasked) - UNASKED_NAMED} more" if len(unasked) > UNASKED_NAMED else ""
    return f"serial: not asked, because neither SERIAL_PORTS nor a profile knows it: {shown}{more}."
