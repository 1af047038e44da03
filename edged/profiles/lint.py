"""What a careful reader would say about a profile that the loader takes.

The loader refuses what cannot work; lint finds what works and should not be shipped: a source that
nobody can switch off, a danger that is not marked, a limit whose unit must be guessed. Findings are
values; printing and exit statuses are the command line's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from edged.output_words import is_recalling, why_not_on_connect, why_not_on_release
from edged.profiles.complaints import nearest
from edged.profiles.danger import is_energising, is_output_command
from edged.profiles.findings import Finding, Place
from edged.profiles.grammar_commands import templates_of
from edged.profiles.library import ProfileLibrary
from edged.profiles.lint_abort import lint_abort
from edged.profiles.match import find_profile
from edged.profiles.model import (
    Command,
    CommandStep,
    ForStep,
    Parameter,
    ParameterType,
    Profile,
    Sequence,
    Step,
)
from edged.profiles.naming import SHORT_LENGTH, sequence_tool_name, tool_name
from edged.profiles.patterns import found_in
from edged.profiles.template import placeholders

__all__ = ["Finding", "lint_profile"]

MOST_ESSENTIAL: Final = 8
LONGEST_TOOL_NAME: Final = 64
_SOURCE_CLASSES: Final = frozenset(
    {
        "power_supply", "smu", "source_meter", "function_generator", "signal_generator",
        "electronic_load", "calibrator", "current_source", "voltage_source", "amplifier",
        "temperature_controller", "lcr_meter",
    }
)  # fmt: skip
_CLASSES: Final = _SOURCE_CLASSES | {
    "multimeter", "oscilloscope", "lock_in", "spectrum_analyzer", "network_analyzer",
    "logic_analyzer", "frequency_counter", "power_meter", "switch", "data_logger",
    "electrometer", "thermometer", "other",
}  # fmt: skip


def lint_profile(profile: Profile, library: ProfileLibrary) -> tuple[Finding, ...]:
    """Everything that lint has to say, in the order of the file.

    Args:
        profile: as the loader made it, its family merged in.
        library: the profiles that stand beside it; it may be among them.
    """
    place = Place(profile)
    found = [finding for rule in RULES for finding in rule(profile, library, place)]
    return tuple(sorted(found, key=lambda f: (f.path, f.line, f.column, f.message)))


def _lint_examples(profile: Profile, library: ProfileLibrary, place: Place) -> Iterator[Finding]:
    """Real answers match this profile and no other, and its pattern none of the others'."""
    if not profile.match.examples:
        yield place.error("match", "There is no example of an *IDN? answer.", "Add match.examples.")
    others = [p for key, p in library.profiles.items() if key != profile.key]
    for index, example in enumerate(profile.match.examples):
        path = f"match.examples.{index}"
        if found_in(example, profile.match.idn) is None:
            yield place.error(path, f'The pattern does not match the example "{example}".')
        for key in sorted(p.key for p in others if find_profile(example, None, [p]).profile):
            yield place.error(path, f'The example "{example}" is matched by {key} too.')
    for other in others:
        for example in other.match.examples:
            if found_in(example, profile.match.idn):
                message = f'The pattern also matches "{example}", an example of {other.key}.'
                yield place.error("match.idn", message, r"Anchor the model number with \b.")


def _lint_safety(profile: Profile, _library: ProfileLibrary, place: Place) -> Iterator[Finding]:
    """Whatever gives energy can be stopped: by an abort, and by a safe command."""
    dangerous = [c.name for c in profile.commands.values() if c.is_dangerous]
    if not dangerous and profile.instrument_class not in _SOURCE_CLASSES:
        return
    why = f"has {dangerous[0]}" if dangerous else f"is a {profile.instrument_class}"
    if not profile.abort:
        message = f"{profile.key} {why} but no abort."
        yield place.error("profile_key", message, "Add the SCPI that switches all outputs off.")
    if not any(command.is_safe for command in profile.commands.values()):
        message = f"{profile.key} {why} but no safe command."
        yield place.error("profile_key", message, "Mark the one that switches off is_safe: true.")
    for sequence in profile.sequences.values():
        if sequence.is_dangerous and not _ends_safe(sequence, profile):
            message = f"{sequence.name} is dangerous and no step of its finally makes it safe."
            yield place.error(f"sequences.{sequence.name}", message)


def _ends_safe(sequence: Sequence, profile: Profile) -> bool:
    def runs_safe(steps: tuple[Step, ...]) -> bool:
        return any(
            (isinstance(step, CommandStep) and profile.commands[step.command].is_safe)
            or (isinstance(step, ForStep) and runs_safe(step.steps))
            for step in steps
        )

    return runs_safe(sequence.finally_steps)


def _lint_danger(profile: Profile, _library: ProfileLibrary, place: Place) -> Iterator[Finding]:
    """Words that switch something on need the mark, and a safe command holds none."""
    for command in profile.commands.values():
        path = f"commands.{command.name}.scpi"
        lines = [line for line in templates_of(command) if line in _sent_lines(command)]
        energising = [line for line in lines if is_energising(line, command.parameters)]
        if energising and command.is_safe:
            yield place.error(path, f'{command.name} is safe, but "{energising[0]}" switches on.')
        elif energising and not command.is_dangerous:
            message = f'{command.name} is not dangerous, but "{energising[0]}" switches on.'
            yield place.error(path, message, "Mark it is_dangerous: true.")
        elif not command.is_dangerous and any(is_recalling(line) for line in lines):
            message = f"{command.name} recalls a state, in which an output may be on."
            yield place.error(path, message, "Mark it is_dangerous: true.")


