"""The command path and the sweeps over a supply that remembers what it was told; driven time."""

from __future__ import annotations

import asyncio
import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

from edged.actions.action import Action, RunCommand, SendScpi, StartSweep
from edged.actions.caller import Caller, Route
from edged.actions.cause import Cause
from edged.actions.outcome import Outcome
from edged.auth.permissions import Permissions
from edged.commands.capture import Captures
from edged.commands.freshness import Acquisitions
from edged.commands.memory import Memory
from edged.commands.policy import Policy
from edged.commands.preconditions import locked_out, swept
from edged.commands.record import LogRecord, Record
from edged.commands.send_guard import SendGuards
from edged.commands.target import Catalog
from edged.commands.telling import noting_tellings
from edged.config.keys import RawScpi
from edged.errors import ErrorCode, Failed
from edged.instruments.mailbox import Priority
from edged.operations.commands import CommandOperations
from edged.operations.sweeps import ReadSweep, StopSweep, SweepOperations
from edged.profiles.unit_rules import UnitRules
from edged.runs.ports import NewPlan
from edged.runs.registry import Late, Registry
from edged.runs.run import Run
from edged.runs.run_head import RunHead, RunKind
from edged.runs.sequences.registry import Sequences
from edged.runs.stop_all import BenchStop
from edged.runs.streams.waveforms import WaveformRegistry
from edged.runs.sweeps.registry import Sweeps
from edged.store.journal import JournalEntry
from edged.store.lockouts import Lockout
from edged.store.told_on import ToldOn
from edged.store.writer import DirtyFlag
from tests.bench.command_path import (
    bench_operations,
    command_path,
    no_leases,
    not_guarded,
    not_interlocked,
)
from tests.bench.context import NoPlan, bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_artist import FakeArtist
from tests.bench.fake_instruments import FakeInstrument, FakePool, toy_profile

DIRECT = Caller(route=Route.DIRECT)

PROFILE = """
format: 1
profile_key: toy_ramp
version: 1
manufacturer: Toy
model: R1
instrument_class: power_supply
source: made for tests
match: {idn: 'toy,r1\\b', examples: ["TOY,R1,0001,1.0"]}
connection: {errors: {query: "SYST:ERR?", kind: queue}}
abort: [":OUTP CH1,OFF", ":OUTP CH2,OFF"]
commands:
  set_voltage:
    scpi: ":SOUR{channel}:VOLT {voltage:.3f}"
    parameters:
      channel: {type: int, min: 1, max: 2, default: 1}
      voltage: {type: float, min: 0, max: 30, unit: V, by: {channel: {2: {max: 5}}}}
    sweep: {parameter: voltage, setpoint: ":SOUR{channel}:VOLT?", abort: [":OUTP CH{channel},OFF"]}
  set_both:
    scpi: [":SOUR{channel}:CURR {current:.3f}", ":SOUR{channel}:VOLT {voltage:.3f}"]
    parameters:
      channel: {type: int, min: 1, max: 2, default: 1}
      current: {type: float, min: 0, max: 3}
      voltage: {type: float, min: 0, max: 30}
  set_all:
    scpi: ":APPL CH{channel},{voltage},{current}"
    parameters:
      channel: {type: int, min: 1, max: 2, default: 1}
      current: {type: float, min: 0, max: 3, default: 1}
      voltage: {type: float, min: 0, max: 30}
  set_with_range:
    scpi: ":SOUR{channel}:VOLT:AUTO {voltage:.3f}"
    parameters:
      channel: {type: int, min: 1, max: 2, default: 1}
      voltage: {type: float, min: 0, max: 30}
  set_protection:
    scpi: ":SOUR{channel}:VOLT:PROT {level:.3f}"
    parameters:
      channel: {type: int, min: 1, max: 2, default: 1}
      level: {type: float, min: 0, max: 33}
  set_bias:
    scpi: ":BIAS:VOLT {voltage:.3f}"
    parameters: {voltage: {type: float, min: 0, max: 5}}
  set_hv:
    scpi: ":HV {level:.1f}"
    requires_sweep: true
    parameters: {level: {type: float, min: 0, max: 1000, unit: V}}
    sweep: {parameter: level, setpoint: ":HV?"}
  measure_voltage:
    scpi: ":MEAS:VOLT? CH{channel}"
    is_query: true
    parameters: {channel: {type: int, min: 1, max: 2, default: 1}}
    returns: {type: float, unit: V}
  measure_all:
    scpi: ":MEAS:ALL? CH{channel}"
    is_query: true
    parameters: {channel: {type: int, min: 1, max: 2, default: 1}}
    returns:
      fields:
        - {name: v, type: float, unit: V, index: 0}
        - {name: i, type: float, unit: A, index: 1}
  arm_and_read: {scpi: ":ARM?", is_query: true, is_dangerous: true, returns: {type: float}}
  output_on:
    scpi: ":OUTP CH{channel},ON"
    is_dangerous: true
    parameters: {channel: {type: int, min: 1, max: 2}}
  output_off:
    scpi: ":OUTP CH{channel},OFF"
    is_safe: true
    parameters: {channel: {type: int, min: 1, max: 2}}
  all_off: {scpi: [":OUTP CH1,OFF", ":OUTP CH2,OFF"], is_safe: true}
  get_output:
    scpi: ":OUTP? CH{channel}"
    is_query: true
    parameters: {channel: {type: int, min: 1, max: 2}}
  reset: {scpi: "*RST"}
"""


