"""An HTTP server on loopback that answers as a test laid out, and keeps what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from edged.surfaces.rpc.proof import proof_of


@dataclass
class Asked:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class AnsweringServer:
    """What a test sees: the port, the requests so far, and the next answer.

    Attributes:
        key: with which it proves to be an engine, for the port ``proves_for`` if not for its own.
        proved: the questions for that.
    """

    port: int = 0
    key: bytes | None = None
    proves_for: int = 0
    proved: list[Asked] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    status: int = 200
    body: bytes = b"{}"
    hold: threading.Event = field(default_factory=threading.Event)

    def answer(self, body: object, *, status: int = 200) -> None:
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()

    def result(self, result: object) -> None:
        self.answer({"jsonrpc": "2.0", "id": 1, "result": result})


@contextlib.contextmanager
def answering_server(port: int = 0) -> Iterator[AnsweringServer]:
    board = AnsweringServer()
    board.hold.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            board.proved.append(Asked(self.path, dict(self.headers.items()), None))
            nonce = self.path.partition("nonce=")[2]
            proof = proof_of(board.key, board.proves_for or board.port, nonce) if board.key else ""
            self.send_response(200 if board.key is not None else 404)
            self.send_header("Content-Length", str(len(proof)))
            self.end_headers()
            self.wfile.write(proof.encode())

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(length))
            board.asked.append(Asked(self.path, dict(self.headers.items()), body))
            board.hold.wait(5)
            with contextlib.suppress(OSError):
                self.send_response(board.status)
                self.send_header("Content-Length", str(len(board.body)))
                self.end_headers()
                self.wfile.write(board.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = False
    board.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield board
    finally:
        board.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
