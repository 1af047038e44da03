"""Instruments that are no SCPI, through a whole engine: as safe and as well looked after as others.

Each over a socket and over a serial line: a circulator that answers nothing to an order, and a
thermostat that answers each. Neither has a question mark, nor may ever be asked ``*IDN?``.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.cli.main import main
from tests.bench.command_line import NO_PROFILES, edged
from tests.bench.engine import Engine, running_engine
from tests.bench.waiting import wait_for
from tests.promises import promise

UNITS = ("bath", "thermostat", "serial_bath", "serial_thermostat")
FLAGS = (
    "--instruments",
    "bath=julabo_fp50,thermostat=lauda_integral,"
    "serial_bath=julabo_fp50,serial_thermostat=lauda_integral",
    "--transport", "serial_bath=serial",
    "--transport", "serial_thermostat=serial",
)  # fmt: skip
STOPS = {"julabo_fp50": "OUT_MODE_05 0", "lauda_integral": "STOP"}
"""For a machine that has other things to do."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("no-scpi")
    with running_engine(directory, *FLAGS, config={"HEARTBEAT_SEC": 1}) as running:
        wait_for(lambda: len(listed(running)) == len(UNITS))
        yield running


def listed(engine: Engine) -> dict[str, Any]:
    return {one["alias"]: one for one in engine.tool("list_instruments")["result"]}


def answer(engine: Engine, unit: str, command: str, **parameters: object) -> Any:
    arguments = {"instrument_id": unit, "command_name": command, "parameters": parameters}
    return engine.tool("execute_command", **arguments)


def run(engine: Engine, unit: str, command: str, **parameters: object) -> Any:
    told = answer(engine, unit, command, **parameters)
    assert not told["is_error"], told
    return told["result"]["data"]


def received(engine: Engine, unit: str = "") -> str:
    page = engine.sim("log", instrument=unit, limit=10_000)
    return "".join(entry["text"] for entry in page["entries"] if entry["direction"] == "in")


@pytest.mark.parametrize("unit", UNITS)
def test_it_is_known_by_its_own_question_and_verified(engine: Engine, unit: str) -> None:
    known = listed(engine)[unit]
    assert known["is_connected"]
    assert known["profile_name"] in STOPS
    # Another test may have cut off a question of it, whose answer then came late.
    assert "acknowledge" not in known["warning"], "whatever acknowledges its writes is declared"
    for celsius in (31.5, -10.25):
        assert run(engine, unit, "set_setpoint", temperature=celsius)["readback"] == celsius
    refused = answer(engine, unit, "set_setpoint", temperature=500)
    assert refused["is_error"]
    assert "500" not in received(engine, unit), "what is outside is never sent"


@pytest.mark.parametrize("unit", UNITS)
def test_a_raw_question_without_a_mark_is_asked(engine: Engine, unit: str) -> None:
    run(engine, unit, "set_setpoint", temperature=21)
    told = engine.tool("send_scpi", instrument_id=unit, scpi_command="IN_SP_00")
    assert float(told["result"]["response"]) == 21
    assert run(engine, unit, "get_setpoint") == 21


@pytest.mark.parametrize("unit", UNITS)
def test_it_is_swept_and_stopped_like_any_other(engine: Engine, unit: str) -> None:
    run(engine, unit, "set_setpoint", temperature=20)
    run(engine, unit, "start")
    begun = engine.tool(
        "start_sweep",
        instrument_id=unit,
        command_name="set_setpoint",
        parameters={},
        target_value=50,
        sweep_rate=0.5,
    )
    assert not begun["is_error"], begun
    sweep_id = begun["result"]["sweep_id"]

    def status() -> Any:
        return engine.tool("get_sweep_status", sweep_id=sweep_id)["result"]

    wait_for(lambda: status()["status"] != "running" or (status()["current_value"] or 20) > 20.2)
    assert status()["status"] == "running", status()
    own: dict[str, Any] = {}

    def is_confirmed() -> bool:
        """At once; a machine that is slower than a stop may be has to ask again."""
        stopped = engine.tool("bench__stop_all")["result"]
        own.update(next(one for one in stopped["instruments"] if one["alias"] == unit))
        return own["state"] == "confirmed"

    wait_for(is_confirmed)
    assert own["scpi"] == [STOPS[listed(engine)[unit]["profile_name"]]]
    assert own["confirmed"][0]["is_as_wanted"]
    wait_for(lambda: status()["status"] not in ("running", "stopping"))
    assert engine.sim("state")["instruments"][unit]["state"]["is_on"] is False


