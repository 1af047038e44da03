"""What is wired to what: sources, loads and the nodes between them. Pure.

A ``Node`` joins at most one source, one resistor (behind leads, warming up as it works), any number
of electronic loads and a transistor; everything that measures reads the node. Time comes in as
monotonic seconds; a node remembers when it was last looked at and lets the time since then pass at
once.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Final, Protocol

from edged.errors import Invalid
from edged.record import record
from edged_sim.signals import SILENCE, Shape, Wave

AMBIENT_C: Final = 23.0
RISE_S: Final = 0.008
"""Time constant with which a supply's output reaches what it was set to."""
FALL_S: Final = 0.05
"""Time constant with which the capacitors empty into the load once the output is off."""
LONGEST_STEP_S: Final = 2.0
MOST_STEPS: Final = 40
"""Steps of warming for one look; a longer pause has reached its end anyway."""
RIPPLE_HZ: Final = 1000.0
RIPPLE_PP_V: Final = 0.02
"""The load takes its current in pulses, which a scope on the node can see."""
PRECISE_ENOUGH: Final = 48
"""Halvings of the interval in which the working point lies: below a nanovolt."""
LOWEST_POWER_V: Final = 1.0
"""An electronic load in constant power gives up its regulation below this."""
THRESHOLD_V: Final = 0.7
SLOPE: Final = 1.3
"""How much less than the gate the channel moves below the threshold: 77 mV for a decade."""
THERMAL_V: Final = 0.0255
"""kT/e at AMBIENT_C."""
TRANSCONDUCTANCE_A_PER_V2: Final = 0.025
EARLY_PER_V: Final = 0.02
"""How much the current still rises with the drain's voltage once the channel is pinched off."""
GATE_OHMS: Final = 1e10
LARGE: Final = 40.0
"""From here on log(1 + exp(x)) is x."""

MAIN_NODE: Final = "load1"
SIGNAL_NODE: Final = "signal"
LOAD_OHMS: Final[Mapping[str, float]] = MappingProxyType({"ch1": 10.0, "ch2": 47.0, "ch3": 22.0})
OTHER_LOAD_OHMS: Final = 1000.0
CALIBRATOR: Final = Wave(shape=Shape.SQUARE, hertz=1000.0, volts_pp=3.0, offset=1.5)
"""The probe compensation output of a scope."""


@record
class Resistor:
    """A load behind two leads; ``tempco_per_k`` is the relative change for each kelvin."""

    ohms: float
    lead_ohms: float = 0.05
    tempco_per_k: float = 400e-6
    kelvin_per_watt: float = 6.0
    warming_s: float = 30.0


@record(frozen=False)
class SupplyOutput:
    """The output of a supply: what it is set to, and what its protection did.

    ``over_voltage`` and ``over_current`` are the trip levels (None: protection off); a trip
    switches the source off and names itself in ``tripped``. ``off_at``: the moment at which a timer
    inside the supply switches it off (None: none counts).
    """

    volts: float = 0.0
    amps_limit: float = 0.0
    is_on: bool = False
    over_voltage: float | None = None
    over_current: float | None = None
    tripped: str = ""
    off_at: float | None = None


class SinkKind(enum.Enum):
    """What an electronic load keeps constant."""

    CURRENT = "current"
    VOLTAGE = "voltage"
    RESISTANCE = "resistance"
    POWER = "power"


@record(frozen=False)
class Sink:
    """An electronic load: ``value`` in amperes, volts, ohms or watts, by kind."""

    kind: SinkKind = SinkKind.CURRENT
    value: float = 0.0
    is_on: bool = False

    def amps(self, volts: float) -> float:
        """What it takes at ``volts`` (0 or more) across it."""
        if not self.is_on or volts <= 0:
            return 0.0
        match self.kind:
            case SinkKind.CURRENT:
                return self.value * min(1.0, volts / 0.1)
            case SinkKind.VOLTAGE:
                return max(0.0, volts - self.value) / 0.05
            case SinkKind.RESISTANCE:
                return volts / max(self.value, 1e-3)
            case SinkKind.POWER:
                return self.value / max(volts, LOWEST_POWER_V) * min(1.0, volts)


class Drawing(Protocol):
    """What takes current from a node, beside its resistor."""

    def amps(self, volts: float) -> float:
        """What it takes at ``volts`` (0 or more) across it; more at more volts."""
        ...


@record
class Transistor:
    """A field-effect transistor (n channel, enhancement), source grounded, on the drain's node.

    It conducts in both directions as in the one. Source: the interpolation of Enz, Krummenacher and
    Vittoz, "An analytical MOS transistor model", Analog Integrated Circuits and Signal Processing 8
    (1995): one formula from below the threshold to saturation.
    """

    gate: Node

    def amps(self, volts: float) -> float:
        """What flows through the channel at the drain's ``volts``."""
        over = (self.gate.volts - THRESHOLD_V) / SLOPE
        scale = 2 * SLOPE * TRANSCONDUCTANCE_A_PER_V2 * THERMAL_V**2
        inverted = _inversion(over) - _inversion(over - volts)
        return scale * inverted * (1 + EARLY_PER_V * volts)


