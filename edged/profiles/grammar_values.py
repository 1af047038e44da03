"""The values in sequences: nodes → literals and expressions whose names are known."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from edged.errors import Invalid
from edged.profiles.complaints import complaint, nearest
from edged.profiles.fields import Fields, list_of, number_of, scalar_of, whole_number_of
from edged.profiles.sequence_values import names_in
from edged.yaml.tree import MapNode, Node

__all__ = ["checked_value", "read_range"]

MAX_POINTS: Final = 100_000


def checked_value(
    node: Node, owner: str, names: Collection[str], *, is_bare: bool = False
) -> object:
    """A value as the model holds it, its names known.

    Raises:
        Invalid: a list or mapping, not an expression, a name that is not there.
    """
    value = scalar_of(node, owner)
    try:
        used = names_in(value, is_bare=is_bare)
    except Invalid as error:
        raise complaint(node.mark, f"{owner}: {error.message}") from None
    for name in sorted(used):
        if name not in names:
            message = f"{owner} names {name}, which has no value here."
            raise complaint(node.mark, message, nearest(name, names))
    return value


def read_range(node: Node, owner: str, names: Collection[str]) -> tuple[str, tuple[object, ...]]:
    """``in`` of a loop: ``list``, ``lin`` or ``log`` and its values.

    Raises:
        Invalid: another shape, no values, too many, or log through 0.
    """
    if not isinstance(node, MapNode):
        items = list_of(node, owner, most=MAX_POINTS)
        return "list", tuple(checked_value(item, owner, names) for item in items)
    fields = Fields.of(node, owner, ("lin", "log"))
    if len(node.entries) != 1:
        raise complaint(node.mark, f"{owner} is a list, or one of lin and log.")
    kind = next(iter(node.entries))
    items = fields.items(kind)
    if len(items) != 3:
        message = f"{fields.name_of(kind)} needs three entries: from, to, number of points."
        raise complaint(fields.mark_of(kind), message)
    values = tuple(checked_value(item, owner, names, is_bare=True) for item in items)
    if not isinstance(values[2], str):
        whole_number_of(items[2], f"{owner}: the number of points", 1, MAX_POINTS)
    for item, value in zip(items[:2], values, strict=False):
        if not isinstance(value, str):
            _check_end(item, number_of(item, owner), kind, owner)
    return kind, values


def _check_end(node: Node, value: float, kind: str, owner: str) -> None:
    if kind == "log" and value <= 0:
        message = f"{owner}: log goes from and to numbers over 0, not {value}."
        raise complaint(node.mark, message)
