"""The map by bluesky: ``grid_scan`` with devices of its own on PyVISA, through ``@edged``.

``python bluesky_map.py URL`` prints the points as JSON: [gate V, drain V, drain A].
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pyvisa
from bluesky import RunEngine
from bluesky.plans import grid_scan
from map_grid import DRAIN, DRAIN_LIMIT_A, GATE, GATE_LIMIT_A, SETTLES_S


class Done:
    """The status of a movement that has ended."""

    done = success = True

    def add_callback(self, callback: Callable[[Any], None]) -> None:
        callback(self)

    def exception(self, timeout: float | None = None) -> None:
        return None


class Part:
    """What bluesky reads of a device: one number."""

    parent = None

    def __init__(self, name: str, smu: Any) -> None:
        self.name = name
        self.smu = smu

    def describe(self) -> dict[str, Any]:
        return {self.name: {"source": self.smu.resource_name, "dtype": "number", "shape": []}}

    def describe_configuration(self) -> dict[str, Any]:
        return {}

    def read_configuration(self) -> dict[str, Any]:
        return {}

    def told(self, value: float) -> dict[str, Any]:
        return {self.name: {"value": value, "timestamp": time.time()}}  # noqa: TID251 - no clock of edged here


class Level(Part):
    """A source meter's voltage."""

    position = 0.0

    def set(self, volts: float) -> Done:
        self.smu.write(f":SOUR:VOLT:LEV {volts:.6f}")
        self.position = volts
        time.sleep(SETTLES_S)  # noqa: TID251 - as its user would
        return Done()

    def read(self) -> dict[str, Any]:
        return self.told(self.position)


class Current(Part):
    """Its reading."""

    def trigger(self) -> Done:
        return Done()

    def read(self) -> dict[str, Any]:
        return self.told(float(self.smu.query(":READ?")))


def source_meter(manager: Any, name: str, limit_a: float) -> Any:
    smu = manager.open_resource(name, read_termination="\n", write_termination="\n")
    smu.write(":SOUR:FUNC VOLT")
    smu.write(f":SENS:CURR:PROT {limit_a}")
    smu.write(":SOUR:VOLT:LEV 0")
    smu.write(':SENS:FUNC "CURR"')
    smu.write(":FORM:ELEM CURR")
    smu.write(":OUTP ON")
    return smu


def main() -> int:
    manager = pyvisa.ResourceManager(f"{sys.argv[1]}@edged")
    gate = source_meter(manager, "smu1", GATE_LIMIT_A)
    drain = source_meter(manager, "smu2", DRAIN_LIMIT_A)
    points: list[tuple[float, ...]] = []

    def keep(name: str, document: dict[str, Any]) -> None:
        if name == "event":
            data = document["data"]
            points.append((data["v_g"], data["v_d"], data["i_d"]))

    plan = grid_scan(
        [Current("i_d", drain)],
        Level("v_g", gate),
        *GATE,
        Level("v_d", drain),
        *DRAIN,
        snake_axes=False,
    )
    RunEngine()(plan, keep)
    for smu in (drain, gate):
        smu.write(":SOUR:VOLT:LEV 0")
        smu.write(":OUTP OFF")
    print(json.dumps(points))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
