"""Ten thousand bad tokens at a real engine: the issuer hardly notices, nor does anybody else."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.bench.bad_tokens import bad_tokens
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.key_server import KeyServer, serving_keys
from tests.bench.mcp_client import Connection, McpClient
from tests.bench.token_issuer import EDGE, ISSUER, TokenIssuer, key_set
from tests.promises import promise

TOKENS = 10_000
CLIENTS = 100
"""Each bad token of a known form is refused after half a second."""


@pytest.fixture
def issuer() -> Iterator[tuple[TokenIssuer, KeyServer]]:
    tokens = TokenIssuer(now_s=int(time.time()))  # noqa: TID251
    with serving_keys(key_set(tokens.jwk())) as server:
        yield tokens, server


@promise("auth.flood-at-the-door")
async def test_ten_thousand_bad_tokens_make_nine_extra_requests_and_then_one_a_minute(
    issuer: tuple[TokenIssuer, KeyServer], tmp_path: Path
) -> None:
    tokens, server = issuer
    config = {
        "EDGE_ID": EDGE,
        "RELAY_ISSUER": ISSUER,
        "RELAY_JWKS_URL": server.url,
    }
    with engine_process(tmp_path, config=config) as engine:
        client = McpClient(engine.ports["mcp_port"])
        good = {"Edge-Caller-JWT": tokens.mint(tools_allow=["get_status"])}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await client.post(ping, good)).status == 200
        before = psutil.Process(engine.process.pid).memory_info().rss
        began = time.monotonic()
        statuses = await flood(engine, flood_tokens(tokens))
        minutes = (time.monotonic() - began) // 60
        assert statuses == {401}
        # The keys themselves, one for a signature, and one for each of the first eight key ids.
        assert server.asked <= 10 + minutes
        assert (await client.post(ping, good)).status == 200
        grown = psutil.Process(engine.process.pid).memory_info().rss - before
        assert grown < 50 * 1024 * 1024


def flood_tokens(tokens: TokenIssuer) -> list[str]:
    """Every sort of bad token that a header can carry, then forged ones without end."""
    skipped = {"with a line end", "a NUL in it", "with a blank after it", "iat 31 s ahead"}
    sorts = [token for name, token in bad_tokens(tokens).items() if name not in skipped]
    unknown = [tokens.mint({"kid": f"other-{number}"}, jti=number) for number in range(200)]
    return (sorts + unknown * (TOKENS // len(unknown) + 1))[:TOKENS]


async def flood(engine: EngineProcess, tokens: list[str]) -> set[int]:
    """Send them all over a few kept connections; returns the statuses."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    client = McpClient(engine.ports["mcp_port"])

    async def some(mine: list[str]) -> set[int]:
        statuses = set()
        async with await Connection.to(engine.ports["mcp_port"]) as line:
            for token in mine:
                line.send(client.bytes_of("POST", body, {"Edge-Caller-JWT": token}))
                statuses.add((await line.read_answer()).status)
        return statuses

    found = await asyncio.gather(*(some(tokens[n::CLIENTS]) for n in range(CLIENTS)))
    return set().union(*found)
