"""Oscilloscopes: probes on nodes, captured traces, what is measured in them, the screen. Pure.

Channel 1 is on the main load, channel 2 on the generator or the calibrator. Codes, scaling and
commands are each model's own affair.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from edged_sim.physics import CALIBRATOR, World
from edged_sim.scpi import SimCall, SimUnit
from edged_sim.signals import SILENCE, DrawnTrace, Wave, draw, sample

NOISE_OF_DIVISION: Final = 0.02
"""The scope's own noise, in divisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """One channel's trace: each of ``volts`` holds for ``held`` points, and all repeat."""

    volts: Sequence[float]
    held: int
    points: int
    interval_s: float
    start_s: float

    def spread(self, codes: bytes, first: int, count: int) -> bytes:
        """``count`` codes from point ``first`` (from 0) on; ``codes`` has one for each volt."""
        tile = bytearray(len(codes) * self.held)
        for place in range(self.held):
            tile[place :: self.held] = codes
        begin = first % len(tile)
        repeats = -(-(begin + count) // len(tile))
        return bytes(tile * repeats)[begin : begin + count]

    def measure(self, item: str) -> float | None:
        """See ``measure_trace``; where the values repeat, edges are counted over the seam."""
        repeats = 3 if len(self.volts) * self.held < self.points else 1
        return measure_trace(list(self.volts) * repeats, self.interval_s * self.held, item)


def seen_by(world: World, channel: int, now: float) -> Wave:
    """The signal at the probe of ``channel``: the main node, the generator's, or nothing."""
    if channel == 1:
        return world.main().advance(now).seen_by_scope()
    if channel == 2:
        node = world.signal()
        return CALIBRATOR if node is None else node.advance(now).seen_by_scope()
    return SILENCE


def capture(
    wave: Wave,
    *,
    points: int,
    interval_s: float,
    start_s: float,
    division_v: float,
    random: Random,
) -> Capture:
    """Sample ``wave`` with the scope's noise; at time 0 the wave is at its rising edge."""
    volts, held = sample(
        wave,
        points=points,
        interval_s=interval_s,
        start_s=start_s,
        noise_v=division_v * NOISE_OF_DIVISION,
        random=random,
    )
    return Capture(volts=volts, held=held, points=points, interval_s=interval_s, start_s=start_s)


def measure_trace(volts: Sequence[float], interval_s: float, item: str) -> float | None:
    """``max, min, pp, mean, rms, freq, period, duty`` of a trace; None where it has no such thing.

    A frequency needs two rising edges through the middle that are clearer than the noise.
    """
    highest, lowest = max(volts), min(volts)
    match item:
        case "max":
            return highest
        case "min":
            return lowest
        case "pp":
            return highest - lowest
        case "mean":
            return math.fsum(volts) / len(volts)
        case "rms":
            return math.sqrt(math.fsum(volt * volt for volt in volts) / len(volts))
    edges = _rising_edges(volts, highest, lowest)
    if len(edges) < 2:
        return None
    period_s = (edges[-1] - edges[0]) / (len(edges) - 1) * interval_s
    if item == "duty":
        middle = (highest + lowest) / 2
        whole = volts[edges[0] : edges[-1]]
        return 100 * sum(volt > middle for volt in whole) / len(whole)
    return 1 / period_s if item == "freq" else period_s


def _rising_edges(volts: Sequence[float], highest: float, lowest: float) -> list[int]:
    quarter = (highest - lowest) / 4
    low, high = lowest + quarter, highest - quarter
    edges: list[int] = []
    is_low = False
    for index, volt in enumerate(volts):
        if volt < low:
            is_low = True
        elif volt > high and is_low:
            is_low = False
            edges.append(index)
    return edges


class ScopeChannel(Protocol):
    """What every model's channel has; the rest is its own."""

    is_shown: bool
    division_v: float


C = TypeVar("C", bound=ScopeChannel)


class Scope(ABC, Generic[C]):
    """The state of one unit; ``divisions`` are those of its time axis."""

    divisions: ClassVar[int]
    channel_count: ClassVar[int] = 4

    channels: dict[int, C]
    time_division_s: float

    def __init__(self, unit: SimUnit) -> None:
        self.world = unit.world
        self.random = unit.random
        self.status = unit.status
        self.captures: dict[Hashable, Capture] = {}
        self.reset(0.0)

    @abstractmethod
    def reset(self, now: float) -> None:
        """See ``ModelState``."""

    @property
    @abstractmethod
    def is_live(self) -> bool:
        """Whether each look at a channel is a new capture."""

    @property
    def window_s(self) -> float:
        """Seconds on the screen."""
        return self.time_division_s * self.divisions

    def channel(self, call: SimCall) -> C:
        """The channel that the header names."""
        return self.channels[call.suffix(highest=self.channel_count)]

    def shown(self) -> dict[int, C]:
        """The channels on the screen."""
        return {number: channel for number, channel in self.channels.items() if channel.is_shown}

    def held(self, key: Hashable, make: Callable[[], Capture]) -> Capture:
        """What is in memory under ``key``: while running a new capture, stopped the same one."""
        if self.is_live:
            self.captures.clear()
        if key not in self.captures:
            self.captures[key] = make()
        return self.captures[key]

    def capture(self, number: int, now: float, *, points: int, middle_s: float = 0.0) -> Capture:
        """A channel's trace over the screen, whose middle is at ``middle_s``."""
        return capture(
            seen_by(self.world, number, now),
            points=points,
            interval_s=self.window_s / points,
            start_s=middle_s - self.window_s / 2,
            division_v=self.channels[number].division_v,
            random=self.random,
        )

    def screen(self, heights: Callable[[int, C], Sequence[float]]) -> list[bytearray]:
        """The picture of the shown channels, whose traces ``heights`` gives from 0 to 1."""
        traces = [DrawnTrace(n, heights(n, channel)) for n, channel in self.shown().items()]
        return draw(traces)


def set_shown(unit: Scope[Any], call: SimCall) -> None:
    """``:CHAN1:DISP ON``, in the maker's words."""
    unit.channel(call).is_shown = call.boolean(0)
