"""Power supplies: channels that hold a voltage within a current limit. Pure.

A model's channel is a ``SupplyChannel`` with what its front panel shows besides, its unit a
``Supply`` of them. Nothing is done to a wire before the time until now has passed on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from edged_sim.physics import Node, SupplyOutput
from edged_sim.scpi import SimCall, SimUnit


@dataclass(slots=True, kw_only=True)
class SupplyChannel(ABC):
    """One output: its wires, and how well its meter reads them."""

    gain_error: ClassVar[float]
    noise_v: ClassVar[float]
    noise_a: ClassVar[float]

    node: Node
    source: SupplyOutput
    gain: float
    over_volts: float = 0.0

    @classmethod
    def wires(cls, unit: SimUnit, number: int) -> dict[str, Any]:
        """What channel ``number`` of a unit is made of, as fields of this class."""
        node, source = unit.world.connect_source(unit.name, f"ch{number}")
        gain = 1 + unit.random.uniform(-cls.gain_error, cls.gain_error)
        return {"node": node, "source": source, "gain": gain}

    def set_volts(self, volts: float, now: float) -> None:
        """The voltage to hold."""
        self.node.advance(now)
        self.source.volts = volts

    def set_amps(self, amps: float, now: float) -> None:
        """The current limit."""
        self.node.advance(now)
        self.source.amps_limit = amps

    def set_over_volts(self, volts: float) -> None:
        """The voltage that trips, at once where that protection is on."""
        self.over_volts = volts
        if self.source.over_voltage is not None:
            self.source.over_voltage = volts

    def protect_volts(self, *, is_on: bool) -> None:
        """Over-voltage protection on or off."""
        self.source.over_voltage = self.over_volts if is_on else None

    def reset_wires(self, amps_limit: float) -> None:
        """Output and protections off, 0 V, and this current limit."""
        self.source.is_on = False
        self.source.volts, self.source.amps_limit = 0.0, amps_limit
        self.source.over_voltage = self.source.over_current = None
        self.source.tripped = ""

    @abstractmethod
    def reset(self) -> None:
        """As delivered."""

    def measure(self, call: SimCall) -> tuple[float, float]:
        """Volts and amperes at the terminals."""
        node = self.node.advance(call.now)
        volts = node.terminal_volts * self.gain + call.random.gauss(0.0, self.noise_v)
        amps = node.amps * self.gain + call.random.gauss(0.0, self.noise_a)
        return volts, amps

    def display(self, call: SimCall) -> tuple[float, float, float]:
        """Volts, amperes and watts of a meter that shows nothing below zero."""
        volts, amps = (max(0.0, value) for value in self.measure(call))
        return volts, amps, volts * amps

    def regulation(self, now: float) -> int:
        """As condition registers tell it; bit 0: it limits the current, 1: it holds the voltage."""
        is_limiting = self.node.advance(now).is_limiting
        return (1 if is_limiting else 2) if self.source.is_on else 0

    def describe(self, now: float) -> dict[str, Any]:
        """Set-points and what the wires carry, for the control port."""
        return {
            "is_on": self.source.is_on,
            "volts_set": self.source.volts,
            "amps_limit": self.source.amps_limit,
            "volts": self.node.advance(now).terminal_volts,
            "amps": self.node.amps,
        }


C = TypeVar("C", bound=SupplyChannel)


class Supply(Generic[C]):
    """The state of a supply: its channels by their numbers, one of them selected."""

    def __init__(self, channels: Mapping[int, C]) -> None:
        self.channels = dict(channels)
        for channel in self.channels.values():
            channel.reset()
        self.selected = 1
        # Place → channel → volts and amperes; kept over a reset.
        self.memories: dict[int, dict[int, tuple[float, float]]] = {}

    def reset(self, now: float) -> None:
        for channel in self.channels.values():
            channel.node.advance(now)
            channel.reset()
        self.selected = 1

    @property
    def channel(self) -> C:
        """The selected one."""
        return self.channels[self.selected]

    def describe(self, now: float) -> Mapping[str, Any]:
        return {f"ch{number}": channel.describe(now) for number, channel in self.channels.items()}

    def save(self, place: int) -> None:
        """``*SAV``: the set-points of all channels."""
        self.memories[place] = {
            number: (channel.source.volts, channel.source.amps_limit)
            for number, channel in self.channels.items()
        }

    def recall(self, place: int, now: float) -> None:
        """``*RCL``: the set-points that were saved, at once; outputs stay as they are."""
        for number, (volts, amps) in self.memories.get(place, {}).items():
            self.channels[number].set_volts(volts, now)
            self.channels[number].set_amps(amps, now)


def memory_words(most: int) -> dict[str, Any]:
    """``*SAV`` and ``*RCL`` of a supply with so many memories, from 1 on."""
    return {
        "*SAV": lambda unit, call: unit.save(call.whole(0, lowest=1, highest=most)),
        "*RCL": lambda unit, call: unit.recall(call.whole(0, lowest=1, highest=most), call.now),
    }
