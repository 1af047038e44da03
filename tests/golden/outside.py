"""What an engine on a simulated bench shows its callers: lists, shapes of results, audit rows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import edged
from edged.protocol.revisions import REVISIONS
from edged.surfaces.rpc.methods import METHOD_TABLE
from tests.bench.engine import Engine, running_engine
from tests.bench.hislip_program import HislipProgram
from tests.bench.mcp_client import MODERN, McpClient, modern
from tests.bench.waiting import wait_for

BENCH: Final = "psu1=rigol_dp832,dmm1=keysight_34461a,scope1=rigol_ds1054z,smu1=keithley_2450"
OWNER: Final = """\
format: 1
psu1:
  location: "rack 2"
  limits: {set_voltage: {voltage: {max: 12}}}
  deny: [ovp_off]
  budget: {output_on: {per_hour: 60}}
smu1: {raw_scpi: off, requires_sweep: [set_voltage]}
"""
LISTS: Final = {
    "tools": ("tools/list",),
    "resources": ("resources/list", "resources/templates/list", "prompts/list"),
}
PARTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def golden() -> Mapping[str, list[str]]:
    """The text of each golden file of this module, by name."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        (directory / "bench.yaml").write_text(OWNER, encoding="utf-8")
        settings = {
            "EDGE_ID": "edge-golden",
            "EDGE_NAME": "golden",
            "VISA_SERVER": ["hislip"],
            "HISLIP_PORT": 0,
        }
        with running_engine(directory, "--instruments", BENCH, config=settings) as engine:
            found = {f"{name}.jsonl": list(_listed(engine, *LISTS[name])) for name in LISTS}
            found["resources.jsonl"] += _greetings(engine)
            found["audit_rows.jsonl"] = list(_rows(engine))
            found["shapes.jsonl"] = list(_shapes(engine))
    return found


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# ------------------------------------------------------------------------------------- lists


def _listed(engine: Engine, *methods: str) -> Iterator[str]:
    """A line for each entry, with the revisions in which it is exactly this."""
    for method in methods:
        variants: dict[str, list[str]] = {}
        for version in REVISIONS:
            for entry in asyncio.run(_entries(engine, version, method)):
                variants.setdefault(_masked(_line(entry)), []).append(version)
        for entry, versions in sorted(variants.items()):
            shown = "all" if versions == list(REVISIONS) else versions
            yield f"{method} {_line(shown)} {entry}"


async def _entries(engine: Engine, version: str, method: str) -> list[Any]:
    client = McpClient(engine.ports["mcp_port"])
    if version != MODERN:
        await client.initialize(version)
    entries: list[Any] = []
    cursor: dict[str, Any] = {}
    while True:
        message, headers = client.message(method, cursor), {}
        if version == MODERN:
            message, headers = modern(message)
        result = (await client.post(message, headers)).messages()[-1]["result"]
        entries += result[PARTS[method]]
        if not result.get("nextCursor"):
            return entries
        cursor = {"cursor": result["nextCursor"]}


def _greetings(engine: Engine) -> Iterator[str]:
    """What a client is told first: capabilities and instructions."""
    for version in REVISIONS:
        client = McpClient(engine.ports["mcp_port"])
        if version == MODERN:
            message, headers = modern(client.message("server/discover", {}))
            answer = asyncio.run(client.post(message, headers))
        else:
            answer = asyncio.run(client.initialize(version))
        yield f"{version} {_masked(_line(answer.messages()[-1]['result']))}"


MASKS: Final = (
    (re.compile(r"There are: .*?\)\."), "There are: …."),  # in the order of ports
    (re.compile(r"127\.0\.0\.1(::?)\d+"), r"127.0.0.1\1PORT"),
    (re.compile(rf'"{re.escape(edged.__version__)}"'), '"VERSION"'),
    (re.compile(r"127\.0\.0\.1(%3A%3A)\d+"), r"127.0.0.1\1PORT"),
    (re.compile(r"\b(?:sweep|mcp|seq|check|stop|lease|run)-[\w-]*\d[\w-]*"), "ID"),
    (re.compile(r"Python-urllib/[\d.]+"), "Python-urllib"),
    (re.compile(r'"HiSLIP [^"]*"'), '"HiSLIP …"'),
    (re.compile(r"(?<!\w)/(?:dev/shm|tmp)/[\w/.-]+"), "PATH"),
    (re.compile(r"\b\d+(?:\.\d+)? (ms|s|seconds?|KiB|MiB)\b"), r"N \1"),
)


