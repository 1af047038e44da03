"""bench__check of twelve instruments over MCP's own road: all well, and one of them hung."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from tests.bench.engine_process import EngineProcess, engine_process

TRIES = 20
HUNG_TRIES = 5
TWELVE = (
    "psu1=rigol_dp832,psu2=siglent_spd3303x,psu3=rs_hmp4040,psu4=keysight_e36312a,dmm1,"
    "dmm2=keithley_dmm6500,smu1=keithley_2450,smu2=keithley_2400,scope1,load1=rigol_dl3021,"
    "gen1=rigol_dg1022z,src1=yokogawa_gs200"
)


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(
            Path(directory), "--instruments", TWELVE, config={"HEARTBEAT_SEC": 0}
        ) as engine,
    ):
        well = [_check(engine) for _ in range(TRIES)]
        engine.sim("fault", instrument="dmm1", kind="hang")
        hung = [_check(engine) for _ in range(HUNG_TRIES)]
    figures = [
        Figure(name="twelve that are well, p50", value=percentile(_ms(well), 0.5), unit="ms"),
        Figure(name="one of twelve hung, worst", value=max(_ms(hung)), unit="ms", bound=3_000),
        Figure(name="the answer", value=max(n for _, n in well + hung), unit="B", bound=8_192),
    ]
    return tell("bench__check", figures, as_json=as_json)


def _check(engine: EngineProcess) -> tuple[float, int]:
    """Milliseconds, and bytes of the answer."""
    began = time.monotonic()
    answer = engine.tool("bench__check")["result"]
    spent_ms = (time.monotonic() - began) * 1_000
    return spent_ms, len(json.dumps(answer, separators=(",", ":")))


def _ms(tries: list[tuple[float, int]]) -> list[float]:
    return [ms for ms, _ in tries]


if __name__ == "__main__":
    raise SystemExit(main())
