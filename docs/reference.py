"""Writes what is made from the code: pages of tools, verbs, error codes; tables of profile keys.

Run by ``make docs``; ``--check`` changes nothing and ends with 1 where a page is out of date.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "packaging")]

from man_pages import parser_of, sentence_of, subparsers, value_name  # noqa: E402

from edged.actions.tool import Tool  # noqa: E402
from edged.cli.main import VERBS  # noqa: E402
from edged.errors import ErrorCode  # noqa: E402
from edged.operations.table import bench_tools, static_tools  # noqa: E402
from edged.profiles.authoring.checking import library_lines  # noqa: E402
from edged.profiles.authoring.verification import FOLDER, load_reports  # noqa: E402
from edged.profiles.format.schema import TABLES, UNIONS  # noqa: E402
from edged.profiles.format.tables import Table  # noqa: E402
from edged.profiles.loading import load_library  # noqa: E402
from edged.profiles.raw import question_by_heart  # noqa: E402
from edged.protocol.jsonrpc import RpcCode  # noqa: E402
from edged.surfaces.mcp.error_codes import PLACES, Place  # noqa: E402

MADE: Final = "Made from the code by `make docs`; what is written here by hand is lost."


def main() -> int:
    is_right = True
    for name, page in PAGES.items():
        path, text = ROOT / "docs" / name, "\n".join(page()) + "\n"
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8", newline="\n")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"docs/{name} is out of date: run `make docs`.\n")
            is_right = False
    return 0 if is_right else 1


def tools() -> Iterator[str]:
    yield "# The tools that are always there\n"
    yield f"{MADE}\n"
    yield "Every command of a profile is a tool of its own besides ([profiles.md](profiles.md));"
    yield "those that begin with `bench__` are listed while any instrument is registered. Null for"
    yield "an optional argument is the same as leaving it out.\n"
    yield "**A list that fits.** The URL chooses what tools/list shows; of a session the URL of its"
    yield "initialize counts:\n"
    yield "| URL | lists |"
    yield "|---|---|"
    yield "| `/mcp` | everything (or what TOOLS says) |"
    yield "| `/mcp?tools=essential` | the static and bench tools, and a few of each instrument |"
    yield "| `/mcp?tools=static` | the static and bench tools alone |"
    yield "| `/mcp?instrument=psu1,dmm1` | of the instruments' tools only those of these two |\n"
    yield "What is not listed can be called all the same; `bench__find_tools` finds it."
    for tool in (*static_tools(), *bench_tools()):
        yield from _tool(tool)


def _tool(tool: Tool) -> Iterator[str]:
    yield f"\n## `{tool.name}`\n"
    yield f"{tool.description}\n"
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    required = tool.input_schema.get("required", ())
    if properties:
        yield "| argument | type | |\n|---|---|---|"
    for name, schema in properties.items():
        mark = " (required)" if name in required else ""
        yield f"| {name}{mark} | {_type(schema)} | {_cell(schema.get('description', ''))} |"
    hints = tool.annotations
    said = [
        "reads only" if hints.read_only else "",
        "may be dangerous" if hints.destructive else "",
    ]
    told = ", ".join(word for word in said if word)
    if told:
        yield f"\nHints: {told}."


def _type(schema: Mapping[str, Any]) -> str:
    found = schema.get("type", "any")
    text = " or ".join(found) if isinstance(found, list) else str(found)
    bounds = [f"{schema[key]:g}" if key in schema else "" for key in ("minimum", "maximum")]
    text += f" {bounds[0]}..{bounds[1]}" if any(bounds) else ""
    if "enum" in schema:
        text += ": " + ", ".join(str(value) for value in schema["enum"])
    return text + (f", default {schema['default']!r}" if "default" in schema else "")


def verbs() -> Iterator[str]:
    yield "# Every verb and its options\n"
    yield f"{MADE} What the verbs are for: [cli.md](cli.md).\n"
    yield "`edged VERB --help` says the same. Every verb that talks to an engine takes `--json`."
    for verb, entry in VERBS.items():
        parser = parser_of(verb)
        yield f"\n## `edged {verb}`\n"
        yield f"{_upper(entry.sentence)}."
        yield from _options(parser)
        for name, child in subparsers(parser):
            yield f"\n### `edged {verb} {name}`"
            if child.description:
                yield f"\n{_cell(child.description)}"
            yield from _options(child)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = []
    for action in parser._actions:  # noqa: SLF001 - argparse tells of itself in no other way
        is_help = isinstance(action, argparse._HelpAction)  # noqa: SLF001
        is_group = isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
        if is_help or is_group or action.help == argparse.SUPPRESS:
            continue
        name = ", ".join(action.option_strings)
        label = f"{name} {value_name(action)}".strip()
        rows.append(f"| `{_cell(label)}` | {_cell(sentence_of(action))} |")
    if rows:
        yield "\n| option | |\n|---|---|"
        yield from rows


def errors() -> Iterator[str]:
    yield "# Error codes\n"
    yield f"{MADE}\n"
    yield "Every error of edged has one of these codes, a sentence that names the thing, the value"
    yield "and the bound, and what to do about it. A *result* is a tool result with `isError`: a"
    yield "model reads it and can correct itself. A number is a JSON-RPC error.\n"
    yield "| code | means | MCP gives |\n|---|---|---|"
    for code in ErrorCode:
        yield f"| `{code.value}` | {MEANINGS[code]} | {_place(PLACES[code])} |"
    yield "\n| JSON-RPC | name |\n|---|---|"
    for rpc in RpcCode:
        yield f"| {rpc.value} | {rpc.name.lower().replace('_', ' ')} |"
    yield (
        "\n-33001 comes with HTTP 401, `no_keys` with HTTP 503; -33003 and -33004 with HTTP 200 "
        "([relay.md](relay.md))."
    )


def _place(place: RpcCode | Place) -> str:
    if isinstance(place, RpcCode):
        return str(place.value)
    return "a result" if place is Place.RESULT else "-32602; from 2025-11-25 on a result"


REGION: Final = re.compile(r"(<!-- keys: ([a-z_ ]+) -->\n).*?(?=<!-- end of keys -->)", re.DOTALL)


def profiles() -> Iterator[str]:
    """The page as it is, with the tables between its marks written anew."""
    page = (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8").removesuffix("\n")
    yield REGION.sub(lambda m: m[1] + "\n".join(_keys(m[2].split())) + "\n\n", page)


HEARTBEATS: Final = re.compile(
    r"(<!-- heartbeats -->\n).*?(?=<!-- end of heartbeats -->)", re.DOTALL
)


def instruments() -> Iterator[str]:
    """The page as it is, with the shipped profiles' heartbeats between its marks written anew."""
    page = (ROOT / "docs" / "instruments.md").read_text(encoding="utf-8").removesuffix("\n")
    yield HEARTBEATS.sub(lambda m: m[1] + "\n".join(_heartbeats()) + "\n\n", page)


