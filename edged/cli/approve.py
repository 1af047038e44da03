"""``edged approve``: approve a call that waits for a person.

The bench file says which calls wait (``confirm``). Without an id ``edged approve`` lists them with
all that they would send: every line, or the smallest and largest value of each argument where there
are many. ``edged approve show ID`` prints every line. An approval is for these lines alone, once.
No tool can approve; ``edged deny`` refuses.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edged.cli.shared.options import add_engine_options, connect, this_user
from edged.cli.shared.output import print_fields, print_json, print_lines, put
from edged.clock import SystemClock
from edged.host import ExitStatus

SHOW: Final = "show"
MOST_OF_A_LINE: Final = 10_000
"""More than the engine puts into a line: a person who approves must see all of it."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged approve", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "approval_id",
        metavar="ID",
        nargs="?",
        help="without it: list what waits; show ID: print every line that ID would send",
    )
    parser.add_argument("shown_id", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--by", default=this_user(), help="your name (this user)")
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    if (options.approval_id == SHOW) != (options.shown_id is not None):
        parser.error("give one ID, or: show ID")
    if options.shown_id is not None:
        return _show(options)
    if options.approval_id is None:
        return _list(options)
    return _answer("approvals.approve", options)


def _list(options: argparse.Namespace) -> int:
    questions = connect(options).call("approvals.list")["approvals"]
    if options.json:
        print_json(questions)
    elif questions:
        for number, question in enumerate(questions):
            if number:
                print()
            _print_question(question)
    else:
        print("nothing waits for approval")
    return ExitStatus.OK


def _print_question(question: dict[str, Any]) -> None:
    left_s = max(0, (question["expires_ms"] - SystemClock().wall_ms()) // 1_000)
    remark = f"; {question['remark']}" if question["remark"] else ""
    ways = " or ".join(question["ways"])
    print_lines(question["text"].split("\n"), limit=MOST_OF_A_LINE)
    print_lines([f"It waits for {left_s} s more, for an answer by {ways}{remark}."])


def _show(options: argparse.Namespace) -> int:
    client, offset = connect(options), 0
    found: list[str] = []
    while True:
        asked = {"approval_id": options.shown_id, "offset": offset}
        told = client.call("approvals.show", asked)
        found += told["lines"]
        offset = told.get("next_offset", 0)
        if not offset:
            break

    def draw(_shown: object) -> None:
        print_lines(found, limit=MOST_OF_A_LINE)
        print_lines([f"{told['line_count']} lines, digest {told['digest']}"])

    return put({**told, "lines": found}, options, draw)


def deny(arguments: Sequence[str]) -> int:
    """Run ``edged deny``; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged deny",
        description="``edged deny``: refuse a call that waits for a person; ``edged approve`` "
        "lists those calls.",
    )
    parser.add_argument("approval_id", metavar="ID", help="as `edged approve` lists it")
    parser.add_argument("--by", default=this_user(), help="your name (this user)")
    add_engine_options(parser)
    return _answer("approvals.deny", parser.parse_args(arguments))


def _answer(method: str, options: argparse.Namespace) -> int:
    """Give a person's answer; returns the exit status."""
    asked = {"approval_id": options.approval_id, "by": options.by}

    def draw(told: Mapping[str, Any]) -> None:
        names = ("verdict", "instrument", "tool", "who", "digest")
        print_fields({**{name: told[name] for name in names}, "lines": told["line_count"]})

    return put(connect(options).call(method, asked), options, draw)
