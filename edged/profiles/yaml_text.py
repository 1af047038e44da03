"""A YAML tree as text again: a profile with what it inherits, each inherited line saying whence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from edged.yaml.tree import ListNode, MapNode, Node, ScalarNode

__all__ = ["yaml_text"]


def yaml_text(root: MapNode, path: str) -> str:
    """The tree as block YAML; what does not stand in ``path`` gets its place as a comment."""
    return "\n".join(_lines(root, path, 0)) + "\n"


def _lines(node: MapNode, path: str, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, entry in node.entries.items():
        mark = node.keys[name].mark
        told = "" if mark.path == path else f"  # {Path(mark.path).name}:{mark.line}"
        key = f"{indent}{_scalar_text(name)}:"
        if isinstance(entry, MapNode) and entry.entries and depth < 4:
            yield f"{key}{told}"
            yield from _lines(entry, path, depth + 1)
        else:
            yield f"{key} {_flow(entry)}{told}"


def _flow(node: Node) -> str:
    match node:
        case ScalarNode(value=str(text)):
            return json.dumps(text, ensure_ascii=False)
        case ScalarNode(value=None):
            return "null"
        case ScalarNode(text=text):
            return text
        case ListNode(items=items):
            return "[" + ", ".join(map(_flow, items)) + "]"
        case MapNode(entries=entries):
            inner = (f"{_scalar_text(name)}: {_flow(entry)}" for name, entry in entries.items())
            return "{" + ", ".join(inner) + "}"


def _scalar_text(name: str) -> str:
    return name if name.replace("_", "a").isalnum() and name.isascii() else json.dumps(name)
