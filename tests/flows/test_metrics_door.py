"""/metrics on the MCP port, and what the engine tells its supervisor for the fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytest_aiohttp import AiohttpClient

from edged.relay.announcement import fitted, read_said
from tests.bench.engine import running_engine
from tests.bench.listener_server import already_at
from tests.promises import promise


@promise("fleet.metrics-door")
async def test_metrics_are_on_the_mcp_port_behind_the_endpoint_s_guard(
    tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    with running_engine(tmp_path) as engine:
        mcp = await aiohttp_client(already_at(engine.ports["mcp_port"]))
        rpc = await aiohttp_client(already_at(engine.ports["rpc_port"]))
        answer = await mcp.get("/metrics")
        assert answer.status == 200
        assert "edged_instruments" in (body := await answer.text())
        # The same figures as at the RPC port.
        there = await (await rpc.get("/metrics")).text()
        named = {line.split()[2] for line in there.splitlines() if "# TYPE" in line}
        assert named == {line.split()[2] for line in body.splitlines() if "# TYPE" in line}
        for headers, status in (
            ({"Host": "evil.example"}, 403),
            ({"Origin": "https://evil.example"}, 403),
            ({"Edge-Caller-JWT": ""}, 404),
        ):
            assert (await mcp.get("/metrics", headers=headers)).status == status, headers
        assert (await mcp.delete("/metrics")).status == 405
        assert (await mcp.get("/metrics/x")).status == 404


@promise("fleet.metrics-door")
@pytest.mark.parametrize(
    ("config", "status"),
    [({"METRICS": "off"}, 404), ({"DIRECT_TOOLS_ALLOW": ["list_instruments"]}, 403)],
)
async def test_the_owner_shuts_the_metrics_or_bounds_who_may_see_them(
    tmp_path: Path, aiohttp_client: AiohttpClient, config: dict[str, Any], status: int
) -> None:
    with running_engine(tmp_path, config=config) as engine:
        mcp = await aiohttp_client(already_at(engine.ports["mcp_port"]))
        assert (await mcp.get("/metrics")).status == status


@promise("fleet.here")
async def test_what_an_engine_tells_of_itself_leaves_no_row_and_is_an_announcement(
    tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    config = {"INBOUND_AUTH_TOKEN": "t" * 20}
    with running_engine(tmp_path, config=config) as engine:
        rpc = await aiohttp_client(already_at(engine.ports["rpc_port"]))
        assert (await rpc.get("/here")).status == 401
        known = {"Authorization": f"Bearer {'t' * 20}"}
        engine.token = "t" * 20
        before = {row["seq"] for row in engine.rpc("audit.list", limit=500)["rows"]}
        told = await (await rpc.get("/here", headers=known)).json()
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
