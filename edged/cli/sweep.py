"""``edged sweep start | status | stop``: ramp a set-point, and watch it.

The sweep runs in the daemon and goes on when this program is killed. Ctrl-C ends it and leaves the
output at its present value; ``edged sweep stop ID`` makes it safe.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from edged.actions.tool import DRY_RUN
from edged.cli.shared import output
from edged.cli.shared.approval import call_telling
from edged.cli.shared.options import (
    add_dry_run_option,
    add_engine_options,
    connect,
    finite,
    number,
    positive,
    read_parameters,
)
from edged.errors import Invalid
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient

COLUMNS: Final = {
    "sweep_id": "sweep",
    "status": "status",
    "instrument": "instrument",
    "command_name": "command",
    "set_value": "set",
    "current_value": "now",
    "target_value": "target",
    "since": "since",
}
SHOWN: Final = (
    "sweep_id",
    "status",
    "start_value",
    "set_value",
    "current_value",
    "target_value",
    "unit",
    "elapsed_s",
    "rows",
)
LOOK_EVERY_S: Final = 0.2
STOP_TIMEOUT_S: Final = 15.0
GOOD: Final = frozenset({"completed", "holding", "running"})
AS_ASKED: Final = ("target reached", "stop_when")
"""How the reason of one begins that was stopped because its caller wanted it so."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged sweep", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start", help="ramp: edged sweep start INSTRUMENT COMMAND TARGET RATE")
    _add_start_options(start)
    status = verbs.add_parser("status", help="the state of a sweep; without ID: all running ones")
    status.add_argument("sweep_id", nargs="?", default="")
    status.add_argument(
        "--points", type=int, default=0, metavar="N", help="at most this many rows (0)"
    )
    stop = verbs.add_parser("stop", help="make it safe, or leave its output as it is with --hold")
    stop.add_argument("sweep_id")
    stop.add_argument("--hold", action="store_true", help="leave the output where it is")
    for verb in (start, status, stop):
        add_engine_options(verb)
    options = parser.parse_args(arguments)
    client = connect(options)
    match options.verb:
        case "start":
            return _start(client, options)
        case "status":
            return _status(client, options)
        case _:
            wanted = {"sweep_id": options.sweep_id, "hold": options.hold}
            answer = client.call_tool("stop_sweep", wanted, timeout_s=STOP_TIMEOUT_S)
            return output.show(answer, options, _print_stopped)


def line_of(told: Mapping[str, Any]) -> str:
    """One line for where a sweep stands."""
    unit = output.cell(told["unit"])
    late = f"; {output.cell(told['why_late'])}" if told["why_late"] else ""
    return (
        f"{told['sweep_id']}  {told['status']}  {_number(told['set_value'])} of "
        f"{_number(told['target_value'])} {unit}  (reads {_number(told['current_value'])}{late})"
    )


def _add_start_options(start: argparse.ArgumentParser) -> None:
    start.add_argument("instrument", help="its id or alias")
    start.add_argument("command", help="a command of its profile that can be swept")
    start.add_argument("target", type=finite, help="the value to ramp to")
    start.add_argument("rate", type=finite, help="units per second")
    start.add_argument("words", nargs="*", metavar="key=value", help="the command's parameters")
    start.add_argument(
        "--measure",
        nargs="+",
        action="append",
        default=[],
        metavar=("INSTRUMENT COMMAND", "key=value"),
        help="read this at each step; may be repeated",
    )
    start.add_argument(
        "--settle",
        type=finite,
        default=0,
        metavar="MS",
        help="how long to wait before reading (0)",
    )
    start.add_argument(
        "--stop-when",
        nargs=4,
        metavar=("COLUMN", "OP", "VALUE", "THEN"),
        help="such as: --stop-when measure_current '>' 0.5 hold (or abort)",
    )
    start.add_argument(
        "--points",
        type=positive,
        metavar="N",
        help="read only at this many set-points, not at each step",
    )
    start.add_argument(
        "--spacing", choices=("linear", "log"), help="how these set-points are spaced (linear)"
    )
    start.add_argument(
        "--dwell",
        type=finite,
        default=0,
        metavar="MS",
        help="how long to stay at each of them (0)",
    )
    start.add_argument(
        "--then",
        choices=("hold", "abort"),
        help="at the target: stay there, or make it safe (hold)",
    )
    start.add_argument(
        "--detach", action="store_true", help="return at once; it continues in the engine"
    )
    add_dry_run_option(start)


