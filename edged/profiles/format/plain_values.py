"""YAML nodes → plain lists and dicts, for whoever judges or prints them without their places.

Plain Python data as nodes, so that the one grammar reads what is not YAML too.

The specifications of SDK wrappers are Python lists and dicts in ParameterConfig form; a worker
sends them as JSON. ``grammar_parameters.read_parameters`` reads these nodes like a profile's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from edged.schema.fields import complaint
from edged.yaml.tree import ListNode, MapNode, Mark, Node, ScalarNode


def plain_tree(node: Node) -> Any:
    """What the node means; mappings keep the file's order, and their keys are text."""
    match node:
        case ScalarNode(value=value):
            return value
        case ListNode(items=items):
            return [plain_tree(item) for item in items]
        case MapNode(entries=entries):
            return {name: plain_tree(entry) for name, entry in entries.items()}


_MAX_DEPTH: Final = 32


def plain_node(value: object, mark: Mark, depth: int = 0) -> Node:
    """Nodes that all stand at ``mark``.

    Raises:
        Invalid: something that YAML could not hold, or too deep.
    """
    if depth > _MAX_DEPTH:
        raise complaint(mark, f"This is nested deeper than {_MAX_DEPTH} levels.")
    match value:
        case float() if not math.isfinite(value):
            raise complaint(mark, f"{value} is not a finite number.")
        case None:
            return ScalarNode(mark, None, "")
        case bool():
            return ScalarNode(mark, value, str(value).lower())
        case int() | float() | str():
            return ScalarNode(mark, value, str(value))
        case list() | tuple():
            return ListNode(mark, tuple(plain_node(item, mark, depth + 1) for item in value))
        case Mapping():
            keys = {str(key): ScalarNode(mark, key, str(key)) for key in value}
            entries = {str(key): plain_node(item, mark, depth + 1) for key, item in value.items()}
            return MapNode(mark, entries, keys)
        case _:
            raise complaint(mark, f"{type(value).__name__} is not a plain value.")
