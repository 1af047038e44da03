"""``edged trace INSTRUMENT``: the last exchanges on an instrument's line, byte for byte."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from edged.cli.shared.options import add_engine_options, connect, positive
from edged.cli.shared.output import cell, print_json
from edged.host import ExitStatus

ARROWS: Final = {"sent": "→", "received": "←", "discarded": "✗", "note": "·"}


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged trace", description=__doc__)
    parser.add_argument("instrument", help="id, alias or serial number")
    parser.add_argument(
        "--last", type=positive, default=50, metavar="N", help="at most this many (50)"
    )
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    told = connect(options).call("trace", {"instrument_id": options.instrument})
    exchanges = told["exchanges"][-options.last :]
    if options.json:
        print_json(exchanges)
        return ExitStatus.OK
    for entry in exchanges:
        time = datetime.fromtimestamp(entry["timestamp_ms"] / 1000, UTC).astimezone()
        arrow = ARROWS.get(entry["direction"], "?")
        print(f"{time:%H:%M:%S}.{time.microsecond // 1000:03} {arrow} {cell(entry['text'])}")
    if not exchanges:
        print("nothing was sent or received on this line yet")
    return ExitStatus.OK
