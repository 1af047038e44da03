"""One map of a simulated transistor by QCoDeS, bluesky and PyMeasure, and by an experiment.

The peers' own packages, each with its own way to measure a grid, through ``@edged``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import first
from tests.conformance.test_visa_programs import CLIENTS, REPOSITORY, run

sys.path.insert(0, str(CLIENTS))

from map_grid import DRAIN, DRAIN_LIMIT_A, GATE, GATE_LIMIT_A, SETTLES_S

UNITS = {"smu1": "keithley_2400", "smu2": "keithley_2400"}
NOISE_A = 30e-9
"""Of one reading of the simulated source meter."""
SET = re.compile(r"^:?SOUR(?:CE)?:VOLT(?:AGE)?(?::LEV(?:EL)?)? *([-+.\dE]+)$", re.IGNORECASE)
READING = re.compile(r"^:?(READ|MEAS(URE)?:CURR(ENT)?)\?$", re.IGNORECASE)
DRAIN_RATE = 20.0
Point = tuple[float, float]


def spread(start: float, stop: float, count: int) -> list[float]:
    return [round(start + (stop - start) * at / (count - 1), 5) for at in range(count)]


GRID: list[Point] = list(product(spread(*GATE), spread(*DRAIN)))


@pytest.fixture(scope="module")
def bench() -> Iterator[SimBench]:
    words = ",".join(f"{name}={model}" for name, model in UNITS.items())
    with running_bench("--instruments", words, "--transistor", "smu1=smu2") as running:
        yield running


@pytest.fixture(scope="module")
def engine(bench: SimBench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    entries = [{"address": bench.address(name), "name": name} for name in UNITS]
    directory = tmp_path_factory.mktemp("peers-maps")
    with engine_process(directory, sim=False, config={"INSTRUMENTS": entries}) as running:
        yield running


def plan(**drain: Any) -> dict[str, Any]:
    """The map as an experiment; ``drain``: keys of the inner loop."""
    return {
        "format": 1,
        "experiment": "peers_map",
        "roles": {"gate": "smu1", "drain": "smu2"},
        "steps": [
            {"command": "gate.source_voltage",
             "parameters": {"voltage": 0, "current_limit": GATE_LIMIT_A}},
            {"command": "drain.source_voltage",
             "parameters": {"voltage": 0, "current_limit": DRAIN_LIMIT_A}},
            {"command": "gate.output_on"},
            {"command": "drain.output_on"},
            {"for": "v_g", "in": {"lin": list(GATE)}, "set": "gate.set_voltage",
             "wait_s": SETTLES_S, "steps": [
                {"for": "v_d", "in": {"lin": list(DRAIN)}, "set": "drain.set_voltage",
                 "wait_s": SETTLES_S, **drain,
                 "steps": [{"measure": {"i_d": "drain.measure.current"}}]},
            ]},
        ],
        "finally": [
            {"command": "drain.set_voltage", "parameters": {"voltage": 0}},
            {"command": "gate.set_voltage", "parameters": {"voltage": 0}},
            {"command": "drain.output_off"},
            {"command": "gate.output_off"},
        ],
    }  # fmt: skip


def by_experiment(engine: EngineProcess, **drain: Any) -> list[list[float]]:
    told = engine.tool("bench__start_experiment", plan=plan(**drain))
    assert not told["is_error"], told
    run_id = told["result"]["run_id"]

    def over() -> Any:
        state = engine.tool("bench__control_run", run_id=run_id)["result"]["state"]
        return None if state == "running" else state

    assert first(over) == "completed"
    found = engine.tool("bench__runs", run_id=run_id, rows=1000)["result"]
    at = [found["columns"].index(name) for name in ("v_g", "v_d", "i_d")]
    return [[row[number] for number in at] for row in found["rows"]]


class Sent:
    """What reached the two source meters since a place in the log.

    Attributes:
        levels: each level but 0 that was set, by unit, in order.
        measured: gate's and drain's level at each reading of the drain.
    """

    def __init__(self, bench: SimBench, since: int) -> None:
        held = dict.fromkeys(UNITS, 0.0)
        rest = dict.fromkeys(UNITS, "")
        self.levels: list[tuple[str, float]] = []
        self.measured: list[Point] = []
        for entry in bench.log(since=since):
            if entry["direction"] != "in":
                continue
            name = entry["instrument"]
            *lines, rest[name] = (rest[name] + entry["text"]).replace("\r", "").split("\n")
            for line in lines:
                if found := SET.match(line):
                    held[name] = round(float(found[1]), 5)
                    if held[name]:
                        self.levels.append((name, held[name]))
                elif READING.match(line) and name == "smu2":
                    self.measured.append((held["smu1"], held["smu2"]))


def levels() -> list[tuple[str, float]]:
    """Each set-point of the map once, in order."""
    found: list[tuple[str, float]] = []
    for v_g in spread(*GATE):
        found += [("smu1", v_g), *(("smu2", v_d) for v_d in spread(*DRAIN))]
    return found


def test_three_peers_and_an_experiment_measure_the_same_map_by_the_same_set_points(
    bench: SimBench, engine: EngineProcess, tmp_path: Path
) -> None:
    mark = bench.mark()
    maps = {"edged": by_experiment(engine)}
    sent = {"edged": Sent(bench, mark)}
    for peer in ("qcodes", "bluesky", "pymeasure"):
        mark = bench.mark()
        python = REPOSITORY / ".venv-clients" / peer / "bin" / "python"
        words: list[str | Path] = [CLIENTS / f"{peer}_map.py", engine.mcp_url, tmp_path]
        maps[peer] = json.loads(run(python, words, tmp_path).splitlines()[-1])
        sent[peer] = Sent(bench, mark)
    for peer, found in maps.items():
        assert [(round(v_g, 5), round(v_d, 5)) for v_g, v_d, _ in found] == GRID, peer
        assert sent[peer].levels == levels(), peer
        assert sent[peer].measured == GRID, peer
        currents = [i_d for _, _, i_d in found]
        # The difference of two readings; 35 of them.
        ours = [i_d for _, _, i_d in maps["edged"]]
        assert currents == pytest.approx(ours, abs=5 * 2**0.5 * NOISE_A, rel=0), peer
    # A transistor's: more with each of both voltages, by far more than the noise.
    rows = [[i_d for _, _, i_d in maps["edged"][at : at + 7]] for at in range(0, 35, 7)]
    assert all(low < high for row in rows[1:] for low, high in pairwise(row))
    assert all(low[-1] < high[-1] for low, high in pairwise(rows))
    assert rows[-1][-1] > 0.015


def test_with_a_rate_only_the_ramps_between_the_points_are_added(
    bench: SimBench, engine: EngineProcess
) -> None:
    mark = bench.mark()
    found = by_experiment(engine, rate=DRAIN_RATE)
    sent = Sent(bench, mark)
    assert [(round(v_g, 5), round(v_d, 5)) for v_g, v_d, _ in found] == GRID
    assert sent.measured == GRID
    drain = [0.0, *(volts for name, volts in sent.levels if name == "smu2")]
    # 0.1 s between two steps; back at the beginning of a line, too.
    assert max(abs(after - before) for before, after in pairwise(drain)) <= DRAIN_RATE / 10 + 1e-5
    assert len(drain) > len(GRID) + 1
