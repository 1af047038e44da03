"""Which bounds hold for a parameter: its own, and those that another parameter brings (``by``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edged.profiles.model import Bound, Parameter, ParameterType, Scalar

__all__ = [
    "NarrowedBound",
    "effective_bound",
    "labels",
    "narrowed",
    "own_bound",
    "possible_values",
    "tighter",
    "widest_bound",
]

_MOST_VALUES = 1_000
"""An integer parameter with more values than this is not walked to find the widest bound."""


class NarrowedBound(NamedTuple):
    """A bound and the words that say when it holds (``"channel is 3"``; empty: always)."""

    bound: Bound
    when: str


def labels(parameter: Parameter) -> tuple[str, ...]:
    """What a caller may say for an enum or a mapped parameter; empty for all others."""
    if parameter.options:
        return parameter.options
    if parameter.type is ParameterType.BOOL:
        return ()
    return tuple(parameter.map)


def effective_bound(parameter: Parameter, values: Mapping[str, Scalar]) -> Bound:
    """The tightest of all bounds that hold beside these values of the other parameters."""
    bound = own_bound(parameter)
    for case in narrowed(parameter, values):
        bound = tighter(bound, case.bound)
    return bound


def own_bound(parameter: Parameter) -> Bound:
    """The bound that always holds."""
    return Bound(min=parameter.min, max=parameter.max, options=labels(parameter) or None)


def narrowed(parameter: Parameter, values: Mapping[str, Scalar]) -> list[NarrowedBound]:
    """The ``by`` bounds that hold beside these values; a name without a value brings none."""
    found: list[NarrowedBound] = []
    for other, cases in parameter.by.items():
        value = values.get(other)
        bound = None if value is None else cases.get(value)
        if bound is not None:
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            found.append(NarrowedBound(bound, f"{other} is {shown}"))
    return found


def tighter(one: Bound, other: Bound) -> Bound:
    """The bound that holds when both hold; options keep the first's order."""
    lows = [low for low in (one.min, other.min) if low is not None]
    highs = [high for high in (one.max, other.max) if high is not None]
    options = one.options if other.options is None else other.options
    if one.options is not None and other.options is not None:
        options = tuple(option for option in one.options if option in other.options)
    return Bound(min=max(lows, default=None), max=min(highs, default=None), options=options)


def widest_bound(
    parameter: Parameter, parameters: Mapping[str, Parameter], optional: frozenset[str]
) -> Bound:
    """What no combination of the other parameters can exceed: the bound of a flat schema.

    Where ``by`` lists every value that the other parameter can have, the widest of the listed
    bounds is tighter than the parameter's own, and is taken.
    """
    bound = own_bound(parameter)
    for other, cases in parameter.by.items():
        asked = parameters.get(other)
        if asked is None or (other in optional and asked.default is None):
            continue  # it may be absent, and then only the parameter's own bound holds
        possible = possible_values(asked)
        if possible and set(possible) <= set(cases):
            bound = tighter(bound, _wider([cases[value] for value in possible]))
    return bound


def possible_values(parameter: Parameter) -> list[Scalar]:
    """Every value that a caller may give; empty when they cannot be listed."""
    if parameter.type is ParameterType.BOOL:
        return [False, True]
    if labels(parameter):
        return list(labels(parameter))
    if parameter.type is not ParameterType.INT or parameter.min is None or parameter.max is None:
        return []
    if parameter.max - parameter.min > _MOST_VALUES:
        return []
    return list(range(math.ceil(parameter.min), math.floor(parameter.max) + 1))


def _wider(bounds: Sequence[Bound]) -> Bound:
    """The loosest of several on each side; an open side stays open."""
    lows = [bound.min for bound in bounds if bound.min is not None]
    highs = [bound.max for bound in bounds if bound.max is not None]
    choices = [bound.options for bound in bounds if bound.options is not None]
    every = len(bounds)
    return Bound(
        min=min(lows) if len(lows) == every else None,
        max=max(highs) if len(highs) == every else None,
        options=tuple(dict.fromkeys(label for options in choices for label in options))
        if len(choices) == every
        else None,
    )
