"""A simulated instrument as the command path sees an instrument: no wire, no thread, no time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import Ask, AskBlock, ExpectMore, Listen, Pause, Send
from edged.profiles.model import Profile
from tests.bench.fake_instruments import FakeInstrument
from tests.bench.simulated import Asked, PretendedBench

LEAST_V = 0.004
"""Of an SR830's sine output, which has no off."""


class SimulatedUnit(FakeInstrument):
    """Everything that is said to it reaches the simulation, but for the lines that it ignores."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(id=f"S::{profile.key}", profile=profile, alias=profile.key)
        self.bench = PretendedBench()
        self.asked: Asked = self.bench.add(profile.sim or profile.key)
        self.address = self.id
        self.ignores: Collection[str] = ()
        # What acknowledged lines that went out without waiting for that.
        self.unread: deque[str] = deque()
        for line in profile.connection.on_connect:
            self.asked.raw(line)

    def what_is_on(self) -> set[str]:
        """The outputs that give something, by the simulation's own state."""
        return set(_what_is_on(self.asked.instrument.state.describe(self.bench.now)))

    def _answer(self, step: Any) -> Any:
        match step:
            case Send(text=text):
                self.bench.wait(self.connection.min_gap_ms / 1000)
                self.sent.append(text)
                if text not in self.ignores:
                    answer = self.asked.raw(text)
                    if answer is not None:
                        self.unread.append(answer.decode("latin-1").rstrip())
                return None
            case Listen():
                return self.unread.popleft() if self.unread else None
            case Ask(text=text) | AskBlock(text=text):
                self.bench.wait(self.connection.min_gap_ms / 1000)
                self.sent.append(text)
                answer = self.asked.raw(text)
                if answer is None:
                    raise Failed(f"{text} was not answered.", code=ErrorCode.TIMEOUT)
                return answer if isinstance(step, AskBlock) else answer.decode("latin-1").rstrip()
            case ExpectMore():
                return None
            case Pause(seconds=seconds):
                self.bench.wait(seconds)
                return None
        raise AssertionError(step)


def _what_is_on(state: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in state.items():
        place = f"{path}{name}"
        if isinstance(value, Mapping):
            yield from _what_is_on(value, f"{place}.")
        elif (
            (name in {"is_on", "is_master_on", "has_bias", "has_timer"} and value)
            or (name == "heater" and value)
            or (path == "aux." and value)
            or (place == "volts" and "aux" in state and value > LEAST_V)
        ):
            yield place
