"""``edged config``: the configuration in force, and where each value came from."""

from __future__ import annotations

import argparse
import enum
import itertools
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Final

from edged.cli.shared.options import add_config_options, load, own_profile_dir
from edged.cli.shared.output import LONGEST_LINE, cell, print_json, print_table
from edged.config.keys import KEYS
from edged.config.load import LoadedConfig
from edged.host import ExitStatus
from edged.schema.tables import Key

PAGE_HEAD = """# Configuration

edged reads its configuration from one YAML file when it starts. For example, to add an instrument
with a fixed address:

```yaml
INSTRUMENTS:
  - {address: "TCPIP::192.168.1.20::5555::SOCKET", name: supply}
```

`edged config` shows the values in use, and where each comes from. A change needs a restart.

## Files, environment, options

| platform | file |
|---|---|
| Linux, as root or as the service | `/etc/edged/edged.yaml` |
| Linux, as another user | `~/.config/edged/edged.yaml` (XDG) if it exists, or else the file above |
| Windows | `%PROGRAMDATA%\\edged\\edged.yaml` |

Use `--config FILE` for another file. The first of these that sets a key is used:

1. options: `--mcp-port 9000`, `--set MCP_PORT=9000`
2. environment variables: `EDGED_MCP_PORT=9000`
3. drop-ins: `*.yaml` in the directory `edged.yaml.d` next to the file; a later name overrides an
   earlier one
4. the file

In options and environment variables write lists as `[usb, lan]`.

## Syntax

The file has flat keys in UPPER_CASE. The syntax is YAML 1.2: `on`, `off`, `yes` and `no` are
strings, not booleans. Anchors, aliases and tags are not supported. A key without a value has its
default. Relative paths in a file are relative to the directory of that file, others to the working
directory.

An error stops the start with exit status 78. The message names file, line, key and the nearest
known key. Errors are unknown keys (also unknown `EDGED_…` variables), wrong types, and values out
of range.

## Keys

| key | value | default | meaning |
|---|---|---|---|
"""
PAGE_FOOT = """
¹ As root, as the service, or as a user who can write `/var/lib/edged`. For other users of Linux:
`~/.local/state/edged`, `~/.local/share/edged` and `~/.config/edged` (or as the XDG variables say).
On Windows: `state`, `data`, `profiles` and `sdk_wrappers` in `%PROGRAMDATA%\\edged`. In a source
tree its own `profiles` and `sdk_wrappers` replace the shipped ones.

edged runs on Linux and Windows. On macOS and other systems it says so and exits with 69.
"""


WIDTHS: Final = {"key": 22, "value": 44, "origin": 28}
"""Of a pipe, so that a line fits 100 columns."""


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
        _draw([{**row, **_with_missing(row, own_profile_dir(loaded))} for row in rows])
    return ExitStatus.OK


def _draw(rows: Sequence[Mapping[str, Any]]) -> None:
    """A table for people; in a pipe, where nothing folds its cells, long ones are wrapped."""
    if not sys.stdout.isatty():
        rows = [line for row in rows for line in _wrapped(row)]
    print_table(rows, {"key": "key", "value": "value", "origin": "origin"})


def _wrapped(row: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """A row as several; what stands between blanks is never cut."""
    texts = [
        textwrap.wrap(
            cell(row[name], limit=LONGEST_LINE),
            width,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, width in WIDTHS.items()
    ]
    for parts in itertools.zip_longest(*texts, fillvalue=""):
        yield dict(zip(WIDTHS, parts, strict=True))


def _with_missing(row: Mapping[str, Any], own: Path) -> dict[str, Any]:
    """Of PROFILE_DIRS the ones too that are not there, as where the owner's profiles belong."""
    if row["key"] != "PROFILE_DIRS":
        return {}
    paths = dict.fromkeys((*row["value"], str(own)))
    return {"value": [p if Path(p).is_dir() else f"{p} (not there yet)" for p in paths]}


def _complain(loaded: LoadedConfig) -> None:
    """Say on standard error what the reading of the file alone does not show."""
    named = [entry for entry in loaded.config.instruments if entry.profile is not None]
    if not named:
        return
    from edged.profiles.library_cache import read_library

    library = read_library(loaded.config.profile_dirs, loaded.config.state_dir)
    for entry in named:
        missing = library.missing(entry.profile or "")
        if missing:
            print(f"edged: {entry.address}: {missing}", file=sys.stderr)


def configuration_page() -> str:
    """docs/configuration.md, made from the table of keys."""
    rows = (
        f"| {key.name} | {key.kind.word} | {_default_text(key)} | {key.sentence} |\n"
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
        value = _plain(getattr(loaded.config, key.name.lower()))
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
