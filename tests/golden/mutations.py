"""Whole inputs, broken in one place: what a mistake at each key is answered with.

``text_of`` makes the text of one mutation: JSON with an entry in each line, which is YAML, so that
places in complaints mean something.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    return YAML(typ="safe", pure=True).load(BASES[name].read_text(encoding="utf-8"))


def text_of(base: str, at: list[str | int], put: Any) -> str:
    """The text of a base with one entry changed.

    Args:
        base: its name in ``BASES``.
        at: keys and indices on the way to the entry.
        put: ``removed``, ``misspelt`` or ``{"value": …}``.
    """
    document = deepcopy(_base(base))
    if base == "profile":
        document = _shortened(document, at)
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
)  # fmt: skip
NAMED_BY_OTHERS: Final = ("set_v", "get_x", "get_n", "off")
"""Commands that sequences, settings, sweeps and the head of the base name."""


def _shortened(document: Any, at: list[str | int]) -> Any:
    """The profile without chapters that do not concern the change, which is read in less time."""
    chapter, *inner = at
    commands = document["commands"]
    for name in ("v", "c"):
        # JSON has no numbers for keys.
        commands["set_v"]["parameters"][name]["by"].pop("n")
    if chapter == "commands":
        kept = {"get_x": commands["get_x"]}
        kept |= {inner[0]: commands[inner[0]]} if inner else {}
        return {name: document[name] for name in HEAD} | {"commands": kept}
    if chapter in ("sequences", "settings"):
        kept = {name: commands[name] for name in NAMED_BY_OTHERS}
        names = (*HEAD, chapter)
        return {name: document[name] for name in names} | {"commands": kept}
    document["commands"] = {"get_x": commands["get_x"], "set_v": {"scpi": "V 1"}}
    document["unverified"] = ["get_x", "set_v"]
    del document["sequences"], document["settings"]
    return document


def all_of(base: str) -> Iterator[tuple[list[str | int], Any]]:
    """Every place of a base with every change of it."""
    for at in _base_places(base):
        for put in PUTS:
            if not (put == MISSPELT and isinstance(at[-1], int)):
                yield at, put


def _base_places(base: str) -> Iterator[list[str | int]]:
    for at in _places(_base(base), []):
        if not ("by" in at[:-1] and at[at.index("by") + 1] == "n"):
            yield at


def _places(node: Any, at: list[str | int]) -> Iterator[list[str | int]]:
    entries = enumerate(node) if isinstance(node, list) else None
    if isinstance(node, dict):
        entries = node.items()  # type: ignore[assignment]
    for key, inner in entries or ():
        yield [*at, key]
        yield from _places(inner, [*at, key])