class Supply(FakeInstrument):
    """Holds set-points and outputs; what it was sent stands in ``log`` with its time."""

    def __init__(self, clock: DrivenClock, name: str = "psu1", **more: Any) -> None:
        super().__init__(
            id=f"S::{name}", profile=toy_profile(PROFILE), alias=name, rules=UnitRules(), **more
        )
        self.clock = clock
        self.log: list[tuple[float, str]] = []
        self.held = {":SOUR1:VOLT": 0.0, ":SOUR2:VOLT": 0.0, ":HV": 0.0}
        self.outputs = {"CH1": "ON", "CH2": "ON"}
        # Seconds that one conversation takes; and what happens to the next ones instead.
        self.latency_s = 0.0
        # Seconds that the wire holds back what goes to the instrument, and what comes from it; one
        # pair for each conversation to come. A confirmed write has then left long ago.
        self.wire_s: list[tuple[float, float]] = []
        self.troubles: list[Exception] = []
        self.abort_troubles: list[Exception] = []
        self.address = self.id
        self._under_way_s = 0.0

    async def converse(
        self,
        make: Callable[[], Any],
        *,
        priority: Priority = Priority.COMMAND,
        timeout_s: float,
        name: str,
        cause: Cause | None = None,
        is_repeatable: bool = False,
    ) -> Any:
        if self.latency_s:
            await self.clock.sleep(self.latency_s)
        troubles = self.abort_troubles if priority is Priority.SAFE else self.troubles
        if troubles:
            raise troubles.pop(0)
        there_s, back_s = self.wire_s.pop(0) if self.wire_s else (0.0, 0.0)
        self._under_way_s = there_s
        done = await super().converse(make, priority=priority, timeout_s=timeout_s, name=name)
        if there_s or back_s:
            await self.clock.sleep(there_s + back_s)
        return done

    def _answer(self, step: Any) -> Any:
        text = getattr(step, "text", "")
        self.log.append((self.clock.monotonic() + self._under_way_s, text))
        header, _, told = text.partition(" ")
        if header in self.held:
            self.held[header] = float(told)
        elif header == ":OUTP":
            channel, state = told.split(",")
            self.outputs[channel] = state
        elif header == ":OUTP?":
            self.answers[text] = self.outputs[told]
        elif header.rstrip("?") in self.held:
            self.answers[text] = self.answers.get(f"lie {text}", f"{self.held[header[:-1]]:.3f}")
        elif header == ":MEAS:VOLT?":
            self.answers[text] = str(self.held[f":SOUR{told[2:]}:VOLT"] / 2)
        return super()._answer(step)

    def writes(self, header: str = ":SOUR1:VOLT") -> list[tuple[float, float]]:
        """(time, value) of each write to a set-point."""
        return [
            (at, float(match.group(1)))
            for at, text in self.log
            if (match := re.fullmatch(re.escape(header) + r" (\S+)", text))
        ]

    @property
    def aborts(self) -> list[str]:
        return [text for _, text in self.log if text.startswith(":OUTP ") and "OFF" in text]


