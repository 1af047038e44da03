"""``instructions``: what a model is told once about how to work this bench, in under 150 words."""

from __future__ import annotations

from typing import Final

from edged.errors import NotFound
from edged.surfaces.mcp.seams import ToolSource

__all__ = ["instructions_for"]

SENTENCES: Final[tuple[tuple[str, str], ...]] = (
    (
        "list_instruments",
        "edged works the instruments of one lab bench. Begin with list_instruments: its ids and "
        "aliases name instruments everywhere.",
    ),
    (
        "get_capabilities",
        "get_capabilities(instrument_id) lists commands with their arguments, units and limits.",
    ),
    (
        "execute_command",
        "Run a command by its own tool (profile__command) or by execute_command; both check "
        "arguments before anything is sent.",
    ),
    ("send_scpi", "Use send_scpi only for what the profile lacks."),
    (
        "start_sweep",
        "Commands marked requires_sweep are ramped by start_sweep; watch with get_sweep_status, "
        "park or abort with stop_sweep.",
    ),
    ("start_stream", "For repeated readings use start_stream, not a loop of calls."),
    ("fetch_waveform", "Fetch waveforms as summary, decimated or png; base64 is large."),
    (
        "get_status",
        "What runs goes on without you; get_status lists it. Before a dangerous command say what "
        "it will do, and read the set-point back afterwards. An error says what to do next, and "
        "its sent list what has reached the instrument already. If something looks unsafe, make it "
        "safe first, then ask a person.",
    ),
)
"""Tool → what to say of it; said only where there is such a tool."""


def instructions_for(registry: ToolSource) -> str:
    """The sentences about the tools that are here."""
    return " ".join(sentence for tool, sentence in SENTENCES if _has(registry, tool))


def _has(registry: ToolSource, name: str) -> bool:
    try:
        registry.find(name)
    except NotFound:
        return False
    return True
