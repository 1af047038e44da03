"""Stops, safe commands and lockouts get through every guard, and through all of them at once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine
from tests.bench.guarded_supply import command, dead_men, done, engine_on, is_on, is_running
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.promises import promise

OBSTACLES = ("budget", "interlock", "dead-man", "lockout")
COMBINATIONS = [
    combination
    for count in range(1, len(OBSTACLES) + 1)
    for combination in itertools.combinations(OBSTACLES, count)
]
RULE = {
    "name": "rail",
    "when": {"instrument": "dmm1", "command": "measure_dc_voltage"},
    "must": "value > 100",
    "max_age_s": 10,
    "poll_s": 1,
    "guards": ["psu1"],
    "trip": "abort",
    "cool_down_s": 600,
}
WAYS = ("safe command", "stop all", "lockout")


def bench_file(obstacles: tuple[str, ...]) -> str:
    unit: dict[str, Any] = {}
    told: dict[str, Any] = {"format": 1, "psu1": unit}
    if "budget" in obstacles:
        unit["budget"] = {"output_on": {"per_hour": 1}, "set_voltage": {"per_hour": 1}}
    if "dead-man" in obstacles:
        unit["dead_man_s"] = 30
    if "interlock" in obstacles:
        told["interlocks"] = [RULE]
    if not unit:
        del told["psu1"]
    return json.dumps(told)


@contextmanager
def standing(directory: Path, obstacles: tuple[str, ...]) -> Iterator[tuple[Engine, SimBench]]:
    """An engine whose guards hold all else back, and a supply that somebody has switched on."""
    (directory / "bench.yaml").write_text(bench_file(obstacles))
    with (
        running_bench("--instruments", "psu1=keysight_n6700,dmm1") as bench,
        engine_on(directory, bench, None) as engine,
    ):
        if "interlock" not in obstacles:
            done(command(engine, "output_on"))
            done(command(engine, "set_voltage", voltage=1))
        if "lockout" in obstacles:
            lock(engine)
        yield engine, bench


def lock(engine: Engine) -> None:
    engine.rpc("lockout.set", instrument_id="psu1", reason="hands inside", by="anna")


@promise("budget.stops-pass")
@promise("interlock.stops-pass")
@pytest.mark.parametrize("obstacles", COMBINATIONS, ids="+".join)
def test_whatever_guards_stand_in_the_way_stops_pass(
    tmp_path: Path, obstacles: tuple[str, ...]
) -> None:
    with standing(tmp_path, obstacles) as (engine, bench):
        for way in WAYS:
            # A person, at the instrument: where all is held back, nothing else switches it on.
            bench.tell("psu1", "OUTP ON,(@1)")
            assert is_on(bench)
            if way == "stop all":
                stopped = engine.stop_all()
                assert stopped["is_confirmed"], stopped
            else:
                if way == "lockout":
                    lock(engine)
                done(command(engine, "output_off"))
            wait_for(lambda: not is_on(bench))
            if way == "lockout" or set(obstacles) != {"dead-man"}:
                assert command(engine, "output_on")["is_error"]
        engine.stop_all()
        wait_for(lambda: not is_running(bench))
        wait_for(lambda: dead_men(engine) == [])
