"""``Content-Type`` and ``Accept``: what a body is, and what an answer may be.

Source: RFC 9110 sections 8.3 and 12.5.1, as far as two media types need it: quoted parameters may
not hold commas or semicolons.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["JSON_TYPE", "SSE_TYPE", "accepts", "is_json_type"]

JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"

_WORD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RANGE: Final = re.compile(rf"{_WORD.pattern}/{_WORD.pattern}")
_ZERO: Final = re.compile(r"0(\.0{0,3})?")
_UTF_8: Final = frozenset({"utf-8", "utf8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _MediaType:
    """A media type or range in lower case, with its parameters in order."""

    name: str
    parameters: tuple[tuple[str, str], ...]


def is_json_type(value: str) -> bool:
    """Whether a ``Content-Type`` is JSON in UTF-8.

    Types that a web form may send without asking first (text/plain, forms) must not pass: that
    they do not is part of what keeps other people's pages out.
    """
    found = _parse(value)
    if found is None or found.name != JSON_TYPE:
        return False
    return all(text.lower() in _UTF_8 for name, text in found.parameters if name == "charset")


def accepts(accept: str | None, wanted: str) -> bool:
    """Whether an ``Accept`` header takes a media type; the most specific range decides.

    No header at all takes everything, and so does an empty one.
    """
    if not accept:
        return True
    is_taken: dict[str, bool] = {}
    for part in accept.split(","):
        found = _parse(part)
        if found is not None:
            quality = dict(found.parameters).get("q", "1")
            is_wanted = _ZERO.fullmatch(quality) is None
            is_taken[found.name] = is_taken.get(found.name, False) or is_wanted
    kind = wanted.partition("/")[0]
    for media_range in (wanted, f"{kind}/*", "*/*"):
        if media_range in is_taken:
            return is_taken[media_range]
    return False


def _parse(value: str) -> _MediaType | None:
    name, *pieces = (piece.strip(" \t") for piece in value.split(";"))
    if _RANGE.fullmatch(name) is None:
        return None
    parameters = []
    for piece in pieces:
        key, has_value, text = piece.partition("=")
        if not piece:
            continue
        if not has_value or _WORD.fullmatch(key) is None:
            return None
        parameters.append((key.lower(), text.strip('"')))
    return _MediaType(name=name.lower(), parameters=tuple(parameters))
