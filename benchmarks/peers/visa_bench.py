"""What the peers' tools do: PyVISA on the same simulated instruments, as a careful user writes it.

One resource and one lock an instrument; opened at the first use. Runs in the peers' environments,
so it imports nothing of edged.
"""

from __future__ import annotations

import argparse
import base64
import struct
import threading
from typing import Any

import pyvisa

STATUS = {"instruments": 3, "state": "ready", "uptime_s": 1.5, "sweeps": [], "streams": []}
SETUP = (":WAV:SOUR CHAN1", ":WAV:MODE RAW", ":WAV:FORM BYTE", ":WAV:STAR 1")


class VisaBench:
    """Instruments behind ports of this machine."""

    def __init__(self, ports: list[int]) -> None:
        self._manager = pyvisa.ResourceManager("@py")
        self._ports = ports
        self._lines: dict[int, Any] = {}
        self._locks = [threading.Lock() for _ in ports]
        self._captured = ""

    def open_all(self) -> None:
        """As a server does that wants to say at once what is there."""
        for number in range(len(self._ports)):
            self.query(number, "*IDN?")

    def query(self, number: int, command: str) -> str:
        with self._locks[number]:
            return str(self._line(number).query(command)).strip()

    def capture(self, number: int, points: int) -> int:
        """Points of the scope's memory in volts, kept for ``fetch``; gives how many."""
        with self._locks[number]:
            line = self._line(number)
            for command in (*SETUP, f":WAV:STOP {points}"):
                line.write(command)
            fields = line.query(":WAV:PRE?").split(",")
            step, origin, reference = (float(text) for text in fields[7:10])
            line.write(":WAV:DATA?")
            head = line.read_bytes(2, break_on_termchar=False)
            size = int(line.read_bytes(int(head[1:2]), break_on_termchar=False))
            codes = line.read_bytes(size + 1, break_on_termchar=False)[:size]
        volts = [(code - origin - reference) * step for code in codes]
        self._captured = base64.b64encode(struct.pack(f"<{size}d", *volts)).decode()
        return size

    def fetch(self) -> str:
        return self._captured

    def close(self) -> None:
        """Every line, and the manager."""
        for line in self._lines.values():
            line.close()
        self._manager.close()

    def _line(self, number: int) -> Any:
        if number not in self._lines:
            line = self._manager.open_resource(f"TCPIP::127.0.0.1::{self._ports[number]}::SOCKET")
            line.read_termination = line.write_termination = "\n"
            line.timeout = 5_000
            self._lines[number] = line
        return self._lines[number]


def read_arguments() -> argparse.Namespace:
    """What every peer is told: ports of instruments, and how many more tools to have."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ports", nargs="*", type=int)
    parser.add_argument("--more-tools", type=int, default=0)
    return parser.parse_args()
