"""Simulated instruments that are no SCPI: the whole message is one order of their maker's own.

Nothing of ``scpi.py``'s common commands is known to them: whoever asks ``*IDN?`` is not answered,
or worse. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Generic

from edged_sim.physics import World
from edged_sim.scpi import (
    LONGEST_DELAY_S,
    Answer,
    Later,
    ModelSpec,
    ModelState,
    S,
    SimCall,
    SimulatedInstrument,
    Vocabulary,
)

Perform = Callable[[S, str, float], Answer]
"""The state, the message without its end, the monotonic time → the answer, if there is one."""
NO_WORDS: Final[Vocabulary[Callable[[Any, SimCall], Answer]]] = Vocabulary({})
ECHO: Final = "EDGED_ECHO"
DELAY: Final = "EDGED_DELAY"
"""Of no real instrument: a nonce against stale answers, and a question that takes its time."""


@dataclass(frozen=True, kw_only=True)
class PlainSpec(ModelSpec[S], Generic[S]):
    """One kind of such an instrument; ``perform`` does and answers what a message says.

    ``profile`` is what its owner would name in INSTRUMENTS, since it cannot say what it is.
    """

    profile: str
    perform: Perform[S]
    vocabulary: Vocabulary[Callable[[S, SimCall], Answer]] = NO_WORDS


class PlainInstrument(SimulatedInstrument[S]):
    """One unit of it."""

    def __init__(
        self, spec: PlainSpec[S], *, name: str, serial: str, world: World, random: Random
    ) -> None:
        super().__init__(spec, name=name, serial=serial, world=world, random=random)
        self._perform_message = spec.perform
        self._deaf_to_all_until = 0.0

    def execute(self, message: bytes, now: float) -> Generator[float, float, bytes | None]:
        """See ``SimulatedInstrument``; a message that comes too soon after a write is lost."""
        if now < self._deaf_to_all_until:
            return None
        text = message.decode("latin-1").strip()
        outcome = _of_no_real_instrument(text)
        if outcome is None:
            outcome = self._perform_message(self.state, text, now)
        if isinstance(outcome, Later):
            now = yield outcome.seconds
            outcome = outcome.finish(now)
        if outcome is None:
            self._deaf_to_all_until = now + self.dialect.deaf_s
            return None
        if self.latency_s:
            yield self.latency_s
        data = outcome if isinstance(outcome, bytes) else outcome.encode("latin-1")
        return data + self.dialect.line_end


def simulated(
    spec: ModelSpec[ModelState], *, name: str, serial: str, world: World, random: Random
) -> SimulatedInstrument[ModelState]:
    """One unit of that model."""
    if isinstance(spec, PlainSpec):
        return PlainInstrument(spec, name=name, serial=serial, world=world, random=random)
    return SimulatedInstrument(spec, name=name, serial=serial, world=world, random=random)


def _of_no_real_instrument(text: str) -> Answer:
    word, _, rest = text.partition(" ")
    if word == ECHO:
        return rest
    if word != DELAY:
        return None
    seconds, _, answer = rest.partition(" ")
    return Later(min(float(seconds), LONGEST_DELAY_S), lambda _now: answer)
