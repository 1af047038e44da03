"""Every promise has a test, and every mark a promise: read from the sources, not from a run."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from tests.bench.sources import syntax_tree
from tests.promises import PROMISES

TESTS = Path(__file__).parent


def _marked(path: Path) -> Iterator[str]:
    for node in ast.walk(syntax_tree(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            if (
                isinstance(decorator, ast.Call)
                and ast.unparse(decorator.func).split(".")[-1] == "promise"
                and decorator.args
                and isinstance(decorator.args[0], ast.Constant)
            ):
                yield str(decorator.args[0].value)


@functools.cache
def _all_marked() -> frozenset[str]:
    return frozenset(name for path in TESTS.rglob("test_*.py") for name in _marked(path))


def test_every_promise_has_a_test() -> None:
    assert sorted(set(PROMISES) - _all_marked()) == []


def test_every_mark_names_a_promise() -> None:
    assert sorted(_all_marked() - set(PROMISES)) == []
