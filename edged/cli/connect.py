"""``edged connect CLIENT``: the configuration with which a client reaches this bench.

What is to be copied goes to stdout, and nothing else; where to put it to stderr. The address is
the one at which the private network reaches this machine, or 127.0.0.1 where nothing is opened.
Clients that take few tools are given the short list (``?tools=essential``); ``--tools`` chooses.
"""

# Which clients: the coding agents that lead the surveys of 2026 (The Pragmatic Engineer, February,
# 906 engineers: Claude Code is used most, Cursor and GitHub Copilot follow; State of Web Dev AI,
# 7,258 developers: Claude Code, Codex, GitHub Copilot), Claude Desktop as the chat program, and the
# clients that people ask for most besides. GitHub Copilot is reached by VS Code.

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from edged.cli.shared.options import add_config_options, load, locate
from edged.config.keys import ListedTools
from edged.config.load import LoadedConfig
from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.host import (
    LOOPBACK,
    ExitStatus,
    keep_edge_id,
    netloc_of,
    reached_at,
    read_supervisor_file,
)
from edged.record import record

TOKEN_VARIABLE: Final = "EDGED_TOKEN"  # noqa: S105 - the name of a variable
HEADER_VARIABLE: Final = "EDGED_AUTHORIZATION"
DEFAULT_NAME: Final = "edged"
"""Names of tools leave room for it and for what clients put around it (``profiles.naming``)."""
LONG_NAME: Final = (
    "Clients put this name before that of each tool, and some take 64 characters in all: with a "
    "name longer than edged some tools may be missing."
)
CLOSED: Final = "Only programs of this machine reach it: no supervisor has opened the port."
ALONE: Final = "Only programs of this machine reach it: it has no address on a private network now."


@record
class ClientTarget:
    """What a client is to be told.

    Attributes:
        name: what the client shall call this bench.
        needs_token: it is the relay's address, which wants a bearer token.
    """

    name: str
    url: str
    needs_token: bool = False


