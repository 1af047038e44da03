"""/metrics on the MCP port, and what the engine tells its supervisor for the fleet."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from edged.relay.announcement import fitted, read_said
from tests.bench.engine import Engine, running_engine
from tests.promises import promise


def ask(url: str, *, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, headers=named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def metrics(engine: Engine) -> str:
    return f"http://127.0.0.1:{engine.ports['mcp_port']}/metrics"


@promise("fleet.metrics-door")
def test_metrics_are_on_the_mcp_port_behind_the_endpoint_s_guard(tmp_path: Path) -> None:
    with running_engine(tmp_path) as engine:
        status, body = ask(metrics(engine))
        assert status == 200
        assert b"edged_instruments" in body
        # The same figures as at the RPC port.
        there = ask(f"http://127.0.0.1:{engine.ports['rpc_port']}/metrics")[1]
        named = {line.split()[2] for line in there.decode().splitlines() if "# TYPE" in line}
        assert named == {line.split()[2] for line in body.decode().splitlines() if "# TYPE" in line}
        assert ask(metrics(engine), Host="evil.example")[0] == 403
        assert ask(metrics(engine), Origin="https://evil.example")[0] == 403
        assert ask(metrics(engine), Edge_Caller_JWT="")[0] == 404
        assert ask(metrics(engine), method="DELETE")[0] == 405
        assert ask(f"{metrics(engine)}/x")[0] == 404


@promise("fleet.metrics-door")
def test_the_owner_shuts_the_metrics_or_bounds_who_may_see_them(tmp_path: Path) -> None:
    for name in ("off", "bound"):
        (tmp_path / name).mkdir()
    with running_engine(tmp_path / "off", config={"METRICS": "off"}) as engine:
        assert ask(metrics(engine))[0] == 404
    bound = {"DIRECT_TOOLS_ALLOW": ["list_instruments"]}
    with running_engine(tmp_path / "bound", config=bound) as engine:
        assert ask(metrics(engine))[0] == 403


@promise("fleet.here")
def test_what_an_engine_tells_of_itself_leaves_no_row_and_is_an_announcement(
    tmp_path: Path,
) -> None:
    config = {"INBOUND_AUTH_TOKEN": "t" * 20}
    with running_engine(tmp_path, config=config) as engine:
        url = f"http://127.0.0.1:{engine.ports['rpc_port']}/here"
        assert ask(url)[0] == 401
        known = {"Authorization": f"Bearer {'t' * 20}"}
        engine.token = "t" * 20
        before = {row["seq"] for row in engine.rpc("audit.list", limit=500)["rows"]}
        told: dict[str, Any] = json.loads(ask(url, **known)[1])
        rows = engine.rpc("audit.list", limit=500)["rows"]
        added = [row["tool"] for row in rows if row["seq"] not in before]
        # The looks at the record are rows themselves.
        assert set(added) <= {"audit.list"}
        said = read_said(fitted(told))
        assert said.units
        assert {unit["alias"] for unit in said.units} >= {"psu1", "dmm1"}
        psu = next(unit for unit in said.units if unit["alias"] == "psu1")
        assert (psu["instrument_class"], psu["lease"]) == ("power_supply", None)
        assert said.left_out == 0
