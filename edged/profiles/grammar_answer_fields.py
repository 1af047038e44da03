"""The pieces that all answers share: types, labels, scales, and named fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from edged.profiles.complaints import complaint
from edged.profiles.fields import (
    Fields,
    check_name,
    expression_of,
    list_of,
    scalar_of,
    text_of,
    whole_number_of,
)
from edged.profiles.model import AnswerField, AnswerType, Parameter
from edged.profiles.patterns import pattern_of
from edged.yaml.tree import ListNode, Node

__all__ = [
    "MOST_FIELDS",
    "NUMBERS",
    "answer_fields",
    "answer_type",
    "count_of",
    "labels_of",
    "number_scale",
    "scale_of",
    "separator_of",
]

MOST_FIELDS: Final = 200
MOST_PIECES: Final = 1_000_000
NUMBERS: Final = frozenset({AnswerType.FLOAT, AnswerType.INT, AnswerType.SI})
FIELD_KEYS: Final = frozenset({"name", "type", "unit", "map", "scale", "index", "key", "pattern"})


def answer_type(fields: Fields) -> AnswerType:
    """``type``, which every value has."""
    fields.need("type")
    return AnswerType(fields.choice("type", list(AnswerType)) or "")


def labels_of(fields: Fields) -> dict[str, str]:
    """``map`` of an answer: wire text → label."""
    node = fields.mapping("map")
    if node is None:
        return {}
    name = fields.name_of("map")
    return {
        wire: text_of(label, f"{name}: {wire}", most=200) for wire, label in node.entries.items()
    }


def scale_of(fields: Fields, names: Collection[str]) -> str | None:
    """``scale``: an expression over these names, if one is given."""
    node = fields.get("scale")
    return None if node is None else expression_of(node, fields.name_of("scale"), names)


def number_scale(
    fields: Fields, type_: AnswerType, parameters: Mapping[str, Parameter]
) -> str | None:
    """``scale`` of one value: over ``value`` and the parameters, and only of a number."""
    scale = scale_of(fields, {"value", *parameters})
    if scale is not None and (type_ not in NUMBERS or fields.has("map")):
        message = f'{fields.owner}: "scale" belongs to a number.'
        raise complaint(fields.mark_of("scale"), message)
    return scale


def separator_of(fields: Fields) -> str:
    """What stands between the fields, a comma unless said."""
    if not fields.has("separator"):
        return ","
    node = fields.need("separator")
    separator = scalar_of(node, fields.name_of("separator"))
    if not isinstance(separator, str) or not 0 < len(separator) <= 8:
        raise complaint(node.mark, f'{fields.owner}: "separator" must be 1 to 8 characters.')
    return separator


def count_of(fields: Fields, found: Sequence[AnswerField]) -> tuple[int, int] | None:
    """``count``: how many pieces the answer has, a number or the least and the most.

    Without it, fields that name every piece from the first on are all that there is; of others
    nobody knows what stands between and behind them.
    """
    node = fields.get("count")
    name = fields.name_of("count")
    if node is None:
        indexes = {field.index for field in found}
        is_whole = indexes == set(range(len(found)))
        return (len(found), len(found)) if is_whole else None
    if not isinstance(node, ListNode):
        count = whole_number_of(node, name, 1, MOST_PIECES)
        return count, count
    match [whole_number_of(entry, name, 1, MOST_PIECES) for entry in list_of(node, name, most=2)]:
        case [least, most] if least <= most:
            return least, most
        case _:
            raise complaint(node.mark, f"{name} must be a number, or the least and the most.")


def answer_fields(
    node: Node, owner: str, parameters: Mapping[str, Parameter]
) -> tuple[AnswerField, ...]:
    """The entries of ``fields``, each found by one of index, key and pattern."""
    nodes = list_of(node, owner, most=MOST_FIELDS)
    if not nodes:
        raise complaint(node.mark, f"{owner} is empty.")
    found: dict[str, AnswerField] = {}
    for entry in nodes:
        field = _answer_field(Fields.of(entry, owner, FIELD_KEYS), parameters)
        if field.name in found:
            raise complaint(entry.mark, f'{owner} has two fields called "{field.name}".')
        found[field.name] = field
    return tuple(found.values())


def _answer_field(fields: Fields, parameters: Mapping[str, Parameter]) -> AnswerField:
    ways = [key for key in ("index", "key", "pattern") if fields.has(key)]
    if len(ways) != 1:
        message = f"{fields.owner}: a field needs exactly one of index, key and pattern."
        raise complaint(fields.mark, message)
    name = text_of(fields.need("name"), fields.name_of("name"), most=64)
    check_name(fields.mark_of("name"), name, f"{fields.owner}: the field")
    type_ = answer_type(fields)
    pattern = fields.get("pattern")
    return AnswerField(
        name=name,
        type=type_,
        unit=fields.text("unit", most=32),
        map=labels_of(fields),
        scale=number_scale(fields, type_, parameters),
        index=fields.whole("index", 0, 10_000),
        key=fields.text("key", most=64) if fields.has("key") else None,
        pattern=None
        if pattern is None
        else pattern_of(pattern, fields.name_of("pattern"), groups=1),
    )
