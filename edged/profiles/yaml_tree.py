"""The tree of a YAML document, in which every node knows its place.

What the grammar reads; how it is made from text is ``yaml_source``'s matter, and only that module
needs a YAML parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edged.profiles.model import Mark, Scalar

__all__ = ["ListNode", "MapNode", "Node", "ScalarNode"]


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
