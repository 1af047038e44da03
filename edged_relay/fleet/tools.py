"""The five tools of the fleet, as they are listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from edged.actions.action import Action, Check
from edged.actions.tool import Tool, ToolAnnotations, ToolCall
from edged.errors import ErrorCode, NotFound
from edged.profiles.arguments import compile_given, compile_schema

LIST: Final = "fleet__list_edges"
FIND: Final = "fleet__find_instrument"
HISTORY: Final = "fleet__history"
STOP: Final = "fleet__stop_everywhere"
CALL: Final = "fleet__call"

INSTRUCTIONS: Final = (
    "These are many benches, each behind an edge. fleet__find_instrument says where an instrument "
    "is and whether it is free; fleet__list_edges lists the edges; fleet__call runs a tool of one "
    "edge: begin there with list_instruments and get_capabilities. fleet__stop_everywhere makes "
    "all of them safe: only is_confirmed true means that a bench is."
)

READ: Final = ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)
STOPS: Final = ToolAnnotations(
    read_only=False, destructive=False, idempotent=True, open_world=False
)
WORK: Final = ToolAnnotations(read_only=False, destructive=True, idempotent=False, open_world=True)

STRING: Final[dict[str, Any]] = {"type": "string", "maxLength": 200}
ROWS: Final[dict[str, Any]] = {"type": "array"}
EDGES: Final[dict[str, Any]] = {
    "type": "array",
    "items": {"type": "string", "maxLength": 64},
    "maxItems": 1_000,
    "description": "Only these; else all that this caller may see.",
}


MODEL: Final = {**STRING, "description": "Part of manufacturer and model, such as 'DP832'."}
CLASS: Final = {**STRING, "description": "Such as power_supply."}


def _limit(most: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default}


def _schema(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return {**schema, "required": list(required)} if required else schema


def _told(*members: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """An output schema that names every member; what edges say in a row of theirs is their own."""
    return {"type": "object", "properties": {name: {} for name in (*members, "error")} | properties}


def _only_asking(call: ToolCall, check: Check) -> Action:
    return Action(**call.asked(check))


def _tool(
    name: str,
    title: str,
    description: str,
    schema: dict[str, Any],
    output: dict[str, Any],
    annotations: ToolAnnotations,
    *,
    cancels_on_disconnect: bool = False,
) -> Tool:
    return Tool(
        name=name,
        title=title,
        description=description,
        input_schema=schema,
        output_schema=output,
        annotations=annotations,
        check=compile_schema(name, schema),
        make=_only_asking,
        is_essential=True,
        cancels_on_disconnect=cancels_on_disconnect,
    )


TOOLS: Final = (
    _tool(
        LIST,
        "List edges",
        "List the benches: here or away, when last heard, version, units with their state, what "
        "runs, lockouts, page. If more is true, go on with after = the last edge_id.",
        _schema(
            state={"type": "string", "enum": ["here", "away"]},
            after={"type": "string", "maxLength": 64},
            limit=_limit(1_000, 50),
        ),
        _told("more", edges=ROWS),
        READ,
    ),
    _tool(
        FIND,
        "Find an instrument",
        "Find instruments on all benches, free ones first. Free: it answers, its edge is here, no "
        "lease, no lockout, nothing runs on it. Free now is no promise: reserve it with "
        "fleet__call bench__reserve.",
        _schema(
            **{"model": MODEL, "class": CLASS},
            free={"type": "boolean", "description": "Only those that are, or are not."},
            limit=_limit(500, 50),
        ),
        _told("more", instruments=ROWS),
        READ,
    ),
    _tool(
        HISTORY,
        "Who did what",
        "Who did what on these benches, newest first: bench__history of each edge that is here. "
        "edges says which of them answered, and which have more.",
        _schema(
            edge_ids=EDGES,
            instrument_id=STRING,
            command_name=STRING,
            since_s={"type": "integer", "minimum": 0, "default": 3_600},
            outcome=STRING,
            limit=_limit(500, 50),
        ),
        _told("more", rows=ROWS, edges=ROWS),
        READ,
    ),
    _tool(
        STOP,
        "Make every bench safe",
        "Run bench__stop_all at every edge of this caller at once, and answer within 3 s: "
        "is_confirmed for each edge, and true for all only if each has said that it is safe. "
        "Who did not answer is not confirmed. It does not replace an emergency switch.",
        _schema(),
        _told("is_confirmed", "is_every_edge_known", "took_ms", edges=ROWS),
        STOPS,
    ),
    _tool(
        CALL,
        "Call a tool of an edge",
        "Call a tool of one edge, as at its own endpoint; it needs an entry of its own in "
        "tools_allow there.",
        _schema(
            "edge_id",
            "tool",
            edge_id={"type": "string", "maxLength": 64},
            tool=STRING,
            arguments={"type": "object", "description": "Of that tool, by name."},
        ),
        _told("edge_id", "tool", "is_error", "result"),
        WORK,
        # The edge is told, and judges by its own rule what that ends, as at its own endpoint.
        cancels_on_disconnect=True,
    ),
)


class FleetTools:
    """These tools, which never change; ``ToolSource``."""

    generation = 0

    def __init__(self) -> None:
        self._tools = {tool.name: tool for tool in TOOLS}
        self._given = {tool.name: compile_given(tool.input_schema) for tool in TOOLS}

    def find(self, name: str) -> Tool:
        found = self._tools.get(name)
        if found is None:
            raise NotFound(
                f"There is no tool {name[:80]!r} here; there are {', '.join(self._tools)}.",
                code=ErrorCode.UNKNOWN_TOOL,
                remedy=f"Tools of an edge are called by {CALL}.",
            )
        return found

    def arguments_of(self, call: ToolCall) -> Mapping[str, Any]:
        """What a call gives, judged; an optional argument that is null was not given.

        Raises:
            NotFound, Invalid: there is no such tool, or it cannot be meant so.
        """
        tool = self.find(call.name)
        arguments = self._given[tool.name](call.arguments)
        tool.check(arguments)
        return arguments

    def tools(self) -> tuple[Tool, ...]:
        return TOOLS

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        del callback
        return lambda: None
