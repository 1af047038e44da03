"""A night on a bench: clients that come and go, faults, power cuts, kills; and what held.

A real supervisor with its engine and six supplies, three multimeters and an oscilloscope of the
simulated bench. Five clients do what comes to mind (some of it forbidden, some left in the middle);
answers are lost, late, doubled or garbled, lines cut, supplies switched off and on; the engine is
killed or stopped again and again. Judged is what reached the instruments, by the simulator's log of
bytes. ``--minutes`` says how long; the same ``--seed`` gives the same dice, not the same night.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure, tell
from benchmarks.supervised import CONFIG, LOG, supervised
from edged_sim.faults import FaultKind
from tests.bench.mcp_client import McpClient
from tests.bench.sim_bench import SimBench, SimError, running_bench

SUPPLY = "rigol_dp832"
SUPPLIES = tuple(f"psu{number}" for number in range(1, 7))
METERS = ("dmm1", "dmm2", "dmm3")
SCOPE = "scope1"
BENCH = f"psu*6={SUPPLY},dmm*3=keithley_dmm6500,scope1=rigol_ds1054z"
MOST_V = 12.0
MOST_V_PER_S = 2.0
EARLY_S = 0.02
"""So much early may a step come where the network flips its delay (docs/sweeps.md)."""
CLIENTS = 5
TELL_EVERY_S = 30.0
KILL_EVERY_S = (40.0, 80.0)
MB = 1024 * 1024
CALM_S = 25.0
"""After the last trouble: until everything is to be back."""
SET = re.compile(r":SOUR1:VOLT ([-\d.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a process held at one moment."""

    rss_mb: float
    descriptors: int


@dataclass(slots=True)
class Night:
    """One run.

    Attributes:
        cuts: supply → monotonic seconds at which it was switched on again, all forgotten.
        done: what was tried → how it ended → how often.
        processes: engine or supervisor → what it held, every so often.
    """

    bench: SimBench
    state_dir: Path
    dice: random.Random
    until: float
    cuts: dict[str, list[float]] = field(default_factory=dict)
    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    processes: dict[str, list[Held]] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until

    def engine(self) -> dict[str, Any]:
        """What engine.json says; empty while no engine is ready."""
        try:
            told: dict[str, Any] = json.loads((self.state_dir / "engine.json").read_text())
        except (OSError, ValueError):
            return {}
        return told

    async def pause(self, at_most_s: float, at_least_s: float = 0.0) -> None:
        await asyncio.sleep(self.dice.uniform(at_least_s, at_most_s))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overnight", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long; default 10")
    parser.add_argument("--seed", type=int, default=1, help="of the dice; default 1")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        log = directory / "bytes.jsonl"
        with running_bench("--instruments", BENCH, "--byte-log", str(log)) as bench:
            night = Night(
                bench=bench,
                state_dir=directory / "state",
                dice=random.Random(options.seed),
                until=time.monotonic() + 60 * options.minutes,
            )
            with supervised(directory, _settings(directory, bench)):
                _wait_ready(night)
                asyncio.run(_live(night))
                back, safe = asyncio.run(_morning(night))
        figures = _judged(night, log, directory, back=back, safe=safe)
    return tell(f"{options.minutes:g} minutes of a night", figures, as_json=options.json)


def _settings(directory: Path, bench: SimBench) -> dict[str, Any]:
    """Those of the night; the owner's limits are written into the bench file."""
    limits = f"limits: {{set_voltage: {{voltage: {{max: {MOST_V}}}}}}}"
    rate = f"max_rate: {{set_voltage: {MOST_V_PER_S}}}"
    owner = "".join(f"{name}: {{{limits}, {rate}}}\n" for name in SUPPLIES)
    (directory / "bench.yaml").write_text(f"format: 1\n{owner}")
    return {
        "MCP_PORT": 0,
        "RPC_PORT": 0,
        "STATE_DIR": str(directory / "state"),
        "DATA_DIR": str(directory / "data"),
        "BENCH_FILE": str(directory / "bench.yaml"),
        "DISCOVERY": [],
        "EXPOSE": [],
        "RESCAN_INTERVAL_SEC": 5,
        "INSTRUMENTS": [
            {"address": bench.address(name), "name": name} for name in bench.instruments
        ],
    }


def _wait_ready(night: Night) -> None:
    while not night.engine() and not night.is_over:
        time.sleep(0.1)  # noqa: TID251 - another process has no event to wait for


async def _live(night: Night) -> None:
    clients = [_client(night) for _ in range(CLIENTS)]
    await asyncio.gather(*clients, _trouble(night), _power(night), _killer(night), _watch(night))


