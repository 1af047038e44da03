"""The RPC interface's own method for what discovery has met; it only tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edged.instruments.discovery import Discovery
from edged.surfaces.rpc.methods import OwnMethod

__all__ = ["discovery_methods"]


def discovery_methods(discovery: Discovery) -> dict[str, OwnMethod]:
    """``discovery``: the buses, the hot-plug monitor, what was set aside and why, ties."""

    async def report(_params: Mapping[str, Any]) -> Any:
        return discovery.report()

    return {"discovery": report}
