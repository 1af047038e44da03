"""Nothing of aiohttp is touched that is private: it may change with every release."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.bench.sources import modules_with, syntax_tree

OWN = frozenset({"self", "cls"})


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def touches(source: str) -> Iterator[str]:
    """What a module that knows aiohttp touches of others' private names, and inherits of its."""
    tree = syntax_tree(source)
    names = dict(_imported(tree))
    if not names:
        return
    derived = {
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(_root(base) in names for base in node.bases)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=who), attr=attr) if who in OWN:
                continue
            case ast.Attribute(attr=attr) if is_private(attr):
                yield attr
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr"), args=[_, ast.Constant(value=v), *_]
            ):
                if is_private(str(v)):
                    yield str(v)
    # In a class of aiohttp's, what is private of `self` may be aiohttp's.
    for owner in derived:
        for node in ast.walk(owner):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                yield f"{owner.name}: {node.attr}"
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_private(node.name):
                yield f"{owner.name}: {node.name}"
    yield from (name for name in names.values() if any(map(is_private, name.split("."))))


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names by which a module knows aiohttp, and what they mean."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "aiohttp":
            yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "aiohttp":
                    yield (alias.asname or "aiohttp"), alias.name


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize("place", modules_with("aiohttp"))
def test_no_private_name_of_aiohttp_is_touched(place: str) -> None:
    assert list(touches(modules_with("aiohttp")[place])) == []


def test_the_server_is_among_what_is_looked_at() -> None:
    looked_at = {"http/connection.py", "http/application.py"}
    assert looked_at <= modules_with("aiohttp").keys()


@pytest.mark.parametrize(
    "source",
    [
        "from aiohttp import web\ndef f(request): return request.protocol._waiter",
        "from aiohttp import web\ndef f(p): return getattr(p, '_messages')",
        "from aiohttp._websocket import reader",
        "from aiohttp.web_protocol import _ErrInfo",
        "import aiohttp\nclass C(aiohttp.web.Server):\n  def f(self): return self._loop",
        "from aiohttp import web\nclass C(web.Server):\n  def _cancel(self): ...",
        "from aiohttp import web\ndef f(self): self.request._payload = 1",
    ],
)
def test_a_private_name_would_be_found(source: str) -> None:
    assert list(touches(source))


@pytest.mark.parametrize(
    "source",
    [
        "from aiohttp import web\nclass C:\n  def f(self): return self._own",
        "from aiohttp import web\nclass C(web.Server):\n  def f(self): return self.__class__",
        "def f(thing): return thing._private",
    ],
)
def test_what_is_one_s_own_may_be_private(source: str) -> None:
    assert not list(touches(source))
