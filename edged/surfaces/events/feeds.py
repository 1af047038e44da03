"""Where the events of each topic come from: the rooms that have something to tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edged.instruments.pool import Arrived, Changed, Event, InstrumentPool, Left
from edged.instruments.unit_state import StateOf
from edged.runs.streams.registry import StreamNews, StreamRegistry
from edged.runs.sweeps.registry import SweepChanged, SweepRegistry
from edged.store.audit.book import Audit
from edged.store.audit.row import AuditRow
from edged.store.lockouts import Lockouts
from edged.surfaces.events.hub import Publish, Source

EVENT_NAMES = {Arrived: "arrived", Left: "left", Changed: "changed"}


def instrument_feed(pool: InstrumentPool, state_of: StateOf, lockouts: Lockouts) -> Source:
    """``arrived``, ``left``, ``changed`` with the instrument's summary; ``lockouts`` with all."""

    def follow(publish: Publish) -> Callable[[], None]:
        def hear(event: Event) -> None:
            told = {**event.instrument.summary(), "state": state_of(event.instrument).value}
            publish(EVENT_NAMES[type(event)], told)

        def hear_lockout() -> None:
            publish("lockouts", [lockout.to_json() for lockout in lockouts.all()])

        end_pool, end_lockouts = pool.subscribe(hear), lockouts.subscribe(hear_lockout)

        def end() -> None:
            end_pool()
            end_lockouts()

        return end

    return follow


def stream_feed(streams: StreamRegistry) -> Source:
    """``started``, ``point``, ``ended`` with the stream's id."""

    def follow(publish: Publish) -> Callable[[], None]:
        def hear(news: StreamNews) -> None:
            publish(news.what, {"stream_id": news.stream_id, **news.data})

        return streams.subscribe(hear)

    return follow


def sweep_feed(sweeps: SweepRegistry) -> Source:
    """``changed`` with the sweep's status, when it begins and at each change of state."""

    def follow(publish: Publish) -> Callable[[], None]:
        def hear(news: SweepChanged) -> None:
            publish("changed", dict(news.told))

        return sweeps.subscribe(hear)

    return follow


def audit_feed(audit: Audit) -> Source:
    """``row`` with each row as it comes to disk."""

    def follow(publish: Publish) -> Callable[[], None]:
        def hear(rows: tuple[AuditRow, ...]) -> None:
            for row in rows:
                shown: dict[str, Any] = row.to_json()
                publish("row", shown)

        return audit.subscribe(hear)

    return follow
