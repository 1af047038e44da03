"""Simulated twins of real units, beside an engine on one event loop: for rehearsals.

The wires are in memory and the clock is the engine's own, so that a bench in virtual time has
nothing outside of it. An engine finds this module by its entry point (``edged/plugins.py``).
"""

from __future__ import annotations

from typing import Final

from edged.clock import Clock
from edged_sim.bench import Bench, Order
from edged_sim.models import model_names
from edged_sim.wires.memory import MemoryWire
from edged_sim.wires.stream import ByteLog, Host

ENTRIES_KEPT: Final = 1_000
"""Of what went over all wires; a rehearsal of days must not fill the memory with it."""


class Twins(Bench):
    """A bench whose instruments are reached in memory; made on the loop.

    Args:
        clock: the engine's.
        seed: of noise and tolerances.
    """

    def __init__(self, *, clock: Clock, seed: int) -> None:
        super().__init__(clock=clock, log=ByteLog(clock, most_entries=ENTRIES_KEPT), seed=seed)
        # In the order in which their instruments came.
        self._wires: list[MemoryWire] = []

    async def add_twin(self, name: str, model: str, serial: str) -> MemoryWire | None:
        """Put a twin on the bench; gives the way to it, ``None`` where there is no such model.

        Args:
            name: its own, from which its noise is made.
            model: what its profile calls its simulation; empty: none.
            serial: the unit's own serial number; empty: the next of its model.
        """
        if model not in model_names():
            return None
        await self.add(Order(name=name, model=model, serial=serial))
        return self._wires[-1]

    def _wire(self, order: Order, host: Host) -> MemoryWire:  # noqa: ARG002 - the base's
        self._wires.append(MemoryWire(host, len(self._wires)))
        return self._wires[-1]


def open_twins(*, clock: Clock, seed: int) -> Twins:
    """A bench without instruments."""
    return Twins(clock=clock, seed=seed)
