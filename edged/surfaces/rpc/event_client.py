"""The client of ``/events`` that the CLI uses: a WebSocket in the standard library, for reading.

Source: RFC 6455. The engine sends text frames, pings and a close, none of them fragmented or
compressed; whatever else comes ends the connection.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

from edged.errors import ErrorCode, Failed, Refused
from edged.surfaces.rpc.client import LOOPBACK, EngineFile

__all__ = ["Messages", "follow_events", "open_events"]

GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONNECT_S: Final = 10.0
SILENCE_S: Final = 60.0
"""The engine pings every 30 s."""
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
TEXT, PING, PONG = 0x1, 0x9, 0xA


Messages = Iterator[tuple[str, Mapping[str, Any]]]


@contextlib.contextmanager
def open_events(
    engine: EngineFile, topics: Sequence[str], *, token: str | None
) -> Iterator[Messages]:
    """What happens from now on; whoever acts after this has entered misses nothing of it.

    The messages are ("event" or "missed", its params), and end when the engine does.

    Raises:
        Failed: NO_ENGINE, or it does not answer as one.
        Refused: NOT_AUTHENTICATED.
    """
    with contextlib.ExitStack() as parts:
        with _telling_who_is_gone(engine):
            line = parts.enter_context(
                socket.create_connection((LOOPBACK, engine.rpc_port), CONNECT_S)
            )
            line.settimeout(SILENCE_S)
            incoming = parts.enter_context(line.makefile("rb"))
            _shake_hands(line, incoming, engine.rpc_port, topics, token)
        yield _messages(engine, line, incoming)


@contextlib.contextmanager
def _telling_who_is_gone(engine: EngineFile) -> Iterator[None]:
    try:
        yield
    except OSError as gone:
        raise Failed(
            f"The engine (PID {engine.pid}) does not answer on port {engine.rpc_port}: {gone}.",
            code=ErrorCode.NO_ENGINE,
            remedy="It has probably died; start it again with `edged engine`.",
        ) from gone


def follow_events(engine: EngineFile, topics: Sequence[str], *, token: str | None) -> Messages:
    """``open_events`` for those who only look on."""
    with open_events(engine, topics, token=token) as messages:
        yield from messages


def _shake_hands(
    line: socket.socket, incoming: BinaryIO, port: int, topics: Sequence[str], token: str | None
) -> None:
    key = base64.b64encode(os.urandom(16))
    lines = [
        f"GET /events?topics={','.join(topics)} HTTP/1.1",
        f"Host: {LOOPBACK}:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key.decode()}",
        "Sec-WebSocket-Version: 13",
    ]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    line.sendall("\r\n".join((*lines, "", "")).encode())
    status = incoming.readline(1024).split()
    headers: dict[bytes, bytes] = {}
    while (header := incoming.readline(8192).strip()) and len(headers) < 100:
        name, _, value = header.partition(b":")
        headers[name.strip().lower()] = value.strip()
    if status[1:2] == [b"401"]:
        raise Refused(
            "The RPC interface wants its bearer token.",
            code=ErrorCode.NOT_AUTHENTICATED,
            remedy="Give INBOUND_AUTH_TOKEN in the configuration or the environment.",
        )
    wanted = base64.b64encode(hashlib.sha1(key + GUID).digest())  # noqa: S324 - RFC 6455 asks for it
    if status[1:2] != [b"101"] or headers.get(b"sec-websocket-accept") != wanted:
        raise Failed(
            "What listens on the engine's RPC port does not serve /events.",
            code=ErrorCode.NO_ENGINE,
        )


def _messages(engine: EngineFile, line: socket.socket, incoming: BinaryIO) -> Messages:
    while True:
        with _telling_who_is_gone(engine):
            frame = _read_frame(incoming)
            if frame is not None and frame[0] == PING:
                line.sendall(_masked(PONG, frame[1]))
                continue
        if frame is None or frame[0] != TEXT:
            return
        message = json.loads(frame[1])
        if "method" in message:
            yield message["method"], message["params"]


def _read_frame(incoming: BinaryIO) -> tuple[int, bytes] | None:
    head = incoming.read(2)
    if len(head) < 2:
        return None
    length = head[1] & 0x7F
    if length == 126:
        (length,) = struct.unpack("!H", incoming.read(2))
    elif length == 127:
        (length,) = struct.unpack("!Q", incoming.read(8))
    if length > MAX_FRAME_BYTES:
        return None
    payload = incoming.read(length)
    return (head[0] & 0x0F, payload) if len(payload) == length else None


def _masked(kind: int, payload: bytes) -> bytes:
    """A frame of a client, which must be masked; control frames are at most 125 bytes."""
    mask = os.urandom(4)
    covered = bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload[:125]))
    return bytes((0x80 | kind, 0x80 | len(covered))) + mask + covered
