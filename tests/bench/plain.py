"""YAML nodes as plain lists and dicts, as ``jsonschema`` judges them."""

from __future__ import annotations

from typing import Any

from edged.yaml.tree import ListNode, MapNode, Node, ScalarNode


def plain_tree(node: Node) -> Any:
    """What the node means; mappings keep the file's order, and their keys are text."""
    match node:
        case ScalarNode(value=value):
            return value
        case ListNode(items=items):
            return [plain_tree(item) for item in items]
        case MapNode(entries=entries):
            return {name: plain_tree(entry) for name, entry in entries.items()}
