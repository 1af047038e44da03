"""A picture that is too large for a result, as each revision tells of it and reads it."""

from __future__ import annotations

import base64
from typing import Any, cast

import pytest

from edged.actions.outcome import Outcome
from edged.actions.tool import ToolCall
from edged.auth.permissions import Permissions
from edged.commands.capture import LARGEST_INLINE_BYTES
from edged.protocol.revisions import REVISIONS
from edged.tools.resources import Resources
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_tools import FakeTools
from tests.bench.mcp_client import Answer, modern
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.promises import promise
from tests.unit.commands.test_stream_path import House, picture_of

NO_ROOM = cast(Any, None)


class News:
    """Resources that never change."""

    def subscribe(self, _callback: Any) -> Any:
        return lambda: None


class Camera(FakeTools):
    """``echo`` takes a picture."""

    def __init__(self, house: House) -> None:
        super().__init__()
        self._house = house

    async def call(self, call: ToolCall) -> Outcome:
        return await self._house.command("picture")


async def ask(mcp: Endpoint, version: str, method: str, params: dict[str, Any]) -> Answer:
    if REVISIONS[version].has_handshake:
        return await (await mcp.session(version)).request(method, params)
    message, headers = modern(mcp.client().message(method, params))
    return await mcp.client().post(message, headers)


@promise("pictures.large")
@pytest.mark.parametrize("version", REVISIONS)
async def test_a_large_picture_is_linked_and_read_by_its_uri(version: str) -> None:
    clock = DrivenClock()
    house = House(clock)
    house.scope.block = picture_of(LARGEST_INLINE_BYTES + 1)
    resources = Resources(
        sources=NO_ROOM,
        path=house.path,
        permissions=Permissions(),
        news=cast(Any, News()),
        clock=clock,
    )
    try:
        async with running_endpoint(resources=resources, tools=Camera(house)) as mcp:
            call = {"name": "echo", "arguments": {}}
            result = (await ask(mcp, version, "tools/call", call)).json()["result"]
            text, *links = result["content"]
            ((picture_id, kept),) = house.waveforms.newest_pictures(2)
            uri = f"edged://pictures/execute_command/picture/{picture_id}"
            assert f"resources/read of {uri}" in text["text"]
            assert len(text["text"]) < 2_000
            linked = {
                "type": "resource_link",
                "uri": uri,
                "name": picture_id,
                "mimeType": "image/png",
                "size": LARGEST_INLINE_BYTES + 1,
            }
            assert links == ([] if version == "2025-03-26" else [linked])
            answer = await ask(mcp, version, "resources/read", {"uri": uri})
            (content,) = answer.json()["result"]["contents"]
            assert (content["uri"], content["mimeType"]) == (uri, "image/png")
            assert base64.b64decode(content["blob"]) == bytes(kept.samples)
    finally:
        house.waveforms.stop()
