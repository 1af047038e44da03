"""Bytes to JSON values and back, within limits that hold for any bytes.

What JSON readers disagree about, or choke on, ends here as ``BadJsonError``: bytes that are not
UTF-8, a byte order mark, NaN, numbers without a float, nesting that would exhaust the stack, two
members of one name (two readers of the same bytes could believe different ones), half of a
surrogate pair (text that no database and no log can write). Every check is linear in the bytes.

Source: RFC 8259, RFC 7493 (I-JSON); SPEC.md section 3 has the limits.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import secrets
from array import array
from collections.abc import Callable
from json import encoder
from typing import Any, Final

__all__ = [
    "MAX_BODY_BYTES",
    "MAX_NESTING",
    "BadJsonError",
    "Base64Text",
    "decode",
    "encode",
    "encode_long",
    "encode_text",
    "quote",
]

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""What the reference server takes too; a waveform never comes in, only small arguments do."""
MAX_NESTING: Final = 64
"""Levels of arrays and objects; no schema of ours needs ten."""
MAX_CONTAINERS: Final = 100_000
"""Arrays and objects in a body. Two million of them in 4 MiB would hold the loop for 1 s."""
MAX_INTEGER_DIGITS: Final = 300
"""Below 10**308, so that no reader of an argument meets ``OverflowError`` in ``float()``."""


LONG_TEXT_LEVELS: Final = 3
"""A result, its list of contents, one of them."""


class BadJsonError(ValueError):
    """Why bytes are not read, as a sentence.

    Attributes:
        is_json: JSON they are, but of a kind that is not served.
        is_too_long: they are more than ``MAX_BODY_BYTES``.
    """

    def __init__(self, message: str, *, is_json: bool = False, is_too_long: bool = False) -> None:
        super().__init__(message)
        self.is_json = is_json
        self.is_too_long = is_too_long


class Base64Text(str):
    """A long text in which JSON has nothing to escape, so that nobody needs to look through it.

    Looking takes 7 ns a character and holds everything else up; a deep trace has 10**8 of them.
    """

    __slots__ = ()


def decode(body: bytes) -> object:
    """A JSON value.

    Raises:
        BadJsonError: and nothing else, whatever the bytes are.
    """
    if len(body) > MAX_BODY_BYTES:
        raise BadJsonError(
            f"The body has {len(body)} bytes; at most {MAX_BODY_BYTES} are read.",
            is_json=True,
            is_too_long=True,
        )
    if body.count(b"[") + body.count(b"{") > MAX_NESTING:
        _check_nesting(body)
    try:
        # json.loads(bytes) would take UTF-16 and UTF-32 too.
        value: object = _DECODER.decode(body.decode("utf-8"))
    except _DuplicateKeyError as twice:
        raise BadJsonError(f"The member {str(twice)!r} is given twice.", is_json=True) from None
    except UnicodeDecodeError:
        raise _not_json("it is not UTF-8") from None
    except json.JSONDecodeError as bad:
        raise _not_json(f"{bad.msg.removesuffix(' at')} at character {bad.pos}") from None
    except (ValueError, RecursionError) as bad:
        raise _not_json(str(bad)) from None
    if _HALF_SURROGATE.search(body):
        _check_surrogates(value)
    return value


def encode(value: object) -> bytes:
    """A JSON value as compact ASCII, so that no byte of it can end an SSE line.

    Raises:
        ValueError: NaN or an infinity is in it; such a value is a bug of whoever made it.
        TypeError: something in it is not JSON.
    """
    return encode_text(value).encode("ascii")


def encode_long(value: object) -> bytes:
    """``encode``, of what may hold a ``Base64Text``: that is put in whole, without a look through.

    Args:
        value: a long text is looked for no deeper than a result's contents are.
    """
    texts: list[str] = []
    mark = secrets.token_hex(16)
    short = _marked(value, mark, texts, LONG_TEXT_LEVELS)
    if not texts:
        return encode(value)
    first, *rest = encode(short).split(mark.encode("ascii"))
    parts = [first]
    for text, part in zip(texts, rest, strict=True):
        parts += (text.encode("ascii"), part)
    return b"".join(parts)


def _marked(value: object, mark: str, texts: list[str], levels: int) -> object:
    if type(value) is Base64Text:
        texts.append(value)
        return mark
    if levels and isinstance(value, dict):
        return {key: _marked(item, mark, texts, levels - 1) for key, item in value.items()}
    if levels and isinstance(value, list | tuple):
        return [_marked(item, mark, texts, levels - 1) for item in value]
    return value


# Never gives back what it took, and takes an unfinished string too: linear whatever the bytes are.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_HALF_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def _check_nesting(body: bytes) -> None:
    """Refuse too deep a body before a recursive reader sees it.

    Strings are cut out, each bracket left becomes +1 or -1, and their running sum is the depth.
    """
    steps = _STRING.sub(b"", body).translate(_STEPS, _NOT_BRACKETS)
    if steps.count(b"\x01") > MAX_CONTAINERS:
        raise _not_json(f"it holds more than {MAX_CONTAINERS} arrays and objects")
    depths = array("i", itertools.accumulate(array("b", steps)))
    if not depths:
        return
    if depths[-1] != 0 or min(depths) < 0:
        raise _not_json("a bracket has no partner")
    if max(depths) > MAX_NESTING:
        raise _not_json(f"it is nested more than {MAX_NESTING} levels deep")


def _check_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _not_json("a string holds half of a surrogate pair") from None


class _DuplicateKeyError(ValueError):
    """The name of the member that came twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _DuplicateKeyError(name[:80])
            seen.add(name)
    return members


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits is over {MAX_INTEGER_DIGITS}")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _not_json(reason: str) -> BadJsonError:
    return BadJsonError(f"The body is not JSON: {reason}.")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_finite,
    parse_constant=_no_constant,
)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _text_encoder() -> Callable[[object], str]:
    """What ``JSONEncoder.encode`` does, but for building its part in C anew for each value."""
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        # An interpreter whose library is Python alone.
        return _ENCODER.encode
    pieces = make(
        None,
        _ENCODER.default,
        encoder.encode_basestring_ascii,
        None,
        _ENCODER.key_separator,
        _ENCODER.item_separator,
        _ENCODER.sort_keys,
        _ENCODER.skipkeys,
        _ENCODER.allow_nan,
    )
    return lambda value: "".join(pieces(value, 0))


encode_text: Final[Callable[[object], str]] = _text_encoder()
"""``encode`` as text; raises what that raises."""
quote: Final[Callable[[str], str]] = encoder.encode_basestring_ascii
"""A text as a JSON string."""
