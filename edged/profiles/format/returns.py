"""``returns`` of a query: nodes → how its answer is read.

The pieces that all answers share: types, labels, scales, and named fields.

``returns: {waveform}`` and ``{image}``: nodes → how a block of bytes is fetched and read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from edged.profiles.format.fields import (
    Fields,
    check_name,
    complaint,
    expression_of,
    list_of,
    number_of,
    pattern_of,
    scalar_of,
    template_of,
    text_of,
    whole_number_of,
)
from edged.profiles.model import (
    DEFAULT_SENTINELS,
    AnswerField,
    BitField,
    BitsAnswer,
    FieldsAnswer,
    ImageAnswer,
    Parameter,
    ParameterType,
    Returns,
    ScalarAnswer,
    WaveformAnswer,
)
from edged.scpi.answer_text import AnswerType
from edged.yaml.tree import ListNode, MapNode, Node

__all__ = [
    "MOST_FIELDS",
    "NUMBERS",
    "WAVEFORM_KEYS",
    "answer_fields",
    "answer_type",
    "count_of",
    "is_number",
    "labels_of",
    "number_scale",
    "read_image",
    "read_returns",
    "read_waveform",
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


WAVEFORM_KEYS: Final = frozenset(
    {
        "setup", "preamble", "data", "dtype", "byte_order", "chunk_points", "trailing_bytes",
        "x_increment", "x_unit", "y_unit", "scale",
    }
)  # fmt: skip
PREAMBLE_KEYS: Final = ("query", "fields", "separator", "count")
DTYPES: Final = ("i1", "u1", "i2", "u2", "f4", "f8")


def read_waveform(fields: Fields, parameters: Mapping[str, Parameter]) -> WaveformAnswer:
    """Set-up lines, preamble, data query, and how codes become values.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    queries, preamble, separator, count = _read_preamble(fields, parameters)
    names = {field.name for field in preamble} | set(parameters)
    for key in ("dtype", "data"):
        fields.need(key)
    dtype = fields.choice("dtype", DTYPES) or ""
    order = fields.choice("byte_order", ("little", "big"))
    if order is None and dtype not in ("i1", "u1"):
        raise complaint(fields.mark, f'{fields.owner} has no "byte_order" for {dtype}.')
    increment = fields.get("x_increment")
    chunk_points = fields.whole("chunk_points", 1, 100_000_000)
    if chunk_points is not None:
        _check_stretch(fields, parameters)
    return WaveformAnswer(
        data=template_of(fields.need("data"), fields.name_of("data"), parameters),
        dtype=dtype,
        byte_order=order or "little",
        setup=fields.templates("setup", parameters),
        preamble_queries=queries,
        preamble_fields=preamble,
        preamble_separator=separator,
        preamble_count=count,
        chunk_points=chunk_points,
        trailing_bytes=fields.whole("trailing_bytes", 0, 16) or 0,
        x_increment="1"
        if increment is None
        else expression_of(increment, fields.name_of("x_increment"), names),
        x_unit=fields.text("x_unit", "s", most=32),
        y_unit=fields.text("y_unit", "V", most=32),
        scale=scale_of(fields, names | {"value"}) or "value",
    )


def _check_stretch(fields: Fields, parameters: Mapping[str, Parameter]) -> None:
    """A capture in pieces says which piece by the parameters ``first`` and ``last``."""
    for name in ("first", "last"):
        parameter = parameters.get(name)
        if parameter is None or parameter.type is not ParameterType.INT:
            message = f'{fields.owner}: "chunk_points" needs an int parameter "{name}".'
            raise complaint(fields.mark_of("chunk_points"), message)


def _read_preamble(
    fields: Fields, parameters: Mapping[str, Parameter]
) -> tuple[tuple[str, ...], tuple[AnswerField, ...], str, tuple[int, int] | None]:
    node = fields.get("preamble")
    if node is None:
        return (), (), ",", None
    inner = Fields.of(node, f"{fields.owner}.preamble", PREAMBLE_KEYS)
    query = inner.need("query")
    if isinstance(query, ListNode):
        queries = inner.templates("query", parameters)
    else:
        queries = (template_of(query, inner.name_of("query"), parameters),)
    found = answer_fields(inner.need("fields"), inner.name_of("fields"), parameters)
    for field in found:
        if field.name in parameters or field.name == "value":
            message = f'{inner.owner}: the field "{field.name}" has the name of something else.'
            raise complaint(inner.mark, message)
    return queries, found, separator_of(inner), count_of(inner, found)


def read_image(fields: Fields, parameters: Mapping[str, Parameter]) -> ImageAnswer:
    """A picture of the screen.

    Raises:
        Invalid: no image type, or no data query.
    """
    mime = text_of(fields.need("mime"), fields.name_of("mime"), most=64)
    if not mime.startswith("image/"):
        raise complaint(fields.mark_of("mime"), f'{fields.owner}: "{mime}" is no image type.')
    data = template_of(fields.need("data"), fields.name_of("data"), parameters)
    return ImageAnswer(mime=mime, data=data)


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