@record
class Client:
    """How one client is configured.

    Attributes:
        write: what is to be copied.
        where: where to put it, a sentence.
        tools: the list that fits it; ``None`` leaves it to the bench (TOOLS).
        holds_token: it has no variables, so the token itself must be written into its file.
    """

    write: Callable[[ClientTarget], str]
    where: str
    tools: ListedTools | None = None
    holds_token: bool = False


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged connect", description=__doc__)
    parser.add_argument("client", choices=tuple(CLIENTS), help="the client to configure")
    parser.add_argument("--host", help="the name or address to use, instead of the one found")
    parser.add_argument("--name", default=DEFAULT_NAME, help="the name of the bench in the client")
    parser.add_argument(
        "--relay", action="store_true", help="connect through the relay, with a token"
    )
    parser.add_argument(
        "--tools",
        choices=[each.value for each in ListedTools],
        help="which tools it lists; without it the list that fits the client",
    )
    parser.add_argument(
        "--instrument",
        action="append",
        default=[],
        metavar="NAME",
        help="list only this one's tools: alias, id or serial number; may be given more than once",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    add_config_options(parser, ["--state-dir"])
    options = parser.parse_args(arguments)
    loaded = load(options)
    client = CLIENTS[options.client]
    target, remark = _relayed(loaded, options) if options.relay else _direct(loaded, options)
    if len(options.name) > len(DEFAULT_NAME):
        remark = f"{remark} {LONG_NAME}".strip()
    if target.needs_token and client.holds_token:
        remark = f"Write the token itself instead of ${TOKEN_VARIABLE}; it is valid for 5 minutes."
    tools = options.tools or client.tools
    target = replace(target, url=target.url + query_of(tools, options.instrument))
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
    except EdgedError:
        remark = "No engine is running now; this address comes from the configuration."
    else:
        if not engine.mcp_port:
            raise Failed(
                "The running engine does not listen for MCP.",
                code=ErrorCode.NO_ENGINE,
                remedy="`edged doctor` says why.",
            )
        state_dir, port = engine.path.parent, engine.mcp_port
        path = str(engine.facts.get("mcp_path", path))
    if not port:
        raise Failed(
            "MCP_PORT is 0, and no engine has chosen a port yet.",
            code=ErrorCode.NO_ENGINE,
            remedy="Start edged, then run this again.",
        )
    bound = read_supervisor_file(state_dir).get("addresses", ())
    host = options.host or reached_at(bound)
    if host == LOOPBACK and not remark:
        remark = why_loopback(bound)
    return ClientTarget(name=options.name, url=f"http://{netloc_of(host, port)}{path}"), remark


def _relayed(loaded: LoadedConfig, options: argparse.Namespace) -> tuple[ClientTarget, str]:
    config = loaded.config
    if not config.relay_url:
        raise Invalid(
            "RELAY_URL is not set: there is no relay to connect through.",
            code=ErrorCode.BAD_CONFIG,
            remedy="docs/relay.md shows what the relay needs.",
        )
    edge_id = keep_edge_id(config.state_dir, config.edge_id or "")
    url = f"{config.relay_url.rstrip('/')}/mcp/{edge_id}"
    remark = f"Put a token into {TOKEN_VARIABLE}; it is valid for five minutes at most."
    return ClientTarget(name=options.name, url=url, needs_token=True), remark


def _claude(target: ClientTarget) -> str:
    words = ["claude", "mcp", "add", "--transport", "http", target.name, target.url]
    command = shlex.join(words)
    if target.needs_token:
        command += f' --header "Authorization: Bearer ${TOKEN_VARIABLE}"'
    return command


NOTHING_MORE: Final[Mapping[str, str]] = MappingProxyType({})


def _entry(
    target: ClientTarget, url_key: str, variable: str, more: Mapping[str, str] = NOTHING_MORE
) -> dict[str, Any]:
    """A server as most clients write it; ``variable`` is how theirs stand for a token."""
    entry: dict[str, Any] = {**more, url_key: target.url}
    if target.needs_token:
        entry["headers"] = {"Authorization": f"Bearer {variable}"}
    return entry


def _servers(
    target: ClientTarget,
    key: str,
    url_key: str,
    variable: str,
    more: Mapping[str, str] = NOTHING_MORE,
) -> str:
    entry = _entry(target, url_key, variable, more)
    return json.dumps({key: {target.name: entry}}, indent=2)


def _cursor(target: ClientTarget) -> str:
    return _servers(target, "mcpServers", "url", f"${{env:{TOKEN_VARIABLE}}}")


def _claude_desktop(target: ClientTarget) -> str:
    # "Claude Desktop will not connect to remote servers that are configured directly via
    # claude_desktop_config.json", and a custom connector is reached from Anthropic's cloud, never
    # from this machine (support.claude.com, article 11503834). So a stdio server carries the calls.
    words = ["-y", "mcp-remote", target.url, "--transport", "http-only"]
    if target.url.startswith("http:"):
        # mcp-remote refuses plain HTTP to other machines without it.
        words.append("--allow-http")
    entry: dict[str, Any] = {"command": "npx", "args": words}
    if target.needs_token:
        # No blank in an argument: on Windows npx is started without quoting (mcp-remote's README).
        words += ["--header", f"Authorization:${{{HEADER_VARIABLE}}}"]
        entry["env"] = {HEADER_VARIABLE: f"Bearer ${TOKEN_VARIABLE}"}
    return json.dumps({"mcpServers": {target.name: entry}}, indent=2)


def _windsurf(target: ClientTarget) -> str:
    return _servers(target, "mcpServers", "serverUrl", f"${{env:{TOKEN_VARIABLE}}}")


def _gemini(target: ClientTarget) -> str:
    return _servers(target, "mcpServers", "httpUrl", f"${TOKEN_VARIABLE}")


def _cline(target: ClientTarget) -> str:
    # Without the type Cline takes a URL for one of the older SSE transport.
    typed = {"type": "streamableHttp"}
    return _servers(target, "mcpServers", "url", f"${{env:{TOKEN_VARIABLE}}}", typed)


def _zed(target: ClientTarget) -> str:
    return _servers(target, "context_servers", "url", f"${TOKEN_VARIABLE}")


def _opencode(target: ClientTarget) -> str:
    entry = _entry(target, "url", f"{{env:{TOKEN_VARIABLE}}}", {"type": "remote"})
    return json.dumps({"mcp": {"servers": {target.name: entry}}}, indent=2)


def _codex(target: ClientTarget) -> str:
    # A JSON string without control characters is a TOML one, and a name may hold a dot or a blank.
    name, url = (json.dumps(text, ensure_ascii=False) for text in (target.name, target.url))
    lines = [f"[mcp_servers.{name}]", f"url = {url}"]
    if target.needs_token:
        lines.append(f'bearer_token_env_var = "{TOKEN_VARIABLE}"')
    return "\n".join(lines)


def _json(target: ClientTarget) -> str:
    return _servers(target, "mcpServers", "url", f"${{{TOKEN_VARIABLE}}}", {"type": "http"})


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
        # It looks for tools when it needs them (code.claude.com, MCP, tool search): no limit.
        "claude": Client(
            write=_claude,
            where="Claude Code: run this in a shell. (`edged connect json` is what a project's "
            ".mcp.json holds.)",
        ),
        # It has no limit that is documented, but each tool's schema is part of each conversation.
        "claude-desktop": Client(
            write=_claude_desktop,
            where="Claude Desktop: put this into claude_desktop_config.json (Settings, Developer, "
            "Edit Config), then quit and start it again. It needs Node.js 18 or newer on this "
            "machine, because its file takes local servers only: mcp-remote carries the calls.",
            tools=ListedTools.ESSENTIAL,
            holds_token=True,
        ),
        # 40 tools of all servers together (docs.cursor.com, Model Context Protocol, until 2025).
        # Today's page (cursor.com, MCP) names no number; older versions are in use.
        "cursor": Client(
            write=_cursor,
            where="Cursor: put this into ~/.cursor/mcp.json, or .cursor/mcp.json of a project.",
            tools=ListedTools.ESSENTIAL,
        ),
        # 128 tools in a request, of all servers together (code.visualstudio.com, Use tools).
        "vscode": Client(
            write=_vscode,
            where="VS Code: put this into .vscode/mcp.json of a workspace, or into the file that "
            "`MCP: Open User Configuration` opens.",
            tools=ListedTools.ESSENTIAL,
        ),
        # 100 tools of all servers together (docs.windsurf.com, Cascade, MCP).
        "windsurf": Client(
            write=_windsurf,
            where="Windsurf: put this into ~/.codeium/windsurf/mcp_config.json, and press the "
            "refresh button of its MCP panel.",
            tools=ListedTools.ESSENTIAL,
        ),
        # 512 tools of all servers together in a request (google-gemini/gemini-cli#19083), and 128
        # where its models are reached by Vertex AI (reference of FunctionDeclaration).
        "gemini-cli": Client(
            write=_gemini,
            where="Gemini CLI: put this into ~/.gemini/settings.json, or .gemini/settings.json of "
            "a project.",
            tools=ListedTools.ESSENTIAL,
        ),
        # The functions of an OpenAI request are 128 at most (API reference, tools).
        "codex": Client(
            write=_codex,
            where="Codex: add this to ~/.codex/config.toml.",
            tools=ListedTools.ESSENTIAL,
        ),
        # It writes every tool of every server into its system prompt.
        "cline": Client(
            write=_cline,
            where="Cline: put this into cline_mcp_settings.json (MCP Servers, Configure, Configure "
            "MCP Servers).",
            tools=ListedTools.ESSENTIAL,
        ),
        # No documented limit; what its models take varies, so the short list.
        "zed": Client(
            write=_zed,
            where="Zed: put this into its settings (`zed: open settings file`).",
            tools=ListedTools.ESSENTIAL,
            holds_token=True,
        ),
        # "Certain MCP servers … can easily exceed the context limit" (opencode.ai, MCP servers).
        "opencode": Client(
            write=_opencode,
            where="opencode 2: put this into ~/.config/opencode/opencode.json, or opencode.json of "
            'a project. (opencode 1 has no "servers": the entry stands in "mcp" itself.)',
            tools=ListedTools.ESSENTIAL,
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
