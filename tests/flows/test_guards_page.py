"""docs/guards.md: its bench file, copied as it stands, does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.bench.engine_process import REPOSITORY
from tests.bench.guarded_supply import command, dead_men, done, engine_on, is_on, is_running
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import wait_for

PAGE = REPOSITORY / "docs" / "guards.md"


def bench_file() -> str:
    """The one under the heading that says so."""
    text = PAGE.read_text().split("## A bench file with all three")[1]
    found = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_bench_file_of_the_page_guards_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text(bench_file())
    with (
        running_bench("--instruments", "psu1=keysight_n6700,dmm1") as bench,
        engine_on(tmp_path, bench, None) as engine,
    ):
        status = done(engine.tool("get_status"))
        assert status["profiles"]["bench_error"] == ""
        done(command(engine, "output_on"))
        assert is_running(bench)
        assert [one["state"] for one in dead_men(engine)] == ["armed"]
        refused = command(engine, "output_on")
        assert refused["error"]["code"] == "budget", refused
        wait_for(lambda: done(engine.tool("get_status"))["interlocks"][0]["state"] == "watching")
        # The cable of the thermometer.
        bench.fault("dmm1", "refuse")
        wait_for(lambda: not is_on(bench))
        (lock,) = done(engine.tool("get_status"))["lockouts"]
        assert lock["by"] == "the interlock chamber"
        wait_for(lambda: dead_men(engine) == [])