class Notebook:
    """A journal in memory that can be made to refuse."""

    def __init__(self) -> None:
        self.open: dict[str, dict[str, Any]] = {}
        self.entries: dict[str, JournalEntry] = {}
        self.left: tuple[JournalEntry, ...] = ()
        self.is_broken = False
        self.updates = 0
        self.may_finish = asyncio.Event()
        self.may_finish.set()

    async def begin(self, entry: JournalEntry) -> JournalEntry:
        self._write()
        self.open[entry.id] = dict(entry.payload)
        self.entries[entry.id] = entry
        return entry

    async def update(
        self, entry_id: str, changes: dict[str, Any], *, is_forced: bool = False
    ) -> None:
        self._write()
        self.updates += 1
        if entry_id in self.open:
            self.open[entry_id].update(changes, is_forced=is_forced)

    async def finish(self, entry_id: str) -> None:
        await self.may_finish.wait()
        self.open.pop(entry_id, None)
        self.left = tuple(entry for entry in self.left if entry.id != entry_id)

    def unfinished(self) -> tuple[JournalEntry, ...]:
        return self.left

    def _write(self) -> None:
        if self.is_broken:
            raise Failed("The disk is full.", code=ErrorCode.STORE_FAILED)


class Sheet:
    """A recording in memory."""

    def __init__(self, head: RunHead) -> None:
        self.head = head
        self.rows: list[tuple[Any, ...]] = []
        self.ended = ""

    def append(self, row: Any) -> None:
        self.rows.append(tuple(row))

    def append_samples(self, name: str, type_code: str, samples: bytes | bytearray) -> None:
        raise AssertionError((name, type_code, samples))

    def told(self) -> dict[str, Any]:
        return {"run_id": self.head.run_id, "path": "", "rows": len(self.rows), "error": ""}

    async def close(self, status: str, summary: Any = None) -> None:
        self.ended = status


class Recorder:
    def __init__(self) -> None:
        self.sheets: list[Sheet] = []

    async def open(self, head: RunHead) -> Sheet:
        self.sheets.append(Sheet(head))
        return self.sheets[-1]


class NoDatabase:
    """What a book that is never written is attached to."""

    def attach(self, book: Any) -> DirtyFlag:
        return DirtyFlag(book)

    def nudge(self) -> None:
        return


class RunsNoted:
    """Which runs are said to be under way."""

    def __init__(self) -> None:
        self.running: set[str] = set()

    def run_began(self, run_id: str, instrument_id: str, caller: Caller) -> None:
        self.running.add(run_id)

    def run_ended(self, run_id: str) -> None:
        self.running.discard(run_id)


async def no_wrappers(*_order: Any) -> list[dict[str, Any]]:
    return []


class SweepsOfTests(Sweeps):
    """Sweeps, with what the registry does to them under the names that tests of sweeps use."""

    def __init__(self, runs: Registry, *, new_plan: NewPlan) -> None:
        super().__init__(runs, new_plan=new_plan)
        self.close, self.adopt = runs.close, runs.adopt

    async def fail_all(self, cause: Cause, error: str, instrument_id: str) -> list[Run]:
        return await self._runs.fail_all(cause, Failed(error), instrument_id.__eq__)


