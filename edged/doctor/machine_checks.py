"""Checks of the machine: may this user open USB instruments, and is there a VISA to do it with."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import os
from pathlib import Path
from typing import Final

from edged.doctor.facts import Facts
from edged.doctor.report import Line, fail, passed, skip, warn

__all__ = ["check_usb", "check_visa"]

USBTMC: Final = ("fe", "03")
"""Interface class and subclass, as the kernel writes them (USB-TMC 1.0, table 43)."""
SERIAL_NODES: Final = ("ttyUSB*", "ttyACM*")


def check_usb(facts: Facts) -> Line:
    """Whether plugged-in instruments may be opened by this user."""
    if os.name == "nt":
        return skip("Windows asks drivers, not permissions.")
    nodes = _usbtmc_nodes(facts.devices)
    closed = [str(node) for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    serial = [
        str(node)
        for pattern in SERIAL_NODES
        for node in Path("/dev").glob(pattern)
        if not os.access(node, os.R_OK | os.W_OK)
    ]
    if closed:
        return fail(
            f"This user may not open {', '.join(closed)}.",
            'Add a udev rule for instruments (SUBSYSTEM=="usb", '
            'ENV{ID_USB_INTERFACES}=="*:fe03*", MODE="0660", GROUP="edged"), put the user '
            "of the engine into that group, and plug the instrument in again.",
        )
    if serial:
        return warn(
            f"This user may not open {', '.join(serial)}.", "Put it into the group dialout."
        )
    return passed(f"{len(nodes)} USB instruments are plugged in; all may be opened.")


def _usbtmc_nodes(devices: Path) -> list[Path]:
    """Device nodes of what has a USBTMC interface."""
    nodes = []
    for interface in devices.glob("*:*"):
        kind = (_read(interface / "bInterfaceClass"), _read(interface / "bInterfaceSubClass"))
        if kind != USBTMC:
            continue
        device = devices / interface.name.partition(":")[0]
        bus, number = _read(device / "busnum"), _read(device / "devnum")
        if bus.isdigit() and number.isdigit():
            nodes.append(Path(f"/dev/bus/usb/{int(bus):03}/{int(number):03}"))
    return nodes


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def check_visa(facts: Facts) -> Line:
    """Which VISA is used, and what it lacks."""
    library = facts.config.visa_library
    versions = {name: _version(name) for name in ("pyvisa", "pyvisa-py", "pyusb", "pyserial")}
    missing = [name for name, version in versions.items() if not version]
    if missing:
        return fail(f"{', '.join(missing)} is not installed.", "Install edged anew.")
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    # As PyVISA reads it: a file, a backend behind an @, or both (`bench.yaml@sim`).
    file, _, backend = library.rpartition("@") if "@" in library else (library, "", "")
    if file and not Path(file).exists():
        return fail(
            f"VISA_LIBRARY {library} does not exist: there is no {file}.",
            "Correct it, or leave it out.",
        )
    if backend == "py" and ctypes.util.find_library("usb-1.0") is None:
        return warn(
            f"{told}; libusb is missing, so USB instruments cannot be used.",
            "Install libusb 1.0 (Debian: libusb-1.0-0).",
        )
    return passed(f"{library}: {told}.")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
