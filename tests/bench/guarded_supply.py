"""A simulated N6700 whose owner wants its dead-man used, and what is true of it.

The simulator's control port tells the truth, and feeds nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.bench.engine import Engine, running_engine
from tests.bench.sim_bench import SimBench
from tests.bench.waiting import wait_for

CHANNEL = {"channel": 1}


def is_on(bench: SimBench, name: str = "psu1") -> bool:
    return bool(bench.state(name)["ch1"]["is_on"])


def is_running(bench: SimBench, name: str = "psu1") -> bool:
    return bool(bench.state(name)["watchdog"]["is_enabled"])


def write_bench_file(directory: Path, limit_s: float, name: str = "psu1") -> None:
    (directory / "bench.yaml").write_text(f"format: 1\n{name}: {{dead_man_s: {limit_s:g}}}\n")


@contextlib.contextmanager
def engine_on(
    directory: Path,
    bench: SimBench,
    limit_s: float | None,
    start: Callable[..., AbstractContextManager[Any]] = running_engine,
    **more: Any,
) -> Iterator[Any]:
    """An engine on a bench that outlives it, once it has met all of it."""
    if limit_s is not None:
        write_bench_file(directory, limit_s)
    entries = [{"address": bench.address(name), "name": name} for name in bench.instruments]
    config: Mapping[str, Any] = {"INSTRUMENTS": entries, **more.pop("config", {})}
    with start(directory, sim=False, config=config, **more) as engine:
        wait_for(lambda: connected(engine))
        yield engine


def connected(engine: Engine) -> bool:
    listed = engine.tool("list_instruments")["result"]
    return bool(listed) and all(entry["is_connected"] for entry in listed)


def command(engine: Engine, name: str, **parameters: Any) -> Any:
    return engine.tool(
        "execute_command",
        instrument_id="psu1",
        command_name=name,
        parameters={**CHANNEL, **parameters},
    )


def done(answer: Any) -> Any:
    assert not answer["is_error"], answer
    return answer["result"]


def switch_on(engine: Engine) -> None:
    done(command(engine, "set_voltage", voltage=5))
    done(command(engine, "output_on"))


def dead_men(engine: Engine) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = engine.tool("get_status")["result"]["dead_man"]
    return told


def events(engine: Engine) -> list[str]:
    rows = engine.rpc("audit.list", limit=500)["rows"]
    return [row["tool"] for row in rows if str(row["tool"]).startswith("dead_man.")]
