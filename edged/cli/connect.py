"""``edged connect CLIENT``: the configuration with which a client reaches this bench.

What is to be copied goes to stdout, and nothing else; where to put it to stderr. The address is
the one at which the private network reaches this machine, or 127.0.0.1 where nothing is opened.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from edged.cli.shared.options import add_config_options, load, locate
from edged.config.keys import ListedTools
from edged.config.load import LoadedConfig
from edged.errors import EdgedError, ErrorCode, Invalid
from edged.host import (
    LOOPBACK,
    ExitStatus,
    keep_edge_id,
    netloc_of,
    reached_at,
    read_supervisor_file,
)

__all__ = ["CLIENTS", "ClientTarget", "run"]

TOKEN_VARIABLE: Final = "EDGED_TOKEN"  # noqa: S105 - the name of a variable
CLOSED: Final = "Only programs of this machine reach it: no supervisor has opened the port."
ALONE: Final = "Only programs of this machine reach it: it has no address on a private network now."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTarget:
    """What a client is to be told.

    Attributes:
        name: what the client shall call this bench.
        needs_token: it is the relay's address, which wants a bearer token.
    """

    name: str
    url: str
    needs_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """How one client is configured.

    Attributes:
        write: what is to be copied.
        where: where to put it, a sentence.
    """

    write: Callable[[ClientTarget], str]
    where: str


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged connect", description=__doc__)
    parser.add_argument("client", choices=tuple(CLIENTS), help="what shall reach the bench")
    parser.add_argument("--host", help="the name or address to use, instead of the one found")
    parser.add_argument("--name", default="edged", help="what the client shall call the bench")
    parser.add_argument("--relay", action="store_true", help="by the relay, with a token")
    parser.add_argument(
        "--tools", choices=[each.value for each in ListedTools], help="which tools it is to list"
    )
    parser.add_argument(
        "--instrument",
        action="append",
        default=[],
        metavar="NAME",
        help="list only this one's tools: alias, id or serial number; may be said more than once",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    add_config_options(parser, ["--state-dir"])
    options = parser.parse_args(arguments)
    loaded = load(options)
    target, remark = _relayed(loaded, options) if options.relay else _direct(loaded, options)
    target = replace(target, url=target.url + query_of(options.tools, options.instrument))
    client = CLIENTS[options.client]
    if options.json:
        told = {"client": options.client, "url": target.url, "configuration": client.write(target)}
        print(json.dumps({**told, "where": client.where, "remark": remark}))
        return ExitStatus.OK
    print(client.where, file=sys.stderr)
    print(client.write(target))
    if remark:
        print(remark, file=sys.stderr)
    return ExitStatus.OK


def query_of(tools: str | None, instruments: Sequence[str]) -> str:
    """What is put behind the URL of a client that chooses its tools; empty where it does not."""
    chosen = {"tools": tools, "instrument": ",".join(instruments)}
    query = urlencode({key: value for key, value in chosen.items() if value}, safe=",:")
    return f"?{query}" if query else ""


def why_loopback(bound: Sequence[str]) -> str:
    """Why no other machine is told of an address."""
    return ALONE if bound else CLOSED


def _direct(loaded: LoadedConfig, options: argparse.Namespace) -> tuple[ClientTarget, str]:
    port, path = loaded.config.mcp_port, loaded.config.mcp_path
    state_dir, remark = loaded.config.state_dir, ""
    try:
        engine = locate(loaded)
        state_dir, port = engine.path.parent, engine.mcp_port or port
    except EdgedError:
        remark = "No engine is running now; this is by the configuration."
    bound = read_supervisor_file(state_dir).get("addresses", ())
    host = options.host or reached_at(bound)
    if host == LOOPBACK and not remark:
        remark = why_loopback(bound)
    return ClientTarget(name=options.name, url=f"http://{netloc_of(host, port)}{path}"), remark


def _relayed(loaded: LoadedConfig, options: argparse.Namespace) -> tuple[ClientTarget, str]:
    config = loaded.config
    if not config.relay_url:
        raise Invalid(
            "RELAY_URL is not set: there is no relay to connect by.",
            code=ErrorCode.BAD_CONFIG,
            remedy="docs/relay.md shows what the relay needs.",
        )
    edge_id = keep_edge_id(config.state_dir, config.edge_id or "")
    url = f"{config.relay_url.rstrip('/')}/mcp/{edge_id}"
    remark = f"Put a token into {TOKEN_VARIABLE}; it lives five minutes at most."
    return ClientTarget(name=options.name, url=url, needs_token=True), remark


def _claude(target: ClientTarget) -> str:
    words = ["claude", "mcp", "add", "--transport", "http", target.name, target.url]
    command = shlex.join(words)
    if target.needs_token:
        command += f' --header "Authorization: Bearer ${TOKEN_VARIABLE}"'
    return command


def _mcp_servers(target: ClientTarget, variable: str, *, is_typed: bool) -> str:
    entry: dict[str, Any] = {"type": "http"} if is_typed else {}
    entry["url"] = target.url
    if target.needs_token:
        entry["headers"] = {"Authorization": f"Bearer {variable}"}
    return json.dumps({"mcpServers": {target.name: entry}}, indent=2)


def _cursor(target: ClientTarget) -> str:
    return _mcp_servers(target, f"${{env:{TOKEN_VARIABLE}}}", is_typed=False)


def _json(target: ClientTarget) -> str:
    return _mcp_servers(target, f"${{{TOKEN_VARIABLE}}}", is_typed=True)


def _vscode(target: ClientTarget) -> str:
    entry: dict[str, Any] = {"type": "http", "url": target.url}
    told: dict[str, Any] = {"servers": {target.name: entry}}
    if target.needs_token:
        entry["headers"] = {"Authorization": "Bearer ${input:edged-token}"}
        asked = {"type": "promptString", "id": "edged-token", "description": "Token for edged"}
        told["inputs"] = [{**asked, "password": True}]
    return json.dumps(told, indent=2)


def _pyvisa(target: ClientTarget) -> str:
    lines = f'import pyvisa\nrm = pyvisa.ResourceManager("{target.url}@edged")'
    if target.needs_token:
        lines += (
            f"\n# The program's environment: what goes as Authorization: Bearer ${TOKEN_VARIABLE}"
        )
    return lines


CLIENTS: Final[Mapping[str, Client]] = MappingProxyType(
    {
        "claude": Client(
            write=_claude,
            where="Claude Code: run this in a shell. (`edged connect json` is what a project's "
            ".mcp.json holds.)",
        ),
        "cursor": Client(
            write=_cursor,
            where="Cursor: put this into ~/.cursor/mcp.json, or .cursor/mcp.json of a project.",
        ),
        "vscode": Client(
            write=_vscode,
            where="VS Code: put this into .vscode/mcp.json of a workspace, or into the file that "
            "`MCP: Open User Configuration` opens.",
        ),
        "json": Client(
            write=_json,
            where="The form most clients take, .mcp.json of Claude Code among them.",
        ),
        "pyvisa": Client(
            write=_pyvisa,
            where="PyVISA programs and notebooks: `pip install pyvisa-edged` where they run, and "
            "these two lines in place of their own (docs/visa.md).",
        ),
    }
)
