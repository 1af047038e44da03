"""Checks of what listens: the engine, its MCP endpoint, its RPC and HiSLIP ports, who reaches them.

The check of the relay route: its settings, the connection to it, and its issuer's keys.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import psutil

from edged import __version__
from edged.config.keys import VisaServer
from edged.doctor.facts import Facts
from edged.doctor.report import CheckLine, fail, passed, skip, warn
from edged.errors import EdgedError, ErrorCode, connection_trouble
from edged.host import LOOPBACK, netloc_of, reached_at, read_supervisor_file
from edged.protocol.hislip import (
    HEADER,
    VERSION_1_0,
    HislipFatal,
    MessageType,
    message,
    read_header,
)
from edged.service import lock_holder

ANSWER_S: Final = 5.0
MAX_ANSWER_BYTES: Final = 1024 * 1024
INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "edged doctor", "version": __version__},
    },
}
AGAIN: Final = "Run `edged doctor` again in some seconds; if it stays so, look at the engine's log."
START_IT: Final = "Start it: `edged engine`, or the service edged."
LOOK: Final = "Look at its log."
VENDOR: Final = int.from_bytes(b"ED", "big")


def check_engine(facts: Facts) -> CheckLine:
    """Whether one runs, and which."""
    if facts.engine is None and facts.unreachable is not None:
        return fail(facts.unreachable.message, facts.unreachable.remedy)
    if starting := _starting(facts):
        return warn(f"{starting}.", AGAIN)
    if facts.engine is None:
        return fail(f"No engine works with {facts.config.state_dir}.", START_IT)
    pid = facts.engine.pid
    if not facts.is_answering:
        if not psutil.pid_exists(pid):
            return fail(f"The engine with PID {pid} has died.", START_IT)
        why, remedy = "no reason", LOOK
        if facts.unreachable is not None:
            why = facts.unreachable.message
            remedy = _remedy(facts.unreachable, otherwise=LOOK)
        return fail(f"An engine with PID {pid} does not answer: {why}", remedy)
    uptime_s = round(facts.status.get("uptime_s", 0))
    told = f"PID {pid}, edged {facts.version}, up for {uptime_s} s."
    if facts.version != __version__:
        return warn(told, f"This program is edged {__version__}: restart the engine after updates.")
    return passed(told)


def check_mcp(facts: Facts) -> CheckLine:
    """Whether the MCP endpoint answers a real initialize."""
    config = facts.config
    told = facts.status.get("mcp", {})
    # A flag or the environment of the engine may say otherwise than the file that is read here.
    if not told.get("enabled", config.mcp_enabled):
        by = " in the running engine" if config.mcp_enabled else ""
        return skip(f"MCP_ENABLED is false{by}: nothing is bound.")
    port = _mcp_port(facts)
    if not port:
        return _unbound(config.mcp_port, str(told.get("error", "")), facts)
    path = told.get("path") or (facts.engine and facts.engine.facts.get("mcp_path"))
    path = str(path or config.mcp_path)
    place = f"{LOOPBACK}:{port}{path}"
    problem, revision = _initialize(port, path)
    if problem:
        return fail(f"{place} does not answer initialize: {problem}.", "Look at the engine's log.")
    page = told.get("page", "off")
    shown = ""
    if page != "off":
        bound = read_supervisor_file(config.state_dir).get("addresses", ())
        host = reached_at(bound)
        shown = f" Its page is http://{netloc_of(host, port)}/bench ({page})."
    return passed(f"{place} answered initialize with revision {revision}.{shown}")


def _mcp_port(facts: Facts) -> int | None:
    """Where the engine listens: by its own word, or by its file while it lives but does not talk.

    An engine that wants a token of its RPC callers may tell nothing there, and serve MCP.
    """
    if facts.is_answering:
        return facts.status.get("mcp", {}).get("port") or None
    if facts.engine is None or not psutil.pid_exists(facts.engine.pid):
        return None
    return facts.engine.mcp_port


def _remedy(unreachable: EdgedError, *, otherwise: str) -> str:
    """The token is what its user can give; the rest is a matter of the engine."""
    is_token = unreachable.code is ErrorCode.NOT_AUTHENTICATED
    return unreachable.remedy if is_token else otherwise


def _unbound(port: int, error: str, facts: Facts) -> CheckLine:
    holder = facts.stranger_at(port)
    again = f"the engine tries again every {facts.config.rescan_interval_sec} s"
    if holder:
        return fail(
            f"Port {port} is held by another program: {holder}.",
            f"Stop that program: {again}. Or set MCP_PORT to another port and restart the engine."
            if facts.is_answering
            else "Stop that program, or set MCP_PORT to another port, and start the engine.",
        )
    if facts.is_answering:
        why = error or "It does not say why."
        return fail(f"The engine does not listen for MCP: {why}", f"Correct that: {again}.")
    if starting := _starting(facts):
        return warn(f"{starting}, and does not listen for MCP yet.", AGAIN)
    if facts.engine is not None and psutil.pid_exists(facts.engine.pid):
        return warn(
            f"The engine with PID {facts.engine.pid} listens for MCP nowhere, and could not be "
            "asked why.",
            facts.unreachable.remedy if facts.unreachable is not None else LOOK,
        )
    return skip("No engine runs; the port is free." if port else "No engine runs.")


def _starting(facts: Facts) -> str:
    """Who is about to serve this state directory; empty where the engine is up, or nobody is."""
    if facts.is_answering or (facts.engine and psutil.pid_exists(facts.engine.pid)):
        return ""
    holder = lock_holder(facts.config.state_dir)
    if holder:
        return f"The engine with PID {holder} is starting"
    supervisor = read_supervisor_file(facts.config.state_dir).get("pid")
    if supervisor:
        return f"The supervisor with PID {supervisor} is starting the engine"
    return ""


def _initialize(port: int, path: str) -> tuple[str, str]:
    """What went wrong, or the revision that was answered. The session is ended again."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=ANSWER_S)
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    try:
        connection.request("POST", path, json.dumps(INITIALIZE).encode(), headers)
        response = connection.getresponse()
        body = response.read(MAX_ANSWER_BYTES)
        if response.status != 200:
            return f"HTTP {response.status}", ""
        revision = str(_message(body)["result"]["protocolVersion"])
        if session := response.getheader("Mcp-Session-Id"):
            connection.request("DELETE", path, headers={"Mcp-Session-Id": session})
            connection.getresponse().read(MAX_ANSWER_BYTES)
    except OSError as error:
        return connection_trouble(error), ""
    except http.client.HTTPException:
        return "the answer is no HTTP", ""
    except (ValueError, KeyError, TypeError):
        return "the answer is no MCP", ""
    finally:
        connection.close()
    return "", revision


