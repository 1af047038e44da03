"""MCP_TOOL_SPECS → checked specifications; each fault named with its place."""

from __future__ import annotations

from typing import Any

import pytest

from edged.errors import Invalid
from edged.sdk.failures import checked, failure_of
from edged.sdk.specs import SpecSource, WrapperSpec, read_specs
from tests.promises import promise

GOOD: dict[str, Any] = {"name": "set", "description": "Set it.", "method": "set_it"}
VOLTS: dict[str, Any] = {"volts": {"type": "float", "min": 0, "max": 30, "unit": "V"}}
TAKES = {"set_it": {"takes": ["volts", "slowly"], "needs": ["volts"]}}
SOURCE = SpecSource(stem="toy", path="/w/toy.py", line=4, lines=[5, 9], methods=TAKES)


def read(**changes: Any) -> WrapperSpec:
    spec = {**GOOD, "parameters": VOLTS, **changes}
    return read_specs([{k: v for k, v in spec.items() if v is not None}], SOURCE)[0]


def test_a_specification_becomes_a_tool_with_a_schema() -> None:
    spec = read(is_dangerous=True, timeout_s=5, returns={"type": "float", "unit": "V"})
    assert (spec.name, spec.method, spec.timeout_s) == ("set", "set_it", 5.0)
    assert spec.check.schema["properties"]["volts"]["maximum"] == 30
    assert spec.is_dangerous
    assert not spec.is_query
    assert spec.wrapper_id == "sdk:toy"


def test_what_the_function_has_a_default_for_may_be_left_out() -> None:
    spec = read(parameters={**VOLTS, "slowly": {"type": "bool"}})
    assert spec.check.schema["required"] == ["volts"]
    assert spec.check.validate({"volts": 1}) == {"volts": 1}


@promise("sdk.specs-located")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": None}, 'MCP_TOOL_SPECS[0] has no "name"'),
        ({"name": "Set Volts"}, 'must be lower case letters, digits and "_"'),
        ({"description": None}, 'toy.set has no "description"'),
        ({"description": "  "}, 'toy.set: "description" is empty'),
        ({"method": "missing"}, "missing, which is not a function of the module"),
        ({"methood": "x"}, 'has the unknown key "methood"'),
        ({"parameters": {"watts": {"type": "int"}}}, "takes no argument watts"),
        ({"parameters": None}, 'needs volts, which is not in "parameters"'),
        ({"parameters": {"volts": {"type": "flaot"}}}, 'not "flaot"'),
        ({"parameters": {"volts": {"type": "float", "min": 2, "max": 1}}}, 'is over "max"'),
        ({"parameters": {"volts": {"type": "enum"}}}, 'an enum without "options"'),
        ({"parameters": ["volts"]}, "must be a mapping"),
        ({"parameters": {**VOLTS, "lease": {"type": "string"}}}, 'may be called "lease"'),
        ({"parameters": {**VOLTS, "dry_run": {"type": "bool"}}}, 'may be called "dry_run"'),
        ({"is_safe": True, "is_dangerous": True}, "both is_safe and is_dangerous"),
        ({"is_safe": "yes"}, 'must be true or false, not "yes"'),
        ({"is_abort": True}, "must be is_safe, too"),
        ({"is_abort": True, "is_safe": True}, "needs volts; stop all gives no arguments"),
        ({"timeout_s": 0}, "is 0, outside of 0.1 to 3600"),
        ({"timeout_s": float("nan")}, "nan is not a finite number"),
        ({"returns": {"unit": "V"}}, 'toy.set.returns has no "type"'),
        ({"returns": {"type": "volts"}}, 'not "volts"'),
        ({"description": object()}, "object is not a plain value"),
    ],
)
def test_a_fault_is_told_with_file_line_and_what_it_is(changes: Any, text: str) -> None:
    with pytest.raises(Invalid) as invalid:
        read(**changes)
    assert invalid.value.message.startswith("/w/toy.py:5:1: ")
    assert text in invalid.value.message
    assert (invalid.value.data["line"], invalid.value.data["path"]) == (5, "/w/toy.py")


@pytest.mark.parametrize(
    ("specs", "line", "text"),
    [
        ({}, 4, "must be a list of dicts"),
        ("set", 4, "must be a list of dicts"),
        ([], 4, "has 0 entries"),
        ([GOOD] * 101, 4, "has 101 entries"),
        ([{**GOOD, "parameters": VOLTS}] * 2, 9, 'has the name "set" twice'),
        ([{**GOOD, "parameters": VOLTS}, 7], 9, "must be a mapping"),
    ],
)
def test_a_list_that_is_none_is_told_too(specs: object, line: int, text: str) -> None:
    with pytest.raises(Invalid, match=text) as invalid:
        read_specs(specs, SOURCE)
    assert invalid.value.data["line"] == line


def test_a_module_that_declares_no_tools_has_none() -> None:
    assert read_specs(None, SOURCE) == ()


def test_nothing_is_said_of_functions_that_could_not_be_seen() -> None:
    source = SpecSource(stem="toy", path="/w/toy.py", methods=None)
    assert read_specs([GOOD], source)[0].method == "set_it"


@pytest.mark.parametrize(
    ("returns", "value", "problem"),
    [
        ({"type": "float"}, 1, ""),
        ({"type": "float"}, None, ""),
        ({"type": "float"}, True, "it is of type bool, not float"),
        ({"type": "int"}, 1.5, "it is of type float, not int"),
        ({"type": "bool"}, False, ""),
        ({"type": "list"}, [1], ""),
        ({"type": "string"}, 5, "it is of type int, not string"),
        ({"fields": {"v": {"type": "float"}}}, {"v": 2.0, "more": 1}, ""),
        ({"fields": {"v": {"type": "float"}}}, {}, "it has no v"),
        ({"fields": {"v": {"type": "float"}}}, {"v": "x"}, "v is of type str, not float"),
        ({"fields": {"v": {"type": "float"}}}, [1], "it is of type list, not object"),
    ],
)
def test_a_result_must_be_what_returns_says(returns: Any, value: Any, problem: str) -> None:
    spec = read(returns=returns)
    if not problem:
        assert checked(spec, value) == value
        return
    with pytest.raises(Exception, match="does not match its specification") as failed:
        checked(spec, value)
    assert problem in str(failed.value)


def test_texts_of_vendors_are_cleaned_and_cut() -> None:
    error = {"kind": "error", "type": "OSError", "message": "bad\x00\x1b[31m" + "x" * 5_000}
    failed = failure_of(read(), error)
    assert "\x1b" not in failed.message
    assert len(failed.message) < 600
