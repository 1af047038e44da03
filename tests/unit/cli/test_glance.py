"""What a person reads under `edged status`."""

from __future__ import annotations

from typing import Any

from edged.cli.status import glance
from edged.clock import SystemClock
from tests.promises import promise

SWEEP = {
    "sweep_id": "sweep-1",
    "status": "running",
    "instrument_id": "TCPIP::1",
    "command_name": "set_voltage",
    "unit": "V",
    "set_value": 1.5,
    "start_value": 0.0,
    "target_value": 5.0,
    "sweep_rate": 0.1,
    "why_late": "readings take 0.45 s a step, 0.1 s were asked for",
    "needs_attention": False,
    "abort": {"state": "not_needed"},
}
IDLE: dict[str, Any] = {
    "edge_id": "edge-1",
    "edge_name": "bench",
    "version": "1.0",
    "uptime_s": 11_530.0,
    "instrument_count": 2,
    "instruments_by_state": {"ready": 2},
    "mcp": {
        "enabled": True,
        "port": 8767,
        "sessions": 1,
        "error": "",
        "warning": "",
        "page": "read",
        "path": "/mcp",
        "tools": 135,
    },
    "visa": {"enabled": False, "port": None, "error": "", "programs": [], "names": []},
    "sweeps": [],
    "streams": [],
    "sequences": [],
    "lockouts": [],
    "leases": [],
    "approvals": [],
    "interlocks": [],
    "budgets": [],
    "dead_man": [],
    "told_on": [],
    "troubled_lines": [],
    "waiting_calls": [],
    "stopping": [],
    "needs_attention": [],
    "set_aside": [],
    "discovery": {"warnings": []},
    "sdk": {"wrappers": [], "complaints": []},
    "store": {"state": "healthy", "reason": ""},
    "recordings": {"is_full": False, "error": "", "waiting": 0},
    "relay": {"configured": False, "link": {"state": "off", "last_error": "none"}},
    "profiles": {"complaints": [], "bench_error": "", "bench_copy_error": ""},
    "raw_scpi": "known",
}
KNOWN = [{"id": "TCPIP::1", "alias": "psu1"}, {"id": "TCPIP::2", "alias": ""}]


@promise("cli.status-glance")
def test_an_idle_bench_is_five_lines_without_advice_or_an_empty_heading() -> None:
    warned = {**IDLE["mcp"], "warning": "135 tools are listed."}
    advised = {**IDLE, "mcp": warned, "raw_scpi": "all"}
    assert list(glance(advised, KNOWN)) == [
        "bench, edged 1.0, up 3 h 12 min",
        "MCP: http://127.0.0.1:8767/mcp (1 session)",
        "page: http://127.0.0.1:8767/bench (edged open)",
        "2 instruments: 2 ready",
        "nothing is on, runs, waits or is wrong",
    ]
    assert list(glance(advised, KNOWN, shows_all=True)) == [
        "bench (edge-1), edged 1.0, up 3 h 12 min",
        "MCP: http://127.0.0.1:8767/mcp (1 session, 135 tools)",
        "page: http://127.0.0.1:8767/bench (edged open)",
        "2 instruments: 2 ready",
        "ON: nothing",
        "RUNS: nothing",
        "STOPS: nothing",
        "WAITS: nothing",
        "WRONG: nothing",
        "ABSENT: nothing",
        "ADVICE:",
        "  135 tools are listed.",
        "  send_scpi does not check the limits of profiles; `RAW_SCPI: known` changes that",
    ]


def test_an_endpoint_that_is_not_there_has_no_address() -> None:
    off = {**IDLE, "mcp": {**IDLE["mcp"], "enabled": False, "port": None}}
    assert list(glance(off, KNOWN))[1:3] == ["MCP: switched off", "2 instruments: 2 ready"]
    taken = {**IDLE["mcp"], "port": None, "error": "The port 8767 is taken."}
    lines = list(glance({**IDLE, "mcp": taken}, KNOWN))
    assert lines[1] == "MCP: not open"
    assert lines[-2:] == ["WRONG:", "  The port 8767 is taken."]