def _masked(text: str) -> str:
    for pattern, put in MASKS:
        text = pattern.sub(put, text)
    return text


# ------------------------------------------------------------------------------------- rows

PSU: Final = {"instrument_id": "psu1"}
SWEEP: Final = {
    **PSU,
    "command_name": "set_voltage",
    "parameters": {"channel": 1},
    "target_value": 5,
    "sweep_rate": 0.1,
}
STREAM: Final = {
    "instrument_id": "dmm1",
    "command_name": "measure_dc_voltage",
    "interval_ms": 1_000,
    "duration_ms": 60_000,
}
CALLS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("list_instruments", {}),
    ("get_status", {}),
    ("list_profiles", {}),
    ("get_capabilities", PSU),
    ("get_capabilities", {"instrument_id": "nobody"}),
    ("no_such_tool", {}),
    ("execute_command", {}),
    ("execute_command", {**PSU, "command_name": "set_voltage", "parameters": {"voltage": 5}}),
    (
        "execute_command",
        {**PSU, "command_name": "set_voltage", "parameters": {"channel": 1, "voltage": 5}},
    ),
    (
        "execute_command",
        {**PSU, "command_name": "set_voltage", "parameters": {"channel": 1, "voltage": 13}},
    ),
    (
        "execute_command",
        {**PSU, "command_name": "set_voltage", "parameters": {"channel": 1, "voltage": "high"}},
    ),
    ("execute_command", {**PSU, "command_name": "ovp_off", "parameters": {"channel": 1}}),
    ("execute_command", {**PSU, "command_name": "set_voltge", "parameters": {}}),
    ("keithley_2450__set_voltage", {"voltage": 1}),
    ("execute_command", {**PSU, "command_name": "output_on", "parameters": {"channel": 1}}),
    (
        "execute_command",
        {**PSU, "command_name": "output_on", "parameters": {"channel": 2}, "dry_run": True},
    ),
    ("rigol_dp832__measure_voltage", {"channel": 1}),
    ("keysight_34461a__measure_dc_voltage", {}),
    (
        "execute_sequence",
        {**PSU, "sequence_name": "voltage_point", "parameters": {"channel": 1, "voltage": 1}},
    ),
    ("execute_sequence", {**PSU, "sequence_name": "no_such_sequence"}),
    ("send_scpi", {**PSU, "scpi_command": "*IDN?"}),
    ("send_scpi", {**PSU, "scpi_command": ":SOUR1:VOLT 31"}),
    ("send_scpi", {**PSU, "scpi_command": ":SOUR1:VOLT 2"}),
    ("send_scpi", {**PSU, "scpi_command": "FOO:BAR 1"}),
    ("send_scpi", {"instrument_id": "smu1", "scpi_command": "*TST?"}),
    ("send_scpi", {**PSU, "scpi_command": ""}),
    ("bench__reserve", {"instruments": ["nobody"]}),
    ("bench__release", {"lease_id": "lease-nobody"}),
    ("start_stream", {**STREAM, "interval_ms": 1}),
    ("get_sweep_status", {"sweep_id": "sweep-none"}),
    ("stop_sweep", {"sweep_id": "sweep-none"}),
    ("stop_stream", {"stream_id": "mcp-none"}),
    ("fetch_waveform", {"stream_id": "mcp-none", "point_index": 0}),
    ("bench__runs", {}),
    ("bench__history", {}),
    ("bench__find_tools", {"query": "voltage"}),
    ("bench__check", {}),
    (
        "execute_command",
        {**PSU, "command_name": "output_off", "parameters": {"channel": 1}},
    ),
)
OF_THE_CALL: Final = ("seq", "time_ms", "action_id", "parent_id", "duration_ms", "prev", "hash")


