"""``edged profile`` and ``edged bench show`` without an engine: what they print, how they end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from edged.cli.main import main
from edged.profiles.format.schema import profile_schema
from edged.profiles.loading import load_library
from edged.service import START_FILE, StateLock
from edged.store.bench_copy import BenchCopy
from tests.promises import promise

ROOT = Path(__file__).parents[2]
CLEAN = """\
format: 1
profile_key: acme
manufacturer: Acme
model: One
instrument_class: power_supply
source: "guide"
match: {idn: 'acme,one\\b', examples: ["ACME,ONE,1,2"]}
abort: [{send: "OUTP OFF", ask: "OUTP?", expect: "^(0|OFF)$"}]
commands:
  set_v:
    description: Set it.
    scpi: "VOLT {v}"
    parameters: {v: {type: float, min: 0, max: 9, unit: V}}
    sweep: {parameter: v, setpoint: "VOLT?", readback: get_v}
  get_v: {description: Get it., scpi: "VOLT?", returns: {type: float, unit: V}}
  on: {description: On., scpi: "OUTP ON", is_dangerous: true}
  off: {description: Off., scpi: "OUTP OFF", is_safe: true}
connection: {heartbeat: false}
"""


ABORT = 'abort: [{send: "OUTP OFF", ask: "OUTP?", expect: "^(0|OFF)$"}]\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one profile, which is all that this machine has."""
    monkeypatch.setenv("EDGED_PROFILE_DIRS", f"[{tmp_path}]")
    monkeypatch.setenv("EDGED_BENCH_FILE", str(tmp_path / "bench.yaml"))
    monkeypatch.setenv("EDGED_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "acme.yaml").write_text(CLEAN)
    return tmp_path


def test_clean_profiles_leave_lint_silent_with_0(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], ["acme"], [str(place / "acme.yaml")], [str(place)]):
        assert main(["profile", "lint", *words]) == 0
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "1 profile, all clean" in printed.err