def library() -> Iterator[str]:
    yield "# The profiles that ship\n"
    yield f"{MADE}\n"
    yield "By class and maker, with what was verified, on what and by whom. Each has a page on the"
    yield "site: every command, its limits, and what it sends."
    yield "`edged profile docs KEY` is a page to hold against the manual in ten minutes:"
    yield "all that it sends beside what it says. What you tried yourself (`edged profile test`) is"
    yield "listed by `edged profile docs --output DIR`, and told by list_profiles. Yours is not"
    yield "here: [import it](import.md), or [write it](add-your-instrument.md)."
    place = ROOT / "profiles"
    profiles = tuple(load_library([place]).profiles.values())
    # On the site its page is linked instead (docs/render.py).
    yield from library_lines(profiles, load_reports(place / FOLDER), page="../profiles/{}.yaml")


def _heartbeats() -> Iterator[str]:
    yield "\n| profile | heartbeat | asked | where it stands, or why it is off |\n|---|---|---|---|"
    for key, profile in sorted(load_library([ROOT / "profiles"]).profiles.items()):
        connection = profile.connection
        asked = question_by_heart(connection)
        word = "on" if connection.heartbeat else "off"
        yield f"| {key} | {word} | `{asked}` | {_cell(connection.heartbeat_source)} |"


def _keys(names: Sequence[str]) -> Iterator[str]:
    tables = {table.name: table for table in TABLES}
    for name in names:
        yield f"\n### {name}\n"
        if name in UNIONS:
            yield "One of these:"
            for table in UNIONS[name].values():
                yield f"\n{table.sentence}\n"
                yield from _rows(table)
        else:
            yield f"{tables[name].sentence}\n"
            yield from _rows(tables[name])


def _rows(table: Table[Any]) -> Iterator[str]:
    is_model = dataclasses.is_dataclass(table.model)
    defaults = {
        field.name: field.default for field in (dataclasses.fields(table.model) if is_model else ())
    }
    yield "| key | what stands there | |\n|---|---|---|"
    for key in table.keys.values():
        default = defaults.get(key.field or key.name)
        shown = ""
        if key.is_required:
            shown = "; required"
        elif default and isinstance(default, str | int | float) and default is not True:
            shown = f"; else `{json.dumps(default)}`"
        yield f"| `{key.name}` | {_cell(key.kind.word + shown)} | {_cell(key.sentence)} |"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: Final = MappingProxyType(
    {
        "tools.md": tools,
        "verbs.md": verbs,
        "errors.md": errors,
        "profiles.md": profiles,
        "instruments.md": instruments,
        "library.md": library,
    }
)

