"""What stands in the way of an action just now, although it is allowed and well formed.

A precondition is a function from (action, target) that raises or lets pass; the path asks all of
them, in order, after the policy and before it validates, and a second time when the intent is on
disk. Safe commands are held back by nothing, nor is what is aimed at no instrument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from edged.actions.action import ENDS_WORK, Action, RunCommand, SendLines, SendScpi
from edged.actions.caller import Caller
from edged.clock import Clock
from edged.commands.target import Precondition, Target, moment
from edged.errors import Conflict, ErrorCode, Invalid, Refused
from edged.instruments.instrument import Instrument
from edged.profiles.template import render_lines
from edged.runs.sweeps.conflicts import SweepClaims
from edged.runs.units import unit_of_instrument
from edged.sharing.leases import Holder, Leases, Permit
from edged.store.lockouts import Lockout, Lockouts


def locked_out(
    find: Callable[[Instrument], Lockout | None],
    find_wrapper: Callable[[str], Lockout | None] = lambda _wrapper_id: None,
    book: Lockouts | None = None,
) -> Precondition:
    """Lockouts: every write is refused with the reason, reads pass.

    Args:
        find: the lockout of an instrument, if it has one.
        find_wrapper: the same of an SDK wrapper, by its id.
        book: where they are found: nothing is looked up while it has none.
    """

    def check(action: Action, target: Target) -> None:
        # Asked of every write four times, by any thread.
        if not target.is_write or target.is_let_through or (book is not None and not book.locked):
            return
        if isinstance(action, RunCommand | SendScpi | SendLines) and action.purpose in ENDS_WORK:
            return
        lockout = None
        if target.instrument is not None:
            lockout = find(target.instrument)
        elif target.spec is not None:
            lockout = find_wrapper(target.spec.wrapper_id)
        if lockout is None:
            return
        raise Refused(
            f"{target.called} is locked out by {lockout.by}: {lockout.reason.rstrip('.')}.",
            code=ErrorCode.LOCKED_OUT,
            data=lockout.to_json(),
            remedy="Reads and safe commands still work. Who locked it out lifts it, at the edge "
            "itself; no tool does.",
        )

    return check


def holder_of(caller: Caller) -> Holder:
    """Who a caller is to the leases."""
    return Holder(caller.key, caller.who, caller.lease, caller.on_behalf_of)


class Leased:
    """What time brings into force or ends: leases. Others do not write to what is reserved.

    Each call is asked twice: by ``permit`` as a precondition, and by ``check_again`` as each of its
    lines goes out, perhaps much later. Another rule of this kind is asked in both. A run
    goes on when the lease ends that it was begun under; what it writes is kept out by another's
    alone. (None is given of a unit that a run sets; it may be of one that a run only asks, by a
    question that counts as a write.)
    """

    def __init__(self, leases: Leases, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock

    def permit(self, action: Action, target: Target) -> Permit | None:
        """The precondition; gives what a write is judged under: ``None`` where nobody has its unit.

        Raises:
            Conflict: LEASED, or what is wrong with the lease that the caller presents.
        """
        caller = action.caller
        if not (self._leases.is_any or caller.lease) or not _is_held_back(action, target):
            return None
        if caller.on_behalf_of:
            self.check_again(action, target, None)
            return None
        return self._leases.permit(_unit(target), holder_of(caller), moment(self._clock))

    def check_again(self, action: Action, target: Target, permit: Permit | None) -> None:
        """The same when it is about to go out, with what ``permit`` gave; from any thread."""
        if (permit is None and not self._leases.is_any) or not _is_held_back(action, target):
            return
        holder = holder_of(action.caller)
        self._leases.check_again(_unit(target), permit, holder, moment(self._clock))


def _is_held_back(action: Action, target: Target) -> bool:
    if not target.is_write or target.is_safe or not target.is_aimed:
        return False
    if target.is_let_through and not target.clears_status:
        return False
    return getattr(action, "purpose", None) not in ENDS_WORK


def _unit(target: Target) -> str:
    if target.instrument is not None:
        return unit_of_instrument(target.instrument).key
    return target.instrument_id


def swept(claims: SweepClaims) -> Precondition:
    """What sweeps hold: one sweep a parameter of an instrument, and no other writer."""

    def check(action: Action, target: Target) -> None:
        """Raises ``Conflict`` SWEEP_CONFLICT with the sweep's id."""
        instrument = target.instrument
        if instrument is None or not isinstance(action, RunCommand | SendScpi):
            return
        if target.is_write and claims.held and claims.holds_on(instrument.id):
            lines = _lines(action, target)
            if target.parts and not any(p.matches or p.is_unknown for p in target.parts):
                # Common, or listed by the owner as harmless.
                lines = ()
            claims.refuse_writer(
                instrument.id,
                lines,
                action.caller.on_behalf_of,
                is_raw=isinstance(action, SendScpi),
            )

    return check


def unknown_beside_runs(runs_on: Callable[[Instrument], Iterable[str]]) -> Precondition:
    """Raw lines that may do anything, while a run uses their unit.

    Args:
        runs_on: the ids of the runs that use an instrument.
    """

    def check(action: Action, target: Target) -> None:
        """Raises ``Conflict`` SWEEP_CONFLICT with the run's id."""
        if not target.parts or not target.is_unknown or target.instrument is None:
            return
        own = action.caller.on_behalf_of
        run_id = next((one for one in runs_on(target.instrument) if one != own), "")
        if not run_id:
            return
        raise Conflict(
            f"{target.called} is used by {run_id}, and this line may do anything: no command of "
            "its profile is like it. Nothing was sent.",
            code=ErrorCode.SWEEP_CONFLICT,
            data={"run_id": run_id},
            remedy=f"Wait for its end, or call bench__stop_run with run_id {run_id!r}.",
        )

    return check


def _lines(action: Action, target: Target) -> tuple[str, ...]:
    """What it would send; nothing if that is not well formed, which is judged after this."""
    if not isinstance(action, RunCommand) or target.command is None or target.check is None:
        return target.lines
    try:
        return render_lines(target.command, target.check.validate(action.parameters))
    except Invalid:
        return ()
