"""The resources that the official suites ask for by URI."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from edged.actions.caller import Caller
from edged.errors import ErrorCode, NotFound
from edged.protocol.messages import CompletionParams, Content, News, ResourceEntry, TemplateEntry

TEXT = "test://static-text"
BINARY = "test://static-binary"
WATCHED = "test://watched-resource"
TEMPLATE = re.compile(r"test://template/([^/]+)/data")
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAE"
    "hQGAhKmMIQAAAABJRU5ErkJggg=="
)
"""A picture of one pixel."""


class FixtureResources:
    """Implements ``ResourceSource``."""

    async def entries(self, caller: Caller) -> Sequence[ResourceEntry]:
        return [
            ResourceEntry(
                uri=TEXT, name="static-text", description="A text.", mime_type="text/plain"
            ),
            ResourceEntry(uri=BINARY, name="static-binary", description="A picture."),
            ResourceEntry(uri=WATCHED, name="watched", description="A text that may change."),
        ]

    def templates(self) -> Sequence[TemplateEntry]:
        return [TemplateEntry(uri_template="test://template/{id}/data", name="template")]

    async def read(self, uri: str, caller: Caller, action_id: str) -> Sequence[Content]:
        await self.watch_key(uri, caller)
        found = TEMPLATE.fullmatch(uri)
        if found is not None:
            told = json.dumps({"id": found[1], "templateTest": True})
            return [Content(uri=uri, mime_type="application/json", text=told)]
        if uri == BINARY:
            return [Content(uri=uri, mime_type="image/png", blob=PIXEL)]
        return [Content(uri=uri, mime_type="text/plain", text="This is a text.")]

    async def watch_key(self, uri: str, caller: Caller) -> str:
        if uri not in (TEXT, BINARY, WATCHED) and TEMPLATE.fullmatch(uri) is None:
            raise NotFound(
                f"There is no resource {uri!r}.",
                code=ErrorCode.UNKNOWN_RESOURCE,
                data={"uri": uri},
            )
        return uri

    def may_read(self, uri: str, caller: Caller) -> bool:
        return caller.claims is None or "get_status" in caller.claims.tools_allow

    async def complete(self, asked: CompletionParams, caller: Caller) -> Sequence[str]:
        return [name for name in ("paris", "park", "party") if name.startswith(asked.value)]

    def subscribe(self, callback: Callable[[News], None]) -> Callable[[], None]:
        return lambda: None
