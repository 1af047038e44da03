"""Which commands of a profile are tried on an instrument, and with which arguments. Pure.

Only questions that cannot give energy are asked. Each is asked once, with its defaults, and where
there is none the smallest value that its limits and checks allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from edged.errors import Invalid
from edged.profiles.bounds import effective_bound
from edged.profiles.model import Command, Parameter, ParameterType, Profile, Scalar
from edged.profiles.render import optional_names
from edged.profiles.schema import ParameterCheck, compile_parameters

__all__ = ["Question", "plan_trial"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One command of the trial; ``why_not`` says why it is passed over, empty where it is asked."""

    command: str
    arguments: Mapping[str, Scalar]
    why_not: str = ""


def plan_trial(profile: Profile) -> tuple[Question, ...]:
    """Every command of the profile, those that are asked with their arguments."""
    return tuple(_question(profile, command) for command in profile.commands.values())


def _question(profile: Profile, command: Command) -> Question:
    why_not = ""
    arguments: Mapping[str, Scalar] | None = {}
    if not command.is_query:
        why_not = "it writes"
    elif command.is_dangerous:
        why_not = "it is dangerous"
    else:
        arguments = _arguments(profile, command)
        if arguments is None:
            why_not = "no arguments were found that its checks allow"
    return Question(command=command.name, arguments=arguments or {}, why_not=why_not)


def _arguments(profile: Profile, command: Command) -> Mapping[str, Scalar] | None:
    check = compile_parameters(
        command.name,
        command.parameters,
        command.checks,
        optional_names(command.scpi),
        encoding=profile.connection.encoding,
    )
    return next((tried for tried in _attempts(command) if _is_valid(check, tried)), None)


def _attempts(command: Command) -> Iterator[dict[str, Scalar]]:
    """The defaults; those with the smallest of what has none; the smallest; the largest of all."""
    needed = [p for p in command.parameters.values() if p.default is None]
    yield {p.name: _end(p, {}, is_max=False) for p in needed}
    for is_max in (False, True):
        found: dict[str, Scalar] = {}
        for parameter in command.parameters.values():
            found[parameter.name] = _end(parameter, found, is_max=is_max)
        yield found


def _end(parameter: Parameter, others: Mapping[str, Scalar], *, is_max: bool) -> Scalar:
    bound = effective_bound(parameter, others)
    match parameter.type:
        case ParameterType.BOOL:
            return is_max
        case ParameterType.STRING:
            return "A"
        case ParameterType.ENUM:
            options = bound.options or parameter.options
            return options[-1 if is_max else 0]
        case _:
            value = bound.max if is_max else bound.min
            value = (1 if is_max else 0) if value is None else value
            return int(value) if parameter.type is ParameterType.INT else value


def _is_valid(check: ParameterCheck, arguments: Mapping[str, Scalar]) -> bool:
    try:
        check.validate(arguments)
    except Invalid:
        return False
    return True
