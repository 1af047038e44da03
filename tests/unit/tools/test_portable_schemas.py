"""What tools list as their input, in the words that every client and model API knows.

Sources of the refusals: tests name none; docs/users-pains.md has the public reports.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from edged.commands.target import Catalog
from edged.errors import Invalid
from edged.operations.table import bench_tools, static_tools
from edged.profiles.model import Parameter, ParameterType
from edged.profiles.parameter_schema import parameters_schema
from edged.sdk.specs import SpecSource, read_specs
from edged.tools.registry import ToolRegistry
from edged_relay.fleet.tools import TOOLS as FLEET_TOOLS
from tests.bench.fake_instruments import FakeInstrument, FakePool
from tests.bench.shipped import shipped_library
from tests.promises import promise

WRAPPERS = Path(__file__).resolve().parents[3] / "sdk_wrappers"
KEYWORDS = {
    "type", "properties", "required", "items", "enum", "minimum", "maximum", "default",
    "description", "maxLength", "maxItems", "additionalProperties",
}  # fmt: skip
TYPES = {"object", "array", "string", "number", "integer", "boolean"}
EXACT = 2**53
"""Beyond this a JSON number is another one for most clients."""


def outside(schema: Mapping[str, Any], place: str) -> Iterator[str]:
    """What in a schema some clients refuse."""
    if not schema.keys() <= KEYWORDS:
        yield f"{place}: {sorted(schema.keys() - KEYWORDS)}"
    if schema.get("type") not in TYPES:
        yield f"{place}: type {schema.get('type')}"
    for choice in schema.get("enum", ()):
        if choice == "" or isinstance(choice, bool) or not isinstance(choice, str | int):
            yield f"{place}: enum with {choice!r}"
    if schema.get("additionalProperties", False) is not False:
        yield f"{place}: additionalProperties"
    if schema.get("type") == "array" and "items" not in schema:
        yield f"{place}: a list without items"
    for bound in ("minimum", "maximum"):
        if isinstance(schema.get(bound), int) and abs(schema[bound]) > EXACT:
            yield f"{place}: {bound} {schema[bound]}"
    for name, member in schema.get("properties", {}).items():
        yield from outside(member, f"{place}.{name}")
    if "items" in schema:
        yield from outside(schema["items"], f"{place}[]")


def shipped_wrappers() -> Iterator[tuple[str, Any]]:
    for path in sorted(WRAPPERS.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"shipped_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield path.stem, getattr(module, "MCP_TOOL_SPECS", None)


@promise("schemas.portable")
def test_every_listed_input_schema_is_in_the_portable_subset() -> None:
    units = [
        FakeInstrument(id=f"TCPIP::10.0.0.{n}::5025::SOCKET", profile=profile)
        for n, profile in enumerate(shipped_library().profiles.values())
    ]
    registry = ToolRegistry(
        static=static_tools(),
        bench=bench_tools(),
        pool=FakePool(*units),  # type: ignore[arg-type]
        catalog=Catalog(),
    )
    tools = registry.tools()
    assert len(tools) > 2_000
    found = [
        complaint
        for tool in (*tools, *FLEET_TOOLS)
        for complaint in outside(tool.input_schema, tool.name)
    ]
    assert found == []


@promise("schemas.portable")
def test_the_schemas_of_the_shipped_wrappers_are_in_it_too() -> None:
    found = []
    for stem, specs in shipped_wrappers():
        for spec in read_specs(specs, SpecSource(stem=stem, path=f"{stem}.py")):
            found += outside(spec.check.schema, f"{stem}.{spec.name}")
    assert found == []


@promise("schemas.portable")
@pytest.mark.parametrize(
    ("parameter", "named"),
    [
        ({"type": ["float", "int"]}, "must be one value, not a list"),
        ({"type": "float", "exclusiveMinimum": 0}, "exclusiveMinimum"),
        ({"type": "string", "pattern": "a+"}, "pattern"),
        ({"type": "int", "const": 3}, "const"),
        ({"anyOf": [{"type": "int"}]}, "anyOf"),
        ({"$ref": "#/x"}, "$ref"),
        ({"type": "enum", "options": ["", "a"]}, "empty option"),
        ({"type": "enum", "map": {"": 1, "a": 2}}, "label that is empty"),
        ({"type": "enum", "options": {"const": 1}}, "must be a list"),
    ],
)
def test_a_wrapper_that_would_need_more_is_refused_with_file_and_line(
    parameter: dict[str, Any], named: str
) -> None:
    specs = [{"name": "t", "description": "d", "method": "t", "parameters": {"m": parameter}}]
    with pytest.raises(Invalid) as refused:
        read_specs(specs, SpecSource(stem="w", path="w.py"))
    assert named in refused.value.message
    assert "w.py:1" in refused.value.message


@pytest.mark.parametrize("type_", [ParameterType.FLOAT, ParameterType.INT])
def test_a_bound_that_no_whole_number_of_json_can_hold_stays_a_decimal(
    type_: ParameterType,
) -> None:
    parameter = Parameter(name="r", type=type_, min=-1e300, max=1e300)
    schema = parameters_schema({"r": parameter})
    assert list(outside(schema, "")) == []
    assert schema["properties"]["r"]["maximum"] == 1e300
