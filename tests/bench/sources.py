"""Python sources as tests read them."""

from __future__ import annotations

import ast
import gc
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("edged", "edged_author", "edged_relay", "edged_sim")
"""The daemon, and what its entry points find."""


def place_of(path: Path) -> str:
    """Where a file of the product is: in ``edged``, or in the repository."""
    return path.relative_to(REPOSITORY).as_posix().removeprefix("edged/")


def modules_with(word: str = "") -> dict[str, str]:
    """The source of each module of the product that has a word in it, by its place."""
    paths = [path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")]
    texts = ((path, path.read_text(encoding="utf-8")) for path in paths)
    return {place_of(path): text for path, text in texts if word in text}


def syntax_tree(source: str) -> ast.Module:
    """``ast.parse`` without the garbage collector.

    What that tells of (a coroutine that was never awaited) has pytest parse a source, too, and
    Python 3.11's ``ast`` cannot be entered twice: "AST constructor recursion depth mismatch".
    """
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()
