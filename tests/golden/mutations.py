"""Whole inputs, broken in one place: what a mistake at each key is answered with.

``text_of`` makes the text of one mutation: JSON with an entry in each line, which is YAML, so that
places in complaints mean something.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from tests.bench.engine_process import REPOSITORY

BASES: Final = {
    "profile": REPOSITORY / "tests" / "unit" / "profiles" / "rich_profile.yaml",
    "bench": Path(__file__).with_name("bases") / "bench.yaml",
    "configuration": Path(__file__).with_name("bases") / "configuration.yaml",
}
REMOVED: Final = "removed"
MISSPELT: Final = "misspelt"
"""The key with a letter more, as a typing error has it."""
VALUES: Final = ("text", "", -1e9, 1e9, None, [], {})
PUTS: Final = (REMOVED, MISSPELT, *({"value": value} for value in VALUES))


@cache
def _base(name: str) -> Any:
    document = YAML(typ="safe", pure=True).load(BASES[name].read_text(encoding="utf-8"))
    if name == "profile":
        for parameter in ("v", "c"):
            # JSON has no numbers for keys.
            document["commands"]["set_v"]["parameters"][parameter]["by"].pop("n")
        document["unverified"] = ["get_x", "set_v"]
    return document


def text_of(base: str, at: list[str | int], put: Any) -> str:
    """The text of a base with one entry changed.

    Args:
        base: its name in ``BASES``.
        at: keys and indices on the way to the entry.
        put: ``removed``, ``misspelt`` or ``{"value": …}``.
    """
    document = deepcopy(SHORTENED.get(base, _whole)(_base(base), at))
    *way, last = at
    place = document
    for step in way:
        place = place[step]
    if put == REMOVED:
        del place[last]
    elif put == MISSPELT:
        place[f"{last}x"] = place.pop(last)
    else:
        place[last] = put["value"]
    return json.dumps(document, indent=0, ensure_ascii=False, default=str)


HEAD: Final = (
    "format", "profile_key", "manufacturer", "model", "instrument_class", "source", "match",
    "abort",
)  # fmt: skip


def _whole(document: Any, _at: list[str | int]) -> Any:
    return document


def _only_key(document: Any, at: list[str | int]) -> Any:
    return {at[0]: document[at[0]]}


def _profile_about(document: Any, at: list[str | int]) -> Any:
    """The profile without chapters that do not concern the change, which is read in less time."""
    chapter, commands = at[0], document["commands"]
    if chapter == "commands" and len(at) > 1:
        named = {at[1], *NAMED.get(at[1], ())}
        kept = {name: commands[name] for name in commands if name in named}
    else:
        kept = {name: commands[name] for name in NAMED.get(chapter, ("get_x",))}
        if "set_v" in kept:
            kept["set_v"] = SET_V
    return {name: document[name] for name in (*HEAD, chapter)} | {"commands": kept}


NAMED: Final[Mapping[str | int, tuple[str, ...]]] = {
    "acquisition": ("get_x", "set_v"),
    "unverified": ("get_x", "set_v"),
    "sequences": ("set_v", "get_n", "off"),
    "settings": ("set_v",),
    "set_v": ("get_x",),
}
"""The commands that a chapter, or a command, names."""
SET_V: Final = {
    "scpi": "V {v}[,{c}][,{n}]",
    "parameters": {
        "v": {"type": "float", "min": 0, "max": 30},
        "c": {"type": "enum", "options": ["A", "B"], "default": "A"},
        "n": {"type": "int", "min": 0, "max": 9, "default": 1},
    },
}
SHORTENED: Final = {"profile": _profile_about, "configuration": _only_key}


def all_of(base: str) -> Iterator[tuple[list[str | int], Any]]:
    """Every place of a base with every change of it."""
    for at in _places(_base(base), []):
        for put in PUTS:
            if not (put == MISSPELT and isinstance(at[-1], int)):
                yield at, put


def _places(node: Any, at: list[str | int]) -> Iterator[list[str | int]]:
    entries = enumerate(node) if isinstance(node, list) else None
    if isinstance(node, dict):
        entries = node.items()  # type: ignore[assignment]
    for key, inner in entries or ():
        yield [*at, key]
        yield from _places(inner, [*at, key])
