"""Instruments without question marks, killed in mid-query: no answer is another question's."""

from __future__ import annotations

import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.shipped import PROFILES
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.promises import promise

CLIENTS = 4
KILLS_OF_UNIT = 8
KILLS_OF_ENGINE = 2
LEAST_RIGHT = 150
QUESTIONS = """
  echo:
    scpi: "EDGED_ECHO {number}"
    is_query: true
    parameters: {number: {type: int, min: 0}}
    returns: {type: int}
  slow:
    scpi: "EDGED_DELAY 0.04 {number}"
    is_query: true
    parameters: {number: {type: int, min: 0}}
    returns: {type: int}
"""
"""Of the simulation alone: an answer tells to which question it is."""
GONE = (URLError, ConnectionError, TimeoutError, AssertionError)
"""What a call comes to whose engine is killed."""


def numbered_profile(key: str, directory: Path) -> None:
    text = (PROFILES / f"{key}.yaml").read_text(encoding="utf-8")
    text = text.replace("timeout_ms: 2000\n", "timeout_ms: 400\n", 1)
    text = text.replace("after_write_ms: 300", "after_write_ms: 260", 1)
    text = text.replace("\ncommands:\n", f"\ncommands:\n{QUESTIONS}", 1)
    text = text.replace("unverified: all\n", "")
    directory.mkdir()
    (directory / f"{key}.yaml").write_text(text, encoding="utf-8")


class Asking:
    """Clients that ask numbered questions, and now and then set something."""

    def __init__(self) -> None:
        self.engine: EngineProcess | None = None
        self.over = threading.Event()
        self.numbers = itertools.count(1)
        self.right = self.failed = 0
        self.crossed: list[str] = []

    def run(self, seed: int) -> None:
        dice = random.Random(seed)
        while not self.over.is_set():
            engine, number = self.engine, next(self.numbers)
            if engine is None:
                self.over.wait(0.05)
                continue
            try:
                self._ask(engine, dice, number)
            except GONE:
                self.failed += 1
                self.over.wait(0.02)

    def _ask(self, engine: EngineProcess, dice: random.Random, number: int) -> None:
        kind = dice.choices(("echo", "slow", "raw", "set"), (4, 4, 2, 1))[0]
        if kind == "raw":
            line = f"EDGED_ECHO {number}"
            told = engine.tool("send_scpi", instrument_id="unit", scpi_command=line)
            self._judge(kind, number, told, (told["result"] or {}).get("response"))
            return
        name, values = kind, {"number": number}
        if kind == "set":
            name, values = "set_setpoint", {"temperature": number % 90}
        told = engine.tool(
            "execute_command", instrument_id="unit", command_name=name, parameters=values
        )
        data = (told["result"] or {}).get("data")
        if kind == "set":
            number, data = number % 90, (data or {}).get("readback")
        self._judge(kind, number, told, data)

    def _judge(self, kind: str, number: int, told: Any, data: Any) -> None:
        if told["is_error"] or data is None:
            self.failed += 1
        elif float(data) == number:
            self.right += 1
        else:
            self.crossed.append(f"{kind} {number} gave {data}")


def kill_unit(sim: SimBench, dice: random.Random) -> None:
    """In mid-query: switched off, cut off, hanging, or late, and back again."""
    kind = dice.choice(("off", "cycle", "hang", "late", "reset"))
    match kind:
        case "off":
            sim.fault("unit", "refuse", seconds=0.2)
        case "cycle":
            sim.call("power_cycle", instrument="unit")
        case "hang":
            sim.fault("unit", "hang")
            time.sleep(0.6)  # noqa: TID251 - longer than the profile's time limit
            sim.clear("unit")
        case _:
            sim.fault("unit", kind, seconds=0.5 if kind == "late" else None, count=2)


@promise("profile.question-is-declared")
@promise("line.in-step")
@pytest.mark.parametrize("transport", ["socket", "serial"])
@pytest.mark.parametrize("key", ["julabo_fp50", "lauda_integral"])
def test_no_answer_crosses_when_unit_and_engine_are_killed_in_mid_query(
    key: str, transport: str, tmp_path: Path
) -> None:
    numbered_profile(key, tmp_path / "profiles")
    dice, asking = random.Random(f"{key} {transport}"), Asking()
    with running_bench("--instruments", f"unit={key}", "--transport", f"unit={transport}") as sim:
        entry: dict[str, Any] = {"address": sim.address("unit"), "name": "unit", "profile": key}
        if transport == "serial":
            entry |= {"data_bits": 8, "parity": "none", "flow": "none"}
        config = {
            "INSTRUMENTS": [entry],
            "PROFILE_DIRS": [str(tmp_path / "profiles")],
            "RESCAN_INTERVAL_SEC": 1,
        }
        with ThreadPoolExecutor(CLIENTS) as clients:
            tasks = [clients.submit(asking.run, seed) for seed in range(CLIENTS)]
            try:
                for _ in range(KILLS_OF_ENGINE + 1):
                    with engine_process(tmp_path, sim=False, config=config) as engine:
                        asking.engine = engine
                        for _ in range(KILLS_OF_UNIT):
                            goal = asking.right + LEAST_RIGHT // 20
                            wait_for(lambda goal=goal: asking.right >= goal)
                            kill_unit(sim, dice)
                        goal = asking.right + LEAST_RIGHT // 20
                        wait_for(lambda goal=goal: asking.right >= goal)
                        asking.engine = None
                        engine.process.kill()
                        engine.process.wait()
            finally:
                asking.over.set()
        for task in tasks:
            task.result()
        assert not asking.crossed, (asking.right, asking.failed, asking.crossed)
        assert asking.right >= LEAST_RIGHT, asking.failed
        assert "IDN" not in "".join(sim.received("unit")).upper()
