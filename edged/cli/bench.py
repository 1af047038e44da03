"""``edged bench show [UNIT]``: what the owner's bench file says, and the limits that follow.

Reads the file and the profiles as an engine would: the file of the engine that runs or starts here,
else the configured one. With a running engine it also says which units
are connected, and which keys match no unit that has answered since it started: those limit nothing,
so the exit status is 1 then.

``edged bench schema``: the JSON Schema of the bench file. Written beside it as
``bench.schema.json`` it lets YAML editors complete and check the file, whose first line is then
``# yaml-language-server: $schema=bench.schema.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from edged.cli.shared.options import add_config_options, load, locate, state_dirs
from edged.cli.shared.output import print_fields, print_json, print_schema, print_table
from edged.config.load import LoadedConfig
from edged.errors import EdgedError, ErrorCode, NotFound
from edged.files import open_bytes
from edged.host import ExitStatus
from edged.profiles.bench_file import (
    BenchFile,
    SeenUnit,
    UnseenKey,
    interlock_summary,
    plain,
    seen_units,
    serial_forms,
    unit_summary,
    unseen_keys,
)
from edged.profiles.format.bench import bench_schema
from edged.profiles.library import ProfileLibrary
from edged.profiles.library_cache import read_library
from edged.profiles.model import Profile
from edged.profiles.owner_rules import misfits
from edged.profiles.unit_rules import UnitRules
from edged.schema.fields import nearest
from edged.service import START_FILE, lock_holder
from edged.store.bench_copy import BenchCopy
from edged.surfaces.rpc.client import RpcClient

MAX_START_FILE_BYTES: Final = 64 * 1024
COLUMNS: Final = {
    "command": "command",
    "parameter": "parameter",
    "allowed": "allowed",
    "profile_allows": "profile allows",
    "unit": "unit",
}
CHANGES: Final = {"command": "command", "changes": "changes", "verdict": "verdict"}
INTERLOCKS: Final = {
    "name": "interlock",
    "reads": "reads",
    "must": "must be",
    "guards": "guards",
    "poll_s": "every s",
    "max_age_s": "max age s",
    "trip": "a trip",
}
APART: Final = ("key", "limits", "changes", "unlimited")
"""What is printed of a unit besides its fields."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged bench", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    show = verbs.add_parser("show", help="the entries of the bench file, unit by unit")
    show.add_argument(
        "unit", nargs="?", default="", help="serial number or alias (default: all units)"
    )
    add_config_options(show, ["--state-dir"])
    show.add_argument("--json", action="store_true", help="print JSON for scripts")
    schema = verbs.add_parser("schema", help="the JSON Schema of the bench file, for editors")
    schema.add_argument("--output", type=Path, metavar="FILE", help="write it there instead")
    options = parser.parse_args(arguments)
    if options.verb == "schema":
        print_schema(bench_schema(), options.output)
        return ExitStatus.OK
    loaded = load(options)
    here = _here(loaded)
    library = read_library(loaded.config.profile_dirs, loaded.config.state_dir)
    file = here["file"] or loaded.config.bench_file
    copy = BenchCopy(file, loaded.config.state_dir)
    reading = copy.read(library, seen=here["seen"] or ())
    bench, refused = reading.bench, here["error"] or reading.fault
    units = [
        _told(rules, here["instruments"], library, loaded.config.raw_scpi.value)
        for rules in bench.units.values()
        if not options.unit or _is_called(rules, options.unit)
    ]
    if here["starting"]:
        print(
            f"edged: the engine (PID {here['starting']}) does not answer: it is starting, or "
            f"ending. It reads {file}",
            file=sys.stderr,
        )
    if options.unit and not units:
        raise NotFound(
            f"{file} has no entry for {options.unit!r}.",
            code=ErrorCode.UNKNOWN_INSTRUMENT,
            remedy=nearest(options.unit, bench.units),
        )
    # What is asked about one unit is that unit's.
    interlocks = [] if options.unit else [interlock_summary(rule) for rule in bench.interlocks]
    unseen = _unseen(bench, here["seen"])
    if options.json:
        told = {"error": refused, "unseen": [asdict(key) for key in unseen], "units": units}
        print_json({"file": str(file), **told, "interlocks": interlocks})
    else:
        _print(str(file), units, interlocks)
    for key in unseen:
        print(f"edged: {key.sentence}", file=sys.stderr)
    if refused:
        print(f"edged: an older version of it is in force: {refused}", file=sys.stderr)
    return ExitStatus.FAILED if refused or unseen else ExitStatus.OK


