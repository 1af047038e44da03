"""Bytes that came spoiled over a serial line: how the kernel marks them, and how they are told.

Linux alone says which byte had a parity or framing error: it puts 0xff 0x00 in front of it, and a
0xff that came as it is comes twice (termios, PARMRK). Elsewhere such a byte passes as it came.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Final

__all__ = ["SPOILED", "Unmarker", "mark_errors"]

SPOILED: Final = 0x1A
"""SUB of ASCII, which stands for a character that is in error."""
MARK: Final = 0xFF


def mark_errors(port: Any) -> bool:
    """Have the kernel mark spoiled bytes of pyserial's port from here on; False where it cannot.

    To be asked for again after each change of the port's settings: pyserial switches it off.
    """
    if sys.platform == "linux":
        import termios

        wanted = termios.INPCK | termios.PARMRK
        unwanted = termios.IGNPAR | termios.ISTRIP | termios.IGNBRK | termios.BRKINT
        with contextlib.suppress(termios.error, OSError, ValueError, AttributeError):
            settings = termios.tcgetattr(port.fileno())
            settings[0] = (settings[0] | wanted) & ~unwanted
            termios.tcsetattr(port.fileno(), termios.TCSANOW, settings)
            return bool(termios.tcgetattr(port.fileno())[0] & termios.PARMRK)
    return False


class Unmarker:
    """Takes the marks out of what is read; a mark may lie between two reads."""

    def __init__(self) -> None:
        # What has come of a mark that is not whole.
        self._begun = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """The bytes as they came over the line, and whether one was spoiled (``SPOILED``)."""
        if not self._begun and MARK not in data:
            return data, False
        data = self._begun + data
        plain = bytearray()
        is_spoiled = False
        place = 0
        while place < len(data):
            byte = data[place]
            rest = len(data) - place
            if byte != MARK:
                plain.append(byte)
                place += 1
            elif rest < 2 or (data[place + 1] == 0 and rest < 3):
                break
            elif data[place + 1] == 0:
                is_spoiled = True
                plain.append(SPOILED)
                place += 3
            else:
                plain.append(MARK)
                place += 2
        self._begun = data[place:]
        return bytes(plain), is_spoiled
