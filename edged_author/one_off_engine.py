"""An engine for one errand: on one address or a simulation, with a state of its own, then gone.

For verbs that must talk to an instrument when no engine has it. It is the whole daemon as a child
process, without MCP and without discovery, so that nothing is done here in another way than there:
the owner's bench file and every check hold, and the instrument is let go of properly at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edged.clock import Clock
from edged.errors import EdgedError, ErrorCode, Failed
from edged.surfaces.rpc.client import RpcClient, find_engine

READY_WITHIN_S: Final = 60.0
MET_WITHIN_S: Final = 30.0
END_WITHIN_S: Final = 8.0
LOOK_S: Final = 0.05
MAX_LOG_BYTES: Final = 64 * 1024


@contextlib.contextmanager
def errand_engine(
    settings: Mapping[str, Any], *, clock: Clock, arguments: Sequence[str] = ()
) -> Iterator[RpcClient]:
    """An engine that runs until the context ends.

    Args:
        settings: configuration keys besides those that make it one for an errand.
        clock: for the deadline.
        arguments: what follows ``edged engine``, such as ``--sim``.

    Raises:
        Failed: NO_ENGINE, it did not get ready; with its last words.
    """
    with tempfile.TemporaryDirectory(prefix="edged-errand-", ignore_cleanup_errors=True) as place:
        directory = Path(place).resolve()
        configuration = {
            "LOG_FORMAT": "console",
            "LOG_LEVEL": "warning",
            **settings,
            "MCP_ENABLED": False,
            "RPC_PORT": 0,
            "DISCOVERY": [],
            "STATE_DIR": str(directory / "state"),
            "DATA_DIR": str(directory / "data"),
        }
        file = directory / "edged.yaml"
        # JSON is YAML, and a value that JSON has written needs no quoting rules.
        lines = (f"{key}: {json.dumps(value)}\n" for key, value in configuration.items())
        file.write_text("".join(lines), encoding="utf-8")
        command = [sys.executable, "-m", "edged", "engine", "--config", str(file), *arguments]
        log = directory / "engine.log"
        with log.open("wb") as words:
            process = subprocess.Popen(  # noqa: S603 - our own module and interpreter
                command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=_environment()
            )
        try:
            yield _ready(process, directory / "state", log, clock)
        finally:
            _end(process)


def registered(client: RpcClient, address: str, clock: Clock) -> dict[str, Any]:
    """What the engine says of the instrument at its one address, as soon as somebody answers.

    Raises:
        Failed: DISCONNECTED, nobody does; the reason is the engine's.
    """
    deadline = clock.monotonic() + MET_WITHIN_S
    reason = "It did not answer in time."
    while clock.monotonic() < deadline:
        listed = client.call_tool("list_instruments").value
        if listed:
            found: dict[str, Any] = listed[0]
            return found
        aside = client.call_tool("get_status").value["set_aside"]
        if aside:
            reason = str(aside[0]["reason"])
        if any(place["is_set_aside"] for place in aside):
            break
        threading.Event().wait(LOOK_S)
    raise Failed(
        f"No instrument answered at {address}: {reason}",
        code=ErrorCode.DISCONNECTED,
        data={"address": address},
        remedy="Check the address, the cable, and whether another program holds the instrument.",
    )


def _environment() -> dict[str, str]:
    """Without the configuration of the engine that is usual here; all of it is in the file."""
    return {name: value for name, value in os.environ.items() if not name.startswith("EDGED_")}


def _ready(process: subprocess.Popen[bytes], state_dir: Path, log: Path, clock: Clock) -> RpcClient:
    deadline = clock.monotonic() + READY_WITHIN_S
    while process.poll() is None and clock.monotonic() < deadline:
        with contextlib.suppress(EdgedError):
            engine = find_engine([state_dir])
            if engine.pid == process.pid:
                return RpcClient(engine, token=None)
        threading.Event().wait(LOOK_S)
    words = log.read_bytes()[-MAX_LOG_BYTES:].decode("utf-8", "replace").strip()
    last = words.splitlines()[-1] if words else "it said nothing"
    raise Failed(f"The temporary engine did not start in time: {last}", code=ErrorCode.NO_ENGINE)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
