"""Long work, put together: sweeps, streams, sequences, their recordings, and what makes all safe.

A part of the composition root. It knows which of these parts ends, cleans up or is told of which
other; what each of them does is its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import structlog

from edged.actions.caller import Caller
from edged.actions.cause import ENGINE_STOPPED, Cause
from edged.commands.memory import Memory
from edged.commands.operation import Rows, bind
from edged.config.keys import OnExit
from edged.discovery.visit import Guest, visiting
from edged.errors import ErrorCode, Failed, NotFound
from edged.instruments.instrument import Instrument, connection_for
from edged.operations import experiment_rows
from edged.operations.resources import ResourceOperations
from edged.operations.runs import RunOperations
from edged.operations.streams import StreamOperations
from edged.operations.sweeps import SweepOperations
from edged.plot.artist import Artist
from edged.profiles.format.connection_facts import connection_of
from edged.profiles.interlocks import Interlock
from edged.profiles.model import Connection, Profile
from edged.runs.bench import Bench
from edged.runs.crash_recovery import AfterCrash
from edged.runs.left_work import LeftWork
from edged.runs.ports import NewPlan, RunLeases
from edged.runs.recordings.append import Disk
from edged.runs.recordings.registry import RunRegistry
from edged.runs.registry import Late, Registry
from edged.runs.report.reports import Reports
from edged.runs.run import Run
from edged.runs.run_head import RunKind
from edged.runs.stop_all import BenchStop, WrapperAbort, WrapperStop
from edged.runs.streams.registry import Streams
from edged.runs.streams.waveforms import WaveformRegistry
from edged.runs.sweeps.registry import Sweeps
from edged.runs.units import unit_of_instrument
from edged.runs.wording import (
    DEAD_MAN,
    LEASE_END,
    dead_man_tripped,
    interlock_tripped,
    locked_out,
)
from edged.store.journal import JournalKind
from edged.transports.visa import VisaLibrary

if TYPE_CHECKING:
    from edged.operations.experiments import ExperimentOperations, Obtain, Rehearse
    from edged.runs.experiments.registry import Experiments
    from edged.runs.sequences.registry import Sequences

log = structlog.get_logger("edged.exit")

BESIDE_SWEEPS: Final = frozenset(RunKind) - {RunKind.SWEEP}
"""The kinds of runs whose end STOP ALL does not list one by one."""
ABORT_WITHIN_S: Final = 2.5
WITH_STEPS: Final = (RunKind.SEQUENCE, RunKind.EXPERIMENT)
"""What the trip of an interlock ends besides what the abort of its units ends."""
INTERLOCK: Final = "interlock"
SHUTDOWN: Final = "shutdown"
WRAPPERS_WITHIN_S: Final = 1.5
"""What an abort tool may take at exit, before its worker is ended."""
WORK_ENDS_WITHIN_S: Final = 3.5
"""Of the 5 s that stopping may take in all; the rest is for lines, sessions and the store."""


class LongWork:
    """The books of long work, made in the order in which they need each other.

    Args:
        profiles: gives the library as it is now.
        visa: opens the addresses that are visited after a crash.
        visited: what first aid has seen to already.
        recall: told when everything is stopped, before anything else is done.
        wrapper_aborts: the SDK wrappers' tools that stop all runs.
        leases: gives experiments the units that they write to.
        new_plan: judges all steps of a run before its first.
        disk: writes recordings.
        rehearse: runs an experiment on twins.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        profiles: Callable[[], Mapping[str, Profile]],
        visa: VisaLibrary,
        visited: Mapping[str, LeftWork],
        recall: Callable[[Cause], None],
        wrapper_aborts: Callable[[], Sequence[WrapperAbort]],
        leases: RunLeases,
        new_plan: NewPlan,
        disk: Disk,
        rehearse: Rehearse,
    ) -> None:
        self._bench = bench
        self._rehearse = rehearse
        self._leases, self._new_plan = leases, new_plan
        self._profiles = profiles
        self._visa = visa
        self.runs = RunRegistry(bench, disk=disk)
        self.artist = Artist(cache_dir=bench.config.state_dir / "plot")
        self.reports = Reports(bench, self.runs)
        self.waveforms = WaveformRegistry(bench.config.waveform_memory_mb)
        self.registry = Registry(bench, recorder=self.runs, notes=leases)
        self.sequences = Late(self.registry, "edged.runs.sequences.registry", self._new_sequences)
        self.streams = Streams(self.registry, waveforms=self.waveforms)
        self.experiments = Late(
            self.registry, "edged.runs.experiments.registry", self._new_experiments
        )
        self.sweeps = Sweeps(self.registry, new_plan=new_plan)
        self.registry.kinds = {
            RunKind.SEQUENCE: self.sequences,
            RunKind.STREAM: Late.of(self.registry, self.streams),
            RunKind.EXPERIMENT: self.experiments,
            RunKind.SWEEP: Late.of(self.registry, self.sweeps),
        }
        bench.pool.subscribe(self.sweeps.hear)
        self._after_crash = AfterCrash(bench=bench, visit=self.visit, visited=visited)
        self._wrapper_stop = WrapperStop(bench, wrapper_aborts)
        self.bench_stop = BenchStop(
            bench,
            sweeps=self.sweeps,
            end_work=(functools.partial(self.registry.stop_all, kinds=BESIDE_SWEEPS),),
            made_safe=self._made_safe,
            stop_others=self._wrapper_stop,
            recall=recall,
        )

    async def clean_up(self) -> None:
        """Before any scan: what a former life of the daemon left under way is made safe."""
        await self._after_crash.clean_up()
        self.registry.adopt(self._after_crash.found)
        if any(left.entry.kind is JournalKind.EXPERIMENT for left in self._after_crash.found):
            self.experiments.get().left.adopt(self._after_crash.found)

    def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Start what runs by itself; ``parts`` gets what ends it, once ``end`` has been."""
        parts.callback(self.waveforms.stop)
        self.runs.start()
        parts.push_async_callback(self.runs.stop)
        if self.experiments.made is not None:
            self.experiments.made.left.start(parts)

    async def end(self) -> None:
        """End everything that runs, side by side and within bounds; with ON_EXIT safe, make safe.

        One that hangs delays no other: each has its own bound within that of all.
        """
        ends = [
            self.registry.close(ABORT_WITHIN_S),
        ]
        if self._is_safe_exit:
            ends.append(self._make_safe(self.bench_stop, ABORT_WITHIN_S))
        await asyncio.wait(map(asyncio.ensure_future, ends), timeout=WORK_ENDS_WITHIN_S)
        await self.bench_stop.close()

    async def end_wrappers(self) -> None:
        """Before the workers of wrappers end: with ON_EXIT safe, make their devices safe."""
        if self._is_safe_exit:
            await self._make_safe(self._wrapper_stop, WRAPPERS_WITHIN_S)
        await self._wrapper_stop.close()

    @property
    def _is_safe_exit(self) -> bool:
        return self._bench.config.on_exit is OnExit.SAFE

    async def _make_safe(self, stop: BenchStop | WrapperStop, within_s: float) -> None:
        """Abort what may be on, and tell of each what it confirmed."""
        for one in await stop.stop_marked(
            Caller.part(SHUTDOWN), ENGINE_STOPPED, tool=SHUTDOWN, within_s=within_s
        ):
            left, error = one["unconfirmed"], one["error"] or ""
            what = f"not confirmed off: {', '.join(left)}. {error}" if left else "confirmed off"
            name = one["alias"] or one["instrument_id"]
            self._bench.tell("exit.safe", f"{name}: {what}".strip(), one["instrument_id"], SHUTDOWN)
            tell = log.error if left else log.warning
            tell("exit_safe", id=one["instrument_id"], unconfirmed=left, error=error)

    def operations(
        self, memory: Memory, note_stopped: Callable[[str], None], obtain: Obtain
    ) -> Rows:
        """What can be asked of this work.

        Args:
            obtain: asks a person for an approval.
            memory: what is known of settings.
            note_stopped: told of each instrument whose abort is on its way.
        """
        return {
            **bind(
                Late(
                    self.registry,
                    "edged.operations.experiments",
                    lambda: self._new_experiment_operations(obtain),
                ),
                experiment_rows.OPERATIONS,
            ),
            **StreamOperations(
                streams=self.streams, waveforms=self.waveforms, artist=self.artist
            ).table(),
            **SweepOperations(
                sweeps=self.sweeps,
                artist=self.artist,
                note_stopped=note_stopped,
                memory=memory,
            ).table(),
            **RunOperations(
                runs=self.runs,
                registry=self.registry,
                waveforms=self.waveforms,
                artist=self.artist,
            ).table(),
            **ResourceOperations(
                profiles=self._profiles,
                read_page=_read_panel,
                streams=self.streams,
                runs=self.runs,
                waveforms=self.waveforms,
            ).table(),
        }

    async def end_run(self, run_id: str, is_held: bool) -> None:
        """Its lease has ended: a sweep is parked or aborted, a sequence is ended or goes on."""
        if self.registry.get(RunKind.EXPERIMENT, run_id) is not None:
            await self.experiments.get().stop_run(run_id, LEASE_END, hold=False)
        elif self.registry.get(RunKind.SEQUENCE, run_id) is None:
            await self.sweeps.stop(run_id, LEASE_END, hold=is_held)
        elif not is_held:
            await self.sequences.get().stop(run_id, LEASE_END)

    def note_safe(
        self, instrument_id: str, values: Mapping[str, object], on_behalf_of: str
    ) -> None:
        """A safe command is on its way: it ends the sweeps and experiments that it touches."""
        self.sweeps.note_safe(instrument_id, values, on_behalf_of)
        if self.experiments.made is not None:
            self.experiments.made.note_safe(instrument_id, on_behalf_of)

    def seen(self, run_id: str) -> dict[str, Any] | None:
        """How an experiment stands, for a view; ``None``: it is not in memory."""
        made = self.experiments.made
        return made.seen(run_id) if made is not None else None

    def run_ids(self) -> tuple[str, ...]:
        """Ids of the sweeps, streams and sequences that run."""
        return (
            *(str(sweep["sweep_id"]) for sweep in self.sweeps.active()),
            *(str(stream["stream_id"]) for stream in self.streams.running()),
            *(str(run["run_id"]) for run in self.registry.running(RunKind.SEQUENCE)),
            *(str(run["run_id"]) for run in self.registry.running(RunKind.EXPERIMENT)),
        )

    def moves(self, instrument_id: str) -> tuple[str, ...]:
        """Ids of the sweeps and sequences that are in the middle of something on it."""
        stepping = self.registry.under_way(instrument_id.__eq__, WITH_STEPS)
        return (*self.sweeps.running_on(instrument_id), *_ids(stepping))

    def runs_on(self, instrument_id: str) -> tuple[str, ...]:
        """Ids of all that runs on it or measures it."""
        others = self.registry.under_way(instrument_id.__eq__, BESIDE_SWEEPS)
        return (*self.sweeps.running_on(instrument_id), *_ids(others))

    def uses(self, instrument: Instrument) -> bool:
        """Whether anything that runs has to do with it."""
        return bool(self.runs_on(instrument.id))

    def status(self) -> Mapping[str, Callable[[], Any]]:
        """Entries of get_status."""
        return {
            "recordings": self.runs.status,
            "waveforms": self.waveforms.status,
            "stopping": lambda: list(self.bench_stop.trying()),
            "needs_attention": lambda: [
                left.told() for left in self._after_crash.found if left.needs_attention
            ],
        }

    async def trip(self, rule: Interlock, units: Sequence[Instrument]) -> None:
        """An interlock has tripped: these are made safe, and what runs there ends."""
        cause = interlock_tripped(rule.name)
        ids = {unit.id for unit in units}
        await asyncio.gather(
            self.bench_stop.stop_units(
                units,
                Caller.part(f"interlock {rule.name}"),
                cause,
                tool=INTERLOCK,
                try_for_s=math.inf,
            ),
            self.registry.stop_all(cause, ids.__contains__, kinds=WITH_STEPS),
        )

    async def stop_on(self, instrument_id: str) -> list[str]:
        """For a lockout; returns the ids of what was ended."""
        cause = locked_out(self._called(instrument_id))
        return _ids(await self.registry.stop_all(cause, instrument_id.__eq__))

    async def fail_on(self, instrument_id: str) -> list[str]:
        """Its dead-man has switched it off: what runs on it has failed; ids of what was ended."""
        called = self._called(instrument_id)
        error = Failed(f"{called}: {DEAD_MAN}.", code=ErrorCode.DEAD_MAN)
        return _ids(
            await self.registry.fail_all(dead_man_tripped(called), error, instrument_id.__eq__)
        )

    def _called(self, instrument_id: str) -> str:
        with contextlib.suppress(NotFound):
            return self._bench.pool.get(instrument_id).called
        return instrument_id

    # Most lives of the daemon never see these, and need not wait for what makes them.

    def _new_sequences(self) -> Sequences:
        from edged.runs.sequences.registry import Sequences

        return Sequences(self.registry, new_plan=self._new_plan)

    def _new_experiments(self) -> Experiments:
        from edged.runs.experiments.registry import Experiments

        return Experiments(
            self.registry, self.runs, self._leases, self.reports.make, self._new_plan
        )

    def _new_experiment_operations(self, obtain: Obtain) -> ExperimentOperations:
        from edged.operations.experiments import ExperimentOperations

        return ExperimentOperations(
            experiments=self.experiments.get(),
            directories=self._bench.config.experiment_dirs,
            rehearse=self._rehearse,
            obtain=obtain,
        )

    def visit(self, address: str, journal: Mapping[str, Any]) -> AbstractAsyncContextManager[Guest]:
        """A visit to an address before anything is registered there."""
        connection = connection_of(journal.get("connection"))
        if connection is None:  # a row of before there were any with it
            connection = self._connection_of(address, str(journal.get("profile", "")))
        return visiting(
            address, open_link=self._visa.open_link, connection=connection, clock=self._bench.clock
        )

    def _connection_of(self, address: str, profile_key: str) -> Connection:
        """How to speak there, by the profile and the owner's configuration."""
        profile = self._profiles().get(profile_key)
        connection = profile.connection if profile is not None else Connection()
        for entry in self._bench.config.instruments:
            if entry.address == address:
                return connection_for(connection, entry)
        return connection

    async def _made_safe(self, instrument_id: str) -> None:
        """An instrument has obeyed its abort: whatever work owed it one is done with it."""
        await self.sweeps.note_made_safe(instrument_id)
        with contextlib.suppress(NotFound):
            instrument = self._bench.pool.get(instrument_id)
            await self._after_crash.made_safe(
                unit_of_instrument(instrument).key,
                instrument_id=instrument.id if instrument.twins else "",
            )


def _ids(runs: Sequence[Run]) -> list[str]:
    return [run.run_id for kind in RunKind for run in runs if run.kind is kind]


def _read_panel(name: str) -> str:
    # Here, because few hosts show panels; this runs on a thread.
    from edged.surfaces.page.panels import read_panel

    return read_panel(name)
