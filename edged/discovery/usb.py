"""USBTMC devices, by pyusb: what hangs on USB and calls itself a test instrument.

PyVISA's own ``list_resources`` is not used: it takes a second and broadcasts on every network. A
device's strings are read once a plug-in, so that a look leaves devices in use alone. A missing
libusb is a remark, no error: a bench may have no USB.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from typing import Any, Final

from edged.config.instruments import InstrumentEntry
from edged.discovery.buses import Candidate, Listing, printable

USBTMC: Final = (0xFE, 0x03)
"""Interface class and subclass."""
LIBUSB: Final = "libusb-1.0.so.0"
NO_LIBUSB: Final = (
    "usb: not searched, because libusb is missing. On Debian: apt install libusb-1.0-0."
)
NO_ACCESS: Final = (
    "edged may not open it. On Linux the package's udev rules give access (replug it after "
    "installing them); on Windows it needs the WinUSB driver."
)
NO_SERIAL: Final = "It has no serial number, which a USB address needs."

DeviceKey = tuple[int, int, int, int]


class UsbSource:
    """See ``Source``.

    Args:
        backend: a pyusb backend; ``None`` takes the machine's libusb.
        load: finds that; tests give another.
    """

    name = "usb"
    is_slow = False
    tells_departures = True
    limit_s = 5.0

    def __init__(self, backend: Any = None, *, load: Callable[[], Any] | None = None) -> None:
        self._backend = backend
        self._load = load or _libusb
        # By bus, address, vendor and product: another plug-in is another address. Only the scan
        # thread uses it.
        self._serials: dict[DeviceKey, str] = {}

    def list_now(self) -> Listing:
        # Imported late: who has no USB need not wait for it.
        import usb.core

        try:
            devices = list(usb.core.find(find_all=True, backend=self._backend or self._load()))
        except usb.core.NoBackendError:
            return Listing(remark=NO_LIBUSB)
        instruments = [(_key(device), device) for device in devices if _has_usbtmc(device)]
        present = {key for key, _ in instruments}
        self._serials = {key: text for key, text in self._serials.items() if key in present}
        found = tuple(self._candidate(key, device) for key, device in instruments)
        ids = frozenset((device.idVendor, device.idProduct) for device in devices)
        return Listing(candidates=found, usb_ids=ids)

    def _candidate(self, key: DeviceKey, device: Any) -> Candidate:
        problem = ""
        serial = self._serials.get(key)
        if serial is None:
            serial, problem = _serial_of(device)
            if not problem:
                self._serials[key] = serial
        bus, number, vendor, product = key
        return Candidate(
            entry=InstrumentEntry(
                address=usb_address(vendor, product, printable(serial) or f"{bus}-{number}")
            ),
            usb_id=(vendor, product),
            plug=f"{bus}-{number}",
            problem=problem,
            open_as=_opening(vendor, product, serial),
        )


def usb_address(vendor: int, product: int, serial: str) -> str:
    """The resource string, with ids in hexadecimal as the labels of instruments have them."""
    return f"USB0::0x{vendor:04X}::0x{product:04X}::{serial}::INSTR"


def _opening(vendor: int, product: int, serial: str) -> str:
    """What to open: pyvisa-py compares the number as the device tells it, NUL bytes included.

    It compares as file names are matched, so a character that addresses cannot hold is ``?``.
    """
    if printable(serial) == serial:
        return ""
    pattern = "".join(c if printable(c) else "?" for c in serial)
    return usb_address(vendor, product, pattern)


def _libusb() -> Any:
    """The library under the name that Linux knows it by; ``None`` leaves it to pyusb to look.

    pyusb asks ldconfig, whose cache lacks what was installed a moment ago: the packaged daemon
    starts before it is made anew. Found once, it serves every later use of pyusb.
    """
    if sys.platform == "win32":
        return None
    else:  # noqa: RET505 - mypy for Windows calls what follows a return unreachable
        import usb.backend.libusb1

        return usb.backend.libusb1.get_backend(find_library=lambda _name: LIBUSB)


def _key(device: Any) -> DeviceKey:
    return (device.bus or 0, device.address or 0, device.idVendor, device.idProduct)


def _has_usbtmc(device: Any) -> bool:
    import usb.core

    try:
        return any(
            (interface.bInterfaceClass, interface.bInterfaceSubClass) == USBTMC
            for configuration in device
            for interface in configuration
        )
    except (usb.core.USBError, NotImplementedError, ValueError):
        # It left while it was looked at, or its descriptors cannot be read: no instrument now.
        return False


def _serial_of(device: Any) -> tuple[str, str]:
    """The serial number as the device tells it, and why there is none."""
    import usb.core

    if not device.iSerialNumber:
        return "", NO_SERIAL
    try:
        serial = device.serial_number
    except usb.core.USBError as error:
        is_refused = error.errno in {errno.EACCES, errno.EPERM}
        return "", NO_ACCESS if is_refused else f"Reading its serial number failed: {error}"
    except (NotImplementedError, ValueError):
        # pyusb cannot tell "not allowed" from "has no strings"; the first is what happens.
        return "", NO_ACCESS
    return (str(serial), "") if serial and printable(str(serial)) else ("", NO_SERIAL)
