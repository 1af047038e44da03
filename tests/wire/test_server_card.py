"""The server card: for any page that names this machine rightly, and with nothing of the bench."""

from __future__ import annotations

import re

import pytest
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

from edged import __version__
from edged.protocol.revisions import SUPPORTED_VERSIONS
from tests.bench.listener_server import ListenerServer, already_at
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.promises import promise

# What the extension's schema asks of a card (schema.json as of 2026-10).
SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")


CARD = "/mcp/server-card"


@pytest.fixture
async def http(mcp: Endpoint, aiohttp_client: AiohttpClient) -> TestClient:
    return await aiohttp_client(already_at(mcp.port))


@promise("card.served")
async def test_the_card_names_the_endpoint_as_it_was_asked_and_what_initialize_says(
    mcp: Endpoint, http: TestClient
) -> None:
    answer = await http.get(CARD, headers={"Accept": "application/mcp-server-card+json"})
    begun = (await mcp.client().initialize("2025-11-25")).json()["result"]["serverInfo"]
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/mcp-server-card+json"
    card = await answer.json()
    assert card.pop("$schema") == SCHEMA
    assert NAME.fullmatch(name := card.pop("name"))
    assert begun["name"] in name
    assert 1 <= len(card.pop("description")) <= 100
    assert card == {
        "version": __version__,
        "title": begun["title"],
        "remotes": [
            {
                "type": "streamable-http",
                "url": f"http://127.0.0.1:{mcp.port}/mcp",
                "supportedProtocolVersions": list(SUPPORTED_VERSIONS),
            }
        ],
    }
    again = await http.get(CARD, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, await again.read()) == (304, b"")
    head = await http.head(CARD)
    assert head.status == 200
    assert head.headers["Content-Length"] == str(len(await answer.read()))


@promise("card.guarded")
async def test_any_page_may_read_it_and_no_foreign_host_is_answered(http: TestClient) -> None:
    for origin in ("https://anybody.example", "null"):
        answer = await http.get(CARD, headers={"Origin": origin})
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        before = await http.options(CARD, headers={"Origin": origin})
        assert before.status == 204
        assert before.headers["Access-Control-Allow-Methods"] == "GET"
    for wrong in ({"Host": "evil.example"}, {"Host": "evil.example", "Origin": "null"}):
        refused = await http.get(CARD, headers=wrong)
        assert refused.status == 403
        assert (await refused.json())["error"]["code"] == -32600
    assert (await http.get(CARD, headers={"Edge-Caller-JWT": ""})).status == 404


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("POST", "/mcp/server-card", 405),
        ("DELETE", "/mcp/server-card", 405),
        ("GET", "/mcp/server-card/", 404),
        ("GET", "/mcp/server-cards", 404),
        ("GET", "/server-card", 404),
        ("GET", "/mcp/server-card?x=1", 200),
    ],
)
async def test_it_is_read_at_its_own_path_alone(
    http: TestClient, verb: str, path: str, status: int
) -> None:
    assert (await http.request(verb, path)).status == status


async def test_it_stands_beside_whatever_path_the_owner_chose(
    aiohttp_client: AiohttpClient,
) -> None:
    http = await aiohttp_client(ListenerServer(running_endpoint(path="/lab/mcp/")))
    card = await (await http.get("/lab/mcp/server-card")).json()
    assert card["remotes"][0]["url"].endswith("/lab/mcp/")
