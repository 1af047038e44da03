"""The values of a judged action: the parameters after their check, and the SCPI that they make."""

from __future__ import annotations

import dataclasses
from typing import Final

from edged.actions.action import (
    Action,
    CallWrapper,
    Purpose,
    RunCommand,
    RunSequence,
    StartStream,
    StartSweep,
)
from edged.commands.owner_policy import check_other_roads
from edged.commands.target import Target
from edged.errors import Invalid
from edged.profiles.template import render_lines

__all__ = ["with_values"]

WITH_PARAMETERS: Final = RunCommand | RunSequence | StartStream | CallWrapper


def with_values(action: Action, target: Target) -> Target:
    """Validate the command's or sequence's own parameters, and write the SCPI they make.

    Raises:
        Invalid: a parameter that is missing, unknown or outside of its limits.
        Refused: the owner's word about another command holds for what this one sends.
    """
    if isinstance(action, StartSweep):
        return _with_swept_value(action, target)
    if target.check is None or not isinstance(action, WITH_PARAMETERS):
        return target
    values = target.check.validate(action.parameters)
    lines = render_lines(target.command, values) if target.command else ()
    # The target is this action's own: one with a check is made anew for each.
    target.values, target.lines = values, lines
    if isinstance(action, RunCommand) and action.purpose is not Purpose.FINALLY_STEP:
        check_other_roads(target, is_ramped=action.purpose is Purpose.SWEEP_STEP)
    return target


def _with_swept_value(action: StartSweep, target: Target) -> Target:
    """A sweep's parameters with the target in its place, and those of each measure."""
    sweep = target.command.sweep if target.command else None
    if target.check is None or sweep is None:
        return target
    if action.parameters.get(sweep.parameter) is not None:
        raise Invalid(
            f"{sweep.parameter} is what is swept: it is given as target_value, not in parameters.",
            data={"parameter": sweep.parameter},
        )
    wanted = {**action.parameters, sweep.parameter: action.arguments.get("target_value")}
    measures = [
        dataclasses.replace(inner, values=inner.check.validate(inner.values))
        for inner in target.inner
        if inner.check is not None
    ]
    return dataclasses.replace(target, values=target.check.validate(wanted), inner=tuple(measures))
