"""Instruments without lines: they record the conversations that they are asked to hold.

``FakeInstrument.converse`` drives the conversation itself, at once, and answers every question from
``answers``, so that what would be sent can be read from ``sent``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edged.actions.caller import Caller
from edged.actions.cause import Cause
from edged.errors import Conflict, ErrorCode, NotFound
from edged.instruments.conversation import Apart, Ask, AskBlock, ExpectMore, Pause, Send
from edged.instruments.dead_man import Timer
from edged.instruments.mailbox import Priority, Waiter
from edged.profiles.loading import parse_profile
from edged.profiles.match import Identity
from edged.profiles.model import Connection, Profile
from edged.profiles.unit_rules import UnitRules
from edged.transports.address import Transport

PROFILE = """
format: 1
profile_key: toy_supply
version: 1
manufacturer: Toy
model: S1
instrument_class: power_supply
source: made for tests
match: {idn: 'toy,s1\\b', examples: ["TOY,S1,0001,1.0"]}
connection: {errors: {query: "SYST:ERR?", kind: queue}}
abort: [":OUTP OFF"]
commands:
  set_voltage:
    description: Set the voltage.
    scpi: ":VOLT {voltage:.3f}"
    essential: true
    parameters:
      channel: {type: int, min: 1, max: 2, default: 1}
      voltage: {type: float, min: 0, max: 30, unit: V, by: {channel: {2: {max: 5}}}}
    checks: ["voltage * channel <= 40"]
    verify: {query: ":VOLT?", parameter: voltage, tolerance: 0.01}
  ramp_voltage:
    scpi: ":HV {voltage:.1f}"
    requires_sweep: true
    parameters: {voltage: {type: float, min: 0, max: 1000, unit: V}}
    sweep: {parameter: voltage, setpoint: ":HV?", abort: [":HV 0"]}
  measure: {scpi: ":MEAS?", is_query: true, returns: {type: float, unit: V}}
  arm_and_read: {scpi: ":MEAS:ON?", is_query: true, is_dangerous: true, returns: {type: float}}
  output_on: {scpi: ":OUTP ON", is_dangerous: true}
  output_off: {scpi: ":OUTP OFF", is_safe: true}
sequences:
  point:
    parameters: {voltage: {type: float, min: 0, max: 30, unit: V}}
    steps:
      - {command: set_voltage, parameters: {voltage: "{voltage}"}}
      - {command: output_on}
      - {command: measure, as: v}
    finally: [{command: output_off}]
    result: {voltage: "{v}"}
