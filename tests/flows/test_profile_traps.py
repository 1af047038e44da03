"""What meters, generators and scopes do that a plain profile would fall over."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.waiting import wait_for

INSTRUMENTS = (
    "keithley_dmm6500",
    "rigol_dg1022z",
    "siglent_sdg2042x",
    "keysight_e4980a",
    "srs_sr830",
    "lakeshore_335",
    "tektronix_tbs1000c",
    "siglent_sds1104xe",
    "rigol_ds1054z",
    "rigol_dsa815",
    "keysight_e5062a",
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("traps")
    names = ",".join(f"{name}={name}" for name in INSTRUMENTS)
    with running_engine(directory, "--instruments", names) as running:
        yield running


def answer(engine: Engine, name: str, command: str, **parameters: object) -> Any:
    return engine.tool(
        "execute_command", instrument_id=name, command_name=command, parameters=parameters
    )


def run(engine: Engine, name: str, command: str, **parameters: object) -> Any:
    told = answer(engine, name, command, **parameters)
    assert not told["is_error"], told
    assert told["result"]["success"], told
    return told["result"]["data"]


def samples(engine: Engine, captured: Any) -> list[float]:
    told = engine.tool(
        "fetch_waveform",
        stream_id=captured["stream_id"],
        point_index=captured["point_index"],
        format="base64",
    )["result"]
    data = base64.b64decode(told["y_data"])
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def received(engine: Engine, name: str) -> list[dict[str, Any]]:
    page = engine.sim("log", instrument=name)
    return [entry for entry in page["entries"] if entry["direction"] == "in"]


def give_a_square(engine: Engine) -> None:
    """2 V to 4 V on what the channels 2 of the scopes see."""
    run(engine, "rigol_dg1022z", "set_square", amplitude=2, offset=3, frequency=1000)
    run(engine, "rigol_dg1022z", "output_on", channel=1)


def test_a_siglent_waveform_is_scaled_by_four_questions_and_leaves_no_line_feed(
    engine: Engine,
) -> None:
    give_a_square(engine)
    run(engine, "siglent_sds1104xe", "set_vertical", channel=2, probe="1", scale=2)
    run(engine, "siglent_sds1104xe", "set_vertical_offset", channel=2, offset=-3)
    captured = run(engine, "siglent_sds1104xe", "capture_waveform", channel=2, every=100)
    volts = samples(engine, captured)
    assert (min(volts), max(volts)) == (pytest.approx(2, abs=0.3), pytest.approx(4, abs=0.3))
    assert captured["x_increment"] == pytest.approx(100 / 10e6)
    assert run(engine, "siglent_sds1104xe", "get_vertical_scale", channel=2) == 2
    picture = run(engine, "siglent_sds1104xe", "screenshot")
    assert base64.b64decode(picture["image"])[:2] == b"BM"
    assert run(engine, "siglent_sds1104xe", "get_vertical_offset", channel=2) == -3


def test_the_buffer_of_a_lock_in_comes_as_floats_without_a_header(engine: Engine) -> None:
    run(engine, "srs_sr830", "set_sample_rate", rate="512 Hz")
    run(engine, "srs_sr830", "start_storage")
    wait_for(lambda: run(engine, "srs_sr830", "get_stored_points") >= 20)
    run(engine, "srs_sr830", "pause_storage")
    captured = run(engine, "srs_sr830", "read_buffer", channel=1, first=5, points=10)
    assert (captured["y_length"], captured["x_unit"]) == (10, "points")
    told = run(engine, "srs_sr830", "read_buffer_text", channel=1, first=5, points=10)
    assert samples(engine, captured) == pytest.approx(told, rel=1e-5)
    refused = answer(engine, "srs_sr830", "read_buffer", channel=1, first=16000, points=400)
    assert refused["is_error"]
    assert run(engine, "srs_sr830", "get_harmonic") == 1


@pytest.mark.parametrize("command", ["capture_waveform", "capture_fine_waveform"])
def test_a_tektronix_waveform_minds_position_in_codes_and_zero_in_volts(
    engine: Engine, command: str
) -> None:
    give_a_square(engine)
    run(engine, "tektronix_tbs1000c", "set_vertical_scale", channel=2, scale=1)
    run(engine, "tektronix_tbs1000c", "set_vertical_offset", channel=2, offset=2)
    run(engine, "tektronix_tbs1000c", "set_vertical_position", channel=2, position=1)
    volts = samples(engine, run(engine, "tektronix_tbs1000c", command, channel=2))
    assert len(volts) == 2000
    assert (min(volts), max(volts)) == (pytest.approx(2, abs=0.2), pytest.approx(4, abs=0.2))


def test_what_tektronix_refuses_is_told_in_its_own_words(engine: Engine) -> None:
    refused = engine.tool(
        "send_scpi", instrument_id="tektronix_tbs1000c", scpi_command="CH1:SCAle 1000"
    )
    assert '222,"Data out of range"' in str(refused)
    assert run(engine, "tektronix_tbs1000c", "is_running") is True


def test_a_direct_voltage_is_known_by_the_whole_waveform_alone(engine: Engine) -> None:
    run(engine, "rigol_dg1022z", "set_dc", channel=2, level=2.5)
    assert run(engine, "rigol_dg1022z", "get_offset", channel=2) == 0
    assert run(engine, "rigol_dg1022z", "get_waveform", channel=2)["offset"] == 2.5
    assert run(engine, "rigol_dg1022z", "get_load", channel=2) is None


def test_what_siglent_ignores_in_silence_is_found_in_its_one_long_answer(
    engine: Engine,
) -> None:
    set_to = run(engine, "siglent_sdg2042x", "set_frequency", channel=1, frequency=2500)
    assert set_to["readback"] == 2500
    run(engine, "siglent_sdg2042x", "set_ramp", channel=1)
    ignored = answer(engine, "siglent_sdg2042x", "set_frequency", channel=1, frequency=2e6)
    assert "verify_failed" in str(ignored)


def test_a_correction_is_waited_for_by_its_register(engine: Engine) -> None:
    run(engine, "keysight_e4980a", "correct_open")
    told = engine.sim("state")["instruments"]["keysight_e4980a"]["state"]
    assert told["is_correcting"] is False
    assert run(engine, "keysight_e4980a", "measure_cp_d")["capacitance"] == pytest.approx(
        100e-9, rel=0.01
    )


def test_the_lock_in_is_told_its_interface_first_and_errors_come_from_its_register(
    engine: Engine,
) -> None:
    heard = "".join(entry["text"] for entry in received(engine, "srs_sr830"))
    # A busy machine may be asked who it is more than once.
    assert re.match(r"(\*IDN\?\n)+OUTX 1\n", heard)
    run(engine, "srs_sr830", "set_frequency", frequency=50000)
    refused = answer(engine, "srs_sr830", "set_harmonic", harmonic=3)
    assert "execution error" in str(refused)
    run(engine, "srs_sr830", "set_sensitivity", sensitivity="1 mV")
    assert run(engine, "srs_sr830", "get_sensitivity") == "1 mV"
    run(engine, "srs_sr830", "set_time_constant", time_constant="30 ms")
    assert run(engine, "srs_sr830", "get_time_constant") == "30 ms"


def test_a_set_point_given_at_once_ends_the_controllers_own_ramp(engine: Engine) -> None:
    run(engine, "lakeshore_335", "ramp_setpoint", output=2, temperature=300, rate=1)
    assert run(engine, "lakeshore_335", "is_ramping", output=2) is True
    assert run(engine, "lakeshore_335", "set_setpoint", output=2, temperature=90)["readback"] == 90
    assert run(engine, "lakeshore_335", "is_ramping", output=2) is False
    # Who it is, is asked before its line ends are known.
    lines = [entry["text"] for entry in received(engine, "lakeshore_335")]
    assert all(line.endswith("\r\n") for line in lines if not line.startswith("*IDN?"))


def test_an_integration_time_is_not_offered_where_it_would_never_be_answered(
    engine: Engine,
) -> None:
    before = len(received(engine, "keithley_dmm6500"))
    refused = answer(engine, "keithley_dmm6500", "set_nplc", function="ac_voltage", nplc=1)
    assert refused["is_error"]
    assert len(received(engine, "keithley_dmm6500")) == before


def test_the_memory_of_a_scope_that_acquires_is_not_asked_for_in_vain(
    engine: Engine,
) -> None:
    run(engine, "rigol_ds1054z", "run")
    told = answer(engine, "rigol_ds1054z", "capture_memory", channel=1)
    assert told["is_error"]
    assert "stop ends that" in told["error"]["message"] + told["error"]["remedy"]
    assert not any("WAV" in entry["text"] for entry in received(engine, "rigol_ds1054z"))
    run(engine, "rigol_ds1054z", "stop")
    assert run(engine, "rigol_ds1054z", "capture_memory", channel=1)["y_length"] == 1200


@pytest.mark.parametrize(
    ("name", "sequence", "level", "points"),
    [
        ("rigol_dsa815", "capture_transmission", -20, 601),
        ("keysight_e5062a", "capture_parameter", 0, 201),
    ],
)
def test_an_analyser_captures_what_passes_a_filter_by_one_sequence(
    engine: Engine, name: str, sequence: str, level: float, points: int
) -> None:
    told = engine.tool(
        "execute_sequence",
        instrument_id=name,
        sequence_name=sequence,
        parameters={"start": 90e6, "stop": 110e6},
    )
    assert not told["is_error"], told
    trace = samples(engine, told["result"]["result"])
    assert len(trace) == points, "of pairs the first numbers"
    assert max(trace) == pytest.approx(level, abs=0.2)
    assert trace.index(max(trace)) == pytest.approx(points // 2, abs=points // 20)
    assert trace[0] < level - 3
