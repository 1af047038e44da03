"""The grammar of instruments that are no SCPI: questions without a mark, other names and types."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Failed, Invalid
from edged.profiles.abort import ANYTHING, output_names, told_by, told_raw, unproved_outputs
from edged.profiles.answers import parse_answer
from edged.profiles.arguments import compile_parameters
from edged.profiles.authoring.lint import lint_profile
from edged.profiles.format.connection_facts import connection_facts, connection_of
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import load_library, parse_profile
from edged.profiles.match import find_profile
from edged.profiles.model import AnswerField, FieldsAnswer, Identify, Profile, ScalarAnswer
from edged.profiles.parameter_schema import parameters_schema
from edged.profiles.raw import asks, identify
from edged.profiles.template import optional_names, render, render_lines
from edged.schema.fields import every_complaint
from edged.scpi.kinds import AnswerType
from tests.promises import promise

HEAD = """\
format: 1
profile_key: bath
manufacturer: Acme
model: Bath, large
instrument_class: temperature_controller
source: its manual
"""
WHOLE = (
    HEAD
    + """\
identify: {ask: "VERSION", expect: "^BATH", serial: "SN ([0-9]+)"}
never_ask_idn: true
connection:
  probe: {query: {ask: "PING"}, expect: "^PONG$"}
  errors: {query: {ask: "STATUS"}, detail: {ask: "WHY"}, kind: code}
  acknowledge: '^$'
abort: [{send: "OUT_MODE 0", ask: "IN_MODE", expect: "^0$"}]
commands:
  set_point:
    scpi: "OUT_SP_{number} {value:.2f}"
    parameters:
      number: {type: int, min: 0, max: 2, default: 0}
      value: {type: float, min: -20, max: 150, unit: C}
    precondition: {query: {ask: "IN_REMOTE"}, expect: "^1$"}
    verify: {query: {ask: "IN_SP_{number}"}, tolerance: 0.01}
    complete: {poll: {ask: "IN_BUSY"}, until: "value == 0"}
    sweep:
      parameter: value
      setpoint: {ask: "IN_SP_{number}"}
      readback: temperature
  temperature: {scpi: "IN_PV_00", is_query: true, returns: {type: float, unit: C}}
  ramp: {scpi: "RAMP {rate}[,{soak}]", parameters: {rate: {type: float}, soak: {type: float}}}
settings:
  point: {get: {ask: "IN_SP_{number}"}, for: {number: [0, 1]}, unit: C}
sequences:
  settle:
    steps:
      - {query: {ask: "IN_HOURS"}, as: hours, type: int}
      - {poll: {ask: "IN_STABLE"}, until: "value == 1"}
      - {poll: temperature, until: "value > 20"}
