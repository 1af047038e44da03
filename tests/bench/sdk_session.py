"""Other people's MCP clients, each in its own environment and process, as one small interface.

The scripts are in ``tests/clients``; the environments are made by ``make clients``.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

from tests.bench.engine_process import REPOSITORY

END_WITHIN_S = 10

CLIENTS: dict[str, tuple[str, ...]] = {
    "python-sdk-1": ("mcp1", "mcp1_session.py"),
    "python-sdk-2": ("mcp2", "mcp2_session.py", "auto"),
    "python-sdk-2-legacy": ("mcp2", "mcp2_session.py", "legacy"),
    "fastmcp": ("fastmcp", "fastmcp_session.py", "auto"),
    "fastmcp-legacy": ("fastmcp", "fastmcp_session.py", "legacy"),
}


class SdkSession:
    """One client; every order is answered before the next is given."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.greeting = self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the client ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def order(self, what: str, **more: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.process.stdin.flush()
        return self._read()

    def do(self, what: str, **more: Any) -> Any:
        answer = self.order(what, **more)
        assert "ok" in answer, answer
        return answer["ok"]

    def call(self, name: str, **arguments: Any) -> Any:
        result = self.do("call", name=name, arguments=arguments)
        assert result["is_error"] is False, result
        return json.loads(result["text"])

    def refused(self, name: str, **arguments: Any) -> str:
        """The protocol error that a call meets."""
        answer = self.order("call", name=name, arguments=arguments)
        assert "error" in answer, answer
        return str(answer["error"])


@contextlib.contextmanager
def sdk_session(client: str, url: str, *more: str) -> Iterator[SdkSession]:
    """A session of one of ``CLIENTS``; its process is always gone at the end.

    ``more`` is for its script: of python-sdk-1 a bearer token.
    """
    environment, script, *arguments = CLIENTS[client]
    python = REPOSITORY / ".venv-clients" / environment / "bin" / "python"
    process = subprocess.Popen(
        [str(python), str(REPOSITORY / "tests" / "clients" / script), url, *arguments, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield SdkSession(process)
    finally:
        with contextlib.suppress(BrokenPipeError):
            if process.stdin:
                process.stdin.close()
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
