"""The owner's word about one command, held for every command of the profile that sends the same.

Many instruments set one thing in several ways: a voltage alone, or with the current. What the owner
limited, denied or marked under one name must not be reached under another, so the lines of a
command that writes are looked up like raw SCPI. Costs a fraction of a millisecond, and only on a
unit about which the bench file says something.

Source: SPEC.md section 5, "on every road"; PROFILE-FORMAT.md, "The owner's bench file".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edged.commands.target import Target
from edged.errors import ErrorCode, Invalid, Refused
from edged.profiles.model import Bound, Command, Scalar
from edged.profiles.raw import RawMatch, identify
from edged.profiles.same_line import means_another_unit
from edged.profiles.unit_rules import ASK_THE_OWNER, UnitRules

__all__ = ["check_other_roads"]


def check_other_roads(target: Target, *, is_ramped: bool = False) -> None:
    """Let pass what the owner's word about other commands lets pass.

    Args:
        target: a command with its values and lines. Becomes dangerous where what it sends is.
        is_ramped: it is a step of a sweep.

    Raises:
        Refused: DENIED_BY_OWNER or REQUIRES_SWEEP.
        Invalid: a value outside of the owner's limits, or one that cannot be judged by them.
    """
    instrument, command = target.instrument, target.command
    if instrument is None or command is None or command.is_query or command.is_safe:
        return
    rules = instrument.rules
    if not rules.key or instrument.profile is None:
        return
    spoken_of = {*rules.limits, *rules.deny, *rules.is_dangerous, *rules.requires_sweep}
    if not spoken_of - {command.name}:
        return
    for template, line in zip(command.scpi, target.lines, strict=True):
        for part in identify(instrument.profile, line):
            for match in part.matches:
                other = match.command
                if other.name not in spoken_of or other.name == command.name:
                    continue
                if not means_another_unit(command, template, other):
                    _check(target, command, match, rules, is_ramped=is_ramped)


def _check(
    target: Target, command: Command, match: RawMatch, rules: UnitRules, *, is_ramped: bool
) -> None:
    other = match.command.name
    if other in rules.deny:
        raise Refused(
            f"{command.name} does what {other} does, which the owner of this bench denies.",
            code=ErrorCode.DENIED_BY_OWNER,
            data={"command": other},
            remedy=ASK_THE_OWNER,
        )
    if other in rules.requires_sweep and not is_ramped:
        raise Refused(
            f"{command.name} sets what {other} sets, which may only be ramped here.",
            code=ErrorCode.REQUIRES_SWEEP,
            data={"command": other},
            remedy=f"Call start_sweep with command_name {other!r}.",
        )
    for name, bound in rules.limits.get(other, {}).items():
        unit = match.command.parameters[name].unit
        for value in _values(match, name, target.values):
            _check_value(command, f"{other}.{name}", bound, value, unit)
    target.is_dangerous = target.is_dangerous or other in rules.is_dangerous


def _values(match: RawMatch, name: str, known: Mapping[str, Scalar]) -> Iterator[Scalar | None]:
    """What the parameter may be: every reading that agrees with the values that were given."""
    agreeing = [
        reading
        for reading in match.readings
        if all(known.get(other, value) == value for other, value in reading.items())
    ]
    for reading in agreeing or match.readings:
        yield None if name in match.unknown else reading.get(name)


def _check_value(
    command: Command, limited: str, bound: Bound, value: Scalar | None, unit: str
) -> None:
    words = f"the limits that the owner set for {limited}"
    data = {"parameter": limited.rpartition(".")[2], "value": value}
    if value is None:
        raise Invalid(f"What {command.name} sends cannot be judged by {words}.", data=data)
    if bound.options is not None and value not in bound.options:
        options = ", ".join(bound.options)
        raise Invalid(f"{command.name}: {value!r} is outside of {words}: {options}.", data=data)
    if isinstance(value, str):
        return
    for key, limit, is_outside in (
        ("maximum", bound.max, bound.max is not None and value > bound.max),
        ("minimum", bound.min, bound.min is not None and value < bound.min),
    ):
        if is_outside:
            raise Invalid(
                f"{command.name}: {value:g} {unit} is outside of {words}: the {key} is "
                f"{limit:g} {unit}.".replace(" .", ".").replace("  ", " "),
                data={**data, key: limit, "unit": unit},
            )
