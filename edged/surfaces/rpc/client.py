"""The client of the RPC interface that the CLI and doctor use: one request, one answer, blocking.

It imports nothing but sockets and floor 0, so that ``edged status`` starts fast: ``http.client``
alone, with its mail headers and its TLS, takes as long as Python itself. Where the engine listens
is read from the ``engine.json`` that it keeps in its state directory while it runs:
``{"pid": …, "rpc_port": …, "mcp_port": … or null, …}``.

The client of ``/events`` that the CLI uses: a WebSocket in the standard library, for reading.

Source: RFC 6455. The engine sends text frames, pings and a close, none of them fragmented or
compressed; whatever else comes ends the connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from edged.errors import EdgedError, ErrorCode, Failed, Refused, connection_trouble
from edged.files import open_bytes
from edged.record import part, record
from edged.surfaces.rpc.proof import PROOF_PATH, make_nonce, proof_of, read_rpc_key

ENGINE_FILE: Final = "engine.json"
LOOPBACK: Final = "127.0.0.1"
# Long enough for any answer from cached state; calls that act are given their own bound.
DEFAULT_TIMEOUT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
MAX_ENGINE_FILE_BYTES: Final = 64 * 1024
MAX_LINE_BYTES: Final = 8192
PROOF_S: Final = 5.0
MAX_HEADERS: Final = 100


@record
class EngineFile:
    """What a running engine (or one that was killed) says about itself in its state directory.

    Attributes:
        path: the file.
        rpc_port: 0 while another program has the port.
        mcp_port: None while the MCP listener is off or could not be bound.
        facts: everything in the file.
    """

    path: Path
    pid: int
    rpc_port: int
    mcp_port: int | None
    facts: Mapping[str, Any]

    @property
    def bench_file(self) -> Path | None:
        """The bench file that it goes by, wherever that was set; an older engine does not tell."""
        told = self.facts.get("bench_file")
        return Path(told) if isinstance(told, str) and told else None


@record
class ToolAnswer:
    """What a tool answered over RPC.

    Attributes:
        error: {code, message, remedy, data} where it did not succeed.
    """

    result: Any
    error: Mapping[str, Any] | None

    @property
    def value(self) -> Any:
        """The result of a call that must succeed.

        Raises:
            Failed: it did not; with the tool's error.
        """
        if self.error is not None:
            raise _failed(str(self.error.get("message")), self.error)
        return self.result


def find_engine(state_dirs: Sequence[Path]) -> EngineFile:
    """The first engine that left its file in one of those directories.

    Raises:
        Failed: NO_ENGINE.
    """
    closed: list[str] = []
    for directory in state_dirs:
        path = directory / ENGINE_FILE
        try:
            found = _read_engine_file(path)
        except PermissionError:
            closed.append(str(path))
            continue
        if found is not None:
            return found
    if closed:
        raise Failed(
            f"Whether an engine is running here is not for this user to see: {closed[0]} may not "
            "be read.",
            code=ErrorCode.NO_ENGINE,
            data={"looked_in": [str(directory) for directory in state_dirs], "closed": closed},
            remedy="Ask as the user that the engine runs as (sudo -u USER edged …).",
        )
    looked = ", ".join(str(directory) for directory in state_dirs)
    raise Failed(
        f"No engine is running here: there is no {ENGINE_FILE} in {looked}.",
        code=ErrorCode.NO_ENGINE,
        data={"looked_in": [str(directory) for directory in state_dirs]},
        remedy="Start one with `edged engine`, or name its state directory with --state-dir.",
    )


@part
class RpcClient:
    """Calls methods of one engine; a connection for each call.

    Attributes:
        engine: where it listens.
        token: INBOUND_AUTH_TOKEN, if one is configured.
        timeout_s: how long an answer may take.
        program: who calls, for the record: "edged call".
        lease: the id of the lease that it presents, if it does.
    """

    engine: EngineFile
    token: str | None
    timeout_s: float = DEFAULT_TIMEOUT_S
    program: str = "edged"
    lease: str = ""

    def call(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = 0.0
    ) -> Any:
        """The result of a method.

        Args:
            method: a name of the RPC interface's ``METHODS``, or of a tool.
            params: its parameters.
            timeout_s: how long it may take; None waits for ever, 0 is the client's own bound.

        Raises:
            Failed: NO_ENGINE, TIMEOUT, or what the engine said.
            Refused: NOT_AUTHENTICATED.
        """
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params or {})}
        bound = self.timeout_s if timeout_s == 0.0 else timeout_s
        status, body = self._post(json.dumps(request).encode("ascii"), bound)
        return _result_of(status, body)

    def call_tool(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = 0.0
    ) -> ToolAnswer:
        """As ``call``, for a method that runs a tool: its result, and its error if it failed."""
        answer = self.call(method, params, timeout_s=timeout_s)
        if not isinstance(answer, dict) or "is_error" not in answer:
            raise _unusable("the answer is not a tool's")
        error = answer.get("error") if answer["is_error"] else None
        return ToolAnswer(result=answer.get("result"), error=error)

    def get(self, path: str) -> bytes:
        """What stands beside ``/rpc``, as bytes.

        Raises:
            Failed: NO_ENGINE, TIMEOUT, or it is not given.
        """
        status, body = self._exchange([f"GET {path} HTTP/1.0"], b"", self.timeout_s)
        if status != 200:
            raise Failed(f"The engine answers GET {path} with HTTP {status}.")
        return body

    def _post(self, body: bytes, timeout_s: float | None) -> tuple[int, bytes]:
        lines = [
            # By 1.0 an answer comes in one piece.
            "POST /rpc HTTP/1.0",
            "Content-Type: application/json",
            "Accept: application/json",
            f"Content-Length: {len(body)}",
        ]
        return self._exchange(lines, body, timeout_s)

    def _exchange(
        self, lines: list[str], body: bytes, timeout_s: float | None
    ) -> tuple[int, bytes]:
        port = self.engine.rpc_port
        lines = [*lines, f"User-Agent: {self.program}"]
        if self.lease:
            lines.append(f"Edged-Lease: {self.lease}")
        try:
            with _connected(self.engine, timeout_s) as line, line.makefile("rb") as incoming:
                if self.token is not None or self.lease:
                    _check_proof(line, incoming, self.engine)
                    line.settimeout(timeout_s)
                _send_head(line, port, lines, self.token, body)
                status, headers = _read_head(incoming)
                length = int(headers.get(b"content-length", MAX_ANSWER_BYTES))
                return status, incoming.read(min(length, MAX_ANSWER_BYTES))
        except TimeoutError as late:
            raise Failed(
                f"The engine on port {port} gave no answer within {timeout_s:g} s.",
                code=ErrorCode.TIMEOUT,
                remedy="Look at `edged status` and the engine's log.",
            ) from late
        except (OSError, ValueError) as gone:
            why = connection_trouble(gone) if isinstance(gone, OSError) else "it is no HTTP"
            raise Failed(
                f"The engine (PID {self.engine.pid}) named in {self.engine.path} does not "
                f"answer on port {port}: {why}.",
                code=ErrorCode.NO_ENGINE,
                remedy="It has probably died; start it again with `edged engine`.",
            ) from gone


def _connected(engine: EngineFile, timeout_s: float | None) -> socket.socket:
    """A connection to the engine's port, or to whoever listens there.

    Raises:
        Failed: NO_ENGINE, the engine has no port.
        OSError: nobody listens.
    """
    if not engine.rpc_port:
        raise Failed(
            f"The engine (PID {engine.pid}) runs, but could not bind its RPC port, so it cannot be "
            f"asked: {engine.facts.get('rpc_error') or 'it does not say why.'}",
            code=ErrorCode.NO_ENGINE,
            remedy="Stop the program that has the port; the engine tries again by itself. The MCP "
            "endpoint works meanwhile.",
        )
    line = socket.socket()
    try:
        line.settimeout(timeout_s)
        # Not `create_connection`: it loads all of IDNA to look up a number.
        line.connect((LOOPBACK, engine.rpc_port))
    except BaseException:
        line.close()
        raise
    return line


def _check_proof(line: socket.socket, incoming: BinaryIO, engine: EngineFile) -> None:
    """Have who listens prove, on this connection, that it is the engine of the state directory.

    Raises:
        Failed: NO_ENGINE, it is another program, or the key may not be read.
        OSError: the connection has ended.
    """
    port, state_dir = engine.rpc_port, engine.path.parent
    try:
        key = read_rpc_key(state_dir)
    except OSError as closed:
        raise Failed(
            f"Whether the engine of {state_dir} listens on port {port} cannot be checked: its key "
            f"cannot be read ({closed.strerror}). So the token was not sent.",
            code=ErrorCode.NO_ENGINE,
            remedy="Ask as the user that the engine runs as (sudo -u USER edged …).",
        ) from closed
    nonce, answer = make_nonce(), b""
    line.settimeout(PROOF_S)
    with contextlib.suppress(ValueError, TimeoutError):
        _send_head(line, port, [f"GET {PROOF_PATH}?nonce={nonce} HTTP/1.1"], None)
        _, headers = _read_head(incoming)
        answer = incoming.read(min(int(headers.get(b"content-length", 0)), MAX_LINE_BYTES))
    # Nothing depends on how long the comparison takes: what listens knows what it has sent.
    if not key or answer.decode("ascii", "replace") != proof_of(key, port, nonce):
        raise Failed(
            f"Another program has port {port}: it cannot prove that it is the engine of "
            f"{state_dir}. So the token was not sent to it.",
            code=ErrorCode.NO_ENGINE,
            remedy="Start the engine again with `edged engine`. If it does run, it is of an older "
            "version of edged: restart it by its service.",
        )


def _send_head(
    line: socket.socket, port: int, lines: Sequence[str], token: str | None, body: bytes = b""
) -> None:
    lines = [*lines, f"Host: {LOOPBACK}:{port}"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    line.sendall("\r\n".join((*lines, "", "")).encode() + body)


def _read_head(incoming: BinaryIO) -> tuple[int, Mapping[bytes, bytes]]:
    """The status and the headers, whose names are in small letters.

    Raises:
        ValueError: it is no HTTP.
    """
    protocol, status, *_ = incoming.readline(MAX_LINE_BYTES).split() or (b"", b"")
    if not protocol.startswith(b"HTTP/1."):
        message = "the answer does not begin as one of HTTP does"
        raise ValueError(message)
    headers: dict[bytes, bytes] = {}
    while (header := incoming.readline(MAX_LINE_BYTES).strip()) and len(headers) < MAX_HEADERS:
        name, _, value = header.partition(b":")
        headers[name.strip().lower()] = value.strip()
    return int(status), headers


def _read_engine_file(path: Path) -> EngineFile | None:
    """What the file says; raises ``PermissionError`` where it may not be read."""
    try:
        with open_bytes(path) as file:
            facts = json.loads(file.read(MAX_ENGINE_FILE_BYTES))
        pid, rpc_port, mcp_port = facts["pid"], facts["rpc_port"], facts.get("mcp_port")
    except PermissionError:
        raise
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    is_port = isinstance(rpc_port, int) and 0 < rpc_port <= 65_535
    if not isinstance(pid, int) or not (is_port or rpc_port is None):
        return None
    return EngineFile(
        path=path,
        pid=pid,
        rpc_port=rpc_port or 0,
        mcp_port=mcp_port if isinstance(mcp_port, int) else None,
        facts=facts,
    )


def _result_of(status: int, body: bytes) -> Any:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError) as broken:
        raise _unusable(f"HTTP {status} with a body that is not JSON") from broken
    if not isinstance(reply, dict):
        raise _unusable(f"HTTP {status} with a body that is not JSON-RPC")
    error = reply.get("error")
    if error is None and "result" in reply:
        return reply["result"]
    if not isinstance(error, dict):
        raise _unusable(f"HTTP {status} with neither result nor error")
    raise _as_error(status, error)


def _as_error(status: int, error: Mapping[str, Any]) -> EdgedError:
    message = str(error.get("message", "The engine gave no reason."))
    if status == 401:
        return Refused(
            message,
            code=ErrorCode.NOT_AUTHENTICATED,
            remedy="Give the engine's token as INBOUND_AUTH_TOKEN: in the configuration file, or "
            "in the environment as EDGED_INBOUND_AUTH_TOKEN.",
        )
    told = error.get("data")
    return _failed(message, told if isinstance(told, dict) else {})


def _failed(message: str, facts: Mapping[str, Any]) -> Failed:
    name, data = facts.get("code"), facts.get("data")
    code = ErrorCode(name) if name in set(ErrorCode) else ErrorCode.BAD_REQUEST
    return Failed(
        message,
        code=code,
        data=data if isinstance(data, dict) else {},
        remedy=str(facts.get("remedy") or ""),
    )


def _unusable(what: str) -> Failed:
    return Failed(
        f"What listens on the engine's RPC port is not an engine: {what}.",
        code=ErrorCode.NO_ENGINE,
        remedy="Another program may have taken the port of an engine that has died; "
        "start the engine again.",
    )


GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONNECT_S: Final = 10.0
SILENCE_S: Final = 60.0
"""The engine pings every 30 s."""
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
TEXT, PING, PONG = 0x1, 0x9, 0xA


Messages = Iterator[tuple[str, Mapping[str, Any]]]


@contextlib.contextmanager
def open_events(client: RpcClient, topics: Sequence[str]) -> Iterator[Messages]:
    """What happens from now on; whoever acts after this has entered misses nothing of it.

    The messages are ("event" or "missed", its params), and end when the engine does.

    Raises:
        Failed: NO_ENGINE, or it does not answer as one.
        Refused: NOT_AUTHENTICATED.
    """
    engine = client.engine
    with contextlib.ExitStack() as parts:
        with _telling_who_is_gone(engine):
            line = parts.enter_context(_connected(engine, CONNECT_S))
            incoming = parts.enter_context(line.makefile("rb"))
            if client.token is not None:
                _check_proof(line, incoming, engine)
            line.settimeout(SILENCE_S)
            _shake_hands(line, incoming, client, topics)
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


def _shake_hands(
    line: socket.socket, incoming: BinaryIO, client: RpcClient, topics: Sequence[str]
) -> None:
    # For those who follow events alone; `edged status` asks once.
    import base64
    import hashlib

    key = base64.b64encode(os.urandom(16))
    lines = [
        f"GET /events?topics={','.join(topics)} HTTP/1.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key.decode()}",
        "Sec-WebSocket-Version: 13",
        f"User-Agent: {client.program}",
    ]
    _send_head(line, client.engine.rpc_port, lines, client.token)
    wanted = base64.b64encode(hashlib.sha1(key + GUID).digest())  # noqa: S324 - RFC 6455 asks for it
    try:
        status, headers = _read_head(incoming)
    except ValueError:
        status, headers = 0, {}
    if status == 401:
        raise Refused(
            "The RPC interface requires its bearer token.",
            code=ErrorCode.NOT_AUTHENTICATED,
            remedy="Give INBOUND_AUTH_TOKEN in the configuration or the environment.",
        )
    if status != 101 or headers.get(b"sec-websocket-accept") != wanted:
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
