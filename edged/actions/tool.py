"""One tool: what it is called, what it takes, and the action that a call of it means.

A tool judges nothing: ``action`` puts the name, the scope and the raw arguments, together with the
tool's compiled schema, into an ``Action``; the command path does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from edged.actions.action import Action, Check, ProgressSink
from edged.actions.caller import Caller
from edged.actions.elicit import CallClient
from edged.record import record

DRY_RUN: Final = "dry_run"
"""The argument by which a call asks what it would send; no parameter may have this name."""
LEASE: Final = "lease"
"""The argument by which a call presents a lease; no parameter may have this name, either."""


@record
class ToolAnnotations:
    """MCP's four hints, always all given: absent ones default to the worst on the client's side."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool


@record(frozen=False)
class ToolCall:
    """One call of a tool, from whichever surface. Not frozen: made for every call."""

    name: str
    arguments: Mapping[str, Any]
    caller: Caller
    action_id: str
    progress: ProgressSink | None = None
    client: CallClient | None = None

    def asked(self, check: Check) -> dict[str, Any]:
        """What any action that is made of this call begins with."""
        return {
            "tool": self.name,
            "caller": self.caller,
            "action_id": self.action_id,
            "arguments": self.arguments,
            "check": check,
            "progress": self.progress,
            "client": self.client,
        }


MakeAction = Callable[[ToolCall, Check], Action]


@record
class Tool:
    """What tools/list shows of a tool, and what a call of it does.

    Attributes:
        title: for people; empty where the name says as much.
        check: the compiled ``input_schema``; the command path applies it after authorizing.
        wrap_key: the key under which a list result is wrapped in an object; else empty.
        instrument_id: the instrument a dynamic tool drives, else empty.
        is_essential: one of the few that a small list shows.
        answers_alone: of the whole bench, and callable unlisted while nothing is registered.
        cancels_on_disconnect: a client that goes away ends this call.
        takes_dry_run: ``dry_run`` among its arguments asks for a rehearsal; listed or not.
    """

    name: str
    title: str = ""
    description: str
    input_schema: Mapping[str, Any]
    annotations: ToolAnnotations
    check: Check
    make: MakeAction
    output_schema: Mapping[str, Any] | None = None
    wrap_key: str = ""
    instrument_id: str = ""
    plain_name: str = ""
    is_essential: bool = False
    cancels_on_disconnect: bool = False
    answers_alone: bool = False
    takes_dry_run: bool = False

    def action(self, call: ToolCall) -> Action:
        """What this call of the tool asks for; nothing is judged yet."""
        return self.make(call, self.check)
