"""The Linux kernel's own word on devices that come and go: a netlink socket, no library, no udevd.

The events are the kernel's (``source=kernel`` in udev's words), so it works in containers too. Any
process with CAP_NET_ADMIN can send look-alikes; the kernel's own come from port 0 and nobody else's
do, so those alone count.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
from collections.abc import Callable, Mapping
from typing import Final

KOBJECT_UEVENT: Final = 15
"""NETLINK_KOBJECT_UEVENT."""
KERNEL_GROUP: Final = 1
"""Group 2 is udevd's; we do not depend on one."""
EVENT_BYTES: Final = 16 * 1024
BUFFER_BYTES: Final = 1024 * 1024
MOST_AT_ONCE: Final = 256
"""Events read in one turn of the loop: a storm must not keep it."""
SUBSYSTEMS: Final = frozenset({"usb", "tty", "usbmisc"})
ACTIONS: Final = frozenset({"add", "remove", "bind", "unbind", "change", "move"})
_USB_DEVICE: Final = re.compile(r"/(\d+-[\d.]+)(?=/|:|$)")
EVERYTHING: Final = "everything"
"""The device of an overflow: events were lost, anything may have changed."""


class KernelMonitor:
    """See ``hotplug.Monitor``."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._notice: Callable[[str], None] = _nobody

    def start(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._socket = _open_socket()
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._read)

    async def stop(self) -> None:
        line, self._socket = self._socket, None
        if line is not None:
            asyncio.get_running_loop().remove_reader(line.fileno())
            line.close()

    def _read(self) -> None:
        for _ in range(MOST_AT_ONCE):
            line = self._socket
            if line is None:
                return
            try:
                data, sender = line.recvfrom(EVENT_BYTES)
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    self._notice(EVERYTHING)
                return
            if not is_kernels(sender):
                continue
            device = device_of(parse_event(data))
            if device:
                self._notice(device)


def is_kernels(sender: object) -> bool:
    """Whether a datagram came from the kernel: its port (``nl_pid``) is 0, ours never is."""
    return isinstance(sender, tuple) and len(sender) == 2 and sender[0] == 0


def parse_event(data: bytes) -> Mapping[str, str]:
    """The fields of one event (``add@/devices/…``, then KEY=value, each ended by NUL); or none."""
    head, *fields = data.decode("utf-8", "replace").split("\0")
    if "@" not in head:
        return {}
    return dict(field.split("=", 1) for field in fields if "=" in field)


def device_of(event: Mapping[str, str]) -> str:
    """The physical device that an event is about; empty where it concerns no instrument.

    A USB device's interfaces and its serial port count as the device: they settle together.
    """
    if event.get("SUBSYSTEM") not in SUBSYSTEMS or event.get("ACTION") not in ACTIONS:
        return ""
    path = event.get("DEVPATH", "")
    found = _USB_DEVICE.findall(path)
    return found[-1] if found else path


def _open_socket() -> socket.socket:
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    line = socket.socket(family, socket.SOCK_DGRAM, KOBJECT_UEVENT)
    try:
        with contextlib.suppress(OSError):
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        line.setblocking(False)
        line.bind((0, KERNEL_GROUP))
    except OSError:
        line.close()
        raise
    return line


def _nobody(_device: str) -> None:
    """Before ``start`` nobody listens."""
