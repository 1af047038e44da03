"""Python sources as tests read them."""

from __future__ import annotations

import ast
import gc

__all__ = ["syntax_tree"]


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