def _inversion(volts: float) -> float:
    """How much the channel conducts at one of its ends, which lies ``volts`` over pinch-off."""
    half = volts / (2 * THERMAL_V)
    return (half if half > LARGE else math.log1p(math.exp(half))) ** 2


@record(frozen=False, kw_only=False)
class Node:
    """A pair of wires and everything on it. Volts are those across the load.

    Attributes:
        after: the node whose volts determine what flows here.
    """

    name: str
    load: Resistor | None = None
    source: SupplyOutput | None = None
    wave: Wave = SILENCE
    volts: float = 0.0
    celsius: float = AMBIENT_C
    is_limiting: bool = False
    sinks: dict[str, Drawing] = field(default_factory=dict)
    after: Node | None = None
    # Degrees Celsius around the load at a moment.
    ambient_c: Callable[[float], float] = lambda _now: AMBIENT_C
    _seen: float | None = None

    @property
    def load_ohms(self) -> float:
        """The resistor as warm as it is now; infinite where nothing is connected."""
        if self.load is None:
            return math.inf
        return self.load.ohms * (1 + self.load.tempco_per_k * (self.celsius - AMBIENT_C))

    @property
    def amps(self) -> float:
        """What the source delivers now; negative with a negative voltage."""
        if self.source is None or not self.source.is_on:
            return 0.0
        return math.copysign(self._drawn(abs(self.volts)), self.volts)

    @property
    def terminal_volts(self) -> float:
        """Volts at the source's terminals, before the leads."""
        lead_ohms = 0.0 if self.load is None else self.load.lead_ohms
        return self.volts + self.amps * lead_ohms

    def advance(self, now: float) -> Node:
        """Let the time since the last look pass; returns the node itself."""
        if self.after is not None:
            self.after.advance(now)
        source = self.source
        if source is not None and source.off_at is not None and now >= source.off_at:
            # Whoever looks first at what hangs on the supply sees that its timer has run out.
            moment, source.off_at = source.off_at, None
            self.advance(moment)
            source.is_on = False
        passed = 0.0 if self._seen is None else max(0.0, now - self._seen)
        self._seen = now
        steps = min(MOST_STEPS, max(1, math.ceil(passed / LONGEST_STEP_S)))
        ambient_c = self.ambient_c(now)
        for _ in range(steps):
            self._step(passed / steps, ambient_c)
        return self

    def seen_by_scope(self) -> Wave:
        """What a scope on this node shows: the level with the load's ripple on it."""
        if self.wave is not SILENCE:
            return self.wave
        swing = RIPPLE_PP_V * min(1.0, abs(self.volts)) if self.load is not None else 0.0
        return Wave(shape=Shape.SINE, hertz=RIPPLE_HZ, volts_pp=swing, offset=self.volts)

    def _step(self, seconds: float, ambient_c: float) -> None:
        source = self.source
        target, self.is_limiting = self._working_point(source)
        settle_s = RISE_S if source is not None and source.is_on else FALL_S
        self.volts = target + (self.volts - target) * math.exp(-seconds / settle_s)
        if self.load is not None:
            watts = self.volts**2 / self.load_ohms
            warm = ambient_c + watts * self.load.kelvin_per_watt
            self.celsius = warm + (self.celsius - warm) * math.exp(-seconds / self.load.warming_s)
        if source is not None and source.is_on:
            self._protect(source)

    def _protect(self, source: SupplyOutput) -> None:
        if source.over_voltage is not None and abs(self.terminal_volts) > source.over_voltage:
            source.tripped = "over_voltage"
        elif source.over_current is not None and abs(self.amps) > source.over_current:
            source.tripped = "over_current"
        else:
            return
        # The moment of the trip lies somewhere in the step, so the capacitors are empty by now.
        source.is_on, self.volts = False, 0.0

    def _working_point(self, source: SupplyOutput | None) -> tuple[float, bool]:
        """Volts across the load once settled, and whether the current limit made them."""
        if source is None or not source.is_on:
            return 0.0, False
        wanted = abs(source.volts)
        lead_ohms = 0.0 if self.load is None else self.load.lead_ohms
        low, high, is_limiting = 0.0, wanted, False
        amps = self._drawn(wanted)
        if amps <= source.amps_limit and wanted + amps * lead_ohms <= wanted:
            return source.volts, False
        ohms, sinks, amps_limit = self.load_ohms, tuple(self.sinks.values()), source.amps_limit
        for _ in range(PRECISE_ENOUGH):
            middle = (low + high) / 2
            amps = middle / ohms
            for sink in sinks:
                amps += sink.amps(middle)
            if amps <= amps_limit and middle + amps * lead_ohms <= wanted:
                low = middle
            else:
                high = middle
        drop = self._drawn(high) * lead_ohms
        is_limiting = high + drop < wanted * (1 - 1e-6) - 1e-9
        return math.copysign(low, source.volts), is_limiting

    def _drawn(self, volts: float) -> float:
        total = volts / self.load_ohms
        for sink in self.sinks.values():
            total += sink.amps(volts)
        return total


