"""``edged instruments``: what the engine knows, from its memory; no instrument is asked."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from edged.cli.shared.options import add_engine_options, connect
from edged.cli.shared.output import add_watch_option, print_table, show, watched

__all__ = ["print_instruments", "run"]

COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "id",
        "alias": "alias",
        "manufacturer": "manufacturer",
        "model": "model",
        "serial": "serial",
        "profile_name": "profile",
        "state": "state",
    }
)


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged instruments", description=__doc__)
    parser.add_argument(
        "filter", nargs="?", default="", help="show only those with this text in any field"
    )
    add_watch_option(parser)
    add_engine_options(parser)
    options = parser.parse_args(arguments)

    def once() -> int:
        answer = connect(options).call_tool("instruments", {"filter": options.filter})
        return show(answer, options, print_instruments)

    return watched(options, once)


def print_instruments(rows: list[dict[str, Any]]) -> None:
    """A table of instruments, or a line that says there are none."""
    if rows:
        print_table(sorted(rows, key=lambda row: (row["alias"] or "~", row["id"])), COLUMNS)
    else:
        print("no instruments")
