"""A trial of the endpoint by agents who know its URL and nothing else (tasks: docs/agent-trial.md).

``bench`` starts twelve simulated instruments with a night behind them (somebody's data, somebody's
changes, one meter that has gone silent) and prints the URL. ``call`` sends one JSON-RPC request and
prints the answer as it came, counting it; ``table`` says what each task cost.

    python -m benchmarks.agent_trial bench
    python -m benchmarks.agent_trial call --log one.jsonl --task 7 URL tools/call '{"name": …}'
    python -m benchmarks.agent_trial table one.jsonl
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.engine_process import EngineProcess, engine_process

TWELVE = (
    "psu1=rigol_dp832,psu2=keysight_e36312a,dmm1=keysight_34465a,dmm2=keithley_dmm6500,"
    "scope1=rigol_ds1054z,scope2=siglent_sds1104xe,gen1=rigol_dg1022z,lockin1=srs_sr830,"
    "smu1=keithley_2450,load1=rigol_dl3021,temp1=lakeshore_335,lcr1=keysight_e4980a"
)
REVISION = "2025-11-25"
WAIT_S = 120.0
CLIENT = {"name": "agent-trial", "version": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("bench", help="start the bench; ends with Ctrl-C or SIGTERM")
    call = verbs.add_parser("call", help="send one request")
    call.add_argument("--log", type=Path, required=True)
    call.add_argument("--task", required=True)
    call.add_argument("url")
    call.add_argument("method")
    call.add_argument("params", nargs="?", default="{}", type=json.loads)
    table = verbs.add_parser("table", help="what each task cost")
    table.add_argument("logs", nargs="+", type=Path)
    flags = parser.parse_args()
    if flags.verb == "bench":
        return _serve_bench()
    if flags.verb == "call":
        return _call(flags.url, flags.method, flags.params, flags.log, flags.task)
    print("\n".join(_table(flags.logs)))
    return 0


def _serve_bench() -> int:
    ending = [signal.SIGTERM, signal.SIGINT]
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(Path(directory), "--instruments", TWELVE) as engine,
    ):
        _live_through_a_night(engine)
        print(engine.mcp_url, flush=True)
        signal.sigwait(ending)
    return 0


def _live_through_a_night(engine: EngineProcess) -> None:
    """Leave behind what a morning's questions are about."""
    ids = {unit["alias"]: unit["id"] for unit in engine.tool("list_instruments")["result"]}
    night = Session(engine.mcp_url, {"name": "overnight-script", "version": "1.4"})
    notebook = Session(engine.mcp_url, {"name": "colleague-notebook", "version": "0.3"})
    for command, parameters in (
        ("set_voltage", {"channel": 1, "voltage": 3.3}),
        ("set_current", {"channel": 1, "current": 0.5}),
        ("output_on", {"channel": 1}),
    ):
        night.run(ids["psu1"], command, parameters)
    night.tool(
        "start_stream",
        {
            "instrument_id": ids["dmm1"],
            "command_name": "measure_dc_voltage",
            "interval_ms": 10,
            "duration_ms": 2_500,
        },
    )
    notebook.run(ids["psu2"], "set_voltage", {"channel": 2, "voltage": 12.0})
    notebook.run(ids["scope1"], "stop", {})
    night.tool(
        "start_sweep",
        {
            "instrument_id": ids["psu2"],
            "command_name": "set_voltage",
            "parameters": {"channel": 1},
            "target_value": 5.0,
            "sweep_rate": 0.002,
            "measure": [
                {
                    "instrument_id": ids["psu2"],
                    "command_name": "measure_voltage",
                    "parameters": {"channel": 1},
                }
            ],
        },
    )
    engine.sim("fault", instrument="dmm2", kind="hang")


