"""Resources without a bench: implements ``ResourceSource``, a seam of the MCP surface."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edged.actions.caller import Caller
from edged.errors import ErrorCode, Failed, NotFound, Refused
from edged.protocol.messages import CompletionParams, Content, News, ResourceEntry, TemplateEntry

TEXT = "test://text"
BLOB = "test://blob"
SECRET = "test://secret"
BROKEN = "test://broken"


class FakeResources:
    """A text, a blob, one that nobody may read, and one that cannot be read.

    Attributes:
        read_by: who asked for what.
    """

    def __init__(self) -> None:
        self.read_by: list[tuple[str, Caller, str]] = []
        self.listeners: list[Callable[[News], None]] = []

    async def entries(self, caller: Caller) -> Sequence[ResourceEntry]:
        text = ResourceEntry(
            uri=TEXT,
            name="text",
            title="A text",
            mime_type="text/plain",
            size=5,
            modified="2026-11-21T12:00:00+00:00",
        )
        return [text, ResourceEntry(uri=BLOB, name="blob")]

    def templates(self) -> Sequence[TemplateEntry]:
        return [TemplateEntry(uri_template="test://{letter}", name="letters", title="Letters")]

    async def read(self, uri: str, caller: Caller, action_id: str) -> Sequence[Content]:
        self.read_by.append((uri, caller, action_id))
        await self.watch_key(uri, caller)
        if uri == BROKEN:
            raise Failed("The disk is broken.", code=ErrorCode.RECORDING_FAILED)
        if uri == BLOB:
            content = Content(
                uri=uri, mime_type="application/octet-stream", blob="AAE=", meta={"y_unit": "V"}
            )
        else:
            content = Content(uri=uri, mime_type="text/plain", text="hello")
        return [content]

    async def watch_key(self, uri: str, caller: Caller) -> str:
        if uri == SECRET:
            raise Refused("Not for you.", code=ErrorCode.NOT_ALLOWED)
        if uri not in (TEXT, BLOB, BROKEN):
            raise NotFound(f"There is no resource {uri!r}.", code=ErrorCode.UNKNOWN_RESOURCE)
        return uri.upper()

    def may_read(self, uri: str, caller: Caller) -> bool:
        return caller.claims is None or "get_status" in caller.claims.tools_allow

    async def complete(self, asked: CompletionParams, caller: Caller) -> Sequence[str]:
        known = "".join(asked.known.values())
        return [f"{asked.value}{known}{number}" for number in range(150)]

    def subscribe(self, callback: Callable[[News], None]) -> Callable[[], None]:
        self.listeners.append(callback)
        return lambda: self.listeners.remove(callback)

    def tell(self, *uris: str, is_list_changed: bool = False) -> None:
        keys = tuple(uri.upper() for uri in uris)
        for listener in tuple(self.listeners):
            listener(News(is_list_changed=is_list_changed, uris=keys))
