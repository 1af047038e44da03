"""What a caller over MCP is told names tools: it cannot reach the machine's own command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from edged.cli.main import VERBS
from tests.bench.sources import syntax_tree
from tests.promises import promise

ROOT = Path(__file__).resolve().parents[2] / "edged"
TOLD_OVER_MCP = (
    "actions", "auth", "commands", "discovery", "instruments", "operations", "plot", "profiles",
    "protocol", "runs", "scpi", "sdk", "store", "surfaces/mcp", "tools", "transports", "engine",
)  # fmt: skip
OWNERS_ALONE = (
    # The owner's verbs, by RPC: lockouts, the check of the record, writing profiles, restarts.
    "commands/lockout.py",
    "store/audit/verify.py",
    "profiles/authoring",
    "engine/idle_restart.py",
    "engine/sim_child.py",
    "engine/bench_page.py",
    # A report goes to people: by the command line, the owner's RPC and the page.
    "runs/report",
)
PROGRAM = re.compile(rf"\bedged (?:{'|'.join(sorted(VERBS))})\b")


def told(tree: ast.AST) -> Iterator[str]:
    """Every text of a module but its documentation."""
    documentation = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and node not in documentation:
            yield node.value


@promise("mcp.names-tools")
def test_no_text_that_is_told_over_mcp_names_a_program() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for folder in TOLD_OVER_MCP
        for path in (ROOT / folder).rglob("*.py")
        if not str(path.relative_to(ROOT)).startswith(OWNERS_ALONE)
        for text in told(syntax_tree(path.read_text(encoding="utf-8")))
        if PROGRAM.search(text)
    ]
    assert found == []
