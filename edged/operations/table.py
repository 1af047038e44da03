"""Every operation there is, and the static tools among them.

A new one is a row in the module of its family, and appears here by that.
"""

from __future__ import annotations

from typing import Final

from edged.actions.tool import Tool
from edged.commands.operation import Operation
from edged.operations import (
    bench,
    bench_check,
    commands,
    experiment_rows,
    history,
    leases,
    resources,
    runs,
    streams,
    sweeps,
    tool_search,
    wrappers,
)

OPERATIONS: Final[tuple[Operation, ...]] = (
    *bench.OPERATIONS,
    *bench_check.OPERATIONS,
    *tool_search.OPERATIONS,
    *history.OPERATIONS,
    *leases.OPERATIONS,
    *commands.OPERATIONS,
    *sweeps.OPERATIONS,
    *streams.OPERATIONS,
    *runs.OPERATIONS,
    *experiment_rows.OPERATIONS,
    *resources.OPERATIONS,
    *wrappers.OPERATIONS,
)


def static_tools() -> tuple[Tool, ...]:
    """The tools that are always there. They reach everything: many clients ignore list_changed.

    Made once, by the composition root.
    """
    return _tools(needs_instruments=False)


def bench_tools() -> tuple[Tool, ...]:
    """The tools of the whole bench, listed while any instrument is registered.

    They are listed with every choice of ``tools=``, beside the static ones, and can be called
    always.
    """
    return _tools(needs_instruments=True)


def _tools(*, needs_instruments: bool) -> tuple[Tool, ...]:
    return tuple(
        tool
        for row in OPERATIONS
        if row.tool is not None and row.tool.needs_instruments is needs_instruments
        for tool in row.tools()
    )
