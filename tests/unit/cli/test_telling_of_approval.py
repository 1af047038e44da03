"""What a verb says while its call waits for a person."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from edged.cli.shared import approval
from edged.surfaces.rpc.client import EngineFile, RpcClient, ToolAnswer

NOWHERE = EngineFile(path=Path("engine.json"), pid=1, rpc_port=1, mcp_port=None, facts={})
QUESTION = {
    "approval_id": "ask-1",
    "instrument": "psu1",
    "tool": "execute_command output_on",
    "who": "edged call at 127.0.0.1",
    "ways": ["cli", "page"],
}


class _Client(RpcClient):
    """Its call ends when every look has been made."""

    def __init__(self, questions: list[dict[str, Any]]) -> None:
        super().__init__(NOWHERE, token=None, program="edged call")
        self.questions = questions
        self.looks_left = len(approval.LOOKS_AFTER_S)
        self.has_looked = threading.Event()

    def call(self, method: str, params: Any = None, *, timeout_s: float | None = 0.0) -> Any:
        assert method == "approvals.list"
        self.looks_left -= 1
        if not self.looks_left:
            self.has_looked.set()
        return {"approvals": self.questions}

    def call_tool(
        self, method: str, params: Any = None, *, timeout_s: float | None = 0.0
    ) -> ToolAnswer:
        assert self.has_looked.wait(10)
        return ToolAnswer(result={}, error=None)


def test_nothing_is_said_where_only_calls_of_others_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(approval, "LOOKS_AFTER_S", (0.0, 0.01))
    client = _Client([{**QUESTION, "who": "claude-code 2 at 127.0.0.1"}])
    approval.call_telling(client, "tools/call", {}, timeout_s=None)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("ways", "answered"),
    [(["cli", "page"], "edged approve ask-1"), (["page"], "on the bench page: edged open --full")],
)
def test_what_waits_is_said_with_a_way_that_the_owner_allows(
    ways: list[str], answered: str, capsys: pytest.CaptureFixture[str]
) -> None:
    approval._tell({**QUESTION, "ways": ways})
    said = f"edged: execute_command output_on on psu1 waits for approval ask-1 ({answered})\n"
    assert capsys.readouterr() == ("", said)
