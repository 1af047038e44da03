"""Whether a profile's templates switch something on; how lint knows danger that nobody marked.

The words themselves are in ``output_words.py``; here are the parameters that may stand for them.
"""

from __future__ import annotations

from collections.abc import Mapping

from edged.output_words import is_on, switches_on, works_switch
from edged.profiles.model import Command, Parameter, ParameterType

__all__ = ["is_energising", "is_output_command"]


def is_energising(template: str, parameters: Mapping[str, Parameter]) -> bool:
    """Whether a line may switch something on, with the values that its parameters can have."""
    return switches_on(template, lambda name: _can_be_on(parameters.get(name)))


def _can_be_on(parameter: Parameter | None) -> bool:
    """Whether one of the values that may stand there means "on"."""
    if parameter is None:
        return False
    if parameter.type is ParameterType.BOOL:
        return True
    if parameter.type is ParameterType.ENUM:
        words = [str(parameter.map.get(label, label)) for label in parameter.options]
        return any(map(is_on, words))
    return False


def is_output_command(command: Command) -> bool:
    """Whether a command does nothing but work output switches, on or off."""
    return not command.is_query and all(map(works_switch, command.scpi))