async def _client(night: Night) -> None:
    """Opens a session, does some things, goes; some go in the middle of a call."""
    while not night.is_over:
        client = McpClient(int(night.engine().get("mcp_port", 0)))
        try:
            await client.initialize()
            for _ in range(night.dice.randint(1, 25)):
                tool, arguments = _wish(night.dice)
                if night.dice.random() < 0.05:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(night.dice.uniform(0, 0.05)):
                            await client.call(tool, arguments)
                    continue
                answer = await client.call(tool, arguments)
                refused = "code" in answer or answer.get("isError")
                night.done[tool, "refused or failed" if refused else "done"] += 1
                await night.pause(0.2)
                if night.is_over:
                    return
        except (OSError, EOFError, TimeoutError, AssertionError, KeyError):
            # Killed, restarting, or of a session that died with its engine.
            night.done["session", "lost"] += 1
            await night.pause(0.6)


def _wish(dice: random.Random) -> tuple[str, dict[str, Any]]:
    supply, meter = dice.choice(SUPPLIES), dice.choice(METERS)
    voltage = {"instrument_id": meter, "command_name": "measure_dc_voltage"}
    wishes: tuple[tuple[float, str, dict[str, Any]], ...] = (
        (
            8,
            "start_sweep",
            {
                "instrument_id": supply,
                "command_name": "set_voltage",
                "parameters": {"channel": 1},
                "target_value": dice.choice((0, 1, 3, 5, 11.5, 13, 40, -1)),
                "sweep_rate": dice.choice((0.5, 1, 2, 5)),
                "settle_ms": dice.choice((0, 50)),
                "measure": dice.choice(([], [voltage])),
            },
        ),
        (1, "start_stream", {**voltage, "interval_ms": dice.choice((50, 200, 1000))}),
        (5, "execute_command", voltage),
        (
            2,
            "execute_command",
            {
                "instrument_id": supply,
                "command_name": "set_voltage",
                "parameters": {
                    "channel": dice.choice((2, 3, 9)),
                    "voltage": dice.choice((1, 4, 12, 12.1, 30)),
                },
            },
        ),
        (
            2,
            "execute_command",
            {"instrument_id": supply, "command_name": "output_on", "parameters": {"channel": 1}},
        ),
        (
            2,
            "send_scpi",
            {
                "instrument_id": supply,
                "scpi_command": dice.choice(
                    ("*IDN?", ":APPL CH1,20,1", ":SOUR1:VOLT 15", "*RST", ":MEAS:VOLT? CH1")
                ),
            },
        ),
        (0.4, "bench__stop_all", {}),
        (2, "get_status", {}),
        (1, "list_instruments", {}),
        (0.5, "execute_command", {"instrument_id": SCOPE, "command_name": "capture_waveform"}),
        (1, "scan_instruments", {}),
    )
    _, tool, arguments = dice.choices(wishes, weights=[weight for weight, _, _ in wishes])[0]
    return tool, arguments


async def _trouble(night: Night) -> None:
    while not night.is_over:
        await night.pause(6.0)
        name = night.dice.choice((*SUPPLIES, *METERS, SCOPE))
        kind = night.dice.choice(list(FaultKind))
        seconds, count = night.dice.choice((0.2, 1.0, 3.0)), night.dice.choice((1, 2, 5))
        # A supply that is switched off just then can have no other fault.
        with contextlib.suppress(SimError):
            await asyncio.to_thread(
                night.bench.fault, name, kind.value, seconds=seconds, count=count
            )
            night.done["trouble", kind.value] += 1
            await night.pause(4.0)
            if night.dice.random() < 0.5:
                await asyncio.to_thread(night.bench.clear, name)


async def _power(night: Night) -> None:
    """Switches a supply off and on: it forgets its set-points."""
    while not night.is_over:
        await night.pause(40.0, 10.0)
        name = night.dice.choice(SUPPLIES)
        serial, port = night.bench.serial(name), night.bench.port(name)
        await asyncio.to_thread(night.bench.remove, name)
        await night.pause(3.0, 0.2)
        await asyncio.to_thread(night.bench.add, name, SUPPLY, serial=serial, port=port)
        night.cuts.setdefault(name, []).append(time.monotonic())
        night.done["trouble", "power cut"] += 1


async def _killer(night: Night) -> None:
    while not night.is_over:
        await night.pause(KILL_EVERY_S[1], KILL_EVERY_S[0])
        kind = night.dice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
        with contextlib.suppress(ProcessLookupError):
            if pid := night.engine().get("pid"):
                os.kill(pid, kind)
                night.done["engine", kind.name] += 1


