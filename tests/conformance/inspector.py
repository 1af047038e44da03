"""The MCP Inspector's two command lines: one call a process, or a connection kept by a daemon."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.bench.sdk_session import NODE_PACKAGES, node_binary

# Resolved: the programs do nothing at all when they are started by way of a symbolic link.
CLIENTS = (
    NODE_PACKAGES / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients"
).resolve()
ANSWER_WITHIN_S = 30


class Inspector:
    """Both command lines, with a home of their own so that no keychain and no catalog is touched.

    Args:
        era: ``legacy`` or ``modern``.
    """

    def __init__(self, url: str, era: str, home: Path) -> None:
        self._url = url
        self._era = era
        self._environment = {
            **os.environ,
            "HOME": str(home),
            "MCP_INSPECTOR_SECRET_STORE": "file",
            "MCP_INSPECTOR_DAEMON_DIR": str(home / "daemon"),
            "MCP_INSPECTOR_DAEMON_TOKEN": secrets.token_hex(16),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        """One call, begun."""
        url = ["--server-url", self._url, "--transport", "http", "--protocol-era", self._era]
        return self._popen("cli/build/index.js", [*url, "--format", "json", *words])

    def ask(self, *words: str) -> Any:
        """One call, with its result."""
        return json.loads(_output(self.start(*words)))["result"]

    def call(self, tool: str, *words: str, **arguments: Any) -> Any:
        """What a tool answers, out of its text."""
        result = self.ask(*_call_words(tool, arguments), *words)
        return json.loads(result["content"][0]["text"])

    def start_call(self, tool: str, **arguments: Any) -> subprocess.Popen[str]:
        """A call that is going on."""
        return self.start(*_call_words(tool, arguments))

    def kept(self, *words: str) -> Any:
        """An order to the connection that the daemon keeps."""
        return json.loads(
            _output(self._kept(["--connection", self._url, "--format", "json", *words]))
        )

    @contextlib.contextmanager
    def connection(self) -> Iterator[None]:
        """A connection kept by a daemon, which is gone at the end."""
        connect = ["connect", self._url, "--transport", "http", "--era", self._era]
        _output(self._kept(["--format", "json", *connect]))
        try:
            yield
        finally:
            _output(self._kept(["daemon", "stop"]))

    def _kept(self, words: Sequence[str]) -> subprocess.Popen[str]:
        return self._popen("mcpdo/build/mcp-bin.js", words)

    def _popen(self, program: str, words: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(node_binary()), str(CLIENTS / program), *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _call_words(tool: str, arguments: dict[str, Any]) -> list[str]:
    return [
        "--method",
        "tools/call",
        "--tool-name",
        tool,
        "--tool-args-json",
        json.dumps(arguments),
    ]


def _output(process: subprocess.Popen[str]) -> str:
    try:
        out, err = process.communicate(timeout=ANSWER_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 0, err
    return out
