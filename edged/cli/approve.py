"""``edged approve``: approve a call that waits for a person.

The bench file says which calls wait (``confirm``). Without an id ``edged approve`` lists them, with
the exact lines that would be sent. An approval is for these lines alone, once. No tool can approve;
``edged deny`` refuses.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from edged.cli.shared.options import add_engine_options, connect, this_user
from edged.cli.shared.output import print_fields, print_json, print_table
from edged.clock import SystemClock
from edged.host import ExitStatus

__all__ = ["answer", "run"]

COLUMNS: Final = {
    "approval_id": "id",
    "instrument": "instrument",
    "tool": "call",
    "sends": "would send",
    "who": "asked by",
    "left": "ends in",
}
MOST_SHOWN: Final = 5
"""Lines of one question in the table."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged approve", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("approval_id", metavar="ID", nargs="?", help="without it: list what waits")
    parser.add_argument("--by", default=this_user(), help="your name (this user)")
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    if options.approval_id is None:
        return _list(options)
    return answer("approvals.approve", options)


def _list(options: argparse.Namespace) -> int:
    questions = connect(options).call("approvals.list")["approvals"]
    if options.json:
        print_json(questions)
    elif questions:
        print_table([_row(question) for question in questions], COLUMNS)
    else:
        print("nothing waits for approval")
    return ExitStatus.OK


def _row(question: dict[str, Any]) -> dict[str, Any]:
    lines = [*question["lines"][:MOST_SHOWN]]
    more = len(question["lines"]) - len(lines) + question["more"]
    left_s = max(0, (question["expires_ms"] - SystemClock().wall_ms()) // 1_000)
    sends = "; ".join(lines) + (f"; and {more} more" if more > 0 else "")
    return {**question, "sends": sends, "left": f"{left_s} s"}


def answer(method: str, options: argparse.Namespace) -> int:
    """Give a person's answer; returns the exit status."""
    asked = {"approval_id": options.approval_id, "by": options.by}
    told = connect(options).call(method, asked)
    if options.json:
        print_json(told)
    else:
        names = ("verdict", "instrument", "tool", "who")
        print_fields({**{name: told[name] for name in names}, "lines": "; ".join(told["lines"])})
    return ExitStatus.OK
