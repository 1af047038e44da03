"""``returns`` of a query: nodes → how its answer is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from edged.profiles.complaints import complaint
from edged.profiles.fields import (
    Fields,
    check_name,
    expression_of,
    list_of,
    number_of,
    scalar_of,
    template_of,
    text_of,
    whole_number_of,
)
from edged.profiles.model import (
    DEFAULT_SENTINELS,
    AnswerField,
    AnswerType,
    BitField,
    BitsAnswer,
    FieldsAnswer,
    ImageAnswer,
    Parameter,
    Returns,
    ScalarAnswer,
    WaveformAnswer,
)
from edged.profiles.patterns import pattern_of
from edged.profiles.yaml_source import MapNode, Node

__all__ = ["is_number", "read_returns"]

_KINDS: Final = ("type", "fields", "bits", "waveform", "image")
_KEYS_BY_KIND: Final[Mapping[str, frozenset[str]]] = {
    "type": frozenset({"type", "unit", "map", "scale", "sentinels"}),
    "fields": frozenset({"fields", "separator", "primary", "sentinels"}),
    "bits": frozenset({"bits"}),
    "waveform": frozenset({"waveform"}),
    "image": frozenset({"image"}),
}
_FIELD_KEYS: Final = frozenset({"name", "type", "unit", "map", "scale", "index", "key", "pattern"})
_WAVEFORM_KEYS: Final = frozenset(
    {
        "setup", "preamble", "data", "dtype", "byte_order", "chunk_points", "trailing_bytes",
        "x_increment", "x_unit", "y_unit", "scale",
    }
)  # fmt: skip
_DTYPES: Final = ("i1", "u1", "i2", "u2", "f4", "f8")
_MOST_FIELDS: Final = 200
_NUMBERS: Final = frozenset({AnswerType.FLOAT, AnswerType.INT, AnswerType.SI})


def read_returns(node: Node, owner: str, parameters: Mapping[str, Parameter]) -> Returns:
    """What ``returns`` says, one of five kinds.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    everything = frozenset().union(*_KEYS_BY_KIND.values())
    fields = Fields.of(node, owner, everything)
    kinds = [kind for kind in _KINDS if fields.has(kind)]
    if len(kinds) != 1:
        count = "none" if not kinds else " and ".join(kinds)
        message = f"{owner} must have exactly one of {', '.join(_KINDS)}; it has {count}."
        raise complaint(fields.mark, message)
    fields = Fields.of(node, owner, _KEYS_BY_KIND[kinds[0]])
    match kinds[0]:
        case "type":
            return _read_scalar(fields, parameters)
        case "fields":
            return _read_fields(fields, parameters)
        case "bits":
            return _read_bits(Fields.of(fields.need("bits"), f"{owner}.bits", ("base", "fields")))
        case "waveform":
            inner = Fields.of(fields.need("waveform"), f"{owner}.waveform", _WAVEFORM_KEYS)
            return _read_waveform(inner, parameters)
        case _:
            inner = Fields.of(fields.need("image"), f"{owner}.image", ("mime", "data"))
            return _read_image(inner, parameters)


def is_number(returns: Returns | None) -> bool:
    """Whether an answer read so has one number to plot, compare and step by."""
    match returns:
        case ScalarAnswer(type=type_, map=labels):
            return type_ in _NUMBERS and not labels
        case FieldsAnswer(fields=fields, primary=primary):
            return any(f.name == primary and f.type in _NUMBERS and not f.map for f in fields)
        case _:
            return False


def _answer_type(fields: Fields) -> AnswerType:
    fields.need("type")
    return AnswerType(fields.choice("type", list(AnswerType)) or "")


def _labels(fields: Fields) -> dict[str, str]:
    """``map`` of an answer: wire text → label."""
    node = fields.mapping("map")
    if node is None:
        return {}
    name = fields.name_of("map")
    return {
        wire: text_of(label, f"{name}: {wire}", most=200) for wire, label in node.entries.items()
    }


def _scale(fields: Fields, names: Collection[str]) -> str | None:
    node = fields.get("scale")
    return None if node is None else expression_of(node, fields.name_of("scale"), names)


def _sentinels(fields: Fields) -> tuple[float, ...]:
    if not fields.has("sentinels"):
        return DEFAULT_SENTINELS
    name = fields.name_of("sentinels")
    return tuple(float(number_of(node, name)) for node in fields.items("sentinels", most=20))


def _read_scalar(fields: Fields, parameters: Mapping[str, Parameter]) -> ScalarAnswer:
    type_ = _answer_type(fields)
    return ScalarAnswer(
        type=type_,
        unit=fields.text("unit", most=32),
        map=_labels(fields),
        scale=_read_scale(fields, type_, parameters),
        sentinels=_sentinels(fields),
    )


def _read_scale(
    fields: Fields, type_: AnswerType, parameters: Mapping[str, Parameter]
) -> str | None:
    scale = _scale(fields, {"value", *parameters})
    if scale is not None and (type_ not in _NUMBERS or fields.has("map")):
        message = f'{fields.owner}: "scale" belongs to a number.'
        raise complaint(fields.mark_of("scale"), message)
    return scale


