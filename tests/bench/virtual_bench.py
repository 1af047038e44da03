"""A bench in virtual time, in this process: a core of the engine on simulated twins, no ports.

As a rehearsal has it, but for a test's own work: hours take seconds, and equal work gives equal
bytes. What reached the units is in the bench's log, with its virtual time.
"""

from __future__ import annotations

import functools
import logging
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
import structlog

import edged_sim.twins
from edged.actions.action import NamedAction, StopAll
from edged.actions.caller import Caller, Route
from edged.config.load import Config, load_config
from edged.engine import rehearsal
from edged.engine.core import Core
from edged.engine.rehearsal import TwinCore, perform
from edged.engine.rehearsals import RealUnit, request_of
from edged.host import places_here
from edged.runs.experiments.registry import Experiments
from edged.runs.experiments.run import ExperimentRun
from edged.runs.run import Run
from edged_sim.twins import Twins
from tests.bench.driven_clock import DrivenClock
from tests.bench.shipped import shipped_library

T = TypeVar("T")
LOG_ENTRIES = 100_000
START = "bench__start_experiment"


class VirtualBench:
    """What a test does with it; belongs to the loop in virtual time."""

    def __init__(self, core: TwinCore, names: tuple[str, ...]) -> None:
        self.core = core
        self.clock = core.bench.clock
        self.experiments: Experiments = core.work.experiments
        # Only ``open_twins`` makes them.
        assert isinstance(core._twins, Twins)
        self.twins = core._twins
        self._stations = {name: f"unit{number}" for number, name in enumerate(names)}

    @property
    def data(self) -> Path:
        """Where runs are recorded."""
        return self.core.work.runs.root

    def station(self, name: str) -> Any:
        """The simulated instrument with that name."""
        return self.twins.station(self._stations[name])

    def state(self, name: str) -> Mapping[str, Any]:
        """Its set-points and outputs."""
        state: Mapping[str, Any] = self.station(name).instrument.state.describe(
            self.clock.monotonic()
        )
        return state

    def heard(self) -> Iterator[tuple[float, str, str]]:
        """Each line that reached a unit, in order: monotonic seconds, unit, line."""
        names = {station: name for name, station in self._stations.items()}
        for entry in self.twins.log.entries(limit=LOG_ENTRIES):
            if entry.direction == "in":
                for line in entry.data.decode("latin-1").splitlines():
                    yield entry.t, names[entry.instrument], line

    async def start(
        self, source: str | Mapping[str, Any], roles: Any = None, parameters: Any = None
    ) -> ExperimentRun:
        """Begin a plan, which must pass the check."""
        action = NamedAction(
            operation=START,
            tool=START,
            caller=Caller(route=Route.DIRECT, client="test"),
            action_id=self.core.bench.new_id(),
        )
        plan, problems = await self.experiments.check(action, source, roles or {}, parameters or {})
        assert plan is not None, [problem.text for problem in problems]
        return await self.experiments.start(action, plan)

    async def over(self, run: Run) -> None:
        """Until it has ended and all of it is recorded."""
        assert run.task is not None
        await run.task

    async def stop_all(self) -> dict[str, Any]:
        """STOP ALL."""
        return await self.core.work.bench_stop.stop_all(
            StopAll(
                tool="bench__stop_all",
                caller=Caller(route=Route.DIRECT, client="test"),
                action_id=self.core.bench.new_id(),
            )
        )


@functools.cache
def _config() -> Config:
    with tempfile.TemporaryDirectory() as nowhere:
        places = places_here()
        return load_config(places=places, environ={"STATE_DIR": nowhere}).config


def virtually(
    units: Mapping[str, str],
    work: Callable[[VirtualBench], Awaitable[T]],
    *,
    seed: int = 0,
    log_entries: int = LOG_ENTRIES,
) -> T:
    """Do some work on a new bench.

    Args:
        units: name → profile key.
        log_entries: how much is kept of what went over all wires.

    Returns:
        What ``work`` gave. Its files are gone by then.
    """
    library = shipped_library()
    request = request_of(
        "test",
        {},
        units=[RealUnit(name=name, profile=library.profiles[key]) for name, key in units.items()],
        interlocks=(),
        config=_config(),
        clock=DrivenClock(),
        seed=seed,
    )

    async def job(core: Core, _arguments: Mapping[str, Any]) -> Any:
        assert isinstance(core, TwinCore)
        return await work(VirtualBench(core, tuple(units)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rehearsal, "JOBS", {"test": job})
        patch.setattr(edged_sim.twins, "ENTRIES_KEPT", log_entries)
        # Each command would be a line.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        try:
            told = perform(request)
        finally:
            structlog.reset_defaults()
    assert "error" not in told, told["error"]
    assert told["no_model"] == []
    result: T = told["result"]
    return result
