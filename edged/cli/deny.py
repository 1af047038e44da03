"""``edged deny``: refuse a call that waits for a person; ``edged approve`` lists those calls."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from edged.cli.approve import answer
from edged.cli.shared.options import add_engine_options, this_user


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged deny", description=__doc__)
    parser.add_argument("approval_id", metavar="ID", help="as `edged approve` lists it")
    parser.add_argument("--by", default=this_user(), help="your name (this user)")
    add_engine_options(parser)
    return answer("approvals.deny", parser.parse_args(arguments))
