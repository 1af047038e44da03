"""A running engine as a test meets it, here in this process or in one of its own.

``running_engine`` is what a test uses: the engine and its simulated bench live on one event loop,
in a thread of this process, and start in a fifth of a second. A test of signals, kills, exit
statuses, environments or memory takes ``engine_process`` instead (``engine_process.py``).

Both wait until engine.json names the ports and every address has answered or not, and both have
ended when their context has. What an engine logs stays in ``engine.log``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
import structlog

from edged.cli.engine import read
from edged.clock import SystemClock
from edged.config.keys import LogFormat, LogLevel
from edged.config.load import Config
from edged.engine import engine as engine_module
from edged.engine.life import first_aid
from edged.engine.sim_child import SimChild
from edged.log import set_up_logging
from edged.runs.left_work import LeftWork
from edged.service import StateLock, lock_data
from edged_sim.program import read_options, serving
from tests.bench.hosted import hosted
from tests.bench.waiting import HANGS_S, first, wait_for

ANSWERED_WITHIN_S = HANGS_S
SILENT = "did not answer in time"
POLL_S = 0.02
TRYING = "trying"


@dataclass(slots=True, kw_only=True)
class Engine:
    """How to reach one. Every call is synchronous and bounded."""

    state_dir: Path
    log: Path
    ports: dict[str, Any]
    token: str = ""

    @property
    def mcp_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['mcp_port']}{self.ports['mcp_path']}"

    @property
    def rpc_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['rpc_port']}/rpc"

    def rpc(self, method: str, **params: Any) -> Any:
        """One RPC call; raises AssertionError on a JSON-RPC error."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.rpc_url, body.encode(), headers)
        with urllib.request.urlopen(request, timeout=HANGS_S) as answer:
            reply = json.load(answer)
        assert "error" not in reply, reply
        return reply["result"]

    def tool(self, name: str, **arguments: Any) -> Any:
        """One tool call over RPC: {is_error, result, error?}."""
        return self.rpc("tools/call", name=name, arguments=arguments)

    def stop_all(self) -> Any:
        """The result of bench__stop_all, once each unit has answered it.

        Its answer comes within a second, and names those that are still being tried. On a machine
        that is slower than that they are asked about again.
        """

        def answered() -> Any:
            # Another stop would begin anew with those that are under way.
            wait_for(lambda: not self.tool("get_status")["result"]["stopping"])
            told = self.tool("bench__stop_all")["result"]
            units = [*told["instruments"], *told["wrappers"]]
            return None if any(unit["state"] == TRYING for unit in units) else told

        return first(answered)

    def tidy(self) -> None:
        """Remove faults of the simulated bench, and lockouts and leases; end what runs."""
        if self.ports["sim_control_port"]:
            self.sim("clear")
        for lease in self.rpc("leases.list")["leases"]:
            self.rpc("leases.break", lease_id=lease["lease_id"], reason="tidied", by="a test")
        for lockout in self.rpc("lockout.list")["lockouts"]:
            self.rpc("lockout.clear", instrument_id=lockout["instrument_id"])
        status = self.tool("get_status")["result"]
        if status["sweeps"] or status["streams"] or status["sequences"]:
            self.stop_all()

    def sim(self, method: str, **params: Any) -> Any:
        """One call of the simulated bench's control port."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        with socket.create_connection(
            ("127.0.0.1", self.ports["sim_control_port"]), HANGS_S
        ) as line:
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as answers:
                reply = json.loads(answers.readline())
        assert "error" not in reply, reply
        return reply["result"]


@contextlib.contextmanager
def running_engine(
    directory: Path,
    *arguments: str,
    sim: bool = True,
    config: Mapping[str, Any] | None = None,
) -> Iterator[Engine]:
    """An engine in a thread of this process, with free ports and its state in ``directory``.

    Args:
        arguments: as of ``edged engine``.
        sim: whether it works a simulated bench, on the same loop.
        config: keys of the configuration, over those of ``write_config``.
    """
    settings = write_config(directory, config)
    log = directory / "engine.log"
    with log.open("a", encoding="utf-8") as lines, _logging_to(lines):
        begins_at = log.stat().st_size
        words = command_line(directory, *arguments, sim=sim)
        with hosted(lambda: _engine(words)):
            ports = json.loads((directory / "state" / "engine.json").read_text())
            engine = Engine(state_dir=directory / "state", log=log, ports=ports)
            wait_answered(engine, begins_at, len(settings["INSTRUMENTS"]), ANSWERED_WITHIN_S)
            yield engine


def write_config(directory: Path, config: Mapping[str, Any] | None) -> dict[str, Any]:
    """``edged.yaml`` of an engine that disturbs nobody; its keys."""
    settings = {
        "MCP_PORT": 0,
        "RPC_PORT": 0,
        "STATE_DIR": str(directory / "state"),
        "DATA_DIR": str(directory / "data"),
        "BENCH_FILE": str(directory / "bench.yaml"),
        "DISCOVERY": [],
        # A process each at every start; who tests wrappers names them.
        "SDK_WRAPPER_DIRS": [],
        "INSTRUMENTS": [],
        **(config or {}),
    }
    # JSON is YAML, so no YAML writer is needed here.
    (directory / "edged.yaml").write_text(
        "\n".join(f"{key}: {json.dumps(value)}" for key, value in settings.items())
    )
    return settings


def command_line(directory: Path, *arguments: str, sim: bool) -> list[str]:
    """The arguments of ``edged engine`` in that directory."""
    return ["--config", str(directory / "edged.yaml"), *(["--sim"] if sim else []), *arguments]


def wait_answered(engine: Engine, begins_at: int, configured: int, within_s: float) -> None:
    """On a busy machine an engine is ready before its instruments have answered; a test is not.

    Goes by the log, so that nothing is asked of the engine. What never answers is not waited for
    longer than it takes to be reported; but a simulated unit that was too slow, with all else on
    this machine, would not be asked again for minutes, so the engine is told to scan.
    """
    simulated: set[str] = set()
    if engine.ports["sim_control_port"]:
        units = engine.sim("state")["instruments"].values()
        simulated = {unit["address"] for unit in units if not unit["faults"]}
        configured += len(units)
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with engine.log.open("rb") as file:
            file.seek(begins_at)
            answered = _answered(file.read())
        if len(answered) >= configured:
            silent = {address for address, is_known in answered.items() if not is_known}
            if not silent & simulated:
                return
            with contextlib.suppress(urllib.error.HTTPError):  # it wants a token
                engine.tool("scan_instruments")
        time.sleep(POLL_S)  # noqa: TID251 - a log has no event to wait for


def _answered(log: bytes) -> dict[str, bool]:
    """Addresses at which somebody answered, or nobody did in time (false)."""
    found: dict[str, bool] = {}
    for line in log.splitlines():
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if entry.get("event") in {"instrument_registered", "instrument_alternative"}:
                found[entry.get("address") or entry["id"]] = True
            elif entry.get("event") == "address_unknown":
                found[entry["address"]] = SILENT not in entry["reason"]
    return found


class _SimHere(SimChild):
    """The simulated bench on the engine's own loop."""

    def __init__(self, ready: Mapping[str, Any]) -> None:
        self.control_port = ready["control"]
        self.instruments = tuple(ready["instruments"])

    async def wait_ready(self) -> None:
        """It is ready when it is made."""


