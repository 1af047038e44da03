"""A call of a tool that may wait for a person's approval: which one, and how to answer, is told.

The engine answers such a call only when somebody has said yes or no, or its time is over. So the
verb looks, after a moment, at what waits for approval, and says it once on standard error.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from edged.cli.shared.output import cell
from edged.errors import EdgedError
from edged.surfaces.rpc.client import RpcClient, ToolAnswer

LOOKS_AFTER_S: Final = (1.0, 3.0, 10.0)
"""A question is asked before anything is sent, and each look is a row of the record."""
LOOK_WITHIN_S: Final = 2.0


def call_telling(
    client: RpcClient, method: str, params: Mapping[str, Any], *, timeout_s: float | None
) -> ToolAnswer:
    """``client.call_tool``; where it waits for a person, standard error says so."""
    with _looking(client):
        return client.call_tool(method, params, timeout_s=timeout_s)


@contextlib.contextmanager
def _looking(client: RpcClient) -> Iterator[None]:
    """Looks from a thread of its own, for the call keeps this one."""
    is_over = threading.Event()
    thread = threading.Thread(target=_look, args=(client, is_over), name="approval", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _look(client: RpcClient, is_over: threading.Event) -> None:
    waited_s = 0.0
    for after_s in LOOKS_AFTER_S:
        if is_over.wait(after_s - waited_s):
            return
        waited_s = after_s
        question = _question_of(client)
        if question is not None and not is_over.is_set():
            _tell(question)
            return


def _question_of(client: RpcClient) -> Mapping[str, Any] | None:
    """The newest question of this program: those who asked before have been told theirs."""
    try:
        asked = client.call("approvals.list", timeout_s=LOOK_WITHIN_S)["approvals"]
    except EdgedError:
        return None
    own = [one for one in asked if one["who"].startswith(f"{client.program} at ")]
    return own[-1] if own else None


def _tell(question: Mapping[str, Any]) -> None:
    name = cell(question["approval_id"])
    by_verb = f"edged approve {name}"
    answered = by_verb if "cli" in question["ways"] else "on the bench page: edged open --full"
    what = f"{cell(question['tool'])} on {cell(question['instrument'])}"
    line = f"edged: {what} waits for approval {name} ({answered})"
    print(line, file=sys.stderr, flush=True)
