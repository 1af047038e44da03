"""The options that verbs share, and what comes of them: a configuration, a connection.

Every verb takes ``--config`` and ``--set KEY=VALUE``; one that talks to an engine takes
``--state-dir``, ``--json`` and ``--timeout`` besides.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from edged.cli.quantities import seconds
from edged.config import LoadedConfig, load_config, this_machine
from edged.errors import ErrorCode, Invalid
from edged.surfaces.rpc.client import EngineFile, RpcClient, find_engine

__all__ = [
    "add_config_options",
    "add_engine_options",
    "connect",
    "load",
    "locate",
    "this_user",
]

# Flags with a name of their own; every other key is reached by --set.
KEY_FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "--mcp-port": "MCP_PORT",
        "--rpc-port": "RPC_PORT",
        "--state-dir": "STATE_DIR",
        "--log-level": "LOG_LEVEL",
    }
)


def add_config_options(parser: argparse.ArgumentParser, names: Sequence[str] = ()) -> None:
    """``--config``, ``--set``, and those of ``KEY_FLAGS`` that are named."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="read this file instead of the machine's own"
    )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a configuration key (docs/configuration.md), as often as needed",
    )
    for flag in names:
        parser.add_argument(flag, metavar="VALUE", help=f"the same as --set {KEY_FLAGS[flag]}=…")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """What every verb takes that talks to a running engine."""
    add_config_options(parser, ["--state-dir"])
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", help="how long to wait for the answer"
    )


def load(options: argparse.Namespace, *, is_simulated: bool = False) -> LoadedConfig:
    """The configuration under these options; warnings about it go to standard error.

    Raises:
        Invalid: BAD_CONFIG, UNSUPPORTED_PLATFORM.
    """
    flags = [_split(setting) for setting in options.settings]
    given = vars(options)
    for flag, key in KEY_FLAGS.items():
        value = given.get(flag.removeprefix("--").replace("-", "_"))
        if value is not None:
            flags.append((key, value, flag))
    loaded = load_config(
        places=this_machine(),
        environ=os.environ,
        file=options.config,
        flags=flags,
        is_simulated=is_simulated,
    )
    for warning in loaded.warnings:
        print(f"edged: {warning}", file=sys.stderr)
    return loaded


def locate(loaded: LoadedConfig) -> EngineFile:
    """The running engine: in the configured state directory, else wherever this machine keeps it.

    Raises:
        Failed: NO_ENGINE.
    """
    if loaded.origins["STATE_DIR"] != "default":
        return find_engine([loaded.config.state_dir])
    return find_engine(this_machine().state_dirs)


def connect(options: argparse.Namespace) -> RpcClient:
    """A client for the running engine.

    Raises:
        Invalid: the configuration cannot be used.
        Failed: NO_ENGINE.
    """
    loaded = load(options)
    engine = locate(loaded)
    token = loaded.config.inbound_auth_token
    if options.timeout is None:
        return RpcClient(engine, token=token)
    return RpcClient(engine, token=token, timeout_s=options.timeout)


def this_user() -> str:
    """Who says so, where nobody is named."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "somebody at the edge"


def _split(setting: str) -> tuple[str, str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise Invalid(
            f"--set {setting}: there is no = in it.",
            code=ErrorCode.BAD_CONFIG,
            remedy="Write --set KEY=VALUE.",
        )
    return key.strip(), value, f"--set {key.strip()}"