@contextlib.asynccontextmanager
async def _engine(arguments: Sequence[str]) -> AsyncIterator[engine_module.Engine]:
    """What ``edged engine`` does, but for signals and its process."""
    config, sim_arguments, _ = read(arguments)
    with _locked(config):
        async with contextlib.AsyncExitStack() as parts:
            sim: SimChild | None = None
            visited: Mapping[str, LeftWork] = {}
            if sim_arguments is None:
                visited = await asyncio.to_thread(_first_aid, config)
            else:
                options = read_options(sim_arguments)
                sim = _SimHere(await parts.enter_async_context(serving(options)))
            # A process that is one engine gives memory back once; this one starts many.
            patch = parts.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(engine_module, "give_back", lambda: None)
            engine = engine_module.Engine(config, sim=sim, is_supervised=False, visited=visited)
            await engine.start(parts)
            yield engine


def _first_aid(config: Config) -> Mapping[str, LeftWork]:
    return first_aid(
        config.state_dir,
        visa_library=config.visa_library,
        abort_within_s=config.abort_after_crash_sec,
        clock=SystemClock(),
    )


@contextlib.contextmanager
def _locked(config: Config) -> Iterator[None]:
    lock = StateLock(config.state_dir)
    lock.take()
    data_lock = lock_data(config.data_dir, config.state_dir)
    try:
        yield
    finally:
        if data_lock is not None:
            data_lock.release()
        lock.release()


class _Lines:
    """A stream whose lines go to the logs of all engines that run here."""

    def __init__(self) -> None:
        self.files: list[TextIO] = []
        self.before: tuple[list[logging.Handler], int] = ([], logging.WARNING)

    def write(self, text: str) -> int:
        for file in self.files:
            file.write(text)
        return len(text)

    def flush(self) -> None:
        for file in self.files:
            file.flush()

    def isatty(self) -> bool:
        return False


_LINES = _Lines()


@contextlib.contextmanager
def _logging_to(file: TextIO) -> Iterator[None]:
    """Logging is one for a process: the first engine sets it up, the last puts it back."""
    root = logging.getLogger()
    if not _LINES.files:
        _LINES.before = root.handlers[:], root.level
        set_up_logging(LogLevel.INFO, LogFormat.JSON, stream=cast("TextIO", _LINES))
    _LINES.files.append(file)
    try:
        yield
    finally:
        _LINES.files.remove(file)
        if not _LINES.files:
            root.handlers[:], root.level = _LINES.before
            structlog.reset_defaults()
            logging.captureWarnings(capture=False)
