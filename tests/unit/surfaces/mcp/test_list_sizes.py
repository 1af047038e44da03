"""How much a model has to read before its first call."""

from __future__ import annotations

import json

import pytest

from edged.commands.target import Catalog
from edged.operations.table import bench_tools, static_tools
from edged.protocol.results import Server
from edged.protocol.revisions import REVISIONS, Revision
from edged.surfaces.mcp.seams import Choice, ToolListing
from edged.surfaces.mcp.tool_list import ToolList
from edged.tools.registry import ToolRegistry
from tests.bench.fake_instruments import FakeInstrument, FakePool
from tests.bench.shipped import shipped_library
from tests.promises import promise

MODELS = (
    "keithley_2450", "keithley_dmm6500", "keysight_34461a", "keysight_e36312a", "keysight_e4980a",
    "lakeshore_335", "rigol_dg1022z", "rigol_dl3021", "rigol_dp832", "rigol_ds1054z", "rs_nge103b",
    "srs_sr830",
)  # fmt: skip
KB = 1024


@promise("mcp.small-lists")
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=list(REVISIONS))
@pytest.mark.parametrize(
    ("listing", "most"), [(ToolListing.STATIC, 23 * KB), (ToolListing.ESSENTIAL, 67 * KB)]
)
def test_the_lists_of_a_bench_of_twelve_instruments_are_small(
    revision: Revision, listing: ToolListing, most: int
) -> None:
    profiles = shipped_library().profiles
    units = [
        FakeInstrument(
            id=f"TCPIP::10.0.0.{n}::5025::SOCKET",
            profile=profiles[key],
            alias=f"u{n}",
            serial="DP8B26AM00234",
        )
        for n, key in enumerate(MODELS)
    ]
    registry = ToolRegistry(
        static=static_tools(),
        bench=bench_tools(),
        pool=FakePool(*units),  # type: ignore[arg-type]
        catalog=Catalog(),
    )
    made = ToolList(
        registry=registry,
        server=Server(name="edged", version="1", capabilities={}),
        instrument_id_of=lambda _: None,
    )
    pages = made.pages(revision, Choice(listing))
    tools = [tool for page in pages for tool in json.loads(page)["tools"]]
    size = len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())
    assert size <= most
    assert sum(1 for tool in tools if tool["name"].startswith("bench__")) == len(bench_tools())
