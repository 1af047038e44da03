"""Frames between the engine and a worker: four bytes of length, then that much JSON. Pure.

A message is an object. Frames that are too long, or hold no object, end the connection: a worker
that sends such has lost its senses, and is started anew.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["HEAD", "MAX_FRAME", "OUT_OF_MEMORY", "FrameError", "decode", "encode", "frame_length"]

HEAD: Final = struct.Struct(">I")
MAX_FRAME: Final = 16 * 1024 * 1024
"""Bytes: a record of some hundred thousand samples as JSON."""
OUT_OF_MEMORY: Final = 86
"""Exit status of a worker that asked for more memory than it may have."""

Message = dict[str, Any]


class FrameError(Exception):
    """A frame that is none of ours."""


def encode(message: Mapping[str, Any]) -> bytes:
    """One message as a frame.

    Raises:
        FrameError: it is longer than ``MAX_FRAME``, or holds what JSON has not.
    """
    try:
        body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"cannot be written as JSON: {error}") from error
    if len(body) > MAX_FRAME:
        raise FrameError(f"is {len(body)} bytes long, over the maximum {MAX_FRAME}")
    return HEAD.pack(len(body)) + body


def frame_length(head: bytes) -> int:
    """How many bytes of body follow this head.

    Raises:
        FrameError: more than any frame has.
    """
    (length,) = HEAD.unpack(head)
    if length > MAX_FRAME:
        raise FrameError(f"a frame of {length} bytes was announced, over the maximum {MAX_FRAME}")
    return int(length)


def decode(body: bytes) -> Message:
    """The message in a frame's body.

    Raises:
        FrameError: it is no JSON object.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame holds no JSON: {error}") from error
    if not isinstance(message, dict):
        raise FrameError(f"a frame holds a {type(message).__name__}, not an object")
    return message