def _start(client: RpcClient, options: argparse.Namespace) -> int:
    try:
        wishes = _wishes(client, options)
    except Invalid as error:
        print(f"edged: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    answer = call_telling(client, "start_sweep", wishes, timeout_s=options.timeout)
    if options.dry_run:
        return output.show(answer, options, output.print_dry_run)
    if options.detach or answer.error is not None:
        return output.show(answer, options, output.print_fields)
    end = _watch(client, answer.result["sweep_id"], is_quiet=options.json)
    output.put(end, options, _print_end)
    is_as_asked = end["status"] in GOOD or str(end["reason"] or "").startswith(AS_ASKED)
    return ExitStatus.OK if is_as_asked else ExitStatus.FAILED


def _wishes(client: RpcClient, options: argparse.Namespace) -> dict[str, Any]:
    wishes: dict[str, Any] = {
        "instrument_id": options.instrument,
        "command_name": options.command,
        "target_value": options.target,
        "sweep_rate": options.rate,
        "parameters": read_parameters(client, options.instrument, options.command, options.words),
        "settle_ms": options.settle,
        "dwell_ms": options.dwell,
    }
    if options.spacing and not options.points:
        raise Invalid("--spacing needs --points N.")
    if options.points:
        wishes["points"] = {"count": options.points, "spacing": options.spacing or "linear"}
    if options.then:
        wishes["then"] = options.then
    if options.dry_run:
        wishes[DRY_RUN] = True
    if options.measure:
        wishes["measure"] = [_measure(client, words) for words in options.measure]
    if options.stop_when:
        column, op, value, then = options.stop_when
        try:
            bound = number(value)
        except ValueError:
            raise Invalid(f"--stop-when: {value!r} is not a number.") from None
        wishes["stop_when"] = {"column": column, "op": op, "value": bound, "then": then}
    return wishes


def _measure(client: RpcClient, words: Sequence[str]) -> dict[str, Any]:
    if len(words) < 2:
        raise Invalid(f"--measure {words[0]}: name an instrument and a command of it.")
    return {
        "instrument_id": words[0],
        "command_name": words[1],
        "parameters": read_parameters(client, words[0], words[1], words[2:]),
    }


def _status(client: RpcClient, options: argparse.Namespace) -> int:
    if options.sweep_id:
        wanted = {"sweep_id": options.sweep_id, "points": options.points}
        return output.show(client.call_tool("get_sweep_status", wanted), options, _print_end)
    return output.show_under_way(client, options, "sweeps", COLUMNS)


def _watch(client: RpcClient, sweep_id: str, *, is_quiet: bool) -> dict[str, Any]:
    """Follow a sweep until it moves no more; an interrupt parks it."""
    with _screen(is_quiet=is_quiet) as draw:
        try:
            return _follow(client, sweep_id, draw)
        except KeyboardInterrupt:
            wanted = {"sweep_id": sweep_id, "hold": True}
            client.call_tool("stop_sweep", wanted, timeout_s=STOP_TIMEOUT_S)
            return _told(client, sweep_id)


def _follow(
    client: RpcClient, sweep_id: str, draw: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    pause = threading.Event()
    while True:
        told = _told(client, sweep_id)
        draw(told)
        if told["status"] != "running":
            return told
        pause.wait(LOOK_EVERY_S)


def _told(client: RpcClient, sweep_id: str) -> dict[str, Any]:
    answer = client.call_tool("get_sweep_status", {"sweep_id": sweep_id})
    told: dict[str, Any] = answer.result
    return told


@contextlib.contextmanager
def _screen(*, is_quiet: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """What draws: a bar on a terminal, a line a change in a pipe, nothing for JSON."""
    if is_quiet:
        yield lambda _told: None
        return
    if not sys.stdout.isatty():
        yield lambda told: print(line_of(told), flush=True)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(BarColumn(), TextColumn("{task.description}"), transient=True) as progress:
        bar = progress.add_task("", total=1.0)

        def draw(told: dict[str, Any]) -> None:
            distance = abs(told["target_value"] - told["start_value"])
            done = abs(told["set_value"] - told["start_value"]) / distance if distance else 1.0
            # Text between brackets would be markup to rich; an instrument may not style us.
            progress.update(bar, completed=done, description=line_of(told).replace("[", r"\["))

        yield draw


def _print_stopped(told: Mapping[str, Any]) -> None:
    fields = dict(told)
    if "still_on" in fields:
        on = [
            f"{output.cell(one['name'])} answers {output.cell(one['answer'])}"
            for one in fields["still_on"]
        ]
        fields["still_on"] = ", ".join(on) or "nothing that the instrument reports"
    output.print_fields(fields)


def _print_end(told: Mapping[str, Any]) -> None:
    recording = told.get("recording") or {}
    fields = {name: told[name] for name in SHOWN if name in told}
    if recording:
        fields["recorded"] = recording.get("path") or recording.get("error")
    for name in ("reason", "error"):
        if told.get(name):
            fields[name] = told[name]
    # A field for all of them, each a sentence: what is true of its rows and misleads.
    if told.get("notes"):
        fields["notes"] = "; ".join(told["notes"])
    output.print_fields(fields)
    if told.get("points"):
        print()
        output.print_table(told["points"], {c["name"]: _heading(c) for c in told["columns"]})


def _heading(column: Mapping[str, str]) -> str:
    return f"{column['name']} ({column['unit']})" if column["unit"] else column["name"]


def _number(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else output.cell(value)
