"""Simulated instruments without sockets: a test asks, and time passes only as it says."""

from __future__ import annotations

from random import Random
from typing import Any

from edged_sim.models import load_model
from edged_sim.physics import World
from edged_sim.plain import simulated
from edged_sim.scpi import SimulatedInstrument


class PretendedBench:
    """Instruments on one world, with one time that ``ask`` and ``wait`` move."""

    def __init__(self, seed: int = 0) -> None:
        self.world = World()
        self.now = 1000.0
        self.seed = seed

    def add(self, model: str, name: str = "") -> Asked:
        """A new instrument of that model."""
        spec = load_model(model)
        name = name or model
        return Asked(
            self,
            simulated(
                spec,
                name=name,
                serial=spec.serial.format(number=spec.first_number),
                world=self.world,
                random=Random(f"{self.seed}:{name}"),
            ),
        )

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Asked:
    """One instrument of the bench."""

    def __init__(self, bench: PretendedBench, instrument: SimulatedInstrument[Any]) -> None:
        self.bench = bench
        self.instrument = instrument
        self.took_s = 0.0  # of the last message

    def raw(self, message: str) -> bytes | None:
        """The answer to one message with its line end; None where there is none."""
        began = self.bench.now
        steps = self.instrument.execute(message.encode("latin-1"), self.bench.now)
        try:
            pause_s = next(steps)
            while True:
                self.bench.now += pause_s
                pause_s = steps.send(self.bench.now)
        except StopIteration as end:
            self.took_s = self.bench.now - began
            return end.value

    def ask(self, message: str) -> str:
        """The answer without its line end; fails where there is none."""
        answer = self.raw(message)
        assert answer is not None, f"no answer to {message!r}; {self.raw('SYST:ERR?')!r}"
        return answer.decode("latin-1").removesuffix("\n").removesuffix("\r")

    def number(self, message: str) -> float:
        """The answer as a number."""
        return float(self.ask(message))

    def tell(self, *messages: str) -> None:
        """Messages that have no answer and cause no error."""
        for message in messages:
            assert self.raw(message) is None, f"{message!r} was answered"
            assert self.instrument.status.count() == 0, (message, self.error())

    def error(self) -> int:
        """The number of the oldest error."""
        return int(self.ask("SYST:ERR?").split(",")[0])

    def block(self, message: str) -> bytes:
        """The content of a definite-length block."""
        answer = self.raw(message)
        assert answer is not None
        assert answer[:2] == b"#9"
        size = int(answer[2:11])
        assert answer[11 + size :] == b"\n"
        return answer[11 : 11 + size]


def told(unit: Asked, *messages: str, gap_s: float = 0.15) -> None:
    """Messages that cause no error, so slowly that even a hasty one loses none of them."""
    for message in messages:
        unit.tell(message)
        unit.bench.wait(gap_s)