class World:
    """All nodes of a bench, and the wiring: who asks for a port gets the node it is wired to.

    The first source drives ``load1``, which every meter, scope channel 1 and electronic load is
    wired to. Where there is a cold stage, the resistor of ``load1`` is the sample on the first. The
    first generator drives ``signal``, on which scope channel 2 is (while there is no
    generator, on the scope's own calibrator). Every other port has a node of its own.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {
            MAIN_NODE: Node(MAIN_NODE, load=Resistor(ohms=LOAD_OHMS["ch1"]))
        }
        self._drivers: dict[str, str] = {}
        self._stage_of = ""

    def connect_stage(self, owner: str, celsius: Callable[[float], float]) -> None:
        """Put the resistor of the main node on a stage, if it is on none.

        Args:
            celsius: gives the stage's temperature at a moment.
        """
        if not self._stage_of:
            self._stage_of, self.main().ambient_c = owner, celsius

    def connect_source(self, owner: str, port: str) -> tuple[Node, SupplyOutput]:
        """Wire a supply's output; its node gets a load unless it is the main one."""
        name = MAIN_NODE if MAIN_NODE not in self._drivers else f"{owner}.{port}"
        node = self._nodes.get(name)
        if node is None:
            node = Node(name, load=Resistor(ohms=LOAD_OHMS.get(port, OTHER_LOAD_OHMS)))
            self._nodes[name] = node
        node.source = SupplyOutput()
        self._drivers[name] = owner
        return node, node.source

    def connect_sink(self, owner: str) -> tuple[Node, Sink]:
        """Wire an electronic load beside the resistor of the main node."""
        node = self._nodes[MAIN_NODE]
        sink = node.sinks[owner] = Sink()
        return node, sink

    def connect_transistor(self, gate: str, drain: str) -> None:
        """Put a transistor on the outputs of two sources, in place of what they drove.

        Args:
            gate, drain: their owners; of several outputs the first is taken.

        Raises:
            Invalid: one has no output, or both are the same.
        """
        ends = [self._driven(owner) for owner in (gate, drain)]
        if ends[0] is ends[1]:
            raise Invalid(f"The gate and the drain of a transistor cannot both be on {gate}.")
        ends[0].load = Resistor(ohms=GATE_OHMS, lead_ohms=0.0)
        ends[1].load, ends[1].after = None, ends[0]
        ends[1].sinks["transistor"] = Transistor(gate=ends[0])

    def _driven(self, owner: str) -> Node:
        """The first node that an instrument drives as a source."""
        for name, driver in self._drivers.items():
            if driver == owner and self._nodes[name].source is not None:
                return self._nodes[name]
        raise Invalid(f"{owner} has no output that could drive a transistor.")

    def connect_generator(self, owner: str, port: str) -> Node:
        """Wire a generator's output; whoever owns the node sets its ``wave``."""
        name = SIGNAL_NODE if SIGNAL_NODE not in self._drivers else f"{owner}.{port}"
        self._drivers[name] = owner
        return self._nodes.setdefault(name, Node(name))

    def main(self) -> Node:
        """The node that meters and scope channel 1 look at."""
        return self._nodes[MAIN_NODE]

    def signal(self) -> Node | None:
        """The node of the first generator, if there is one."""
        return self._nodes.get(SIGNAL_NODE)

    def disconnect(self, owner: str) -> None:
        """Take an instrument's wires off; what only it used disappears."""
        self.main().sinks.pop(owner, None)
        if owner == self._stage_of:
            self._stage_of, self.main().ambient_c = "", lambda _now: AMBIENT_C
        for name in [name for name, driver in self._drivers.items() if driver == owner]:
            del self._drivers[name]
            # A transistor may still look at it.
            self._nodes[name].source = None
            if name != MAIN_NODE:
                del self._nodes[name]

    def describe(self, now: float) -> dict[str, dict[str, float | bool | None]]:
        """Every node as it is now, JSON-ready, for tests and people."""
        return {name: _describe(node.advance(now)) for name, node in self._nodes.items()}

    def change_load(self, ohms: float) -> None:
        """Put another resistor on the main node."""
        node = self.main()
        node.load = replace(node.load or Resistor(ohms=ohms), ohms=ohms)


def _describe(node: Node) -> dict[str, float | bool | None]:
    return {
        "volts": node.volts,
        "amps": node.amps,
        "celsius": node.celsius,
        "load_ohms": node.load_ohms if math.isfinite(node.load_ohms) else None,
        "is_on": node.source is not None and node.source.is_on,
        "is_limiting": node.is_limiting,
    }
