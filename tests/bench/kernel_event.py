"""Makes the kernel tell of a device, as it does when one is plugged in: needs root."""

from __future__ import annotations

import os
from pathlib import Path

UEVENT = Path("/sys/class/tty/ttyS0/uevent")


def why_not() -> str:
    """Why no event can be made here; empty when one can."""
    if not UEVENT.exists():
        return f"{UEVENT} does not exist: no Linux, or no serial port"
    if not os.access(UEVENT, os.W_OK):
        return f"{UEVENT} cannot be written: this needs root"
    return ""


def make_event(action: str = "add") -> None:
    """The kernel tells of ttyS0 to everybody who listens."""
    UEVENT.write_text(action)