def _read_fields(fields: Fields, parameters: Mapping[str, Parameter]) -> FieldsAnswer:
    found = _answer_fields(fields.need("fields"), fields.name_of("fields"), parameters)
    primary = fields.text("primary", most=64) or None
    if primary is not None and primary not in {field.name for field in found}:
        message = f'{fields.owner}: "primary" is "{primary}", which is no field.'
        raise complaint(fields.mark_of("primary"), message)
    return FieldsAnswer(
        fields=found,
        separator=_separator(fields),
        primary=primary,
        sentinels=_sentinels(fields),
    )


def _separator(fields: Fields) -> str:
    if not fields.has("separator"):
        return ","
    node = fields.need("separator")
    separator = scalar_of(node, fields.name_of("separator"))
    if not isinstance(separator, str) or not 0 < len(separator) <= 8:
        raise complaint(node.mark, f'{fields.owner}: "separator" must be 1 to 8 characters.')
    return separator


def _answer_fields(
    node: Node, owner: str, parameters: Mapping[str, Parameter]
) -> tuple[AnswerField, ...]:
    nodes = list_of(node, owner, most=_MOST_FIELDS)
    if not nodes:
        raise complaint(node.mark, f"{owner} is empty.")
    found: dict[str, AnswerField] = {}
    for entry in nodes:
        field = _answer_field(Fields.of(entry, owner, _FIELD_KEYS), parameters)
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
    type_ = _answer_type(fields)
    pattern = fields.get("pattern")
    return AnswerField(
        name=name,
        type=type_,
        unit=fields.text("unit", most=32),
        map=_labels(fields),
        scale=_read_scale(fields, type_, parameters),
        index=fields.whole("index", 0, 10_000),
        key=fields.text("key", most=64) if fields.has("key") else None,
        pattern=None
        if pattern is None
        else pattern_of(pattern, fields.name_of("pattern"), groups=1),
    )


def _read_bits(fields: Fields) -> BitsAnswer:
    base = fields.whole("base", 10, 16) or 10
    if base not in (10, 16):
        raise complaint(fields.mark_of("base"), f'{fields.owner}: "base" must be 10 or 16.')
    found: dict[str, BitField] = {}
    node = fields.need("fields")
    for entry in list_of(node, fields.name_of("fields"), most=_MOST_FIELDS):
        inner = Fields.of(entry, fields.owner, ("name", "mask", "map"))
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
    labels = _labels(fields)
    most = mask >> ((mask & -mask).bit_length() - 1)
    node = fields.get("map")
    for number in labels:
        if isinstance(node, MapNode) and (not number.isdecimal() or int(number) > most):
            message = f'{fields.name_of("map")}: "{number}" is no number from 0 to {most}.'
            raise complaint(node.keys[number].mark, message)
    return labels


def _read_waveform(fields: Fields, parameters: Mapping[str, Parameter]) -> WaveformAnswer:
    query, preamble, separator = _read_preamble(fields, parameters)
    names = {field.name for field in preamble} | set(parameters)
    for key in ("dtype", "data"):
        fields.need(key)
    dtype = fields.choice("dtype", _DTYPES) or ""
    order = fields.choice("byte_order", ("little", "big"))
    if order is None and dtype not in ("i1", "u1"):
        raise complaint(fields.mark, f'{fields.owner} has no "byte_order" for {dtype}.')
    increment = fields.get("x_increment")
    return WaveformAnswer(
        data=template_of(fields.need("data"), fields.name_of("data"), parameters),
        dtype=dtype,
        byte_order=order or "little",
        setup=fields.templates("setup", parameters),
        preamble_query=query,
        preamble_fields=preamble,
        preamble_separator=separator,
        chunk_points=fields.whole("chunk_points", 1, 100_000_000),
        trailing_bytes=fields.whole("trailing_bytes", 0, 16) or 0,
        x_increment="1"
        if increment is None
        else expression_of(increment, fields.name_of("x_increment"), names),
        x_unit=fields.text("x_unit", "s", most=32),
        y_unit=fields.text("y_unit", "V", most=32),
        scale=_scale(fields, names | {"value"}) or "value",
    )


def _read_preamble(
    fields: Fields, parameters: Mapping[str, Parameter]
) -> tuple[str | None, tuple[AnswerField, ...], str]:
    node = fields.get("preamble")
    if node is None:
        return None, (), ","
    inner = Fields.of(node, f"{fields.owner}.preamble", ("query", "fields", "separator"))
    query = template_of(inner.need("query"), inner.name_of("query"), parameters)
    found = _answer_fields(inner.need("fields"), inner.name_of("fields"), parameters)
    for field in found:
        if field.name in parameters or field.name == "value":
            message = f'{inner.owner}: the field "{field.name}" has the name of something else.'
            raise complaint(inner.mark, message)
    return query, found, _separator(inner)


def _read_image(fields: Fields, parameters: Mapping[str, Parameter]) -> ImageAnswer:
    mime = text_of(fields.need("mime"), fields.name_of("mime"), most=64)
    if not mime.startswith("image/"):
        raise complaint(fields.mark_of("mime"), f'{fields.owner}: "{mime}" is no image type.')
    data = template_of(fields.need("data"), fields.name_of("data"), parameters)
    return ImageAnswer(mime=mime, data=data)