def _message(body: bytes) -> Any:
    """The answer, plain or as the first event of a stream."""
    for line in body.splitlines():
        if line.startswith(b"data:") and b"{" in line:
            return json.loads(line[5:])
    return json.loads(body)


def check_rpc(facts: Facts) -> CheckLine:
    """Whether the RPC port answers."""
    if facts.engine is None:
        port = facts.config.rpc_port
        holder = facts.stranger_at(port)
        if holder:
            return fail(
                f"RPC port {port} is held by another program: {holder}.",
                "Stop that program, or set RPC_PORT to another port.",
            )
    if starting := _starting(facts):
        return warn(f"{starting}.", AGAIN)
    if facts.engine is None:
        return skip("No engine runs.")
    if not facts.engine.rpc_port and facts.unreachable is not None:
        return fail(facts.unreachable.message, facts.unreachable.remedy)
    place = f"{LOOPBACK}:{facts.engine.rpc_port}"
    if facts.unreachable is not None:
        remedy = _remedy(facts.unreachable, otherwise=START_IT)
        return fail(f"{place}: {facts.unreachable.message}", remedy)
    guard = "with its token" if facts.config.inbound_auth_token else "without a token"
    return passed(f"{place} answers, {guard}.")


def check_reach(facts: Facts) -> CheckLine:
    """From where the MCP port can be reached, by what really listens."""
    port = _mcp_port(facts) or facts.config.mcp_port
    try:
        addresses = {
            connection.laddr.ip
            for connection in psutil.net_connections(kind="tcp")
            if connection.status == psutil.CONN_LISTEN
            and connection.laddr
            and connection.laddr.port == port
        }
    except (psutil.Error, OSError) as error:
        return skip(f"What listens cannot be seen: {error}.")
    if not addresses:
        return skip(f"Nothing listens on port {port}.")
    outside = sorted(address for address in addresses if not address.startswith(("127.", "::1")))
    if not outside:
        return passed(f"Port {port} is open to programs of this machine only.")
    networks = ", ".join(str(network) for network in facts.config.allowed_networks) or "none"
    told = f"Port {port} is open on {', '.join(outside)} to sources in {networks}, without login."
    if any(network.prefixlen == 0 for network in facts.config.allowed_networks):
        return warn(told, "ALLOWED_NETWORKS lets everybody in; name your own networks.")
    return passed(f"{told} `edged expose` says more.")


def check_relay(facts: Facts) -> CheckLine:
    """The relay route, its connection, and its issuer's keys."""
    config = facts.config
    settings = {
        "RELAY_NATS_URL": config.relay_nats_url,
        "RELAY_ISSUER": config.relay_issuer,
        "RELAY_JWKS_URL": config.relay_jwks_url,
    }
    if not any(settings.values()):
        return skip("The relay route is not configured.")
    missing = [name for name, value in settings.items() if not value]
    if missing:
        return fail(f"{', '.join(missing)} is not set.", "The relay route needs all of them.")
    if not facts.is_answering:
        return skip("No engine answers.")
    told = facts.status.get("relay", {})
    return _of_keys(facts, told.get("jwks") or {}) or _of_link(facts, told)


