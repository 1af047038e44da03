"""What the checks look at, gathered once: the configuration, and what a running engine tells."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from edged.config.load import Config
from edged.errors import EdgedError
from edged.host import port_holder, read_supervisor_file
from edged.profiles.bench_file import SeenUnit, seen_units
from edged.profiles.library import ProfileLibrary
from edged.profiles.library_cache import read_library
from edged.record import record
from edged.surfaces.rpc.client import EngineFile, RpcClient

ANSWER_S: Final = 10.0


@record
class Facts:
    """What is known before the first check.

    Attributes:
        origins: key → where its value came from.
        complaint: why there is no configuration; ``config`` is then the default one.
        engine: what a running engine, or one that was killed, left in its state directory.
        unreachable: why the engine could not be asked.
        status: get_status of the engine, empty when it could not be asked.
        instruments: its list_instruments.
        tools: its tools/list over RPC.
        seen: every unit that the engine has met; ``None`` when it could not be asked.
        library: the profiles of PROFILE_DIRS, read once for all checks.
        devices: where the kernel lists USB devices; a test has its own.
    """

    config: Config
    origins: Mapping[str, str] = field(default_factory=dict)
    complaint: EdgedError | None = None
    engine: EngineFile | None = None
    unreachable: EdgedError | None = None
    version: str = ""
    status: Mapping[str, Any] = field(default_factory=dict)
    instruments: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    seen: Sequence[SeenUnit] | None = None
    library: ProfileLibrary | None = None
    devices: Path = Path("/sys/bus/usb/devices")

    @property
    def is_answering(self) -> bool:
        """The engine runs and could be asked."""
        return bool(self.status)

    def stranger_at(self, port: int) -> str:
        """Who listens on a port and belongs neither to the engine nor to its supervisor."""
        ours = {
            read_supervisor_file(self.config.state_dir).get("pid", 0),
            self.engine.pid if self.engine is not None else 0,
        }
        return port_holder(port, besides=ours) if port else ""


def gather(
    config: Config,
    *,
    origins: Mapping[str, str],
    complaint: EdgedError | None,
    engine: EngineFile | None,
) -> Facts:
    """Ask the engine, if there is one."""
    known: dict[str, Any] = {
        "config": config,
        "origins": origins,
        "complaint": complaint,
        "engine": engine,
        "library": read_library(config.profile_dirs, config.state_dir),
    }
    if engine is None:
        return Facts(**known)
    client = RpcClient(
        engine, token=config.inbound_auth_token, timeout_s=ANSWER_S, program="edged doctor"
    )
    try:
        version = client.call("version")["version"]
        # Has the store write what waits: a disk that hangs shows only when it is written to.
        with contextlib.suppress(EdgedError):
            client.call("audit.list", {"limit": 1})
        status = client.call_tool("get_status").value
        instruments = client.call_tool("list_instruments").value
        tools = client.call("tools/list")["tools"]
        seen = seen_units(client.call("discovery")["seen"])
    except EdgedError as unreachable:
        return Facts(**known, unreachable=unreachable)
    return Facts(
        **known, version=version, status=status, instruments=instruments, tools=tools, seen=seen
    )
