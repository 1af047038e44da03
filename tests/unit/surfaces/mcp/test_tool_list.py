from __future__ import annotations

import json

import pytest

from edged.errors import Invalid
from edged.protocol.results import Server
from edged.protocol.revisions import REVISIONS
from edged.surfaces.mcp.seams import Choice, ToolListing
from edged.surfaces.mcp.tool_list import MAX_KEPT_LISTS, ToolList, read_choice, warning_of
from tests.bench.fake_tools import FakeTools

ALL = Choice(ToolListing.ALL)
REVISION = REVISIONS["2025-06-18"]
V11 = REVISIONS["2025-11-25"]


def tool_list(tools: FakeTools) -> ToolList:
    return ToolList(
        registry=tools,
        server=Server(name="edged", version="1", capabilities={}),
        instrument_id_of={"psu1": "USB0::1"}.get,
    )


def names(pages: tuple[bytes, ...]) -> list[str]:
    return [tool["name"] for page in pages for tool in json.loads(page)["tools"]]


@pytest.mark.parametrize(
    ("query", "choice"),
    [
        ("", ALL),
        ("tools=all", ALL),
        ("tools=essential", Choice(ToolListing.ESSENTIAL)),
        ("tools=static&x=1", Choice(ToolListing.STATIC)),
        ("instrument=psu1", Choice(ToolListing.ALL, ("psu1",))),
        ("instrument=psu1,%20dmm1,&instrument=b", Choice(ToolListing.ALL, ("psu1", "dmm1", "b"))),
        ("instrument=", ALL),
        ("instrument=USB0%3A%3A1&tools=essential", Choice(ToolListing.ESSENTIAL, ("USB0::1",))),
        ("x=%ff&&;", ALL),
    ],
)
def test_a_query_is_read(query: str, choice: Choice) -> None:
    assert read_choice(query, ALL) == choice


@pytest.mark.parametrize("query", ["tools=", "tools=some", "tools=ALL", "a=1&" * 100])
def test_a_query_that_means_nothing_is_refused(query: str) -> None:
    with pytest.raises(Invalid):
        read_choice(query, ALL)


async def test_pages_are_made_once_until_the_tools_change() -> None:
    tools = FakeTools()
    made = tool_list(tools)
    before = made.pages(REVISION, ALL)
    assert made.pages(REVISION, ALL) is before
    tools.add("new", tools.call)
    assert made.pages(REVISION, ALL) is before
    tools.change()
    assert "new" in names(made.pages(REVISION, ALL))


async def test_an_instrument_that_is_not_here_has_only_the_static_tools() -> None:
    tools = FakeTools()
    tools.add("psu__on", tools.call, instrument_id="USB0::1")
    tools.add("wrapper__scan", tools.call, is_essential=False)
    made = tool_list(tools)
    nobody = names(made.pages(REVISION, Choice(ToolListing.ALL, ("nobody",))))
    assert "echo" in nobody
    assert not [name for name in nobody if "__" in name]
    mine = names(made.pages(REVISION, Choice(ToolListing.ALL, ("psu1", "nobody"))))
    assert [name for name in mine if "__" in name] == ["psu__on"]
    static = names(made.pages(REVISION, Choice(ToolListing.STATIC)))
    assert "wrapper__scan" not in static


async def test_clients_that_ask_for_many_instruments_cannot_fill_the_memory() -> None:
    tools = FakeTools()
    made = ToolList(
        registry=tools,
        server=Server(name="edged", version="1", capabilities={}),
        instrument_id_of=lambda name: name,
    )
    for number in range(3 * MAX_KEPT_LISTS):
        made.pages(REVISION, Choice(ToolListing.ALL, (f"x{number}",)))
    assert len(made._pages) <= MAX_KEPT_LISTS


async def test_the_size_of_the_list_is_what_a_client_gets_and_many_tools_are_a_warning() -> None:
    tools = FakeTools()
    made = tool_list(tools)
    small = made.size(ALL)
    assert small.tools == len(names(made.pages(V11, ALL)))
    assert small.size_bytes == sum(len(page) for page in made.pages(V11, ALL))
    assert warning_of(small, "http://a/mcp") == ""
    for number in range(101):
        tools.add(f"psu__{number}", tools.call, instrument_id="USB0::1", is_essential=False)
    tools.change()
    assert made.size(ALL).tools == small.tools + 101
    warning = warning_of(made.size(ALL), "http://a/mcp")
    assert "cut a list at 100" in warning
    assert "http://a/mcp?tools=essential" in warning
    closed = warning_of(made.size(ALL), "")
    assert "?tools=essential" in closed
    assert "://" not in closed
    assert made.size(Choice(ToolListing.ESSENTIAL)).tools == small.tools
