"""One tool for every specification of every SDK wrapper that could be loaded.

Source: SPEC.md sections 5 and 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edged.actions.action import Action, CallWrapper, Check
from edged.errors import Invalid
from edged.profiles.naming import wrapper_tool_name
from edged.sdk.executor import WrapperExecutor
from edged.sdk.specs import WrapperSpec
from edged.tools.tool import MakeAction, Tool, ToolAnnotations, ToolCall

__all__ = ["wrapper_tools"]


def wrapper_tools(executor: WrapperExecutor) -> tuple[Tool, ...]:
    """The tools of one wrapper, in its own order."""
    return tuple(_tool(spec) for spec in executor.specs)


def _tool(spec: WrapperSpec) -> Tool:
    name = wrapper_tool_name(spec.wrapper, spec.name)
    is_plain_read = spec.is_query and not spec.is_dangerous
    return Tool(
        name=name,
        plain_name=name,
        title=spec.name.replace("_", " ").capitalize(),
        description=_description(spec),
        input_schema=spec.check.schema,
        annotations=ToolAnnotations(
            read_only=is_plain_read,
            destructive=spec.is_dangerous,
            idempotent=is_plain_read,
            open_world=True,
        ),
        check=_fits_json,
        make=_make(spec.wrapper, spec.name, name),
        instrument_id=spec.wrapper_id,
        is_essential=spec.is_essential,
    )


def _description(spec: WrapperSpec) -> str:
    parts = [spec.description]
    if spec.is_dangerous:
        parts.append("Dangerous: it can put energy on the terminals or harm what is connected.")
    if spec.is_safe:
        parts.append("Safe: it is never refused.")
    if spec.returns is not None and spec.returns.unit:
        parts.append(f"Answers in {spec.returns.unit}.")
    parts.append(f"[SDK wrapper {spec.wrapper}]")
    return " ".join(parts)


def _fits_json(arguments: Mapping[str, Any]) -> None:
    """The tool's own schema is the specification's; the path checks that one."""
    if not isinstance(arguments, Mapping):
        raise Invalid("The arguments of a tool are an object.")


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
