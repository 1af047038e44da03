"""``edged doctor``: check everything, a line each, and say what to do. Exit status 1 on FAIL."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edged.cli.shared.options import add_config_options, load, locate
from edged.cli.shared.output import cell, put
from edged.config.load import LoadedConfig, load_config, this_machine
from edged.errors import EdgedError, Failed
from edged.host import ExitStatus
from edged.surfaces.rpc.client import EngineFile

COLOURS: Final[Mapping[str, str]] = {
    "PASS": "\x1b[32m",
    "WARN": "\x1b[33m",
    "FAIL": "\x1b[31m",
    "SKIP": "\x1b[2m",
}
PLAIN: Final = "\x1b[0m"


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged doctor", description=__doc__)
    add_config_options(parser, ["--state-dir"])
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(arguments)
    loaded, complaint = _load(options)
    engine, hidden = _engine(loaded)
    if engine is not None:
        loaded = _beside(loaded, engine.path.parent)
    # Here, so that a mistyped option need not wait for what the checks load.
    from edged.doctor.checks import run_checks
    from edged.doctor.facts import gather
    from edged.doctor.report import report

    facts = gather(loaded.config, origins=loaded.origins, complaint=complaint, engine=engine)
    if hidden is not None:
        facts = dataclasses.replace(facts, unreachable=hidden)
    told = report(run_checks(facts))
    put(told, options, _print)
    return ExitStatus.OK if told["is_ok"] else ExitStatus.FAILED


def _engine(loaded: LoadedConfig) -> tuple[EngineFile | None, EdgedError | None]:
    """The engine's file; or, where this user may not read it, what to do about that."""
    try:
        return locate(loaded), None
    except Failed as error:
        return None, error if "closed" in error.data else None


def _load(options: argparse.Namespace) -> tuple[LoadedConfig, EdgedError | None]:
    """The configuration, or the default one and what is wrong with the other."""
    try:
        return load(options), None
    except EdgedError as complaint:
        return load_config(places=this_machine(), environ={}, file=None, flags=[]), complaint


def _beside(loaded: LoadedConfig, state_dir: Path) -> LoadedConfig:
    """The state directory is the one in which the engine was found."""
    return dataclasses.replace(
        loaded, config=dataclasses.replace(loaded.config, state_dir=state_dir)
    )


def _print(told: Mapping[str, Any]) -> None:
    width = max(len(line["check"]) for line in told["checks"])
    has_colours = sys.stdout.isatty()
    for line in told["checks"]:
        verdict = line["verdict"]
        mark = f"{COLOURS[verdict]}{verdict}{PLAIN}" if has_colours else verdict
        print(f"{mark}  {line['check']:<{width}}  {cell(line['found'], limit=1000)}")
        if line["remedy"]:
            print(f"      {'':<{width}}  → {cell(line['remedy'], limit=1000)}")
    counts = ", ".join(f"{count} {name}" for name, count in told["counts"].items() if count)
    print(f"\n{counts}")
