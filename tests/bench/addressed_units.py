"""Two supplies behind one serial port, of which the last that was addressed listens.

Written from the manual of TDK-Lambda's Genesys, "Serial communication": ``ADR n`` is answered by
``OK`` and makes all lines go to unit n; whoever is not addressed is silent; each line that sets
something is answered by ``OK`` or by an error such as ``C01``; lines end with a carriage return.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.bench.pty_unit import PtyUnit

PROFILE = """
format: 1
profile_key: tdk_genesys
version: 1
manufacturer: TDK-Lambda
model: GEN60-25
instrument_class: power_supply
source: made for tests, from the manual
identify: {ask: "IDN?", expect: "^LAMBDA,GEN"}
connection:
  read_termination: "\\r"
  write_termination: "\\r"
  timeout_ms: 600
  baud_rate: 9600
  acknowledge: "^OK$"
  before: ["ADR {address}"]
  shared: true
  heartbeat: false
abort: [{send: "OUT 0", ask: "OUT?", expect: "^(OFF|0)$"}]
commands:
  set_voltage:
    scpi: "PV {voltage:.3f}"
    parameters: {voltage: {type: float, min: 0, max: 60, unit: V}}
    sweep: {parameter: voltage, setpoint: "PV?"}
  get_voltage: {scpi: "PV?", is_query: true, returns: {type: float, unit: V}}
  get_slow: {scpi: "SLOW?", is_query: true, returns: {type: float}, timeout_ms: 4000}
  output_on: {scpi: "OUT 1", is_dangerous: true}
  output_off: {scpi: "OUT 0", is_safe: true}
  output_state: {scpi: "OUT?", is_query: true, returns: {type: bool}}
"""


@dataclass
class Supply:
    voltage: str = "0.000"
    is_on: bool = False
    is_off_the_bus: bool = False
    heard: list[str] = field(default_factory=list)


@dataclass
class Bus(Mapping[str, str]):
    """What is answered to a line, and whom it reached."""

    supplies: dict[str, Supply]
    addressed: str = ""
    addressings: list[str] = field(default_factory=list)
    unaddressed: list[str] = field(default_factory=list)

    def __getitem__(self, line: str) -> str:
        if line.startswith("ADR "):
            self.addressed = line[4:]
            self.addressings.append(self.addressed)
            supply = self.supplies.get(self.addressed)
            if supply is None or supply.is_off_the_bus:
                raise KeyError(line)
            return "OK"
        supply = self.supplies.get(self.addressed)
        if supply is None or supply.is_off_the_bus:
            self.unaddressed.append(line)
            raise KeyError(line)
        supply.heard.append(line)
        return self._answer(supply, line)

    def _answer(self, supply: Supply, line: str) -> str:
        head, _, rest = line.partition(" ")
        match head:
            case "IDN?":
                return "LAMBDA,GEN60-25"
            case "PV?":
                return supply.voltage
            case "OUT?":
                return "ON" if supply.is_on else "OFF"
            case "PV":
                supply.voltage = rest
                return "OK"
            case "OUT":
                supply.is_on = rest == "1"
                return "OK"
            case "SLOW?":
                raise KeyError(line)
        return "C01"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def pair() -> tuple[PtyUnit, Bus]:
    """Supplies 6 and 7 on one port."""
    bus = Bus(supplies={"6": Supply(), "7": Supply()})
    return PtyUnit(answers=bus, takes=b"\r", ends="\r", baud_rate=9600), bus


MFC = """
format: 1
profile_key: alicat_mc
version: 1
manufacturer: Alicat
model: MC
instrument_class: flow_controller
source: made for tests, from the manual
never_ask_idn: true
identify: {ask: "{address}", expect: "^{address} "}
connection:
  read_termination: "\\r"
  write_termination: "\\r"
  timeout_ms: 600
  baud_rate: 19200
  acknowledge: "^{address} "
  shared: true
  heartbeat: false
abort:
  - {send: "{address}S0", ask: "{address}", expect: '^{address} (?:\\S+ ){4}\\+?0+\\.0+ '}
commands:
  set_flow:
    scpi: "{address}S{flow:.2f}"
    parameters: {flow: {type: float, min: 0, max: 10, unit: sccm}}
  read:
    scpi: "{address}"
    is_query: true
    returns:
      separator: " "
      fields:
        - {name: unit, index: 0, type: string}
        - {name: pressure, index: 1, type: float}
        - {name: setpoint, index: 5, type: float, unit: sccm}
"""


@dataclass
class Flows(Mapping[str, str]):
    """Mass flow controllers: each line begins with the letter of the unit that it is for."""

    setpoints: dict[str, str]

    def __getitem__(self, line: str) -> str:
        letter = line[:1]
        if letter not in self.setpoints:
            raise KeyError(line)
        if line[1:2] == "S":
            self.setpoints[letter] = line[2:].strip()
        return f"{letter} +014.70 +025.00 +000.00 +000.00 {self.setpoints[letter]} Air"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
