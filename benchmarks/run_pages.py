"""How long a page of a recording of 100,000 rows takes (``bench__runs``), through a real engine.

First, middle and last page, and one that is thinned over the whole run; of a run that has ended,
and of one whose daemon was killed: that has no statistics until the next start has mended it.
Then the list: twenty of a day with 2,000 runs, the first time and from then on.
"""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from edged.actions.caller import Caller, Route
from edged.clock import SystemClock
from edged.instruments.pool import InstrumentPool
from edged.runs.recordings.registry import RunRegistry
from edged.runs.run_head import Column, RunHead, RunKind
from tests.bench.context import bench_of
from tests.bench.engine_process import EngineProcess, engine_process

ROWS = 100_000
TRIES = 20
BOUND_MS = 100
RUNS_A_DAY = 2_000
ENDED, KILLED = "sweep-ended", "sweep-killed"
PAGES: dict[str, dict[str, Any]] = {
    "first page": {},
    "middle page": {"from_row": ROWS // 2},
    "last page": {"from_row": ROWS - 100},
    "thinned": {"every": ROWS // 100, "rows": 100},
}


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        asyncio.run(_record(directory / "data"))
        _kill(directory / "data")
        with engine_process(directory, "--instruments", "psu1") as engine:
            _mended(engine)
            figures = tuple(
                Figure(
                    name=f"{run_id}, {name}, p90",
                    value=percentile([_page_ms(engine, run_id, wish) for _ in range(TRIES)], 0.9),
                    unit="ms",
                    bound=BOUND_MS,
                )
                for run_id in (ENDED, KILLED)
                for name, wish in PAGES.items()
            )
            figures += _lists(engine, directory / "data")
    return tell(f"a page of {ROWS} recorded rows", figures, as_json=as_json)


async def _record(data_dir: Path) -> None:
    """Two recordings that have ended."""

    async def nobody(_action: object) -> Any:
        raise AssertionError("nothing is asked")

    clock = SystemClock()
    book = RunRegistry(
        bench_of(
            clock,
            data_dir=data_dir,
            data_budget_mb=1_000,
            pool=InstrumentPool(clock=clock),
            perform=nobody,
        )
    )
    book.start()
    for run_id in (ENDED, KILLED):
        recording = await book.open(
            RunHead(
                kind=RunKind.SWEEP,
                run_id=run_id,
                instrument_id="psu1",
                command_name="set_voltage",
                columns=tuple(Column(name=name, unit="V") for name in ("t", "set", "a", "b")),
                caller=Caller(route=Route.INTERNAL),
                is_measured=False,
            )
        )
        for number in range(ROWS):
            recording.append((number / 10, number / 1e5, math.sin(number), math.cos(number) / 3))
        await recording.close("completed")
    await book.stop()


def _kill(data_dir: Path) -> None:
    """Have one of them look as if its daemon had been killed."""
    (killed,) = data_dir.glob(f"runs/*/{KILLED}")
    meta = json.loads((killed / "meta.json").read_text())
    del meta["statistics"]
    (killed / "meta.json").write_text(json.dumps({**meta, "status": "running"}))
    mark = data_dir / "runs" / ".open" / f"{KILLED}.mark"
    mark.write_text(f"{killed.parent.name}/{KILLED}\n")


def _mended(engine: EngineProcess) -> None:
    deadline = time.monotonic() + 30
    while engine.rpc("runs.show", run_id=KILLED, rows=0)["meta"]["status"] == "running":
        if time.monotonic() > deadline:
            raise SystemExit("the recording was not mended")
        time.sleep(0.05)  # noqa: TID251 - another process has no event to wait for


def _page_ms(engine: EngineProcess, run_id: str, wish: dict[str, Any]) -> float:
    began = time.perf_counter()
    told = engine.tool("bench__runs", run_id=run_id, **wish)["result"]
    took_ms = (time.perf_counter() - began) * 1000
    if told["total_rows"] != ROWS or told["statistics"]["a"]["n"] != ROWS or not told["rows"]:
        raise SystemExit(f"the page is wrong: {told['total_rows']} rows, {told['statistics']}")
    return took_ms


def _lists(engine: EngineProcess, data_dir: Path) -> tuple[Figure, ...]:
    """A page of the list, where there are 2,000 runs in the newest day."""
    (ended,) = data_dir.glob(f"runs/*/{ENDED}")
    meta = json.loads((ended / "meta.json").read_text())
    (killed,) = data_dir.glob(f"runs/*/{KILLED}")
    newest_ms = json.loads((killed / "meta.json").read_text())["started_ms"]
    for number in range(RUNS_A_DAY):
        run_id = f"sweep-{number:04}"
        (ended.parent / run_id).mkdir()
        told = {**meta, "run_id": run_id, "started_ms": newest_ms + number + 1}
        (ended.parent / run_id / "meta.json").write_text(json.dumps(told, indent=1))
    first, *later = (_list_ms(engine) for _ in range(TRIES + 1))
    return (
        Figure(name=f"20 of {RUNS_A_DAY} runs, the first time", value=first, unit="ms"),
        Figure(
            name=f"20 of {RUNS_A_DAY} runs, p90",
            value=percentile(later, 0.9),
            unit="ms",
            bound=BOUND_MS,
        ),
    )


def _list_ms(engine: EngineProcess) -> float:
    began = time.perf_counter()
    runs = engine.tool("bench__runs", limit=20)["result"]["runs"]
    took_ms = (time.perf_counter() - began) * 1000
    if [run["run_id"] for run in runs[:2]] != ["sweep-1999", "sweep-1998"]:
        raise SystemExit(f"the list is wrong: {runs[:2]}")
    return took_ms


if __name__ == "__main__":
    raise SystemExit(main())
