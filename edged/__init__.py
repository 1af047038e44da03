"""edged: a daemon that offers the instruments of a lab bench as MCP tools."""

from typing import Final

__version__: Final = "0.1.0"
