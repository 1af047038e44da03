"""Tool arguments that a client repeats in ``Mcp-Param-…`` headers: do the two agree?

A tool's schema may name a header for an argument (``x-mcp-header``), so that a proxy can route
without reading the body. A proxy that went by the one and a tool that works by the other could then
be told different things, so a call whose two disagree is refused.

Source: MCP 2026-07-28 ``basic/transports/streamable-http``, "Custom Headers from Tool Parameters".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["decode_value", "disagreement"]

HEADER_PREFIX: Final = "Mcp-Param-"
_KEYWORD: Final = "x-mcp-header"
_BASE64_PREFIX: Final = "=?base64?"
_BASE64_SUFFIX: Final = "?="
_MAX_DEPTH: Final = 8
"""Of nested objects in a schema; deeper annotations are not looked for."""


def disagreement(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], headers: Mapping[str, str]
) -> str:
    """The name of the first header that is missing or does not repeat its argument; else empty.

    Args:
        schema: the tool's input schema.
        headers: by lower-case name.
    """
    for name, keys in _annotated(schema, ()):
        value = _value_at(arguments, keys)
        if value is None:
            # Absent or null: no header is expected, and one that came means nothing here.
            continue
        header = headers.get((HEADER_PREFIX + name).lower())
        text = None if header is None else decode_value(header)
        if text is None or not _is_same(text, value):
            return HEADER_PREFIX + name
    return ""


def decode_value(value: str) -> str | None:
    """A header's text, out of ``=?base64?…?=`` if it is in that; ``None`` for broken Base64.

    What has only one end of the wrapping is not wrapped, and means itself.
    """
    if (
        not value.startswith(_BASE64_PREFIX)
        or not value.endswith(_BASE64_SUFFIX)
        or len(value) < len(_BASE64_PREFIX + _BASE64_SUFFIX)
    ):
        return value
    packed = value[len(_BASE64_PREFIX) : -len(_BASE64_SUFFIX)]
    try:
        return base64.b64decode(packed, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None


def _annotated(
    schema: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Header names and the keys that lead to their arguments, by ``properties`` alone."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(path) >= _MAX_DEPTH:
        return
    for key, member in properties.items():
        if not isinstance(member, Mapping):
            continue
        name = member.get(_KEYWORD)
        if isinstance(name, str) and member.get("type") in ("string", "integer", "boolean"):
            yield name, (*path, key)
        yield from _annotated(member, (*path, key))


def _value_at(arguments: object, keys: tuple[str, ...]) -> object:
    for key in keys:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    return arguments


def _is_same(text: str, value: object) -> bool:
    match value:
        case bool():
            return text == ("true" if value else "false")
        case str():
            return text == value
        case int() | float():
            try:
                # Numbers are compared as such: 42.0 is 42.
                return float(text) == float(value)
            except (ValueError, OverflowError):
                return False
        case _:
            return False
