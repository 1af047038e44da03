"""The MCP surface: one HTTP endpoint for every revision of MCP served here."""

from edged.surfaces.mcp.seams import CallerGuard, CallerHead, DirectGuard
from edged.surfaces.mcp.surface import McpSettings, McpSurface
from edged.surfaces.mcp.tool_list import ToolListing

__all__ = [
    "CallerGuard",
    "CallerHead",
    "DirectGuard",
    "McpSettings",
    "McpSurface",
    "ToolListing",
]
