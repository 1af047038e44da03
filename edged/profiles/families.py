"""``extends``: a profile written as its difference from another one of the family, one level deep.

Mappings merge entry by entry down to a single parameter; whatever is one thought (``returns``,
``verify``, ``sweep``, ``by``, a list of steps…) is replaced whole; ``null`` takes an entry away.
Nodes keep their places, so a complaint names the file in which the offending line stands.
"""

from __future__ import annotations

from typing import Final

from edged.profiles.complaints import complaint
from edged.yaml.tree import MapNode, Node, ScalarNode

__all__ = ["merge"]

_OWN: Final = frozenset({"format", "profile_key", "model", "match", "extends", "sim"})
"""What says which instrument this is: never inherited."""
_WHOLE: Final = frozenset(
    {
        "match", "returns", "verify", "complete", "errors", "sweep", "map", "by", "result", "for",
        "probe", "precondition", "acquisition",
    }
)  # fmt: skip


def merge(family: MapNode, member: MapNode) -> MapNode:
    """The whole profile that ``member`` says, with what it inherits.

    Raises:
        Invalid: the family extends another one itself, or the member takes away what is not there.
    """
    if "extends" in family.entries:
        mark = member.keys["extends"].mark
        raise complaint(mark, "A family that extends another family cannot be extended.")
    entries = {name: node for name, node in family.entries.items() if name not in _OWN}
    keys = {name: family.keys[name] for name in entries}
    return _merged(MapNode(family.mark, entries, keys), member)


def _merged(family: MapNode, member: MapNode) -> MapNode:
    entries = dict(family.entries)
    keys = dict(family.keys)
    for name, node in member.entries.items():
        inherited = entries.get(name)
        if _is_null(node) and inherited is not None:
            del entries[name], keys[name]
            continue
        entries[name] = _combined(name, inherited, node)
        keys[name] = member.keys[name]
    return MapNode(member.mark, entries, keys)


def _combined(name: str, inherited: Node | None, node: Node) -> Node:
    if isinstance(inherited, MapNode) and isinstance(node, MapNode) and name not in _WHOLE:
        return _merged(inherited, node)
    return node


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None
