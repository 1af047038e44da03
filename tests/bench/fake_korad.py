"""A simulated Korad KA3005P on a pseudo-terminal, with the quirks that are known of real ones.

Written from what is known of the instrument and not from our wrapper: commands without any end,
setters that never answer, a status of one raw byte, ``*IDN?`` without commas, a stale byte after
the answer to ``ISET1?``, a recall that switches the output off, and silence to what is no command.
"""

from __future__ import annotations

import os
import pty
import re
import select
import threading
import tty

COMMANDS = re.compile(
    rb"\*IDN\?|STATUS\?|VSET1\?|ISET1\?|VOUT1\?|IOUT1\?|VSET1:[0-9]{2}\.[0-9]{2}"
    rb"|ISET1:[0-9]\.[0-9]{3}|OUT[01]|OVP[01]|OCP[01]|BEEP[01]|SAV[1-5]|RCL[1-5]"
)
LOAD_OHM = 10.0


class FakeKorad:
    """One supply feeding 10 ohm; ``path`` is its serial port. Use as a context."""

    def __init__(self, identity: bytes = b"KORADKA3005PV2.0") -> None:
        self.identity = identity
        self.volts, self.amps, self.is_on = 0.0, 0.0, False
        self.memories = {number: (5.0 * number, 1.0) for number in range(1, 6)}
        self.log: list[bytes] = []
        self.is_deaf_to_off = 0
        self.is_silent = False
        self._ours, self._theirs = pty.openpty()
        tty.setraw(self._theirs)
        self.path = os.ttyname(self._theirs)
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="edged test korad")

    def __enter__(self) -> FakeKorad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._stop_write, b"x")
        self._thread.join()
        for descriptor in (self._ours, self._theirs, self._stop_read, self._stop_write):
            os.close(descriptor)

    def _serve(self) -> None:
        waiting = b""
        while True:
            readable, _, _ = select.select([self._ours, self._stop_read], [], [])
            if self._stop_read in readable:
                return
            waiting += os.read(self._ours, 256)
            while (found := COMMANDS.search(waiting)) is not None:
                waiting = waiting[found.end() :]
                self.log.append(found.group())
                answer = self._obey(found.group())
                if answer and not self.is_silent:
                    os.write(self._ours, answer)

    def _obey(self, command: bytes) -> bytes:
        name, _, value = command.partition(b":")
        if value:
            # Beyond what it can do it does nothing, and says nothing.
            if name == b"VSET1" and float(value) <= 31:
                self.volts = float(value)
            elif name == b"ISET1" and float(value) <= 5.1:
                self.amps = float(value)
            return b""
        match command:
            case b"*IDN?":
                return self.identity
            case b"STATUS?":
                return bytes([0x10 | 0x40 * self.is_on | (self._output()[2] == "CV")])
            case b"VSET1?":
                return f"{self.volts:05.2f}".encode()
            case b"ISET1?":
                return f"{self.amps:05.3f}".encode() + b"K"
            case b"VOUT1?":
                return f"{self._output()[0]:05.2f}".encode()
            case b"IOUT1?":
                return f"{self._output()[1]:05.3f}".encode()
            case b"OUT1":
                self.is_on = True
            case b"OUT0":
                if self.is_deaf_to_off:
                    self.is_deaf_to_off -= 1
                else:
                    self.is_on = False
            case _ if command.startswith(b"RCL"):
                self.volts, self.amps = self.memories[int(command[3:])]
                self.is_on = False
        return b""

    def _output(self) -> tuple[float, float, str]:
        """Volts, amperes and mode at the terminals."""
        if not self.is_on:
            return 0.0, 0.0, "CV"
        amps = self.volts / LOAD_OHM
        if amps <= self.amps:
            return self.volts, amps, "CV"
        return self.amps * LOAD_OHM, self.amps, "CC"
