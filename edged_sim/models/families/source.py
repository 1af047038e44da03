"""One output that holds a voltage or a current within a limit on the other. Pure.

The physics knows a supply with a current limit. Holding a current is the same supply the other way
round: its voltage is the limit, and it is in compliance when the current is *not* what limits it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final

from edged_sim.physics import Node, SupplyOutput
from edged_sim.scpi import SimCall, SimUnit

LINE_CYCLE_S: Final = 0.02


@dataclass(slots=True, kw_only=True)
class Output:
    """Wires, set-points and limits of one source; ``apply`` after each change.

    ``is_current`` says which of the two levels is held. ``gain`` is the error of its meter;
    ``noise`` its spread relative to full scale 1 V or 1 A.
    """

    node: Node
    source: SupplyOutput
    gain: float
    noise: float
    is_current: bool = False
    volts: float = 0.0
    amps: float = 0.0
    amps_limit: float = 0.0
    volts_limit: float = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the output is switched on."""
        return self.source.is_on

    @property
    def level(self) -> float:
        """What is held: volts or amperes."""
        return self.amps if self.is_current else self.volts

    def reset(self, now: float, *, amps_limit: float, volts_limit: float) -> None:
        """Off, and 0 V within these limits."""
        self.switch(is_on=False, now=now)
        self.is_current = False
        self.volts = self.amps = 0.0
        self.amps_limit, self.volts_limit = amps_limit, volts_limit
        self.apply(now)

    def apply(self, now: float) -> None:
        """Hand what is set to the wires."""
        self.node.advance(now)
        if self.is_current:
            self.source.volts = math.copysign(self.volts_limit, self.amps)
            self.source.amps_limit = abs(self.amps)
        else:
            self.source.volts = self.volts
            self.source.amps_limit = self.amps_limit

    def switch(self, *, is_on: bool, now: float) -> None:
        """Output on or off."""
        self.apply(now)
        self.source.is_on = is_on

    def is_in_compliance(self, now: float) -> bool:
        """Whether the limit is what determines the output."""
        if not self.source.is_on:
            return False
        return self.node.advance(now).is_limiting is not self.is_current

    def measure(self, now: float, random: Random) -> tuple[float, float]:
        """Volts and amperes at the terminals, with the meter's error."""
        (measured,) = self.measure_often(1, now, random)
        return measured

    def measure_often(
        self, count: int, now: float, random: Random
    ) -> Iterator[tuple[float, float]]:
        """As many measurements of one moment."""
        node = self.node.advance(now)
        volts, amps = node.terminal_volts * self.gain, node.amps * self.gain
        for _ in range(count):
            yield volts + random.gauss(0.0, self.noise), amps + random.gauss(0.0, self.noise * 1e-3)


class SourceUnit:
    """The state of a unit with one such output; the class of a model says how good it is."""

    gain_error: ClassVar[float]
    noise: ClassVar[float]
    amps_limit: ClassVar[float]
    volts_limit: ClassVar[float]

    def __init__(self, unit: SimUnit) -> None:
        node, source = unit.world.connect_source(unit.name, "out")
        gain = 1 + unit.random.uniform(-self.gain_error, self.gain_error)
        self.output = Output(node=node, source=source, gain=gain, noise=self.noise)
        self.reset(0.0)

    def reset(self, now: float) -> None:
        self.output.reset(now, amps_limit=self.amps_limit, volts_limit=self.volts_limit)

    def describe(self, now: float) -> Mapping[str, Any]:
        out = self.output
        return {
            "is_on": out.is_on,
            "function": self.function,
            "volts_set": out.volts,
            "amps_set": out.amps,
            "amps_limit": out.amps_limit,
            "volts_limit": out.volts_limit,
            "volts": out.node.advance(now).terminal_volts,
            "amps": out.node.amps,
        }

    @property
    def function(self) -> str:
        """VOLT or CURR: what is sourced."""
        return "CURR" if self.output.is_current else "VOLT"


def switch(unit: SourceUnit, call: SimCall) -> None:
    """``:OUTP ON``."""
    unit.output.switch(is_on=call.boolean(0), now=call.now)
