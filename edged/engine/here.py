"""What this bench tells the fleet of itself: units, what runs, what is locked out; from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from edged import __version__
from edged.engine.long_work import LongWork
from edged.instruments.instrument import Instrument
from edged.record import record
from edged.runs.bench import Bench

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
            ("sequence", "run_id", "sequence_name", work.sequences.running()),
            ("experiment", "run_id", "experiment", work.experiments.running()),
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
