"""A tool's answer on a terminal: the result, or the error and what to do about it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from edged.cli.tables import cell, print_json
from edged.host import ExitStatus
from edged.surfaces.rpc.client import ToolAnswer

__all__ = ["show"]


def show(answer: ToolAnswer, options: argparse.Namespace, draw: Callable[[Any], None]) -> int:
    """Print an answer; FAILED where the tool did.

    Args:
        answer: what the engine said.
        options: with ``json``: the result goes out as it is, or ``{"error": …, "result": …}``.
        draw: prints the result for people.
    """
    error = answer.error
    if options.json:
        print_json(answer.result if error is None else {"error": error, "result": answer.result})
    elif answer.result is not None:
        draw(answer.result)
    if error is None:
        return ExitStatus.OK
    words = f"{cell(error.get('message'))} {cell(error.get('remedy'))}"
    print(f"edged: {words.strip()}", file=sys.stderr)
    return ExitStatus.FAILED
