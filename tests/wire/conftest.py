"""The MCP endpoint for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.bench.mcp_endpoint import Endpoint, running_endpoint


@pytest.fixture
async def mcp() -> AsyncIterator[Endpoint]:
    async with running_endpoint() as endpoint:
        yield endpoint
