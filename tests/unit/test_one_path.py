"""By construction: nobody but the command path talks to an instrument."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from tests.bench.sources import syntax_tree
from tests.promises import promise

ROOT = Path(__file__).resolve().parents[2] / "edged"
MAY_CONVERSE = ("commands", "discovery", "instruments", "operations")


@functools.cache
def attributes() -> frozenset[tuple[str, str]]:
    """(folder, name) of every attribute that the product's code touches."""
    return frozenset(
        (path.relative_to(ROOT).parts[0], node.attr)
        for path in ROOT.rglob("*.py")
        for node in ast.walk(syntax_tree(path.read_text()))
        if isinstance(node, ast.Attribute)
    )


def callers_of(name: str) -> set[str]:
    return {folder for folder, attribute in attributes() if attribute == name}


@promise("audit.row-of-every-attempt")
def test_only_the_command_path_holds_conversations_with_instruments() -> None:
    assert callers_of("converse") == set(MAY_CONVERSE)


@promise("audit.row-of-every-attempt")
def test_only_the_command_path_runs_an_operation() -> None:
    assert callers_of("_operations") == {"commands"}


@promise("audit.row-of-every-attempt")
def test_only_the_command_path_runs_tools_of_wrappers() -> None:
    assert callers_of("run_tool") == {"operations"}


@promise("audit.row-of-every-attempt")
def test_besides_the_engine_only_the_talks_of_probe_and_drafts_open_a_line() -> None:
    opened = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(syntax_tree(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"open_link", "_open_link"}
    }
    assert opened == {"discovery/loop.py", "discovery/wire_talk.py"}
