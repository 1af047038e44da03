"""``edged profile new --from ADDRESS``: draft a profile from what an instrument tells of itself.

Asks ``*IDN?``, whether it keeps an error queue, and for its own list of commands where it has one
(``SYST:HELP:HEAD?``); changes nothing, and reads out of the error queue what it did not know. The
draft is clean under lint and says nothing that it does not know: the commands come as comments, to
be looked up in the manual one by one.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from edged.cli.borrowed import Borrowed, borrowed, entry_for, errand_settings
from edged.cli.options import add_config_options, load
from edged.cli.tables import print_json
from edged.clock import SystemClock
from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.host import ExitStatus
from edged.profiles.skeleton import Met, draft_profile, key_of, read_headers

__all__ = ["find_error_query", "run"]

ERROR_QUERIES: Final = ("SYST:ERR?", "ERR?")
MOST_ERRORS: Final = 32
"""Asked for at most; queues are shorter."""
_ENTRY: Final = re.compile(r"\s*(?P<number>[-+]?\d{1,6})\s*,")
ASKING: Final = "asking"
QUESTIONS: Final = f"""\
format: 1
profile_key: {ASKING}
manufacturer: nobody
model: nothing
instrument_class: other
source: "an errand"
match: {{idn: nothing}}
commands:
  list_headers: {{returns: {{image: {{mime: image/x-list, data: "SYST:HELP:HEAD?"}}}}}}
"""
"""A profile with the one question that is answered by a block."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile new", description=__doc__)
    parser.add_argument(
        "--from", dest="address", required=True, metavar="ADDRESS", help="VISA address, or alias"
    )
    parser.add_argument("--key", help="its profile_key (made from maker and model)")
    parser.add_argument(
        "--output", metavar="FILE", help="- prints it (KEY.yaml; an existing file is never touched)"
    )
    add_config_options(parser, ["--state-dir"])
    parser.add_argument("--json", action="store_true", help="print what was learnt as JSON")
    options = parser.parse_args(arguments)
    met = _meet(options)
    key = options.key or key_of(met.idn)
    text = draft_profile(met, key)
    path = options.output or f"{key}.yaml"
    if path == "-":
        sys.stdout.write(text)
    else:
        _write(Path(path), text)
    if options.json:
        print_json({"profile_key": key, "idn": met.idn, "error_query": met.error_query,
                    "headers": list(met.headers), "file": path})  # fmt: skip
    elif path != "-":
        print(f"{met.idn} → {path}: {len(met.headers)} headers of its own list as comments")
        print(f"Next: edged profile lint {path}")
    return ExitStatus.OK


def _meet(options: argparse.Namespace) -> Met:
    loaded = load(options)
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="edged-asking-") as directory:
        (Path(directory) / f"{ASKING}.yaml").write_text(QUESTIONS, encoding="utf-8")
        settings = {
            **errand_settings(loaded.config),
            "PROFILE_DIRS": [directory],
            # What it may do is not asked here: the profile below cannot do anything.
            "BENCH_FILE": str(Path(directory) / "bench.yaml"),
            "INSTRUMENTS": [entry_for(options.address, loaded.config, profile=ASKING)],
        }
        with borrowed(options.address, loaded, settings, clock=clock) as there:
            idn, headers = there.ask("*IDN?"), _headers(there)
            return Met(
                idn=idn,
                address=options.address,
                # Last: a question that it did not know stands in its error queue.
                error_query=find_error_query(there.ask),
                headers=headers,
                on=datetime.fromtimestamp(clock.wall_ms() / 1000, UTC).date().isoformat(),
            )


def find_error_query(ask: Callable[[str], str]) -> str:
    """The question that is answered with the number and the text of an error; empties the queue."""
    for query in ERROR_QUERIES:
        with contextlib.suppress(EdgedError):
            entry = _ENTRY.match(ask(query))
            if entry is None:
                continue
            for _ in range(MOST_ERRORS):
                if entry is None or int(entry["number"]) == 0:
                    break
                entry = _ENTRY.match(ask(query))
            return query
    return ""


def _headers(there: Borrowed) -> tuple[str, ...]:
    """Its own list, where it has one.

    An engine that works the instrument anyway has no command that reads such a block, and a raw
    query would leave the rest of it on the line.
    """
    if there.is_running_engines:
        print(
            "edged: a running engine has this instrument, so its own list of commands "
            "(SYST:HELP:HEAD?) was not asked for; stop the engine to have it in the draft.",
            file=sys.stderr,
        )
        return ()
    asked = {"instrument_id": there.known["id"], "command_name": "list_headers"}
    answer = there.client.call_tool("execute_command", asked, timeout_s=120.0)
    if answer.error is not None:
        return ()
    data = answer.result["data"]
    if "image" not in data:
        # Over 4 MiB; no list of headers is that long.
        return ()
    block = base64.b64decode(data["image"])
    return read_headers(block.decode("ascii", "replace"))


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as there:
        raise Invalid(
            f"{path} exists already; it was not touched.",
            remedy="Give another place with --output, or another --key.",
        ) from there
    except OSError as error:
        raise Failed(
            f"{path} cannot be written: {error.strerror or error}.", code=ErrorCode.STORE_FAILED
        ) from error
