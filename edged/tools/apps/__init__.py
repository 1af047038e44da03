"""The pages that hosts of MCP Apps show inside a chat: one self-contained file each.

``packaging/apps.py`` makes them from ``src`` and from the parts of the bench page
(``edged/surfaces/page/static``), so that both show the same thing in the same way.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from edged.errors import ErrorCode, NotFound

__all__ = ["APPS", "read_app"]

APPS: Final = ("bench", "run")


def read_app(name: str) -> str:
    """The file of an app. From the disk: not on the event loop.

    Raises:
        NotFound: UNKNOWN_RESOURCE, there is no such app.
    """
    if name not in APPS:
        raise NotFound(
            f"There is no app {name[:100]!r}.",
            code=ErrorCode.UNKNOWN_RESOURCE,
            remedy=f"The apps are {' and '.join(APPS)}.",
        )
    return files(__package__).joinpath(f"{name}.html").read_text(encoding="utf-8")
