"""``returns`` of a query: nodes → how its answer is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from edged.profiles.complaints import complaint
from edged.profiles.fields import (
    Fields,
    check_name,
    list_of,
    number_of,
    text_of,
    whole_number_of,
)
from edged.profiles.grammar_answer_fields import (
    MOST_FIELDS,
    NUMBERS,
    answer_fields,
    answer_type,
    count_of,
    labels_of,
    number_scale,
    separator_of,
)
from edged.profiles.grammar_blocks import WAVEFORM_KEYS, read_image, read_waveform
from edged.profiles.model import (
    DEFAULT_SENTINELS,
    BitField,
    BitsAnswer,
    FieldsAnswer,
    Parameter,
    Returns,
    ScalarAnswer,
)
from edged.yaml.tree import MapNode, Node

__all__ = ["is_number", "read_returns"]

_KINDS: Final = ("type", "fields", "bits", "waveform", "image")
BITS_KEYS: Final = ("base", "fields")
BIT_KEYS: Final = ("name", "mask", "map")
IMAGE_KEYS: Final = ("mime", "data")
RETURN_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "type": frozenset({"type", "unit", "map", "scale", "sentinels", "extra_lines"}),
    "fields": frozenset({"fields", "separator", "primary", "sentinels", "count", "extra_lines"}),
    "bits": frozenset({"bits"}),
    "waveform": frozenset({"waveform"}),
    "image": frozenset({"image"}),
}


def read_returns(node: Node, owner: str, parameters: Mapping[str, Parameter]) -> Returns:
    """What ``returns`` says, one of five kinds.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    everything = frozenset().union(*RETURN_KEYS.values())
    fields = Fields.of(node, owner, everything)
    kinds = [kind for kind in _KINDS if fields.has(kind)]
    if len(kinds) != 1:
        count = "none" if not kinds else " and ".join(kinds)
        message = f"{owner} must have exactly one of {', '.join(_KINDS)}; it has {count}."
        raise complaint(fields.mark, message)
    fields = Fields.of(node, owner, RETURN_KEYS[kinds[0]])
    match kinds[0]:
        case "type":
            return _read_scalar(fields, parameters)
        case "fields":
            return _read_fields(fields, parameters)
        case "bits":
            return _read_bits(Fields.of(fields.need("bits"), f"{owner}.bits", BITS_KEYS))
        case "waveform":
            inner = Fields.of(fields.need("waveform"), f"{owner}.waveform", WAVEFORM_KEYS)
            return read_waveform(inner, parameters)
        case _:
            inner = Fields.of(fields.need("image"), f"{owner}.image", IMAGE_KEYS)
            return read_image(inner, parameters)


def is_number(returns: Returns | None) -> bool:
    """Whether an answer read so has one number to plot, compare and step by."""
    match returns:
        case ScalarAnswer(type=type_, map=labels):
            return type_ in NUMBERS and not labels
        case FieldsAnswer(fields=fields, primary=primary):
            return any(f.name == primary and f.type in NUMBERS and not f.map for f in fields)
        case _:
            return False


def _sentinels(fields: Fields) -> tuple[float, ...]:
    if not fields.has("sentinels"):
        return DEFAULT_SENTINELS
    name = fields.name_of("sentinels")
    return tuple(float(number_of(node, name)) for node in fields.items("sentinels", most=20))


def _read_scalar(fields: Fields, parameters: Mapping[str, Parameter]) -> ScalarAnswer:
    type_ = answer_type(fields)
    return ScalarAnswer(
        type=type_,
        unit=fields.text("unit", most=32),
        map=labels_of(fields),
        scale=number_scale(fields, type_, parameters),
        sentinels=_sentinels(fields),
        extra_lines=_extra_lines(fields),
    )


def _read_fields(fields: Fields, parameters: Mapping[str, Parameter]) -> FieldsAnswer:
    found = answer_fields(fields.need("fields"), fields.name_of("fields"), parameters)
    primary = fields.text("primary", most=64) or None
    if primary is not None and primary not in {field.name for field in found}:
        message = f'{fields.owner}: "primary" is "{primary}", which is no field.'
        raise complaint(fields.mark_of("primary"), message)
    return FieldsAnswer(
        fields=found,
        separator=separator_of(fields),
        primary=primary,
        sentinels=_sentinels(fields),
        count=count_of(fields, found),
        extra_lines=_extra_lines(fields),
    )


def _extra_lines(fields: Fields) -> int:
    return fields.whole("extra_lines", 0, 16) or 0


def _read_bits(fields: Fields) -> BitsAnswer:
    base = fields.whole("base", 10, 16) or 10
    if base not in (10, 16):
        raise complaint(fields.mark_of("base"), f'{fields.owner}: "base" must be 10 or 16.')
    found: dict[str, BitField] = {}
    node = fields.need("fields")
    for entry in list_of(node, fields.name_of("fields"), most=MOST_FIELDS):
        inner = Fields.of(entry, fields.owner, BIT_KEYS)
        name = text_of(inner.need("name"), inner.name_of("name"), most=64)
        check_name(inner.mark_of("name"), name, f"{fields.owner}: the field")
        if name in found:
            raise complaint(entry.mark, f'{fields.owner} has two fields called "{name}".')
        mask = whole_number_of(inner.need("mask"), inner.name_of("mask"), 1, 2**64 - 1)
        found[name] = BitField(name=name, mask=mask, map=_bit_labels(inner, mask))
    if not found:
        raise complaint(node.mark, f"{fields.name_of('fields')} is empty.")
    return BitsAnswer(base=base, fields=tuple(found.values()))


def _bit_labels(fields: Fields, mask: int) -> dict[str, str]:
    """Labels by the number that the bits under ``mask`` make when shifted down."""
    labels = labels_of(fields)
    most = mask >> ((mask & -mask).bit_length() - 1)
    node = fields.get("map")
    for number in labels:
        if isinstance(node, MapNode) and (not number.isdecimal() or int(number) > most):
            message = f'{fields.name_of("map")}: "{number}" is no number from 0 to {most}.'
            raise complaint(node.keys[number].mark, message)
    return labels
