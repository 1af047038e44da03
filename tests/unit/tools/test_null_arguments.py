"""Null for an optional argument is the same as leaving it out, on every tool and method."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from edged.actions.caller import Caller, Route
from edged.actions.tool import Tool, ToolCall
from edged.errors import Invalid
from edged.operations.table import bench_tools, static_tools
from edged.surfaces.rpc.methods import METHOD_TABLE
from edged.surfaces.rpc.own_methods import RpcMethod
from tests.promises import promise

TOOLS = {tool.name: tool for tool in (*static_tools(), *bench_tools())}
SAMPLES: dict[str, Any] = {
    "string": "x", "number": 1, "integer": 1, "boolean": True, "object": {}, "array": [],
}  # fmt: skip


def sample(schema: dict[str, Any]) -> Any:
    """A value that an argument's schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"]
    return SAMPLES[kind if isinstance(kind, str) else kind[0]]


def required_of(schema: Any) -> dict[str, Any]:
    return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}


def optional_of(schema: Any) -> list[str]:
    return [name for name in schema["properties"] if name not in schema.get("required", ())]


def action_of(tool: Tool, arguments: dict[str, Any]) -> Any:
    call = ToolCall(
        name=tool.name, arguments=arguments, caller=Caller(route=Route.DIRECT), action_id="a"
    )
    action = tool.action(call)
    action.check(action.arguments)
    return action


@promise("arguments.null-is-left-out")
@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_tools_optional_arguments_may_be_null(tool: Tool) -> None:
    given = required_of(tool.input_schema)
    nulls = dict.fromkeys(optional_of(tool.input_schema))
    assert action_of(tool, {**given, **nulls}) == action_of(tool, given)


def test_an_unknown_argument_is_told_with_dry_run_and_lease_where_the_tool_takes_them() -> None:
    given = {"instrument_id": "psu1", "command_name": "m", "colour": "red"}
    with pytest.raises(Invalid) as refused:
        action_of(TOOLS["execute_command"], given)
    assert "dry_run, lease." in refused.value.remedy
    assert refused.value.data["options"][-2:] == ["dry_run", "lease"]
    with pytest.raises(Invalid) as refused:
        action_of(TOOLS["list_profiles"], {"colour": "red"})
    assert refused.value.remedy == "Nothing was sent. It takes none."
    assert "lease" in TOOLS["execute_command"].input_schema["properties"]


@promise("arguments.null-is-left-out")
@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_required_argument_that_is_null_is_refused_and_says_so(tool: Tool) -> None:
    given = required_of(tool.input_schema)
    for name in given:
        with pytest.raises(Invalid) as refused:
            action_of(tool, {**given, name: None})
        assert refused.value.message.startswith(f"{name} is null, and {tool.name} needs it: ")
        assert refused.value.data["parameter"] == name


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_required_argument_that_is_left_out_is_refused_and_says_what_it_would_be(
    tool: Tool,
) -> None:
    given = required_of(tool.input_schema)
    for name in given:
        with pytest.raises(Invalid) as refused:
            action_of(tool, {key: value for key, value in given.items() if key != name})
        assert refused.value.message.startswith(f"{tool.name} needs {name}: ")
        assert refused.value.data["parameter"] == name


def test_an_argument_that_nobody_knows_is_refused_though_it_is_null() -> None:
    with pytest.raises(Invalid) as refused:
        action_of(TOOLS["get_status"], {"colour": None})
    assert "has no parameter colour" in refused.value.message


@promise("arguments.null-is-left-out")
def test_what_is_null_inside_a_list_of_wishes_was_left_out_too() -> None:
    tool = TOOLS["start_sweep"]
    (inner,) = [tool.input_schema["properties"]["measure"]["items"]]
    given = {**required_of(tool.input_schema), "measure": [required_of(inner)]}
    nulls = {**given, "measure": [{**required_of(inner), **dict.fromkeys(optional_of(inner))}]}
    assert action_of(tool, nulls) == action_of(tool, given)


@promise("arguments.null-is-left-out")
@pytest.mark.parametrize(
    "method",
    [m for m in METHOD_TABLE.values() if "properties" in m.schema],
    ids=[n for n, m in METHOD_TABLE.items() if "properties" in m.schema],
)
def test_every_rpc_methods_optional_parameters_may_be_null(method: RpcMethod) -> None:
    given = required_of(method.schema)
    params = method.given({**given, **dict.fromkeys(optional_of(method.schema))})
    method.check(params)
    assert params == given
    for name in given:
        with pytest.raises(Invalid, match=f"{name} is null"):
            method.check(method.given({**given, name: None}))


def test_arguments_without_null_are_handed_on_as_they_are() -> None:
    tool = TOOLS["execute_command"]
    arguments = {"instrument_id": "a", "command_name": "b", "parameters": {"x": None}}
    action = action_of(tool, arguments)
    assert action.arguments is arguments
    assert dataclasses.asdict(action)["parameters"] == {"x": None}
