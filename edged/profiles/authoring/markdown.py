"""A profile as a text that an agent can read: what the model can do, within which limits.

Pure. It tells what the profile says; what the owner's bench file narrows for one unit is in
get_capabilities of that unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from edged.profiles import model
from edged.profiles.addressed import PLACEHOLDER, with_address

MAX_OPTIONS: Final = 24
"""Choices of one argument that are listed; a longer list says how many more there are."""


def profile_markdown(profile: model.Profile) -> str:
    """The whole page; it ends with a line end."""
    profile = with_address(profile, PLACEHOLDER)
    title = f"{profile.manufacturer} {profile.model}".strip() or profile.key
    untried = frozenset(profile.unverified)
    is_all_untried = untried.issuperset([*profile.commands, *profile.sequences])
    parts = [
        f"# {title}\n",
        f"Profile `{profile.key}`, version {profile.version}, class `{profile.instrument_class}`.",
        _how_to(profile, is_all_untried=is_all_untried),
    ]
    if is_all_untried:
        untried = frozenset()
    commands = profile.commands.values()
    for heading, chosen in (
        ("Measure and ask", [c for c in commands if c.is_query]),
        ("Set and do", [c for c in commands if not c.is_query]),
    ):
        if chosen:
            parts.append(f"\n## {heading}\n")
            parts += [_command(command, untried) for command in chosen]
    if profile.sequences:
        parts.append("\n## Sequences\n")
        parts.append("One call of execute_sequence runs all steps and leaves the unit safe.\n")
        parts += [_sequence(sequence, untried) for sequence in profile.sequences.values()]
    if profile.settings:
        names = ", ".join(f"`{name}`" for name in profile.settings)
        parts.append(f"\n## Settings that recordings keep\n\n{names}")
    if profile.source:
        parts.append(f"\n## Source\n\n{_line(profile.source)}")
    return "\n".join(parts) + "\n"


def _how_to(profile: model.Profile, *, is_all_untried: bool) -> str:
    said = [
        "\nRun a command by execute_command (instrument_id, command_name, parameters) or by its "
        "own tool.",
    ]
    if any(command.requires_sweep for command in profile.commands.values()):
        said.append("What is marked *only by a sweep* is ramped by start_sweep.")
    if profile.abort:
        lines = ", ".join(f"`{line}`" for line in profile.abort_lines)
        said.append(f"Made safe by {lines} (stop_sweep, bench__stop_all).")
    if is_all_untried:
        said.append("This profile has not been tried on a real unit yet: check what it does.")
    return " ".join(said)


def _command(command: model.Command, untried: frozenset[str]) -> str:
    marks = [
        mark
        for is_so, mark in (
            (command.is_dangerous, "dangerous"),
            (command.is_safe, "makes safe"),
            (command.changes is not None, f"changes: {command.changes}"),
            (command.requires_sweep, "only by a sweep"),
            (command.sweep is not None and not command.requires_sweep, "can be swept"),
            (command.name in untried, "never tried on the real unit"),
        )
        if is_so
    ]
    lines = [f"### `{command.name}`{_in_brackets(marks)}\n"]
    if command.description:
        lines.append(f"{_line(command.description)}\n")
    if command.returns is not None:
        lines.append(f"Answers {_answer(command.returns)}.\n")
    if command.precondition is not None and command.precondition.hint:
        lines.append(f"Before: {_line(command.precondition.hint)}\n")
    lines += _parameters(command.parameters)
    lines += [f"- Must hold: `{check}`" for check in command.checks]
    return "\n".join(lines).rstrip("\n") + "\n"


def _sequence(sequence: model.Sequence, untried: frozenset[str]) -> str:
    marks = [
        mark
        for is_so, mark in (
            (sequence.is_dangerous, "dangerous"),
            (sequence.name in untried, "never tried on the real unit"),
        )
        if is_so
    ]
    lines = [f"### `{sequence.name}`{_in_brackets(marks)}\n"]
    if sequence.description:
        lines.append(f"{_line(sequence.description)}\n")
    if sequence.result:
        lines.append(f"Answers {', '.join(f'`{name}`' for name in sequence.result)}.\n")
    lines += _parameters(sequence.parameters)
    return "\n".join(lines).rstrip("\n") + "\n"


def _parameters(parameters: Mapping[str, model.Parameter]) -> list[str]:
    return [f"- `{name}`: {_parameter(one)}" for name, one in parameters.items()]


def _parameter(parameter: model.Parameter) -> str:
    said = [parameter.type.value]
    if parameter.options:
        said = ["one of " + _choices(parameter.options)]
    elif parameter.map:
        said = ["one of " + _choices(parameter.map)]
    limits = _limits(parameter.min, parameter.max, parameter.unit)
    if limits:
        said.append(limits)
    elif parameter.unit:
        said.append(f"in {parameter.unit}")
    if parameter.default is not None:
        said.append(f"default `{_shown(parameter.default)}`")
    text = ", ".join(said)
    if parameter.description:
        text += f". {_line(parameter.description)}"
    for other, bounds in parameter.by.items():
        for value, bound in bounds.items():
            narrowed = (
                _limits(bound.min, bound.max, parameter.unit)
                if bound.options is None
                else _choices(bound.options)
            )
            text += f"\n  - with `{other}` {_shown(value)}: {narrowed}"
    return text


def _limits(low: float | None, high: float | None, unit: str) -> str:
    tail = f" {unit}" if unit else ""
    if low is not None and high is not None:
        return f"{low:g} to {high:g}{tail}"
    if low is not None:
        return f"at least {low:g}{tail}"
    return f"at most {high:g}{tail}" if high is not None else ""


def _answer(returns: model.Returns) -> str:
    match returns:
        case model.ScalarAnswer():
            unit = f" in {returns.unit}" if returns.unit else ""
            return f"one {returns.type.value}{unit}"
        case model.ListAnswer():
            unit = f" in {returns.unit}" if returns.unit else ""
            return f"a list of {returns.type.value}{unit}"
        case model.FieldsAnswer():
            fields = (f"`{f.name}`" + (f" ({f.unit})" if f.unit else "") for f in returns.fields)
            return ", ".join(fields)
        case model.BitsAnswer():
            return "the bits " + ", ".join(f"`{field.name}`" for field in returns.fields)
        case model.WaveformAnswer():
            return (
                f"a waveform in {returns.y_unit or 'numbers'} over {returns.x_unit}: "
                "fetch_waveform hands it out"
            )
        case model.ImageAnswer():
            return f"a picture ({returns.mime})"


def _choices(options: Iterable[str]) -> str:
    known = list(options)
    shown = ", ".join(f"`{option}`" for option in known[:MAX_OPTIONS])
    more = len(known) - MAX_OPTIONS
    return shown if more <= 0 else f"{shown} and {more} more"


def _in_brackets(marks: list[str]) -> str:
    return f" ({', '.join(marks)})" if marks else ""


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _line(text: str) -> str:
    """A profile's own words in one line: they must not make headings or lists of their own."""
    return " ".join(text.split())
