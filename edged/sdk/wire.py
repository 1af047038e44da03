"""Frames between the engine and a worker: four bytes of length, then that much JSON. Pure.

A message is an object. Frames that are too long, or hold no object, end the connection: a worker
that sends such has lost its senses, and is started anew.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

HEAD: Final = struct.Struct(">I")
MAX_FRAME: Final = 16 * 1024 * 1024
"""Bytes of an order to a worker."""
MAX_RESULT: Final = 1024 * 1024
"""Bytes of what a worker says, as JSON: some fifty thousand samples. JSON is read and written in
one piece, and a longer one would keep everybody else's reads waiting for as long as that takes."""
OUT_OF_MEMORY: Final = 86
"""Exit status of a worker that asked for more memory than it may have."""

Message = dict[str, Any]


class FrameError(Exception):
    """A frame that is none of ours."""


def encode(message: Mapping[str, Any], most: int = MAX_FRAME) -> bytes:
    """One message as a frame; a lone surrogate in a text, which UTF-8 has not, becomes a ``?``.

    Raises:
        FrameError: its body is longer than ``most`` bytes, or holds what JSON has not.
    """
    try:
        text = json.dumps(message, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"cannot be written as JSON: {error}") from error
    body = text.encode("utf-8", "replace")
    if len(body) > most:
        raise FrameError(f"is {len(body)} bytes long as JSON, over the maximum of {most}")
    return HEAD.pack(len(body)) + body


def frame_length(head: bytes, most: int = MAX_FRAME) -> int:
    """How many bytes of body follow this head.

    Raises:
        FrameError: more than any frame has.
    """
    (length,) = HEAD.unpack(head)
    if length > most:
        raise FrameError(f"a frame of {length} bytes was announced, over the maximum of {most}")
    return int(length)


def decode(body: bytes) -> Message:
    """The message in a frame's body.

    Raises:
        FrameError: it is not a JSON object.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame holds no JSON: {error}") from error
    if not isinstance(message, dict):
        raise FrameError(f"a frame holds a {type(message).__name__}, not an object")
    return message