class SweepHouse:
    """Everything between a tool call and the supply."""

    def __init__(
        self,
        clock: DrivenClock,
        *,
        permissions: Permissions | None = None,
        supplies: int = 1,
        record: Record | None = None,
    ) -> None:
        self.clock = clock
        self.supplies = [
            Supply(clock, f"psu{n + 1}", serial=f"{n + 1:04}") for n in range(supplies)
        ]
        self.supply = self.supplies[0]
        self.journal, self.recorder = Notebook(), Recorder()
        self.told_on = ToldOn(database=NoDatabase(), clock=clock)  # type: ignore[arg-type]
        self.ids = itertools.count()
        self.artist = FakeArtist()
        # Of every instrument, while there is one.
        self.lockout: Lockout | None = None
        hold_locked_out = locked_out(lambda _instrument: self.lockout)
        permissions = permissions or Permissions()
        self.policy = Policy(RawScpi.ALL, permissions, not_interlocked)
        self.send_guards = SendGuards(
            hold_locked_out, self.policy.check_again, no_leases(clock), not_guarded
        )
        self.pool: Any = FakePool(*self.supplies)
        catalog = Catalog()
        self.notes = RunsNoted()
        self.bench = bench_of(
            clock,
            store={"journal": self.journal, "told_on": self.told_on},
            pool=self.pool,
            new_id=self.new_id,
            perform=self.perform,
            precheck=lambda action: self.path.precheck(action),
        )
        self.runs = Registry(self.bench, recorder=self.recorder, notes=self.notes)
        self.sweeps = SweepsOfTests(self.runs, new_plan=NoPlan)
        sequences = Sequences(self.runs, new_plan=NoPlan)
        self.bench_stop = BenchStop(
            self.bench,
            sweeps=self.sweeps,
            end_work=(functools.partial(self.runs.stop_all, kinds={RunKind.SEQUENCE}),),
            made_safe=self.sweeps.note_made_safe,
            stop_others=no_wrappers,
            recall=self.send_guards.stop,
        )
        # The outputs that have answered that they are on.
        self.heard_on: set[str] = set()
        self.memory = Memory(lambda _unit, output: self.heard_on.add(output))
        acquisitions = Acquisitions()
        self.waveforms = WaveformRegistry(8)
        commands = CommandOperations(
            sequences=Late.of(self.runs, sequences),
            captures=Captures(self.waveforms, acquisitions),
            clock=clock,
            acquisitions=acquisitions,
            memory=self.memory,
            on_safe=self.sweeps.note_safe,
        )
        bench = bench_operations(self.pool, catalog, make_safe=self.bench_stop.stop_all)
        sweeps = SweepOperations(
            sweeps=self.sweeps,
            artist=self.artist,  # type: ignore[arg-type]
            note_stopped=acquisitions.note_stopped,
            memory=self.memory,
        )
        self.path = command_path(
            self.pool,
            catalog,
            {**bench.table(), **commands.table(), **sweeps.table()},
            clock,
            permissions=permissions,
            policy=self.policy,
            preconditions=(hold_locked_out, swept(self.sweeps.claims)),
            record=record or LogRecord(),
            send_guards=self.send_guards,
            note_told=noting_tellings(self.told_on.note, lambda _instrument: None),
        )

    def new_id(self) -> str:
        return f"n{next(self.ids)}"

    async def perform(self, action: Action) -> Outcome:
        return await self.path.perform(action)

    async def ask_start(
        self,
        target: float = 1.0,
        rate: float = 1.0,
        *,
        command: str = "set_voltage",
        caller: Caller = DIRECT,
        parameters: dict[str, Any] | None = None,
        **more: Any,
    ) -> Outcome:
        """start_sweep, whatever comes of it."""
        return await self.perform(
            StartSweep(
                tool="start_sweep",
                scope=command,
                caller=caller,
                action_id=self.new_id(),
                arguments={"target_value": target, "sweep_rate": rate, **more},
                instrument_id="psu1",
                command_name=command,
                parameters=parameters or {},
            )
        )

    async def start(self, target: float = 1.0, rate: float = 1.0, **more: Any) -> str:
        """start_sweep that must succeed; its sweep_id."""
        outcome = await self.ask_start(target, rate, **more)
        assert outcome.error is None, outcome.error
        assert outcome.data["status"] == "running"
        sweep_id: str = outcome.data["sweep_id"]
        return sweep_id

    async def status(self, sweep_id: str, points: int = 0) -> dict[str, Any]:
        outcome = await self.perform(
            ReadSweep(
                tool="get_sweep_status",
                caller=DIRECT,
                action_id=self.new_id(),
                sweep_id=sweep_id,
                points=points,
            )
        )
        assert outcome.error is None, outcome.error
        told: dict[str, Any] = outcome.data
        return told

    async def stop(self, sweep_id: str, *, hold: bool = False) -> dict[str, Any]:
        outcome = await self.perform(
            StopSweep(
                tool="stop_sweep",
                caller=DIRECT,
                action_id=self.new_id(),
                sweep_id=sweep_id,
                hold=hold,
            )
        )
        assert outcome.error is None, outcome.error
        told: dict[str, Any] = outcome.data
        return told

    async def command(self, name: str, /, instrument: str = "psu1", **given: Any) -> Outcome:
        return await self.perform(
            RunCommand(
                tool="execute_command",
                scope=name,
                caller=DIRECT,
                action_id=self.new_id(),
                instrument_id=instrument,
                command_name=name,
                parameters=given,
            )
        )

    async def scpi(self, line: str) -> Outcome:
        return await self.perform(
            SendScpi(
                tool="send_scpi",
                caller=DIRECT,
                action_id=self.new_id(),
                instrument_id="psu1",
                scpi=line,
            )
        )
