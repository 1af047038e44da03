"""Profile and bench files: read, and parsed into a tree; what is wrong becomes a complaint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from edged.profiles.complaints import complaint
from edged.yaml.file import read_text
from edged.yaml.problem import YamlProblem
from edged.yaml.tree import Mark, Node

__all__ = ["MAX_BYTES", "parse_yaml", "read_file"]

MAX_BYTES: Final = 1024 * 1024
"""A rich profile has 20 kB."""
MAX_DEPTH: Final = 32
MAX_NODES: Final = 50_000
"""Nodes with aliases written out; a rich profile has 2,000."""


def read_file(path: Path) -> str:
    """The text of a file of at most ``MAX_BYTES``; a byte order mark is taken off.

    Raises:
        Invalid: missing, unreadable, a symlink loop, not a regular file, too large, not UTF-8.
    """
    with _as_complaint():
        return read_text(path, MAX_BYTES)


def parse_yaml(text: str, path: str) -> Node:
    """The tree of the one document in ``text``.

    Raises:
        Invalid: not YAML 1.2 as it is read here, over a bound, or nothing at all.
    """
    # Whoever finds all profiles in the cache needs no YAML parser to start.
    from edged.yaml.source import Bounds, parse_document

    bounds = Bounds(max_depth=MAX_DEPTH, max_nodes=MAX_NODES, has_aliases=True)
    with _as_complaint():
        root = parse_document(text, path, bounds)
    if root is None:
        raise complaint(Mark(path=path, line=1, column=1), "The file is empty.")
    return root


@contextmanager
def _as_complaint() -> Iterator[None]:
    try:
        yield
    except YamlProblem as problem:
        raise complaint(problem.mark, problem.sentence, problem.remedy) from None
