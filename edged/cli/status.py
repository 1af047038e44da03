"""``edged status``: how the running engine is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from edged.cli.answers import show
from edged.cli.options import add_engine_options, connect
from edged.cli.tables import print_fields
from edged.cli.watch import add_watch_option, watched

__all__ = ["run"]


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged status", description=__doc__)
    add_watch_option(parser)
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    return watched(
        options, lambda: show(connect(options).call_tool("status"), options, print_fields)
    )
