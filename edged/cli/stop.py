"""``edged stop``: make the whole bench safe, now. Exit status 1 where something was not confirmed.

Every sweep, stream and sequence ends, and every instrument gets its abort, before all other work on
its line. With ``--lockout`` every instrument is also locked out, so that it stays safe.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edged.cli.shared.options import add_engine_options, connect, this_user
from edged.cli.shared.output import aliased, cell, print_table, put
from edged.errors import ErrorCode
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient

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
    parser.add_argument("--lockout", action="store_true", help="also lock all of them out")
    # Neither is asked for: whoever stops a bench in a hurry must not be sent back for words.
    parser.add_argument(
        "--seen-off",
        metavar="ID",
        help=(
            "stop nothing; record that you have looked and this instrument is off, which it "
            "cannot report"
        ),
    )
    parser.add_argument("--reason", default=REASON, help=f'with --lockout: why ("{REASON}")')
    parser.add_argument("--by", default=this_user(), help="with --lockout or --seen-off: your name")
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    client = connect(options)
    if options.seen_off:
        return _seen_off(client, options)
    answer = client.call_tool("stop", timeout_s=options.timeout or TIMEOUT_S)
    if answer.error is not None and answer.error.get("code") == ErrorCode.UNKNOWN_TOOL.value:
        return _nobody_is_here(client)
    if answer.error is not None:
        print(f"edged: {cell(answer.error.get('message'))}", file=sys.stderr)
        return ExitStatus.FAILED
    told: dict[str, Any] = answer.result
    locked = _lock_out(client, told, options) if options.lockout else []
    said = {**told, "lockouts": locked} if options.lockout else told
    put(said, options, lambda _: _draw(told, locked))
    return ExitStatus.OK if told["is_confirmed"] else ExitStatus.FAILED


def _seen_off(client: RpcClient, options: argparse.Namespace) -> int:
    """A person's word in place of the instrument's."""
    told = client.call(
        "stop.seen_off",
        {"instrument_id": options.seen_off, "by": options.by or this_user()},
    )
    seen = f"{cell(told['instrument_id'])}: {', '.join(told['outputs'])} seen off"
    return put(told, options, lambda _: print(seen))


def _nobody_is_here(client: RpcClient) -> int:
    """No instrument is registered; what was told to put something out may be on all the same."""
    told = client.call_tool("status").value["told_on"]
    if not told:
        print("no instrument is registered: there is nothing to stop")
        return ExitStatus.OK
    for one in told:
        outputs = ", ".join(one["outputs"])
        print(f"{cell(one['instrument_id'])} may be on: it was told to switch on {cell(outputs)}")
    print(
        "edged: none of them is connected, so none was stopped. Look at the instruments.",
        file=sys.stderr,
    )
    return ExitStatus.FAILED


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
            "said": _said(one),
        }
        for one in (*told["instruments"], *told["wrappers"])
        if one["state"] != "not_connected"
    ]
    if rows:
        print_table(sorted(rows, key=lambda row: str(row["name"])), COLUMNS)
    else:
        print("nothing is connected that could be stopped")
    name = aliased(
        {**one, "id": one["instrument_id"]} for one in (*told["instruments"], *told["wrappers"])
    )
    for blind in told["unproved"]:
        unit, output = cell(name(blind["instrument_id"])), cell(blind["output"])
        print(f"{unit}: edged cannot check whether {output} is off.")
    for sweep in told["sweeps"]:
        print(f"{sweep['sweep_id']}: {sweep['status']} {cell(sweep['error'] or '')}".rstrip())
    if locked:
        print(f"{len(locked)} locked out; `edged lockout INSTRUMENT --clear` lifts one.")
    if not told["is_work_ended"]:
        print("Not all that ran has ended yet; it is ending.")
    if not told["is_confirmed"]:
        print("edged: not everything was confirmed. Look at the instruments.", file=sys.stderr)


def _said(one: Mapping[str, Any]) -> str:
    """What it answered, or what is the matter; and what of it is not confirmed."""
    said: str = one["error"] or ", ".join(f"{c['query']} {c['answer']}" for c in one["confirmed"])
    if one["unconfirmed"]:
        said = f"{said} (not confirmed: {', '.join(one['unconfirmed'])})".strip()
    return said