"""
)
PLACES = (
    "VERSION", "PING", "STATUS", "WHY", "IN_MODE", "IN_REMOTE", "IN_SP_2", "IN_BUSY", "IN_PV_00",
    "IN_HOURS", "IN_STABLE",
)  # fmt: skip


def whole() -> Profile:
    return parse_profile(WHOLE, "bath.yaml")


@promise("profile.question-is-declared")
@pytest.mark.parametrize("line", PLACES)
def test_a_question_in_any_place_is_one_on_every_road(line: str) -> None:
    profile = whole()
    assert asks(profile, line)
    assert asks(profile, f" {line.lower()} "), "letters of either case"
    assert not asks(None, line), "nobody sees that from its form"
    (part,) = identify(profile, line)
    assert part.is_query
    assert part.is_declared


@pytest.mark.parametrize(
    "line", ["OUT_SP_1 20.00", "OUT_MODE 0", "IN_SP_2 5", "IN_PV_001", "RAMP 5", "VERSIONS", ""]
)
def test_what_only_resembles_a_question_is_none(line: str) -> None:
    assert not asks(whole(), line)
    assert not any(part.is_query for part in identify(whole(), line))


def test_a_question_mark_asks_whatever_the_profile_says() -> None:
    assert asks(whole(), "*OPC?")
    assert asks(whole(), "OUT_MODE 0;IN_PV_00"), "one message of the line asks"


@given(st.sampled_from(PLACES), st.text(st.characters(codec="ascii"), max_size=12))
@example("IN_SP_2", "0 \x1b")
@example("IN_SP_2", "\x1b0")
@example("IN_SP_2", "\x1b0 \x08")
def test_no_other_line_is_taken_for_a_question_without_a_mark(line: str, tail: str) -> None:
    told = f"{line}{tail}"
    if "?" in told or re.split(r"[;\r\n]", told) != [told]:
        return
    is_spelled = re.sub(r"[\x00-\x20\x7f]+", " ", told).strip().upper() in PLACES
    # White space is what IEEE 488.2 section 7.4.1.2 calls so, control characters among it.
    bare = told.strip("".join(map(chr, (*range(0x21), 0x7F))))
    is_other_number = re.fullmatch(r"IN_SP_[^\x00-\x20\x7f,;]{1,64}", bare, re.IGNORECASE)
    assert asks(whole(), told) is (is_spelled or is_other_number is not None)


def test_a_query_without_a_mark_is_refused_with_what_to_write() -> None:
    text = WHOLE.replace('{query: {ask: "PING"}', '{query: "PING"')
    with pytest.raises(Invalid) as refused:
        parse_profile(text, "bath.yaml")
    assert 'write {ask: "PING"}' in refused.value.remedy


def test_a_question_holds_nothing_but_what_is_asked() -> None:
    with pytest.raises(Invalid, match='unknown key "expect"'):
        parse_profile(WHOLE.replace('{ask: "PING"}', '{ask: "PING", expect: "x"}'), "bath.yaml")
    with pytest.raises(Invalid, match="not a parameter"):
        parse_profile(WHOLE.replace('{ask: "PING"}', '{ask: "PING {x}"}'), "bath.yaml")


def test_how_it_says_who_it_is_is_part_of_its_connection() -> None:
    profile = whole()
    connection = profile.connection
    assert connection.identify == Identify(ask="VERSION", expect="^BATH", serial="SN ([0-9]+)")
    assert connection.never_ask_idn
    assert not connection.asks_idn
    assert connection.unit_name == "Acme,Bath  large", "a comma parts the fields of a name"
    kept = connection_of(connection_facts(connection))
    assert kept is not None
    assert (kept.identify, kept.never_ask_idn, kept.unit_name, kept.probe) == (
        connection.identify, True, connection.unit_name, connection.probe,
    )  # fmt: skip


def test_nobody_is_found_by_a_profile_without_match() -> None:
    assert find_profile("BATH 4.0 SN 12", None, [whole()]).profile is None
    assert find_profile("", None, [whole()]).profile is None


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("", 'no "match"'),
        ("never_ask_idn: true\nmatch: {idn: bath}\n", "never_ask_idn"),
        ('identify: {ask: "V"}\n', 'no "expect"'),
        ('identify: {ask: "V {x}", expect: v}\n', "not a parameter"),
        ('identify: {ask: "V", expect: v, serial: "[0-9]+"}\n', "1"),
    ],
)
def test_what_cannot_name_a_unit_is_refused(head: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        parse_profile(f'{HEAD}{head}commands: {{a: {{scpi: "A"}}}}\n', "bath.yaml")


def test_who_is_never_asked_anything_is_told_to_its_author() -> None:
    text = f'{HEAD}never_ask_idn: true\ncommands: {{a: {{scpi: "A"}}}}\n'
    profile = parse_profile(text, "bath.yaml")
    said = [finding.message for finding in lint_profile(profile, ProfileLibrary())]
    assert any("never asked who it is" in message for message in said)
    said = [finding.message for finding in lint_profile(whole(), ProfileLibrary())]
    assert not any("*IDN?" in message for message in said), "no example of an answer is wanted"


@pytest.mark.parametrize(
    "keys",
    [
        'identify: {ask: "*IDN?", expect: "^BATH"}',
        'identify: {ask: "*idn ?", expect: "^BATH"}',
        'identify: {ask: "*CLS;*IDN?", expect: "^BATH"}',
        'connection: {probe: {query: "*IDN?", expect: "^BATH"}}',
        'connection: {errors: {query: "*IDN?", kind: code}}',
        'abort: [{send: "OUT 0", ask: "*IDN?", expect: "^BATH"}]',
        'settings: {name: {get: "*IDN?"}}',
    ],
)
def test_a_profile_that_never_asks_a_name_and_asks_it_is_an_error(keys: str) -> None:
    def errors(head: str, scpi: str = "A") -> list[str]:
        text = f'{HEAD}{head}\ncommands: {{a: {{scpi: "{scpi}"}}}}\n'
        found = lint_profile(parse_profile(text, "bath.yaml"), ProfileLibrary())
        return [
            one.message
            for one in found
            if one.severity == "error" and "*IDN?, which" in one.message
        ]

    assert len(errors(f"never_ask_idn: true\n{keys}")) == 1
    assert errors("never_ask_idn: true", "*IDN?") != []
    assert errors(f"match: {{idn: bath}}\n{keys}", "*IDN?") == []


def test_a_parameter_in_brackets_may_be_left_out() -> None:
    ramp = whole().commands["ramp"]
    assert render(ramp.scpi[0], ramp.parameters, {"rate": 5.0}) == "RAMP 5"
    assert render(ramp.scpi[0], ramp.parameters, {"rate": 5.0, "soak": 2.0}) == "RAMP 5,2"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1F", 31), ("0x1f", 31), ("#H1F", 31), ("$1f", 31), ("1Fh", 31), ("  00 ".strip(), 0)],
)
def test_a_hexadecimal_answer_is_a_whole_number(text: str, value: int) -> None:
    assert parse_answer(ScalarAnswer(type=AnswerType.HEX), text).value == value


@given(st.integers(0, 2**64 - 1))
def test_every_hexadecimal_number_comes_back(number: int) -> None:
    answer = parse_answer(ScalarAnswer(type=AnswerType.HEX), f"{number:X}")
    assert answer.value == number
    assert answer.flag is None, "9E37 is a number here and no word for none"


def test_a_hexadecimal_number_is_scaled_in_a_field_too() -> None:
    field = AnswerField(name="t", type=AnswerType.HEX, unit="C", scale="value / 10", index=1)
    answer = parse_answer(FieldsAnswer(fields=(field,)), "x,00FA")
    assert answer.value == {"t": 25.0}
    assert answer.primary == 25.0


@given(st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=40))
def test_control_characters_are_kept_where_that_is_wanted(text: str) -> None:
    returns = ScalarAnswer(type=AnswerType.STRING, keeps_control=True)
    value = parse_answer(returns, text).value
    assert value.isprintable()
    escapes = re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), value)
    if "\\x" not in text:
        assert escapes.strip() == text.strip()


def test_a_field_keeps_its_control_characters_and_its_labels() -> None:
    field = AnswerField(
        name="state", type=AnswerType.STRING, map={"\\x06": "ready"}, index=0, keeps_control=True
    )
    assert parse_answer(FieldsAnswer(fields=(field,)), "\x06,1").value == {"state": "ready"}


def test_a_bad_answer_says_what_can_be_done() -> None:
    with pytest.raises(Failed) as failed:
        parse_answer(ScalarAnswer(type=AnswerType.HEX), "GG")
    assert failed.value.code is ErrorCode.BAD_ANSWER
    assert "returns" in failed.value.remedy


@pytest.mark.parametrize("returns", ["{type: int, control: escape}", "{type: string, control: x}"])
def test_control_belongs_to_a_text(returns: str) -> None:
    text = WHOLE.replace("returns: {type: float, unit: C}", f"returns: {returns}")
    with pytest.raises(Invalid, match="control"):
        parse_profile(text, "bath.yaml")


BROKEN = """\
format: 1
profile_key: bath
manufacturer: Acme
model: Bath
instrument_class: temperature_controller
source: its manual
match: {idn: '(', usb: ["x"]}
colour: red
connection: {timeout_ms: 0, baud_rate: fast}
commands:
  set_point:
    scpi: "SP {value"
    parameters: {value: {type: float, min: hot}, other: {type: number}}
  ramp:
    scpi: "RAMP {rat}"
    speed: 5
    is_safe: maybe
    parameters: {rate: {type: float}}
  point: {scpi: "SP?", returns: {type: float}}
