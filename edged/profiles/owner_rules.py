"""A profile narrowed to what the owner allows for one unit, or why an entry would not narrow it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final

from edged.errors import Invalid
from edged.profiles.abort import not_staying, proofs_of
from edged.profiles.confirm import ConfirmRule
from edged.profiles.expr import expression_text
from edged.profiles.model import (
    AbortStep,
    Bound,
    Changes,
    Command,
    CommandStep,
    ForStep,
    Parameter,
    ParameterType,
    Profile,
    Sequence,
    Step,
    is_sequence_dangerous,
)
from edged.profiles.template import tighter
from edged.profiles.unit_rules import UnitRules
from edged.schema.fields import complaint, nearest
from edged.yaml.tree import Mark

_NUMBERS: Final = frozenset({ParameterType.FLOAT, ParameterType.INT})


def tighten(profile: Profile, rules: UnitRules) -> Profile:
    """The profile as it holds for this unit: narrower parameters, more marks of danger.

    A sequence whose own parameter goes straight into a limited one is narrowed with it, so that its
    schema tells the truth. ``deny``, ``max_rate``, ``expose`` and ``raw_scpi`` stay in the rules.

    Raises:
        Invalid: an entry names what the profile has not, or would widen it; ``data`` has its
            place. The unit must not be worked without its rules then.
    """
    problems = misfits(profile, rules)
    if problems:
        raise problems[0]
    return tightened(profile, rules)


def tightened(profile: Profile, rules: UnitRules) -> Profile:
    """The same for a profile of which the owner may not have thought: what fits narrows it."""
    if not (rules.limits or rules.is_dangerous or rules.requires_sweep):
        return profile
    commands = {name: _narrow_command(c, rules) for name, c in profile.commands.items()}
    sequences = {
        name: _narrow_sequence(s, commands, rules) for name, s in profile.sequences.items()
    }
    return replace(profile, commands=commands, sequences=sequences)


def _narrow_command(command: Command, rules: UnitRules) -> Command:
    limits = rules.limits.get(command.name, {})
    return replace(
        command,
        parameters=_narrow_all(command.parameters, limits),
        is_dangerous=command.is_dangerous or command.name in rules.is_dangerous,
        requires_sweep=command.requires_sweep or command.name in rules.requires_sweep,
    )


def _narrow_sequence(
    sequence: Sequence, commands: Mapping[str, Command], rules: UnitRules
) -> Sequence:
    limits = dict(rules.limits.get(sequence.name, {}))
    steps = (*sequence.steps, *sequence.finally_steps)
    for name, bound in _handed_on(steps, rules):
        parameter = sequence.parameters.get(name)
        if parameter is not None and _fits_kind(parameter, bound):
            limits[name] = tighter(limits.get(name, Bound()), bound)
    return replace(
        sequence,
        parameters=_narrow_all(sequence.parameters, limits),
        is_dangerous=sequence.is_dangerous
        or sequence.name in rules.is_dangerous
        or is_sequence_dangerous(steps, commands),
    )


def _handed_on(steps: Iterable[Step], rules: UnitRules) -> list[tuple[str, Bound]]:
    """The names that go unchanged into limited parameters, with the limit."""
    found: list[tuple[str, Bound]] = []
    for step in steps:
        match step:
            case CommandStep(command=command, parameters=values):
                for parameter, bound in rules.limits.get(command, {}).items():
                    name = expression_text(values.get(parameter), is_bare=False)
                    if name is not None:
                        found.append((name, bound))
            case ForStep(name=loop, steps=inner):
                found += [(n, bound) for n, bound in _handed_on(inner, rules) if n != loop]
            case _:
                pass
    return found


def _fits_kind(parameter: Parameter, bound: Bound) -> bool:
    if bound.options is not None:
        return parameter.type is ParameterType.ENUM and set(bound.options) <= set(parameter.options)
    return parameter.type in _NUMBERS


def _narrow_all(
    parameters: Mapping[str, Parameter], limits: Mapping[str, Bound]
) -> Mapping[str, Parameter]:
    if not limits:
        return parameters
    return {name: _narrow(p, limits.get(name, Bound())) for name, p in parameters.items()}


def _narrow(parameter: Parameter, bound: Bound) -> Parameter:
    """A default that falls outside stays where it is: the schema treats it as none."""
    own = Bound(min=parameter.min, max=parameter.max, options=parameter.options or None)
    both = tighter(own, bound)
    return replace(parameter, min=both.min, max=both.max, options=both.options or ())


def misfits(profile: Profile, rules: UnitRules) -> list[Invalid]:
    """Everything in an entry that does not fit a profile, or would widen it."""
    found: list[Invalid] = []
    for name, limits in rules.limits.items():
        found += _misfits_of_limits(profile, rules, name, limits)
    for name in sorted(rules.deny):
        found += _misfits_of_name(profile, rules, "deny", name)
    for name in sorted(rules.is_dangerous):
        found += _misfits_of_name(profile, rules, "is_dangerous", name)
    for name in sorted(rules.allow_changes):
        found += _misfits_of_allowed(profile, rules, name)
    for name in sorted(rules.may_stay_on):
        found += _misfits_of_staying(profile, rules, name)
    for name in rules.budget:
        found += _misfits_of_budget(profile, rules, name)
    for rule in rules.confirm:
        found += _misfits_of_confirm(profile, rules, rule)
    for key in ("requires_sweep", "max_rate"):
        names = rules.requires_sweep if key == "requires_sweep" else rules.max_rate
        for name in sorted(names):
            found += _misfits_of_sweep(profile, rules, key, name)
    found += _misfits_of_dead_man(profile, rules)
    everything = (*profile.commands, *profile.sequences)
    for pattern in rules.expose:
        if pattern in ("all", "essential", "none"):
            continue
        if not any(fnmatchcase(name, pattern) for name in everything):
            message = (
                f'{rules.key}: expose has "{pattern}", which matches nothing of {profile.key}.'
            )
            found.append(complaint(_mark(rules, "expose"), message))
    return found


def _mark(rules: UnitRules, path: str) -> Mark:
    """The place of a path within the entry, or of the nearest thing around it."""
    while path and path not in rules.marks:
        path = path.rpartition(".")[0]
    return rules.marks[path]


def _unknown(profile: Profile, rules: UnitRules, path: str, name: str) -> Invalid:
    names = (*profile.commands, *profile.sequences)
    message = f'{rules.key}: {profile.key} has no command or sequence "{name}".'
    return complaint(_mark(rules, path), message, nearest(name, names))


def _misfits_of_name(profile: Profile, rules: UnitRules, key: str, name: str) -> list[Invalid]:
    command = profile.commands.get(name)
    if command is None and name not in profile.sequences:
        return [_unknown(profile, rules, key, name)]
    if command is not None and command.is_safe:
        message = f"{rules.key}: {name} makes {profile.key} safe and cannot be under {key}."
        return [complaint(_mark(rules, key), message)]
    return []


def _misfits_of_allowed(profile: Profile, rules: UnitRules, name: str) -> list[Invalid]:
    command = profile.commands.get(name)
    if command is None:
        message = f'{rules.key}: {profile.key} has no command "{name}".'
        remedy = nearest(name, profile.commands)
    elif command.changes is Changes.ANY:
        return []
    else:
        message = f"{rules.key}: {name} of {profile.key} needs no allow_changes."
        remedy = "Only a command with changes: any does."
    return [complaint(_mark(rules, "allow_changes"), message, remedy)]


def _misfits_of_staying(profile: Profile, rules: UnitRules, name: str) -> list[Invalid]:
    place = "may_stay_on"
    if name not in profile.commands:
        message = f'{rules.key}: {profile.key} has no command "{name}".'
        return [complaint(_mark(rules, place), message, nearest(name, profile.commands))]
    named = rules.may_stay_on
    alone, together, without = (
        len(not_staying(profile, profile.abort, names)) for names in ({name}, named, named - {name})
    )
    if alone == len(profile.abort) and together == without:
        message = (
            f"{rules.key}: may_stay_on: no line of the abort of {profile.key} takes back {name} "
            "and nothing else."
        )
        remedy = "Name the commands that switch an output on; all that one line takes back."
        return [complaint(_mark(rules, place), message, remedy)]
    return []


def _misfits_of_budget(profile: Profile, rules: UnitRules, name: str) -> list[Invalid]:
    place, command = f"budget.{name}", profile.commands.get(name)
    if command is None:
        message = f'{rules.key}: {profile.key} has no command "{name}".'
        return [complaint(_mark(rules, place), message, nearest(name, profile.commands))]
    if command.is_safe:
        message = f"{rules.key}: {name} makes {profile.key} safe and cannot be under budget."
        return [complaint(_mark(rules, place), message)]
    if not command.is_write:
        message = f"{rules.key}: {name} only asks, which no budget counts."
        return [complaint(_mark(rules, place), message)]
    return []


def _misfits_of_confirm(profile: Profile, rules: UnitRules, rule: ConfirmRule) -> list[Invalid]:
    kinds: Mapping[str, Command | Sequence]
    kinds = profile.sequences if rule.is_sequence else profile.commands
    asked = kinds.get(rule.name)
    if asked is None:
        what = "sequence" if rule.is_sequence else "command"
        message = f'{rules.key}: {profile.key} has no {what} "{rule.name}".'
        return [complaint(_mark(rules, "confirm"), message, nearest(rule.name, kinds))]
    if isinstance(asked, Command) and asked.is_safe:
        message = f"{rules.key}: {rule.name} makes {profile.key} safe and cannot be under confirm."
        return [complaint(_mark(rules, "confirm"), message)]
    if isinstance(asked, Command) and not asked.is_write:
        message = f"{rules.key}: {rule.name} only asks, so it needs no approval."
        return [complaint(_mark(rules, "confirm"), message)]
    if not rule.parameter:
        return []
    parameter = asked.parameters.get(rule.parameter)
    if parameter is None:
        message = f'{rules.key}: {rule.name} has no parameter "{rule.parameter}".'
        remedy = nearest(rule.parameter, asked.parameters)
        return [complaint(_mark(rules, "confirm"), message, remedy)]
    is_number = not isinstance(rule.value, str)
    if parameter.type is ParameterType.ENUM:
        known = {option.casefold() for option in parameter.options}
        if rule.word.casefold() in known:
            return []
        message = f'{rules.key}: {rule.name}.{rule.parameter} has no option "{rule.word}".'
        remedy = nearest(rule.word, parameter.options)
        return [complaint(_mark(rules, "confirm"), message, remedy)]
    if is_number or parameter.type is ParameterType.STRING:
        return []
    message = (
        f"{rules.key}: {rule.name}.{rule.parameter} is a {parameter.type}: {rule.text} is none."
    )
    return [complaint(_mark(rules, "confirm"), message)]


def _misfits_of_dead_man(profile: Profile, rules: UnitRules) -> list[Invalid]:
    limit_s, watchdog = rules.dead_man_s, profile.watchdog
    if limit_s is None:
        return []
    remedy = ""
    if watchdog is None:
        why = f"{profile.key} has no watchdog, so nothing in it would switch off"
        remedy = "Take dead_man_s out: the outputs of this one stay as they are without edged."
    else:
        shortest_s, longest_s = watchdog.range_s
        step_s = watchdog.step_s
        if not shortest_s <= limit_s <= longest_s:
            why = f"{profile.key} takes {shortest_s:g} to {longest_s:g} s, not {limit_s:g}"
        elif step_s and not math.isclose(limit_s / step_s, round(limit_s / step_s), rel_tol=1e-9):
            steps = "whole seconds" if step_s == 1 else f"multiples of {step_s:g} s"
            why = f"{profile.key} takes {steps} alone, not {limit_s:g}"
        else:
            return []
    return [complaint(_mark(rules, "dead_man_s"), f"{rules.key}: dead_man_s: {why}.", remedy)]


def _misfits_of_sweep(profile: Profile, rules: UnitRules, key: str, name: str) -> list[Invalid]:
    if name == "" and key == "max_rate":
        if any(command.sweep for command in profile.commands.values()):
            return []
        message = f"{rules.key}: max_rate is set, but {profile.key} has nothing that is swept."
        return [complaint(_mark(rules, key), message)]
    command = profile.commands.get(name)
    if command is None:
        return [_unknown(profile, rules, f"{key}.{name}", name)]
    if command.sweep is None:
        message = f"{rules.key}: {key} names {name}, which cannot be swept."
        return [complaint(_mark(rules, f"{key}.{name}"), message)]
    return []


def _misfits_of_limits(
    profile: Profile, rules: UnitRules, name: str, limits: Mapping[str, Bound]
) -> list[Invalid]:
    path = f"limits.{name}"
    owner = profile.commands.get(name) or profile.sequences.get(name)
    if owner is None:
        return [_unknown(profile, rules, path, name)]
    if isinstance(owner, Command) and owner.is_safe:
        message = f"{rules.key}: {name} makes {profile.key} safe and cannot be limited."
        return [complaint(_mark(rules, path), message)]
    found: list[Invalid] = []
    for parameter_name, bound in limits.items():
        where = f"{path}.{parameter_name}"
        parameter = owner.parameters.get(parameter_name)
        if parameter is None:
            message = f'{rules.key}: {name} has no parameter "{parameter_name}".'
            remedy = nearest(parameter_name, owner.parameters)
            found.append(complaint(_mark(rules, where), message, remedy))
            continue
        found += _misfits_of_bound(
            rules, where, f"{rules.key}: {name}", parameter, bound, profile.key
        )
    return found


def _misfits_of_bound(
    rules: UnitRules, path: str, owner: str, parameter: Parameter, bound: Bound, profile_key: str
) -> list[Invalid]:
    if not _fits_kind(parameter, replace(bound, options=None)) and bound.options is None:
        message = f"{owner}.{parameter.name} is a {parameter.type} and has no min or max."
        return [complaint(_mark(rules, path), message)]
    if bound.options is not None:
        return _misfits_of_options(rules, path, owner, parameter, bound.options, profile_key)
    low, high = parameter.min, parameter.max
    for key, value in (("min", bound.min), ("max", bound.max)):
        if value is None:
            continue
        mark = _mark(rules, f"{path}.{key}")
        if (low is not None and value < low) or (high is not None and value > high):
            is_wider = (key == "min") == (low is not None and value < low)
            what = "would widen" if is_wider else "leaves no value of"
            message = (
                f"{owner}.{parameter.name}: {key} {value} {what} what {profile_key} allows "
                f"({'' if low is None else low} to {'' if high is None else high})."
            )
            return [complaint(mark, message)]
    return []


def _misfits_of_options(
    rules: UnitRules,
    path: str,
    owner: str,
    parameter: Parameter,
    options: tuple[str, ...],
    profile_key: str,
) -> list[Invalid]:
    mark = _mark(rules, f"{path}.options")
    if parameter.type is not ParameterType.ENUM:
        message = f"{owner}.{parameter.name} is a {parameter.type} and has no options."
        return [complaint(mark, message)]
    for option in options:
        if option not in parameter.options:
            message = f'{owner}.{parameter.name}: {profile_key} has no option "{option}".'
            return [complaint(mark, message, nearest(option, parameter.options))]
    return []


def clean_up_of(
    profile: Profile | None, rules: UnitRules, steps: list[AbortStep] | tuple[AbortStep, ...]
) -> dict[str, Any]:
    """What makes it safe after a crash: the lines but for what its owner lets stay on, and proofs.

    Args:
        steps: what is sent to make it safe in this life.
    """
    left = not_staying(profile, steps, rules.may_stay_on)
    proofs = proofs_of(profile, left) if profile is not None else ()
    return {
        "abort": [step.send for step in left],
        "stays": [step.send for step in steps if step not in left],
        "proofs": [proof.to_json() for proof in proofs],
    }
