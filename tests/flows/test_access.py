"""Who is shown what: a real engine on the simulated bench, by token and on the direct route."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from edged.surfaces.mcp.methods import METHODS, Judged
from edged.surfaces.mcp.visa_methods import visa_extension
from tests.bench.engine import Engine, running_engine
from tests.bench.hislip_program import HislipEnded, HislipProgram
from tests.bench.key_server import serving_keys
from tests.bench.mcp_client import McpClient
from tests.bench.token_issuer import EDGE, ISSUER, TokenIssuer, key_set
from tests.bench.waiting import HANGS_S
from tests.promises import promise

HEADER = "Edge-Caller-JWT"
READ = {"instrument_id": "psu1", "command_name": "measure_voltage", "parameters": {"channel": 1}}
SHORT = {**READ, "interval_ms": 50, "duration_ms": 200}
VISA = visa_extension(cast("Any", None)).methods
EVERYTHING = {**METHODS, **VISA}
OF_THE_BENCH = ("psu1", "dmm1", "rigol", "TCPIP", "DP832")
NOT_ALLOWED = -33003
NOT_AUTHENTICATED = -33001


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    return TokenIssuer(now_s=int(time.time()))  # noqa: TID251


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, issuer: TokenIssuer) -> Iterator[Engine]:
    with serving_keys(key_set(issuer.jwk())) as keys:
        config = {"EDGE_ID": EDGE, "RELAY_ISSUER": ISSUER, "RELAY_JWKS_URL": keys.url}
        with running_engine(tmp_path_factory.mktemp("access"), config=config) as running:
            yield running


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    config = {"DIRECT_TOOLS_ALLOW": [], "VISA_SERVER": ["hislip"], "HISLIP_PORT": 0}
    with running_engine(tmp_path_factory.mktemp("closed"), config=config) as running:
        yield running


def params_of(method: str) -> dict[str, Any]:
    """What a caller would ask who knows the bench already."""
    unit = "edged://instruments/psu1"
    template = {"type": "ref/resource", "uri": "edged://instruments/{instrument_id}"}
    params: dict[str, dict[str, Any]] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
        "tools/call": {"name": "list_instruments", "arguments": {}},
        "resources/read": {"uri": "edged://instruments"},
        "resources/subscribe": {"uri": unit},
        "resources/unsubscribe": {"uri": unit},
        "prompts/get": {"name": "check_bench"},
        "completion/complete": {
            "ref": template,
            "argument": {"name": "instrument_id", "value": ""},
        },
        "edged/visa.open": {"resource": "psu1"},
    }
    return params.get(method, {"session": 1} if method in VISA else {})


def test_every_method_says_which_permission_it_needs() -> None:
    assert all(method.needs == "send_scpi" for method in VISA.values())
    open_to_all = {name for name, method in METHODS.items() if method.needs is Judged.NOT_NEEDED}
    # A method that is added here must show nothing of the bench: the test below asks each.
    assert open_to_all == {
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "resources/templates/list",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
    }


async def shown_to_nobody(client: McpClient) -> None:
    await client.initialize("2025-06-18")
    # Two need a stream or the latest revision, and have tests of their own. By docs/promises.md
    # tools/list is the same for all callers, and a call is judged.
    for method in sorted(EVERYTHING.keys() - {"tools/list", "subscriptions/listen"}):
        answer = await client.request(method, params_of(method))
        text = answer.body.decode()
        shown = text.replace(json.dumps(params_of(method).get("uri", "-"))[1:-1], "")
        assert not [name for name in OF_THE_BENCH if name in shown], (method, text)
        if EVERYTHING[method].needs == "send_scpi":
            assert answer.json()["error"]["code"] == NOT_ALLOWED, (method, text)


@promise("auth.every-method")
async def test_a_token_that_allows_nothing_is_shown_nothing_of_the_bench_by_any_method(
    engine: Engine, issuer: TokenIssuer
) -> None:
    client = client_of(engine, issuer)
    await shown_to_nobody(client)
    refused = {row["tool"] for row in engine.rpc("audit.list", limit=50)["rows"] if row["code"]}
    assert {"send_scpi", "get_capabilities", "list_instruments"} <= refused


@promise("auth.every-method")
async def test_where_the_owner_allows_nothing_the_direct_route_is_shown_nothing(
    closed: Engine,
) -> None:
    await shown_to_nobody(McpClient(closed.ports["mcp_port"]))


@promise("auth.every-method")
@pytest.mark.parametrize("name", ["hislip_psu1", "hislip_nobody", "hislip0", ""])
def test_a_hislip_client_without_permission_is_told_no_name(closed: Engine, name: str) -> None:
    with pytest.raises(HislipEnded, match="send_scpi") as ended:
        HislipProgram.open(int(closed.ports["hislip_port"]), name)
    assert not [unit for unit in OF_THE_BENCH if unit in str(ended.value)]


def client_of(engine: Engine, issuer: TokenIssuer, *tools: str, **claims: Any) -> McpClient:
    client = McpClient(engine.ports["mcp_port"])
    client.headers[HEADER] = issuer.mint(tools_allow=list(tools), danger_allow=True, **claims)
    return client


async def recorded(client: McpClient) -> str:
    """A recording that this client's subject has made."""
    result = await client.call("start_stream", SHORT)
    assert not result.get("isError"), result
    return str(result["structuredContent"]["stream_id"])