async def _watch(night: Night) -> None:
    while not night.is_over:
        await asyncio.sleep(TELL_EVERY_S)
        calls = sum(n for (_, how), n in night.done.items() if how in {"done", "refused or failed"})
        with contextlib.suppress(psutil.Error, KeyError):
            engine = psutil.Process(night.engine()["pid"])
            _look_at(night, "engine", engine)
            _look_at(night, "supervisor", engine.parent())
        left_s = max(0.0, night.until - time.monotonic())
        sys.stderr.write(f"{calls} calls, {left_s / 60:.1f} minutes to go\n")


def _look_at(night: Night, name: str, process: psutil.Process | None) -> None:
    if process is not None:
        held = Held(rss_mb=process.memory_info().rss / MB, descriptors=process.num_fds())
        night.processes.setdefault(name, []).append(held)


async def _morning(night: Night) -> tuple[int, bool]:
    """No more trouble: how many instruments are back, and whether stop all makes all safe."""
    await asyncio.to_thread(night.bench.clear)
    await asyncio.sleep(CALM_S)
    client = McpClient(int(night.engine()["mcp_port"]))
    await client.initialize()
    listed = json.loads((await client.call("list_instruments"))["content"][0]["text"])
    stopped = json.loads((await client.call("bench__stop_all"))["content"][0]["text"])
    back = sum(entry["is_connected"] for entry in listed)
    return back, bool(stopped["is_confirmed"])


def _judged(
    night: Night, log: Path, directory: Path, *, back: int, safe: bool
) -> tuple[Figure, ...]:
    steps, over_v, beyond = _written(night, log)
    verified = subprocess.run(
        [sys.executable, "-m", "edged", "audit", "verify", "--config", directory / CONFIG],
        capture_output=True,
        check=False,
    )
    with (directory / LOG).open(errors="replace") as told:
        traces = sum("Traceback" in line for line in told)
    ended = Counter[str]()
    for (_, how), times in night.done.items():
        ended[how] += times
    lost = len(night.bench.instruments) - back
    return (
        Figure(name="calls done", value=ended["done"], unit=""),
        Figure(name="calls refused or failed", value=ended["refused or failed"], unit=""),
        Figure(name="faults and power cuts", value=_count(night, "trouble"), unit=""),
        Figure(name="engines killed or stopped", value=_count(night, "engine"), unit=""),
        Figure(name="set-points written to swept channels", value=steps, unit=""),
        Figure(name="of these over the owner's limit", value=over_v, unit="", bound=0),
        Figure(
            name="largest step beyond its rate",
            value=beyond,
            unit="V",
            bound=EARLY_S * MOST_V_PER_S,
        ),
        Figure(name="instruments not back in the morning", value=lost, unit="", bound=0),
        Figure(name="stop all unconfirmed", value=float(not safe), unit="", bound=0),
        Figure(name="record broken", value=float(verified.returncode != 0), unit="", bound=0),
        Figure(name="traces in the log", value=traces, unit="", bound=0),
        *_grown(night),
        *(
            Figure(name=f"played: {kind}", value=times, unit="")
            for (tried, kind), times in sorted(night.done.items())
            if tried in {"trouble", "engine"}
        ),
    )


def _grown(night: Night) -> Iterator[Figure]:
    """What each process held first, last and at most; the engine is another after each kill."""
    for name, held in night.processes.items():
        for when, one in (("at the start", held[0]), ("at the end", held[-1])):
            yield Figure(name=f"{name}'s memory {when}", value=one.rss_mb, unit="MB")
            yield Figure(name=f"{name}'s descriptors {when}", value=one.descriptors, unit="")
        most = max(one.rss_mb for one in held)
        yield Figure(name=f"{name}'s memory, largest", value=most, unit="MB")


def _count(night: Night, what: str) -> int:
    return sum(n for (tried, _), n in night.done.items() if tried == what)


def _written(night: Night, log: Path) -> tuple[int, int, float]:
    """Set-points of channel 1, which only sweeps may change: how many, too high ones, the jump."""
    held: dict[str, tuple[float, float]] = {}
    cuts = {name: list(times) for name, times in night.cuts.items()}
    steps, over_v, beyond = 0, 0, 0.0
    for entry in _logged(log):
        name, at = entry["instrument"], entry["t"]
        if entry["direction"] != "in" or name not in SUPPLIES:
            continue
        for text in SET.findall(entry["text"]):
            volts, steps = float(text), steps + 1
            over_v += volts > MOST_V
            times = cuts.get(name, [])
            while times and at > times[0]:
                held[name] = (0.0, times.pop(0))
            before, since = held.get(name, (0.0, 0.0))
            beyond = max(beyond, abs(volts - before) - MOST_V_PER_S * (at - since))
            held[name] = (volts, at)
    return steps, over_v, beyond


def _logged(log: Path) -> Iterator[dict[str, Any]]:
    """Line by line: a whole night is gigabytes."""
    with log.open() as lines:
        for line in lines:
            yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main())
