"""docs/rpc.md is made from the method table, and the table has every method."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edged.engine.idle_restart import IdleRestart
from edged.engine.surfaces import rpc_methods
from edged.surfaces.rpc.methods import METHOD_TABLE, METHODS
from edged.surfaces.rpc.reference import reference
from tests.bench.context import bench_of
from tests.promises import promise

ROOT = Path(__file__).resolve().parents[4]


@promise("rpc.documented")
def test_the_page_is_what_the_table_says() -> None:
    page = (ROOT / "docs" / "rpc.md").read_text()
    assert page == reference(), "run make docs"


@promise("rpc.documented")
def test_every_method_that_is_served_stands_in_the_table_and_no_other() -> None:
    nothing: Any = SimpleNamespace(refresh_keys=None)
    restart = IdleRestart(nothing, work=nothing, calls=int, is_supervised=False, end=lambda: None)
    work: Any = SimpleNamespace(runs=None, artist=None, reports=None, streams=None, waveforms=None)
    bench = bench_of(nothing, store={"audit": None, "told_on": None})
    own = rpc_methods(bench, work, nothing, nothing, nothing, nothing, restart, nothing)
    assert set(METHOD_TABLE) == {*METHODS, *own}
