"""The files that a browser gets, by their exact names: nothing else of the disk can be reached.

Read once, when the first page is opened.
"""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from edged.record import record

INDEX: Final = "index.html"
FACTS: Final = "{{facts}}"
TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
        ".LICENSE": "text/plain; charset=utf-8",
    }
)


@record(kw_only=False)
class StaticFile:
    """One file: its bytes, what they are, and by what a browser knows that it has them already."""

    body: bytes
    content_type: str
    etag: str

    @classmethod
    def of(cls, body: bytes, content_type: str) -> StaticFile:
        """With its tag."""
        return cls(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def read_static_files() -> Mapping[str, StaticFile]:
    """All of them by name, from the disk."""
    found = {}
    for entry in files(__package__).joinpath("static").iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if suffix in TYPES:
            found[entry.name] = StaticFile.of(entry.read_bytes(), TYPES[suffix])
    return found


def filled_index(index: StaticFile, facts: Mapping[str, Any]) -> StaticFile:
    """The page itself, with what it must know before it can ask."""
    told = html.escape(json.dumps(dict(facts), separators=(",", ":")))
    body = index.body.decode("utf-8").replace(FACTS, told).encode("utf-8")
    return StaticFile.of(body, index.content_type)