@promise("auth.own-runs-and-history")
async def test_over_the_relay_a_caller_is_shown_its_own_subjects_runs_and_history_alone(
    engine: Engine, issuer: TokenIssuer
) -> None:
    tools = ("start_stream", "bench__runs", "bench__plot", "bench__history", "resources/read:runs")
    ada = client_of(engine, issuer, *tools)
    bob = client_of(engine, issuer, *tools, sub="user:bob")
    owner = McpClient(engine.ports["mcp_port"])
    runs = {}
    for name, client in (("ada", ada), ("bob", bob), ("owner", owner)):
        await client.initialize("2025-06-18")
        runs[name] = await recorded(client)
    for name, client in (("ada", ada), ("bob", bob)):
        others = set(runs.values()) - {runs[name]}
        await shows_only(client, runs[name], others)
        history = await client.call("bench__history", {"limit": 500})
        rows = history["structuredContent"]["rows"]
        assert rows
        assert all(f"user:{name}" in row["who"] for row in rows)
        assert {row["run_id"] for row in rows if "run_id" in row} == {runs[name]}
    listed = await owner.call("bench__runs", {})
    assert set(runs.values()) <= {run["run_id"] for run in listed["structuredContent"]["runs"]}
    assert "user:bob" in json.dumps(await owner.call("bench__history", {"limit": 500}))


async def shows_only(client: McpClient, own: str, others: set[str]) -> None:
    listed = await client.call("bench__runs", {})
    assert [run["run_id"] for run in listed["structuredContent"]["runs"]] == [own]
    resources = (await client.request("resources/list")).json()["result"]["resources"]
    assert [one["uri"] for one in resources] == [f"edged://runs/{own}"]
    ref = {"type": "ref/resource", "uri": "edged://runs/{run_id}"}
    asked = {"ref": ref, "argument": {"name": "run_id", "value": ""}}
    completed = (await client.request("completion/complete", asked)).json()["result"]
    assert completed["completion"]["values"] == [own]
    for run_id in (own, *others, own[:-1] + "x"):
        is_own = run_id == own
        rows = await client.call("bench__runs", {"run_id": run_id})
        assert bool(rows.get("isError")) is not is_own, rows
        plot = await client.call("bench__plot", {"run_id": run_id})
        assert bool(plot.get("isError")) is not is_own, plot
        for method in ("resources/read", "resources/subscribe"):
            answer = (await client.request(method, {"uri": f"edged://runs/{run_id}"})).json()
            assert ("result" in answer) is is_own, answer
        if not is_own:
            told = json.dumps([rows, plot]).replace(run_id, "")
            assert not [run for run in others if run in told], told


LIVES_S = 10
"""Longer than a busy machine takes to begin a stream."""


@promise("auth.expiry-ends")
async def test_a_stream_whose_call_ended_with_its_token_is_recorded_to_its_end(
    engine: Engine, issuer: TokenIssuer
) -> None:
    tools = ("start_stream", "bench__runs")
    began = time.time()  # noqa: TID251 - the engine judges tokens by the machine's clock
    client = client_of(engine, issuer, *tools, sub="user:carl", exp=int(began) + LIVES_S)
    await client.initialize("2025-06-18")
    asked = {**READ, "interval_ms": 50, "duration_ms": 15_000}
    error = await client.call("start_stream", asked)
    assert error["code"] == NOT_AUTHENTICATED, error
    client.headers[HEADER] = issuer.mint(
        tools_allow=list(tools), sub="user:carl", jti="newer", exp=int(began) + 200
    )
    async with asyncio.timeout(HANGS_S):
        while True:
            told = await client.call("bench__runs", {})
            assert "structuredContent" in told, told
            (run,) = told["structuredContent"]["runs"]
            if run["state"] != "running":
                break
            await asyncio.sleep(0.1)
    assert run["state"] == "ended"
    shown = engine.rpc("runs.show", run_id=run["run_id"], rows=1)
    last = dict(zip(shown["columns"], shown["rows"][0], strict=True))
    assert int(last["timestamp_ms"]) > (int(began) + LIVES_S) * 1000
