"""What stands beside /rpc on a real engine."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY
from tests.bench.listener_server import already_at
from tests.promises import promise

FAMILY = re.compile(r"^# HELP (edged_\w+) ", re.MULTILINE)
IN_PAGE = re.compile(r"`(edged_\w+)`")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("rpc")) as running:
        yield running


@pytest.fixture
async def rpc(engine: Engine, aiohttp_client: AiohttpClient) -> TestClient:
    own = {"Origin": engine.rpc_url.removesuffix("/rpc")}
    return await aiohttp_client(already_at(engine.ports["rpc_port"]), headers=own)


@promise("rpc.metrics")
async def test_every_family_of_figures_is_on_the_page_and_in_the_reference(
    engine: Engine, rpc: TestClient
) -> None:
    engine.tool("list_instruments")
    answer = await rpc.get("/metrics")
    assert answer.content_type == "text/plain"
    page = await answer.text()
    found = {name.removesuffix("_total") for name in FAMILY.findall(page)}
    documented = set(IN_PAGE.findall((REPOSITORY / "docs" / "rpc.md").read_text()))
    assert found == documented
    assert re.search(r'edged_tool_calls_total\{outcome="ok",tool="list_instruments"\} [1-9]', page)
    assert re.search(r'edged_instruments\{state="ready"\} 3', page)
    assert re.search(r"edged_call_duration_seconds_bucket\{.*le=", page)


@pytest.mark.parametrize("path", ["/rpc", "/metrics", "/healthz", "/events"])
async def test_no_page_of_another_origin_is_let_in_by_a_header(rpc: TestClient, path: str) -> None:
    for method in ("OPTIONS", "GET"):
        answer = await rpc.request(method, path)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
