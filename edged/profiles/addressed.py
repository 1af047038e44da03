"""``{address}`` in a profile: the bus address of one unit of several behind a port. Pure.

A template or pattern is read before anybody knows which unit it is for, so that the place of the
address is kept as text (``ADDRESS``). Each unit gets a profile of its own, in which its address
stands there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar

from edged.yaml.tree import Mark

PLACEHOLDER: Final = "{address}"
ADDRESS: Final = "<address>"
"""What stands in the place of ``PLACEHOLDER`` where that is no parameter's name."""

T = TypeVar("T")


def with_address(value: T, address: str) -> T:
    """A profile, or a part of one, with a unit's address in each place of it."""
    found: T = _replaced(value, address)
    return found


def names_address(value: object) -> bool:
    """Whether an address is needed somewhere in a profile, or a part of one."""
    return _replaced(value, "") is not value


def _replaced(value: Any, address: str) -> Any:
    """The value with the address in it; itself where there is no place for one."""
    match value:
        case str():
            return value.replace(ADDRESS, address) if ADDRESS in value else value
        case tuple():
            items = tuple(_replaced(item, address) for item in value)
            is_same = all(new is old for new, old in zip(items, value, strict=True))
            return value if is_same else items
        case Mapping():
            entries = {key: _replaced(entry, address) for key, entry in value.items()}
            return value if all(entries[key] is value[key] for key in value) else entries
        case Mark():
            return value
    if not is_dataclass(value) or isinstance(value, type):
        return value
    own = {
        field.name: new
        for field in fields(value)
        if (new := _replaced(old := getattr(value, field.name), address)) is not old
    }
    return replace(value, **own) if own else value
