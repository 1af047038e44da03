"""``returns: {waveform}`` and ``{image}``: nodes → how a block of bytes is fetched and read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from edged.profiles.complaints import complaint
from edged.profiles.fields import Fields, expression_of, template_of, text_of
from edged.profiles.grammar_answer_fields import answer_fields, count_of, scale_of, separator_of
from edged.profiles.model import (
    AnswerField,
    ImageAnswer,
    Parameter,
    ParameterType,
    WaveformAnswer,
)
from edged.yaml.tree import ListNode

__all__ = ["WAVEFORM_KEYS", "read_image", "read_waveform"]

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
