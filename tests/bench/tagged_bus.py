"""Units behind one port, whose every line says for whom it was meant, whoever listens.

``ADR n`` makes unit n listen, as on a TDK-Lambda Genesys; all other lines carry the number, too
(``PV6 1.5``, ``OUT7?``), so that the bus can tell a line that reached another unit.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass, field

PROFILE = r"""
format: 1
profile_key: tagged
manufacturer: Acme
model: BUS-1
instrument_class: power_supply
source: made for tests
identify: {ask: "IDN{address}?", expect: "^ACME,BUS-1,"}
connection:
  read_termination: "\r"
  write_termination: "\r"
  timeout_ms: 500
  acknowledge: "^OK$"
  before: ["ADR {address}"]
  shared: true
  heartbeat: false
  errors: {query: {ask: "ERR{address}?"}, kind: code}
  on_connect: ["FOLD{address} 0"]
  on_release: ["LOC{address}"]
watchdog:
  delay: ["WDT{address} {s}"]
  enable: ["WDE{address} 1"]
  disable: ["WDE{address} 0"]
  range: [1, 60]
  step: 1
  tripped: {ask: "WDS{address}?", expect: "^1$"}
  clear: ["WDC{address}"]
  feeds: any
abort: [{send: "OUT{address} 0", ask: "OUT{address}?", expect: "^0$"}]
commands:
  set_voltage:
    scpi: "PV{address} {voltage:.3f}"
    parameters: {voltage: {type: float, min: 0, max: 60, unit: V}}
    verify: {query: "PV{address}?", tolerance: 0.001}
    sweep: {parameter: voltage, setpoint: "PV{address}?", readback: measure, interval_ms: 20}
  measure: {scpi: "MV{address}?", is_query: true, returns: {type: float, unit: V}}
  ask_slow: {scpi: "SLOW{address}?", is_query: true, timeout_ms: 4000, returns: {type: float}}
  output_on: {scpi: "OUT{address} 1", is_dangerous: true}
  output_off: {scpi: "OUT{address} 0", is_safe: true}
  get_output: {scpi: "OUT{address}?", is_query: true, returns: {type: bool}}
"""
_TAG = re.compile(r"([A-Z]+)(\d+)(.*)")


@dataclass
class Unit:
    """One of them.

    Attributes:
        late_s: head of a line → how late it is answered, even if another unit is addressed by then.
        obeys: whether ``OUT`` switches.
    """

    number: str
    volts: str = "0.000"
    is_on: bool = False
    is_plugged: bool = True
    obeys: bool = True
    error: str = "0"
    late_s: dict[str, float] = field(default_factory=dict)
    answered_at: float = 0.0
    fed_at: float = 0.0
    fed_within_s: float = 60.0
    is_guarded: bool = False
    has_tripped: bool = False
    heard: list[str] = field(default_factory=list)

    def look(self, now: float) -> None:
        """Switch off where nothing has come for too long."""
        if self.is_guarded and now - self.fed_at > self.fed_within_s and not self.has_tripped:
            self.has_tripped, self.is_on = True, False

    def answer(self, head: str, rest: str) -> str | None:
        value = rest.strip()
        match head, value:
            case "ADR", _:
                return "OK"
            case "IDN", "?":
                return f"ACME,BUS-1,{self.number}"
            case "ERR", "?":
                told, self.error = self.error, "0"
                return told
            case (("PV" | "MV"), "?"):
                return self.volts
            case "PV", _:
                self.volts = value
            case "OUT", "?":
                return "1" if self.is_on else "0"
            case "OUT", _:
                self.is_on = value == "1" if self.obeys else self.is_on
            case "SLOW", "?":
                return "9.9"
            case "WDS", "?":
                return "1" if self.has_tripped else "0"
            case "WDT", _:
                self.fed_within_s = float(value)
            case "WDE", _:
                self.is_guarded = value == "1"
            case (("FOLD" | "LOC" | "WDC"), _):
                pass
            case _:
                self.error = "7"
        return "OK"


@dataclass
class Bus:
    """The wire: who listens, and each line that reached somebody whom it was not for."""

    units: dict[str, Unit]
    listening: str = ""
    misdirected: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    ours: int = -1
    _late: list[tuple[float, bytes]] = field(default_factory=list)

    def hear(self, line: str) -> None:
        self.lines.append(line)
        word, _, value = line.partition(" ")
        if word == "ADR":
            self.listening = value
            head, number, rest = "ADR", value, ""
        else:
            found = _TAG.fullmatch(line)
            if found is None:
                self.misdirected.append(f"unreadable: {line!r}")
                return
            head, number, rest = found.groups()
            if number != self.listening:
                self.misdirected.append(f"{line} reached {self.listening or 'nobody'}")
                return
        unit = self.units.get(number)
        if unit is None or not unit.is_plugged:
            return
        unit.heard.append(line)
        unit.fed_at = time.monotonic()
        told = unit.answer(head, rest)
        if told is None:
            return
        late_s = unit.late_s.get(head, 0.0)
        if late_s == float("inf"):
            return
        # It does one thing after the other.
        unit.answered_at = max(time.monotonic(), unit.answered_at) + late_s
        self._late.append((unit.answered_at, f"{told}\r".encode()))

    def serve(self, ended: int) -> None:
        begun = b""
        while True:
            due = min((at for at, _ in self._late), default=None)
            wait = 0.05 if due is None else max(0.0, min(0.05, due - time.monotonic()))
            ready = select.select([self.ours, ended], [], [], wait)[0]
            if ended in ready:
                return
            if self.ours in ready:
                *lines, begun = (begun + os.read(self.ours, 4096)).split(b"\r")
                for line in lines:
                    self.hear(line.decode("latin-1"))
            now = time.monotonic()
            for unit in self.units.values():
                unit.look(now)
            for at, data in sorted(self._late):
                if at <= now:
                    self._late.remove((at, data))
                    os.write(self.ours, data)


@contextlib.contextmanager
def tagged_bus(*numbers: str) -> Iterator[tuple[Bus, str]]:
    """The bus at work on a pty, and the address of its port."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    reader, writer = os.pipe()
    bus = Bus(units={number: Unit(number) for number in numbers}, ours=ours)
    thread = threading.Thread(target=bus.serve, args=(reader,), daemon=True)
    thread.start()
    try:
        yield bus, f"ASRL{os.ttyname(theirs)}::INSTR"
    finally:
        os.write(writer, b".")
        thread.join(5)
        for descriptor in (ours, theirs, reader, writer):
            os.close(descriptor)