settings:
  point: {get: "SP", set: point}
  other: {get: "SP?", set: set_point}
sequences:
  go: {steps: [{wait_ms: long}, {command: ramp}]}
  stay: {steps: [{command: pint}]}
unverified: [set_point, nothing]
"""


@promise("profile.located")
def test_everything_that_is_wrong_is_told_at_once_and_nothing_twice() -> None:
    with pytest.raises(Invalid) as refused:
        parse_profile(BROKEN, "bath.yaml")
    told = [(c.data["line"], c.data["message"]) for c in every_complaint(refused.value)]
    lines = sorted(line for line, _ in told)
    # What names a command that is broken itself (ramp, set_point) is not blamed for it.
    assert lines == [7, 7, 8, 9, 9, 12, 13, 13, 15, 16, 17, 21, 24, 25, 26], told
    assert refused.value.data["line"] == told[0][0], "whoever shows one shows the first"


INSIDE = """\
format: 1
profile_key: bath
manufacturer: Acme
model: Bath
instrument_class: temperature_controller
source: its manual
match: {idn: bath, usb: ["x", "y"]}
connection: {errors: {kind: stack, qery: "ERR?"}}
abort: ["OFF {a}", "OFF {b}"]
commands:
  set_point:
    scpi: ["SP?", "SP {value}", "SP {wert}"]
    parameters:
      value: {type: float, min: 3, max: 1, step: -1}
    checks: ["value >", "vlue > 1"]
  both: {scpi: "X", is_safe: true, is_dangerous: true, requires_sweep: true}
  several:
    scpi: "S? {no}"
    returns:
      fields:
        - {name: UPPER, type: float, index: 0}
        - {name: b, type: flot, index: 1}
        - {name: c, type: float}
sequences:
  go:
    steps:
      - {command: pint, as: m}
      - {command: several, as: s}
      - {wait_ms: "{m}"}
      - {poll: "DONE?", until: "value > lmit"}
    finally: [{command: of}]
    result: {a: "{m}", b: "{s}", c: "{nobody}"}