def guard_lines(**more: Any) -> dict[str, list[str]]:
    """Of each section, its lines."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in list(glance({**IDLE, **more}, KNOWN))[2:]:
        if line.startswith("  "):
            found[title].append(line.strip())
        else:
            title = line.split(":")[0]
            found[title] = []
    return {title: lines for title, lines in found.items() if lines}


RULE: dict[str, Any] = {
    "name": "rail",
    "state": "idle",
    "reads": "dmm1.volts",
    "must": "value < 3",
    "last": "2 V",
    "reason": None,
    "tripped_ms": None,
    "cools_s": None,
    "unknown": [],
}


@promise("cli.status-glance")
def test_guards_that_watch_hold_back_or_have_tripped_are_told() -> None:
    assert guard_lines(interlocks=[RULE]) == {}
    assert guard_lines(interlocks=[{**RULE, "state": "watching"}]) == {
        "ON": ["interlock rail is watching: dmm1.volts is 2 V, must be: value < 3"]
    }
    now_ms = SystemClock().wall_ms()
    tripped = {**RULE, "state": "tripped", "reason": "4 V", "tripped_ms": now_ms, "cools_s": 9.0}
    found = guard_lines(interlocks=[tripped])
    assert found["WAITS"] == ["interlock rail: tripped, and cools down for 9 s: 4 V"]
    (told,) = found["WRONG"]
    assert told.startswith("interlock rail tripped at ")
    assert told.endswith(": 4 V")
    # Until a guarded write has met a good reading, over any weekend.
    old = {**tripped, "state": "idle", "cools_s": None}
    assert list(guard_lines(interlocks=[old])) == ["WRONG"]
    (told,) = guard_lines(interlocks=[{**old, "tripped_ms": now_ms - 300_000_000}])["WRONG"]
    assert told.endswith(": 4 V")
    spent = {"instrument_id": "TCPIP::1", "command": "on", "wait_s": 59.6}
    assert guard_lines(budgets=[{**spent, "wait_s": 0.0}]) == {}
    assert guard_lines(budgets=[spent]) == {"WAITS": ["psu1: the budget of on is used up for 60 s"]}
    armed = {"instrument_id": "TCPIP::1", "state": "armed", "dead_man_s": 10.0, "clear": "CLE"}
    assert guard_lines(dead_man=[armed]) == {"ON": ["psu1: its dead-man runs, 10 s"]}
    (told,) = guard_lines(dead_man=[{**armed, "state": "tripped"}])["WRONG"]
    assert "a person has to look at it" in told


def test_the_page_is_named_by_the_address_that_others_reach() -> None:
    (line,) = [one for one in glance(IDLE, KNOWN, "10.0.0.7") if one.startswith("page")]
    assert line == "page: http://10.0.0.7:8767/bench (edged open)"
    (line,) = [one for one in glance(IDLE, KNOWN, "fd00::7") if one.startswith("page")]
    assert "http://[fd00::7]:8767/bench" in line
    off = {**IDLE, "mcp": {**IDLE["mcp"], "page": "off"}}
    assert not [one for one in glance(off, KNOWN) if one.startswith("page")]


def test_programs_that_know_visa_are_told_with_what_they_use() -> None:
    visa = {
        "enabled": True,
        "port": 4880,
        "error": "",
        "programs": [{"instrument_id": "TCPIP::1", "who": "HiSLIP NI, PID 7 labview at 127.0.0.1"}],
        "names": ["hislip_psu1", "hislip_dmm1"],
    }
    lines = list(glance({**IDLE, "visa": visa}, KNOWN))
    assert "HiSLIP on port 4880: hislip_psu1, hislip_dmm1" in lines
    unused = {**IDLE, "visa": {**visa, "programs": []}}
    assert not any("HiSLIP" in line for line in glance(unused, KNOWN))
    assert any("HiSLIP" in line for line in glance(unused, KNOWN, shows_all=True))
    assert "  psu1: used by HiSLIP NI, PID 7 labview at 127.0.0.1" in lines
    taken = {**visa, "port": None, "error": "The HISLIP port 4880 cannot be bound."}
    assert "  The HISLIP port 4880 cannot be bound." in glance({**IDLE, "visa": taken}, KNOWN)


@promise("cli.status-glance")
def test_what_is_on_runs_waits_and_is_wrong_stands_in_sentences_under_its_alias() -> None:
    place = {"address": "TCPIP::9", "name": "", "why": "refused", "is_set_aside": False}
    status = {
        **IDLE,
        "told_on": [
            {
                "instrument_id": "TCPIP::1",
                "outputs": ["OUTP CH1", "OUTP CH2", "*"],
                "off": ["OUTP CH2"],
                "left": ["OUTP CH1", "OUTP CH2"],
                "since_ms": 0,
            },
            {
                "instrument_id": "TCPIP::2",
                "outputs": ["OUT"],
                "off": ["OUT"],
                "left": ["OUT"],
                "since_ms": 0,
            },
        ],
        "sweeps": [
            SWEEP,
            {**SWEEP, "sweep_id": "sweep-2", "status": "holding"},
            {**SWEEP, "sweep_id": "sweep-3", "status": "failed", "abort": {"state": "pending"}},
        ],
        "streams": [
            {
                "stream_id": "stream-1",
                "instrument_id": "TCPIP::2",
                "command_name": "measure",
                "interval_ms": 500,
                "count": 7,
                "last": {"value": 1},
            }
        ],
        "sequences": [
            {
                "run_id": "run-1",
                "instrument_id": "TCPIP::1",
                "sequence_name": "iv_curve",
                "steps_executed": 3,
            }
        ],
        "lockouts": [{"instrument_id": "TCPIP::1", "by": "anna", "reason": "hands inside"}],
        "troubled_lines": [{"instrument_id": "TCPIP::2", "state": "silent", "reason": "no answer"}],
        "needs_attention": [
            {"sweep_id": "sweep-0", "instrument_id": "TCPIP::1", "needs_attention": True}
        ],
        "set_aside": [place, {**place, "name": "odd", "is_set_aside": True}],
        "discovery": {"warnings": [{"instrument_id": "TCPIP::2", "warning": "answers its writes"}]},
        "store": {"state": "stalled", "reason": "the disk hangs"},
        "recordings": {"is_full": True, "error": "", "waiting": 2},
        "leases": [{"instruments": ["psu1"], "who": "claude-code 2.1", "purpose": "burn-in"}],
        "approvals": [
            {
                "approval_id": "ask-1",
                "instrument": "psu1",
                "tool": "execute_command output_on",
                "who": "claude-code 2.1",
            }
        ],
        "waiting_calls": [{"instrument_id": "TCPIP::1", "alias": "psu1", "calls": 3}],
        "stopping": ["TCPIP::1"],
        "relay": {"configured": True, "link": {"state": "reconnecting", "last_error": "refused"}},
        "sdk": {
            "wrappers": [
                {
                    "is_seen": True,
                    "is_usable": False,
                    "wrapper": "w",
                    "state": "broken",
                    "problem": "no library",
                },
                {
                    "is_seen": False,
                    "is_usable": False,
                    "wrapper": "absent",
                    "state": "library_missing",
                    "problem": "nobody has one",
                },
            ],
            "complaints": [],
        },
    }
    lines = list(glance(status, KNOWN))
    titles = ("ON", "RUNS", "STOPS", "WAITS", "WRONG", "ABSENT")
    on, runs, stops, waits, wrong, absent = (lines.index(f"{title}:") for title in titles)
    assert lines[on + 1].startswith(
        "  psu1: OUTP CH1, any output (state unknown), since 1970-01-01"
    )
    assert lines[runs + 1 : stops] == [
        "  sweep-1: psu1 set_voltage is at 1.5 V of 0 to 5 V at 0.1 V/s; readings take 0.45 s a "
        "step, 0.1 s were asked for",
        "  stream-1: TCPIP::2 measure every 0.5 s, 7 points",
        "  run-1: psu1 iv_curve, 3 steps done",
    ]
    assert lines[stops + 1 : waits] == [
        "  psu1: its stop is repeated until it is confirmed",
        "  psu1: the abort of sweep-3 is repeated until the instrument obeys",
    ]
    assert lines[waits + 1 : wrong] == [
        "  sweep-2: psu1 set_voltage is at 1.5 V of 0 to 5 V, held at its value until somebody "
        "stops it",
        "  psu1: calls that wait for its line: 3",
        "  recordings that have ended and wait for the disk: 2",
        "  psu1: locked out by anna: hands inside",
        "  psu1: execute_command output_on of claude-code 2.1 waits for your approval "
        "(edged approve ask-1)",
        "  psu1: reserved by claude-code 2.1 for burn-in",
    ]
    assert lines[absent + 1 :] == ["  TCPIP::9: refused", "  odd (TCPIP::9): refused"]
    assert lines[wrong + 1 : absent] == [
        "  TCPIP::2 is silent: no answer",
        "  psu1: the abort of sweep-0 was not confirmed; its output may be on",
        "  TCPIP::2: answers its writes",
        "  wrapper w (broken): no library",
        "  the database is stalled: the disk hangs",
        "  recordings: the budget is used up, new ones are refused",
        "  the relay is reconnecting: refused",
    ]
    assert not any(mark in line for line in lines for mark in '{}[]"')
