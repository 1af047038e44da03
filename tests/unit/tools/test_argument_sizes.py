"""Every tool and method judges how large an argument is before it reads what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import pytest

from edged.actions.action import Check
from edged.errors import ErrorCode, Invalid
from edged.operations.table import bench_tools, static_tools
from edged.profiles.arguments import (
    MAX_CHARACTERS,
    MAX_CHARACTERS_IN_ALL,
    MAX_ITEMS,
    Given,
    compile_given,
    compile_parameters,
    compile_schema,
)
from edged.profiles.model import Parameter, ParameterType
from edged.surfaces.rpc.methods import METHOD_TABLE
from edged_relay.fleet.tools import TOOLS
from tests.promises import promise

MANY = 700_000
LONGEST_SENTENCE = 400


def _read(*_: object) -> NoReturn:
    raise AssertionError("what is too large was read")


class ManyItems(list[Any]):
    """A list that may be counted, and not read."""

    __iter__ = __getitem__ = __contains__ = __repr__ = __reversed__ = _read
    index = count = copy = _read

    def __len__(self) -> int:
        return MANY


class ManyMembers(dict[str, Any]):
    """The same, of an object."""

    __iter__ = __getitem__ = __contains__ = __repr__ = get = items = keys = values = _read

    def __len__(self) -> int:
        return MANY


class LongText(str):
    """The same, of a text, whose beginning may be shown."""

    __slots__ = ()
    __iter__ = __contains__ = __repr__ = lower = strip = split = _read

    def __getitem__(self, key: object) -> str:
        return "x" * 60 if key == slice(60) else _read()

    def __len__(self) -> int:
        return MANY


LARGE = {"array": ManyItems(), "object": ManyMembers(), "string": LongText()}
CHECKED: dict[str, tuple[Mapping[str, Any], Check, Given]] = {
    **{t.name: (t.input_schema, t.check, compile_given(t.input_schema)) for t in static_tools()},
    **{t.name: (t.input_schema, t.check, compile_given(t.input_schema)) for t in bench_tools()},
    **{
        f"rpc {name}": (method.schema, method.check, method.given)
        for name, method in METHOD_TABLE.items()
        if method.schema.get("properties")
    },
    **{
        f"fleet {t.name}": (
            t.input_schema,
            compile_schema(t.name, dict(t.input_schema)),
            compile_given(t.input_schema),
        )
        for t in TOOLS
    },
}


def _places(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What may hold a value in arguments, and such arguments around a value."""
    for name, inner in schema.get("properties", {}).items():
        yield name, lambda value, name=name: {name: value}
        for place, around in _places(inner):
            yield f"{name}.{place}", lambda value, n=name, a=around: {n: a(value)}
        items = inner.get("items")
        if items is not None:
            yield f"{name}[0]", lambda value, name=name: {name: [value]}
            for place, around in _places(items):
                yield f"{name}[0].{place}", lambda value, n=name, a=around: {n: [a(value)]}


@promise("mcp.bounded-bodies")
@pytest.mark.parametrize("name", CHECKED)
def test_what_is_too_large_is_refused_unread(name: str) -> None:
    schema, check, given = CHECKED[name]
    places = {
        **dict(_places(schema)),
        "unknown": lambda value: {"unknown": value},
        "deep": lambda value: {"unknown": [{"a": [value]}]},
    }
    for place, around in places.items():
        for kind, value in LARGE.items():
            with pytest.raises(Invalid) as refused:
                check(given(around(value)))

            assert refused.value.code is ErrorCode.BAD_ARGUMENTS, (place, kind)
            assert len(str(refused.value)) <= LONGEST_SENTENCE, (place, kind)
            assert "limit" in refused.value.message, (place, kind)


@promise("mcp.bounded-bodies")
@pytest.mark.parametrize("name", CHECKED)
def test_too_many_arguments_are_refused_unread(name: str) -> None:
    _, check, given = CHECKED[name]

    with pytest.raises(Invalid, match=r"the limit is 1000 members\.") as refused:
        check(given(ManyMembers()))

    assert refused.value.data["maxProperties"] == MAX_ITEMS


@promise("mcp.bounded-bodies")
@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_a_parameter_of_a_command_that_is_too_large_is_refused_unread(value: object) -> None:
    parameters = {
        kind.value: Parameter(name=kind.value, type=kind, options=("a",)) for kind in ParameterType
    }
    check = compile_parameters("p.c", parameters, optional=frozenset(parameters))

    for name in (*parameters, "unknown"):
        with pytest.raises(Invalid):
            check.validate({name: value})


@promise("mcp.bounded-bodies")
def test_texts_that_are_too_long_together_are_refused_and_not_repeated() -> None:
    check = compile_schema("t", {"type": "object", "properties": {"a": {"type": "string"}}})
    texts = ["\0" * MAX_CHARACTERS] * (MAX_CHARACTERS_IN_ALL // MAX_CHARACTERS - 1)

    with pytest.raises(Invalid, match="is not a string") as refused:
        check({"a": texts})
    assert len(str(refused.value)) <= LONGEST_SENTENCE

    with pytest.raises(Invalid, match="together the limit is 262144 characters"):
        check({"a": [*texts, texts[0]]})
    with pytest.raises(Invalid, match="together the limit is 262144 characters"):
        check({"a": 1, "b" * MAX_CHARACTERS_IN_ALL: 1})


@promise("mcp.bounded-bodies")
def test_of_a_thousand_wrong_items_a_hundred_are_looked_at() -> None:
    looked_at = []

    class Item(str):
        __slots__ = ()

        def __len__(self) -> int:
            looked_at.append(self)
            return super().__len__()

    schema = {"type": "array", "items": {"type": "string", "minLength": 2}}
    check = compile_schema("t", {"type": "object", "properties": {"a": schema}})
    items = [Item("b") for _ in range(MAX_ITEMS)]

    with pytest.raises(Invalid, match=r"a\[0\] is too short for t: the limit is 2 characters\."):
        check({"a": items})

    for_size = 2 * MAX_ITEMS
    assert len(looked_at) - for_size <= 400


def test_what_is_as_large_as_it_may_be_is_accepted() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "array"}, "c": {"type": "object"}},
    }
    arguments = {
        "a": "x" * MAX_CHARACTERS,
        "b": [1] * MAX_ITEMS,
        "c": {str(number): "" for number in range(MAX_ITEMS)},
    }
    compile_schema("t", schema)(arguments)
    json.dumps(arguments)
