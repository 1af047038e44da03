"""mcpo, by which Open WebUI calls tools, between an MCP server and plain HTTP.

See ``tests/bench/agent_clients.py``.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from orders import say

UP_WITHIN_S = 60


def main(url: str, calls: list[dict[str, Any]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    program = Path(sys.executable).with_name("mcpo")
    argv = [str(program), "--host", "127.0.0.1", "--port", str(port), "--server-type"]
    with subprocess.Popen([*argv, "streamable-http", "--", url], stdout=sys.stderr) as server:
        try:
            base = f"http://127.0.0.1:{port}"
            described = json.loads(answered(f"{base}/openapi.json"))
            answers = [posted(f"{base}/{call['name']}", call["arguments"]) for call in calls]
        finally:
            server.terminate()
    tools = [
        {"name": path.strip("/"), "parameters": parameters(described, post["post"])}
        for path, post in described["paths"].items()
    ]
    say({"tools": tools, "answers": answers})


def parameters(described: dict[str, Any], post: dict[str, Any]) -> Any:
    if "requestBody" not in post:
        return {}
    schema = post["requestBody"]["content"]["application/json"]["schema"]
    return described["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)


def answered(address: str) -> str:
    deadline = time.monotonic() + UP_WITHIN_S
    while True:
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(address) as answer:
            return str(answer.read().decode())
        if time.monotonic() > deadline:
            sys.exit("mcpo did not come up.")
        time.sleep(0.1)  # noqa: TID251 - another process has no event to wait for


def posted(address: str, arguments: dict[str, Any]) -> str:
    request = urllib.request.Request(address, json.dumps(arguments).encode())
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


main(sys.argv[1], json.loads(sys.argv[2]))
