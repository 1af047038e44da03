"""``edged scan``: search every bus and address now, and list what is new."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from edged.cli.instruments import print_instruments
from edged.cli.shared.options import add_engine_options, connect
from edged.cli.shared.output import show

# A scan of every bus with silent devices on it.
SCAN_TIMEOUT_S: Final = 120.0


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged scan", description=__doc__)
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    timeout_s = options.timeout or SCAN_TIMEOUT_S
    return show(connect(options).call_tool("scan", timeout_s=timeout_s), options, _print_new)


def _print_new(rows: list[dict[str, Any]]) -> None:
    if rows:
        print_instruments(rows)
    else:
        print("nothing new")
