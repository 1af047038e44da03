"""By construction: nobody but the command path talks to an instrument."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.bench.sources import modules_with, syntax_tree
from tests.promises import promise

MAY_CONVERSE = ("commands", "discovery", "instruments", "operations")


def nodes_of_files_with(word: str) -> Iterator[tuple[Path, ast.AST]]:
    """Every node of those of the product's files that have a word in them, with its file."""
    for place, text in modules_with(word).items():
        for node in ast.walk(syntax_tree(text)):
            yield Path(place), node


def callers_of(name: str) -> set[str]:
    """The folders that touch an attribute of that name."""
    return {
        path.parts[0]
        for path, node in nodes_of_files_with(name)
        if isinstance(node, ast.Attribute) and node.attr == name
    }


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
        path.as_posix()
        for path, node in nodes_of_files_with("open_link")
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"open_link", "_open_link"}
    }
    assert opened == {"discovery/loop.py", "edged_author/wire_talk.py"}
