"""``edged stop``: make the whole bench safe, now. Exit status 1 where something was not confirmed.

Every sweep, stream and sequence ends, and every instrument gets its abort, ahead of whatever is on
its line. With ``--lockout`` every instrument is locked out besides, so that it stays so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edged.cli.options import add_engine_options, connect, this_user
from edged.cli.tables import cell, print_json, print_table
from edged.errors import ErrorCode
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient

__all__ = ["run"]

COLUMNS: Final = {
    "name": "instrument",
    "state": "state",
    "taken_after_ms": "taken after ms",
    "confirmed_after_ms": "confirmed after ms",
    "said": "said",
}
TIMEOUT_S: Final = 30.0
REASON: Final = "everything was stopped"


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged stop", description=__doc__)
    parser.add_argument("--lockout", action="store_true", help="keep it so: lock all of them out")
    # Neither is asked for: whoever stops a bench in a hurry must not be sent back for words.
    parser.add_argument("--reason", default=REASON, help=f'with --lockout: why ("{REASON}")')
    parser.add_argument("--by", default=this_user(), help="with --lockout: who says so (this user)")
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    client = connect(options)
    answer = client.call_tool("stop", timeout_s=options.timeout or TIMEOUT_S)
    if answer.error is not None and answer.error.get("code") == ErrorCode.UNKNOWN_TOOL.value:
        print("no instrument is registered: there is nothing to stop")
        return ExitStatus.OK
    if answer.error is not None:
        print(f"edged: {cell(answer.error.get('message'))}", file=sys.stderr)
        return ExitStatus.FAILED
    told: dict[str, Any] = answer.result
    locked = _lock_out(client, told, options) if options.lockout else []
    if options.json:
        print_json({**told, "lockouts": locked} if options.lockout else told)
    else:
        _draw(told, locked)
    return ExitStatus.OK if told["is_confirmed"] else ExitStatus.FAILED


def _lock_out(
    client: RpcClient, told: Mapping[str, Any], options: argparse.Namespace
) -> list[dict[str, Any]]:
    return [
        client.call(
            "lockout.set",
            {
                "instrument_id": i["instrument_id"],
                "reason": options.reason or REASON,
                "by": options.by or this_user(),
            },
        )
        for i in (*told["instruments"], *told["wrappers"])
    ]


def _draw(told: Mapping[str, Any], locked: Sequence[object]) -> None:
    rows = [
        {
            **one,
            "name": one["alias"] or one["instrument_id"],
            "said": one["error"]
            or ", ".join(f"{c['query']} {c['answer']}" for c in one["confirmed"]),
        }
        for one in (*told["instruments"], *told["wrappers"])
        if one["state"] != "not_connected"
    ]
    if rows:
        print_table(rows, COLUMNS)
    else:
        print("nothing is connected that could be stopped")
    for sweep in told["sweeps"]:
        print(f"{sweep['sweep_id']}: {sweep['status']} {cell(sweep['error'] or '')}".rstrip())
    if locked:
        print(f"{len(locked)} locked out; `edged lockout --clear` lifts it.")
    if not told["is_confirmed"]:
        print("edged: not everything was confirmed. Look at the instruments.", file=sys.stderr)
