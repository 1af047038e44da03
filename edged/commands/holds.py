"""What holds an action back although it is allowed and well formed.

A hold is a function from (action, target) that raises or lets pass; the path asks all of them, in
order, before it validates. Safe commands are held back by nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from edged.actions.action import Action, Purpose, RunCommand
from edged.commands.target import Target
from edged.errors import ErrorCode, Refused

__all__ = ["Hold", "hold_denied", "hold_unswept"]

Hold = Callable[[Action, Target], None]


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
