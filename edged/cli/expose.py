"""``edged expose``: who can reach this bench, by which address, and what would close it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edged.cli.shared.options import add_config_options, load
from edged.cli.shared.output import print_table
from edged.config.keys import VisaServer
from edged.config.load import Config
from edged.files import read_bytes
from edged.host import is_private, machine_addresses, read_supervisor_file
from edged.service import relay_link
from edged.supervisor.proxy import wanted_addresses

COLUMNS = {
    "address": "address",
    "port": "port",
    "open": "open",
    "reached_by": "reached by",
}
WILDCARD = "0.0.0.0"  # noqa: S104 - what EXPOSE: any listens on


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged expose", description=__doc__)
    add_config_options(parser, ["--state-dir"])
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(arguments)
    config = load(options).config
    told = _report(config)
    if options.json:
        print(json.dumps(told))
        return 0
    print_table(told["listeners"], COLUMNS)
    print()
    for sentence in told["sentences"]:
        print(sentence)
    return 0


def _report(config: Config) -> dict[str, Any]:
    supervisor = read_supervisor_file(config.state_dir)
    engine = _read(config.state_dir / "engine.json")
    port = supervisor.get("port") or engine.get("mcp_port") or config.mcp_port
    listeners = _listeners(config, port, is_open=bool(engine.get("mcp_port")), carried=supervisor)
    if VisaServer.HISLIP in config.visa_server:
        carried = supervisor.get("hislip", {})
        port = carried.get("port") or engine.get("hislip_port") or config.hislip_port
        is_open = bool(engine.get("hislip_port"))
        listeners += _listeners(
            config, port, is_open=is_open, carried=carried, is_exposed=config.expose_visa
        )
    return {"listeners": listeners, "sentences": _sentences(config, supervisor)}


def _listeners(
    config: Config,
    port: int,
    *,
    is_open: bool,
    carried: Mapping[str, Any],
    is_exposed: bool = True,
) -> list[dict[str, Any]]:
    """Of one port: on loopback, and where the supervisor carries it, or would."""
    bound = set(carried.get("addresses", ()))
    wanted = wanted_addresses(
        machine_addresses(), config.expose if is_exposed else (), is_port_shared=True
    )
    loopback = {
        "address": "127.0.0.1",
        "port": port,
        "open": is_open,
        "reached_by": "programs of this machine",
    }
    return [
        loopback,
        *(
            {
                "address": address,
                "port": port,
                "open": address in bound,
                "reached_by": _reached_by(address),
            }
            for address in sorted(wanted | bound)
        ),
    ]


def _reached_by(address: str) -> str:
    if address == WILDCARD:
        return "every network this machine is on, within ALLOWED_NETWORKS"
    return "its private network" if is_private(address) else "its network"


def _sentences(config: Config, supervisor: dict[str, Any]) -> list[str]:
    networks = ", ".join(str(network) for network in config.allowed_networks) or "none"
    tools = "every tool" if config.direct_tools_allow is None else "the tools of DIRECT_TOOLS_ALLOW"
    danger = "dangerous ones too" if config.direct_danger_allow else "no dangerous ones"
    said = [f"Source addresses that are accepted (ALLOWED_NETWORKS): {networks}."]
    if not supervisor:
        said.append("No supervisor is running: only programs of this machine reach the bench.")
    said.append(f"Clients there can call {tools}, {danger}, without a password.")
    if VisaServer.HISLIP in config.visa_server:
        who = "programs of this machine" if not config.expose_visa else "the same sources"
        said.append(
            f"The HiSLIP port is open to {who} (EXPOSE_VISA): they may do what send_scpi may."
        )
    if config.relay_nats_url and config.relay_issuer:
        said.append(
            f"By the relay {config.relay_url or config.relay_nats_url}: whoever holds a token of "
            f"{config.relay_issuer}, within what it allows. The connection to it is "
            f"{relay_link(supervisor)['state']}."
        )
    else:
        said.append("The relay route is off.")
    said.append(
        "To close it to all other machines set EXPOSE: []; DIRECT_DANGER_ALLOW: false only forbids "
        "dangerous tools."
    )
    return said


def _read(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(read_bytes(path))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}