@dataclass
class Session:
    """One MCP client on the standard library: a session, and its requests in order."""

    url: str
    info: Mapping[str, str]
    session_id: str = ""
    heard: bytes = b""
    _next_id: int = 0
    _headers: dict[str, str] = field(default_factory=dict)

    def tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool that must not fail."""
        answer = self.request("tools/call", {"name": name, "arguments": arguments})
        assert not answer["result"].get("isError"), (name, arguments, answer)
        return answer["result"]

    def run(self, instrument_id: str, command: str, parameters: Mapping[str, Any]) -> None:
        self.tool(
            "execute_command",
            {
                "instrument_id": instrument_id,
                "command_name": command,
                "parameters": parameters,
            },
        )

    def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send one request, and return the message that answers it."""
        if not self.session_id and method != "initialize":
            self.open()
        self._next_id += 1
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        messages = self._post(message)
        return next(one for one in reversed(messages) if one.get("id") == self._next_id)

    def open(self) -> None:
        self.request(
            "initialize",
            {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": dict(self.info)},
        )
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _post(self, message: Mapping[str, Any]) -> list[Any]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": REVISION,
        }
        if self.session_id:
            headers["Mcp-Session-Id"] = self.session_id
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                self.session_id = answer.headers.get("Mcp-Session-Id", self.session_id)
                self.heard = answer.read()
                kind = answer.headers.get_content_type()
        except urllib.error.HTTPError as refused:
            self.heard = refused.read()
            kind = refused.headers.get_content_type()
        if kind == "text/event-stream":
            lines = self.heard.decode().splitlines()
            return [
                json.loads(line[5:])
                for line in lines
                if line.startswith("data:") and line[5:].strip()
            ]
        return [json.loads(self.heard)] if self.heard else []


def _call(url: str, method: str, params: Mapping[str, Any], log: Path, task: str) -> int:
    kept = log.with_suffix(".session")
    session = Session(url, CLIENT)
    with contextlib.suppress(FileNotFoundError, ValueError):
        known = json.loads(kept.read_text())
        session.session_id = known.get(url, "")
    began = time.monotonic()
    answer = session.request(method, params)
    result = answer.get("result", {})
    kept.write_text(json.dumps({url: session.session_id}))
    row = {
        "task": task,
        "method": method,
        "tool": params.get("name", ""),
        "bytes": len(session.heard),
        "is_refused": "error" in answer or bool(result.get("isError")),
        "ms": round((time.monotonic() - began) * 1_000),
    }
    with log.open("a") as rows:
        rows.write(json.dumps(row) + "\n")
    for number, block in enumerate(result.get("content", ()) if isinstance(result, dict) else ()):
        if block.get("type") == "image":
            picture = log.with_name(f"{log.stem}-{task}-{number}.png")
            picture.write_bytes(base64.b64decode(block.pop("data")))
            block["written_to"] = str(picture)
    print(json.dumps(answer, ensure_ascii=False))
    return 0


def _table(logs: Iterable[Path]) -> list[str]:
    """One row a task: calls, bytes read, refusals; a group of columns for each log."""
    told: list[dict[str, list[int]]] = []
    for log in logs:
        sums: dict[str, list[int]] = {}
        for row in map(json.loads, log.read_text().splitlines()):
            sum_of = sums.setdefault(row["task"], [0, 0, 0])
            sum_of[0] += 1
            sum_of[1] += row["bytes"]
            sum_of[2] += row["is_refused"]
        told.append(sums)
    tasks = sorted({task for sums in told for task in sums}, key=lambda task: (len(task), task))
    lines = ["| task |" + " calls | bytes | refused |" * len(told)]
    lines.append("|---|" + "---:|---:|---:|" * len(told))
    for task in tasks:
        cells = [
            f" {calls} | {size:,} | {refused} |"
            for sums in told
            for calls, size, refused in [sums.get(task, [0, 0, 0])]
        ]
        lines.append(f"| {task} |" + "".join(cells))
    totals = [[sum(row[i] for row in sums.values()) for i in range(3)] for sums in told]
    lines.append("| all |" + "".join(f" {a} | {b:,} | {c} |" for a, b, c in totals))
    return lines


if __name__ == "__main__":
    sys.exit(main())
