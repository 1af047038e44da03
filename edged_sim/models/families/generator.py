"""Function generators: outputs as their wires see them; what makers say of them is theirs. Pure.

A generator believes what it is told about the load and shows the volts that such a load would have;
here the output is open (a scope hangs on it), so the wire carries what its source makes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from edged_sim.physics import Node
from edged_sim.scpi import ScpiError, SimCall, SimUnit
from edged_sim.signals import SILENCE, Shape, Wave

SOURCE_OHMS: Final = 50.0
NO_LOAD: Final = 9.9e37
"""Ohms that are answered for an open output."""
HIGHEST_LOAD: Final = 10_000.0
RMS_PER_PP: Final[Mapping[str, float]] = {
    "SIN": 0.5 / math.sqrt(2),
    "RAMP": 0.5 / math.sqrt(3),
}
MOST_OPEN_V: Final = 10.0
"""Peak volts of the source, offset included."""


@dataclass(slots=True)
class GeneratorOutput:
    """Settings in volts at the believed load; ``load_ohms`` infinite: an open output."""

    node: Node
    function: str = "SIN"
    hertz: float = 1000.0
    volts_pp: float = 5.0
    offset: float = 0.0
    phase: float = 0.0
    duty_percent: float = 50.0
    symmetry_percent: float = 50.0
    load_ohms: float = math.inf
    is_on: bool = False

    @property
    def share(self) -> float:
        """Which part of the source's volts the believed load gets."""
        if math.isinf(self.load_ohms):
            return 1.0
        return self.load_ohms / (self.load_ohms + SOURCE_OHMS)

    @property
    def most_pp(self) -> float:
        """Volts peak to peak that can be had at the believed load."""
        return 2 * MOST_OPEN_V * self.share

    def set_load(self, ohms: float) -> None:
        """Believe another load: the source stays as it is, so what is shown changes."""
        before = self.share
        self.load_ohms = ohms
        self.volts_pp *= self.share / before
        self.offset *= self.share / before

    def set_level(self, volts_pp: float, offset: float, *, lowest_pp: float) -> None:
        """Amplitude and offset at the believed load; -222 where the source cannot."""
        most = self.most_pp * (1 + 1e-9)
        swing = 0.0 if self.function == "DC" else volts_pp / 2
        if not lowest_pp <= volts_pp <= most or swing + abs(offset) > most / 2:
            raise ScpiError(-222)
        self.volts_pp, self.offset = volts_pp, offset

    def describe(self) -> dict[str, Any]:
        """What every maker's output is set to, for the control port."""
        return {
            "hertz": self.hertz,
            "volts_pp": self.volts_pp,
            "offset": self.offset,
            "load_ohms": None if math.isinf(self.load_ohms) else self.load_ohms,
        }

    def apply(self) -> None:
        """Put onto the wire what is set."""
        self.node.wave = self._wave() if self.is_on else SILENCE

    def _wave(self) -> Wave:
        shape = {"SQU": Shape.SQUARE, "PULS": Shape.SQUARE, "RAMP": Shape.RAMP, "DC": Shape.DC}
        return Wave(
            shape=shape.get(self.function, Shape.SINE),
            hertz=self.hertz,
            volts_pp=0.0 if self.function == "DC" else self.volts_pp / self.share,
            offset=self.offset / self.share,
            duty=self.duty_percent / 100,
        )


class Generator:
    """The state of a generator with two outputs; the first is what a scope's channel 2 sees."""

    count: ClassVar[int] = 2
    volts_pp: ClassVar[float]
    """Amplitude as delivered."""

    def __init__(self, unit: SimUnit) -> None:
        numbers = range(1, self.count + 1)
        self.nodes = {n: unit.world.connect_generator(unit.name, f"ch{n}") for n in numbers}
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        self.outputs = {
            n: GeneratorOutput(node, volts_pp=self.volts_pp) for n, node in self.nodes.items()
        }
        for output in self.outputs.values():
            output.apply()

    def describe(self, now: float) -> Mapping[str, Any]:  # noqa: ARG002 - the seam's argument
        return {
            f"ch{n}": {"is_on": output.is_on, "function": output.function, **output.describe()}
            for n, output in self.outputs.items()
        }

    def number(self, call: SimCall) -> int:
        """The channel that the header names; 1 where it names none."""
        return call.suffix(highest=self.count)

    def output(self, call: SimCall) -> GeneratorOutput:
        """The output of that channel."""
        return self.outputs[self.number(call)]


def units(output: GeneratorOutput, unit: str) -> float:
    """What a volt peak to peak is in a unit of amplitude."""
    return 1.0 if unit == "VPP" else RMS_PER_PP.get(output.function, 0.5)


def shown_load(unit: Generator, call: SimCall) -> float:
    """Ohms that are answered for the load of an output."""
    ohms = unit.output(call).load_ohms
    return NO_LOAD if math.isinf(ohms) else ohms


def set_unit(unit: Any, call: SimCall) -> None:
    """``:SOUR1:VOLT:UNIT``: decibels only with a load."""
    chosen = call.choice(0, {"VPP": "VPP", "VRMS": "VRMS", "DBM": "DBM"})
    if chosen == "DBM" and math.isinf(unit.output(call).load_ohms):
        raise ScpiError(-221)
    unit.mode(call).unit = chosen


def set_state(unit: Generator, call: SimCall) -> None:
    """``:OUTP1 ON``."""
    output = unit.output(call)
    output.is_on = call.boolean(0)
    output.apply()
