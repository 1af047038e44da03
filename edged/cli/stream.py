"""``edged stream start | list | stop``: measure one command at intervals, and watch it.

The stream runs in the daemon; this program watches it, and stops it when it is interrupted. With
``--detach`` the stream goes on without this program.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from edged.cli.shared.options import add_engine_options, connect, read_parameters
from edged.cli.shared.output import cell, print_fields, put, show, show_under_way
from edged.errors import Invalid
from edged.host import ExitStatus
from edged.surfaces.rpc.client import Messages, RpcClient, open_events

COLUMNS: Final = {
    "stream_id": "stream",
    "instrument": "instrument",
    "command_name": "command",
    "interval_ms": "interval ms",
    "count": "points",
    "skipped": "skipped",
    "status": "status",
    "since": "since",
}
BARS: Final = "▁▂▃▄▅▆▇█"
SHOWN_VALUES: Final = 60
STOP_TIMEOUT_S: Final = 15.0


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged stream", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start", help="measure: edged stream start INSTRUMENT COMMAND …")
    start.add_argument("instrument", help="its id or alias")
    start.add_argument("command", help="a query command of its profile")
    start.add_argument("words", nargs="*", metavar="key=value", help="the command's parameters")
    start.add_argument("--interval", type=int, default=500, metavar="MS", help="(500)")
    start.add_argument("--duration", type=int, default=10_000, metavar="MS", help="(10000)")
    start.add_argument(
        "--detach", action="store_true", help="return at once; it continues in the engine"
    )
    listing = verbs.add_parser("list", help="the streams that run")
    stop = verbs.add_parser("stop", help="end a stream: edged stream stop ID")
    stop.add_argument("stream_id")
    for verb in (start, listing, stop):
        add_engine_options(verb)
    options = parser.parse_args(arguments)
    client = connect(options)
    match options.verb:
        case "start":
            return _start(client, options)
        case "list":
            return show_under_way(client, options, "streams", COLUMNS)
        case _:
            return _stop(client, options)


def sparkline(values: Sequence[float]) -> str:
    """The values as a row of bars, the lowest and the highest of them at its ends."""
    if not values:
        return ""
    low, high = min(values), max(values)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in values)


def _stop(client: RpcClient, options: argparse.Namespace) -> int:
    wanted = {"stream_id": options.stream_id}
    answer = client.call_tool("stop_stream", wanted, timeout_s=STOP_TIMEOUT_S)
    return show(answer, options, print_fields)


def _start(client: RpcClient, options: argparse.Namespace) -> int:
    try:
        parameters = read_parameters(client, options.instrument, options.command, options.words)
    except Invalid as error:
        print(f"edged: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    wishes = {
        "instrument_id": options.instrument,
        "command_name": options.command,
        "parameters": parameters,
        "interval_ms": options.interval,
        "duration_ms": options.duration,
        "detach": True,
    }
    if options.detach:
        return show(client.call_tool("start_stream", wishes), options, print_fields)
    # Listening comes first, so that no point is missed; looking on leaves no rows in the audit.
    with open_events(client, ["stream"]) as messages:
        answer = client.call_tool("start_stream", wishes)
        if answer.error is not None:
            return show(answer, options, print_fields)
        end = _watch(client, answer.result["stream_id"], messages, is_quiet=options.json)
    put(end, options, _print_end)
    return ExitStatus.FAILED if end["status"] == "failed" else ExitStatus.OK


def _watch(
    client: RpcClient, stream_id: str, messages: Messages, *, is_quiet: bool
) -> dict[str, Any]:
    """Show points as they come until the stream is over; being ended ends the stream first."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    with _screen(is_quiet=is_quiet) as draw:
        try:
            _follow(client, stream_id, messages, draw)
        except KeyboardInterrupt:
            client.call_tool("stop_stream", {"stream_id": stream_id}, timeout_s=STOP_TIMEOUT_S)
    return _told(client.call("streams.show", {"stream_id": stream_id}))


def _follow(
    client: RpcClient, stream_id: str, messages: Messages, draw: Callable[[Mapping[str, Any]], None]
) -> None:
    """Draw each point until the stream has ended."""
    for kind, params in messages:
        if kind == "missed":
            # The end may be among what this terminal was too slow for.
            shown = client.call("streams.show", {"stream_id": stream_id})
            if shown["status"] != "running":
                return
        elif params["data"].get("stream_id") == stream_id:
            if params["event"] == "ended":
                return
            if params["event"] == "point":
                draw(params["data"])


def _told(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name != "points"}


@contextlib.contextmanager
def _screen(*, is_quiet: bool) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """What draws: a live line on a terminal, a line for each point in a pipe, nothing for JSON."""
    if is_quiet:
        yield lambda _point: None
        return
    if not sys.stdout.isatty():
        yield _print_point
        return
    from rich.live import Live
    from rich.text import Text

    values: deque[float] = deque(maxlen=SHOWN_VALUES)

    with Live(Text(""), refresh_per_second=10, transient=True) as live:

        def draw(point: Mapping[str, Any]) -> None:
            value = point.get("value")
            if isinstance(value, int | float) and not isinstance(value, bool):
                values.append(float(value))
            live.update(Text(_line(point, values)))

        yield draw


def _line(point: Mapping[str, Any], values: Sequence[float]) -> str:
    if "y_length" in point:
        now = f"{point['y_length']} samples"
    else:
        now = f"{cell(point.get('value'))} {cell(point.get('unit'))}"
    return f"{point['stream_id']}  {point['number']:>6}  {sparkline(values)}  {now}"


def _print_point(point: Mapping[str, Any]) -> None:
    value = point["value"] if "value" in point else f"{point['y_length']} samples"
    print(f"{point.get('timestamp_ms', '')}\t{cell(value)}\t{cell(point.get('unit'))}", flush=True)


def _print_end(end: Mapping[str, Any]) -> None:
    stats = end["stats"]
    recording = end.get("recording") or {}
    print_fields(
        {
            "stream_id": end["stream_id"],
            "status": end["status"],
            "points": end["count"],
            "skipped": stats["skipped"],
            **{name: stats[name] for name in ("mean", "std", "min", "max")},
            "recorded": recording.get("path") or recording.get("error"),
            **({"error": end["error"]} if end.get("error") else {}),
        }
    )
