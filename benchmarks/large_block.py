"""A block of 60 MB: what the engine holds above idle, and how long its loop stands still.

A simulated instrument on a loopback socket sends it as a waveform of bytes and as a picture, to a
real engine in a process of its own; the picture is then read by its id. Meanwhile list_instruments
is called one time after another: the longest call is the longest gap of the loop.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, parse_json_flag, tell
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.loopback_instrument import LoopbackInstrument

SIZE = 60 * 1024 * 1024
MOST_SAMPLES = 4 * 1024 * 1024
"""That one answer holds."""
PROFILE = """
format: 1
profile_key: acme_camera
version: 1
manufacturer: ACME
model: PSU1
instrument_class: oscilloscope
source: made up
match: {idn: 'acme,psu1'}
commands:
  capture: {returns: {waveform: {data: "DATA?", dtype: u1, x_increment: 1, scale: "value * 2"}}}
  picture: {returns: {image: {mime: image/png, data: "SHOT?"}}}
"""


def main() -> int:
    as_json = parse_json_flag(__doc__)
    figures = asyncio.run(_measured())
    return tell("a block of 60 MB", figures, as_json=as_json)


async def _measured() -> list[Figure]:
    block = f"#8{SIZE:08}".encode() + bytes(SIZE) + b"\n"
    async with LoopbackInstrument() as instrument:
        instrument.special = {"DATA?": lambda: block, "SHOT?": lambda: block}
        return await asyncio.to_thread(_engine_figures, instrument.address)


def _engine_figures(address: str) -> list[Figure]:
    figures = []
    for name in ("capture", "picture"):
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            profiles = directory / "profiles"
            profiles.mkdir()
            (profiles / "acme_camera.yaml").write_text(PROFILE)
            config = {
                "PROFILE_DIRS": [str(profiles)],
                "INSTRUMENTS": [address],
                "WAVEFORM_MEMORY_MB": 512,
            }
            with engine_process(directory, sim=False, config=config) as engine:
                figures += _one(engine, address, name)
    return figures


def _one(engine: EngineProcess, address: str, name: str) -> list[Figure]:
    engine.tool("list_instruments")
    idle_kb = _kb(engine, "VmRSS")
    asked = {"instrument_id": address, "command_name": name}
    told: list[Any] = []
    gap_ms = _longest_ms(engine, lambda: told.append(engine.tool("execute_command", **asked)))
    (answer,) = told
    if answer["is_error"]:
        raise RuntimeError(f"{name}: {answer['error']['message']}")
    figures = [
        Figure(name=f"{name}: peak above idle", value=_mb_above(engine, idle_kb), unit="MiB"),
        Figure(name=f"{name}: longest call beside it", value=gap_ms, unit="ms"),
    ]
    data = answer["result"]["data"]
    for road, method, params in _reads(data):
        gap_ms = _longest_ms(engine, partial(_read, engine, road, method, params))
        figures += [
            Figure(
                name=f"{name}: {method} over {road}: peak above idle",
                value=_mb_above(engine, idle_kb),
                unit="MiB",
            ),
            Figure(
                name=f"{name}: {method} over {road}: longest call beside it",
                value=gap_ms,
                unit="ms",
            ),
        ]
    return figures


def _reads(data: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Every way to have it whole: road, method, its parameters."""
    if "picture_id" in data:
        picture_id = data["picture_id"]
        return [
            ("RPC", "pictures.show", {"picture_id": picture_id}),
            ("MCP", "resources/read", {"uri": data["uri"]}),
        ]
    asked = {"stream_id": data["stream_id"], "point_index": data["point_index"]}
    call = {"name": "fetch_waveform", "arguments": {**asked, "count": MOST_SAMPLES}}
    return [("RPC", "tools/call", call), ("MCP", "tools/call", call)]


def _read(engine: EngineProcess, road: str, method: str, params: dict[str, Any]) -> None:
    """Read it, but not its JSON, which would hold back the calls beside it."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
    }
    url = engine.rpc_url if road == "RPC" else engine.mcp_url
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    length = 0
    with urllib.request.urlopen(request, timeout=60) as answer:
        while piece := answer.read(1024 * 1024):
            length += len(piece)
    if length < MOST_SAMPLES * 4:
        raise RuntimeError(f"It was not read: {length} bytes.")


def _longest_ms(engine: EngineProcess, work: Callable[[], Any]) -> float:
    """The longest of the calls that were made while ``work`` was done."""
    working = threading.Thread(target=work)
    working.start()
    longest_s = 0.0
    while working.is_alive():
        began = time.perf_counter()
        engine.tool("list_instruments")
        longest_s = max(longest_s, time.perf_counter() - began)
    working.join()
    return longest_s * 1000


def _mb_above(engine: EngineProcess, idle_kb: int) -> float:
    return (_kb(engine, "VmHWM") - idle_kb) / 1024


def _kb(engine: EngineProcess, field: str) -> int:
    status = Path(f"/proc/{engine.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field))


if __name__ == "__main__":
    raise SystemExit(main())
