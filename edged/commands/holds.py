"""What holds an action back although it is allowed and well formed.

A hold is a function from (action, target) that raises or lets pass; the path asks all of them, in
order, before it validates. Safe commands are held back by nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edged.actions.action import Action, Purpose, RunCommand, SendScpi
from edged.commands.target import Target
from edged.errors import ErrorCode, Refused
from edged.instruments.instrument import Instrument
from edged.store.lockouts import Lockout

__all__ = ["Hold", "hold_denied", "hold_unswept", "locked_out"]

Hold = Callable[[Action, Target], None]
# What ends work that runs already must get through: a lockout begins by stopping it.
ENDS_WORK: Final = frozenset({Purpose.FINALLY_STEP, Purpose.ABORT})


def locked_out(find: Callable[[Instrument], Lockout | None]) -> Hold:
    """The hold of lockouts: every write is refused with the reason, reads pass.

    Args:
        find: the lockout of an instrument, if it has one.
    """

    def hold(action: Action, target: Target) -> None:
        if not target.is_write or target.instrument is None:
            return
        if isinstance(action, RunCommand | SendScpi) and action.purpose in ENDS_WORK:
            return
        lockout = find(target.instrument)
        if lockout is None:
            return
        raise Refused(
            f"{target.instrument.id} is locked out by {lockout.by}: {lockout.reason}",
            code=ErrorCode.LOCKED_OUT,
            data=lockout.to_json(),
            remedy="Reads and safe commands still work. Who locked it out lifts it, at the edge "
            "itself, by `edged lockout --clear`.",
        )

    return hold


def hold_denied(_action: Action, target: Target) -> None:
    """The owner's bench file says no.

    Raises:
        Refused: DENIED_BY_OWNER.
    """
    if target.instrument is None or target.command is None:
        return
    if target.command.name in target.instrument.rules.deny:
        raise Refused(
            f"The owner of this bench denies {target.command.name} on {target.instrument.id}.",
            code=ErrorCode.DENIED_BY_OWNER,
            data={"command": target.command.name},
        )


def hold_unswept(action: Action, target: Target) -> None:
    """A command that may only be ramped is sent by a sweep and by nothing else.

    Raises:
        Refused: REQUIRES_SWEEP.
    """
    command = target.command
    if command is None or not command.requires_sweep:
        return
    if isinstance(action, RunCommand) and action.purpose is Purpose.SWEEP_STEP:
        return
    raise Refused(
        f"{command.name} may only be ramped, not set at once.",
        code=ErrorCode.REQUIRES_SWEEP,
        data={"command": command.name},
        remedy=f"Call start_sweep with command_name {command.name!r}, target_value and sweep_rate.",
    )
