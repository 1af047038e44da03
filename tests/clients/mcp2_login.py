"""The official Python SDK's client 2.x finds the issuer by itself, logs in, and asks a tool."""

from __future__ import annotations

import asyncio
import json
import sys

from login import REDIRECT, PersonAtThePage, Store, say
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata


async def main(url: str, tool: str) -> None:
    person, store = PersonAtThePage(), Store()

    async def came_back() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**person.came_back)

    auth = OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name="conformance",
            redirect_uris=[REDIRECT],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",
        ),
        storage=store,
        redirect_handler=person.open,
        callback_handler=came_back,
    )
    async with (
        create_mcp_http_client(auth=auth) as http,
        Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
    ):
        first = json.loads((await client.call_tool(tool, {})).content[0].text)
        # Its token has run out: the client renews it without a person.
        auth.context.token_expiry_time = 1
        given = store.seen
        await client.call_tool(tool, {})
        say({"result": first, "is_renewed": store.seen > given})


asyncio.run(main(*sys.argv[1:]))
