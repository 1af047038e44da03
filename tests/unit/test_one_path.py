"""By construction: nobody but the command path talks to an instrument."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.promises import promise

ROOT = Path(__file__).resolve().parents[2] / "edged"
MAY_CONVERSE = ("commands", "instruments")


def callers_of(name: str) -> set[str]:
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == name:
                found.add(path.relative_to(ROOT).parts[0])
    return found


@promise("audit.row-of-every-attempt")
def test_only_the_command_path_holds_conversations_with_instruments() -> None:
    assert callers_of("converse") == set(MAY_CONVERSE)


@promise("audit.row-of-every-attempt")
def test_only_the_command_path_reaches_an_executor() -> None:
    assert callers_of("_executors") == {"commands"}
