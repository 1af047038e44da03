"""Measured values, as they come: the topic ``value``, and the last of each that is known.

Whoever measures is told, and nobody asks an instrument for it. What comes within a quarter of a
second is told at once.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.actions.action import Action, RunCommand
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.clock import Clock
from edged.commands.target import Target
from edged.profiles.model import FieldsAnswer, ImageAnswer, WaveformAnswer
from edged.surfaces.events.hub import Publish

__all__ = ["ValueFeed"]

EVERY_S: Final = 0.25
MOST_KEPT: Final = 1_000
"""Last values; those of what was not measured for longest are forgotten."""
MOST_GATHERED: Final = 1_000
MOST_FIELDS: Final = 16
"""Of one answer."""
MOST_TEXT: Final = 200
SIZES: Final[Mapping[type, tuple[str, str]]] = MappingProxyType(
    {WaveformAnswer: ("y_length", "samples"), ImageAnswer: ("length", "bytes")}
)
"""Of a trace and of a picture: what of the result says how large it is, and in what."""


class ValueFeed:
    """Hears of every action that ended; ``Source`` of its topic.

    Args:
        clock: for when a value was measured.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest: OrderedDict[tuple[str, str, str, str], dict[str, Any]] = OrderedDict()
        self._gathered: deque[dict[str, Any]] = deque(maxlen=MOST_GATHERED)
        self._publish: Publish | None = None
        self._timer: asyncio.TimerHandle | None = None

    def hear(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        """An action ended; a measurement is noted, anything else passed over. Never raises."""
        if outcome.status is not OutcomeStatus.OK or not isinstance(action, RunCommand):
            return
        if target is None or target.command is None or not target.command.is_query:
            return
        for told in self._told(action, target, outcome):
            column, parameters = str(told.get("column", "")), repr(told.get("parameters"))
            key = told["instrument_id"], told["command"], column, parameters
            self._latest[key] = told
            self._latest.move_to_end(key)
            if len(self._latest) > MOST_KEPT:
                self._latest.popitem(last=False)
            if self._publish is not None:
                self._gathered.append(told)
        if self._gathered and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._tell)

    def latest(self) -> list[dict[str, Any]]:
        """The last of each that is known, the newest last."""
        return list(self._latest.values())

    def follow(self, publish: Publish) -> Callable[[], None]:
        """See ``Source``."""
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
        told, publish = list(self._gathered), self._publish
        self._gathered.clear()
        if told and publish is not None:
            publish("values", told)

    def _told(
        self, action: RunCommand, target: Target, outcome: Outcome
    ) -> Iterator[dict[str, Any]]:
        about = {
            "instrument_id": target.instrument_id,
            "command": target.command_name,
            "unit": str(outcome.data.get("unit") or ""),
            "time_ms": self._clock.wall_ms(),
        }
        if action.parameters:
            about["parameters"] = {
                str(name)[:MOST_TEXT]: _bounded(value)
                for name, value in list(action.parameters.items())[:MOST_FIELDS]
            }
        data, returns = outcome.data.get("data"), target.command and target.command.returns
        if not isinstance(data, Mapping):
            if _is_scalar(data):
                yield {**about, "value": _bounded(data)}
            return
        if isinstance(returns, WaveformAnswer | ImageAnswer):
            # What is told of it are its bytes and their form; nobody reads these as measured.
            size, unit = SIZES[type(returns)]
            yield {**about, "value": data.get(size), "unit": unit}
            return
        # The unit of the whole is that of its primary field alone.
        fields = returns.fields if isinstance(returns, FieldsAnswer) else ()
        units = {field.name: field.unit for field in fields}
        for column, value in list(data.items())[:MOST_FIELDS]:
            if _is_scalar(value):
                name = str(column)
                told = {"column": name, "value": _bounded(value), "unit": units.get(name, "")}
                yield {**about, **told}


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, int | float | str)


def _bounded(value: Any) -> Any:
    """As JSON can have it, and no longer than a page shows it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, int) else str(value)[:MOST_TEXT]
