"""Which timers inside instruments run, or may: they outlive the daemon, and so must this.

A unit is noted before the first byte that sets its timer going, and goes to disk with the order
that switches on, in one transaction; it is removed once the timer was told to stop. At a start the
rows are wanted before the store has opened: a timer does not wait for that.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from edged.record import record
from edged.store.database import Database, FewRows
from edged.store.file import open_database

COLUMNS: Final = ("instrument_id", "unit", "payload")
LOAD: Final = "SELECT instrument_id, unit, payload FROM dead_man"


@record
class ArmedUnit:
    """One unit whose timer runs, or may.

    Attributes:
        unit: key of the physical unit, to know it again.
        payload: JSON-ready: its address, how it is spoken to there, and what its timer wants.
    """

    instrument_id: str
    unit: str
    payload: Mapping[str, Any]


def read_armed(path: Path) -> tuple[ArmedUnit, ...]:
    """What a former life left armed, by the database at ``path``; changes nothing there."""
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(open_database(path, "mode=ro")) as connection,
    ):
        return _read(connection.execute(LOAD).fetchall())
    return ()


class ArmedUnits:
    """The units, in memory and on disk. All methods belong to the loop.

    Args:
        database: where they are kept.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database
        # By instrument id; replaced whole, so that the store thread may read it.
        self._units: Mapping[str, ArmedUnit] = {}
        self._table = FewRows(database, "dead_man", COLUMNS, take=self._take, rows=self._rows)

    def note(self, unit: ArmedUnit) -> None:
        """Its timer is about to run. Never raises, never waits."""
        if self._units.get(unit.instrument_id) != unit:
            self._replace({**self._units, unit.instrument_id: unit})

    def remove(self, instrument_id: str) -> None:
        """Its timer was told to stop."""
        if instrument_id in self._units:
            self._replace({key: u for key, u in self._units.items() if key != instrument_id})

    def all(self) -> tuple[ArmedUnit, ...]:
        """All of them."""
        return tuple(self._units.values())

    def find(self, instrument_id: str, unit: str) -> ArmedUnit | None:
        """By its id; else by its unit, which may answer at another address by now."""
        found = self._units.get(instrument_id)
        if found is not None and found.unit == unit:
            return found
        return next((one for one in self._units.values() if one.unit == unit), None)

    def _replace(self, units: Mapping[str, ArmedUnit]) -> None:
        self._units = units
        self._table.changed()
        # One that has switched off may say so once (Delta SM15K): nobody could be told again.
        self._database.nudge(is_soon=True)

    # What the store thread calls.

    def _take(self, rows: list[tuple[Any, ...]]) -> None:
        self._units = {**{one.instrument_id: one for one in _read(rows)}, **self._units}

    def _rows(self) -> list[tuple[Any, ...]]:
        return [
            (one.instrument_id, one.unit, json.dumps(dict(one.payload), separators=(",", ":")))
            for one in self._units.values()
        ]


def _read(rows: Iterable[tuple[Any, ...]]) -> tuple[ArmedUnit, ...]:
    """A payload that somebody has spoiled is empty, and says nothing of how to talk there."""
    found = []
    for instrument_id, unit, text in rows:
        try:
            payload = json.loads(text)
        except (TypeError, ValueError):
            payload = {}
        found.append(
            ArmedUnit(
                instrument_id=str(instrument_id),
                unit=str(unit),
                payload=payload if isinstance(payload, dict) else {},
            )
        )
    return tuple(found)