@promise("profile.located")
def test_lint_tells_every_fault_of_every_file_in_the_order_of_the_lines(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = CLEAN.replace("max: 9", "mux: 9").replace("VOLT {v}", "VOLT {w}")
    (place / "acme.yaml").write_text(bad.replace("is_dangerous: true", "is_dangerous: maybe"))
    (place / "other.yaml").write_text(CLEAN.replace("acme", "other").replace("guide", "\x01"))
    (place / "good.yaml").write_text(CLEAN.replace("acme", "good").replace(ABORT, ""))
    names = ["acme", "other.yaml", "good.yaml", "gone.yaml"]
    words = [str(place / name) if name.endswith(".yaml") else name for name in names]
    assert main(["profile", "lint", *words]) == 1
    printed = capsys.readouterr()
    places = [line.split(": ")[0].removeprefix(f"{place}/") for line in printed.out.splitlines()]
    assert places[:3] == ["acme.yaml:12:11", "acme.yaml:13:43", "acme.yaml:16:57"], printed.out
    assert {one.split(":")[0] for one in places} == {
        "acme.yaml", "other.yaml", "good.yaml", "gone.yaml"
    }  # fmt: skip
    assert "1 profile and 3 files that cannot be read yet" in printed.err
    assert "run lint again when it can be read" in printed.err
    assert main(["profile", "lint", str(place / "other.yaml")]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("1 file that cannot be read yet, 1 error, 0 warnings\n")


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("max: 9", "mux: 9", "13:43", 'Did you mean "max"?'),
        ("VOLT {v}", "VOLT {w}", "12:11", "not a parameter"),
        ("VOLT {v}", "VOLT {v", "12:11", "placeholder"),
        (ABORT, "", "2:1", "Add the SCPI that switches all outputs off."),
        (", is_safe: true", "", "2:1", "is_safe: true"),
        (', setpoint: "VOLT?"', "", "14:12", '"setpoint"'),
        (", unit: V}}\n    sweep", "}}\n    sweep", "13:18", "has limits but no unit"),
        ("acme,one\\b", "acme", "7:9", "also matches"),
        ("  get_v:", f"  {'x' * 48}: {{description: x, scpi: 'X?'}}\n  get_v:", "15:3", "over 64"),
        (", is_dangerous: true", "", "16:26", "is_dangerous: true"),
        ("{heartbeat: false}", '{heartbeat: false, on_connect: ["OUTP OFF"]}', "18:45", "output"),
        ("format: 1", "format: 1\n\tx: 1", "2:1", "blanks, not tabs"),
    ],
)  # fmt: skip
def test_each_finding_stands_as_file_line_column_with_what_to_do(
    place: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, where: str, what: str
) -> None:
    other = CLEAN.replace("acme", "acme_long_key").replace("'acme_long_key,one", "'acme,two")
    (place / "other.yaml").write_text(other.replace("ACME,ONE", "ACME,TWO"))
    path = place / "acme.yaml"
    path.write_text(CLEAN.replace(old, new, 1))
    if len(new) > 40 and "x" * 40 in new:
        path.write_text(
            path.read_text().replace("profile_key: acme", "profile_key: acme_long_key2")
        )
    assert main(["profile", "lint", str(path)]) == 1
    printed = capsys.readouterr().out
    assert any(
        line.startswith(f"{path}:{where}: error: ") and what in line
        for line in printed.splitlines()
    ), printed
    assert main(["profile", "lint", str(path), "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)
    assert {"path", "line", "column", "severity", "message", "suggestion"} == set(findings[0])


def test_a_second_look_is_no_failure(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "acme.yaml").write_text(CLEAN.replace(", readback: get_v", ""))
    assert main(["profile", "lint"]) == 0
    assert ":14:5: warning: set_v can be swept but has no readback." in capsys.readouterr().out


def test_a_profile_that_is_not_there_is_named_with_the_nearest(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "lint", "acne"]) == 1
    assert 'Did you mean "acme"?' in capsys.readouterr().err
    assert main(["profile", "test", "acme", "--sim"]) == 1
    assert "names no simulation" in capsys.readouterr().err
    assert main(["profile", "new", "--from", "psu1"]) == 1
    assert "not a VISA address" in capsys.readouterr().err
    assert place.is_dir()


def test_resolved_shows_what_is_inherited(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "member.yaml").write_text(
        "format: 1\nprofile_key: member\nmodel: Two\nextends: acme\nmatch: {idn: 'acme,two'}\n"
        "commands: {set_v: {parameters: {v: {max: 5}}}}\n"
    )
    assert main(["profile", "lint", "member", "--resolved"]) == 0
    printed = capsys.readouterr().out
    assert "max: 5" in printed
    assert "  # acme.yaml:12" in printed


def test_pages_go_out_or_into_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "docs", "acme"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# Acme One")
    assert "`set_v`" in page
    assert main(["profile", "docs", "--output", str(place / "pages")]) == 0
    assert (place / "pages" / "acme.md").read_text() == page
    index = (place / "pages" / "index.md").read_text()
    assert "| Acme | One | [`acme`](acme.md) | reviewed | 4 of 4 by its author's word |" in index


def test_the_schema_goes_out_or_into_a_file(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == profile_schema()
    assert main(["profile", "schema", "--output", str(place / "s.json")]) == 0
    assert json.loads((place / "s.json").read_text()) == profile_schema()


def test_the_bench_file_is_shown_unit_by_unit(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "show"]) == 0
    assert "has no entries" in capsys.readouterr().out
    bench = place / "bench.yaml"
    bench.write_text("format: 1\nSN1: {alias: psu, limits: {set_v: {v: {max: 5}}}, deny: [on]}\n")
    assert main(["bench", "show", "psu", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["units"]
    assert [(unit["key"], unit["profile"], unit["deny"]) for unit in told] == [
        ("SN1", "acme", ["on"])
    ]
    assert told[0]["limits"][0]["profile_allows"] == "0 … 9"
    assert main(["bench", "show", "nobody"]) == 1
    assert "no entry for 'nobody'" in capsys.readouterr().err
    bench.write_text("format: 1\nSN1: {limits: {set_v: {v: {max: 10}}}}\n")
    assert main(["bench", "show"]) == 1
    assert f"{bench}:2:28: " in capsys.readouterr().err


@promise("owner.file-of-the-engine")
def test_beside_an_engine_that_is_starting_the_file_that_it_reads_is_shown(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "bench.yaml").write_text("format: 1\nSN1: {alias: configured}\n")
    given = place / "given.yaml"
    given.write_text("format: 1\nSN2: {alias: given}\n")
    state = place / "state"
    lock = StateLock(state)
    lock.take()
    try:
        facts = {"pid": os.getpid(), "bench_file": str(given)}
        (state / START_FILE).write_text(json.dumps(facts))
        # Its predecessor was killed, and what that said of itself is still there.
        old = {"pid": 1, "rpc_port": 1, "mcp_port": 1, "bench_file": str(place / "bench.yaml")}
        (state / "engine.json").write_text(json.dumps(old))
        assert main(["bench", "show", "--json"]) == 0
        shown = capsys.readouterr()
        told = json.loads(shown.out)
        assert (told["file"], [unit["alias"] for unit in told["units"]]) == (str(given), ["given"])
        assert f"(PID {os.getpid()}) does not answer: it is starting, or ending." in shown.err
        assert f"It reads {given}" in shown.err
    finally:
        lock.release()
    # What the file says alone proves nothing: the engine that wrote it is gone.
    assert main(["bench", "show", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["file"] == str(place / "bench.yaml")
    assert shown.err == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1}', '{"pid": 1, "bench_file": 2}'])
def test_a_start_file_that_says_nothing_is_passed_over(
    place: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    lock = StateLock(place / "state")
    lock.take()
    try:
        (place / "state" / START_FILE).write_text(text)
        assert main(["bench", "show", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["file"] == str(place / "bench.yaml")
    finally:
        lock.release()


def test_guards_are_shown_with_the_bench_file(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "bench.yaml").write_text(
        "format: 1\n"
        "SN1: {alias: psu, budget: {set_v: {per_hour: 9, min_interval_s: 2}}, confirm: [set_v]}\n"
        "interlocks:\n"
        "  - {name: rail, when: {instrument: psu, command: get_v}, must: value < 3, poll_s: 1,\n"
        "     max_age_s: 5, guards: [psu.set_v], trip: abort}\n"
    )
    assert main(["bench", "show"]) == 0
    shown = capsys.readouterr().out
    assert "9 an hour and 2 s apart" in shown
    assert "psu.get_v" in shown
    assert "value < 3" in shown
    assert main(["bench", "show", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["units"][0]["budget"] == {"set_v": "9 an hour and 2 s apart"}
    (rule,) = told["interlocks"]
    assert (rule["name"], rule["guards"], rule["trip"]) == ("rail", ["psu.set_v"], "abort")


@promise("owner.file-lost-lifts-nothing")
def test_a_bench_file_that_is_gone_is_shown_as_it_holds(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = place / "bench.yaml"
    bench.write_text("format: 1\nSN1: {alias: psu, limits: {set_v: {v: {max: 5}}}}\n")
    copy = BenchCopy(bench, place / "state")
    copy.keep(copy.read(load_library([place])), 1)
    bench.unlink()
    assert main(["bench", "show", "psu", "--json"]) == 1
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert [unit["key"] for unit in told["units"]] == ["SN1"]
    assert "was there and is gone" in told["error"]
    assert "was there and is gone" in shown.err
