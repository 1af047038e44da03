"""A reader that does not read: it loses points, never the measurement's time nor the result."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from edged.actions.action import Progress
from edged.actions.tool import ToolCall
from tests.bench.mcp_client import Connection
from tests.bench.mcp_endpoint import running_endpoint
from tests.bench.waiting import HANGS_S

POINTS = 20_000
PADDING = "x" * 1000


@pytest.mark.promise("stream.slow-reader")
async def test_a_slow_reader_loses_points_and_never_the_result() -> None:
    refused: list[int] = []
    done = asyncio.Event()

    async def measure(call: ToolCall) -> Any:
        assert call.progress is not None
        for number in range(1, POINTS + 1):
            was_told = call.progress(Progress(progress=number, message=PADDING))
            if not was_told:
                refused.append(number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        done.set()
        return {"count": POINTS}

    async with running_endpoint() as endpoint:
        endpoint.tools.add("measure", measure)
        client = endpoint.client()
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, limit=4096)
        message = client.tool_call("measure", token=1)
        writer.write(client.bytes_of("POST", json.dumps(message).encode()))
        # It reads nothing until then.
        async with asyncio.timeout(HANGS_S):
            await done.wait()
        numbers, result = await _read_all(Connection(reader, writer))
        writer.close()
    assert result == {"count": POINTS}
    assert numbers == sorted(numbers)
    assert numbers[0] == 1
    # 20 MB were measured; what waited for this reader is a fraction of that.
    assert len(numbers) < POINTS
    assert sorted([*numbers, *refused]) == list(range(1, POINTS + 1))


async def _read_all(connection: Connection) -> tuple[list[int], Any]:
    """Numbers of the points that came, and the result."""
    await connection.read_head()
    numbers: list[int] = []
    result: Any = None
    while (event := await connection.next_event()) is not None:
        told = event.json()
        if told.get("method") == "notifications/progress":
            numbers.append(told["params"]["progress"])
        else:
            result = json.loads(told["result"]["content"][0]["text"])
    return numbers, result
