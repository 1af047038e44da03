"""Who did what, from the record: for a caller who wants to know what others have changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Final

from edged.actions.action import NamedAction
from edged.actions.caller import Caller, who_of
from edged.actions.outcome import Done, OutcomeStatus
from edged.auth.permissions import Permissions
from edged.commands.operation import Operation, Rows, bind
from edged.commands.static_tool import (
    ANSWER_BYTES,
    READ,
    STRING,
    StaticTool,
    fitting,
    integer_of,
    limit_of,
    parameters_of,
    text_of,
)
from edged.commands.target import Target
from edged.errors import NotFound
from edged.record import record
from edged.runs.bench import Bench
from edged.store.audit.history import CallFilter
from edged.store.audit.row import AuditRow, Phase, clip

DEFAULT_LIMIT: Final = 50
MOST: Final = 500
DEFAULT_SINCE_S: Final = 3_600
TEXT_CHARS: Final = 400
"""Of what was sent, of an error and of parameters in a row: ``edged audit`` has all of it."""
STANDING: Final = frozenset({"instrument_id", "command_name", "sequence_name"})
"""Arguments that have a column of their own."""


@record
class History:
    """What it is run with.

    Attributes:
        plain_name: the unsuffixed name of the tool of that name; empty where there is none.
    """

    bench: Bench
    permissions: Permissions
    plain_name: Callable[[str], str]

    def table(self) -> Rows:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    async def read(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """The newest first, of those that this caller may see.

        Raises:
            Failed: STORE_FAILED, the record cannot be read.
        """
        arguments = action.arguments
        since_s = limit_of(arguments, DEFAULT_SINCE_S, "since_s")
        since_ms = self.bench.clock.wall_ms() - 1_000 * since_s
        wanted = CallFilter(
            # What is too large to be a number of seconds means all of it.
            since_ms=max(0, since_ms) if since_s >= 0 else 0,
            instrument=self._id_of(text_of(arguments, "instrument_id")),
            command=text_of(arguments, "command_name"),
            outcome=text_of(arguments, "outcome"),
            before=max(0, limit_of(arguments, 0, "before")),
        )
        limit = limit_of(arguments, DEFAULT_LIMIT)
        found = await self.bench.store.audit.calls(
            wanted, limit=limit, may_see=lambda row: self._may_see(action.caller, row)
        )
        # Who asks for more than usual gets more than usual.
        times = max(1, integer_of(arguments, "limit") // DEFAULT_LIMIT)
        told = [_row(row, met) for row, met in zip(found.rows, found.met, strict=True)]
        around = {"rows": [], "more": True, "next_before": sys.maxsize}
        rows = fitting(told, around, times * ANSWER_BYTES)
        more = found.has_more or len(rows) < len(told)
        next_before = found.next_before or None
        if len(rows) < len(told):
            next_before = found.rows[len(rows) - 1].seq
        return Done(data={"rows": rows, "more": more, "next_before": next_before})

    def _id_of(self, name: str) -> str:
        """Rows have ids. What is not here now may be in old rows, by its id."""
        try:
            return self.bench.pool.get(name).id if name else ""
        except NotFound:
            return name

    def _may_see(self, caller: Caller, row: AuditRow) -> bool:
        """Over the relay the rows of its own subject; else those of the tools it may use."""
        if caller.only_subject is not None:
            return caller.is_shown(row.route, row.subject)
        return self.permissions.allows_tool(caller, row.tool, row.scope, self.plain_name(row.tool))


def _row(row: AuditRow, met: int) -> dict[str, Any]:
    """A call; of what a run did by itself the newest, and for how many it stands at least."""
    told: dict[str, Any] = {
        "time_ms": row.time_ms,
        "who": who_of(row.client, row.remote, row.subject, route=row.route),
        "tool": row.tool,
        "instrument_id": row.instrument,
        "command": row.command,
        "parameters": _parameters(row),
        "scpi": clip(str(row.scpi), TEXT_CHARS),
        "outcome": row.outcome or Phase.INTENT.value,
        "error": clip(str(row.error), TEXT_CHARS) or None,
    }
    if row.on_behalf_of:
        told["run_id"] = row.on_behalf_of
        told["stands_for"] = met
    return told


def _parameters(row: AuditRow) -> Any:
    """Those of the command alone, as far as the row says the rest elsewhere."""
    sent = row.to_json()["parameters"]
    if not isinstance(sent, dict):
        return clip(str(sent), TEXT_CHARS)
    own = {name: value for name, value in sent.items() if name not in STANDING}
    inner = own.get("parameters")
    if len(own) == 1 and isinstance(inner, dict):
        own = inner
    text = json.dumps(own, ensure_ascii=False)
    return own if len(text) <= TEXT_CHARS else {"cut": clip(text, TEXT_CHARS)}


OPERATIONS: Final = (
    Operation(
        run=History.read,
        tool=StaticTool(
            name="bench__history",
            title="Who did what",
            description=(
                "Who did what, newest first, refusals too: 'who changed the voltage, to what'. If "
                "there is more, go on with before = next_before."
            ),
            schema=parameters_of(
                instrument_id=STRING,
                command_name=STRING,
                since_s={"type": "integer", "minimum": 0, "default": DEFAULT_SINCE_S},
                outcome={"type": "string", "enum": [status.value for status in OutcomeStatus]},
                limit={"type": "integer", "minimum": 1, "maximum": MOST, "default": DEFAULT_LIMIT},
                before={"type": "integer", "minimum": 1},
            ),
            annotations=READ,
            needs_instruments=True,
            answers_alone=True,
        ),
    ),
)