@pytest.mark.parametrize("unit", UNITS)
def test_a_sequence_polls_and_asks_what_has_no_mark(engine: Engine, unit: str) -> None:
    told = engine.tool(
        "execute_sequence",
        instrument_id=unit,
        sequence_name="hold",
        parameters={"temperature": 25, "count": 2},
    )
    assert not told["is_error"], told
    rows = told["result"]["result"]["rows"]
    assert [row["celsius"] == pytest.approx(25, abs=0.2) for row in rows] == [True, True]
    assert engine.sim("state")["instruments"][unit]["state"]["is_on"] is False


@pytest.mark.parametrize("unit", UNITS)
def test_a_silent_one_is_noticed_without_anybody_asking(engine: Engine, unit: str) -> None:
    before = len(received(engine, unit))
    wait_for(lambda: len(received(engine, unit)) > before), "a heartbeat"
    engine.sim("fault", instrument=unit, kind="hang")
    wait_for(lambda: listed(engine)[unit]["state"] == "silent")
    engine.sim("clear", instrument=unit)
    wait_for(lambda: listed(engine)[unit]["state"] == "ready")


@promise("profile.never-asked-idn")
def test_idn_is_never_sent_whatever_happens(engine: Engine, tmp_path: Path) -> None:
    for unit in UNITS:
        engine.tool("send_scpi", instrument_id=unit, scpi_command="*idn ?")
        for kind in ("timeout", "garbage", "reset", "double"):
            engine.sim("fault", instrument=unit, kind=kind, count=1)
            answer(engine, unit, "measure_temperature")
            wait_for(lambda unit=unit: not answer(engine, unit, "measure_temperature")["is_error"])
        run(engine, unit, "set_setpoint", temperature=22)
        engine.sim("power_cycle", instrument=unit)
        wait_for(lambda unit=unit: not answer(engine, unit, "start")["is_error"])
        run(engine, unit, "stop")
    assert not engine.tool("bench__check")["is_error"]
    assert not engine.tool("scan_instruments")["is_error"]
    engine.tool("bench__stop_all")
    config = tmp_path / "edged.yaml"
    config.write_text(f"STATE_DIR: {json.dumps(str(engine.state_dir))}\n", encoding="utf-8")
    doctor = edged("doctor", "--config", str(config), "--json", environ=NO_PROFILES)
    assert json.loads(doctor.stdout)["checks"], doctor
    for unit in UNITS:
        assert len(received(engine, unit)) > 200
        assert not re.search(r"idn", received(engine, unit), re.IGNORECASE)


@promise("profile.never-asked-idn")
@pytest.mark.parametrize("model", ["julabo_fp50", "lauda_integral"])
def test_trying_its_profile_never_asks_for_a_name_either(model: str, tmp_path: Path) -> None:
    report, log = tmp_path / "report.json", tmp_path / "bytes.jsonl"
    with running_engine(
        tmp_path, "--instruments", f"own={model}", "--byte-log", str(log)
    ) as engine:
        wait_for(lambda: "own" in listed(engine))
        with contextlib.redirect_stdout(io.StringIO()) as told:
            place = ["--state-dir", str(engine.state_dir), "--report", str(report)]
            main(["profile", "test", model, "--address", "own", *place])
    tried = json.loads(report.read_text(encoding="utf-8"))
    assert tried["passed"] >= 10, told.getvalue()
    verdicts = {one["command"]: one["verdict"] for one in tried["results"]}
    failed = {name for name, verdict in verdicts.items() if verdict == "failed"}
    assert failed <= {"measure_external"}, "there is no external sensor"
    said = [json.loads(line) for line in log.read_text().splitlines()]
    sent = "".join(one["text"] for one in said if one["direction"] == "in")
    assert "IN_PV_00" in sent
    assert "IDN" not in sent.upper()


def test_what_answers_in_its_place_is_not_taken_for_it(engine: Engine) -> None:
    engine.sim("add", name="stranger", model="lauda_integral", profile="julabo_fp50")

    def aside() -> Any:
        told = engine.tool("get_status")["result"]["set_aside"]
        return next((one for one in told if one["name"] == "stranger"), None)

    engine.tool("scan_instruments")
    wait_for(aside)
    assert "julabo_fp50" in aside()["reason"]
    assert "stranger" not in listed(engine)
    assert set(received(engine, "stranger").split("\r")) == {"VERSION", ""}
    engine.sim("remove", name="stranger")
