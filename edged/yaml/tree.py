"""The tree of a YAML document, in which every node knows its place.

Profiles, bench files and the configuration are read from it; how it is made from text is
``source``'s matter, and only that module needs a YAML parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ListNode", "MapNode", "Mark", "Node", "Scalar", "ScalarNode"]

Scalar = float | int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where something stands in a file; line and column count from 1."""

    path: str
    line: int
    column: int

    @property
    def place(self) -> str:
        """As compilers write it, so that editors jump there."""
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A scalar: its YAML 1.2 value (``None`` for null) and the text as written."""

    mark: Mark
    value: Scalar | None
    text: str


@dataclass(frozen=True, slots=True)
class ListNode:
    """A sequence of nodes."""

    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapNode:
    """A mapping in the file's order; ``keys`` has the key's own node (its place and its value)."""

    mark: Mark
    entries: Mapping[str, Node]
    keys: Mapping[str, ScalarNode]


Node = ScalarNode | ListNode | MapNode
