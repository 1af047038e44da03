"""One tool for every specification of every SDK wrapper that could be loaded.

Source: SPEC.md sections 5 and 10.
"""

from __future__ import annotations

from edged.actions.action import Action, CallWrapper, Check
from edged.profiles.naming import wrapper_tool_name
from edged.sdk.executor import WrapperExecutor
from edged.sdk.specs import WrapperSpec
from edged.tools.commanding import annotations_of, cautions, fits_json, title_of
from edged.tools.tool import MakeAction, Tool, ToolCall

__all__ = ["wrapper_tools"]


def wrapper_tools(executor: WrapperExecutor) -> tuple[Tool, ...]:
    """The tools of one wrapper, in its own order."""
    return tuple(_tool(spec) for spec in executor.specs)


def _tool(spec: WrapperSpec) -> Tool:
    name = wrapper_tool_name(spec.wrapper, spec.name)
    return Tool(
        name=name,
        plain_name=name,
        title=title_of(spec.name),
        description=_description(spec),
        input_schema=spec.check.schema,
        annotations=annotations_of(is_query=spec.is_query, is_dangerous=spec.is_dangerous),
        check=fits_json,
        make=_make(spec.wrapper, spec.name, name),
        instrument_id=spec.wrapper_id,
        is_essential=spec.is_essential,
    )


def _description(spec: WrapperSpec) -> str:
    unit = spec.returns.unit if spec.returns is not None else ""
    told = cautions(is_dangerous=spec.is_dangerous, is_safe=spec.is_safe, unit=unit)
    return " ".join([spec.description, *told, f"[SDK wrapper {spec.wrapper}]"])


def _make(wrapper: str, spec_name: str, plain_tool: str) -> MakeAction:
    def make(call: ToolCall, check: Check) -> Action:
        return CallWrapper(
            tool=call.name,
            plain_tool=plain_tool,
            caller=call.caller,
            action_id=call.action_id,
            arguments=call.arguments,
            check=check,
            wrapper=wrapper,
            spec_name=spec_name,
            parameters=call.arguments,
        )

    return make