def _is_called(rules: UnitRules, name: str) -> bool:
    forms = serial_forms(rules.key) | {plain(rules.alias)}
    return bool(serial_forms(name) & (forms - {""}))


def _unseen(bench: BenchFile, seen: Sequence[SeenUnit] | None) -> tuple[UnseenKey, ...]:
    """Keys that fit nothing; none where no engine runs that could have met any unit."""
    return () if seen is None else unseen_keys(bench.units, seen)


def _here(loaded: LoadedConfig) -> dict[str, Any]:
    """What a running engine knows: its bench file and what it refused of it, its instruments."""
    try:
        engine = locate(loaded)
        client = RpcClient(engine, token=loaded.config.inbound_auth_token)
        status = client.call_tool("get_status").value
        return {
            "file": engine.bench_file,
            "instruments": client.call_tool("list_instruments").value,
            "error": status["profiles"]["bench_error"],
            "seen": seen_units(client.call("discovery")["seen"]),
            "starting": "",
        }
    except EdgedError as error:
        if error.code is not ErrorCode.NO_ENGINE:
            raise
        file, pid = _starting(loaded)
        return {"file": file, "instruments": [], "error": "", "seen": None, "starting": pid}


def _starting(loaded: LoadedConfig) -> tuple[Path | None, str]:
    """Bench file and PID of an engine that runs and does not answer yet; nothing where none is."""
    for directory in state_dirs(loaded):
        holder = lock_holder(directory)
        try:
            with open_bytes(directory / START_FILE) as opened:
                facts = json.loads(opened.read(MAX_START_FILE_BYTES))
            pid, file = facts["pid"], Path(facts["bench_file"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if holder and holder == str(pid):
            return file, holder
    return None, ""


def _told(
    rules: UnitRules,
    instruments: Sequence[Mapping[str, Any]],
    library: ProfileLibrary,
    raw_scpi: str,
) -> dict[str, Any]:
    known = next(
        (
            i
            for i in instruments
            if any(_is_called(rules, name) for name in (i["serial"], i["alias"]) if name)
        ),
        None,
    )
    profile = library.profiles.get(known["profile_name"]) if known else _only_fit(rules, library)
    return {
        "connected": known["id"] if known and known["is_connected"] else "",
        **unit_summary(rules, profile, raw_scpi),
    }


def _only_fit(rules: UnitRules, library: ProfileLibrary) -> Profile | None:
    """The one profile that the entry fits, where it names anything and only one fits."""
    if not rules.names:
        return None
    fits = [profile for profile in library.profiles.values() if not misfits(profile, rules)]
    return fits[0] if len(fits) == 1 else None


def _print(
    path: str, units: Sequence[Mapping[str, Any]], interlocks: Sequence[Mapping[str, Any]]
) -> None:
    if not units and not interlocks:
        print(f"{path} has no entries; only the limits of the profiles hold")
        return
    print(path)
    for unit in units:
        print(f"\n{unit['key']}")
        print_fields({f"  {name}": unit[name] for name in unit if name not in APART and unit[name]})
        if unit["limits"]:
            print()
            print_table(unit["limits"], COLUMNS)
        if unit["changes"]:
            print()
            print_table(unit["changes"], CHANGES)
        if unit["unlimited"]:
            told = ", ".join(unit["unlimited"])
            print(
                f"\nedged: not limited, although it seems to set the same quantity: {told}",
                file=sys.stderr,
            )
    if interlocks:
        print()
        print_table(interlocks, INTERLOCKS)
