"""The traps of real sources and loads, walked into with the shipped profiles and a real engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from edged.profiles.model import ForStep, RowStep, Step
from tests.bench.engine import running_engine
from tests.bench.profile_matrix import SIMULATED, MatrixBench, instruments_flag, switches
from tests.bench.shipped import shipped_library
from tests.bench.waiting import wait_for
from tests.promises import promise


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixBench]:
    directory = tmp_path_factory.mktemp("traps")
    with running_engine(directory, "--instruments", instruments_flag()) as engine:
        yield MatrixBench.of(engine)


@pytest.fixture(autouse=True)
def fresh_instruments(bench: MatrixBench) -> None:
    # What a stop of the test before still tries would pre-empt what comes now.
    wait_for(lambda: not bench.engine.tool("get_status")["result"]["stopping"])
    for key in TRAPPED:
        bench.engine.tool("send_scpi", instrument_id=bench.ids[key], scpi_command="*RST")


TRAPPED = (
    "keithley_2231a_30_3",
    "keithley_2400",
    "keithley_2450",
    "keysight_e36312a",
    "keysight_e3634a",
    "rigol_dl3021",
    "rs_hmp4040",
    "yokogawa_gs200",
)


def value(answer: object) -> object:
    """The data of a call that worked."""
    assert isinstance(answer, dict)
    assert not answer["is_error"], answer
    return answer["result"]["data"]


def written(lines: list[str]) -> list[str]:
    """What was sent, without the questions."""
    return [line for line in lines if "?" not in line]


def test_an_identity_of_five_fields_is_read_rightly(bench: MatrixBench) -> None:
    listed = bench.engine.tool("list_instruments", filter="SPD3303X")["result"]
    assert [(entry["model"], entry["serial"]) for entry in listed] == [
        ("SPD3303X-E", "SPD3XIDX5R3677")
    ]


def test_both_writes_of_one_job_reach_an_instrument_that_drops_hasty_ones(
    bench: MatrixBench,
) -> None:
    key = "siglent_spd3303x"
    since = bench.mark()
    value(bench.call(key, "set_voltage_and_current", channel=1, voltage=5, current=0.25))
    channel = bench.state(key)["ch1"]
    assert (channel["volts_set"], channel["amps_limit"]) == (5, 0.25)
    entries = bench.engine.sim("log", instrument=key, since=since)["entries"]
    sent = [entry for entry in entries if entry["direction"] == "in"]
    gaps = [
        after["t"] - before["t"] for before, after in pairwise(sent) if "?" not in before["text"]
    ]
    assert min(gaps) >= 0.095


@pytest.mark.parametrize(
    ("key", "limit"), [("keithley_2450", ":SOUR:VOLT:ILIM"), ("keithley_2400", ":SENS:CURR:PROT")]
)
def test_compliance_goes_before_the_level(bench: MatrixBench, key: str, limit: str) -> None:
    since = bench.mark()
    value(bench.call(key, "source_voltage", voltage=5, current_limit=0.01))
    words = [line.split()[0] for line in written(bench.received(key, since))]
    assert words.index(limit) < words.index(":SOUR:VOLT:LEV")
    assert bench.state(key)["amps_limit"] == 0.01


@pytest.mark.parametrize("key", ["keithley_2450", "keithley_2400"])
def test_more_than_20_watts_are_refused_before_anything_is_sent(
    bench: MatrixBench, key: str
) -> None:
    since = bench.mark()
    assert bench.call(key, "source_voltage", voltage=40, current_limit=1)["is_error"]
    assert bench.received(key, since) == []


def test_reading_a_2400_whose_output_is_off_fails_at_once_and_switches_nothing_on(
    bench: MatrixBench,
) -> None:
    since = bench.mark()
    answer = bench.call("keithley_2400", "measure")
    assert answer["is_error"]
    assert "output_on" in answer["error"]["remedy"]
    # A line that was not asked for a while asks for the name first.
    heard = [line for line in bench.received("keithley_2400", since) if line != "*IDN?"]
    assert heard == [":OUTP?"]
    assert bench.state("keithley_2400")["is_on"] is False


def test_a_reading_that_is_no_number_is_null_with_a_flag(bench: MatrixBench) -> None:
    answer = bench.call("keithley_2450", "measure_current")
    assert value(answer) == {"source": 0.0, "current": None}
    assert answer["result"]["flag"] == {"current": "over_range"}


@pytest.mark.parametrize("key", ["keithley_2450", "keithley_2400"])
def test_a_curve_of_a_source_meter_is_a_resistors_and_ends_at_zero_and_off(
    bench: MatrixBench, key: str
) -> None:
    arguments = {"start": -1, "stop": 1, "points": 3, "current_limit": 0.5, "settle_ms": 100}
    since = bench.mark()
    answer = bench.run_sequence(key, "iv_curve", arguments)
    assert not answer["is_error"], answer
    rows = answer["result"]["result"]["rows"]
    ohms = [row["set_V"] / row["current_A"] for row in rows if row["set_V"]]
    assert ohms == pytest.approx([ohms[0]] * 2, rel=0.02)
    level, off = written(bench.received(key, since))[-2:]
    assert (level.split()[0], float(level.split()[1]), off) == (":SOUR:VOLT:LEV", 0, ":OUTP OFF")
    assert bench.state(key)["is_on"] is False


@promise("notes.limited")
@pytest.mark.parametrize(
    ("key", "limit", "limited"),
    [
        ("keithley_2400", 0.15, [False, False, True, True]),
        ("keithley_2450", 0.002, [False, False, False, True]),
        ("keithley_2231a_30_3", 0.15, [False, False, True, True]),
        ("delta_sm500_cp_90", 0.15, [False, False, True, True]),
        ("keithley_2410", 0.002, [False, False, False, True]),
        ("keysight_b2901a", 0.0025, [False, False, False, True]),
        ("keysight_e36312a", 0.15, [False, False, True, True]),
        ("keysight_e36313a", 0.15, [False, False, True, True]),
        ("keysight_e3631a", 0.15, [False, False, True, True]),
        ("keysight_e3634a", 0.15, [False, False, True, True]),
        ("keysight_e3649a", 0.15, [False, False, True, True]),
        ("keysight_n6700", 0.15, [False, False, True, True]),
        ("keysight_n7951a", 0.15, [False, False, True, True]),
        ("rigol_dp832", 0.15, [False, False, True, True]),
        ("rs_hmp2030", 0.15, [False, False, True, True]),
        ("rs_hmp4040", 0.15, [False, False, True, True]),
        ("rs_nge103b", 0.15, [False, False, True, True]),
        ("siglent_spd1168x", 0.15, [False, False, True, True]),
        ("siglent_spd3303x", 0.15, [False, False, True, True]),
        ("tdk_g10_100", 0.15, [False, False, True, True]),
        ("yokogawa_gs200", 0.0025, [False, False, False, True]),
    ],
)
def test_a_curve_tells_at_which_points_its_current_was_limited(
    bench: MatrixBench, key: str, limit: float, limited: list[bool]
) -> None:
    channel: dict[str, int | float] = {}
    parameters = SIMULATED[key].sequences["iv_curve"].parameters
    if "channel" in parameters:
        channel["channel"] = 1
    start = max(0, parameters["start"].min or 0)
    arguments = {"start": start, "stop": 3, "points": 4, "settle_ms": 100, "current_limit": limit}
    answer = bench.run_sequence(key, "iv_curve", {**channel, **arguments})
    assert not answer["is_error"], answer
    assert [row["limited"] for row in answer["result"]["result"]["rows"]] == limited
    note = f"the current limit was reached at {sum(limited)} of 4 points"
    assert answer["result"]["notes"] == [note]
    free = bench.run_sequence(key, "iv_curve", {**channel, **arguments, "current_limit": 0.2})
    assert not free["is_error"], free
    if not any(row["limited"] for row in free["result"]["result"]["rows"]):
        assert "notes" not in free["result"]


@promise("notes.limited")
def test_a_current_just_below_its_limit_is_not_told_as_limited(bench: MatrixBench) -> None:
    # 1 V on 10 ohm is 0.1 A: the unit holds the voltage, whatever 99 % of the limit is.
    arguments = {"channel": 1, "start": 0, "stop": 1, "points": 2, "settle_ms": 100}
    since = bench.mark()
    answer = bench.run_sequence("rs_hmp4040", "iv_curve", {**arguments, "current_limit": 0.1005})
    assert not answer["is_error"], answer
    assert [row["limited"] for row in answer["result"]["result"]["rows"]] == [False, False]
    assert "STAT:QUES:INST:ISUM1:COND?" in bench.received("rs_hmp4040", since)


@promise("notes.limited")
@pytest.mark.parametrize(
    ("key", "arm"), [("rs_hmp4040", "fuse_on"), ("keysight_e36312a", "ocp_on")]
)
def test_a_channel_that_its_limit_has_switched_off_is_told_as_limited(
    bench: MatrixBench, key: str, arm: str
) -> None:
    value(bench.call(key, arm, channel=1))
    arguments = {"channel": 1, "start": 0, "stop": 3, "points": 4, "settle_ms": 100}
    answer = bench.run_sequence(key, "iv_curve", {**arguments, "current_limit": 0.15})
    assert not answer["is_error"], answer
    rows = answer["result"]["result"]["rows"]
    assert [row["limited"] for row in rows] == [False, False, True, True]
    assert rows[-1]["current_A"] < 0.01


@promise("notes.limited")
@pytest.mark.parametrize("key", ["keithley_2400", "keithley_2450"])
def test_a_single_point_tells_that_its_current_was_limited(bench: MatrixBench, key: str) -> None:
    arguments = {"voltage": 5, "current_limit": 0.002, "settle_ms": 100}
    answer = bench.run_sequence(key, "voltage_point", arguments)
    assert not answer["is_error"], answer
    assert answer["result"]["notes"] == ["the current limit was reached"]


@promise("notes.limited")
def test_every_curve_of_a_source_has_the_column() -> None:
    curves = {
        key: profile.sequences["iv_curve"]
        for key, profile in shipped_library().profiles.items()
        if "iv_curve" in profile.sequences
    }
    assert len(curves) >= 8
    for key, curve in curves.items():
        rows = list(rows_in(curve.steps))
        assert rows, key
        assert all("limited" in row.columns for row in rows), key


def rows_in(steps: Iterable[Step]) -> Iterator[RowStep]:
    for step in steps:
        if isinstance(step, RowStep):
            yield step
        elif isinstance(step, ForStep):
            yield from rows_in(step.steps)


def test_the_second_line_of_a_loads_answer_never_answers_another_question(
    bench: MatrixBench,
) -> None:
    for _ in range(5):
        assert value(bench.call("rigol_dl3021", "measure_current")) == 0.000067
        assert value(bench.call("rigol_dl3021", "get_mode")) == "constant_current"
        assert value(bench.call("rigol_dl3021", "get_current_range")) == 40


def test_another_mode_of_a_load_is_chosen_with_its_input_off(bench: MatrixBench) -> None:
    key = "rigol_dl3021"
    value(bench.call(key, "input_on"))
    value(bench.call(key, "set_mode", mode="constant_power"))
    assert value(bench.call(key, "get_mode")) == "constant_power"
    assert bench.state(key)["is_on"] is False


def test_callers_of_different_channels_never_set_each_others(bench: MatrixBench) -> None:
    key = "rs_hmp4040"

    def work(channel: int) -> None:
        for step in range(8):
            volts = channel * 5 + step * 0.1
            value(bench.call(key, "set_voltage", channel=channel, voltage=volts))
            assert value(bench.call(key, "get_voltage", channel=channel)) == pytest.approx(volts)

    with ThreadPoolExecutor(4) as callers:
        list(callers.map(work, (1, 2, 3, 4)))
    state = bench.state(key)
    assert [state[f"ch{n}"]["volts_set"] for n in (1, 2, 3, 4)] == [5.7, 10.7, 15.7, 20.7]


def test_volts_are_never_sent_to_a_source_of_amperes(bench: MatrixBench) -> None:
    key = "yokogawa_gs200"
    value(bench.call(key, "set_function", function="current"))
    since = bench.mark()
    answer = bench.call(key, "set_voltage", voltage=0.1)
    assert answer["is_error"]
    assert "set_function" in answer["error"]["remedy"]
    assert bench.received(key, since) == [":SOUR:FUNC?"]
    assert bench.state(key)["level"] == 0


def test_a_gs200_comes_down_on_its_own_ramp_before_it_goes_off(bench: MatrixBench) -> None:
    key = "yokogawa_gs200"
    value(bench.call(key, "set_function", function="voltage"))
    value(bench.call(key, "set_voltage", voltage=10))
    value(bench.call(key, "output_on"))
    since = bench.mark()
    answer = bench.run_sequence(key, "ramp_down", {"seconds": 1})
    assert not answer["is_error"], answer
    lines = written(bench.received(key, since))
    assert lines[0] == ":PROG:EDIT:STAR"
    assert lines[-1] == ":OUTP OFF"
    entries = bench.engine.sim("log", instrument=key, since=since)["entries"]
    began, ended = (
        next(entry["t"] for entry in entries if word in entry["text"])
        for word in (":PROG:RUN", ":OUTP OFF")
    )
    assert ended - began >= 1.2
    state = bench.state(key)
    assert (state["is_on"], state["level"]) == (False, 0)


def test_stopping_all_takes_a_gs200_to_zero_before_it_goes_off(bench: MatrixBench) -> None:
    key = "yokogawa_gs200"
    value(bench.call(key, "set_voltage", voltage=10))
    value(bench.call(key, "output_on"))
    since = bench.mark()
    assert not bench.engine.tool("bench__stop_all")["is_error"]
    wait_for(lambda: not bench.state(key)["is_on"])
    assert written(bench.received(key, since))[:3] == [":PROG:HOLD", ":SOUR:LEV 0", ":OUTP OFF"]
    state = bench.state(key)
    assert (state["is_on"], state["level"]) == (False, 0)


def test_stopping_all_leaves_nothing_of_any_source_on(bench: MatrixBench) -> None:
    value(bench.call("keithley_2400", "output_on"))
    value(bench.call("rigol_dl3021", "input_on"))
    value(bench.call("keysight_e36312a", "output_on", channel=2))
    value(bench.call("rs_hmp4040", "activate_channel", channel=3))
    value(bench.call("rs_hmp4040", "output_on"))
    assert not bench.engine.tool("bench__stop_all")["is_error"]
    wait_for(lambda: not any(any(switches(bench.state(key))) for key in TRAPPED))


def test_a_safe_command_of_the_e36312a_clears_a_trip_with_the_output_off(
    bench: MatrixBench,
) -> None:
    key = "keysight_e36312a"
    value(bench.call(key, "set_voltage", channel=1, voltage=5))
    value(bench.call(key, "set_ovp_level", channel=1, level=2))
    value(bench.call(key, "ovp_on", channel=1))
    value(bench.call(key, "output_on", channel=1))
    for _ in range(50):
        if value(bench.call(key, "is_ovp_tripped", channel=1)):
            break
    assert value(bench.call(key, "is_ovp_tripped", channel=1)) is True
    value(bench.call(key, "clear_protection", channel=1))
    assert value(bench.call(key, "is_ovp_tripped", channel=1)) is False
    assert bench.state(key)["ch1"]["is_on"] is False


def test_stopping_all_proves_by_its_own_register_that_each_channel_of_a_2231a_is_off(
    tmp_path: Path,
) -> None:
    # Alone: so many as on the other bench do not all answer within the second of a stop.
    with running_engine(tmp_path, "--instruments", "psu=keithley_2231a_30_3") as engine:
        unit = {"instrument_id": "psu"}
        for command, channel in (("channel_on", 2), ("get_voltage", 1)):
            parameters = {"channel": channel}
            value(
                engine.tool("execute_command", command_name=command, parameters=parameters, **unit)
            )
        (told,) = engine.stop_all()["instruments"]
        asked = {answer["query"]: answer["answer"] for answer in told["confirmed"]}
        assert asked == {f"STAT:OPER:INST:ISUM{n}:COND?": "0" for n in (1, 2, 3)}
        assert not any(switches(engine.sim("state")["instruments"]["psu"]["state"]))


def test_a_command_of_the_e3634a_clears_a_trip_with_the_output_off(bench: MatrixBench) -> None:
    key = "keysight_e3634a"
    value(bench.call(key, "set_voltage", voltage=5))
    value(bench.call(key, "set_ovp_level", level=2))
    value(bench.call(key, "output_on"))
    for _ in range(50):
        if value(bench.call(key, "is_ovp_tripped")):
            break
    assert value(bench.call(key, "get_output")) is True
    value(bench.call(key, "clear_ovp"))
    assert value(bench.call(key, "is_ovp_tripped")) is False
    assert bench.state(key)["ch1"]["is_on"] is False
    assert value(bench.call(key, "get_output")) is False


@pytest.mark.parametrize(
    ("key", "command", "arguments"),
    [
        ("keithley_2401", "set_voltage", {"voltage": 21.1}),
        ("keithley_2410", "source_voltage", {"voltage": 30, "current_limit": 0.03}),
        ("keithley_2420", "source_voltage", {"voltage": 30, "current_limit": 1.1}),
        ("keysight_b2901a", "source_voltage", {"voltage": 7, "current_limit": 1.6}),
        ("keysight_e3631a", "set_voltage", {"channel": 3, "voltage": 1}),
        (
            "keysight_e3634a",
            "set_range_voltage_and_current",
            {"range": "low", "voltage": 26, "current": 1},
        ),
        ("rs_hmp2030", "set_voltage_and_current", {"channel": 1, "voltage": 32, "current": 3}),
        ("siglent_sdl1020x", "set_power", {"power": 201}),
    ],
)
def test_a_sister_refuses_what_only_its_relatives_can(
    bench: MatrixBench, key: str, command: str, arguments: dict[str, int | float | str]
) -> None:
    since = bench.mark()
    assert bench.call(key, command, **arguments)["is_error"]
    assert bench.received(key, since) == []


def test_high_voltages_and_outputs_are_marked_for_clients(bench: MatrixBench) -> None:
    capable = bench.engine.tool("get_capabilities", instrument_id=bench.ids["keithley_2450"])
    commands = {c["name"]: c["is_dangerous"] for c in capable["result"][0]["commands"]}
    assert commands["set_high_voltage"]
    assert commands["output_on"]
    assert not commands["set_voltage"]
    assert not commands["output_off"]
