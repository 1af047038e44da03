"""An IV run of 100 points by one start_sweep, beside a bare PyVISA loop that does the same.

Both set the supply, ask its error queue, read its set-point back, let it settle and read the meter
(NPLC 1 and no autozero), on the same simulated bench, by turns; the settling is the same.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import pyvisa

from benchmarks.figures import Figure, parse_json_flag, tell
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import SimBench, running_bench

POINTS = 100
SETTLE_S = 0.1
STEP_V = 0.05
INTERVAL_S = 0.1
ROUNDS = 3


def main() -> int:
    as_json = parse_json_flag(__doc__)
    swept, bare = [], []
    with running_bench("--instruments", "psu1,dmm1") as bench:
        for _ in range(ROUNDS):
            bare.append(_bare_loop(bench))
            swept.append(_sweep(bench))
    ratio = statistics.median(swept) / statistics.median(bare)
    figures = (
        Figure(name="bare PyVISA loop, median", value=statistics.median(bare), unit="s"),
        Figure(name="start_sweep, median", value=statistics.median(swept), unit="s"),
        Figure(name="ratio", value=ratio, unit="", bound=1.05),
    )
    return tell(f"IV run of {POINTS} points", figures, as_json=as_json)


def _prepare(bench: SimBench) -> None:
    bench.tell("psu1", ":SOUR1:VOLT 0", ":OUTP CH1,ON")
    bench.tell("dmm1", "CONF:VOLT:DC 10", "VOLT:DC:NPLC 1", "VOLT:DC:ZERO:AUTO OFF")


def _bare_loop(bench: SimBench) -> float:
    _prepare(bench)
    manager = pyvisa.ResourceManager("@py")
    supply, meter = (
        manager.open_resource(
            bench.address(name), read_termination="\n", write_termination="\n", timeout=5000
        )
        for name in ("psu1", "dmm1")
    )
    began = time.monotonic()
    for point in range(1, POINTS + 1):
        supply.write(f":SOUR1:VOLT {point * STEP_V:.3f}")
        supply.query("SYST:ERR?")
        supply.query(":SOUR1:VOLT?")
        time.sleep(SETTLE_S)  # noqa: TID251 - the loop that somebody would write
        float(meter.query("READ?"))
    took = time.monotonic() - began
    for line in (supply, meter):
        line.close()
    manager.close()
    return took


def _sweep(bench: SimBench) -> float:
    _prepare(bench)
    instruments = [{"address": bench.address(n), "name": n} for n in ("psu1", "dmm1")]
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(Path(directory), sim=False, config={"INSTRUMENTS": instruments}) as engine,
    ):
        answer = engine.tool(
            "start_sweep",
            instrument_id="psu1",
            command_name="set_voltage",
            target_value=POINTS * STEP_V,
            # As fast as one step an interval allows: settling and reading are what take time.
            sweep_rate=STEP_V / INTERVAL_S,
            settle_ms=SETTLE_S * 1000,
            measure=[{"instrument_id": "dmm1", "command_name": "read"}],
        )
        return _until_over(engine, answer["result"]["sweep_id"])


def _until_over(engine: EngineProcess, sweep_id: str) -> float:
    while True:
        told = engine.tool("get_sweep_status", sweep_id=sweep_id)["result"]
        if told["status"] != "running":
            if told["status"] != "completed" or told["rows"] != POINTS:
                raise SystemExit(f"the sweep did not do it: {told}")
            return float(told["elapsed_s"])
        time.sleep(0.05)  # noqa: TID251 - another process has no event to wait for


if __name__ == "__main__":
    raise SystemExit(main())
