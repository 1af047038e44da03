"""Tells systemd how a program is: ready, alive, stopping. Without systemd it does nothing.

Source: sd_notify(3); the protocol is one datagram of ``NAME=VALUE`` lines.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import Final

from edged.clock import Clock

__all__ = ["Notifier", "say_alive", "without_notification"]

MAX_INTERVAL_S: Final = 30.0


class Notifier:
    """The service manager of this process, if it has one.

    Args:
        environ: where NOTIFY_SOCKET and WATCHDOG_USEC are looked for.
        pid: who may answer the watchdog.

    Attributes:
        alive_every_s: how often ``alive`` is to be called; ``None`` when nobody waits for it.
    """

    def __init__(self, environ: Mapping[str, str], pid: int = 0) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.alive_every_s: float | None = None
        micros = environ.get("WATCHDOG_USEC", "")
        meant = environ.get("WATCHDOG_PID", "")
        if self._address and micros.isdigit() and meant in {"", str(pid or os.getpid())}:
            self.alive_every_s = max(0.1, min(int(micros) / 2e6, MAX_INTERVAL_S))

    def ready(self, status: str) -> None:
        """The program serves."""
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """What ``systemctl status`` shows in one line."""
        self._send(f"STATUS={status}")

    def alive(self) -> None:
        """Not hung."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The program ends on request."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address or not hasattr(socket, "AF_UNIX"):
            return
        # A leading @ stands for the NUL of an abstract name.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line,
        ):
            line.setblocking(False)
            line.sendto(text.encode("utf-8"), address)


async def say_alive(notifier: Notifier, clock: Clock) -> None:
    """Answer the watchdog from the event loop, for as long as that turns; until cancelled."""
    while notifier.alive_every_s is not None:
        notifier.alive()
        await clock.sleep(notifier.alive_every_s)


def without_notification(environ: MutableMapping[str, str]) -> None:
    """Take out what is meant for this process and not for its children."""
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        environ.pop(name, None)
