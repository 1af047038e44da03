"""``METHODS`` of the RPC interface: the daemon's own, tools/list, tools/call, and every tool.

A method that acts on an instrument goes through the same ``ToolDispatcher`` as an MCP call, so
there is one command path, which leaves the row. The daemon's own methods leave theirs here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, Final

from edged import __version__
from edged.actions.caller import Caller
from edged.actions.elicit import CallClient
from edged.actions.outcome import Outcome
from edged.actions.tool import Tool, ToolCall
from edged.clock import Clock
from edged.commands.record import MethodRecord
from edged.errors import EdgedError, ErrorCode, Fault, NotFound
from edged.operations.table import OPERATIONS
from edged.protocol.results import ToldList
from edged.record import record
from edged.surfaces.rpc.own_methods import (
    ANYTHING,
    OWN_METHODS,
    OwnMethod,
    Params,
    RpcMethod,
    method_of,
    picture_told,
    text_parameter,
)
from edged.tools.dispatcher import ToolDispatcher


@record
class RpcContext:
    """What a method works with.

    Attributes:
        new_action_id: makes the id under which a call is recorded.
        record: where the daemon's own methods leave their rows.
        clock: for how long they took.
        own: further methods of the daemon's own, from the rooms that know.
    """

    dispatcher: ToolDispatcher
    caller: Caller
    new_action_id: Callable[[], str]
    record: MethodRecord
    clock: Clock
    own: Mapping[str, OwnMethod] = field(default_factory=dict)
    client: CallClient | None = None


Handler = Callable[[RpcContext, Params], Awaitable[Any]]
TOOL_ANSWER: Final = (
    "{is_error, result, error?: {code, message, remedy, data}, "
    "pictures?: [{mime, encoding, content}]}"
)


async def dispatch(context: RpcContext, method: str, params: Params) -> Any:
    """Run a method: one of ``METHODS``, else the tool of that name.

    Raises:
        NotFound: UNKNOWN_METHOD.
        EdgedError: what the method raised; a tool's failure is in its result instead.
    """
    began = context.clock.monotonic()

    def leave_row(error: EdgedError | None) -> None:
        context.record(
            context.caller,
            method,
            params,
            action_id=context.new_action_id(),
            error=error,
            duration_ms=(context.clock.monotonic() - began) * 1000,
        )

    failed: EdgedError | None = Fault("edged made a mistake.")
    try:
        result = await _find(context, method)(params)
        failed = None
    except EdgedError as error:
        failed = error
        raise
    except asyncio.CancelledError:
        failed = None
        raise
    finally:
        if failed is not None:
            leave_row(failed)
    served = METHODS.get(method)
    if method in context.own if served is None else served.leaves_row:
        leave_row(None)
    return result


def _find(context: RpcContext, method: str) -> OwnMethod:
    """What runs a method, after its parameters have been checked."""
    entry, served, own = METHOD_TABLE.get(method), METHODS.get(method), context.own.get(method)
    handler = None if served is None else served.run
    if handler is None and own is None:
        _look_for_tool(context, method)

    async def run(params: Params) -> Any:
        if entry is not None:
            params = entry.given(params)
            entry.check(params)
        if handler is not None:
            return await handler(context, params)
        if own is not None:
            return await own(params)
        return await _call(context, method, params)

    return run


def _look_for_tool(context: RpcContext, method: str) -> None:
    try:
        context.dispatcher.registry.find(method)
    except NotFound as unknown:
        if unknown.code is not ErrorCode.UNKNOWN_TOOL:
            raise
        names = sorted({*METHODS, *context.own})
        raise NotFound(
            f"There is no method {method[:128]!r}.",
            code=ErrorCode.UNKNOWN_METHOD,
            remedy=f"Methods: {', '.join(names)}, and every tool by its name.",
        ) from unknown


async def list_methods(context: RpcContext, _params: Params) -> Any:
    """{methods: […]}: the names of the daemon's own methods."""
    return {"methods": sorted({*METHODS, *context.own})}


async def version(_context: RpcContext, _params: Params) -> Any:
    """{version}: of the running engine."""
    return {"version": __version__}


async def list_tools(context: RpcContext, _params: Params) -> Any:
    """{tools: […]}: name, title, description, input_schema, annotations of each."""
    return {"tools": [_shown(tool) for tool in context.dispatcher.registry.tools()]}


async def call_tool(context: RpcContext, params: Params) -> Any:
    """Params {name, arguments?} → {is_error, result, error?}, as each tool's own method answers."""
    return await _call(context, params["name"], params.get("arguments", {}))


async def _call(context: RpcContext, name: str, arguments: Params) -> dict[str, Any]:
    outcome = await context.dispatcher.call(
        ToolCall(
            name=name,
            arguments=arguments,
            caller=context.caller,
            action_id=context.new_action_id(),
            client=context.client,
        )
    )
    return _answer(outcome)


def _answer(outcome: Outcome) -> dict[str, Any]:
    data = outcome.data.items() if isinstance(outcome.data, ToldList) else outcome.data
    answer: dict[str, Any] = {"is_error": outcome.error is not None, "result": data}
    if outcome.pictures:
        answer["pictures"] = [picture_told(picture) for picture in outcome.pictures]
    if outcome.error is not None:
        answer["error"] = outcome.error.to_json()
    return answer


def _shown(tool: Tool) -> dict[str, Any]:
    hints = tool.annotations
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "annotations": {
            "read_only": hints.read_only,
            "destructive": hints.destructive,
            "idempotent": hints.idempotent,
            "open_world": hints.open_world,
        },
    }


def _short_form(name: str, tool_name: str) -> RpcMethod:
    async def handler(context: RpcContext, params: Params) -> Any:
        return await _call(context, tool_name, params)

    sentence = f"The tool {tool_name}."
    return RpcMethod(name, sentence, TOOL_ANSWER, ANYTHING, handler, leaves_row=False)


METHODS: Final[Mapping[str, RpcMethod]] = MappingProxyType(
    {
        row.name: row
        for row in (
            method_of("version", version, "Says which edged runs.", "{version}"),
            method_of("methods", list_methods, "Names the daemon's own methods.", "{methods}"),
            method_of(
                "tools/list", list_tools, "Lists the tools with their input schemas.", "{tools}"
            ),
            replace(
                method_of(
                    "tools/call",
                    call_tool,
                    "Calls a tool. Each tool is also a method by its own name.",
                    TOOL_ANSWER,
                    "name",
                    name=text_parameter("the tool"),
                    arguments=ANYTHING,
                ),
                leaves_row=False,
            ),
            *(
                _short_form(row.short_name, row.tool.name)
                for row in OPERATIONS
                if row.tool is not None and row.short_name
            ),
        )
    }
)
"""Those that are served here, with the short names of tools."""
METHOD_TABLE: Final[Mapping[str, RpcMethod]] = MappingProxyType(
    {**METHODS, **{row.name: row for row in OWN_METHODS}}
)
