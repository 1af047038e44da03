"""Other people's HiSLIP clients, unchanged, at the HiSLIP server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.sim_bench import running_bench
from tests.promises import promise

PYTHON = REPOSITORY / ".venv-clients" / "hislip" / "bin" / "python"
CLIENTS = REPOSITORY / "tests" / "clients"
SERVING = {"VISA_SERVER": ["hislip"], "HISLIP_PORT": 0}
TRIES = 5
"""cPyHiSLIP can miss an answer that comes quickly (see there), and waits for it for ever then."""
PATIENCE_S = 6.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with engine_process(tmp_path_factory.mktemp("hislip"), config=SERVING) as running:
        yield running


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """An engine with one instrument, which ``hislip0`` is."""
    with running_bench("--instruments", "psu1") as bench:
        config = {**SERVING, "INSTRUMENTS": [{"address": bench.address("psu1"), "name": "psu1"}]}
        directory = tmp_path_factory.mktemp("single")
        with engine_process(directory, sim=False, config=config) as running:
            yield running


def run(script: str, *words: object, within_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, CLIENTS / script, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )


@promise("hislip.others")
def test_an_ordinary_pyvisa_program_works_unchanged(engine: EngineProcess) -> None:
    port = engine.ports["hislip_port"]
    done = run("hislip_pyvisa.py", port, "hislip_psu1", "hislip_scope1")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "DP832A" in seen["idn"]
    assert seen["idn"] == seen["raw"] == seen["in pieces"]
    assert seen["terminated"] == "1\n"
    assert seen["volts"] == [3.25]
    assert (seen["mav"], seen["eav"]) == (True, True)
    assert seen["error"].startswith('-222,"Data out of range;voltage 300 V is over the maximum')
    assert seen["no error"].startswith("0,")
    assert seen["refused question"] == "VI_ERROR_TMO"
    assert seen["after clear"].startswith("-222,")
    assert seen["points"] == 1_200
    assert (seen["lock"], seen["locked"], seen["unlock"]) == ("success", 1, "success")


def cpy(engine: EngineProcess, what: str) -> subprocess.CompletedProcess[str]:
    for _ in range(TRIES):
        try:
            return run("hislip_cpy.py", engine.ports["hislip_port"], what, within_s=PATIENCE_S)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"{what} was never answered")


@promise("hislip.others")
@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("status", [0, [1, 0], 0]),
        ("lock", [1, [1, 1], 1]),
        ("clear", "2.000"),
    ],
)
def test_cpyhislip_asks_locks_and_clears(single: EngineProcess, what: str, told: Any) -> None:
    assert question(single)[0] == "2.000"
    done = cpy(single, what)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == told


def question(engine: EngineProcess) -> Any:
    done = cpy(engine, "question")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@promise("hislip.others")
def test_cpyhislip_asks_and_is_told_why_it_was_refused(single: EngineProcess) -> None:
    volts, identity = question(single)
    assert (volts, "DP832A" in identity) == ("2.000", True)
    refused = cpy(single, "refusal")
    assert "voltage 300 V is over the maximum 32 V" in refused.stdout + refused.stderr


@promise("hislip.others")
def test_what_a_client_may_open_is_told_in_its_own_words(engine: EngineProcess) -> None:
    refused = cpy(engine, "question")
    assert refused.returncode != 0
    assert "There are hislip_dmm1, hislip_psu1, hislip_scope1." in refused.stdout + refused.stderr
    assert Path(PYTHON).exists()
