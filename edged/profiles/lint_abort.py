"""Lint of ``abort``: whatever can be put out is taken back, and whatever can be asked is asked.

What a command puts out is known by four signs: its mark (``is_dangerous``), a line that works an
output switch, a line that sets how much is put out, and that it can be swept. The first two must
find their own line in ``abort``, with the same header and the same words beside the value, for
every channel. A level behind a switch is taken back by the switch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from edged.errors import EdgedError
from edged.output_words import sets_level, works_switch
from edged.profiles.abort_proof import proofs_of, unproved_outputs
from edged.profiles.bounds import possible_values
from edged.profiles.danger import is_energising
from edged.profiles.findings import Finding, Place
from edged.profiles.library import ProfileLibrary
from edged.profiles.model import AbortStep, Command, Parameter, Profile, Scalar
from edged.profiles.outputs import is_switching_off, output_names, tellings
from edged.profiles.render import render

__all__ = ["lint_abort"]

MOST_CASES: Final = 64
"""Combinations of a command's arguments that are looked at; channels come to fewer."""
SWITCHED: Final = frozenset(
    {
        "power_supply", "smu", "source_meter", "function_generator", "signal_generator",
        "electronic_load", "calibrator", "current_source", "voltage_source", "amplifier",
    }
)  # fmt: skip
"""Classes whose levels all stand behind their output switches."""
REMEDY: Final = (
    "Add to abort the line that takes it back, or name the command under abort_excludes with the "
    "reason why that is not needed."
)


def lint_abort(profile: Profile, _library: ProfileLibrary, place: Place) -> Iterator[Finding]:
    """See the module."""
    for command in profile.commands.values():
        if command.is_safe or command.name in profile.abort_excludes:
            continue
        path = f"commands.{command.name}"
        for line in _not_taken_back(profile, command):
            message = f'{command.name} sends "{line}", and abort does not take that back.'
            yield place.error(path, message, REMEDY)
            break
        else:
            yield from _loose_level(profile, command, place)
    yield from _unasked(profile, place)


def _not_taken_back(profile: Profile, command: Command) -> Iterator[str]:
    """Lines that put something out for some channel, with no line of abort for it."""
    known = set(output_names(profile))
    switches = [line for line in command.scpi if is_energising(line, command.parameters)]
    if switches:
        for template in switches:
            for line in _renderings(template, command):
                if not any(told.output in known for told in tellings(line)):
                    yield line
    elif command.is_dangerous and not any(map(sets_level, command.scpi)):
        cases = zip(*(list(_renderings(line, command)) for line in command.scpi), strict=False)
        for lines in cases:
            if not any(told.output in known for line in lines for told in tellings(line)):
                yield lines[-1]


def _loose_level(profile: Profile, command: Command, place: Place) -> Iterator[Finding]:
    """A level that nothing of abort takes back: neither itself, nor a switch behind which it is."""
    levels = [line for line in command.scpi if sets_level(line)]
    if command.is_query or not (levels or command.sweep):
        return
    if profile.instrument_class in SWITCHED and any(map(works_switch, profile.abort_lines)):
        return
    if command.sweep is not None and _is_taken_back(profile, command, command.sweep.abort):
        return
    known = set(output_names(profile))
    roots = {_root(name) for name in known if works_switch(name + " ")}
    loose = [
        line
        for template in levels or command.scpi[-1:]
        for line in _renderings(template, command)
        if not any(told.output in known or _root(told.output) in roots for told in tellings(line))
    ]
    if loose:
        message = f'{command.name} sets a level by "{loose[0]}", and abort does not take that back.'
        yield place.error(f"commands.{command.name}", message, REMEDY)


def _root(output: str) -> str:
    """``BIAS`` of ``BIAS:STAT``: a level of the same tree stands behind its switch."""
    header = output.partition(" ")[0]
    return next((node for node in header.split(":") if not node.startswith("SOUR")), header)


def _is_taken_back(profile: Profile, command: Command, abort: tuple[AbortStep, ...]) -> bool:
    """Whether the profile's abort has what a sweep's own abort does, for every channel."""
    if not abort:
        return bool(output_names(profile))
    lines = {line for step in abort for line in _renderings(step.send, command)}
    return lines <= set(profile.abort_lines) and any(map(is_switching_off, lines))


def _unasked(profile: Profile, place: Place) -> Iterator[Finding]:
    """What could be asked, and is not."""
    unproved = set(unproved_outputs(profile))
    for index, step in enumerate(profile.abort):
        path = f"abort.{index}"
        outputs = {told.output for told in tellings(step.send)}
        if step.is_unaskable:
            plain = proofs_of(replace(profile, abort=()), (AbortStep(send=step.send),))
            if plain:
                message = f'abort says that nobody can ask about "{step.send}", but the profile '
                yield place.warning(path, f'{message}has "{plain[0].query}".')
        elif is_switching_off(step.send) and outputs <= unproved:
            message = f'Nothing asks whether "{step.send}" was obeyed.'
            remedy = (
                "Add the query as a command, or write {send, ask, expect}; ask: none where the "
                "instrument cannot tell."
            )
            yield place.warning(path, message, remedy)


def _renderings(template: str, command: Command) -> Iterator[str]:
    """The line for every channel; a number that is no channel stands at its largest."""
    parameters = command.parameters
    choices = [_choices(parameter) for parameter in parameters.values()]
    for case in itertools.islice(itertools.product(*choices), MOST_CASES):
        try:
            yield render(template, parameters, dict(zip(parameters, case, strict=True))).strip()
        except EdgedError:
            continue


def _choices(parameter: Parameter) -> list[Scalar]:
    known = list(possible_values(parameter) or ())
    if known:
        return known
    if parameter.max is not None:
        return [parameter.max]
    return [1 if parameter.min is None else parameter.min]
