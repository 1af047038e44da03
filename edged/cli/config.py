"""``edged config``: the configuration in force, and where each value came from."""

from __future__ import annotations

import argparse
import enum
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from edged.cli.shared.options import add_config_options, load
from edged.cli.shared.output import print_json, print_table
from edged.config.keys import KEYS, Key
from edged.config.load import LoadedConfig
from edged.host import ExitStatus

__all__ = ["configuration_page", "run"]

PAGE_HEAD = """# Configuration

One YAML file of flat UPPER_CASE keys, read when a program of edged starts:

| platform | file |
|---|---|
| Linux, as root or as the service | `/etc/edged/edged.yaml` |
| Linux, as another user | `~/.config/edged/edged.yaml` (XDG) if it is there, else the above |
| Windows | `%PROGRAMDATA%\\edged\\edged.yaml` |

`--config FILE` names another one. Drop-ins, `*.yaml` in the directory `edged.yaml.d` beside it, are
read after it, by name. The environment (`EDGED_MCP_PORT=9000`) comes before them, flags
(`--mcp-port 9000`, `--set MCP_PORT=9000`) before everything. In environment and flags a list is
written `[usb, lan]`.

Whatever is wrong stops the start with exit status 78, and names file, line, key and the nearest key
there is: an unknown key (an unknown `EDGED_…` variable, too), a wrong type, a value out of range.
It is YAML 1.2: `on`, `off`, `yes` and `no` are words, not booleans. Anchors, aliases and tags are
not used. A key with nothing after it has its default. Relative paths in a file start from that
file's directory, others from the working directory. A change needs a restart.

`edged config` shows what is in force, and why.

| key | value | default | meaning |
|---|---|---|---|
"""
PAGE_FOOT = """
¹ As root, as the service, or as whoever may write `/var/lib/edged`. For another user of Linux it is
`~/.local/state/edged`, `~/.local/share/edged` and `~/.config/edged` (or what the XDG variables
say); on Windows `state`, `data`, `profiles` and `sdk_wrappers` under `%PROGRAMDATA%\\edged`. In a
source tree its own `profiles` and `sdk_wrappers` stand for the shipped ones.

edged runs on Linux and Windows. On macOS and everything else it says so and ends with status 69.
"""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged config", description=__doc__)
    add_config_options(parser, ["--state-dir"])
    parser.add_argument("--sim", action="store_true", help="as `edged engine --sim` would use it")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.add_argument(
        "--markdown", action="store_true", help="print docs/configuration.md instead"
    )
    options = parser.parse_args(arguments)
    if options.markdown:
        print(configuration_page(), end="")
        return ExitStatus.OK
    loaded = load(options, is_simulated=options.sim)
    _complain(loaded)
    rows = _rows(loaded)
    if options.json:
        print_json({row.pop("key"): row for row in rows})
    else:
        print_table(rows, {"key": "key", "value": "value", "origin": "origin"})
    return ExitStatus.OK


def _complain(loaded: LoadedConfig) -> None:
    """Say on standard error what the reading of the file alone does not show."""
    named = [entry for entry in loaded.config.instruments if entry.profile is not None]
    if not named:
        return
    from edged.profiles.loading import load_library

    library = load_library(loaded.config.profile_dirs)
    for entry in named:
        missing = library.missing(entry.profile or "")
        if missing:
            print(f"edged: {entry.address}: {missing}", file=sys.stderr)


def configuration_page() -> str:
    """docs/configuration.md, made from the table of keys."""
    rows = (
        f"| {key.name} | {key.kind.name} | {_default_text(key)} | {key.sentence} |\n"
        for key in KEYS.values()
    )
    return PAGE_HEAD + "".join(rows) + PAGE_FOOT


def _default_text(key: Key) -> str:
    if key.default_text:
        return key.default_text
    match _plain(key.default):
        case None:
            return "none"
        case bool() as flag:
            return "true" if flag else "false"
        case list() as items:
            return f"[{', '.join(str(item) for item in items)}]"
        case dict():
            return "{}"
        case other:
            return str(other)


def _rows(loaded: LoadedConfig) -> list[dict[str, Any]]:
    rows = []
    for key in KEYS.values():
        value = _plain(getattr(loaded.config, key.field))
        if key.is_secret and value is not None:
            value = "(set, not shown)"
        rows.append({"key": key.name, "value": value, "origin": loaded.origins[key.name]})
    return rows


def _plain(value: Any) -> Any:
    """A configured value as JSON has it."""
    match value:
        case None | bool() | int():
            return value
        case enum.StrEnum() | Path():
            return str(value)
        case tuple():
            return [_plain(item) for item in value]
        case frozenset():
            return sorted(value)
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {name: item for name, item in asdict(value).items() if item is not None}
        case _:
            return str(value)
