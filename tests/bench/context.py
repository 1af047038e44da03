"""A bench of which nothing is there but what a test gives."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

from edged.clock import Clock
from edged.instruments.unit_state import UnitState
from edged.runs.bench import Bench


class NoPlan:
    """``StepPlan`` where nothing is counted."""

    def add(self, *_step: Any, **_more: Any) -> None:
        return


class NoNotes:
    """``RunLeases`` that nobody keeps."""

    def run_began(self, *_run: Any) -> None:
        return

    def run_ended(self, _run_id: str) -> None:
        return

    async def take(self, *_run: Any) -> str:
        return ""

    def pause(self, *_run: Any) -> None:
        return

    def end(self, _run_id: str) -> None:
        return


def bench_of(clock: Clock, *, store: dict[str, Any] | None = None, **given: Any) -> Bench:
    """A bench for one part; what of it is not given cannot be used.

    Args:
        store: what of the store there is, by its names.
        given: fields of ``Bench``, and in place of ``config`` single settings.
    """
    settings = {"abort_after_crash_sec": 120.0}
    usual: dict[str, Any] = {
        "pool": None,
        "new_id": map("n{}".format, itertools.count()).__next__,
        "perform": None,
        "precheck": None,
        "tell": lambda *_row: None,
        "state_of": lambda _instrument: UnitState.READY,
    }
    settings.update((name, given.pop(name)) for name in tuple(given) if name not in usual)
    config: Any = SimpleNamespace(**settings)
    books: Any = SimpleNamespace(**{"journal": None} | (store or {}))
    return Bench(config=config, clock=clock, store=books, **{**usual, **given})
