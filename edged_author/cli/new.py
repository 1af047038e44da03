"""``edged profile new --from ADDRESS``: draft a profile from what an instrument answers.

Asks for its name (``*IDN?``, or what ``--ask`` says), finds its line ends, its error queue, whether
it acknowledges writes, and asks for its own list of commands where it has one
(``SYST:HELP:HEAD?``). Only questions are sent, ``*CLS``, and one command that no instrument has
(``EDGED:NONE``); its entry in the error queue is then read. The draft is clean under lint and says
what could not be found out.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from edged.cli.shared.options import add_config_options, load, own_profile_dir
from edged.cli.shared.output import print_json
from edged.clock import SystemClock
from edged.config.load import Config, LoadedConfig
from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.host import ExitStatus
from edged.profiles.addressed import ADDRESS, PLACEHOLDER, names_address, with_address
from edged.profiles.format.connection import CONNECTION
from edged.profiles.format.profile import check_key
from edged.profiles.model import Connection
from edged.scpi.answer_text import clean_text
from edged.transports.address import parse_address
from edged.yaml.source import Bounds, parse_document
from edged.yaml.tree import Mark
from edged_author.cli.borrowing import Borrowed, at_running_engine, entry_for, need_address
from edged_author.drafting import MetInstrument, draft_profile, key_of
from edged_author.meeting import HEADERS, meet
from edged_author.probing import (
    HANGS_UP,
    WIRE_KEYS,
    Heard,
    Say,
    Talk,
    flow_of,
    held,
)
from edged_author.wire_talk import WireTalk

T = TypeVar("T")

UNNAMED: Final = "unnamed_instrument"
TERMINATIONS: Final = ("read_termination", "write_termination")
WITHIN_S: Final = 12.0
"""For all that is asked; the verb ends within 15 s."""
BOUNDS: Final = Bounds(max_depth=4, max_nodes=100, has_aliases=False)
LONGEST_CONNECTION: Final = 1_000


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile new", description=__doc__)
    parser.add_argument(
        "--from", dest="address", required=True, metavar="ADDRESS", help="VISA address, or alias"
    )
    parser.add_argument(
        "--ask", default="", metavar="LINE",
        help="a question from its manual that changes nothing, for an instrument without *IDN?, "
        "which is then never sent",
    )  # fmt: skip
    parser.add_argument(
        "--connection",
        default="",
        metavar="KEYS",
        help="the connection settings, as `edged probe` prints them",
    )
    parser.add_argument("--key", help="its profile_key (made from maker and model)")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="the file to write (KEY.yaml; - prints it; an existing file is never overwritten)",
    )
    add_config_options(parser, ["--state-dir"])
    parser.add_argument("--json", action="store_true", help="print what was learnt as JSON")
    options = parser.parse_args(arguments)
    loaded = load(options)
    if options.key is not None:
        check_key(Mark(path="--key", line=1, column=1), options.key)
    met = _meet(options, loaded)
    key = options.key or (key_of(met.name) if met.name else UNNAMED)
    text = draft_profile(met, key)
    path = options.output or f"{key}.yaml"
    if path == "-":
        sys.stdout.write(text)
    else:
        _write(Path(path), text)
    if options.json:
        print_json({"profile_key": key, "idn": met.idn, "question": met.question,
                    "connection": flow_of(met.connection), "acknowledge": met.acknowledge,
                    "error_query": met.error_query, "headers": list(met.headers),
                    "unknown": list(met.unknown), "file": path})  # fmt: skip
    elif path != "-":
        _tell(met, key, Path(path), own_profile_dir(loaded))
    for sentence in met.unknown:
        print(f"edged: not known: {sentence}", file=sys.stderr)
    return ExitStatus.OK


def _tell(met: MetInstrument, key: str, path: Path, home: Path) -> None:
    name = clean_text(met.idn) or "somebody"
    print(f"{name} → {path}{_with_headers(len(met.headers))}")
    if met.error_query:
        print(f"Its errors: {met.error_query}")
    if met.acknowledge is not None:
        print(f"It acknowledges what is written: {met.acknowledge}")
    if met.must_be_named:
        print(f"INSTRUMENTS must name it: [{{address: {met.address}, profile: {key}}}]")
    print(f"Next: {_moved(path, home)}edged profile lint {key}")


def _with_headers(count: int) -> str:
    """Of its own list of commands, where it has one."""
    if not count:
        return ""
    return f", with {count} header{'' if count == 1 else 's'} of its own list as comments"


def _moved(path: Path, home: Path) -> str:
    """What comes before lint, which takes the key of what lies where profiles are looked for."""
    if path.resolve().parent == home.resolve():
        return ""
    missing = "" if home.is_dir() else " (make it: it is not there yet)"
    return f"move it to {home}{missing}, then "


def _meet(options: argparse.Namespace, loaded: LoadedConfig) -> MetInstrument:
    clock = SystemClock()
    known = at_running_engine(options.address, loaded)
    check_question(options.ask, options.address, loaded.config)
    bus = bus_of(options.address)
    ask = options.ask.replace(PLACEHOLDER, bus)
    if known is not None:
        met = EngineTalk(known).hold(meet(Connection(), ask))
        met = dataclasses.replace(met, unknown=(*met.unknown, ENGINE_HAS_IT))
    else:
        need_address(options.address)
        connection = connection_of(options.connection, options.address, loaded.config)
        talk = WireTalk(
            options.address, library=loaded.config.visa_library, clock=clock, within_s=WITHIN_S
        )
        with talk:
            met = talk.hold(meet(connection, ask))
        if talk.losses and not met.was_heard:
            met = dataclasses.replace(met, unknown=(*met.unknown, HANGS_UP))
        if talk.is_late:
            met = dataclasses.replace(met, unknown=(*met.unknown, LATE))
    on = datetime.fromtimestamp(clock.wall_ms() / 1000, UTC).date().isoformat()
    return dataclasses.replace(met, address=options.address, on=on, bus=bus)


LATE: Final = f"It was so slow that not all could be asked within {WITHIN_S:.0f} s."
ENGINE_HAS_IT: Final = (
    "A running engine has this instrument, so its own list of commands (SYST:HELP:HEAD?) and its "
    "line ends were not asked for; stop the engine to have them in the draft."
)


class EngineTalk:
    """Holds a talk by way of the engine that has the instrument; nothing is written there."""

    def __init__(self, known: Borrowed) -> None:
        self._known = known

    def hold(self, talk: Talk[T]) -> T:
        return held(talk, self._hear)

    def _hear(self, say: Say) -> Heard:
        # A raw query would leave the rest of a block on the line.
        if not (say.line and say.asks) or say.line == HEADERS:
            return Heard(was_said=False)
        with contextlib.suppress(EdgedError):
            answer = self._known.ask(say.line)
            return Heard(data=f"{answer}\n".encode("latin-1", "replace"), came=True)
        return Heard()


def bus_of(address: str) -> str:
    """The bus address in an address; empty where it has none, or is an alias."""
    try:
        return parse_address(address).bus
    except EdgedError:
        return ""


def check_question(ask: str, address: str, config: Config) -> None:
    """Refuse what no profile can ask, and what the owner wants never asked.

    Raises:
        Invalid: it is not one line of plain text; or none is given, and ``*IDN?`` is never asked.
    """
    if not (ask.isascii() and ask.isprintable()):
        raise Invalid(
            f"--ask {ask!r} is not a line of printable ASCII characters; no profile can send it.",
            remedy="Give another question from the manual; the line end is found by itself.",
        )
    if PLACEHOLDER in ask and not bus_of(address):
        raise Invalid(
            "{address} in --ask needs the unit's own address.",
            remedy=f"Write it there, or give the address as {address}@6.",
        )
    if not ask and entry_for(address, config).get("never_ask_idn"):
        raise Invalid(
            f"INSTRUMENTS says that {address} is never asked *IDN?.",
            remedy="Give a question from its manual that changes nothing: --ask VERSION.",
        )


def connection_of(text: str, address: str, config: Config) -> Connection:
    """How it is spoken to: what INSTRUMENTS says of the address, and what is given besides.

    Args:
        text: keys of ``connection`` as YAML, with or without that word before them.

    Raises:
        Invalid: it cannot be read so.
    """
    entry = entry_for(address, config)
    written: dict[str, Any] = {key: entry[key] for key in WIRE_KEYS if key in entry}
    for key in TERMINATIONS:
        if written.get(key) == "none":
            written[key] = ""
    bare = text.strip().removeprefix("connection:").strip()
    if bare:
        node = parse_document(bare[:LONGEST_CONNECTION], "--connection", BOUNDS)
        if node is None:
            raise Invalid(f"--connection has {bare[:40]!r}, which is not KEY: VALUE.")
        written |= CONNECTION.values(CONNECTION.fields(node, "connection"))
    bus = parse_address(address).bus
    lines = written.get("before", ())
    written["before"] = tuple(line.replace(PLACEHOLDER, ADDRESS) for line in lines)
    found = Connection(**written)
    if not bus and names_address(found):
        raise Invalid(
            "{address} in before needs the unit's own address.",
            remedy=f"Write it there, or give the address as {address}@6.",
        )
    return with_address(found, bus)


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as there:
        raise Invalid(
            f"{path} exists already; it was not changed.",
            remedy="Give another place with --output, or another --key.",
        ) from there
    except OSError as error:
        raise Failed(
            f"{path} cannot be written: {error.strerror or error}.", code=ErrorCode.STORE_FAILED
        ) from error
