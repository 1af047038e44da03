"""``edged scpi INSTRUMENT LINE``: one raw SCPI line. A query's answer is printed as it came."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from edged.actions.tool import DRY_RUN
from edged.cli.shared.approval import call_telling
from edged.cli.shared.options import add_dry_run_option, add_engine_options, connect
from edged.cli.shared.output import cell, print_dry_run, show


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged scpi", description=__doc__)
    parser.add_argument("instrument", help="id or alias, as `edged instruments` shows it")
    parser.add_argument("line", help="for example '*IDN?'")
    parser.add_argument(
        "--expect-answer",
        action="store_true",
        help="wait for an answer although the line has no ?",
    )
    add_dry_run_option(parser)
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    asked: dict[str, Any] = {"instrument_id": options.instrument, "scpi_command": options.line}
    if options.expect_answer:
        asked["expect_answer"] = True
    if options.dry_run:
        asked = {**asked, DRY_RUN: True}
    answer = call_telling(connect(options), "send_scpi", asked, timeout_s=options.timeout)
    return show(answer, options, print_dry_run if options.dry_run else _print_response)


def _print_response(result: dict[str, Any]) -> None:
    if result.get("response") is not None:
        print(cell(result["response"], limit=1_000_000))
    if result.get("warning"):
        print(cell(result["warning"], limit=1_000_000), file=sys.stderr)
