"""JSON-RPC over one kept connection, in a session of MCP that is opened again when it is gone.

By hand on a socket: the standard library's HTTP client takes longer for a request than the bench
does. What was sent and not answered is never sent again, for it may have been done.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyvisa_edged.forking import begins_anew
from pyvisa_edged.refusal import EdgedVisaError, connection_lost, told

OPEN_S = 10.0
SILENT_S = 50.0
"""The bench shows a sign of life each 15 s of a request that takes long."""
MAX_HEAD = 65_536
MAX_BODY = 16 * 1_048_576
"""What a bench answers is a tenth of this; whoever announces more is none."""
AT_ONCE = 65_536
"""Bytes read at once: of more, the allocator would map and unmap memory for each read."""
NOT_AUTHENTICATED = -33001
UNKNOWN_METHOD = -32601
JSON = "application/json"
VERSION = "2025-06-18"
ENCODER = json.JSONEncoder(separators=(",", ":"))


class Bench(NamedTuple):
    """Where a bench is, and who asks.

    Attributes:
        token: for the relay; empty for none.
        lease: presented with every request; empty for none.
        program: what the record of the bench calls this program.
    """

    url: str
    token: str = ""
    lease: str = ""
    program: str = ""
    version: str = ""


class SessionGone(Exception):
    """The bench does not know the session of MCP: it was started anew, or nobody was here long."""


class Wire:
    """One connection of a program to its bench; any thread, one request at a time.

    Args:
        bench: where it is.

    Raises:
        EdgedVisaError: VI_ERROR_CONN_LOST, there can be no bench.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        parts, self._host, self._port = _parts(bench.url)
        self._is_tls = parts.scheme == "https"
        path = parts.path or "/mcp"
        self._start = (
            f"POST {path}{'?' + parts.query if parts.query else ''} HTTP/1.1\r\n"
            f"Host: {parts.netloc.rpartition('@')[2]}\r\n"
            f"Content-Type: {JSON}\r\nAccept: {JSON}, text/event-stream\r\n"
            f"User-Agent: pyvisa-edged\r\n"
            + (f"Authorization: Bearer {bench.token}\r\n" if bench.token else "")
            + (f"Edged-Lease: {bench.lease}\r\n" if bench.lease else "")
        )
        self._lock = threading.RLock()
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        # Of an answer as it came, and read: most are alike.
        self._last_head, self._last_read = b"", (0, {"": ""})
        self._owes = False
        self._count = 0
        begins_anew(self)

    def call(self, session_id: str, method: str, **params: Any) -> Any:
        """One request in a session of MCP; its result.

        Raises:
            EdgedVisaError: what the bench says, or that it cannot be reached.
            SessionGone: the bench does not know this session any more; nothing was done.
        """
        with self._lock:
            try:
                return self._exchange(method, params, session_id)
            except BaseException:
                # Somebody pressed Ctrl+C, or the line broke: what comes now is no one's.
                if self._owes:
                    self.close()
                raise

    def notify(self, session_id: str, method: str, **params: Any) -> None:
        """Tell the bench something, without waiting for it to have heard; never raises."""
        with self._lock, contextlib.suppress(OSError, EdgedVisaError, SessionGone):
            body = _body({"jsonrpc": "2.0", "method": method, "params": params})
            self._settle()
            self._send(body, session_id)

    def is_free(self) -> bool:
        """Take it, if nobody is in the middle of a request; to be left."""
        return self._lock.acquire(blocking=False)

    def leave(self) -> None:
        """Whoever took it is done."""
        self._lock.release()

    def initialize(self) -> str:
        """Open a session of MCP; its id.

        Raises:
            EdgedVisaError: what the bench says, or that there is none.
        """
        info = {"name": self._bench.program[:60] or "pyvisa", "version": self._bench.version}
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info}
        with self._lock:
            try:
                self.call("", "initialize", **params)
                session_id = self._head.get("mcp-session-id", "")
            except SessionGone:
                session_id = ""
        if not session_id:
            raise self._no_bench()
        return session_id

    def end(self, session_id: str) -> None:
        """End the session of MCP, and with it all that is open in it; never raises."""
        with self._lock, contextlib.suppress(OSError, EdgedVisaError, SessionGone):
            self._settle()
            start = self._start.replace("POST ", "DELETE ", 1)
            self._put(f"{start}Mcp-Session-Id: {session_id}\r\n\r\n".encode())
            self._answer()

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.close()
            self._socket, self._owes = None, False
            self._buffer.clear()

    def forked(self) -> None:
        """See ``Inherited``: the connection is the parent's, and ends when that lets go of it."""
        self._lock = threading.RLock()
        self.close()

    # HTTP

    def _exchange(self, method: str, params: Mapping[str, Any], session_id: str) -> Any:
        reply = self._asked(method, params, session_id)
        if _code(reply) == NOT_AUTHENTICATED and self._has_new_token():
            # Who is not known does nothing, so that this is the first time that it is done.
            reply = self._asked(method, params, session_id)
        if "error" not in reply:
            return reply.get("result")
        if _code(reply) == UNKNOWN_METHOD:
            raise self._no_bench()
        error = reply["error"] if isinstance(reply["error"], dict) else {}
        data = error.get("data")
        raise told(str(error.get("message", "It failed.")), data if isinstance(data, dict) else {})

    def _has_new_token(self) -> bool:
        """Take the token that the program has put into its environment since; whether it has."""
        token = os.environ.get("EDGED_TOKEN", "").strip()
        if not self._bench.token or token in ("", self._bench.token):
            return False
        self._start = self._start.replace(f"Bearer {self._bench.token}", f"Bearer {token}", 1)
        self._bench = self._bench._replace(token=token)
        return True

    def _asked(self, method: str, params: Mapping[str, Any], session_id: str) -> dict[str, Any]:
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        try:
            self._settle()
            self._send(_body(message), session_id)
            reply = self._answer()
        except (OSError, ValueError) as broken:
            self.close()
            why = str(broken) or type(broken).__name__
            said = f"The bench at {self._bench.url} did not answer: {why}."
            raise connection_lost(said) from broken
        if not isinstance(reply, dict):
            self.close()
            raise self._no_bench()
        if "result" in reply and reply.get("id") != self._count:
            self.close()
            raise connection_lost(f"The bench at {self._bench.url} answered something else.")
        return reply

    def _no_bench(self) -> EdgedVisaError:
        return connection_lost(
            f"What answers at {self._bench.url} is no bench: write http://host:8767/mcp."
        )

    def _settle(self) -> None:
        """Take the answer to what was told and not waited for, so that the next is its own."""
        if self._owes:
            try:
                self._answer()
            except (SessionGone, EdgedVisaError):
                return
            except OSError:
                self.close()

    def _send(self, body: bytes, session_id: str) -> None:
        head = f"{self._start}Mcp-Session-Id: {session_id}\r\n" if session_id else self._start
        self._put(f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body)

    def _put(self, data: bytes) -> None:
        connection = self._connected()
        self._owes = True
        connection.sendall(data)

    def _connected(self) -> socket.socket:
        """The connection; another where the bench has closed it meanwhile, or spoke unasked."""
        if self._socket is not None and (self._buffer or _is_readable(self._socket)):
            # Something that answers nothing, or its end.
            self.close()
        if self._socket is None:
            made = socket.create_connection((self._host, self._port), OPEN_S)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._is_tls:
                context = ssl.create_default_context()
                made = context.wrap_socket(made, server_hostname=self._host)
            made.settimeout(SILENT_S)
            self._socket = made
        return self._socket

    def _answer(self) -> Any:
        """The next answer, taken off the wire."""
        status, head = self._read_head()
        while status < 200:
            status, head = self._read_head()
        self._head = head
        if head.get("content-type", "").startswith("text/event-stream"):
            events = self._read_events()
            reply = next((event for event in events if "id" in event), None)
            for _ in events:
                pass
        else:
            body = self._read_body(head)
            reply = _json(body) if body else {"result": None}
        self._owes = False
        if head.get("connection", "").lower() == "close":
            self.close()
        if status == 404:
            raise SessionGone
        if status >= 300 and not (isinstance(reply, dict) and "error" in reply):
            raise connection_lost(f"The bench at {self._bench.url} answered HTTP {status}.")
        return reply

    def _read_head(self) -> tuple[int, dict[str, str]]:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise OSError("its answer has no end of its head")
            self._fill()
        head = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        if head == self._last_head:
            # The same but for its date, and that changes each second.
            return self._last_read
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if not first.startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
            raise OSError("what it answered is no HTTP")
        pairs = (line.partition(":") for line in lines)
        self._last_head = head
        self._last_read = int(words[1]), {name.lower(): value.strip() for name, _, value in pairs}
        return self._last_read

    def _read_body(self, head: Mapping[str, str]) -> bytes:
        if head.get("transfer-encoding", "").lower() == "chunked":
            return b"".join(self._read_chunks())
        length = head.get("content-length", "0")
        return self._read_exactly(int(length) if length.isdigit() else 0)

    def _read_chunks(self) -> Iterator[bytes]:
        while True:
            while (end := self._buffer.find(b"\r\n")) < 0:
                self._fill()
            size = int(bytes(self._buffer[:end]).split(b";")[0] or b"0", 16)
            del self._buffer[: end + 2]
            chunk = self._read_exactly(size + 2)[:-2]
            if not size:
                return
            yield chunk

    def _read_events(self) -> Iterator[dict[str, Any]]:
        text = b""
        for chunk in self._read_chunks():
            text += chunk
            while (end := text.find(b"\n\n")) >= 0:
                block, text = text[:end], text[end + 2 :]
                data = b"".join(
                    line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")
                )
                event = _json(data) if data else None
                if isinstance(event, dict):
                    yield event

    def _read_exactly(self, count: int) -> bytes:
        if not 0 <= count <= MAX_BODY:
            raise OSError("its answer is larger than any of a bench's")
        while len(self._buffer) < count:
            self._fill()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def _fill(self) -> None:
        if self._socket is None:
            raise OSError("the connection is closed")
        data = self._socket.recv(AT_ONCE)
        if not data:
            raise OSError("it closed the connection without an answer")
        self._buffer += data