def _of_keys(facts: Facts, jwks: Mapping[str, Any]) -> CheckLine | None:
    """What is wrong with the issuer's keys, if anything is."""
    if not jwks.get("error"):
        return None
    verdict = warn if jwks.get("keys") else fail
    return verdict(
        f"{facts.config.relay_jwks_url}: {jwks['error']}; {jwks.get('keys', 0)} keys are cached.",
        "Make it reachable from here; cached keys serve for 24 hours.",
    )


def _of_link(facts: Facts, told: Mapping[str, Any]) -> CheckLine:
    link: Mapping[str, Any] = told.get("link") or {}
    state, jwks = link.get("state", "off"), told.get("jwks") or {}
    since = f" since {_utc(link['since_ms'])}" if link.get("since_ms") else ""
    if state != "connected":
        why = f": {link['last_error']}" if link.get("last_error") else "."
        return warn(
            f"The connection to {_shown(facts.config.relay_nats_url)} is {state}{since}{why}",
            "Look whether `edged supervisor` runs, the server is reachable, and "
            "RELAY_CREDENTIALS and RELAY_CA_FILE are those of this edge.",
        )
    if not jwks.get("keys"):
        return passed(f"Connected{since}; keys are fetched with the first token.")
    age = f"{jwks['keys']} keys of {facts.config.relay_issuer}, {jwks.get('age_s')} s old"
    return passed(f"Connected{since}; {age}.")


def _shown(url: str | None) -> str:
    """A URL without what stands before @ in it: that may be a password."""
    scheme, separator, rest = (url or "").partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _utc(epoch_ms: int) -> str:
    return f"{datetime.fromtimestamp(epoch_ms / 1000, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def check_telemetry(facts: Facts) -> CheckLine:
    """Whether what the engine's environment asks to export is exported."""
    if not facts.is_answering:
        return skip("No engine answers.")
    told = facts.status.get("telemetry", {})
    if told.get("problem"):
        return warn(str(told["problem"]), "docs/telemetry.md says how to set it up.")
    if not told.get("is_on"):
        return skip("OTEL_EXPORTER_OTLP_ENDPOINT is not set: nothing is exported.")
    return passed(f"Spans and durations go to {told['endpoint']}.")


def check_hislip(facts: Facts) -> CheckLine:
    """Whether programs that know VISA find their server."""
    told: Mapping[str, Any] = facts.status.get("visa", {})
    if not facts.is_answering:
        return skip("No engine answers.")
    if not told.get("enabled"):
        wanted = VisaServer.HISLIP in facts.config.visa_server
        more = " in the running engine" if wanted else ""
        return skip(f"VISA_SERVER does not name hislip{more}: nothing is bound.")
    port = told.get("port")
    if not port:
        wanted_port = facts.config.hislip_port
        holder = facts.stranger_at(wanted_port)
        by = f" It is held by {holder}." if holder else ""
        again = f"the engine tries again every {facts.config.rescan_interval_sec} s"
        return fail(
            f"{told.get('error') or 'The HiSLIP server does not listen.'}{by}",
            f"Stop that program, or set HISLIP_PORT to another port; {again}.",
        )
    names = told.get("names") or ["hislip0"]
    problem = _initialize_hislip(port, str(names[0]))
    if problem:
        return fail(
            f"{LOOPBACK}:{port} does not answer HiSLIP: {problem}.", "Look at the engine's log."
        )
    programs = len(told.get("programs", ()))
    found = (
        f"{LOOPBACK}:{port} answered; {programs} programs are connected, and "
        f"{len(told.get('names', ()))} instruments can be opened."
    )
    if not facts.config.expose_visa:
        return passed(found)
    bound = read_supervisor_file(facts.config.state_dir).get("hislip", {}).get("addresses", ())
    if not bound:
        return warn(
            f"{found} EXPOSE_VISA is true, and no supervisor has opened the port to the network.",
            "Start `edged supervisor`, or the service edged.",
        )
    return passed(f"{found} From the network it is {reached_at(bound)}:{port}.")


def _initialize_hislip(port: int, name: str) -> str:
    """What went wrong. The session is given up again; a refusal with words is an answer, too."""
    first = message(
        MessageType.INITIALIZE, 0, VERSION_1_0 << 16 | VENDOR, name.encode("ascii", "replace")
    )
    try:
        with socket.create_connection((LOOPBACK, port), ANSWER_S) as line:
            line.sendall(first)
            answer = line.makefile("rb").read(HEADER.size)
        kind = read_header(answer).kind if len(answer) == HEADER.size else None
    except OSError as error:
        return connection_trouble(error)
    except HislipFatal:
        return "what answers there is not a HiSLIP server"
    is_answer = kind in {MessageType.INITIALIZE_RESPONSE, MessageType.FATAL_ERROR}
    return "" if is_answer else "it ended the connection"
