"""Leases: units of the bench that one caller has to itself for a while. Pure.

A lease ends when it is released, broken by the owner, has not been used for its ``ttl_s``, or when
``most_s`` have passed since it was granted. A call of its holder renews it and keeps it while it
lasts; a run of its holder keeps it, too, but no longer than ``most_s``. Each grant of a unit has a
higher fence than the one before, so that what was judged under one lease is not sent under another.

A run with a plan reserves what it writes to for itself, for as long as its plan says. Then its
client's other calls are kept out like anybody's, but for the time that the run is paused.

Source: docs/sharing.md; OPC 10000-100 (Devices) section 8.3 (MaxInactiveLockTime, BreakLock); the
fence: M. Kleppmann, "How to do distributed locking" (2016).
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import Final

from edged.errors import Conflict, ErrorCode, NotFound, Refused
from edged.record import part, record

DEFAULT_TTL_S: Final = 900
LEAST_TTL_S: Final = 30
MOST_TTL_S: Final = 43_200
MOST_OF_A_RUN_S: Final = 7 * 86_400.0
_ID_BYTES: Final = 16
"""128 random bits: who has the id has the units."""


def new_lease_id() -> str:
    """One that nobody guesses."""
    return f"lease-{secrets.token_urlsafe(_ID_BYTES)}"


class End(enum.StrEnum):
    """What ended a lease."""

    RELEASED = "released"
    BROKEN = "broken"
    UNUSED = "unused"
    TOO_LONG = "too_long"


@record(kw_only=False)
class Moment:
    """Now, on both scales: monotonic seconds, and Unix epoch milliseconds."""

    monotonic_s: float
    wall_ms: int

    def age_s(self, now: Moment) -> float:
        """How long ago this was at least; it may have been in a former life of the daemon.

        The monotonic clock counts from the machine's start: while it goes on, it never tells more
        than has passed, whatever was done to the wall clock. Only where it began anew the wall
        clock has to be believed; what lies in its future counts as just now.
        """
        passed_s = now.monotonic_s - self.monotonic_s
        return passed_s if passed_s >= 0 else max(0.0, (now.wall_ms - self.wall_ms) / 1000)


@record(kw_only=False)
class Holder:
    """Who asks.

    Attributes:
        key: what it is known by again (a subject of the relay, an MCP session); empty: by nothing.
        who: its name, for people.
        lease_id: the lease that it presents, if it does.
        run_id: the run that asks, if it is one.
    """

    key: str
    who: str
    lease_id: str = ""
    run_id: str = ""


@record(frozen=False)
class Lease:
    """One lease; its id is its holder's secret.

    Only its ``until``, ``ttl_s`` and ``is_paused`` ever change, each as a whole.

    Attributes:
        units: keys of the physical units (``runs.units``).
        holder_key: ``Holder.key`` of who was granted it; empty: only its id opens it.
        fence: higher than that of any earlier lease of these units.
        until: when it ends if it is not used, on both scales.
        last: when it ends however much it is used.
        run_id: the run whose it is; empty: it is its holder's.
        is_paused: that run is, so that its holder may write meanwhile.
    """

    lease_id: str = field(repr=False)
    units: tuple[str, ...]
    holder_key: str
    who: str
    purpose: str
    ttl_s: float
    fence: int
    granted_ms: int
    until: Moment
    last: Moment
    run_id: str = ""
    is_paused: bool = False

    def expires_ms(self, now: Moment) -> int:
        """When it ends if nothing keeps it, by the wall's clock of now."""
        left_s = min(self.until.monotonic_s, self.last.monotonic_s) - now.monotonic_s
        return now.wall_ms + max(0, round(left_s * 1_000))


@record(kw_only=False)
class Permit:
    """Under what a write was judged: its caller's lease of that unit."""

    unit: str
    fence: int


def _as_it_is(unit: str) -> str:
    return unit


