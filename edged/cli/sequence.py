"""``edged sequence start | list | stop``: run one of a profile's sequences, and get its table.

A sequence that is not detached ends with this program: on Ctrl-C the daemon interrupts it and runs
the steps that leave the instrument safe. With ``--detach`` it goes on without this program;
``edged runs show ID`` has its data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edged.actions.tool import DRY_RUN
from edged.cli.shared import output
from edged.cli.shared.approval import call_telling
from edged.cli.shared.options import (
    add_dry_run_option,
    add_engine_options,
    connect,
    read_parameters,
)
from edged.errors import Invalid
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient

COLUMNS: Final = {
    "run_id": "run",
    "instrument": "instrument",
    "sequence_name": "sequence",
    "steps_executed": "steps",
    "since": "since",
}
STOP_TIMEOUT_S: Final = 15.0


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status. A sequence may take as long as it does."""
    parser = argparse.ArgumentParser(prog="edged sequence", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start", help="run it: edged sequence start INSTRUMENT SEQUENCE …")
    start.add_argument("instrument", help="its id or alias")
    start.add_argument("sequence", help="a sequence of its profile")
    start.add_argument("words", nargs="*", metavar="key=value", help="the sequence's parameters")
    start.add_argument(
        "--detach", action="store_true", help="return at once; it continues in the engine"
    )
    add_dry_run_option(start)
    listing = verbs.add_parser("list", help="the sequences that run")
    stop = verbs.add_parser("stop", help="end one: its last steps make the instrument safe")
    stop.add_argument("run_id")
    for verb in (start, listing, stop):
        add_engine_options(verb)
    options = parser.parse_args(arguments)
    client = connect(options)
    match options.verb:
        case "start":
            return _start(client, options)
        case "list":
            return output.show_under_way(client, options, "sequences", COLUMNS)
        case _:
            wanted = {"run_id": options.run_id}
            answer = client.call_tool("bench__stop_run", wanted, timeout_s=STOP_TIMEOUT_S)
            return output.show(answer, options, output.print_fields)


def _start(client: RpcClient, options: argparse.Namespace) -> int:
    try:
        parameters = read_parameters(
            client, options.instrument, options.sequence, options.words, of="sequences"
        )
    except Invalid as error:
        print(f"edged: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    wishes = {
        "instrument_id": options.instrument,
        "sequence_name": options.sequence,
        "parameters": parameters,
        "detach": options.detach,
    }
    if options.dry_run:
        wishes[DRY_RUN] = True
    answer = call_telling(client, "execute_sequence", wishes, timeout_s=options.timeout)
    return output.show(answer, options, output.print_dry_run if options.dry_run else _print_end)


def _print_end(told: Mapping[str, Any]) -> None:
    """Its table, its values, what is to be said of them, and where it was recorded."""
    result = dict(told.get("result") or {})
    rows = result.pop("rows", [])
    if rows:
        output.print_table(rows, {name: name for name in rows[0]})
        print()
    recording = told.get("recording") or {}
    fields = {name: told[name] for name in ("run_id", "status", "steps_executed") if name in told}
    if recording:
        fields["recorded"] = recording.get("path") or recording.get("error")
    fields |= result
    if told.get("notes"):
        fields["note"] = " ".join(told["notes"])
    if told.get("left"):
        fields["left set"] = told["left"]
    output.print_fields(fields)