def _sent_lines(command: Command) -> tuple[str, ...]:
    """What goes out when the command runs; a sweep's abort is no part of it."""
    abort = [step.send for step in command.sweep.abort] if command.sweep else []
    return tuple(
        line for line in templates_of(command) if line not in abort or line in command.scpi
    )


def _lint_connection(profile: Profile, _library: ProfileLibrary, place: Place) -> Iterator[Finding]:
    """Connecting and letting go change no output, but that the last words may switch it off."""
    connection = profile.connection
    places: tuple[tuple[str, tuple[str, ...], Callable[[str], str]], ...] = (
        ("on_connect", connection.on_connect, why_not_on_connect),
        ("on_connect_serial", connection.on_connect_serial or (), why_not_on_connect),
        ("on_release", connection.on_release, why_not_on_release),
    )
    for name, lines, why_not in places:
        for index, line in enumerate(lines):
            why = why_not(line)
            if why:
                message = f'{name} sends "{line}", which {why}.'
                suggestion = "Only headers and the answer interface belong here."
                yield place.error(f"connection.{name}.{index}", message, suggestion)
    for index, line in enumerate(profile.abort_lines):
        if is_energising(line, {}):
            yield place.error(f"abort.{index}", f'The abort sends "{line}", which switches on.')


def _lint_sweeps(profile: Profile, _library: ProfileLibrary, place: Place) -> Iterator[Finding]:
    """What can be swept can be looked at and stopped."""
    for command in profile.commands.values():
        if command.sweep is None:
            continue
        path = f"commands.{command.name}.sweep"
        if command.sweep.readback is None:
            message = f"{command.name} can be swept but has no readback."
            yield place.warning(path, message, "Name the query that measures it.")
        if not command.sweep.abort and not profile.abort:
            yield place.error(path, f"{command.name} can be swept but nothing aborts it.")
        swept = command.parameters[command.sweep.parameter]
        if swept.min is None or swept.max is None:
            message = f"{command.name} sweeps {swept.name}, which has no min and max."
            yield place.error(path, message)


def _lint_parameters(profile: Profile, _library: ProfileLibrary, place: Place) -> Iterator[Finding]:
    """Limits have units, numbers have limits, and what is declared is used."""
    for command in profile.commands.values():
        used = {p.name for template in templates_of(command) for p in placeholders(template)}
        for parameter in command.parameters.values():
            path = f"commands.{command.name}.parameters.{parameter.name}"
            yield from _lint_parameter(parameter, f"{command.name}.{parameter.name}", path, place)
            if parameter.name not in used:
                message = f"{command.name} has the parameter {parameter.name}, which nothing uses."
                yield place.error(path, message, nearest(parameter.name, used))
    for sequence in profile.sequences.values():
        for parameter in sequence.parameters.values():
            path = f"sequences.{sequence.name}.parameters.{parameter.name}"
            yield from _lint_parameter(parameter, f"{sequence.name}.{parameter.name}", path, place)


def _lint_parameter(parameter: Parameter, owner: str, path: str, place: Place) -> Iterator[Finding]:
    if parameter.type is not ParameterType.FLOAT:
        return
    has_unit = parameter.unit or f"{path}.unit" in place.profile.marks
    if not has_unit and (parameter.min is not None or parameter.max is not None):
        message = f"{owner} has limits but no unit."
        yield place.error(path, message, 'Say unit: "" for a number without one.')
    if parameter.min is None or parameter.max is None:
        yield place.warning(path, f"{owner} is not limited on both sides.")


def _lint_names(profile: Profile, _library: ProfileLibrary, place: Place) -> Iterator[Finding]:
    """Tool names that the strictest clients take, with a suffix of the usual length."""
    suffix = "x" * SHORT_LENGTH
    for name in profile.commands:
        full = tool_name(profile.key, suffix, name)
        if len(full) > LONGEST_TOOL_NAME:
            yield place.error(f"commands.{name}", _too_long(name, len(full)))
    for name in profile.sequences:
        full = sequence_tool_name(profile.key, suffix, name)
        if len(full) > LONGEST_TOOL_NAME:
            yield place.error(f"sequences.{name}", _too_long(name, len(full)))


def _too_long(name: str, length: int) -> str:
    return f"The tool of {name} has a name of {length} characters, over {LONGEST_TOOL_NAME}."


def _lint_manners(profile: Profile, _library: ProfileLibrary, place: Place) -> Iterator[Finding]:
    """What an agent needs: descriptions, few essentials, a known class, verified writes named."""
    essential = [c.name for c in profile.commands.values() if c.is_essential]
    essential += [s.name for s in profile.sequences.values() if s.is_essential]
    if len(essential) > MOST_ESSENTIAL:
        message = f"{len(essential)} commands are essential, over {MOST_ESSENTIAL}."
        yield place.error(f"commands.{essential[MOST_ESSENTIAL]}", message)
    if profile.instrument_class not in _CLASSES:
        message = f'The instrument_class "{profile.instrument_class}" is not a usual one.'
        suggestion = nearest(profile.instrument_class, _CLASSES)
        yield place.warning("instrument_class", message, suggestion)
    for command in profile.commands.values():
        if not command.description:
            yield place.warning(f"commands.{command.name}", f"{command.name} is not described.")
        if is_output_command(command) and not command.is_safe and not command.is_dangerous:
            message = f"{command.name} works an output and is marked neither safe nor dangerous."
            yield place.warning(f"commands.{command.name}", message)
    for sequence in profile.sequences.values():
        if not sequence.description:
            yield place.warning(f"sequences.{sequence.name}", f"{sequence.name} is not described.")


Rule = Callable[[Profile, ProfileLibrary, Place], Iterator[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    _lint_examples,
    _lint_safety,
    _lint_danger,
    _lint_connection,
    lint_abort,
    _lint_sweeps,
    _lint_parameters,
    _lint_names,
    _lint_manners,
)
