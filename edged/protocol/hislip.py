"""HiSLIP's messages as values: header, types, codes, and bytes to messages within bounds.

One codec for the client (``transports``), the simulator (``sim``) and the server (``surfaces``).

Source: IVI-6.1, HiSLIP 1.0: 2.5 (numbers of the message types), 6.1 (initialisation), 6.2 and 6.3
(codes of FatalError and Error), 6.5 (locks), 6.10 (maximum message size), 6.12 (device clear).
"""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("!2sBBIQ")
"""Prologue, message type, control code, message parameter, length of the payload."""
SIZE: Final = struct.Struct("!Q")
"""The payload of both messages about the maximum message size."""
PROLOGUE: Final = b"HS"
DEFAULT_PORT: Final = 4880
VERSION_1_0: Final = 0x0100
FIRST_MESSAGE_ID: Final = 0xFFFF_FF00
MESSAGE_ID_STEP: Final = 2
ANY_MESSAGE_ID: Final = 0xFFFF_FFFF
"""Of data whose message will be told with its last piece."""
LARGEST_MESSAGE: Final = 1024 * 1024
"""What edged takes in one message, header included."""
MAX_CONTROL_BYTES: Final = 64 * 1024
"""Payload of a message that carries no data: an error text, a name, a lock string."""
MAX_SKIPPED_BYTES: Final = 64 * LARGEST_MESSAGE
"""A message that announces more than this is no message but garbage behind a lucky header."""


class MessageType(enum.IntEnum):
    """HiSLIP 1.0's; from 128 on they are a vendor's own."""

    INITIALIZE = 0
    INITIALIZE_RESPONSE = 1
    FATAL_ERROR = 2
    ERROR = 3
    ASYNC_LOCK = 4
    ASYNC_LOCK_RESPONSE = 5
    DATA = 6
    DATA_END = 7
    DEVICE_CLEAR_COMPLETE = 8
    DEVICE_CLEAR_ACKNOWLEDGE = 9
    ASYNC_REMOTE_LOCAL_CONTROL = 10
    ASYNC_REMOTE_LOCAL_RESPONSE = 11
    TRIGGER = 12
    INTERRUPTED = 13
    ASYNC_INTERRUPTED = 14
    ASYNC_MAXIMUM_MESSAGE_SIZE = 15
    ASYNC_MAXIMUM_MESSAGE_SIZE_RESPONSE = 16
    ASYNC_INITIALIZE = 17
    ASYNC_INITIALIZE_RESPONSE = 18
    ASYNC_DEVICE_CLEAR = 19
    ASYNC_SERVICE_REQUEST = 20
    ASYNC_STATUS_QUERY = 21
    ASYNC_STATUS_RESPONSE = 22
    ASYNC_DEVICE_CLEAR_ACKNOWLEDGE = 23
    ASYNC_LOCK_INFO = 24
    ASYNC_LOCK_INFO_RESPONSE = 25


FIRST_VENDOR_TYPE: Final = 128
DATA_TYPES: Final = frozenset({MessageType.DATA, MessageType.DATA_END})


class FatalCode(enum.IntEnum):
    """Why a session ends, in FatalError."""

    UNIDENTIFIED = 0
    BAD_HEADER = 1
    CHANNEL_MISSING = 2
    """A connection was used before both were there."""
    BAD_INITIALIZATION = 3
    TOO_MANY_CLIENTS = 4


class ProblemCode(enum.IntEnum):
    """Why one message was not taken, in Error."""

    UNIDENTIFIED = 0
    UNKNOWN_TYPE = 1
    UNKNOWN_CONTROL = 2
    UNKNOWN_VENDOR_TYPE = 3
    TOO_LARGE = 4


class LockResult(enum.IntEnum):
    """The control code of AsyncLockResponse."""

    FAILURE = 0
    """Others held it until the time ended."""
    SUCCESS = 1
    """Granted; to a release: the exclusive lock was released."""
    SHARED_RELEASED = 2
    ERROR = 3
    """What cannot be granted however long one waits: it is held already, or nothing is."""


