"""An issuer's JWKS on a loopback port, for a real engine or front."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator


class KeyServer(http.server.ThreadingHTTPServer):
    """Answers with ``body``; counts who asks for its keys."""

    def __init__(self, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.body = body
        self.asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/jwks"


class Answer(http.server.BaseHTTPRequestHandler):
    server: KeyServer

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None: ...


@contextlib.contextmanager
def serving_keys(body: bytes) -> Iterator[KeyServer]:
    """Serve this key set."""
    with KeyServer(body) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
