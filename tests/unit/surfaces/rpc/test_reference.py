"""docs/rpc.md is made from the method table, and the table has every method."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edged.engine.idle_restart import IdleRestart
from edged.engine.surfaces import RpcParts
from edged.surfaces.rpc.methods import METHODS
from edged.surfaces.rpc.reference import METHOD_TABLE, reference
from tests.promises import promise

ROOT = Path(__file__).resolve().parents[4]


@promise("rpc.documented")
def test_the_page_is_what_the_table_says() -> None:
    page = (ROOT / "docs" / "rpc.md").read_text()
    assert page == reference(), "run make docs"


@promise("rpc.documented")
def test_every_method_that_is_served_stands_in_the_table_and_no_other() -> None:
    nothing: Any = SimpleNamespace(audit=None, told_on=None, refresh_keys=None)
    restart = IdleRestart(work=nothing, is_supervised=False, end=lambda: None, clock=nothing)
    parts = RpcParts(
        **{**dict.fromkeys(RpcParts.__dataclass_fields__, nothing), "restart": restart},
    )
    assert set(METHOD_TABLE) == {*METHODS, *parts.methods()}