"""


@functools.lru_cache(maxsize=64)
def toy_profile(text: str = PROFILE) -> Profile:
    """Profiles never change: those who ask with one text share one."""
    return parse_profile(text, str(Path("toy.yaml")))


@dataclass(slots=True)
class FakeTalk:
    """What ``submit`` gives: remembers what it is told."""

    told: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def withdraw(self) -> None:
        self.told.append("withdrawn")
        if self.task is not None:
            self.task.cancel()


@dataclass(slots=True)
class FakeInstrument:
    id: str
    profile: Profile | None
    rules: UnitRules = field(default_factory=UnitRules)
    timer: Timer | None = None
    alias: str = ""
    location: str = ""
    serial: str = "0001"
    transport: Transport = Transport.SOCKET
    is_connected: bool = True
    is_reachable: bool = True
    is_offered: bool = True
    answers: dict[str, str] = field(default_factory=dict)
    failing: Exception | None = None
    sent: list[str] = field(default_factory=list)
    priorities: list[Priority] = field(default_factory=list)
    submitted: list[tuple[FakeTalk, Callable[[], Coroutine[Any, Any, None]]]] = field(
        default_factory=list
    )
    meeting: object = 1
    safe_by: Profile | None = None
    block: bytes = b"#15hello"
    others: dict[str, object] = field(default_factory=dict)
    # What is submitted waits for ``answer_all``; otherwise it is answered at the loop's next turn.
    is_held: bool = False
    naming_warning: str = ""
    used_by: Caller | None = None
    address: str = ""

    # Who has written to it, the latest last.
    written_by: list[str] = field(default_factory=list)

    def note_use(self, caller: Caller, *, is_write: bool) -> None:
        self.used_by = caller
        if is_write:
            self.written_by.append(caller.who)

    def writers_since(self, _since_s: float) -> list[str]:
        return self.written_by

    def __post_init__(self) -> None:
        self.safe_by = self.profile

    @property
    def called(self) -> str:
        return self.alias or self.id

    @property
    def identity(self) -> Identity:
        return Identity(manufacturer="Toy", model="S1", serial=self.serial, firmware="1.0")

    @property
    def instrument_class(self) -> str:
        return self.profile.instrument_class if self.profile else ""

    @property
    def connection(self) -> Connection:
        return self.profile.connection if self.profile else Connection()

    def recent(self) -> list[dict[str, object]]:
        return []

    def summary(self) -> dict[str, Any]:
        return {"id": self.id, "alias": self.alias, "model": "S1", "is_connected": True}

    async def converse(
        self,
        make: Callable[[], Any],
        *,
        priority: Priority = Priority.COMMAND,
        timeout_s: float,
        name: str,
        cause: Cause | None = None,
        is_repeatable: bool = False,
    ) -> Any:
        assert timeout_s > 0
        assert priority is Priority.SAFE or not is_repeatable
        self.priorities.append(priority)
        if self.failing is not None:
            raise self.failing
        conversation, answer = make(), None
        try:
            while True:
                answer = self._answer(conversation.send(answer))
        except StopIteration as end:
            return end.value

    def submit(
        self,
        make: Callable[[], Any],
        waiter: Waiter,
        *,
        priority: Priority,
        timeout_s: float,
        name: str,
        own_s: float | None = None,
    ) -> FakeTalk:
        """The same without a task."""
        if isinstance(self.failing, Conflict):
            raise self.failing
        talk = FakeTalk()

        async def answer() -> None:
            if waiter.done():
                return
            try:
                found = await self.converse(make, priority=priority, timeout_s=timeout_s, name=name)
            except Exception as error:  # noqa: BLE001 - as the line tells whatever went wrong
                if not waiter.done():
                    waiter.set_exception(error)  # type: ignore[arg-type]
            else:
                if not waiter.done():
                    waiter.set_result(found)

        if self.is_held:
            self.submitted.append((talk, answer))
        else:
            talk.task = asyncio.get_running_loop().create_task(answer())
        return talk

    def answer_all(self) -> None:
        """Everything submitted so far is asked, and told."""
        submitted, self.submitted = self.submitted, []
        for _, answer in submitted:
            with contextlib.suppress(StopIteration):
                answer().send(None)

    def _answer(self, step: Any) -> Any:
        match step:
            case Send(text=text):
                self.sent.append(text)
                return None
            case Ask(text=text):
                self.sent.append(text)
                if text == "SYST:ERR?":
                    return self.answers.pop(text, '0,"No error"')
                return self.answers.get(text, "0")
            case AskBlock(text=text):
                self.sent.append(text)
                return self.block
            case Apart(work=work):
                return work()
            case Pause() | ExpectMore():
                return None
        raise AssertionError(step)


class FakePool:
    def __init__(self, *instruments: FakeInstrument) -> None:
        self.instruments = list(instruments)
        self.listeners: list[Callable[[Any], None]] = []

    def all(self) -> tuple[FakeInstrument, ...]:
        return tuple(self.instruments)

    def get(self, name: str) -> FakeInstrument:
        for instrument in self.instruments:
            if name in (instrument.id, instrument.alias):
                return instrument
        raise NotFound(f"There is no instrument {name!r}.", code=ErrorCode.UNKNOWN_INSTRUMENT)

    def subscribe(self, callback: Callable[[Any], None]) -> Callable[[], None]:
        self.listeners.append(callback)
        return lambda: self.listeners.remove(callback)

    def change(self, *instruments: FakeInstrument) -> None:
        self.instruments = list(instruments)
        for listener in tuple(self.listeners):
            listener(None)
