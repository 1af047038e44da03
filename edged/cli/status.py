"""``edged status``: how the running engine is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from edged.cli.shared.options import add_engine_options, connect
from edged.cli.shared.output import add_watch_option, print_fields, show, watched

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
