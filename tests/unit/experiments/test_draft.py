"""A draft of a plan from rows of the audit log."""

from __future__ import annotations

from typing import Any

from edged.experiments.draft import SentTo, draft, role_of
from edged.experiments.reading import read_plan

CHANNEL: dict[str, Any] = {"properties": {"channel": {}}}
PSU: dict[str, Any] = {
    "output_on": {"parameters": CHANNEL, "is_query": False},
    "output_off": {"parameters": CHANNEL, "is_query": False},
    "set_voltage": {
        "parameters": {"properties": {"channel": {}, "voltage": {}}},
        "is_query": False,
    },
    "measure": {
        "parameters": CHANNEL,
        "is_query": True,
        "returns": {"type": "fields", "fields": [{"name": "voltage"}, {"name": "current"}]},
    },
    "picture": {"parameters": {}, "is_query": True, "returns": {"type": "image"}},
}
DMM: dict[str, Any] = {
    "measure_v": {"parameters": {}, "is_query": True, "returns": {"type": "float"}}
}
UNITS = {
    "A": SentTo(role="psu1", called="psu1", commands=PSU),
    "B": SentTo(role="dmm_2", called="dmm-2", commands=DMM),
}


class Bench:
    """Makes rows as somebody sends them, each call 100 ms long."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000.0
        self.rows: list[dict[str, Any]] = []

    def send(self, unit: str, command: str, after_s: float = 0.0, **arguments: Any) -> None:
        self.add(unit, command, after_s, parameters={"parameters": arguments})

    def add(self, unit: str, command: str, after_s: float = 0.0, **more: Any) -> None:
        self.now_ms += after_s * 1000 + 100
        row = {
            "phase": "end", "on_behalf_of": "", "instrument": unit, "tool": "execute_command",
            "command": command, "parameters": {}, "scpi": "X", "outcome": "ok",
            "time_ms": self.now_ms, "duration_ms": 100.0,
        }  # fmt: skip
        self.rows.append({**row, **more})

    def text(self) -> str:
        text = draft(self.rows, UNITS)
        read_plan(text)
        return text


def steps_of(text: str) -> list[str]:
    return text.split("steps:\n", 1)[1].splitlines()


def test_writes_with_the_same_readings_between_are_a_loop_in_a_loop() -> None:
    bench = Bench()
    for channel_2 in (0, 1.5):
        bench.send("A", "set_voltage", 3, channel=2, voltage=channel_2)
        for voltage in (1, 2, 5):
            bench.send("A", "set_voltage", channel=1, voltage=voltage)
            bench.send("B", "measure_v", 1.1)
            bench.send("A", "measure", channel=1)
    assert steps_of(bench.text()) == [
        "  - for: voltage",
        "    in: [0, 1.5]",
        "    set: {command: psu1.set_voltage.voltage, parameters: {channel: 2}}",
        "    steps:",
        "      - for: voltage_2",
        "        in: [1, 2, 5]",
        "        set: {command: psu1.set_voltage.voltage, parameters: {channel: 1}}",
        "        wait_s: 1",
        "        steps:",
        "          - {measure: {v: dmm_2.measure_v, voltage_3: {command: psu1.measure.voltage, "
        "parameters: {channel: 1}}, current: {command: psu1.measure.current, "
        "parameters: {channel: 1}}}}",
    ]


def test_what_was_switched_on_is_switched_off_in_finally_the_last_first() -> None:
    bench = Bench()
    bench.send("A", "output_on", channel=1)
    bench.send("A", "output_on", 12.3, channel=2)
    bench.send("A", "output_off", channel=1)
    assert steps_of(bench.text()) == [
        "  - {command: psu1.output_on, parameters: {channel: 1}}",
        "  - {wait_s: 12}",
        "  - {command: psu1.output_on, parameters: {channel: 2}}",
        "finally:",
        "  - {command: psu1.output_off, parameters: {channel: 2}}",
        "  - {command: psu1.output_off, parameters: {channel: 1}}",
    ]


def test_one_reading_again_and_again_is_a_loop_that_counts() -> None:
    bench = Bench()
    for _ in range(5):
        bench.send("B", "measure_v", 2)
    assert steps_of(bench.text()) == [
        "  - for: reading",
        "    in: {count: 5}",
        "    wait_s: 2",
        "    steps:",
        "      - {measure: {v: dmm_2.measure_v}}",
    ]


def test_what_a_plan_cannot_say_is_a_comment() -> None:
    bench = Bench()
    bench.send("A", "output_on", channel=1)
    bench.add("A", "", tool="send_scpi", scpi="*CLS\nX: \x1b[2J")
    bench.add("A", "set_voltage", outcome="failed", scpi=":VOLT 99")
    bench.add("B", "measure_v", tool="start_stream", scpi="")
    bench.send("A", "picture", 900)
    text = bench.text()
    assert "  # send_scpi at psu1: *CLS | X: [2J" in text
    assert "  # execute_command at psu1: :VOLT 99 (failed)" in text
    assert "  # start_stream at dmm_2: measure_v" in text
    assert "  # here nothing was sent for 15 min" in text
    assert "  - {command: psu1.picture}" in text


def test_a_sweep_is_a_ramp() -> None:
    bench = Bench()
    asked = {"parameters": {"channel": 1}, "target_value": 2, "sweep_rate": 0.5}
    bench.add("A", "set_voltage", tool="start_sweep", parameters=asked, scpi="")
    bench.add("A", "set_voltage", on_behalf_of="sweep-1", parameters={"voltage": 1})
    assert steps_of(bench.text()) == [
        "  - {ramp: {command: psu1.set_voltage, parameters: {channel: 1}}, to: 2, rate: 0.5}"
    ]


def test_dry_runs_refusals_and_what_runs_did_are_left_out() -> None:
    bench = Bench()
    bench.add("A", "output_on", parameters={"parameters": {"channel": 1}, "dry_run": True})
    bench.add("A", "output_on", phase="refusal", outcome="refused", scpi="")
    bench.add("A", "output_on", on_behalf_of="exp-1")
    bench.add("A", "output_on", phase="intent")
    assert draft(bench.rows, UNITS) == ""


def test_names_that_a_plan_cannot_have_are_made_fit() -> None:
    assert [role_of(*one) for one in (("dmm-2", ""), ("", "34461A"), ("PSU 1", "x"))] == [
        "dmm_2",
        "unit_34461a",
        "psu_1",
    ]
    bench = Bench()
    bench.send("B", "measure_v")
    assert 'roles: {dmm_2: "dmm-2"}' in bench.text()
