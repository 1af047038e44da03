"""``edged profile new --from ADDRESS``: draft a profile from what an instrument tells of itself.

Asks ``*IDN?``, whether it keeps an error queue, and for its own list of commands where it has one
(``SYST:HELP:HEAD?``); changes nothing, and reads out of the error queue what it did not know. The
draft is clean under lint and says nothing that it does not know: the commands come as comments, to
be looked up in the manual one by one.

The instrument that a verb of ``edged profile`` asks: a running engine's, or an errand's own.

Two programs on one instrument disturb each other, so the engine that has it is asked first.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import dataclasses
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from edged.cli.shared.options import add_config_options, load, locate
from edged.cli.shared.output import print_json
from edged.clock import Clock, SystemClock
from edged.config.load import Config, LoadedConfig
from edged.engine.one_off_engine import errand_engine, registered
from edged.errors import EdgedError, ErrorCode, Failed, Invalid, NotFound
from edged.host import ExitStatus
from edged.profiles.authoring.drafting import MetInstrument, draft_profile, key_of, read_headers
from edged.store.bench_copy import BenchCopy
from edged.surfaces.rpc.client import RpcClient

__all__ = ["Borrowed", "borrowed", "entry_for", "errand_settings", "find_error_query", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowed:
    """An instrument that can be asked.

    Attributes:
        known: its entry in list_instruments.
        is_running_engines: an engine that runs anyway has it; else it was opened for this errand.
    """

    client: RpcClient
    known: Mapping[str, Any]
    is_running_engines: bool

    def ask(self, line: str) -> str:
        """The answer to a raw query.

        Raises:
            Failed: it did not answer; what the engine says.
        """
        asked = {"instrument_id": self.known["id"], "scpi_command": line}
        answer = self.client.call_tool("send_scpi", asked, timeout_s=60.0)
        told = answer.result if isinstance(answer.result, dict) else {}
        if answer.error is not None or told.get("error"):
            reason = told.get("error") or (answer.error or {}).get("message", "")
            raise Failed(f"{line}: {reason}", code=ErrorCode.BAD_ANSWER)
        return str(told.get("response") or "")


@contextlib.contextmanager
def borrowed(
    address: str, loaded: LoadedConfig, settings: Mapping[str, Any], *, clock: Clock
) -> Iterator[Borrowed]:
    """The instrument at an address, for as long as the context lasts.

    Args:
        address: VISA resource string; of a running engine's instrument also its alias or serial.
        loaded: this machine's configuration, which says where an engine would be.
        settings: of the errand's engine, where one is needed.

    Raises:
        Failed: nobody answers there.
    """
    there = _at_running_engine(address, loaded)
    if there is not None:
        yield there
        return
    if "::" not in address:
        raise Invalid(
            f"{address!r} is no VISA address, and no running engine knows such an instrument.",
            remedy="Write it like TCPIP::192.168.1.20::5025::SOCKET.",
        )
    with errand_engine(settings, clock=clock) as client:
        known = registered(client, address, clock)
        yield Borrowed(client=client, known=known, is_running_engines=False)


def errand_settings(config: Config) -> dict[str, Any]:
    """What an errand's engine has in common with the one that is usual here."""
    return {
        "PROFILE_DIRS": [str(path.absolute()) for path in config.profile_dirs],
        # With a state directory of its own the errand's engine would find no copy of one that is
        # gone, and no limit in force.
        "BENCH_FILE": str(BenchCopy(config.bench_file, config.state_dir).place()),
        "VISA_LIBRARY": config.visa_library,
    }


def entry_for(address: str, config: Config, **more: Any) -> dict[str, Any]:
    """The entry of INSTRUMENTS for an address: what the owner wrote of it, and ``more``."""
    written: dict[str, Any] = {}
    for entry in config.instruments:
        if entry.address == address:
            told = dataclasses.asdict(entry)
            written = {n: _as_written(value) for n, value in told.items() if value is not None}
    for key in ("read_termination", "write_termination"):
        if written.get(key) == "":
            written[key] = "none"
    return {**written, "address": address, **more}


def _as_written(value: Any) -> Any:
    """A value of an entry as the configuration file has it."""
    if not isinstance(value, dict):
        return value
    said = {name: _as_question(name, text) for name, text in value.items() if text}
    return "none" if said in ({}, {"kind": "none"}) else said


def _as_question(name: str, text: str) -> Any:
    is_unmarked = name in ("query", "detail") and "?" not in text
    return {"ask": text} if is_unmarked else text


def _at_running_engine(address: str, loaded: LoadedConfig) -> Borrowed | None:
    try:
        client = RpcClient(locate(loaded), token=loaded.config.inbound_auth_token)
        listed = client.call_tool("list_instruments").result
    except EdgedError as error:
        if error.code is ErrorCode.NO_ENGINE:
            return None
        raise
    wanted = address.strip().casefold()
    # As the engine looks names up: what the owner calls so comes before a serial number.
    for names in (("id", "address", "alternatives"), ("alias",), ("serial",)):
        called = [i for i in listed if wanted in [t for n in names for t in _texts(i[n])]]
        if len(called) > 1:
            raise NotFound(
                f"{address!r} is the name of {len(called)} instruments: "
                f"{', '.join(i['id'] for i in called)}.",
                code=ErrorCode.UNKNOWN_INSTRUMENT,
                remedy="Give the id of the one that is meant.",
            )
        if called and wanted:
            return Borrowed(client=client, known=called[0], is_running_engines=True)
    return None


def _texts(value: Any) -> list[str]:
    return [str(one).casefold() for one in (value if isinstance(value, list) else [value])]


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


def _meet(options: argparse.Namespace) -> MetInstrument:
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
            return MetInstrument(
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
