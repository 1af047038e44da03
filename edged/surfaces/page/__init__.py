"""The bench page for people, at ``/bench`` of the MCP port: to look at the bench, and to stop it.

``server`` serves it and what the browser gets (``static``: plain ES modules, and uPlot with its
licence), ``owner`` takes a person's answers. The page has its data by the socket of
``surfaces/events`` and by calls to the MCP endpoint like any client: there is no second API.
"""

from __future__ import annotations

from typing import Final

__all__ = ["PATH"]

PATH: Final = "/bench"
"""Where it is on the MCP port."""