"""


@promise("profile.located")
def test_inside_a_command_a_field_or_a_sequence_nothing_hides_what_comes_after_it() -> None:
    with pytest.raises(Invalid) as refused:
        parse_profile(INSIDE, "bath.yaml")
    told = sorted((c.data["line"], c.data["message"]) for c in every_complaint(refused.value))
    expected = [
        (7, '"x"'), (7, '"y"'),
        (8, '"stack"'), (8, '"qery"'),
        (9, "{a}"), (9, "{b}"),
        (12, "{wert}"),
        (14, '"min" 3'), (14, '"step" must be over 0'),
        (15, "value >"), (15, "vlue"),
        (16, "safe and dangerous"), (16, "requires_sweep"), (16, "usable at once"),
        (18, "{no}"),
        (21, "UPPER"), (22, "flot"), (23, "exactly one"),
        (27, '"pint"'), (30, "lmit"), (31, '"of"'), (32, "nobody"),
    ]  # fmt: skip
    # A step that runs the broken command, and what it saves, is not blamed.
    assert [line for line, _ in told] == [line for line, _ in expected], told
    for line, what in expected:
        assert any(at == line and what in message for at, message in told), (line, what)


def test_lint_tells_all_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "bath.yaml"
    path.write_text(BROKEN, encoding="utf-8")
    assert len(load_library([tmp_path]).complaints) == 15


STARTING = (
    HEAD
    + """\
match: {idn: bath, examples: ["ACME,BATH,1,1"]}
abort: [{send: "STOP", ask: "STATE?", expect: "^0$", takes_back: [start]}]
commands:
  start: {scpi: "START", is_dangerous: true}
  stop: {scpi: "STOP", is_safe: true}
  other: {scpi: "DO {what}", is_dangerous: true, parameters: {what: {type: enum, options: [A, B]}}}
"""
)


def test_an_abort_says_which_commands_it_takes_back_that_have_no_word_in_common() -> None:
    profile = parse_profile(STARTING, "bath.yaml")
    start, other = profile.commands["start"], profile.commands["other"]
    assert output_names(profile) == ("STOP",)
    assert told_by(profile, start, ("START",)) == {"STOP"}
    assert told_raw(profile, identify(profile, "start")) == {"STOP"}
    assert told_by(profile, other, ("DO A",)) == {ANYTHING}, "nobody says what that puts out"
    assert unproved_outputs(profile) == ()
    said = [f.message for f in lint_profile(profile, ProfileLibrary()) if "take" in f.message]
    assert said == ['other sends "DO A", and abort does not take that back.']


def test_an_abort_takes_back_commands_that_there_are() -> None:
    with pytest.raises(Invalid, match='"strat", which is not a command') as refused:
        parse_profile(STARTING.replace("[start]", "[strat]"), "bath.yaml")
    assert "start" in refused.value.remedy


def test_a_question_without_its_mark_is_a_slip_where_idn_is_known() -> None:
    profile = parse_profile(STARTING.replace("STATE?", "STATE"), "bath.yaml")
    said = [finding.sentence for finding in lint_profile(profile, ProfileLibrary())]
    assert any('"STATE" asks without a "?"' in sentence for sentence in said)


def test_what_may_be_left_out_is_not_required_of_callers() -> None:
    ramp = whole().commands["ramp"]
    optional = optional_names(ramp.scpi)
    schema = parameters_schema(ramp.parameters, ramp.checks, optional)
    assert schema["required"] == ["rate"]
    check = compile_parameters("ramp", ramp.parameters, ramp.checks, optional)
    assert check.validate({"rate": 5}) == {"rate": 5.0}
    assert render_lines(ramp, check.validate({"rate": 5})) == ("RAMP 5",)


@given(
    st.recursive(
        st.sampled_from(PLACES).map(lambda text: {"ask": text}) | st.text(max_size=8) | st.none(),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["ask", "query", "expect"]), inner, max_size=2)
        ),
        max_leaves=4,
    )
)
def test_whatever_stands_in_a_querys_place_is_read_or_refused_with_its_line(said: object) -> None:
    text = WHOLE.replace('{ask: "IN_REMOTE"}', json.dumps(said))
    complaints: tuple[Invalid, ...] = ()
    try:
        profile = parse_profile(text, "bath.yaml")
    except Invalid as refused:
        complaints = every_complaint(refused)
    assert all(one.data["line"] for one in complaints)
    if complaints:
        return
    needed = profile.commands["set_point"].precondition
    assert needed is not None
    is_asked = isinstance(said, dict) and set(said) == {"ask"}
    assert is_asked or (isinstance(said, str) and "?" in said)
    assert asks(profile, needed.query.strip()) or not needed.query.isascii()
