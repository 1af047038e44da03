"""What the units of a plan's roles have: commands, parameters, answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from edged.experiments.checked import BenchView, RoleUnit
from edged.experiments.model import Experiment, Value
from edged.experiments.problem import Problems, close
from edged.experiments.scope import Names, Scope, Times
from edged.experiments.sending import Sending
from edged.profiles.expr import names_in
from edged.profiles.model import (
    BitsAnswer,
    Command,
    FieldsAnswer,
    ImageAnswer,
    ListAnswer,
    Parameter,
    ScalarAnswer,
    Target,
    WaveformAnswer,
)
from edged.profiles.template import optional_names
from edged.record import record


def set_parameter(target: Target, command: Command, given: Mapping[str, Any]) -> Parameter | None:
    """Which parameter a ``set`` or ``ramp`` sets: the one named, the swept one, or the only one."""
    if target.member:
        return command.parameters.get(target.member)
    if command.sweep is not None:
        return command.parameters[command.sweep.parameter]
    free = [one for name, one in command.parameters.items() if name not in given]
    return free[0] if len(free) == 1 else None


def arguments_of(
    experiment: Experiment, target: Target, command: Command | None
) -> dict[str, Value]:
    """What a target's command is given: its own arguments, and its role's where it has them."""
    given = experiment.given.get(target.role, {}) if command is not None else {}
    known = {n: value for n, value in given.items() if command and n in command.parameters}
    return {**known, **target.parameters}


def answer_members(command: Command) -> dict[str, str]:
    """Field → unit of an answer with parts; empty where it is one value."""
    match command.returns:
        case FieldsAnswer(fields=fields):
            return {one.name: one.unit for one in fields}
        case BitsAnswer(fields=bits):
            return {bit.name: "" for bit in bits}
        case _:
            return {}


def answer_unit(command: Command | None, member: str) -> str:
    """The unit of measure of a value that is read."""
    if command is None:
        return ""
    members = answer_members(command)
    if members:
        return members.get(member, "")
    return command.returns.unit if isinstance(command.returns, ScalarAnswer) else ""


@record
class Targets:
    """Says of targets what they are on this bench.

    Attributes:
        units: of the roles, as far as they are bound.
    """

    plan: Experiment
    bench: BenchView
    found: Problems
    scope: Scope
    sending: Sending
    units: dict[str, RoleUnit] = field(default_factory=dict)

    def command(self, target: Target, path: str) -> tuple[RoleUnit, Command] | None:
        if target.role not in self.plan.roles:
            near = close(target.role, self.plan.roles)
            remedy = f"Write {near[0]}.{target.command}." if near else "Add it to roles."
            self.found.add(
                path,
                "unknown_role",
                f"{target.text}: there is no role {target.role}.",
                remedy,
                near,
            )
            return None
        unit = self.units.get(target.role)
        if unit is None:
            return None
        command = unit.commands.get(target.command)
        if command is None:
            near = close(target.command, unit.commands)
            remedy = f"Write {target.role}.{near[0]}." if near else ""
            message = f"{target.text}: {unit.called} has no such command."
            self.found.add(path, "unknown_command", message, remedy, near)
            return None
        return unit, command

    def arguments(
        self, target: Target, command: Command, path: str, names: Names, also: tuple[str, ...]
    ) -> dict[str, Value] | None:
        """All that the command is given, its names known; ``None`` where something is wrong."""
        given = arguments_of(self.plan, target, command)
        # What ``with`` lacks is said there.
        is_good = all(one in names for value in given.values() for one in names_in(value))
        for name, value in target.parameters.items():
            where = f"{path}.parameters.{name}"
            if name not in command.parameters:
                near = close(name, command.parameters)
                remedy = f"Write {near[0]}." if near else ""
                message = f"{command.name} has no parameter {name}."
                self.found.add(where, "unknown_parameter", message, remedy, near)
                is_good = False
            is_good &= self.scope.names(value, where, names)
        optional = optional_names(command.scpi)
        for name, parameter in command.parameters.items():
            is_given = name in given or name in also
            if not is_given and parameter.default is None and name not in optional:
                remedy = f"Add it to parameters, or add with: {{{target.role}: {{{name}: …}}}}."
                message = f"{command.name} needs {name}."
                self.found.add(path, "missing_parameter", message, remedy, about=(name,))
                is_good = False
        return given if is_good else None

    def reading(
        self, target: Target, path: str, names: Names, times: Times = (1, 1)
    ) -> tuple[RoleUnit, Command] | tuple[None, None]:
        """A query whose answer is used as one value."""
        found = self.command(target, path)
        if found is None:
            return None, None
        unit, command = found
        if not command.is_query:
            self.found.add(path, "no_answer", f"{target.text}: {command.name} answers nothing.")
            return None, None
        members = answer_members(command)
        if members and target.member not in members:
            near = close(target.member, members)
            remedy = f"Write {target.role}.{target.command}.{(near or list(members))[0]}."
            what = f"no field {target.member}" if target.member else "several fields"
            self.found.add(
                path,
                "unknown_field",
                f"the answer of {command.name} has {what}: {', '.join(list(members)[:12])}.",
                remedy,
                near,
            )
        elif target.member and not members:
            self.found.add(
                path,
                "unknown_field",
                f"the answer of {command.name} is one value.",
                f"Write {target.role}.{target.command}.",
            )
        if isinstance(command.returns, WaveformAnswer | ImageAnswer | ListAnswer):
            self.found.add(path, "no_value", f"the answer of {command.name} is not one value.")
        given = self.arguments(target, command, path, names, ())
        if given is not None:
            self.sending.add(path, target, unit, command, given, names, times)
        return unit, command

    def moved(
        self, target: Target, path: str, names: Names, rate: Value | None
    ) -> tuple[RoleUnit, Command, Parameter, dict[str, Value], float | None] | None:
        """A set-point and what else its command is given; ``None`` where something is wrong."""
        found = self.command(target, path)
        if found is None:
            return None
        unit, command = found
        parameter = set_parameter(target, command, arguments_of(self.plan, target, command))
        if parameter is None:
            near = list(command.parameters)
            remedy = f"Write {target.role}.{target.command}.{near[0]}." if near else ""
            message = f"{target.text}: which parameter is set cannot be known."
            self.found.add(path, "unknown_parameter", message, remedy, near)
            return None
        plain = Target(role=target.role, command=target.command, parameters=target.parameters)
        given = self.arguments(plain, command, path, names, (parameter.name,))
        where = f"{path.rpartition('.')[0]}.rate"
        speeds = self.scope.range(rate, where, names)
        speed = None if speeds is None else speeds[1]
        fastest = self.bench.fastest(unit, command)
        if rate is None and (command.requires_sweep or fastest is not None):
            bound = f" of at most {fastest:g}" if fastest is not None else ""
            self.found.add(
                path,
                "needs_rate",
                f"{target.text} may only be ramped.",
                f"Add rate: to it, a rate{bound}.",
            )
            return None
        if rate is not None and (
            command.sweep is None or command.sweep.parameter != parameter.name
        ):
            self.found.add(
                path,
                "no_sweep",
                f"{target.text} cannot be ramped: its profile says no set-point query.",
                "Leave rate out.",
            )
            return None
        if speeds is None or speed is None:
            if rate is None:
                return None if given is None else (unit, command, parameter, given, None)
            if all(one in names for one in names_in(rate)):
                message = f"the rate {rate} is known only while it runs."
                self.found.add(where, "out_of_range", message, "Write a number.")
            return None
        if speeds[0] <= 0 or (fastest is not None and speed > fastest):
            is_over = fastest is not None and speed > fastest
            why = f"over the owner's {fastest:g}" if is_over else "not above 0"
            remedy = f"Write {fastest:g}." if is_over else ""
            self.found.add(where, "out_of_range", f"the rate {speed:g} is {why}.", remedy)
            return None
        return None if given is None else (unit, command, parameter, given, speed)
