"""An output that holds a voltage or a current within a limit on the other: SMUs, calibrators. Pure.

The physics knows a supply with a current limit. Holding a current is the same supply the other way
round: its voltage is the limit, and it is in compliance when the current is *not* what limits it.

One output of a function generator as its wires see it. Pure; what makers say of it is theirs.

A generator believes what it is told about the load and shows the volts that such a load would have;
here the output is open (a scope hangs on it), so the wire carries what its source makes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Final

from edged.sim.physics import Node, SupplyOutput
from edged.sim.scpi import ScpiError
from edged.sim.signals import SILENCE, Shape, Wave

__all__ = ["GeneratorOutput", "Output"]


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
        node = self.node.advance(now)
        volts = node.terminal_volts * self.gain + random.gauss(0.0, self.noise)
        amps = node.amps * self.gain + random.gauss(0.0, self.noise * 1e-3)
        return volts, amps


SOURCE_OHMS: Final = 50.0
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
