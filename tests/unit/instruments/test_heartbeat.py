"""Who is asked by the heartbeat, and when; what is said on a line is a flow's business."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from edged.discovery.heartbeat import SHORTEST_S, Heartbeat
from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import KnownQuestion
from edged.profiles.model import Connection
from edged.transports.address import Transport
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise

EVERY_S = 60.0
NAME = KnownQuestion(question="*IDN?", is_answer=bool)


@dataclass(kw_only=True)
class Unit:
    """As much of an instrument as a heartbeat looks at; answers at once, if it does."""

    clock: DrivenClock
    id: str = "dmm"
    address: str = "TCPIP::10.0.0.1::5025::SOCKET"
    transport: Transport = Transport.SOCKET
    connection: Connection = field(default_factory=Connection)
    profile: object = "a profile"
    is_connected: bool = True
    is_idle: bool = True
    is_closed: bool = False
    heard_at: float = 0.0
    probe: KnownQuestion = NAME
    asked: list[float] = field(default_factory=list)

    def submit(self, _make: object, waiter: Any, **how: Any) -> None:
        if self.is_closed:
            raise Failed("It is being closed.", code=ErrorCode.DISCONNECTED)
        assert not waiter.done()
        assert how["timeout_s"] > self.connection.timeout_ms / 1000
        self.asked.append(self.clock.monotonic())
        self.heard_at = self.clock.monotonic()
        waiter.set_result(None)


def heartbeat(clock: DrivenClock, *units: Unit, every_s: float = EVERY_S, used: str = "") -> Any:
    pool: Any = SimpleNamespace(all=lambda: units)
    return Heartbeat(pool, clock=clock, every_s=every_s, is_used=lambda one: one.id == used)


def test_a_line_on_which_nothing_was_heard_for_so_long_is_asked(driven_clock: DrivenClock) -> None:
    unit = Unit(clock=driven_clock, heard_at=driven_clock.monotonic())
    beats = heartbeat(driven_clock, unit)
    assert beats.beat() == EVERY_S
    driven_clock.move(EVERY_S - 1)
    assert (beats.beat(), unit.asked) == (1.0, [])
    driven_clock.move(1)
    assert beats.beat() == SHORTEST_S
    assert unit.asked == [driven_clock.monotonic()]
    assert beats.beat() == EVERY_S


@promise("health.heartbeat-unnoticed")
@pytest.mark.parametrize(
    "why_not",
    [
        {"profile": None},
        {"is_connected": False},
        {"is_idle": False},
        {"id": "swept"},
        {"connection": Connection(heartbeat=False)},
        {"transport": Transport.USBTMC},
        {"transport": Transport.GPIB},
        {"transport": Transport.PROLOGIX},
        {"transport": Transport.VXI11, "address": "TCPIP::10.0.0.1::gpib0,9::INSTR"},
    ],
    ids=str,
)
def test_a_unit_that_is_not_to_be_asked_is_not(
    driven_clock: DrivenClock, why_not: dict[str, Any]
) -> None:
    due = Unit(clock=driven_clock)
    unit = replace(due, asked=[], **why_not)
    heartbeat(driven_clock, unit, due, used="swept").beat()
    assert (unit.asked, len(due.asked)) == ([], 1)


@pytest.mark.parametrize(
    "transport", [Transport.SOCKET, Transport.VXI11, Transport.HISLIP, Transport.SERIAL]
)
def test_lan_and_serial_lines_are_asked(driven_clock: DrivenClock, transport: Transport) -> None:
    unit = Unit(clock=driven_clock, transport=transport)
    heartbeat(driven_clock, unit).beat()
    assert unit.asked


async def test_it_goes_on_by_itself_and_one_that_cannot_be_asked_costs_nobody(
    driven_clock: DrivenClock,
) -> None:
    closed, unit = Unit(clock=driven_clock, is_closed=True), Unit(clock=driven_clock)
    beats = heartbeat(driven_clock, closed, unit)
    beats.start()
    began = driven_clock.monotonic()
    await driven_clock.advance(3 * EVERY_S + 2)
    assert [round(at - began) for at in unit.asked] == [0, 60, 120, 180]
    await beats.stop()


async def test_zero_is_never(driven_clock: DrivenClock) -> None:
    unit = Unit(clock=driven_clock)
    beats = heartbeat(driven_clock, unit, every_s=0)
    beats.start()
    await driven_clock.advance(100_000)
    await beats.stop()
    assert unit.asked == []
