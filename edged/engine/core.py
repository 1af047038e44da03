"""The core of an engine: its stores, its rules, its runs and the command path, constructed.

What it has not: a bus, a port, and whatever else is outside of the process. ``engine.Engine`` adds
those; ``rehearsal.py`` runs a core by itself, on simulated twins.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from edged.actions.action import Action
from edged.actions.cause import Cause
from edged.actions.outcome import Outcome
from edged.auth.permissions import Grant, Permissions
from edged.clock import Clock
from edged.commands.approvals import ApprovalControl
from edged.commands.audit_record import AuditRecord
from edged.commands.budgets import BudgetControl
from edged.commands.capture import Captures
from edged.commands.freshness import Acquisitions
from edged.commands.leases import LeaseControl
from edged.commands.lockout import LockoutControl
from edged.commands.memory import Memory
from edged.commands.operation import Operation
from edged.commands.path import CommandPath, PresentTool
from edged.commands.policy import Policy
from edged.commands.preconditions import Leased, locked_out, swept, unknown_beside_runs
from edged.commands.record import CountedRecord
from edged.commands.resolve import Resolver
from edged.commands.send_guard import SendGuards
from edged.commands.target import Catalog
from edged.commands.telling import noting_tellings
from edged.config.load import Config
from edged.discovery.registering import Knowledge
from edged.engine.guarding import Guards
from edged.engine.long_work import LongWork
from edged.engine.parts import SdkParts
from edged.errors import Conflict, EdgedError, NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.instruments.trace import JobWatchOf
from edged.instruments.unit_state import UnitState, unit_state
from edged.operations.commands import CommandOperations
from edged.runs.bench import Bench, Stores
from edged.runs.left_work import LeftWork
from edged.runs.recordings.append import THE_DISK, Disk
from edged.sharing.leases import Leases
from edged.store.database import Database
from edged.store.kept import keep_key
from edged.transports.visa import VisaLibrary

if TYPE_CHECKING:
    from edged.runs.experiments.run import Plan


class Core:
    """These parts; ``path`` is made once who extends it knows of all operations.

    Args:
        knowledge: gives the profiles and the bench file as they are now.
        visa: opens the addresses that are visited after a crash.
        database: where it keeps its rows.
        is_supervised: another engine is begun when this one dies.
        visited: what first aid has seen to, by the ids of journal entries.
        watch_of: who wants to be told of jobs on lines.
        disk: writes recordings.

    Attributes:
        bench: what the parts share.
        work: what runs by itself, and what ends it.
    """

    # Made by ``_make_path`` of whoever extends it.
    _path: CommandPath

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock,
        knowledge: Callable[[], Knowledge],
        visa: VisaLibrary,
        database: Database,
        is_supervised: bool,
        visited: Mapping[str, LeftWork],
        watch_of: JobWatchOf | None = None,
        disk: Disk = THE_DISK,
    ) -> None:
        self._config = config
        self._disk = disk
        self._is_supervised = is_supervised
        self._clock = clock
        self._knowledge = knowledge
        self._visa = visa
        self._pool = InstrumentPool(
            clock=clock, max_block_mb=config.max_block_mb, watch_of=watch_of
        )
        self._stores = Stores(config, self._pool, clock, database)
        self._bench = bench = Bench(
            config=config,
            clock=clock,
            store=self._stores,
            pool=self._pool,
            new_id=_action_ids(),
            perform=self._perform,
            precheck=self._precheck,
            tell=self._tell,
            state_of=self._state_of,
        )
        self._record = AuditRecord(
            audit=self._stores.audit,
            capability=self._stores.capability,
            clock=clock,
            id_of=self._id_of,
        )
        self._counts = CountedRecord(self._record)
        self._permissions = Permissions(_direct_grant(config))
        self._make_rules(bench)
        self._make_work(bench, visited)
        self.bench, self.work = bench, self._work

    def _make_rules(self, bench: Bench) -> None:
        """What is asked before a write; of these, some are read from parts that come later."""
        config, clock = bench.config, bench.clock
        self._catalog = Catalog()
        lockouts = self._stores.lockouts
        self._locked_out = locked_out(self._stores.lockout_of, lockouts.find, lockouts)
        self._policy = Policy(
            config.raw_scpi,
            self._permissions,
            lambda instrument: self._guards.interlocks.guarding(instrument),
        )
        leases = Leases(most_s=config.lease_max_sec, called=lambda unit: self._leases.called(unit))
        self._leased = Leased(leases, clock)
        self._send_guards = SendGuards(
            self._locked_out,
            self._policy.check_again,
            self._leased,
            lambda action, target: self._guards.interlocks.send_guard(action, target),
        )
        self._sdk = SdkParts(bench, profile_keys=self._knowledge().library.profiles)
        self._leases = LeaseControl(
            bench,
            leases=leases,
            wrappers=self._sdk.wrapper_ids,
            end_run=lambda run_id, is_held: self._work.end_run(run_id, is_held),
            on_change=lambda: self._approvals.look(),
        )
        self._approvals = ApprovalControl(
            bench,
            key=keep_key(config.state_dir),
            recheck=lambda action, target: self._path.check_still_free(action, target),
        )
        self._budgets = BudgetControl(bench)

    def _make_work(self, bench: Bench, visited: Mapping[str, LeftWork]) -> None:
        """What runs by itself, and what ends it."""
        self._acquisitions = Acquisitions()
        self._memory = Memory(lambda unit, output: self._guards.hear_on(unit, output))
        self._work = LongWork(
            bench,
            profiles=lambda: self._knowledge().library.profiles,
            visa=self._visa,
            visited=visited,
            recall=self._recall,
            wrapper_aborts=self._sdk.aborts,
            leases=self._leases,
            new_plan=self._budgets.plan,
            disk=self._disk,
            rehearse=self._rehearse,
        )
        self._lockout = LockoutControl(
            bench,
            stop_on=(
                self._work.stop_on,
                self._sdk.stop_calls_on,
                self._approvals.look_on,
            ),
            is_wrapper=self._sdk.is_wrapper,
        )
        self._guards = Guards(
            bench,
            work=self._work,
            lockout=self._lockout,
            memory=self._memory,
            is_first_look_over=self._is_first_look_over,
            is_supervised=self._is_supervised,
        )

    async def _perform(self, action: Action) -> Outcome:
        """The command path, for parts that are made before it."""
        return await self._path.perform(action)

    def _precheck(
        self, action: Action, conflicts: list[EdgedError] | None = None
    ) -> tuple[str, ...]:
        return self._path.precheck(action, conflicts)

    def _state_of(self, instrument: Instrument) -> UnitState:
        is_locked = self._stores.lockout_of(instrument) is not None
        return unit_state(instrument, is_locked=is_locked, is_aside=self._is_aside)

    def _is_aside(self, address: str) -> bool:  # noqa: ARG002 - of whoever looks at buses
        """Whether what is at an address hangs, is no instrument or cannot be opened."""
        return False

    def _is_first_look_over(self) -> bool:
        """Whether each unit that may be there has been asked once."""
        return True

    def _id_of(self, name: str) -> str:
        try:
            return self._pool.get(name).id
        except NotFound:
            return name

    def _tell(self, name: str, text: str, instrument_id: str, part: str) -> None:
        """Write a row about what nobody called for."""
        self._stores.audit.event(name, text, instrument=instrument_id, part=part)

    def _runs_on(self, instrument: Instrument) -> list[str]:
        """The ids of the runs that use an instrument."""
        writing = self._leases.run_on(instrument)
        ids = (*self._work.runs_on(instrument.id), *filter(None, [writing]))
        return list(dict.fromkeys(ids))

    async def _rehearse(self, plan: Plan) -> dict[str, Any]:
        """Run an experiment on twins; what it came to.

        Raises:
            Conflict: this is a rehearsal already.
        """
        raise Conflict(f"{plan.experiment.name} is being rehearsed already.")

    def _recall(self, cause: Cause) -> None:
        """Everything is being stopped: what was judged, or waits for a yes, is begun no more."""
        self._send_guards.stop(cause)
        self._approvals.stop_all(cause)

    def _make_path(
        self, more: Mapping[type[Action], Operation], present_tool: PresentTool
    ) -> CommandPath:
        """The command path.

        Args:
            more: what can be asked beside commands, sequences, sweeps, streams and runs.
            present_tool: see ``CommandPath``.
        """
        commands = CommandOperations(
            sequences=self._work.sequences,
            captures=Captures(self._work.waveforms, self._acquisitions),
            acquisitions=self._acquisitions,
            memory=self._memory,
            clock=self._clock,
            on_safe=self._work.note_safe,
        )
        return CommandPath(
            permissions=self._permissions,
            resolver=Resolver(
                pool=self._pool,
                catalog=self._catalog,
                find_spec=self._sdk.find_spec,
            ),
            policy=self._policy,
            preconditions=(
                self._locked_out,
                self._leased.permit,
                swept(self._work.sweeps.claims),
                unknown_beside_runs(self._runs_on),
                self._budgets,
            ),
            record=self._counts,
            operations={
                **commands.table(),
                **self._work.operations(
                    self._memory, self._acquisitions.note_stopped, self._approvals.obtain
                ),
                **more,
            },
            clock=self._clock,
            present_tool=present_tool,
            send_guards=self._send_guards,
            approvals=self._approvals,
            interlocks=self._guards.interlocks,
            budgets=self._budgets,
            note_told=noting_tellings(self._guards.note_told, self._guards.dead_man.before),
        )


def _direct_grant(config: Config) -> Grant:
    return Grant(tools=config.direct_tools_allow, danger=config.direct_danger_allow)


def _action_ids() -> Callable[[], str]:
    """Ids that no other start of this daemon gives again: a random part a start, then a count."""
    # Without a function of Python's own: each call wants one.
    return map(f"{secrets.token_hex(5)}-{{}}".format, itertools.count(1)).__next__
