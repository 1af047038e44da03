"""Leases of the bench: given, kept by calls and runs, ended, and written down.

Who may have what is ``sharing.leases``'; what refuses others' writes is ``preconditions.Leased``.
Here they meet the instruments, the clock, the runs that were begun under them, and the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

import structlog

from edged.actions.caller import Caller
from edged.changes import TOLD
from edged.commands.preconditions import holder_of
from edged.commands.target import moment
from edged.errors import Conflict, EdgedError, ErrorCode, Invalid, NotFound
from edged.instruments.instrument import Instrument
from edged.profiles.unit_rules import OnExpiry
from edged.record import part, record
from edged.runs.bench import Bench
from edged.runs.units import unit_of_instrument
from edged.runs.wording import held_by
from edged.sharing.leases import MOST_OF_A_RUN_S, End, Holder, Lease, Leases

log = structlog.get_logger("edged.leases")

ALL: Final = "all"
NOTED_AFTER: Final = 0.05
"""Of its ttl_s: a renewal that moves its end by less is not written down."""

EndRun = Callable[[str, bool], Awaitable[object]]
"""Ends a sweep or sequence: its id, and whether a sweep is parked and not aborted."""


def _how_presented(caller: Caller) -> str:
    """How a caller shows that it is the one who has a lease.

    Many clients open a session for each call, which nobody here can know: they are told, too.
    """
    give = "give the lease_id as the argument `lease` of every call that writes"
    if caller.claims is not None:
        return f"Calls with a token of your subject need nothing more. From elsewhere {give}."
    if caller.session_id:
        return (
            f"{give[0].upper()}{give[1:]}. You may leave it out only if your client keeps one "
            "session for all its calls."
        )
    return (
        f"You have no session, so nothing but the lease_id shows that you are its holder: {give}, "
        "else the call is refused."
    )


class LeaseStanding(enum.Enum):
    """Whose an instrument is."""

    FREE = "free"
    OWN = "own"
    ANOTHERS = "another's"


@record(kw_only=False)
class _Run:
    """A run that writes: to which instruments, by unit; whose, and under which lease, if any."""

    on: Mapping[str, Instrument]
    holder: Holder
    began_s: float
    lease_id: str


@part
class LeaseControl:
    """All that is done with leases. Lives on the event loop.

    Attributes:
        leases: who has what.
        wrappers: gives the ids of the SDK wrappers, which are leased like instruments.
        end_run: ends what runs when the lease does that it was begun under.
        on_change: told whenever anything was given or has ended.
        changes: how often anything was given or ended.
    """

    bench: Bench
    leases: Leases
    wrappers: Callable[[], Collection[str]]
    end_run: EndRun
    on_change: Callable[[], None]
    _runs: dict[str, _Run] = field(default_factory=dict)
    _noted_ms: dict[str, int] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    # When it is looked next whether one has ended, in monotonic seconds.
    _looks_at_s: float = float("-inf")
    _watching: asyncio.Task[None] | None = None
    _ending: set[asyncio.Task[None]] = field(default_factory=set)
    changes: int = 0

    def start(self, runs: Collection[str] = ()) -> None:
        """Take over what a former life left, once the database was read.

        Args:
            runs: the ids of those that may go on: the leases of other runs are dropped.
        """
        self.leases.restore(
            self.bench.store.leases.left,
            self.bench.store.leases.left_fences,
            moment(self.bench.clock),
        )
        for lease in self.leases.all(moment(self.bench.clock)):
            if lease.run_id and lease.run_id not in runs:
                self._drop(lease)
        self._watching = asyncio.create_task(self._watch(), name="leases")

    async def stop(self) -> None:
        """End watching; leases stay, and count on."""
        tasks = [*self._ending, *filter(None, [self._watching])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._note()

    # What a caller asks for

    async def reserve(
        self, caller: Caller, names: Sequence[str] | str, *, ttl_s: float, purpose: str
    ) -> dict[str, Any]:
        """Give a caller units to itself, all or none.

        Args:
            names: ids, aliases or serial numbers, or ``all``: those registered now.

        Returns:
            ``{lease_id, expires_ms, fence, instruments, how}``; on disk by then.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT.
            Conflict: LEASED, or another's run is under way there.
            Refused: DENIED_BY_OWNER, this bench gives none.
            Failed: STORE_FAILED; nothing was given.
        """
        holder, units = holder_of(caller), self._meant(names)
        now = moment(self.bench.clock)
        lease = self.leases.reserve(
            tuple(units), holder=holder, purpose=purpose, ttl_s=ttl_s, now=now
        )
        await self._keep_granted(lease, holder)
        return {
            "lease_id": lease.lease_id,
            "expires_ms": lease.expires_ms(moment(self.bench.clock)),
            "fence": lease.fence,
            "instruments": list(units.values()),
            "how": _how_presented(caller),
        }

    async def take(
        self, run_id: str, caller: Caller, names: Sequence[str] | str, hours: float
    ) -> str:
        """Give a run that writes its units to itself, all or none; see ``runs.ports.RunLeases``.

        Returns:
            The id of the lease, a secret: with it its client may write while the run is paused.
        """
        most_h = MOST_OF_A_RUN_S / 3600
        if not 0 < hours <= most_h:
            raise Invalid(
                f"A run reserves its units for more than 0 and at most {most_h:g} h, "
                f"not {hours:g} h.",
                data={"parameter": "at_most_h", "value": hours},
            )
        units, wrappers = self._meant(names), self.wrappers()
        instruments = {
            unit: self.bench.pool.get(name) for unit, name in units.items() if name not in wrappers
        }
        holder, now = replace(holder_of(caller), run_id=run_id), moment(self.bench.clock)
        lease = self.leases.reserve_for_run(
            tuple(units), holder=holder, for_s=hours * 3600, now=now
        )
        # Its own client's runs are in the way, too: what they write would be kept out.
        await self._keep_granted(lease, replace(holder, key="", lease_id=""))
        began_s = self.bench.clock.monotonic()
        self._runs[run_id] = _Run(instruments, holder, began_s, lease.lease_id)
        return lease.lease_id

    async def _keep_granted(self, lease: Lease, holder: Holder) -> None:
        """Have it on disk, unless a run that is not the holder's writes to one of its units."""
        lasting = self.leases.all(moment(self.bench.clock))
        try:
            # In the same breath: nothing of another's can have begun since.
            self._refuse_runs_of_others(lease.units, holder)
            await self.bench.store.leases.keep(lasting, self.leases.fences)
        except BaseException:
            self._drop(lease)
            raise
        self._note()

    def pause(self, run_id: str, is_paused: bool) -> None:
        """A run that has taken its units is paused, or goes on."""
        for lease in self.leases.all(moment(self.bench.clock)):
            if lease.run_id == run_id:
                lease.is_paused = is_paused
                self._note()

    def end(self, run_id: str) -> None:
        """A run that has taken its units is over; may be told twice."""
        self._runs.pop(run_id, None)
        for lease in self.leases.all(moment(self.bench.clock)):
            if lease.run_id == run_id:
                self._drop(lease)

    def _drop(self, lease: Lease) -> None:
        with contextlib.suppress(NotFound):
            self.leases.end(lease.lease_id, now=moment(self.bench.clock))
        self._note()

    async def renew(self, lease_id: str, ttl_s: float | None) -> dict[str, Any]:
        """Let a lease last from now.

        Raises:
            NotFound: UNKNOWN_LEASE.
            Failed: STORE_FAILED; it is renewed, until a crash.
        """
        now = moment(self.bench.clock)
        lease = self.leases.renew(lease_id, now=now, ttl_s=ttl_s)
        self._note()
        await self.bench.store.leases.keep(self.leases.all(now), self.leases.fences)
        return {"lease_id": lease_id, "expires_ms": lease.expires_ms(now)}

    async def release(self, lease_id: str) -> dict[str, Any]:
        """End a lease at once; what runs under it is dealt with as the owner says.

        Raises:
            NotFound: UNKNOWN_LEASE.
            Failed: STORE_FAILED; it has ended, until a crash.
        """
        return await self._end(self.leases.get(lease_id, moment(self.bench.clock)), End.RELEASED)

    async def break_(self, name: str, *, reason: str, by: str) -> dict[str, Any]:
        """The owner ends one, by its id or by what it holds; its holder is not asked.

        Raises:
            NotFound: UNKNOWN_LEASE, there is none of that.
            Failed: STORE_FAILED, as ``release``.
        """
        return await self._end(self._named(name), End.BROKEN, f" by {by}: {reason}")

    def listed(self, *, with_ids: bool = False) -> list[dict[str, Any]]:
        """All leases, oldest first; their ids are for the owner alone."""
        if not self.leases.is_any:
            return []
        now = moment(self.bench.clock)
        return [
            {
                **({"lease_id": lease.lease_id} if with_ids else {}),
                **self._told(lease),
                "instruments": [self.called(unit) for unit in lease.units],
                "granted_ms": lease.granted_ms,
            }
            for lease in self.leases.all(now)
        ]

    def holder_keys(self) -> frozenset[str]:
        """The ``Caller.key`` of everybody who holds a lease."""
        if not self.leases.is_any:
            return frozenset()
        return frozenset(lease.holder_key for lease in self.leases.all(moment(self.bench.clock)))

    def of(self, instrument: Instrument) -> dict[str, Any] | None:
        """Who has an instrument: ``{who, purpose, expires_ms}``."""
        if not self.leases.is_any:
            return None
        lease = self.leases.of(unit_of_instrument(instrument).key, moment(self.bench.clock))
        return None if lease is None else self._told(lease)

    def standing(self, caller: Caller, instrument: Instrument) -> LeaseStanding:
        """Whose an instrument is just now, as a caller sees it."""
        if not self.leases.is_any:
            return LeaseStanding.FREE
        lease = self.leases.of(unit_of_instrument(instrument).key, moment(self.bench.clock))
        if lease is None:
            return LeaseStanding.FREE
        is_own = self.leases.is_of(lease, holder_of(caller))
        return LeaseStanding.OWN if is_own else LeaseStanding.ANOTHERS

    def check_presented(self, caller: Caller, instrument: Instrument) -> None:
        """Refuse a lease that a caller presents and that does not open an instrument.

        Raises:
            NotFound: UNKNOWN_LEASE, there is none with that id, or it has ended.
            Conflict: LEASED, it is of other instruments.
        """
        unit = unit_of_instrument(instrument).key
        self.leases.permit(unit, holder_of(caller), moment(self.bench.clock))

    # What keeps one

    def keep(self, caller: Caller) -> Callable[[], None] | None:
        """A call begins: what its caller holds is renewed; what is given back ends that."""
        if not self.leases.is_any:
            return None
        held = self.leases.begin_call(holder_of(caller), moment(self.bench.clock))
        if not held:
            return None
        return functools.partial(self._call_over, held)

    def _call_over(self, held: Iterable[Lease]) -> None:
        self.leases.end_call(held, moment(self.bench.clock))
        next_s = self.leases.next_end_s()
        if next_s is not None and next_s < self._looks_at_s:
            self._changed.set()
        for lease in held:
            moved_ms = lease.until.wall_ms - self._noted_ms.get(lease.lease_id, 0)
            if abs(moved_ms) > lease.ttl_s * 1_000 * NOTED_AFTER:
                self._note()

    def run_began(self, run_id: str, instrument_id: str, caller: Caller) -> None:
        """A run that writes begins; see ``runs.ports.RunLeases``."""
        instrument = self.bench.pool.get(instrument_id)
        unit, holder = unit_of_instrument(instrument).key, holder_of(caller)
        lease_id = ""
        if self.leases.is_any:
            now = moment(self.bench.clock)
            lease = self.leases.of(unit, now)
            if lease is not None and self.leases.is_of(lease, holder):
                lease_id = lease.lease_id
                self.leases.begin_run(lease_id, now)
        began_s = self.bench.clock.monotonic()
        self._runs[run_id] = _Run({unit: instrument}, holder, began_s, lease_id)

    def run_on(self, instrument: Instrument) -> str:
        """The id of a run that writes to an instrument; empty: none does."""
        unit = unit_of_instrument(instrument).key
        return next((run_id for run_id, run in self._runs.items() if unit in run.on), "")

    def run_ended(self, run_id: str) -> None:
        """It is over, for the first or another time."""
        run = self._runs.pop(run_id, None)
        if run is not None and run.lease_id:
            self.leases.end_run(run.lease_id, moment(self.bench.clock))
            self._note()

    # Ends

    async def _watch(self) -> None:
        """Tell of those that time ends, when it does."""
        while True:
            for lease, why in self.leases.ended(moment(self.bench.clock)):
                self._over(lease, why, "")
            self._changed.clear()
            next_s = self.leases.next_end_s()
            self._looks_at_s = float("inf") if next_s is None else next_s
            wait_s = None if next_s is None else max(0.0, next_s - self.bench.clock.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait_s == float("inf") else wait_s):
                    await self._changed.wait()

    async def _end(self, lease: Lease, why: End, how: str = "") -> dict[str, Any]:
        now = moment(self.bench.clock)
        self.leases.end(lease.lease_id, now=now)
        self._over(lease, why, how)
        await self.bench.store.leases.keep(self.leases.all(now), self.leases.fences)
        return {"instruments": [self.called(unit) for unit in lease.units], "who": lease.who}

    def _over(self, lease: Lease, why: End, how: str) -> None:
        """A lease has ended: its runs, the record, the disk."""
        units = ", ".join(map(self.called, lease.units))
        self.bench.tell("lease.ended", f"{units}, of {lease.who}: {why.value}{how}", "", "leases")
        under = {key: run for key, run in self._runs.items() if run.lease_id == lease.lease_id}
        for run_id, run in under.items():
            said = {one.rules.on_expiry or OnExpiry.KEEP for one in run.on.values()}
            wanted = max(said, key=[*OnExpiry].index, default=OnExpiry.KEEP)
            if wanted is not OnExpiry.KEEP:
                task = asyncio.create_task(
                    self._end_one(run_id, is_held=wanted is OnExpiry.HOLD), name=f"{run_id}-lease"
                )
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        self._noted_ms.pop(lease.lease_id, None)
        self._note()

    async def _end_one(self, run_id: str, *, is_held: bool) -> None:
        try:
            await self.end_run(run_id, is_held)
        except EdgedError as failed:
            log.warning("run_not_ended", run_id=run_id, reason=str(failed))

    def _note(self) -> None:
        """Something has changed: have it written down, and look when the next one ends."""
        self.changes += 1
        TOLD.note()
        self.on_change()
        lasting = self.leases.all(moment(self.bench.clock))
        self._noted_ms = {lease.lease_id: lease.until.wall_ms for lease in lasting}
        self.bench.store.leases.note(lasting, self.leases.fences)
        self._changed.set()

    # Names

    def called(self, unit: str) -> str:
        """What the owner calls a unit, else its id, else what the lease knows it by."""
        for instrument in self.bench.pool.known():
            if unit_of_instrument(instrument).key == unit:
                return instrument.alias or instrument.id
        return unit

    def _meant(self, names: Sequence[str] | str) -> Mapping[str, str]:
        """The keys of units, and the ids of what was meant by them."""
        asked = [names] if isinstance(names, str) else names
        wrappers = self.wrappers()
        if ALL in asked:
            found = {unit_of_instrument(one).key: one.id for one in self.bench.pool.all()}
            found.update({name: name for name in wrappers})
        else:
            found = {}
            for name in asked:
                if name in wrappers:
                    found[name] = name
                else:
                    instrument = self.bench.pool.get(name)
                    found[unit_of_instrument(instrument).key] = instrument.id
        if not found:
            raise Invalid(
                "There is nothing to reserve: no instrument is registered, or none was named.",
                data={"parameter": "instruments"},
                remedy="list_instruments shows what there is.",
            )
        return found

    def _named(self, name: str) -> Lease:
        now = moment(self.bench.clock)
        with contextlib.suppress(NotFound):
            return self.leases.get(name, now)
        units = [name]
        with contextlib.suppress(NotFound):
            units.append(unit_of_instrument(self.bench.pool.get(name)).key)
        for unit in units:
            lease = self.leases.of(unit, now)
            if lease is not None:
                return lease
        raise NotFound(
            f"There is no lease {name[:64]!r}, nor one of an instrument of that name.",
            code=ErrorCode.UNKNOWN_LEASE,
            remedy="leases.list shows those there are.",
        )

    def _refuse_runs_of_others(self, units: Collection[str], holder: Holder) -> None:
        for run_id, run in self._runs.items():
            mine = run.holder
            is_own = (bool(holder.key) and holder.key == mine.key) or (
                bool(holder.lease_id) and holder.lease_id == mine.lease_id
            )
            used = next((unit for unit in run.on if unit in units), "")
            if used and not is_own:
                held = held_by(run_id, mine.who, self.bench.clock.monotonic() - run.began_s)
                raise Conflict(
                    f"{self.called(used)} is {held}.",
                    code=ErrorCode.LEASED,
                    data={"run_id": run_id, "who": mine.who},
                    remedy="Wait for its end, or have it stopped with bench__stop_run.",
                )

    def _told(self, lease: Lease) -> dict[str, Any]:
        expires_ms = lease.expires_ms(moment(self.bench.clock))
        run = {"run_id": lease.run_id} if lease.run_id else {}
        return {"who": lease.who, "purpose": lease.purpose, "expires_ms": expires_ms, **run}
