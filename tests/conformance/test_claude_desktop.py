"""What `edged connect claude-desktop` prints, run as Claude Desktop runs it: mcp-remote over stdio.

Only ``npx -y`` is left out: it would fetch what is installed here, with its version pinned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.sdk_session import NODE_PACKAGES, node_binary

MCP_REMOTE = NODE_PACKAGES / "node_modules" / "mcp-remote" / "dist" / "proxy.js"


def printed_arguments(engine: EngineProcess) -> list[str]:
    verb = ["connect", "claude-desktop", "--state-dir", str(engine.state_dir)]
    done = subprocess.run(
        [sys.executable, "-m", "edged", *verb],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    (entry,) = json.loads(done.stdout)["mcpServers"].values()
    assert (entry["command"], entry["args"][:2]) == ("npx", ["-y", "mcp-remote"])
    arguments: list[str] = entry["args"][2:]
    return arguments


def ask(server: subprocess.Popen[str], request_id: int, method: str, **params: Any) -> Any:
    assert server.stdin is not None
    assert server.stdout is not None
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        answer = json.loads(line)
        if answer.get("id") == request_id:
            assert "error" not in answer, answer
            return answer["result"]
    raise AssertionError(f"no answer to {method}")


def test_the_printed_configuration_reaches_the_bench_by_mcp_remote(tmp_path: Path) -> None:
    with (
        engine_process(tmp_path, "--instruments", "psu1=rigol_dp832") as engine,
        subprocess.Popen(
            [str(node_binary()), str(MCP_REMOTE.resolve()), *printed_arguments(engine)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "MCP_REMOTE_CONFIG_DIR": str(tmp_path / "mcp-auth")},
        ) as server,
    ):
        greeting = ask(
            server,
            1,
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "claude-ai", "version": "0.1.0"},
        )
        assert greeting["serverInfo"]["name"]
        names = {tool["name"] for tool in ask(server, 2, "tools/list")["tools"]}
        assert "rigol_dp832__set_voltage" in names
        assert "rigol_dp832__ovp_off" not in names, "the short list"
        called = ask(server, 3, "tools/call", name="list_instruments", arguments={})
        assert "DP8" in json.dumps(called)
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait(20) == 0
