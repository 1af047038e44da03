"""How long after a bad or missing reading a guarded output is off.

``python -m benchmarks.interlock`` (real time, some minutes; --json for programs): a real engine and
a simulated bench, a meter that watches every 0.5 s and whose reading may be 1.5 s old. The bounds
are those of docs/promises.md, `interlock.trip` and `interlock.missing`.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, tell
from tests.bench.engine_process import EngineProcess
from tests.bench.guarded_supply import done, engine_on
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for

POLL_S, MAX_AGE_S, AND_S = 0.5, 1.5, 1.0
TIMES = 3
FAULTS = ("freeze", "refuse", "garbage", "timeout", "hang")
RULE = {
    "name": "rail",
    "when": {"instrument": "dmm1", "command": "measure_dc_voltage"},
    "must": "value < 3",
    "max_age_s": MAX_AGE_S,
    "poll_s": POLL_S,
    "guards": ["psu1"],
    "trip": "abort",
}


def main() -> int:
    as_json = parse_json_flag(__doc__ or "")
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        (directory / "bench.yaml").write_text(json.dumps({"format": 1, "interlocks": [RULE]}))
        with (
            running_bench("--instruments", "psu1,dmm1") as bench,
            engine_on(directory, bench, None) as engine,
        ):
            bad = max(_bad_reading(engine, bench) for _ in range(TIMES))
            missing = {
                fault: max(_no_reading(engine, bench, fault) for _ in range(TIMES))
                for fault in FAULTS
            }
    figures = [Figure(name="a bad reading", value=bad, unit="s", bound=POLL_S + AND_S)]
    figures += [
        Figure(name=f"no reading: {fault}", value=worst, unit="s", bound=POLL_S + MAX_AGE_S + AND_S)
        for fault, worst in missing.items()
    ]
    return tell(f"Off after (the longest of {TIMES})", figures, as_json=as_json)


def _bad_reading(engine: EngineProcess, bench: SimBench) -> float:
    _switch_on(engine)
    bench.tell("psu1", ":SOUR1:VOLT 5")
    took_s = wait_for(lambda: not bench.state("psu1")["ch1"]["is_on"])
    bench.tell("psu1", ":SOUR1:VOLT 1")
    return took_s


def _no_reading(engine: EngineProcess, bench: SimBench, fault: str) -> float:
    _switch_on(engine)
    bench.fault("dmm1", fault, count=1_000 if fault in {"garbage", "timeout"} else None)
    took_s = wait_for(lambda: not bench.state("psu1")["ch1"]["is_on"])
    bench.clear("dmm1")
    return took_s


def _switch_on(engine: EngineProcess) -> None:
    """As soon as the meter answers again; then the interlock watches."""
    wait_for(lambda: not _command(engine, "set_voltage", voltage=1)["is_error"])
    done(_command(engine, "output_on"))
    wait_for(lambda: engine.tool("get_status")["result"]["interlocks"][0]["state"] == "watching")
    time.sleep(POLL_S)  # noqa: TID251 - not in step with the change


def _command(engine: EngineProcess, name: str, **parameters: object) -> dict[str, object]:
    answer: dict[str, object] = engine.tool(
        "execute_command",
        instrument_id="psu1",
        command_name=name,
        parameters={"channel": 1, **parameters},
    )
    return answer


if __name__ == "__main__":
    raise SystemExit(main())
