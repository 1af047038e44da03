"""Tool results with content that no tool of ours gives: sounds, embedded resources.

The endpoint can carry them (``results.tool_result``), but an outcome of the product has no word for
them, so the translation of outcomes is given one more case in the fixture's process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edged.actions.outcome import Outcome
from edged.protocol.jsonrpc import JsonObject
from edged.protocol.results import tool_result
from edged.surfaces.mcp import methods
from tests.conformance.fixture_resources import PIXEL

IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
AUDIO = {
    "type": "audio",
    # A WAV file of no samples.
    "data": "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=",
    "mimeType": "audio/wav",
}


def embedded(uri: str, mime_type: str, text: str) -> JsonObject:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


@dataclass(frozen=True, slots=True)
class Shown:
    """A text and what is shown beside it, as an outcome's data."""

    text: str
    items: tuple[JsonObject, ...]


def show_content() -> None:
    """From now on, in this process, an outcome whose data is ``Shown`` is shown so."""
    plain = methods.call_answer

    def call_answer(outcome: Outcome, request_id: Any, **more: Any) -> Any:
        shown = outcome.data
        if not isinstance(shown, Shown):
            return plain(outcome, request_id, **more)
        return tool_result(
            more["revision"], more["server"], data=None, text=shown.text, more_content=shown.items
        )

    methods.call_answer = call_answer
