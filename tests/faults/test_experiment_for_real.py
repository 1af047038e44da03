"""Examples 1 and 3 of the specification in real time, as written: minutes, mostly of waiting."""

from __future__ import annotations

import csv
import socket
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench.engine import Engine
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.flows.test_sweeps import engine_on

EXAMPLES = Path(__file__).parent.parent / "bench" / "experiments"
LONGEST_S = 900.0
"""Both take a minute and a half and two minutes on a quiet machine."""


def run(engine: Engine, example: str, directory: Path, **parameters: Any) -> list[dict[str, str]]:
    """Run an example to its end; the rows of its data.csv."""
    text = (EXAMPLES / f"{example}.yaml").read_text()
    told = engine.tool("bench__start_experiment", text=text, parameters=parameters)
    assert not told["is_error"], told
    run_id = told["result"]["run_id"]

    def state() -> dict[str, Any]:
        found: dict[str, Any] = engine.tool("bench__control_run", run_id=run_id)["result"]
        return found

    wait_for(lambda: state()["state"] != "running", LONGEST_S)
    assert (state()["state"], state()["error"]) == ("completed", None), state()
    (data,) = directory.rglob(f"{run_id}/data.csv")
    with data.open() as rows:
        return list(csv.DictReader(rows))


def test_the_map_of_a_transistor(tmp_path: Path) -> None:
    units = "smu1=keithley_2400,smu2=keithley_2400,tc1=lakeshore_335"
    with (
        running_bench("--instruments", units, "--transistor", "smu1=smu2") as bench,
        engine_on(bench, tmp_path) as engine,
    ):
        rows = run(engine, "transistor_map", tmp_path)
        assert not any(bench.state(name)["is_on"] for name in ("smu1", "smu2"))
    lines: dict[int, dict[int, float]] = {}
    for row in rows:
        lines.setdefault(int(row["n_v_g"]), {})[int(row["n_v_d"])] = float(row["i_d"])
    assert sorted(lines) == list(range(21))
    # The gate below its threshold; the last lines left at 15 mA, one of them from above.
    assert max(abs(i_d) for i_d in lines[0].values()) < 1e-6
    assert len(lines[10]) == 41
    assert len(lines[20]) < 41
    assert all(low[20] < high[20] for low, high in pairwise([lines[n] for n in range(10, 19)]))
    assert list(lines[19]) == [40]
    assert np.mean([float(row["T"]) for row in rows]) == pytest.approx(77.35, abs=0.01)


def test_a_resistance_over_temperature_at_its_first_point(tmp_path: Path) -> None:
    units = "smu1=keithley_2400,dmm1=keysight_34461a,tc1=lakeshore_335"
    with running_bench("--instruments", units) as bench, engine_on(bench, tmp_path) as engine:
        warm_up(bench)
        (row,) = run(engine, "r_of_t", tmp_path, T_end=300)
        assert not bench.state("smu1")["is_on"]
        assert bench.state("tc1")["out1"]["heater"] == 0
    assert float(row["T_set"]) == 300
    assert float(row["T_s"]) == pytest.approx(300, abs=0.05)
    # The 10 Ω of the bench, 0.4 permille more for each of 3.85 K over 23 °C.
    assert float(row["r"]) == pytest.approx(10.015, abs=0.1)


def warm_up(bench: SimBench) -> None:
    """Bring the stage to 300 K, as somebody would do at its front panel."""
    with socket.create_connection(("127.0.0.1", bench.port("tc1"))) as line:
        for message in (b"RANGE 1,3\r\n", b"SETP 1,300\r\n"):
            line.sendall(message)
            time.sleep(0.2)  # noqa: TID251 - it loses what comes sooner
    wait_for(lambda: abs(bench.state("tc1")["out1"]["kelvin"] - 300) < 0.01)