class HislipFatal(Exception):
    """The peer did what ends the session; nothing was changed."""

    def __init__(self, code: FatalCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class HislipProblem(Exception):
    """One message of the peer cannot be taken; nothing was changed, and the session goes on."""

    def __init__(self, code: ProblemCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Header(NamedTuple):
    """The 16 bytes in front of every message; ``parameter`` is the message id of data."""

    kind: int
    control: int
    parameter: int
    length: int


class HislipMessage(NamedTuple):
    """One message, whole."""

    kind: int
    control: int
    parameter: int
    payload: bytes


class TooLarge(NamedTuple):
    """A message that was longer than what is taken; its payload was dropped."""

    kind: int
    length: int


def message(kind: int, control: int = 0, parameter: int = 0, payload: bytes = b"") -> bytes:
    """One message as bytes."""
    return HEADER.pack(PROLOGUE, kind, control, parameter, len(payload)) + payload


def fatal(code: FatalCode, text: str) -> bytes:
    """A FatalError message."""
    return message(MessageType.FATAL_ERROR, code, 0, text.encode("ascii", "replace"))


def problem(code: ProblemCode, text: str) -> bytes:
    """An Error message."""
    return message(MessageType.ERROR, code, 0, text.encode("ascii", "replace"))


def read_header(data: bytes | bytearray | memoryview) -> Header:
    """The header of 16 bytes.

    Raises:
        HislipFatal: BAD_HEADER, they do not begin as a message does.
    """
    prologue, kind, control, parameter, length = HEADER.unpack_from(data)
    if prologue != PROLOGUE:
        raise HislipFatal(FatalCode.BAD_HEADER, "the message is not a HiSLIP message")
    return Header(kind, control, parameter, length)


def next_message_id(message_id: int) -> int:
    """The id of the message after that one."""
    return (message_id + MESSAGE_ID_STEP) & 0xFFFF_FFFF


def is_ahead(message_id: int, of: int) -> bool:
    """Whether an id comes after another one, in the numbers that go round."""
    return 0 < (message_id - of) & 0xFFFF_FFFF < 0x8000_0000


class MessageReader:
    """Cuts what arrives into messages; holds at most one that is not whole yet.

    Args:
        largest: what is taken in one message, header included.
    """

    def __init__(self, largest: int = LARGEST_MESSAGE) -> None:
        self._largest = largest - HEADER.size
        self._buffer = bytearray()
        # Of a message that is too large: its payload's bytes that are still to be dropped.
        self._dropping = 0
        self._too_large: TooLarge | None = None

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes have come."""
        self._buffer += data

    def next(self) -> HislipMessage | TooLarge | None:
        """The next message that is whole; ``None`` when more must come first.

        Raises:
            HislipFatal: BAD_HEADER; whatever follows cannot be understood.
        """
        if self._too_large is not None:
            return self._drop(self._too_large)
        buffer = self._buffer
        if len(buffer) < HEADER.size:
            # Garbage is known by its first bytes: it need not be sixteen.
            if buffer and not PROLOGUE.startswith(bytes(buffer[:2])):
                raise HislipFatal(FatalCode.BAD_HEADER, "the message is not a HiSLIP message")
            return None
        kind, control, parameter, length = read_header(buffer)
        if length > (self._largest if kind in DATA_TYPES else MAX_CONTROL_BYTES):
            if length > MAX_SKIPPED_BYTES:
                raise HislipFatal(FatalCode.BAD_HEADER, f"a message announces {length} bytes")
            del buffer[: HEADER.size]
            self._dropping = length
            self._too_large = TooLarge(kind, length)
            return self._drop(self._too_large)
        end = HEADER.size + length
        if len(buffer) < end:
            return None
        payload = bytes(memoryview(buffer)[HEADER.size : end]) if length else b""
        del buffer[:end]
        return HislipMessage(kind, control, parameter, payload)

    def _drop(self, too_large: TooLarge) -> TooLarge | None:
        count = min(self._dropping, len(self._buffer))
        del self._buffer[:count]
        self._dropping -= count
        if self._dropping:
            return None
        self._too_large = None
        return too_large
