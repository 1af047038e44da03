"""The grammar of profiles: what is read, and that every slip is named with its place."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged.profiles.answers import picked
from edged.profiles.loading import load_library, load_profile, parse_profile
from edged.profiles.model import (
    BitsAnswer,
    Bound,
    CommandStep,
    CompletionKind,
    FieldsAnswer,
    ForStep,
    ImageAnswer,
    ListAnswer,
    Packets,
    ParameterType,
    PollStep,
    Precondition,
    Profile,
    QueryStep,
    RowStep,
    ScalarAnswer,
    WaitStep,
    WaveformAnswer,
)
from edged.scpi.kinds import AnswerType, ErrorKind
from tests.promises import promise

SHIPPED = Path(__file__).parents[3] / "profiles"

HEAD = """\
format: 1
profile_key: acme_one
manufacturer: Acme
model: One
instrument_class: power_supply
source: "guide"
match: {idn: 'acme,one\\b'}
"""
CHANNEL = "channel: {type: int, min: 1, max: 3}"
VOLTAGE = "voltage: {type: float, min: 0, max: 32, unit: V}"


def profile_of(body: str, head: str = HEAD) -> Profile:
    return parse_profile(head + textwrap.dedent(body), "acme.yaml")


def command_of(entry: str) -> Profile:
    """A profile whose first command is written in one line."""
    return profile_of(
        f"commands:\n  first: {entry}\n  ask: {{scpi: 'V?', returns: {{type: float}}}}"
    )


def refused(body: str, head: str = HEAD) -> Invalid:
    with pytest.raises(Invalid) as caught:
        profile_of(body, head)
    assert re.match(r"acme\.yaml:\d+:\d+: ", caught.value.message)
    return caught.value


def refused_command(entry: str) -> Invalid:
    with pytest.raises(Invalid) as caught:
        command_of(entry)
    assert caught.value.data["line"] >= HEAD.count("\n") + 1
    return caught.value


# ----------------------------------------------------------------------------- whole profiles


def test_the_shipped_profiles_are_all_read() -> None:
    library = load_library([SHIPPED])
    assert library.complaints == ()
    assert {"rigol_dp832", "keysight_34461a", "rigol_ds1054z"} <= set(library.profiles)


def test_a_command_requires_scpi_only() -> None:
    command = command_of("{scpi: 'OUTP OFF'}").commands["first"]
    assert command.scpi == ("OUTP OFF",)
    assert not command.is_query
    assert command.returns is None


def test_a_list_of_lines_is_one_job() -> None:
    assert command_of("{scpi: ['INST 1', 'VOLT 1']}").commands["first"].scpi == ("INST 1", "VOLT 1")


def test_a_question_is_a_query_without_being_told() -> None:
    assert command_of("{scpi: 'VOLT? (@1)'}").commands["first"].is_query
    assert not command_of("{scpi: 'DISP \"why?\"'}").commands["first"].is_query


def test_a_precondition_has_a_question_a_pattern_and_a_hint() -> None:
    entry = "{scpi: 'READ?', precondition: {query: 'OUTP?', expect: '^1', hint: Switch on.}}"
    precondition = command_of(entry).commands["first"].precondition
    assert precondition == Precondition(query="OUTP?", expect="^1", hint="Switch on.")


def test_a_query_without_a_question_mark_can_be_declared() -> None:
    assert command_of("{scpi: 'SCDP', is_query: true}").commands["first"].is_query


def test_marks_tell_where_everything_stands() -> None:
    profile = command_of(f"{{scpi: 'V {{voltage}}', parameters: {{{VOLTAGE}}}}}")
    mark = profile.marks["commands.first.parameters.voltage.max"]
    assert (mark.path, mark.line) == ("acme.yaml", 9)


def test_parameters_carry_all_that_is_said_of_them() -> None:
    profile = command_of(
        "{scpi: 'S {a},{b},{c},{d},{e}', checks: ['a*b <= 200'], parameters: {"
        "a: {type: int, min: 1, max: 3, default: 2, description: which},"
        "b: {type: float, min: 0, max: 32, unit: V, step: 0.01, by: {a: {3: {max: 5.3}}}},"
        "c: {type: enum, options: [on, off, 0.02], default: 0.02},"
        "d: {type: bool, map: {true: ON, false: OFF}, default: false},"
        "e: {type: enum, map: {low: 1, high: HI}}}}"
    )
    a, b, c, d, e = profile.commands["first"].parameters.values()
    assert (a.type, a.default, a.description) == (ParameterType.INT, 2, "which")
    assert b.by == {"a": {3: Bound(max=5.3)}}
    assert b.step == 0.01
    assert (c.options, c.default) == (("on", "off", "0.02"), "0.02")
    assert (d.map, d.default) == ({"true": "ON", "false": "OFF"}, False)
    assert (e.options, e.map) == (("low", "high"), {"low": 1, "high": "HI"})
    assert profile.commands["first"].checks == ("a*b <= 200",)


def test_a_map_makes_an_enum_of_any_parameter() -> None:
    profile = command_of("{scpi: 'S {a}', parameters: {a: {type: int, map: {slow: 1, fast: 2}}}}")
    parameter = profile.commands["first"].parameters["a"]
    assert parameter.type is ParameterType.ENUM
    assert parameter.options == ("slow", "fast")


def test_limits_go_by_bools_and_enums_too() -> None:
    profile = command_of(
        "{scpi: 'S {v},{hi},{kind}', parameters: {hi: {type: bool}, "
        "kind: {type: enum, options: [a, b]},"
        "v: {type: float, by: {hi: {true: {max: 9}}, kind: {b: {min: 1}}}}}}"
    )
    by = profile.commands["first"].parameters["v"].by
    assert by == {"hi": {True: Bound(max=9)}, "kind": {"b": Bound(min=1)}}


def test_the_five_kinds_of_answers_are_read() -> None:
    def returns(entry: str) -> object:
        return command_of(f"{{scpi: 'Q?', returns: {entry}}}").commands["first"].returns

    assert returns("{type: si, unit: Sa/s}") == ScalarAnswer(type=AnswerType.SI, unit="Sa/s")
    assert returns("{type: string, map: {0: off, 1: on}}") == ScalarAnswer(
        type=AnswerType.STRING, map={"0": "off", "1": "on"}
    )
    fields = returns(
        "{fields: [{name: a, type: float, index: 0}, {name: b, type: si, key: AMP},"
        " {name: c, type: int, pattern: 'C(\\d)'}], separator: ';', primary: a}"
    )
    assert isinstance(fields, FieldsAnswer)
    assert [f.index if f.key is None else f.key for f in fields.fields] == [0, "AMP", None]
    bits = returns("{bits: {base: 16, fields: [{name: mode, mask: 0x0C, map: {1: a, 2: b}}]}}")
    assert isinstance(bits, BitsAnswer)
    assert bits.fields[0].mask == 12


def test_a_waveform_needs_no_scpi_and_is_a_query() -> None:
    profile = command_of(
        "{parameters: {n: {type: int}}, returns: {waveform: {setup: ['SRC {n}'], data: 'D? {n}',"
        " preamble: {query: 'P?', fields: [{name: dx, type: float, index: 4}]},"
        " dtype: i2, byte_order: big, x_increment: dx * 2, scale: value * n, trailing_bytes: 1}}}"
    )
    command = profile.commands["first"]
    assert command.is_query
    assert command.scpi == ("D? {n}",)
    assert isinstance(command.returns, WaveformAnswer)
    assert (command.returns.preamble_queries, command.returns.x_increment) == (("P?",), "dx * 2")


def test_data_of_other_forms_and_lists_are_read() -> None:
    def returns(entry: str) -> object:
        return command_of(f"{{scpi: 'Q?', returns: {entry}}}").commands["first"].returns

    command = command_of(
        "{scpi: 'C? {n}', parameters: {n: {type: int}}, returns: {type: waveform, dtype: f4, "
        "byte_order: little, header: none, count: n * 2, y_unit: A, packets: "
        "{fields: [[sent, 9]], until: 'sent + size == n'}}}"
    ).commands["first"]
    assert command.returns == WaveformAnswer(
        data="C? {n}",
        dtype="f4",
        has_header=False,
        count="n * 2",
        y_unit="A",
        packets=Packets(fields=(("sent", 9),), until="sent + size == n"),
    )
    assert returns("{type: list}") == ListAnswer()
    assert returns("{type: list, item: int, lines: until_end, separator: ';'}") == ListAnswer(
        type=AnswerType.INT, lines=None, separator=";"
    )
    assert returns("{type: si, decimal: ','}") == ScalarAnswer(type=AnswerType.SI, decimal=",")


def test_an_image_is_read() -> None:
    command = command_of("{returns: {image: {mime: image/png, data: 'HC?'}}}").commands["first"]
    assert command.returns == ImageAnswer(mime="image/png", data="HC?")


def test_connection_carries_everything_serial_lines_need() -> None:
    connection = profile_of(
        """\
        connection:
          read_termination: "\\r\\n"
          write_termination: none
          encoding: latin-1
          timeout_ms: 500
          baud_rate: 57600
          data_bits: 7
          parity: odd
          stop_bits: 1.5
          flow: none
          min_gap_ms: 50
          errors: {query: "*ESR?", kind: esr}
          on_connect: ["HEAD OFF"]
          probe: {query: "*LANG?", expect: "^SCPI$"}
        commands: {reset: {scpi: "*RST", errors: none, complete: opc, timeout_ms: 9000}}
        """
    ).connection
    assert (connection.read_termination, connection.write_termination) == ("\r\n", "")
    assert (connection.parity, connection.stop_bits, connection.min_gap_ms) == ("odd", 1.5, 50)
    assert connection.errors.kind is ErrorKind.ESR
    assert connection.probe is not None


def test_a_command_overrides_completion_and_errors() -> None:
    profile = command_of(
        "{scpi: 'CAL', errors: {kind: code, query: 'E?'},"
        " complete: {poll: 'S?', until: 'value == 0', every_ms: 50, timeout_ms: 60000}}"
    )
    command = profile.commands["first"]
    assert command.complete is not None
    assert command.errors is not None
    assert command.complete.kind is CompletionKind.POLL
    assert command.errors.kind is ErrorKind.CODE


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ("{query: {ask: 1TE}, pattern: '^1TE(?P<code>.)', none: '1TE@'}", ErrorKind.CODE),
        ("{query: 'E?', kind: queue, pattern: '^E(?P<code>.) (?P<text>.*)'}", ErrorKind.QUEUE),
        ("{query: 'E?', kind: code, none: '^OK$'}", ErrorKind.CODE),
    ],
)
def test_errors_of_another_form_are_described_by_a_pattern(errors: str, kind: ErrorKind) -> None:
    check = command_of(f"{{scpi: 'A', errors: {errors}}}").commands["first"].errors
    assert check is not None
    assert (check.kind, bool(check.pattern or check.none)) == (kind, True)


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ("{query: 'E?'}", '"kind"'),
        ("{pattern: 'E(?P<code>.)'}", '"query"'),
        ("{query: 'E?', pattern: 'E(.)'}", "no group with the name code"),
        ("{query: 'E?', pattern: 'E(?P<number>.)'}", "no group with the name code"),
        ("{query: 'E?', pattern: '('}", "not a regular expression"),
        ("{query: 'E?', kind: code, none: '(a+)+$'}", "very long"),
    ],
)
def test_a_description_of_errors_that_finds_no_code_is_refused(errors: str, message: str) -> None:
    with pytest.raises(Invalid, match=re.escape(message)):
        command_of(f"{{scpi: 'A', errors: {errors}}}")


def test_verify_means_the_swept_parameter_or_the_only_float() -> None:
    entry = (
        f"scpi: 'V {{channel}},{{voltage}}', parameters: {{{CHANNEL}, {VOLTAGE}}},"
        " verify: {query: 'V?', tolerance: 0.1}"
    )
    plain = command_of(f"{{{entry}}}")
    swept = command_of(f"{{{entry}, sweep: {{parameter: channel, setpoint: 'C?'}}}}")
    assert plain.commands["first"].verify.parameter == "voltage"
    assert swept.commands["first"].verify.parameter == "channel"


def test_every_kind_of_step_is_read() -> None:
    sequence = profile_of(
        """\
        commands:
          set_voltage: {scpi: "V {voltage}", parameters: {voltage: {type: float, max: 9}}}
          measure: {scpi: "M?", returns: {type: float}}
          off: {scpi: "OFF", is_safe: true}
        sequences:
          all:
            parameters: {top: {type: float, max: 9}, n: {type: int, min: 2, max: 99}}
            steps:
              - {command: set_voltage, parameters: {voltage: "{top}"}}
              - {command: set_voltage, parameters: {voltage: "{top / 2}"}}
              - {query: "X? {n}", as: x, type: float}
              - {wait_ms: "{n}"}
              - {wait_ms: 5}
              - {poll: "B?", until: "value == 0 and top > 1", every_ms: 20, timeout_ms: 90}
              - {poll: measure, until: "value > x"}
              - for: v
                in: {lin: [0, "top", "n"]}
                steps:
                  - for: w
                    in: [1, 2.5, "{top}"]
                    steps: [{command: measure, as: m}, {row: {set: "{v}", both: v + w, m: "{m}"}}]
            finally: [{command: off}]
            finally_timeout_ms: 900
            result: {last: "{m}", ratio: "{m / top}", unit: V}
        """
    ).sequences["all"]
    kinds = [type(step) for step in sequence.steps]
    assert kinds == [
        CommandStep, CommandStep, QueryStep, WaitStep, WaitStep, PollStep, PollStep, ForStep,
    ]  # fmt: skip
    assert isinstance(sequence.steps[6], PollStep)
    assert sequence.steps[6].is_command
    outer = sequence.steps[7]
    assert isinstance(outer, ForStep)
    assert (outer.kind, outer.values) == ("lin", (0, "top", "n"))
    inner = outer.steps[0]
    assert isinstance(inner, ForStep)
    assert isinstance(inner.steps[1], RowStep)
    assert sequence.finally_timeout_ms == 900
    assert not sequence.is_dangerous


@pytest.mark.parametrize(
    "steps",
    [
        "[{command: go}]",
        "[{for: i, in: [1], steps: [{for: j, in: [1], steps: [{command: go}]}]}]",
        "[{wait_ms: 1}], finally: [{command: go}]",
        "[{poll: asks_and_goes, until: 'value > 0'}]",
    ],
)
def test_a_sequence_is_dangerous_if_one_of_its_steps_is(steps: str) -> None:
    profile = profile_of(
        "commands: {go: {scpi: 'GO', is_dangerous: true},"
        " asks_and_goes: {scpi: 'GO?', is_dangerous: true}}\n"
        f"sequences: {{s: {{steps: {steps}}}}}"
    )
    assert profile.sequences["s"].is_dangerous


def test_settings_are_read_for_each_channel() -> None:
    profile = profile_of(
        f"""\
        commands:
          set_v: {{scpi: "V{{channel}} {{voltage}}", parameters: {{{CHANNEL}, {VOLTAGE}}}}}
        settings:
          voltage: {{get: "V{{channel}}?", set: set_v, for: {{channel: [1, 2]}}, unit: V}}
          mode: {{get: "M?"}}
        """
    )
    assert profile.settings["voltage"].for_values == {"channel": (1, 2)}
    assert profile.settings["voltage"].type is AnswerType.FLOAT
    assert profile.settings["mode"].type is AnswerType.STRING


def test_unverified_names_commands_or_all_of_them() -> None:
    body = "commands: {a: {scpi: A}, b: {scpi: B}}\nunverified: %s"
    assert profile_of(body % "all").unverified == ("a", "b")
    assert profile_of(body % "[b]").unverified == ("b",)


def test_the_example_of_the_documentation_is_a_profile() -> None:
    page = (SHIPPED.parent / "docs" / "profiles.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    assert sorted(parse_profile(example).commands)[:2] == ["get_output", "measure_voltage"]


# ----------------------------------------------------------------------------- complaints


@promise("profile.located")
def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    error = refused("commands: {}\nconection: {}")
    assert error.data["line"] == 9
    assert 'Did you mean "connection"?' in str(error)


@promise("profile.located")
def test_a_complaint_has_the_exact_place() -> None:
    error = refused("commands:\n  set_it:\n    scpi: X\n    timeout_ms: fast\n")
    assert (error.data["line"], error.data["column"]) == (11, 17)
    assert error.message.startswith("acme.yaml:11:17: ")


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("format: 2", "written for a newer edged"),
        ("format: one", "format"),
        ("profile_key: Acme-One", "profile_key"),
        ("profile_key: acme__one", "profile_key"),
        ("profile_key: bench", "bench"),
        ("profile_key: " + "a" * 60, "profile_key"),
        ("manufacturer: [1]", "manufacturer"),
        ("source: ''", "source"),
        ("instrument_class: Power Supply", "instrument_class"),
        ("match: {idn: '('}", "regular expression"),
        ("match: {idn: '(a+)+b'}", "long"),
        ("match: {idn: '(a|aa)*b'}", "long"),
        ("match: {idn: '.*a.*b.*c'}", "long"),
        ("match: {idn: '((?:a{0,16}){8})b'}", "long"),
        ("match: {idn: '(?:.?){16}(?:.?){16}x'}", "long"),
        ("match: {idn: ''}", "empty"),
        ("match: {idn: x, usb: [1ab1]}", "hexadecimal"),
        ("match: {idn: x, ids: []}", "ids"),
    ],
)
def test_a_bad_head_is_refused(line: str, wrong: str) -> None:
    key = line.split(":")[0]
    head = "\n".join(line if old.startswith(f"{key}:") else old for old in HEAD.splitlines())
    assert wrong in str(refused("commands: {a: {scpi: A}}", head + "\n"))


@pytest.mark.parametrize("key", ["format", "profile_key", "model", "source", "match"])
def test_a_missing_required_key_is_named(key: str) -> None:
    head = "\n".join(line for line in HEAD.splitlines() if not line.startswith(f"{key}:")) + "\n"
    assert f'"{key}"' in refused("commands: {a: {scpi: A}}", head).message


@pytest.mark.parametrize("name", ["Set", "set__v", "1a", "sequence", "abort", "set-v", "and", "é"])
def test_a_bad_command_name_is_refused(name: str) -> None:
    refused(f"commands: {{'{name}': {{scpi: A}}}}")


def test_a_bad_name_comes_with_a_better_one() -> None:
    assert 'Call it "set_voltage"' in str(refused("commands: {Set-Voltage: {scpi: A}}"))


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ("{}", "scpi"),
        ("{scpi: ''}", "empty"),
        ("{scpi: []}", "empty"),
        ("{scpi: 'V {x}'}", "{x}"),
        ("{scpi: 'V {x'}", "placeholder"),
        ("{scpi: 'V [1]'}", "["),
        ("{scpi: ['A?', 'B']}", "before the last line"),
        ("{scpi: 'A?', is_query: false}", "is_query"),
        ("{scpi: 'A', returns: {type: float}}", "not a query"),
        ("{scpi: 'A?', returns: {}}", "exactly one"),
        ("{scpi: 'A?', returns: {type: float, bits: {}}}", "exactly one"),
        ("{scpi: 'A?', returns: {type: number}}", "float, int"),
        ("{scpi: 'A?', returns: {type: string, scale: value * 2}}", "scale"),
        ("{scpi: 'A?', returns: {type: float, scale: x * 2}}", "names x"),
        ("{scpi: 'A?', returns: {fields: []}}", "empty"),
        ("{scpi: 'A?', returns: {fields: [{name: a, type: float}]}}", "exactly one of index"),
        ("{scpi: 'A?', returns: {fields: [{name: a, type: float, pattern: '\\d'}]}}", "groups"),
        (
            "{scpi: 'A?', returns: {fields: [{name: a, type: int, index: 0}], "
            "primary: b}}",
            "primary",
        ),
        ("{scpi: 'A?', returns: {bits: {base: 8, fields: []}}}", "base"),
        ("{scpi: 'A?', returns: {bits: {base: 10, fields: [{name: a, mask: 0}]}}}", "mask"),
        ("{returns: {waveform: {data: 'D?', dtype: i2}}}", "byte_order"),
        ("{returns: {type: waveform, dtype: i1}}", 'has no "scpi"'),
        ("{scpi: ['A', 'B?'], returns: {type: waveform, dtype: i1}}", '"data" query'),
        ("{scpi: 'A?', returns: {type: waveform, data: 'B?', dtype: i1}}", '"data" query'),
        ("{scpi: 'A?', returns: {type: waveform, dtype: i1, lines: 2}}", "lines"),
        ("{scpi: 'A?', returns: {type: waveform, dtype: i1, header: none}}", "count and bytes"),
        (
            "{scpi: 'A?', returns: {type: waveform, dtype: i1, header: none, count: 1, bytes: 1}}",
            "count and bytes",
        ),
        ("{scpi: 'A?', returns: {type: waveform, dtype: i1, bytes: 4}}", "header: none"),
        (
            "{scpi: 'A?', returns: {type: waveform, dtype: i1, length: ascii4, bytes: 4}}",
            "header: none",
        ),
        ("{scpi: 'A?', returns: {type: waveform, dtype: i1, header: some}}", "block or none"),
        ("{scpi: 'A?', returns: {type: waveform, dtype: i1, count: n}}", "names n"),
        ("{scpi: 'A?', returns: {type: waveform, dtype: i1, prefix: '(a+)+'}}", "prefix"),
        ("{scpi: 'A?', returns: {type: waveform, dtype: i1, packets: {until: 'a'}}}", "fields"),
        (
            "{scpi: 'A?', returns: {type: waveform, dtype: i1, packets: {fields: [[a, 3]]}}}",
            "until",
        ),
        (
            "{scpi: 'A?', returns: {type: waveform, dtype: i1, packets: "
            "{fields: [[a, 3]], until: 'b > 1'}}}",
            "names b",
        ),
        (
            "{scpi: 'A?', returns: {type: waveform, dtype: i1, packets: "
            "{fields: [[a, 3], [a, 2]], until: 'a > 1'}}}",
            'two fields called "a"',
        ),
        (
            "{scpi: 'A?', returns: {type: waveform, dtype: i1, packets: "
            "{fields: [a], until: 'a > 1'}}}",
            "a name and its number of digits",
        ),
        (
            "{scpi: 'A?', parameters: {a: {type: int}}, returns: {type: waveform, dtype: i1, "
            "packets: {fields: [[a, 3]], until: 'a > 1'}}}",
            "the name of something else",
        ),
        ("{scpi: 'A?', returns: {type: list, item: number}}", "float, int"),
        ("{scpi: 'A?', returns: {type: list, lines: all}}", "lines"),
        ("{scpi: 'A?', returns: {type: list, decimal: ','}}", "both"),
        ("{scpi: 'A?', returns: {type: list, count: 50001}}", "over 50000"),
        ("{scpi: 'A?', returns: {type: list, item: string, scale: value}}", "scale"),
        (
            "{scpi: 'A?', returns: {fields: [{name: a, type: float, index: 0}], decimal: ','}}",
            "both",
        ),
        ("{scpi: 'A?', returns: {type: float, decimal: ';'}}", "decimal"),
        ("{returns: {waveform: {data: 'D?', dtype: i3}}}", "dtype"),
        ("{scpi: 'X?', returns: {waveform: {data: 'D?', dtype: i1}}}", "data"),
        ("{returns: {waveform: {data: 'D?', dtype: i1, chunk_points: 9}}}", "first"),
        ("{returns: {image: {mime: text/html, data: 'D?'}}}", "image"),
        ("{scpi: A, timeout_ms: 0}", "timeout_ms"),
        ("{scpi: A, timeout_ms: 1e12}", "timeout_ms"),
        ("{scpi: A, timeout_ms: 1.5}", "whole"),
        ("{scpi: A, is_safe: yes}", "true or false"),
        ("{scpi: A, is_safe: true, is_dangerous: true}", "safe and dangerous"),
        ("{scpi: A, requires_sweep: true}", "requires_sweep"),
        ("{scpi: A, complete: later}", "complete"),
        ("{scpi: A, complete: {poll: S, until: value}}", "not a query"),
        ("{scpi: A, complete: {poll: 'S?', until: 'done == 1'}}", "names done"),
        ("{scpi: A, errors: {kind: queue}}", "query"),
        ("{scpi: A, errors: {kind: list, query: 'E?'}}", "kind"),
        ("{scpi: A, parameters: {p: {}}}", "type"),
        ("{scpi: A, parameters: {p: {type: number}}}", "type"),
        ("{scpi: A, parameters: {p: {type: float, min: 2, max: 1}}}", "over"),
        ("{scpi: A, parameters: {p: {type: float, min: low}}}", "number"),
        ("{scpi: A, parameters: {p: {type: float, max: '5'}}}", "quotes"),
        ("{scpi: A, parameters: {p: {type: int, max: 2.5}}}", "whole"),
        ("{scpi: A, parameters: {p: {type: int, max: 2, default: 3}}}", "maximum"),
        ("{scpi: A, parameters: {p: {type: int, default: true}}}", "number"),
        ("{scpi: A, parameters: {p: {type: enum}}}", "options"),
        ("{scpi: A, parameters: {p: {type: enum, options: []}}}", "options"),
        ("{scpi: A, parameters: {p: {type: enum, options: [a, a]}}}", "twice"),
        ("{scpi: A, parameters: {p: {type: enum, options: [abc], default: abd}}}", "abc"),
        ("{scpi: A, parameters: {p: {type: enum, options: [true]}}}", "quotes"),
        ("{scpi: A, parameters: {p: {type: bool, map: {yes: 1, no: 0}}}}", "true and false"),
        ("{scpi: A, parameters: {p: {type: string, max: 5}}}", "max"),
        ("{scpi: A, parameters: {p: {type: float, step: 0}}}", "step"),
        ("{scpi: A, parameters: {p: {type: float, by: {q: {1: {max: 1}}}}}}", "not another"),
        ("{scpi: A, parameters: {p: {type: float, by: {p: {1: {max: 1}}}}}}", "not another"),
        (
            "{scpi: A, parameters: {p: {type: float, max: 5, "
            "by: {q: {1: {min: 6}}}}, q: {type: int}}}",
            "no value",
        ),
        (
            "{scpi: A, parameters: {p: {type: float, by: {q: {9: {max: 1}}}}, "
            "q: {type: int, max: 3}}}",
            "maximum",
        ),
        ("{scpi: A, parameters: {P: {type: int}}}", "lower case"),
        ("{scpi: 'A {p:d}', parameters: {p: {type: float}}}", "does not fit"),
        ("{scpi: 'A {p:.3f}', parameters: {p: {type: string}}}", "does not fit"),
        ("{scpi: A, checks: ['p > 1']}", "names p"),
        ("{scpi: A, checks: ['__import__(1)']}", "checks"),
        ("{scpi: A, checks: ['1 >']}", "checks"),
        ("{scpi: A, verify: {query: 'A?', tolerance: 1}}", "no float"),
        ("{scpi: 'A {p}', parameters: {p: {type: float}}, verify: {query: 'A?'}}", "tolerance"),
        (
            "{scpi: 'A {p}', parameters: {p: {type: float}}, verify: {query: A, "
            "tolerance: 1}}",
            "query",
        ),
        (
            "{scpi: 'A {p}{q}', parameters: {p: {type: float}, q: {type: float}},"
            " verify: {query: 'A?', tolerance: 1}}",
            "2 float parameters",
        ),
        ("{scpi: A, precondition: {query: A, expect: x}}", "not a query"),
        ("{scpi: A, precondition: {query: 'A?', expect: '(a+)+'}}", "can take very long"),
        ("{scpi: A, is_safe: true, precondition: {query: 'A?', expect: x}}", "without asking"),
        ("{scpi: A, sweep: {parameter: p, setpoint: 'A?'}}", "not a parameter"),
        (
            "{scpi: 'A {p}', parameters: {p: {type: bool}}, sweep: {parameter: p, "
            "setpoint: 'A?'}}",
            "number",
        ),
        (
            "{scpi: 'A {p}', parameters: {p: {type: float}}, sweep: {parameter: p, "
            "setpoint: A}}",
            "query",
        ),
        ("{scpi: 'A {p}', parameters: {p: {type: float}}, sweep: {parameter: p}}", "setpoint"),
        (
            "{scpi: 'A {p}', parameters: {p: {type: float}},"
            " sweep: {parameter: p, setpoint: 'A?', readback: nope}}",
            "nope",
        ),
        (
            "{scpi: 'A {p}', parameters: {p: {type: float}},"
            " sweep: {parameter: p, setpoint: 'A?', readback: first}}",
            "not a query",
        ),
    ],
)  # fmt: skip
def test_a_bad_command_is_refused_with_a_reason(entry: str, wrong: str) -> None:
    assert wrong in str(refused_command(entry))


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        ("[]", "empty"),
        ("[{command: nope}]", "nope"),
        ("[{command: sett}]", 'Did you mean "set_v"'),
        ("[{command: set_v, parameters: {volts: 1}}]", "volts"),
        ("[{command: set_v}]", "needs voltage"),
        ("[{command: set_v, parameters: {voltage: 33}}]", "maximum"),
        ("[{command: set_v, parameters: {voltage: '{x}'}}]", "names x"),
        ("[{command: set_v, parameters: {voltage: '{1 +}'}}]", "set_v"),
        ("[{command: ramp, parameters: {voltage: 1}}]", "requires a sweep"),
        ("[{query: 'Q', as: q}]", "not a query"),
        ("[{query: 'Q?'}]", "as"),
        ("[{query: 'Q? {z}', as: q}]", "{z}"),
        ("[{wait_ms: -1}]", "wait_ms"),
        ("[{wait_ms: soon}]", "wait_ms"),
        ("[{poll: set_v, until: 'value'}]", "set_v"),
        ("[{poll: 'Q?', until: 'q > 1'}]", "names q"),
        ("[{wait_ms: 1, command: off}]", "exactly one"),
        ("[{pause: 1}]", "exactly one"),
        ("[{for: i, in: {lin: [0, 1]}, steps: []}]", "three"),
        ("[{for: i, in: {lin: [0, 1, 100001]}, steps: []}]", "100000"),
        ("[{for: i, in: {log: [0, 1, 5]}, steps: []}]", "log"),
        ("[{for: i, in: {exp: [0, 1, 5]}, steps: []}]", "exp"),
        ("[{row: {}}]", "columns"),
        ("[{row: {a: '{i}'}}]", "names i"),
        ("[{for: i, in: [1], steps: [{row: {a: i}}]}, {row: {a: j}}]", "names j"),
    ],
)
def test_a_bad_step_is_refused_with_a_reason(steps: str, wrong: str) -> None:
    error = refused(
        "commands:\n"
        f"  set_v: {{scpi: 'V {{voltage}}', parameters: {{{VOLTAGE}}}}}\n"
        "  ramp: {scpi: 'V {voltage}', requires_sweep: true, parameters: "
        f"{{{VOLTAGE}}}, sweep: {{parameter: voltage, setpoint: 'V?'}}}}\n"
        "  off: {scpi: 'OFF'}\n"
        f"sequences: {{s: {{steps: {steps}}}}}\n"
    )
    assert wrong in str(error)


def test_loops_nest_four_deep_and_no_deeper() -> None:
    def nested(depth: int) -> str:
        if depth == 0:
            return "[{wait_ms: 1}]"
        return f"[{{for: v{depth}, in: [1], steps: {nested(depth - 1)}}}]"

    body = "commands: {a: {scpi: A}}\nsequences: {s: {steps: %s}}"
    profile_of(body % nested(4))
    assert "deeper than 4" in refused(body % nested(5)).message


def test_finally_may_not_use_what_a_step_may_never_have_saved() -> None:
    error = refused(
        "commands: {m: {scpi: 'M?'}, put: {scpi: 'P {x}', parameters: {x: {type: float}}}}\n"
        "sequences: {s: {steps: [{command: m, as: x}],"
        " finally: [{command: put, parameters: {x: '{x}'}}]}}"
    )
    assert "names x" in error.message


# ----------------------------------------------------------------------------- families


FAMILY = HEAD + textwrap.dedent(
    """\
    abort: ["OFF"]
    unverified: all
    commands:
      set_v:
        scpi: "V {voltage}"
        parameters: {voltage: {type: float, min: 0, max: 32, unit: V}}
        verify: {query: "V?", tolerance: 0.1}
      extra: {scpi: "X"}
    """
)


def write_member(directory: Path, body: str, key: str = "acme_two") -> Path:
    (directory / "acme_one.yaml").write_text(FAMILY)
    path = directory / f"{key}.yaml"
    path.write_text(
        f"format: 1\nprofile_key: {key}\nextends: acme_one\nmodel: Two\n"
        "match: {idn: 'acme,two\\b'}\n" + textwrap.dedent(body)
    )
    return path


def test_a_member_says_only_what_differs(tmp_path: Path) -> None:
    path = write_member(
        tmp_path,
        """\
        unverified: []
        commands:
          set_v: {parameters: {voltage: {max: 60}}}
          extra: null
          more: {scpi: "M"}
        """,
    )
    profile = load_profile(path)
    voltage = profile.commands["set_v"].parameters["voltage"]
    assert (voltage.min, voltage.max, voltage.unit) == (0, 60, "V")
    assert profile.commands["set_v"].verify is not None
    assert sorted(profile.commands) == ["more", "set_v"]
    assert (profile.model, profile.manufacturer, profile.extends) == ("Two", "Acme", "acme_one")
    assert load_library([tmp_path]).profiles["acme_two"] == profile


def test_a_member_changes_a_command_that_is_called_like_a_key(tmp_path: Path) -> None:
    path = write_member(
        tmp_path,
        """\
        unverified: []
        commands:
          sweep: {parameters: {map: {max: 60}}}
        """,
    )
    family = tmp_path / "acme_one.yaml"
    sweep = '  sweep: {scpi: "S {map}", parameters: {map: {type: float, min: 0, max: 32}}}\n'
    family.write_text(FAMILY + sweep)
    profile = load_profile(path)
    assert profile.commands["sweep"].scpi == load_profile(family).commands["sweep"].scpi
    assert profile.commands["sweep"].parameters["map"].max == 60


def test_a_complaint_about_what_was_inherited_names_the_familys_file(tmp_path: Path) -> None:
    path = write_member(tmp_path, "commands: {set_v: {parameters: {voltage: {min: 40}}}}")
    with pytest.raises(Invalid) as caught:
        load_profile(path)
    assert Path(caught.value.data["path"]).name == "acme_two.yaml"
    assert "over" in caught.value.message


def test_a_member_must_say_whom_it_matches(tmp_path: Path) -> None:
    path = write_member(tmp_path, "")
    path.write_text(path.read_text().replace("match:", "#"))
    with pytest.raises(Invalid, match="match"):
        load_profile(path)


@pytest.mark.parametrize("family", ["nobody", "acme_two"])
def test_a_family_must_exist_and_be_another(tmp_path: Path, family: str) -> None:
    path = write_member(tmp_path, "")
    path.write_text(path.read_text().replace("extends: acme_one", f"extends: {family}"))
    with pytest.raises(Invalid):
        load_profile(path)
    assert len(load_library([tmp_path]).complaints) == 1


def test_families_go_one_level_deep(tmp_path: Path) -> None:
    write_member(tmp_path, "")
    third = write_member(tmp_path, "", key="acme_three")
    third.write_text(third.read_text().replace("extends: acme_one", "extends: acme_two"))
    with pytest.raises(Invalid, match="cannot be extended"):
        load_profile(third)


# ----------------------------------------------------------------------------- libraries


def small(key: str, model: str = "One") -> str:
    head = HEAD.replace("acme_one", key).replace("model: One", f"model: {model}")
    return head + "commands: {a: {scpi: A}}\n"


def test_later_directories_override_earlier_ones(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for directory in (first, second):
        directory.mkdir()
    (first / "acme_one.yaml").write_text(small("acme_one", "Old"))
    (second / "mine.yaml").write_text(small("acme_one", "New"))
    library = load_library([first, second, tmp_path / "missing"])
    assert library.profiles["acme_one"].model == "New"
    assert library.complaints == ()


def test_a_broken_override_does_not_bring_the_wider_original_back(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for directory in (first, second):
        directory.mkdir()
    (first / "acme_one.yaml").write_text(small("acme_one"))
    (second / "acme_one.yaml").write_text("format: [\n")
    library = load_library([first, second])
    assert library.profiles == {}
    assert len(library.complaints) == 1


@promise("profile.bad-file-harms-none")
def test_bad_files_become_complaints_and_the_others_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(small("acme_one"))
    (tmp_path / "again.yml").write_text(small("acme_one"))
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "tabs.yaml").write_text("a:\n\tb: 1\n")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe4\n")
    (tmp_path / "dir.yaml").mkdir()
    (tmp_path / ".hidden.yaml").write_text("[")
    (tmp_path / "notes.txt").write_text("[")
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(50_000_000)
    library = load_library([tmp_path])
    assert list(library.profiles) == ["acme_one"]
    names = sorted(Path(complaint.path).name for complaint in library.complaints)
    assert names == ["dir.yaml", "good.yaml", "huge.yaml", "latin.yaml", "list.yaml", "tabs.yaml"]
    assert all(complaint.line >= 1 and complaint.message for complaint in library.complaints)


WORDS = st.sampled_from(
    re.findall(
        r"\S+|[\n\t]",
        "format profile_key commands scpi parameters type float int enum options min max by verify "
        "sweep steps command for in lin row finally returns fields index connection errors kind "
        "match idn set_v channel 1 0.5 -3 true null on {x} A? V(@1) [ ] { } : , - \n\t",
    )
)


def place_of_complaint(text: str) -> tuple[int, int]:
    try:
        parse_profile(text)
    except Invalid as error:
        return error.data["line"], error.data["column"]
    return 1, 1


@given(st.lists(WORDS, max_size=40), st.integers(0, 2))
def test_no_profile_text_raises_anything_but_invalid(words: list[str], mode: int) -> None:
    text = " ".join(words)
    candidates = (text, HEAD + text, HEAD + "commands: {a: {" + text + "}}")
    assert min(place_of_complaint(candidates[mode])) >= 1


@given(st.data())
def test_a_damaged_shipped_profile_raises_nothing_but_invalid(data: st.DataObject) -> None:
    lines = (SHIPPED / "rigol_dp832.yaml").read_text().splitlines()[:60]
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(lines) - 1))
        line = lines[index]
        cut = data.draw(st.integers(0, len(line)))
        lines[index] = line[:cut] + data.draw(st.text(max_size=4)) + line[cut + 1 :]
    assert min(place_of_complaint("\n".join(lines))) >= 1


def test_a_waveform_may_need_several_questions_for_its_meaning() -> None:
    profile = command_of(
        "{returns: {waveform: {data: 'D?', dtype: i1, preamble: {query: ['V?', 'O?'],"
        " fields: [{name: v, type: si, index: 0}, {name: o, type: si, index: 1}]}}}}"
    )
    returned = profile.commands["first"].returns
    assert isinstance(returned, WaveformAnswer)
    assert returned.preamble_queries == ("V?", "O?")


def test_the_value_in_a_longer_answer_is_found_by_a_pattern_with_one_group() -> None:
    profile = command_of(
        "{scpi: 'BSWV FRQ,{f}', parameters: {f: {type: float, min: 0, max: 9, unit: Hz}},"
        " verify: {query: 'BSWV?', tolerance: 1, pattern: 'FRQ,([^,]{1,9})'},"
        " sweep: {parameter: f, setpoint: 'BSWV?', pattern: 'FRQ,([^,]{1,9})'}}"
    )
    command = profile.commands["first"]
    assert command.verify is not None
    assert command.sweep is not None
    assert picked("C1:BSWV FRQ,5HZ,AMP,2V", command.verify.pattern) == "5HZ"
    assert picked("5HZ", command.sweep.pattern) == "5HZ"


@promise("dry-run.argument")
@pytest.mark.parametrize("name", ["dry_run", "lease"])
def test_no_parameter_has_a_name_that_every_tool_takes(name: str) -> None:
    told = refused_command(f"{{scpi: 'V {{{name}}}', parameters: {{{name}: {{type: bool}}}}}}")
    assert f'no parameter may be called "{name}"' in told.message
    body = f"""
    commands:
      ask: {{scpi: 'V?', returns: {{type: float}}}}
    sequences:
      all:
        parameters: {{{name}: {{type: bool}}}}
        steps: [{{command: ask}}]
    """
    assert f'no parameter may be called "{name}"' in refused(body).message
