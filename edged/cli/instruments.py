"""``edged instruments``: what the engine knows, from its memory; no instrument is asked.

Below the table stand those that are not reached, each with the reason: addresses that the owner
configured and at which no instrument is known, and units that were lost. ``--json`` is
list_instruments' own answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from edged.cli.shared import output
from edged.cli.shared.options import add_engine_options, connect, positive
from edged.host import ExitStatus

# A scan of every bus with silent devices on it.
SCAN_TIMEOUT_S: Final = 120.0
AWAY: Final = frozenset({"away", "lost", "silent"})
"""States of a unit in the table that is not reached now."""

COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "id",
        "alias": "alias",
        "manufacturer": "manufacturer",
        "model": "model",
        "serial": "serial",
        "profile_name": "profile",
        "state": "state",
    }
)


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged instruments", description=__doc__)
    parser.add_argument(
        "filter", nargs="?", default="", help="show only those with this text in any field"
    )
    output.add_watch_option(parser)
    add_engine_options(parser)
    options = parser.parse_args(arguments)

    def once() -> int:
        engine = connect(options)
        answer = engine.call_tool("instruments", {"filter": options.filter})

        def draw(rows: list[dict[str, Any]]) -> None:
            status = engine.call_tool("status").value
            print_instruments(rows)
            lines = absent_lines(status, rows, options.filter)
            output.print_lines(["", "not reached:", *lines] if lines else [])

        return output.show(answer, options, draw)

    return output.watched(options, once)


def scan(arguments: Sequence[str]) -> int:
    """Run ``edged scan``; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged scan",
        description="``edged scan``: search every bus and address now, and list what is new.",
    )
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    timeout_s = options.timeout or SCAN_TIMEOUT_S
    return output.show(connect(options).call_tool("scan", timeout_s=timeout_s), options, _print_new)


def _print_new(rows: list[dict[str, Any]]) -> None:
    if rows:
        print_instruments(rows)
    else:
        print("nothing new")


def absent_line(place: Mapping[str, Any]) -> str:
    """An address at which no instrument is known, and why."""
    name, address = place["name"], place["address"]
    return f"{f'{name} ({address})' if name else address}: {place['why']}"


def absent_lines(
    status: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], text: str = ""
) -> list[str]:
    """Configured addresses at which nobody is known, and units that are away, with the reason.

    Args:
        status: what get_status tells.
        rows: what list_instruments tells.
        text: only those lines that have it, whatever its case.
    """
    places = [p for p in status.get("set_aside", ()) if p["is_configured"]]
    lost = [line for line in status.get("troubled_lines", ()) if line["state"] in AWAY]
    lines = [
        *map(absent_line, places),
        *(
            f"{u['alias'] or u['instrument_id']} ({u['address']}): "
            f"{_who_is_there(u['address'], rows) or u['reason']}"
            for u in lost
        ),
    ]
    return [f"  {line}" for line in lines if text.casefold() in line.casefold()]


def _who_is_there(address: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The unit that answers at an address instead of the one that was met there before."""
    for row in rows:
        if row["address"] == address and row["is_connected"]:
            words = [row[name] for name in ("manufacturer", "model", "serial") if row[name]]
            return f"another unit answers there: {' '.join(words) or row['id']}"
    return ""


def print_instruments(rows: list[dict[str, Any]]) -> None:
    """A table of instruments, or a line that says there are none."""
    if rows:
        output.print_table(sorted(rows, key=lambda row: (row["alias"] or "~", row["id"])), COLUMNS)
    else:
        print("no instruments")


TRACE: Final = (
    "``edged trace INSTRUMENT``: the last exchanges on an instrument's line, byte for byte."
)
ARROWS: Final = {"sent": "→", "received": "←", "discarded": "✗", "note": "·"}


def trace(arguments: Sequence[str]) -> int:
    """Run `edged trace`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged trace", description=TRACE)
    parser.add_argument("instrument", help="id, alias or serial number")
    parser.add_argument(
        "--last", type=positive, default=50, metavar="N", help="at most this many (50)"
    )
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    told = connect(options).call("trace", {"instrument_id": options.instrument})
    exchanges = told["exchanges"][-options.last :]
    if options.json:
        output.print_json(exchanges)
        return ExitStatus.OK
    for entry in exchanges:
        time = datetime.fromtimestamp(entry["timestamp_ms"] / 1000, UTC).astimezone()
        arrow = ARROWS.get(entry["direction"], "?")
        print(f"{time:%H:%M:%S}.{time.microsecond // 1000:03} {arrow} {output.cell(entry['text'])}")
    if not exchanges:
        print("nothing was sent or received on this line yet")
    return ExitStatus.OK
