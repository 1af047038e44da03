"""What holds an action back although it is allowed and well formed.

A hold is a function from (action, target) that raises or lets pass; the path asks all of them, in
order, before it validates. Safe commands are held back by nothing, nor is what is aimed at no
instrument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edged.actions.action import Action, Purpose, RunCommand, SendLines, SendScpi, StartSweep
from edged.commands.target import Target
from edged.errors import ErrorCode, Invalid, Refused
from edged.instruments.instrument import Instrument
from edged.profiles.render import render_lines
from edged.profiles.unit_rules import ASK_THE_OWNER
from edged.store.lockouts import Lockout
from edged.work.sweep_claims import SweepClaims

__all__ = ["Hold", "hold_denied", "hold_swept", "hold_unswept", "locked_out"]

Hold = Callable[[Action, Target], None]
# What ends work that runs already must get through: a lockout begins by stopping it.
ENDS_WORK: Final = frozenset({Purpose.FINALLY_STEP, Purpose.ABORT})


def locked_out(
    find: Callable[[Instrument], Lockout | None],
    find_wrapper: Callable[[str], Lockout | None] = lambda _wrapper_id: None,
) -> Hold:
    """The hold of lockouts: every write is refused with the reason, reads pass.

    Args:
        find: the lockout of an instrument, if it has one.
        find_wrapper: the same of an SDK wrapper, by its id.
    """

    def hold(action: Action, target: Target) -> None:
        if not target.is_write or target.is_let_through:
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
            f"{target.instrument_id} is locked out by {lockout.by}: {lockout.reason.rstrip('.')}.",
            code=ErrorCode.LOCKED_OUT,
            data=lockout.to_json(),
            remedy="Reads and safe commands still work. Who locked it out lifts it, at the edge "
            "itself, by `edged lockout --clear`.",
        )

    return hold


def hold_denied(_action: Action, target: Target) -> None:
    """The owner's bench file says no to a command or a sequence.

    Raises:
        Refused: DENIED_BY_OWNER.
    """
    name = target.command_name
    if target.instrument is not None and name and name in target.instrument.rules.deny:
        raise Refused(
            f"The owner of this bench denies {name} on {target.instrument.id}.",
            code=ErrorCode.DENIED_BY_OWNER,
            data={"command": name},
            remedy=ASK_THE_OWNER,
        )


def hold_unswept(action: Action, target: Target) -> None:
    """A command that may only be ramped is sent by a sweep and by nothing else.

    Raises:
        Refused: REQUIRES_SWEEP.
    """
    command = target.command
    if command is None or not command.requires_sweep:
        return
    if isinstance(action, StartSweep):
        return
    if isinstance(action, RunCommand) and action.purpose is Purpose.SWEEP_STEP:
        return
    raise Refused(
        f"{command.name} may only be ramped, not set at once.",
        code=ErrorCode.REQUIRES_SWEEP,
        data={"command": command.name},
        remedy=f"Call start_sweep with command_name {command.name!r}, target_value and sweep_rate.",
    )


def hold_swept(claims: SweepClaims) -> Hold:
    """A hold for what sweeps hold: one sweep a parameter of an instrument, and no other writer."""

    def hold(action: Action, target: Target) -> None:
        """Raises ``Conflict`` SWEEP_CONFLICT with the sweep's id."""
        instrument = target.instrument
        if instrument is None or not isinstance(action, RunCommand | SendScpi):
            return
        if target.is_write and claims.holds_on(instrument.id):
            lines = _lines(action, target)
            claims.refuse_writer(
                instrument.id,
                lines,
                action.caller.on_behalf_of,
                is_raw=isinstance(action, SendScpi),
            )

    return hold


def _lines(action: Action, target: Target) -> tuple[str, ...]:
    """What it would send; nothing if that is not well formed, which is judged after the holds."""
    if not isinstance(action, RunCommand) or target.command is None or target.check is None:
        return target.lines
    try:
        return render_lines(target.command, target.check.validate(action.parameters))
    except Invalid:
        return ()