MEANINGS: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.BAD_REQUEST: "the message is not a valid request",
        ErrorCode.BAD_ARGUMENTS: "an argument is missing, unknown, of a wrong type or over a bound",
        ErrorCode.BAD_CONFIG: "the configuration cannot be used",
        ErrorCode.UNSUPPORTED_PLATFORM: "edged does not run on this system",
        ErrorCode.BAD_PROFILE: "a profile cannot be used",
        ErrorCode.BAD_SCPI: "this text cannot be sent as SCPI (line ends, quotes, characters)",
        ErrorCode.UNKNOWN_TOOL: "there is no tool of that name",
        ErrorCode.RENAMED_TOOL: "the tool has another name now; the message gives it",
        ErrorCode.UNKNOWN_INSTRUMENT: "there is no instrument of that id, alias or address",
        ErrorCode.UNKNOWN_COMMAND: "the instrument's profile has no such command",
        ErrorCode.UNKNOWN_SEQUENCE: "the instrument's profile has no such sequence",
        ErrorCode.UNKNOWN_SWEEP: "there is no sweep of that id",
        ErrorCode.UNKNOWN_STREAM: "there is no stream of that id",
        ErrorCode.UNKNOWN_POINT: "the stream has no such point, or it was evicted",
        ErrorCode.UNKNOWN_METHOD: "there is no method of that name",
        ErrorCode.UNKNOWN_SESSION: "the session has ended, or never existed: start a new one",
        ErrorCode.UNKNOWN_RUN: "there is no recording of that id",
        ErrorCode.UNKNOWN_LEASE: "the lease that was given does not exist, or has ended",
        ErrorCode.UNKNOWN_APPROVAL: "no approval of that id is waiting",
        ErrorCode.UNKNOWN_RESOURCE: "there is no resource at that URI",
        ErrorCode.NOT_AUTHENTICATED: "the relay's token was not accepted; only the record says why",
        ErrorCode.NOT_ALLOWED: "the caller may not use this tool or scope",
        ErrorCode.DANGEROUS: "what would run is dangerous, and the caller may not do that",
        ErrorCode.REQUIRES_SWEEP: "this command may only be ramped, by start_sweep",
        ErrorCode.LOCKED_OUT: (
            "a person has locked the instrument out; the message gives the reason"
        ),
        ErrorCode.DEAD_MAN: "the timer inside the instrument has switched off, or would not "
        "guard what was asked for; the message says why, and what a person has to do",
        ErrorCode.DENIED_BY_OWNER: "the owner's bench file forbids it",
        ErrorCode.RAW_SCPI_RESTRICTED: "RAW_SCPI does not let this line through",
        ErrorCode.SWEEP_CONFLICT: "a sweep is using this parameter; the message gives its id",
        ErrorCode.INTERLOCK: (
            "the value that an interlock reads is out of its range, or could not be read"
        ),
        ErrorCode.BUDGET: "it was sent as often as the owner allows; the message says until when",
        ErrorCode.LEASED: (
            "another caller has reserved this; the message says who, what for and until when"
        ),
        ErrorCode.NEEDS_APPROVAL: "the owner wants a person's yes, and nobody gave one in time",
        ErrorCode.APPROVAL_DENIED: "a person was asked and said no",
        ErrorCode.BUSY: "the line or the daemon has too much to do",
        ErrorCode.TIMEOUT: "the instrument did not answer in time",
        ErrorCode.DISCONNECTED: "the instrument is not connected now",
        ErrorCode.INSTRUMENT_ERROR: "the instrument reported an error of its own",
        ErrorCode.BAD_ANSWER: "the instrument's answer is not valid",
        ErrorCode.VERIFY_FAILED: "the instrument does not hold what was set",
        ErrorCode.PREEMPTED: "a safe command came first, and ended this",
        ErrorCode.CANCELLED: "the caller cancelled it or disconnected",
        ErrorCode.STEP_FAILED: "a step of a sequence failed; the message says what was sent",
        ErrorCode.STORE_FAILED: "the database cannot be written: writes are refused until it heals",
        ErrorCode.WRAPPER_FAILED: "an SDK wrapper failed, crashed or hung",
        ErrorCode.SDK_MISSING: (
            "the vendor's library of an SDK wrapper is missing; the message says what to install"
        ),
        ErrorCode.RECORDING_FAILED: "the recording cannot be written, or its budget is used up",
        ErrorCode.DRAWING_FAILED: "the picture could not be drawn",
        ErrorCode.BIND_FAILED: (
            "a port is in use or cannot be bound; the message says by which program"
        ),
        ErrorCode.NO_KEYS: (
            "the keys of a token's issuer cannot be fetched now, so it cannot be checked: try again"
        ),
        ErrorCode.NO_ENGINE: "no engine answers",
        ErrorCode.EDGE_FAILED: "an edge of the fleet is not there, or did not answer as it should",
        ErrorCode.INTERNAL: "a bug in edged; its log has the details under the id",
    }
)


if __name__ == "__main__":
    sys.exit(main())
