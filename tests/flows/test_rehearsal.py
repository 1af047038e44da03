"""Rehearsals: jobs on twins in virtual time, each in a child process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edged.config.load import load_config
from edged.engine.rehearsals import DEADLINE_S, RealUnit, Rehearsals, request_of
from edged.errors import ErrorCode, Failed
from edged.host import places_here
from edged.profiles.bench_file import parse_bench
from edged.profiles.library import ProfileLibrary
from edged.profiles.library_cache import read_library
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise

PROFILES = Path(__file__).resolve().parents[2] / "profiles"
EXAMPLES = Path(__file__).resolve().parents[1] / "bench" / "experiments"
HOURS = 5.5
READINGS = 330
EVERY_MS = 60_000
COOLING = "cooling_curve"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ProfileLibrary:
    return read_library((PROFILES,), tmp_path_factory.mktemp("state"))


class Lab:
    """What a daemon knows: profiles, and its owner's file."""

    def __init__(self, library: ProfileLibrary, state_dir: Path) -> None:
        self._library = library
        self._config = load_config(
            places=replace(places_here(), config_file=state_dir / "none.yaml"), environ={}
        ).config

    def request(
        self,
        units: Mapping[str, str],
        job: str,
        arguments: Mapping[str, Any],
        *,
        bench_file: str = "",
        seed: int = 0,
        deadline_s: float = DEADLINE_S,
    ) -> dict[str, Any]:
        """``units``: name → profile key; ``bench_file``: bench.yaml without its first line."""
        text = f"format: 1\n{bench_file}"
        bench = parse_bench(text, "bench.yaml", self._library)
        return request_of(
            job,
            arguments,
            units=[
                RealUnit(
                    name=name,
                    profile=self._library.profiles[key],
                    rules=bench.rules_for("", name),
                )
                for name, key in units.items()
            ],
            interlocks=bench.interlocks,
            config=self._config,
            clock=DrivenClock(),
            seed=seed,
            deadline_s=deadline_s,
        )

    def sequence(self, name: str, parameters: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The request for a sequence of the temperature controller."""
        arguments = {"instrument_id": "tc1", "sequence_name": name, "parameters": parameters}
        return self.request({"tc1": "lakeshore_335"}, "sequence", arguments, **more)


@pytest.fixture
def lab(library: ProfileLibrary, tmp_path: Path) -> Lab:
    return Lab(library, tmp_path)


async def test_hours_of_a_sequence_pass_in_seconds_and_are_counted_right(lab: Lab) -> None:
    request = lab.sequence(COOLING, {"count": READINGS, "interval_ms": EVERY_MS})
    began = time.perf_counter()
    answer = await Rehearsals().rehearse(request)
    took_s = time.perf_counter() - began
    result = answer["result"]
    assert result["status"] == "ok", result
    assert len(result["data"]["result"]["rows"]) == READINGS
    assert answer["virtual_s"] == pytest.approx(HOURS * 3_600, rel=0.01)
    assert answer["virtual_s"] > READINGS * EVERY_MS / 1_000
    assert (answer["no_model"], answer["left_out"]) == ([], [])
    # Some seconds on a quiet machine.
    assert took_s < HOURS * 3_600 / 50


@promise("experiment.rehearsed")
@pytest.mark.parametrize(
    ("example", "units", "least_s", "least_rows"),
    [
        ("transistor_map", {"smu1": "keithley_2400", "smu2": "keithley_2400",
                            "tc1": "lakeshore_335"}, 60, 861),
        ("board_test", {"psu1": "rigol_dp832", "dmm1": "keysight_34461a",
                        "load1": "rigol_dl3021"}, 60, 60),
    ],
)  # fmt: skip
async def test_the_examples_of_the_specification_are_rehearsed_whole_as_written(
    lab: Lab, example: str, units: dict[str, str], least_s: float, least_rows: int
) -> None:
    source = (EXAMPLES / f"{example}.yaml").read_text()
    wanted = {"source": source, "roles": {}, "parameters": {}}
    answer = await Rehearsals().rehearse(lab.request(units, "experiment", wanted))
    result = answer["result"]
    assert (result["state"], result["error"]) == ("completed", None), result
    assert result["done"] >= least_rows
    assert answer["virtual_s"] >= least_s
    assert answer["no_model"] == []


async def test_equal_requests_give_equal_answers(lab: Lab) -> None:
    request = lab.sequence(COOLING, {"count": 20, "interval_ms": 1_000})
    other = lab.sequence(COOLING, {"count": 20, "interval_ms": 1_000}, seed=1)
    rehearsals = Rehearsals()
    answers = [await rehearsals.rehearse(one) for one in (request, request, other)]
    rows = [answer["result"]["data"]["result"]["rows"] for answer in answers]
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]
    assert answers[0]["virtual_s"] == answers[1]["virtual_s"]


async def test_a_unit_without_a_simulated_model_is_named_and_is_not_there(
    lab: Lab, library: ProfileLibrary
) -> None:
    request = lab.request(
        {"tc1": "lakeshore_335"},
        "sequence",
        {"instrument_id": "odd", "sequence_name": COOLING},
    )
    own = replace(library.profiles["lakeshore_335"], sim=None)
    odd = RealUnit(name="odd", profile=own)
    more = request_of(
        "sequence",
        {},
        units=[odd],
        interlocks=(),
        config=lab._config,
        clock=DrivenClock(),
    )
    answer = await Rehearsals().rehearse({**request, "units": more["units"] + request["units"]})
    assert answer["no_model"] == ["odd"]
    assert answer["result"]["error"]["code"] == "unknown_instrument"


async def test_what_the_owner_forbids_is_refused_in_a_rehearsal_too(lab: Lab) -> None:
    request = lab.sequence(
        "warm_for",
        {"temperature": 300},
        bench_file="tc1: {limits: {ramp_setpoint: {temperature: {max: 250}}}}\n",
    )
    answer = await Rehearsals().rehearse(request)
    error = answer["result"]["error"]
    assert error is not None
    assert "250" in error["message"]


async def test_an_interlock_holds_where_its_meter_has_a_twin_and_is_named_where_not(
    lab: Lab,
) -> None:
    interlocks = """interlocks:
  - name: cold
    when: {instrument: tc1, command: measure_temperature, parameters: {input: A}}
    must: value < 50
    max_age_s: 5
    poll_s: 1
    guards: [tc1]
  - name: water
    when: {instrument: flow1, command: measure_temperature, parameters: {input: A}}
    must: value > 1
    max_age_s: 5
    poll_s: 1
    guards: [tc1]
"""
    request = lab.sequence("warm_for", {"temperature": 90}, bench_file=interlocks)
    answer = await Rehearsals().rehearse(request)
    assert answer["left_out"] == ["water"]
    assert "cold" in answer["result"]["error"]["message"]


async def test_a_rehearsal_is_ended_at_its_deadline_and_leaves_no_files(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    request = lab.sequence(COOLING, {"count": 100_000, "interval_ms": 1_000}, deadline_s=4.0)
    with pytest.raises(Failed, match="within 4 s") as late:
        await Rehearsals().rehearse(request)
    assert late.value.code is ErrorCode.TIMEOUT
    assert list(tmp_path.iterdir()) == []


def _child(*lines: str) -> Sequence[str]:
    return (sys.executable, "-c", "\n".join(lines))


async def test_a_child_that_crashes_is_an_error_with_its_last_words(lab: Lab) -> None:
    request = lab.sequence(COOLING, {})
    for line in ("raise RuntimeError('out of luck')", "import os; os.abort()", "print('{')"):
        with pytest.raises(Failed, match="crashed") as crashed:
            await Rehearsals(_child(line)).rehearse(request)
        assert crashed.value.code is ErrorCode.INTERNAL
        if "luck" in line:
            assert "out of luck" in crashed.value.message


async def test_a_job_that_there_is_not_is_refused(lab: Lab) -> None:
    with pytest.raises(Failed, match="no job 'dance'"):
        await Rehearsals().rehearse(lab.request({}, "dance", {}))


async def test_who_is_cancelled_leaves_no_child_and_the_loop_is_never_held(
    lab: Lab, tmp_path: Path
) -> None:
    request = lab.sequence(COOLING, {})
    begun = tmp_path / "begun"
    waits = _child(f"import time; open({str(begun)!r}, 'w').close()", "time.sleep(60)")
    rehearsing = asyncio.create_task(Rehearsals(waits).rehearse(request))
    turns = 0
    async with asyncio.timeout(20):
        while not begun.exists():
            turns += 1
            await asyncio.sleep(0.01)
    assert turns > 1
    rehearsing.cancel()
    # A child that is left fails this test at its end (tests/conftest.py).
    with pytest.raises(asyncio.CancelledError):
        await rehearsing


async def test_a_child_that_has_lost_its_daemon_ends_itself(lab: Lab) -> None:
    request = lab.sequence(COOLING, {"count": 100_000, "interval_ms": 1_000}, deadline_s=1.0)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "edged.engine.rehearsal",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        said, _ = await process.communicate(json.dumps(request).encode())
    assert process.returncode != 0
    assert not said
