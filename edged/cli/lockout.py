"""``edged lockout``: refuse writes to an instrument while somebody works on it.

Without an address it lists what is locked out. What runs on the instrument is stopped first; reads
and safe commands still work. Only this program lifts a lockout; no tool can.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

from edged.cli.shared.options import add_engine_options, connect, this_user
from edged.cli.shared.output import print_fields, put, put_rows, told_since
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient

COLUMNS: Final = {"instrument": "instrument", "by": "by", "reason": "reason", "since": "since"}
STOP_TIMEOUT_S: Final = 60.0


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged lockout", description=__doc__)
    parser.add_argument("instrument", nargs="?", help="id, alias, serial number or address")
    parser.add_argument("--reason", help="the reason; shown to everybody who is refused")
    parser.add_argument("--by", default=this_user(), help="your name (this user)")
    parser.add_argument("--clear", action="store_true", help="lift it")
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    if options.instrument is None:
        if options.reason or options.clear:
            parser.error("name the instrument")
        return _list(connect(options), options)
    if options.clear == bool(options.reason):
        parser.error("give --reason, or --clear")
    client = connect(options)
    if options.clear:
        lifted = client.call("lockout.clear", {"instrument_id": options.instrument})
        return _lifted(lifted, options)
    return _set(client, options)


def _set(client: RpcClient, options: argparse.Namespace) -> int:
    told = client.call(
        "lockout.set",
        {"instrument_id": options.instrument, "reason": options.reason, "by": options.by},
        timeout_s=STOP_TIMEOUT_S,
    )
    *others, last = told["instrument_ids"]
    names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    _print(told, f"{names} locked out.", options)
    if not told["is_present"]:
        print(
            (
                "edged: nothing answers at that address now; the lockout holds for whatever "
                "answers there later."
            ),
            file=sys.stderr,
        )
    for failure in told["failures"]:
        print(f"edged: not everything that runs on it could be stopped: {failure}", file=sys.stderr)
    if not told["is_persisted"]:
        print(f"edged: it will be lost when the engine ends: {told['remark']}", file=sys.stderr)
    return ExitStatus.FAILED if told["failures"] else ExitStatus.OK


def _lifted(told: dict[str, Any], options: argparse.Namespace) -> int:
    _print(told, f"The lockout of {told['instrument_id']} is lifted.", options)
    for lock in told["still_locked"]:
        print(
            f"edged: it is still locked out by {lock['by']}, with {lock['instrument_id']}, which "
            f"has the same serial number: {lock['reason']}",
            file=sys.stderr,
        )
    return ExitStatus.OK


def _list(client: RpcClient, options: argparse.Namespace) -> int:
    lockouts = client.call("lockout.list")["lockouts"]
    return put_rows(client, options, lockouts, COLUMNS, told_since, "nothing is locked out")


def _print(told: dict[str, Any], sentence: str, options: argparse.Namespace) -> None:
    def draw(told: dict[str, Any]) -> None:
        print(sentence)
        if stopped := told.get("stopped"):
            print_fields({"stopped": stopped})

    put(told, options, draw)