def _rows(engine: Engine) -> Iterator[str]:
    """The rows that each of ``CALLS`` leaves by MCP, lines over HiSLIP, and each RPC method."""
    for tool, arguments in CALLS:
        before = _newest(engine)
        asyncio.run(McpClient(engine.ports["mcp_port"]).call(tool, arguments))
        yield f"{tool} {_line(arguments)}"
        yield from _rows_after(engine, before, is_side_by_side=tool == "bench__check")
    for send, line in LINES:
        before = _newest(engine)
        with HislipProgram.open(int(engine.ports["hislip_port"]), "hislip_psu1") as program:
            send(program, line)
        yield f"HiSLIP {line}"
        yield from _rows_after(engine, before)
    for method in sorted(METHOD_TABLE):
        before = _newest(engine)
        # What most of them need is not given: a refusal is a row as well.
        with contextlib.suppress(AssertionError):
            engine.rpc(method)
        yield f"RPC {method}"
        yield from _rows_after(engine, before, is_side_by_side=method == "stop")


LINES: Final = (
    (HislipProgram.query, "*IDN?"),
    (HislipProgram.set, ":SOUR1:VOLT 3"),
    (HislipProgram.refusal, ":SOUR1:VOLT 13"),
    (HislipProgram.refusal, ":OUTP:OVP CH1,OFF"),
    (HislipProgram.refusal, "FOO:BAR 1"),
)


def _rows_after(engine: Engine, seq: int, *, is_side_by_side: bool = False) -> list[str]:
    """The rows since then, sorted where units are worked side by side."""
    found = engine.rpc("audit.list", after=seq, limit=100)["rows"]
    rows = [_row(row) for row in found if row["tool"] != "audit.list"]
    return sorted(rows) if is_side_by_side else rows


def _row(row: Mapping[str, Any]) -> str:
    kept = {name: "…" if name in OF_THE_CALL else row[name] for name in row}
    kept["parent_id"] = "…" if row["parent_id"] else ""
    return "  " + _masked(_line(kept))


def _newest(engine: Engine) -> int:
    return int(engine.rpc("audit.list", limit=1)["rows"][-1]["seq"])


# ------------------------------------------------------------------------------------- shapes


def _shapes(engine: Engine) -> Iterator[str]:
    """Keys and types of results, while something of each kind is under way."""
    engine.rpc("lockout.set", instrument_id="scope1", reason="golden", by="test")
    lease = engine.tool("bench__reserve", instruments=["psu1"], ttl_s=60)
    more = {"lease": lease["result"]["lease_id"]}
    engine.tool("start_sweep", **SWEEP, **more)
    # A stream's call lasts as long as the stream.
    stream = threading.Thread(target=lambda: engine.tool("start_stream", **STREAM))
    stream.start()
    try:
        wait_for(lambda: _is_under_way(engine))
        for tool, arguments in SHAPED:
            yield f"{tool} {_line(arguments)}"
            told = engine.tool(tool, **arguments)
            for path, kinds in sorted(_kinds(told).items()):
                yield f"  {path}: {' | '.join(sorted(kinds))}"
    finally:
        engine.stop_all()
        stream.join()


def _is_under_way(engine: Engine) -> bool:
    """Whether stream and sweep have their first values."""
    status = engine.tool("get_status")["result"]
    runs = [*status["streams"], *status["sweeps"]]
    firsts = [run["last"] if "last" in run else run["current_value"] for run in runs]
    return len(firsts) == 2 and None not in firsts


SHAPED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("get_status", {}),
    ("list_instruments", {}),
    ("get_capabilities", PSU),
    ("list_profiles", {}),
    ("bench__runs", {}),
)
FREE_KEYS: Final = frozenset({"properties", "parameters", "instruments_by_state"})
"""Below them stand names of the bench or of a profile."""


def _kinds(value: Any, path: str = "") -> dict[str, set[str]]:
    """Every path of a value with the kinds of what stands there; entries of a list count as one."""
    found: dict[str, set[str]] = {path or "result": {KIND_OF[type(value)]}}
    entries: list[tuple[str, Any]] = []
    if isinstance(value, list):
        entries = [(f"{path}[]", entry) for entry in value]
    elif isinstance(value, dict):
        is_free = path.rpartition(".")[2] in FREE_KEYS
        entries = [(f"{path}.{'*' if is_free else key}".lstrip("."), value[key]) for key in value]
    for inner, entry in entries:
        for name, kinds in _kinds(entry, inner).items():
            found.setdefault(name, set()).update(kinds)
    return found


KIND_OF: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
}