@part
class Leases:
    """All leases.

    Asked by any thread, changed on one: what is asked is only ever replaced whole.

    Attributes:
        most_s: how long any lease lasts at most; 0: none are given.
        new_id: makes their ids.
        called: what a unit is called to people.
    """

    most_s: float
    new_id: Callable[[], str] = new_lease_id
    called: Callable[[str], str] = _as_it_is
    _by_id: Mapping[str, Lease] = field(default_factory=dict)
    # Whether anything is leased, or was until a moment ago.
    is_any: bool = False
    _by_unit: Mapping[str, Lease] = field(default_factory=dict)
    _fences: dict[str, int] = field(default_factory=dict)
    _calls: dict[str, int] = field(default_factory=dict)
    _runs: dict[str, int] = field(default_factory=dict)
    # Granting and ending

    def reserve(
        self, units: Collection[str], *, holder: Holder, purpose: str, ttl_s: float, now: Moment
    ) -> Lease:
        """Grant all of these units, or none.

        Raises:
            Refused: DENIED_BY_OWNER, this daemon gives none.
            Conflict: LEASED, somebody has one of them; also the holder itself.
        """
        if self.most_s <= 0:
            raise Refused(
                "This bench gives no leases (LEASE_MAX_SEC is 0).",
                code=ErrorCode.DENIED_BY_OWNER,
                remedy="Work without one; a running sweep holds its parameter by itself.",
            )
        return self._grant(units, holder, purpose, ttl_s, self.most_s, now)

    def reserve_for_run(
        self, units: Collection[str], *, holder: Holder, for_s: float, now: Moment
    ) -> Lease:
        """Grant all of these units to the run that asks, or none.

        What its client has reserved for itself is the run's until that ends.

        Raises:
            Conflict: LEASED, somebody else has one of them, or another run.
        """
        return self._grant(units, holder, holder.run_id, for_s, for_s, now)

    def _grant(
        self,
        units: Collection[str],
        holder: Holder,
        purpose: str,
        ttl_s: float,
        most_s: float,
        now: Moment,
    ) -> Lease:
        taken = {unit: lease for unit in units if (lease := self.of(unit, now)) is not None}
        conflicts = [
            self.conflict(unit, lease, holder, now)
            for unit, lease in taken.items()
            if lease.run_id or not (holder.run_id and _is_of(lease, holder))
        ]
        if conflicts:
            conflicts[0].message = " ".join(one.message for one in conflicts)
            raise conflicts[0]
        self._drop_ended(now)
        fence = 1 + max((self._fences.get(unit, 0) for unit in units), default=0)
        lease = Lease(
            lease_id=self.new_id(),
            units=tuple(units),
            holder_key=holder.key,
            who=holder.who,
            purpose=purpose,
            ttl_s=ttl_s,
            fence=fence,
            granted_ms=now.wall_ms,
            until=_later(now, ttl_s),
            last=_later(now, most_s),
            run_id=holder.run_id,
        )
        self._fences.update(dict.fromkeys(lease.units, fence))
        self._replace({**self._by_id, lease.lease_id: lease})
        return lease

    def renew(self, lease_id: str, *, now: Moment, ttl_s: float | None = None) -> Lease:
        """Let it last ``ttl_s`` from now, never longer than it may at most.

        Raises:
            NotFound: UNKNOWN_LEASE, there is none with that id, or it has ended.
        """
        lease = self.get(lease_id, now)
        lease.ttl_s = lease.ttl_s if ttl_s is None else ttl_s
        lease.until = _later(now, lease.ttl_s)
        return lease

    def end(self, lease_id: str, *, now: Moment) -> Lease:
        """End it at once, whatever its holder is doing.

        Raises:
            NotFound: UNKNOWN_LEASE.
        """
        lease = self.get(lease_id, now)
        self._forget(lease)
        return lease

    def ended(self, now: Moment) -> tuple[tuple[Lease, End], ...]:
        """Those that time has ended since this was last asked; they are forgotten."""
        over = [lease for lease in self._by_id.values() if self._is_over(lease, now)]
        for lease in over:
            self._forget(lease)
        return tuple((lease, _end_of(lease, now)) for lease in over)

    def next_end_s(self) -> float | None:
        """The monotonic time at which the next one may end; ``None``: nothing is leased."""
        return min((self._ends_s(lease) for lease in self._by_id.values()), default=None)

    # What keeps a lease

    def begin_call(self, holder: Holder, now: Moment) -> tuple[Lease, ...]:
        """A call of a holder: what it has is renewed, and not ended by time while that lasts."""
        held = tuple(
            lease
            for lease in self._by_id.values()
            if _is_of(lease, holder)
            and not self._is_over(lease, now)
            # One that only an earlier call keeps is not kept by another.
            and now.monotonic_s < lease.last.monotonic_s
        )
        for lease in held:
            lease.until = _later(now, lease.ttl_s)
            self._calls[lease.lease_id] = self._calls.get(lease.lease_id, 0) + 1
        return held

    def end_call(self, held: Iterable[Lease], now: Moment) -> None:
        """That call is over; a lease that has ended meanwhile stays ended."""
        for lease in held:
            self._leave(self._calls, lease.lease_id, now)

    def begin_run(self, lease_id: str, now: Moment) -> None:
        """A run that was begun under it keeps it, no longer than it may last at most."""
        self.renew(lease_id, now=now)
        self._runs[lease_id] = self._runs.get(lease_id, 0) + 1

    def end_run(self, lease_id: str, now: Moment) -> None:
        """That run is over: it lasts ``ttl_s`` from now."""
        self._leave(self._runs, lease_id, now)

    # Asking

    @staticmethod
    def is_of(lease: Lease, holder: Holder) -> bool:
        """Whether it is that holder's: who presents an id has it by that alone."""
        return _is_of(lease, holder)

    def get(self, lease_id: str, now: Moment) -> Lease:
        """The lease with that id.

        Raises:
            NotFound: UNKNOWN_LEASE, there is none, or it has ended.
        """
        lease = self._by_id.get(lease_id)
        if lease is None or self._is_over(lease, now):
            raise NotFound(
                "The lease that was given does not exist, or has ended.",
                code=ErrorCode.UNKNOWN_LEASE,
                remedy="Reserve again with bench__reserve and present the new id as the argument "
                "`lease`, or leave it out: a unit that nobody has reserved needs none.",
            )
        return lease

    def all(self, now: Moment) -> tuple[Lease, ...]:
        """Those that have not ended, oldest first."""
        lasting = (lease for lease in self._by_id.values() if not self._is_over(lease, now))
        return tuple(sorted(lasting, key=lambda lease: lease.granted_ms))

    def of(self, unit: str, now: Moment) -> Lease | None:
        """The lease of a unit, if it has one."""
        lease = self._by_unit.get(unit)
        if lease is not None and lease.run_id and self._is_over(lease, now):
            # What its client has may be below it.
            lasting = (one for one in self._by_id.values() if unit in one.units)
            lease = next((one for one in lasting if not self._is_over(one, now)), None)
        return None if lease is None or self._is_over(lease, now) else lease

    def permit(self, unit: str, holder: Holder, now: Moment) -> Permit | None:
        """Judge a write; ``None`` where nobody has the unit.

        Raises:
            Conflict: LEASED, somebody else has the unit, or what the caller presents is of another.
            NotFound: UNKNOWN_LEASE, what the caller presents is none, or has ended.
        """
        if holder.lease_id:
            presented = self.get(holder.lease_id, now)
            if unit not in presented.units:
                units = ", ".join(map(self.called, presented.units))
                raise Conflict(
                    f"The lease that was presented is of {units}, not of {self.called(unit)}.",
                    code=ErrorCode.LEASED,
                    remedy="Reserve this one as well, or leave out the argument `lease`.",
                )
        lease = self.of(unit, now)
        if lease is None:
            return None
        if not _is_of(lease, holder):
            raise self.conflict(unit, lease, holder, now)
        return Permit(unit, lease.fence)

    def check_again(self, unit: str, permit: Permit | None, holder: Holder, now: Moment) -> None:
        """Judge a write once more when it is about to go out; from any thread.

        Args:
            permit: what ``permit`` gave.

        Raises:
            Conflict: LEASED, somebody else has the unit by now, or the lease it was judged under
                has ended, though its caller may have the unit again.
        """
        lease = self.of(unit, now)
        if lease is not None and not _is_of(lease, holder):
            raise self.conflict(unit, lease, holder, now)
        if permit is not None and (lease is None or lease.fence != permit.fence):
            raise Conflict(
                f"The call was ended by the end of the lease of {self.called(unit)} before it "
                "was sent.",
                code=ErrorCode.LEASED,
                remedy="Read the state of the instrument, reserve it again and call again.",
            )

    def conflict(self, unit: str, lease: Lease, holder: Holder, now: Moment) -> Conflict:
        """What a caller is told whom a lease keeps out: who, until when, what for, what to do."""
        if lease.run_id:
            return self._used_by_run(unit, lease)
        expires_ms = lease.expires_ms(now)
        left_s = max(0, (expires_ms - now.wall_ms) // 1_000)
        purpose = f" for {lease.purpose!r}" if lease.purpose else ""
        is_own = _is_of(lease, holder)
        # Two sessions of one program on one machine have one name.
        where = " in another session" if lease.who == holder.who and not is_own else ""
        remedy = (
            "You have reserved it already: bench__renew extends the lease, bench__release ends it."
            if is_own
            else "If it is yours, present its id as the argument `lease`. Reads and stops are "
            "allowed; else wait, ask the holder, or have the owner of the bench break the lease."
        )
        return Conflict(
            f"{self.called(unit)} is reserved by {lease.who}{where}{purpose}, for {left_s} s "
            "from now unless it is renewed.",
            code=ErrorCode.LEASED,
            data={"who": lease.who, "purpose": lease.purpose, "expires_ms": expires_ms},
            remedy=remedy,
        )

    def _used_by_run(self, unit: str, lease: Lease) -> Conflict:
        return Conflict(
            f"{self.called(unit)} is used by {lease.run_id} of {lease.who}.",
            code=ErrorCode.LEASED,
            data={"who": lease.who, "run_id": lease.run_id},
            remedy="Reads, safe commands and stops are allowed. Else wait for the end of that run, "
            "stop it, or have who started it pause it: then that caller may write.",
        )

    # A restart

    def restore(self, leases: Iterable[Lease], fences: Mapping[str, int], now: Moment) -> None:
        """Take over what a former life left.

        Each lasts to the earlier of its two clocks' deadlines, and never longer than it was
        renewed for: a clock that was set back does not lengthen it.
        """
        for unit, fence in fences.items():
            self._fences[unit] = max(fence, self._fences.get(unit, 0))
        taken = {
            lease.lease_id: replace(
                lease,
                until=_later(now, _left_s(lease.until, now, lease.ttl_s)),
                last=_later(
                    now,
                    _left_s(lease.last, now, MOST_OF_A_RUN_S if lease.run_id else self.most_s),
                ),
            )
            for lease in leases
        }
        for lease in taken.values():
            for unit in lease.units:
                self._fences[unit] = max(lease.fence, self._fences.get(unit, 0))
        self._replace({**taken, **self._by_id})
        self._drop_ended(now)

    @property
    def fences(self) -> Mapping[str, int]:
        """The last fence of each unit that was ever leased."""
        return dict(self._fences)

    def _is_over(self, lease: Lease, now: Moment) -> bool:
        return now.monotonic_s >= self._ends_s(lease)

    def _ends_s(self, lease: Lease) -> float:
        if self._calls.get(lease.lease_id):
            return float("inf")
        last_s = lease.last.monotonic_s
        return last_s if self._runs.get(lease.lease_id) else min(lease.until.monotonic_s, last_s)

    def _leave(self, counts: dict[str, int], lease_id: str, now: Moment) -> None:
        left = counts.get(lease_id, 0) - 1
        if left > 0:
            counts[lease_id] = left
        else:
            counts.pop(lease_id, None)
        lease = self._by_id.get(lease_id)
        if lease is not None:
            lease.until = _later(now, lease.ttl_s)

    def _drop_ended(self, now: Moment) -> None:
        for lease in tuple(self._by_id.values()):
            if self._is_over(lease, now):
                self._forget(lease)

    def _forget(self, lease: Lease) -> None:
        self._calls.pop(lease.lease_id, None)
        self._runs.pop(lease.lease_id, None)
        self._replace({key: kept for key, kept in self._by_id.items() if key != lease.lease_id})

    def _replace(self, by_id: Mapping[str, Lease]) -> None:
        self._by_id = by_id
        self.is_any = bool(by_id)
        # A run's lease lies above that of its client.
        above = sorted(by_id.values(), key=lambda lease: bool(lease.run_id))
        self._by_unit = {unit: lease for lease in above for unit in lease.units}


def _is_of(lease: Lease, holder: Holder) -> bool:
    if lease.run_id and (holder.run_id == lease.run_id or not lease.is_paused):
        return holder.run_id == lease.run_id
    if holder.lease_id:
        return holder.lease_id == lease.lease_id
    return bool(holder.key) and holder.key == lease.holder_key


def _later(now: Moment, seconds: float) -> Moment:
    return Moment(now.monotonic_s + seconds, now.wall_ms + round(seconds * 1_000))


def _left_s(until: Moment, now: Moment, at_most_s: float) -> float:
    by_wall_s = (until.wall_ms - now.wall_ms) / 1_000
    return min(until.monotonic_s - now.monotonic_s, by_wall_s, at_most_s)


def _end_of(lease: Lease, now: Moment) -> End:
    return End.TOO_LONG if now.monotonic_s >= lease.last.monotonic_s else End.UNUSED
