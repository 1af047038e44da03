"""A serial instrument on a pty that reads and sends at one speed alone, as real ones do.

A pty carries bytes whatever speed is set, but tells its other end which that is (Linux): what comes
at another one is noise to the instrument, and so is what it would have sent.
"""

from __future__ import annotations

import contextlib
import os
import select
import termios
import threading
import time
import tty
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

SPEEDS = {
    9600: termios.B9600,
    19_200: termios.B19200,
    38_400: termios.B38400,
    115_200: termios.B115200,
}


@dataclass(slots=True)
class PtyUnit:
    """See the module.

    Attributes:
        rest_s: what comes sooner after its last answer is lost.
        heard: every line that it read.
    """

    answers: Mapping[str, str]
    takes: bytes
    ends: str
    baud_rate: int
    rest_s: float = 0.0
    path: str = ""
    heard: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"ASRL{self.path}::INSTR"

    def serve(self, ours: int, ended: int) -> None:
        begun = b""
        answered_at = 0.0
        while ended not in (ready := select.select([ours, ended], [], [])[0]):
            assert ours in ready
            data = os.read(ours, 4096)
            if not self._is_tuned(ours):
                os.write(ours, b"\xfe\x80\xf8")
                begun = b""
                continue
            is_early = time.monotonic() - answered_at < self.rest_s
            *lines, begun = (begun + data).split(self.takes)
            for line in lines:
                text = line.decode("latin-1")
                self.heard.append(text)
                answer = self.answers.get(text.strip())
                if answer is not None and not is_early:
                    os.write(ours, (answer + self.ends).encode("latin-1"))
                    answered_at = time.monotonic()

    def _is_tuned(self, ours: int) -> bool:
        speed = termios.tcgetattr(ours)[5]
        return bool(speed == SPEEDS[self.baud_rate])


@contextlib.contextmanager
def on_a_pty(unit: PtyUnit) -> Iterator[PtyUnit]:
    """The unit at work, until the context ends."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    reader, writer = os.pipe()
    unit.path = os.ttyname(theirs)
    thread = threading.Thread(target=unit.serve, args=(ours, reader), daemon=True)
    thread.start()
    try:
        yield unit
    finally:
        os.write(writer, b".")
        thread.join(5)
        for descriptor in (ours, theirs, reader, writer):
            os.close(descriptor)
