"""``--watch``: the same again every few seconds, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from typing import Final

from edged.cli.quantities import seconds
from edged.errors import EdgedError
from edged.host import ExitStatus

__all__ = ["add_watch_option", "watched"]

EVERY_S: Final = 2.0
SHORTEST_S: Final = 0.1
CLEAR: Final = "\x1b[2J\x1b[H"


def add_watch_option(parser: argparse.ArgumentParser) -> None:
    """``--watch [SECONDS]``."""
    parser.add_argument(
        "--watch",
        nargs="?",
        type=seconds,
        const=EVERY_S,
        metavar="SECONDS",
        help=f"show it again every so many seconds ({EVERY_S:g}), until Ctrl-C",
    )


def watched(options: argparse.Namespace, show: Callable[[], int]) -> int:
    """Show once, or again and again; an engine that is away is waited for."""
    if options.watch is None:
        return show()
    pause = threading.Event()
    try:
        while True:
            if sys.stdout.isatty():
                print(CLEAR, end="")
            try:
                show()
            except EdgedError as error:
                print(f"edged: {error}", file=sys.stderr)
            sys.stdout.flush()
            pause.wait(max(SHORTEST_S, options.watch))
    except KeyboardInterrupt:
        return ExitStatus.OK
