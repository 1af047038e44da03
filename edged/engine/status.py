"""get_status: what the daemon tells about itself, from what its parts know.

A report is given again for a moment, unless something has been done or has changed since: then a
caller gets to see what came of it. What changes by itself (a stream's points, a line that is busy)
is told at most that much late. Besides, what this bench tells the fleet of itself, from memory.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from edged import __version__
from edged.changes import TOLD
from edged.engine.long_work import LongWork
from edged.instruments.failures import lost_remedy
from edged.instruments.instrument import Instrument
from edged.instruments.unit_state import UnitState, counted, heard_ms
from edged.protocol.results import Told
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.run_head import RunKind

NAMED: Final = ("id", "alias", "manufacturer", "model", "instrument_class", "serial", "used_by")


@record
class Here:
    """Puts it together; see ``relay.announcement.Said``.

    Attributes:
        lease: who has reserved an instrument.
        lockouts: all of them, with aliases.
    """

    bench: Bench
    work: LongWork
    lease: Callable[[Instrument], Mapping[str, Any] | None]
    lockouts: Callable[[], Sequence[Mapping[str, Any]]]

    def __call__(self) -> dict[str, Any]:
        """As it is now."""
        return {
            "version": __version__,
            "units": [self._unit(instrument) for instrument in self.bench.pool.all()],
            "runs": list(self._runs()),
            "lockouts": list(self.lockouts()),
        }

    def _unit(self, instrument: Instrument) -> dict[str, Any]:
        summary = instrument.summary()
        return {
            **{name: summary[name] for name in NAMED},
            "state": self.bench.state_of(instrument).value,
            "lease": self.lease(instrument),
            "is_in_use": self.work.uses(instrument),
        }

    def _runs(self) -> Iterator[dict[str, Any]]:
        work = self.work
        for kind, id_name, name, runs in (
            ("sweep", "sweep_id", "command_name", work.sweeps.active()),
            ("stream", "stream_id", "command_name", work.streams.running()),
            ("sequence", "run_id", "sequence_name", work.registry.running(RunKind.SEQUENCE)),
            ("experiment", "run_id", "experiment", work.registry.running(RunKind.EXPERIMENT)),
        ):
            for run in runs:
                yield {
                    "kind": kind,
                    "run_id": run.get(id_name),
                    "instrument_id": run.get("instrument_id"),
                    "name": run.get(name),
                    "who": run.get("who"),
                    "started_ms": run.get("started_ms"),
                }


IN_ORDER: Final = frozenset({UnitState.READY, UnitState.BUSY, UnitState.LOCKED})
"""What is locked out stands among the lockouts."""
KEPT_S: Final = 0.02

Part = Callable[[], Any]


class StatusReport:
    """Puts get_status together.

    Args:
        edge_id: who this edge is.
        work: what runs; of sweeps also those that need attention.
        mcp: tells of the MCP listener.
        marks: gives something that is unequal after anything was done.
        more: further entries, each asked when the status is.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        edge_id: str,
        work: LongWork,
        mcp: Part,
        marks: Part,
        more: Mapping[str, Part],
    ) -> None:
        self._identity = {
            "edge_id": edge_id,
            "edge_name": bench.config.edge_name,
            "version": __version__,
        }
        self._platform = f"{platform.system()} {platform.machine()}"
        self._bench = bench
        self._work = work
        self._mcp = mcp
        self._marks = marks
        self._more = dict(more)
        self._began = bench.clock.monotonic()
        # The latest report, the marks that it was made under, and when.
        self._report = Told({})
        # What it tells of the state of units, and the mark that this was made under.
        self._units: Mapping[str, Any] = {}
        self._units_under = ""
        self._made_under: Any = None
        self._made_s = self._began

    def __call__(self) -> Told:
        """The result of get_status."""
        marks, now_s = self._marks(), self._bench.clock.monotonic()
        if marks != self._made_under or now_s - self._made_s >= KEPT_S:
            self._report = self._make(now_s)
            self._made_under, self._made_s = marks, now_s
        return self._report

    def _make(self, now_s: float) -> Told:
        instruments, mark = self._bench.pool.all(), TOLD.mark()
        if mark != self._units_under:
            self._units, self._units_under = self._told_units(instruments), mark
        return Told(
            {
                **self._identity,
                **self._units,
                "waiting_calls": [
                    {"instrument_id": i.id, "alias": i.alias, "calls": calls}
                    for i in instruments
                    if (calls := i.waiting)
                ],
                "uptime_s": round(now_s - self._began, 3),
                "platform": self._platform,
                "mcp": self._mcp(),
                "sweeps": list(self._work.sweeps.active()),
                "streams": self._work.streams.running(),
                "sequences": list(self._work.registry.running(RunKind.SEQUENCE)),
                "experiments": list(self._work.registry.running(RunKind.EXPERIMENT)),
                **{name: part() for name, part in self._more.items()},
            }
        )

    def _told_units(self, instruments: Sequence[Instrument]) -> dict[str, Any]:
        """What changes with the state of a unit alone."""
        return {
            "instrument_count": len(instruments),
            "instruments_by_state": counted(instruments, self._bench.state_of),
            "troubled_lines": [
                {
                    "instrument_id": i.id,
                    "alias": i.alias,
                    "address": i.address,
                    "state": state.value,
                    "line_state": i.line_state.value,
                    "reason": i.line_reason,
                    "remedy": lost_remedy(i.line_reason),
                    "heard_ms": heard_ms(
                        i, self._bench.clock.monotonic(), self._bench.clock.wall_ms()
                    ),
                }
                for i in instruments
                if (state := self._bench.state_of(i)) not in IN_ORDER
            ],
        }