class McpSession:
    """The session of MCP of one program; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._id = ""
        begins_anew(self)

    @property
    def id(self) -> str:
        """Its id; empty while there is none."""
        return self._id

    def id_for(self, wire: Wire) -> str:
        """Its id; opened by this wire where there is none.

        Raises:
            EdgedVisaError: see ``Wire.initialize``.
        """
        if not self._id:
            with self._lock:
                if not self._id:
                    self._id = wire.initialize()
        return self._id

    def forget(self, gone: str) -> None:
        """The bench does not know it."""
        with self._lock:
            if self._id == gone:
                self._id = ""

    def forked(self) -> None:
        """See ``Inherited``: it is the parent's."""
        self._lock, self._id = threading.Lock(), ""


def _parts(url: str) -> tuple[urllib.parse.SplitResult, str, int]:
    """A URL taken apart, its host and its port."""
    with contextlib.suppress(ValueError):
        parts = urllib.parse.urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        # What is no text of a URL would be none of HTTP either.
        is_plain = url.isascii() and url.isprintable() and " " not in url
        if is_plain and parts.scheme in ("http", "https") and parts.hostname:
            return parts, parts.hostname, port
    raise connection_lost(f"{url!r} is no address of a bench: write http://host:8767/mcp.")


def _body(message: Mapping[str, Any]) -> bytes:
    return ENCODER.encode(message).encode("ascii")


def _code(reply: Mapping[str, Any]) -> object:
    error = reply.get("error")
    return error.get("code") if isinstance(error, dict) else None


def _json(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _is_readable(connection: socket.socket) -> bool:
    """Whether something waits there, which can only be its end."""
    try:
        return bool(select.select([connection], [], [], 0)[0])
    except (OSError, ValueError):
        return True
