"""``edged call TOOL key=value …``: any tool, with arguments typed by the tool's own schema."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from edged.actions.tool import DRY_RUN
from edged.cli.shared.approval import call_telling
from edged.cli.shared.options import (
    add_dry_run_option,
    add_engine_options,
    connect,
    parse_arguments,
    schema_of_parameters,
)
from edged.cli.shared.output import cell, print_dry_run, print_result, show
from edged.errors import Invalid
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient

EPILOG = """examples:
  edged call list_instruments filter=rigol
  edged call rigol_dp832__set_voltage channel=1 voltage=5
  edged call execute_command instrument_id=psu command_name=set_voltage parameters.voltage=5
"""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status. A call may take as long as the tool does."""
    parser = argparse.ArgumentParser(
        prog="edged call",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tool", help="its name, as tools/list shows it")
    parser.add_argument("words", nargs="*", metavar="key=value", help="key:=JSON takes JSON")
    add_dry_run_option(parser)
    add_engine_options(parser)
    options = parser.parse_intermixed_args(arguments)
    client = connect(options)
    schema = _schema_of(client, options.tool)
    try:
        schema = _with_parameters(client, options.words, schema)
        typed = parse_arguments(options.words, schema)
    except Invalid as error:
        print(f"edged: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    if options.dry_run:
        typed[DRY_RUN] = True
    wanted = {"name": options.tool, "arguments": typed}
    answer = call_telling(client, "tools/call", wanted, timeout_s=options.timeout)
    return show(answer, options, print_dry_run if options.dry_run else print_result)


def _with_parameters(
    client: RpcClient, words: Sequence[str], schema: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The schema, with that of the command or sequence which the words name inside of it."""
    if schema is None or not any(word.startswith("parameters.") for word in words):
        return schema
    named = parse_arguments([word for word in words if not word.startswith("parameters.")], schema)
    for field, of in {"command_name": "commands", "sequence_name": "sequences"}.items():
        if field in named and "instrument_id" in named:
            inner = schema_of_parameters(client, named["instrument_id"], named[field], of=of)
            if inner is not None:
                return {**schema, "properties": {**schema["properties"], "parameters": inner}}
    return schema


def _schema_of(client: RpcClient, name: str) -> Mapping[str, Any] | None:
    """The tool's input schema; None for a name that is not listed, which the engine answers."""
    for tool in client.call("tools/list")["tools"]:
        if tool["name"] == name:
            schema: Mapping[str, Any] = tool["input_schema"]
            return schema
    return None


def scpi(arguments: Sequence[str]) -> int:
    """Run ``edged scpi``; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged scpi",
        description="``edged scpi INSTRUMENT LINE``: one raw SCPI line. A query's answer is "
        "printed as it came.",
    )
    parser.add_argument("instrument", help="id or alias, as `edged instruments` shows it")
    parser.add_argument("line", help="for example '*IDN?'")
    parser.add_argument(
        "--expect-answer",
        action="store_true",
        help="wait for an answer although the line has no ?",
    )
    add_dry_run_option(parser)
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    asked: dict[str, Any] = {"instrument_id": options.instrument, "scpi_command": options.line}
    if options.expect_answer:
        asked["expect_answer"] = True
    if options.dry_run:
        asked = {**asked, DRY_RUN: True}
    answer = call_telling(connect(options), "send_scpi", asked, timeout_s=options.timeout)
    return show(answer, options, print_dry_run if options.dry_run else _print_response)


def _print_response(result: dict[str, Any]) -> None:
    if result.get("response") is not None:
        print(cell(result["response"], limit=1_000_000))
    if result.get("warning"):
        print(cell(result["warning"], limit=1_000_000), file=sys.stderr)
