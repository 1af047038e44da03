"""Where the events of each topic come from: the rooms that have something to tell.

Measured values (``ValueFeed``): whoever measures is told, and nobody asks an instrument for it.
What comes within a quarter of a second is told at once.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.actions.action import Action, RunCommand
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.clock import Clock
from edged.commands.target import Target
from edged.instruments.pool import Arrived, Changed, Event, InstrumentPool, Left
from edged.instruments.unit_state import StateOf
from edged.profiles.model import FieldsAnswer, ImageAnswer, Returns, WaveformAnswer
from edged.record import record
from edged.runs.streams.registry import StreamNews, Streams
from edged.runs.sweeps.registry import SweepChanged, Sweeps
from edged.store.audit.book import Audit
from edged.store.audit.row import AuditRow
from edged.store.lockouts import Lockouts
from edged.surfaces.events.hub import Publish, Source

EVENT_NAMES = {Arrived: "arrived", Left: "left", Changed: "changed"}
EVERY_S: Final = 0.25
MOST_KEPT: Final = 1_000
"""Last values; those of what was not measured for longest are forgotten."""
MOST_GATHERED: Final = 1_000
MOST_FIELDS: Final = 16
"""Of one answer."""
MOST_TEXT: Final = 200
MOST_KEY: Final = 1_000
SCALARS: Final = (float, int, str, type(None))
Values = tuple[tuple[str, Any, str], ...]
SIZES: Final[Mapping[type, tuple[str, str]]] = MappingProxyType(
    {WaveformAnswer: ("y_length", "samples"), ImageAnswer: ("length", "bytes")}
)
"""Of a trace and of a picture: what of the result says how large it is, and in what."""


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


def stream_feed(streams: Streams) -> Source:
    """``started``, ``point``, ``ended`` with the stream's id."""

    def follow(publish: Publish) -> Callable[[], None]:
        def hear(news: StreamNews) -> None:
            publish(news.what, {"stream_id": news.stream_id, **news.data})

        return streams.subscribe(hear)

    return follow


def sweep_feed(sweeps: Sweeps) -> Source:
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


@record(frozen=False, kw_only=False)
class Measured:
    """An answer as it came; what is told of it is made when somebody wants it."""

    instrument_id: str
    command: str
    parameters: Mapping[str, Any]
    time_ms: int
    values: Values
    """Column (empty: the whole is one value), value and unit of each."""

    def told(self) -> Iterator[dict[str, Any]]:
        """As the topic has it, value by value."""
        about: dict[str, Any] = {"instrument_id": self.instrument_id, "command": self.command}
        if self.parameters:
            about["parameters"] = {name: _shown(one) for name, one in self.parameters.items()}
        for column, value, unit in self.values:
            named = {"column": column} if column else {}
            time = {"time_ms": self.time_ms}
            yield {**about, **time, **named, "value": _shown(value), "unit": unit}


class ValueFeed:
    """Hears of every action that ended; ``Source`` of its topic.

    Costs every query something whether anybody looks or not, so it does no more than to keep what
    came.

    Args:
        clock: for when a value was measured.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest: OrderedDict[tuple[str, str, str], Measured] = OrderedDict()
        self._gathered: deque[Measured] = deque(maxlen=MOST_GATHERED)
        self._publish: Publish | None = None
        self._timer: asyncio.TimerHandle | None = None

    def hear(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        """An action ended; a measurement is noted, anything else passed over. Never raises."""
        if outcome.status is not OutcomeStatus.OK or not isinstance(action, RunCommand):
            return
        if target is None or target.command is None or not target.command.is_query:
            return
        instrument = target.instrument
        if instrument is None:
            return
        data = outcome.data.get("data")
        if isinstance(data, float | int):
            values: Values = (("", data, outcome.data.get("unit") or ""),)
        else:
            values = _values(outcome.data, target.command.returns)
        if not values:
            return
        # Its lines tell one set of parameters from another.
        lines, parameters = "\n".join(target.lines), action.parameters
        if len(lines) > MOST_KEY:
            parameters = {name: _short(one) for name, one in parameters.items()}
        key = instrument.id, target.command.name, lines[:MOST_KEY]
        at_ms = self._clock.wall_ns() // 1_000_000
        measured = Measured(key[0], key[1], parameters, at_ms, values)
        self._latest[key] = measured
        self._latest.move_to_end(key)
        if len(self._latest) > MOST_KEPT:
            self._latest.popitem(last=False)
        if self._publish is not None:
            self._gathered.append(measured)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._tell)

    def latest(self) -> list[dict[str, Any]]:
        """The last of each that is known, the newest last."""
        return _told(self._latest.values())[-MOST_KEPT:]

    def follow(self, publish: Publish) -> Callable[[], None]:
        self._publish = publish
        return self._end

    def _end(self) -> None:
        self._publish = None
        self._gathered.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        self._timer = None
        told, publish = _told(self._gathered), self._publish
        self._gathered.clear()
        if told and publish is not None:
            publish("values", told)


def _told(measured: Iterable[Measured]) -> list[dict[str, Any]]:
    return [told for one in measured for told in one.told()]


def _values(result: Mapping[str, Any], returns: Returns | None) -> Values:
    """Column, value and unit of each value in a command's result."""
    data = result.get("data")
    if isinstance(data, SCALARS):
        return (("", _short(data), result.get("unit") or ""),)
    if isinstance(data, list):
        return (("", len(data), "values"),)
    if not isinstance(data, Mapping):
        return ()
    if isinstance(returns, WaveformAnswer | ImageAnswer):
        # What is told of it are its bytes and their form; nobody reads these as measured.
        size, unit = SIZES[type(returns)]
        return (("", data.get(size), unit),)
    # The unit of the whole is that of its primary field alone.
    fields = returns.fields if isinstance(returns, FieldsAnswer) else ()
    units = {field.name: field.unit for field in fields}
    return tuple(
        (str(column), _short(value), units.get(column, ""))
        for column, value in itertools.islice(data.items(), MOST_FIELDS)
        if isinstance(value, SCALARS)
    )


def _short(value: Any) -> Any:
    return value[:MOST_TEXT] if isinstance(value, str) else value


def _shown(value: Any) -> Any:
    """As JSON can have it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, SCALARS) else str(value)[:MOST_TEXT]
