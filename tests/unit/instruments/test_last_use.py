"""Who has used an instrument last, and for how long that is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from edged.actions.caller import Caller, Route
from edged.instruments.instrument import MOST_WRITERS, Found, Instrument
from edged.profiles.match import parse_idn
from edged.profiles.model import Connection
from edged.profiles.unit_rules import UnitRules
from edged.transports.address import parse_address
from tests.bench.driven_clock import START_WALL_MS, DrivenClock
from tests.promises import promise

IDN = "TOY,S1,0001,1.0"


def instrument_of(clock: DrivenClock) -> Instrument:
    actor: Any = SimpleNamespace(address=parse_address("TCPIP::h::1::SOCKET"))
    found = Found(
        idn=IDN,
        identity=parse_idn(IDN),
        profile=None,
        rules=UnitRules(),
        connection=Connection(),
    )
    made = Instrument(instrument_id="psu1", number=1, actor=actor, found=found, clock=clock)
    made.actor = None
    return made


@promise("callers.named")
async def test_a_user_is_forgotten_after_ten_minutes(driven_clock: DrivenClock) -> None:
    instrument = instrument_of(driven_clock)
    assert instrument.summary()["used_by"] is None
    caller = Caller(route=Route.DIRECT, client="notebook 7", remote="10.0.0.2")
    instrument.note_use(caller, is_write=False)
    told = instrument.summary()
    assert told["used_by"] == "notebook 7 at 10.0.0.2"
    assert told["used_by_ms"] == START_WALL_MS
    await driven_clock.advance(599)
    assert instrument.summary()["used_by"] == "notebook 7 at 10.0.0.2"
    await driven_clock.advance(1)
    told = instrument.summary()
    assert (told["used_by"], told["used_by_ms"]) == (None, None)


@promise("sweep.abort-completed")
async def test_who_has_written_since_a_moment_is_known_for_some_thirty_callers(
    driven_clock: DrivenClock,
) -> None:
    instrument = instrument_of(driven_clock)
    reader, anna, ben = (
        Caller(route=Route.DIRECT, client=name) for name in ("reader", "anna", "ben")
    )
    instrument.note_use(anna, is_write=True)
    instrument.note_use(ben, is_write=True)
    await driven_clock.advance(1)
    since_s = driven_clock.monotonic()
    await driven_clock.advance(1)
    instrument.note_use(reader, is_write=False)
    assert instrument.writers_since(since_s) == []
    instrument.note_use(anna, is_write=True)
    assert instrument.writers_since(since_s) == ["anna"]
    assert instrument.writers_since(0) == ["ben", "anna"]
    for number in range(100):
        instrument.note_use(Caller(route=Route.DIRECT, client=str(number)), is_write=True)
    assert len(instrument.writers_since(0)) == MOST_WRITERS
