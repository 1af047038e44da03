"""Commands that change more than they name: what the format takes, and what lint finds."""

from __future__ import annotations

import pytest

from edged.errors import Invalid
from edged.profiles.authoring.lint import lint_profile
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.model import Changes, Profile
from edged.profiles.raw import LineClass, asks, identify
from edged.scpi.words import side_effect
from tests.bench.shipped import shipped_library
from tests.promises import promise

LIBRARY = shipped_library()
HEAD = """\
format: 1
profile_key: acme
manufacturer: Acme
model: One
instrument_class: {kind}
source: guide
match: {{idn: 'acme,one\\b', examples: ["ACME,ONE,1,2"]}}
connection: {{heartbeat: false}}
abort: {abort}
{more}
commands:
  off: {{description: Off., scpi: "OUTP OFF", is_safe: true}}
  is_on: {{description: Ask it., scpi: "OUTP?", returns: {{type: bool}}}}
  {command}
"""
NUMBER = "parameters: {v: {type: float, min: 0, max: 1, unit: V}}"


def profile_of(
    command: str, *, kind: str = "power_supply", abort: str = '["OUTP OFF"]', more: str = ""
) -> Profile:
    text = HEAD.format(kind=kind, abort=abort, command=command, more=more)
    return parse_profile(text, "acme.yaml")


def findings(command: str, **given: str) -> list[str]:
    found = lint_profile(profile_of(command, **given), ProfileLibrary())
    return [f.sentence for f in found if f.severity == "error"]


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("*RCL 1", "*RCL"),
        ("*rst", "*rst"),
        ("RCL1", "RCL1"),
        ("VOLT 1;*RCL {n}", "*RCL"),
        (":MEM:STAT:REC 1", ":MEM:STAT:REC"),
        (":MEMory:RECall:STATe 1", ":MEMory:RECall:STATe"),
        (":SYST:PRES", ":SYST:PRES"),
        ("SYSTem:PRESet", "SYSTem:PRESet"),
        ("OUTP:TRAC ON", "OUTP:TRAC"),
        ("OUTP:TRACK {mode}", "OUTP:TRACK"),
        ("TRACK1", "TRACK1"),
        ("INST:COUP:TRAC ALL", "INST:COUP:TRAC"),
        (":TRIG:TIM 1", ":TRIG:TIM"),
        ("OUTP{n}:TIMer ON", "OUTP{n}:TIMer"),
        ("TIME CH{channel},ON", "TIME"),
        ("TIME:SET CH1,1", "TIME:SET"),
        (":LIST:VOLT 1,2", ":LIST:VOLT"),
        ("SOUR{channel}:LIST:COUN 2", "SOUR{channel}:LIST:COUN"),
        ("SYST:MACRO 1", "SYST:MACRO"),
        ("*TST?", "*TST?"),
        ("*CAL?", "*CAL?"),
        ("OUTP:TRAC?", ""),
        (":LIST:VOLT?", ""),
        ("*SAV 1", ""),
        ("*RCL?", ""),
        (':TRAC:CLE "defbuffer1"', ""),
        ("TRACe:DATA?", ""),
        (":TRAC{trace}:MODE WRIT", ""),
        (":DISP:WIN:TRAC:Y:SCAL:RLEV 0", ""),
        (":TIM:MAIN:SCAL 1", ""),
        ("SOUR1:SWE:TIME 1", ""),
        ("HORizontal:RECOrdlength 1000", ""),
        (":SOUR1:PRES:LEV:IMM:AMPL 5", ""),
        ("FUNC LIST", ""),
        ("VOLT 1", ""),
    ],
)
def test_the_headers_that_need_a_declaration(line: str, header: str) -> None:
    assert side_effect(line) == header


@promise("changes.declared")
@pytest.mark.parametrize(
    "command",
    [
        'a: {description: A., scpi: "SYST:PRES"}',
        'a: {description: A., scpi: "*RST"}',
        'a: {description: A., scpi: "OUTP:TRAC ON"}',
        'a: {description: A., scpi: ["VOLT 0", "OUTP:TIM ON"]}',
        'a: {description: A., scpi: "*TST?", returns: {type: int}}',
        'a: {description: A., scpi: "*CAL?", returns: {type: int}}',
    ],
)
def test_what_needs_a_declaration_and_has_none_is_an_error(command: str) -> None:
    (found,) = (one for one in findings(command) if "does not say what it changes" in one)
    assert "Say changes: any" in found
    declared = findings(command.replace("scpi:", "changes: settings, scpi:"))
    assert not [one for one in declared if "does not say what it changes" in one]


@promise("changes.declared")
@pytest.mark.parametrize("key", sorted(LIBRARY.profiles))
def test_every_shipped_profile_declares_its_side_effects(key: str) -> None:
    profile = LIBRARY.profiles[key]
    for command in profile.commands.values():
        if any(map(side_effect, command.scpi)):
            assert command.changes is not None, command.name
        if command.changes is Changes.OUTPUTS:
            assert command.is_dangerous, command.name


def test_what_may_switch_an_output_on_is_dangerous_and_taken_back() -> None:
    command = 'a: {description: A., scpi: "READ?", changes: outputs, returns: {type: float}}'
    (found,) = findings(command)
    assert "may switch an output on" in found
    dangerous = command.replace("changes", "is_dangerous: true, changes")
    assert findings(dangerous) == []
    (found,) = findings(dangerous, kind="other", abort='["ABOR"]')
    assert "abort does not take that back" in found


def test_a_safe_command_switches_nothing_on_and_loads_nothing() -> None:
    for changes in ("any", "outputs"):
        with pytest.raises(Invalid, match="cannot be both safe"):
            profile_of(f'a: {{scpi: "*RST", is_safe: true, changes: {changes}}}')
    with pytest.raises(Invalid, match="outputs, settings or any"):
        profile_of('a: {scpi: "*RST", changes: output}')


@promise("changes.declared")
def test_a_stored_state_that_nobody_declared_counts_as_any() -> None:
    assert profile_of('a: {scpi: "*RCL 1"}').commands["a"].changes is Changes.ANY
    imported = profile_of('a: {scpi: "SYST:PRES"}', more="status: imported")
    assert imported.commands["a"].changes is Changes.ANY
    tested = profile_of('a: {scpi: "*TST?", returns: {type: int}}', more="status: imported")
    assert tested.commands["a"].is_write


@pytest.mark.parametrize(
    "scpi",
    ['"VOLT {v}"', '"SOUR1:VOLT {v:.3f},(@1)"', '["OUTP OFF", "CURR {v}"]', '"OUTP OFF;:VOLT {v}"'],
)
def test_a_safe_command_sets_no_level_that_the_caller_chooses(scpi: str) -> None:
    (found,) = findings(f"a: {{description: A., scpi: {scpi}, is_safe: true, {NUMBER}}}")
    assert "sets a level that the caller chooses" in found


@pytest.mark.parametrize(
    "command",
    [
        'a: {description: A., scpi: "VOLT 0", is_safe: true}',
        'a: {description: A., scpi: "VOLT 0,(@{n})", is_safe: true, '
        "parameters: {n: {type: int, min: 1, max: 3}}}",
        'a: {description: A., scpi: "AUXV {n},0", is_safe: true, '
        "parameters: {n: {type: int, min: 1, max: 3}}}",
    ],
)
def test_a_safe_command_may_set_zero_on_a_channel_that_the_caller_chooses(command: str) -> None:
    assert findings(command) == []


@promise("stop-all.every-output")
@pytest.mark.parametrize(
    "command",
    [
        f'a: {{description: A., scpi: "AUXV {{v}}", {NUMBER}}}',
        f'a: {{description: A., scpi: "SOUR:DAC {{v}}", {NUMBER}}}',
        f'a: {{description: A., scpi: "AOUT {{v}}", {NUMBER}}}',
    ],
)
def test_an_auxiliary_level_of_a_supply_is_not_taken_back_by_its_output(command: str) -> None:
    (found,) = findings(command)
    assert "abort does not take that back" in found
    header = command.split('"')[1].split(" ")[0]
    assert findings(command, abort=f'["OUTP OFF", {{send: "{header} 0", ask: none}}]') == []


CHANNEL = "n: {type: int, min: 1, max: 3}, v: {type: float, min: 0, max: 1, unit: V}"


@promise("stop-all.every-output")
@pytest.mark.parametrize(
    ("scpi", "two", "third"),
    [
        ('"CH{n}:VOLT {v}"', ["OUTP CH1,OFF", "OUTP CH2,OFF"], "OUTP CH3,OFF"),
        ('"VOLT {v},(@{n})"', ["OUTP OFF,(@1:2)"], "OUTP OFF,(@3)"),
        ('"SOUR{n}:VOLT {v}"', ["OUTP1 OFF", "OUTP2 OFF"], "OUTP3 OFF"),
        (
            '["INST:NSEL {n}", "VOLT {v}"]',
            ["INST:NSEL 1", "OUTP OFF", "INST:NSEL 2", "OUTP OFF"],
            "INST:NSEL 3;:OUTP OFF",
        ),
    ],
)
def test_a_third_channel_needs_its_own_switch_in_abort(
    scpi: str, two: list[str], third: str
) -> None:
    command = f"a: {{description: A., scpi: {scpi}, parameters: {{{CHANNEL}}}}}"
    (found,) = findings(command, abort=str(two))
    assert "abort does not take that back" in found
    assert findings(command, abort=str([*two, *third.split(";:")])) == []


READ = 'read: {description: Read., scpi: ":READ?", changes: outputs, is_dangerous: true}'
TEST = 'test: {description: Test., scpi: "*TST?", changes: settings}'
STEPS = "sequences: {{s: {{description: Steps., steps: [{}]}}}}"


@promise("changes.declared")
@pytest.mark.parametrize(
    ("more", "abort", "place"),
    [
        (STEPS.format('{query: ":READ?", as: x}'), '["OUTP OFF"]', "sequences.s asks"),
        (STEPS.format('{query: "read?", as: x}'), '["OUTP OFF"]', "sequences.s asks"),
        (
            STEPS.format('{for: n, in: [1], steps: [{poll: "READ? {n}", until: "value > 1"}]}'),
            '["OUTP OFF"]',
            "sequences.s asks",
        ),
        ("settings: {state: {get: ':READ?'}}", '["OUTP OFF"]', "settings.state asks"),
        ("", '[{send: "OUTP OFF", ask: ":READ?", expect: "^0"}]', "abort asks"),
        (
            "acquisition: {ask: 'READ?', running: A, stopped: B}",
            '["OUTP OFF"]',
            "acquisition asks",
        ),
    ],
)
def test_a_query_that_one_command_declares_is_asked_by_nothing_else(
    more: str, abort: str, place: str
) -> None:
    (found,) = findings(READ, more=more, abort=abort)
    assert place in found
    assert "read changes outputs by the same query" in found
    assert findings(READ) == []


@promise("changes.declared")
@pytest.mark.parametrize(
    "other",
    [
        'again: {description: Again., scpi: [":FORM ASC", "READ?"]}',
        'again: {description: Again., scpi: "A 1", complete: {poll: ":READ?", until: "value > 1"}}',
        'again: {description: Again., scpi: "A?", precondition: {query: ":READ?", expect: "^1"}}',
        'again: {description: Again., scpi: "A 1", errors: {query: ":READ?", kind: code}}',
    ],
)
def test_another_command_that_asks_the_same_must_declare_it_too(other: str) -> None:
    (found,) = findings(f"{READ}\n  {other}")
    assert "commands.again asks" in found
    assert "read changes outputs by the same query" in found


@promise("changes.declared")
def test_a_step_asks_what_a_command_asks_or_lint_refuses_the_profile() -> None:
    more = STEPS.format('{query: "STAT:FOO?", as: x}')
    (found,) = findings(READ, more=more)
    assert 'sequences.s asks "STAT:FOO?", and no command does' in found
    assert findings(f'{READ}\n  foo: {{description: Foo., scpi: "STAT:FOO?"}}', more=more) == []


@promise("changes.declared")
def test_no_question_of_the_engines_own_is_a_self_test() -> None:
    (found,) = findings(TEST, more="settings: {state: {get: '*TST?'}}")
    assert "test changes settings by the same query" in found
    (found,) = findings(READ, more="settings: {state: {get: '*TST?'}}")
    assert 'settings.state asks "*TST?", which acts' in found


@promise("changes.declared")
@pytest.mark.parametrize("step", ['{query: ":FOO?", as: x}', '{poll: ":FOO?", until: "value > 1"}'])
def test_what_only_a_step_asks_is_no_known_query(step: str) -> None:
    profile = profile_of(READ, more=STEPS.format(step))
    (part,) = identify(profile, ":FOO?")
    assert part.kind is LineClass.UNKNOWN
    (part,) = identify(profile_of(f'{READ}\n  foo: {{scpi: "FOO?"}}'), ":FOO?")
    assert part.is_harmless


@promise("changes.declared")
def test_a_step_that_asks_without_a_question_mark_is_answered_all_the_same() -> None:
    profile = profile_of(READ, more=STEPS.format("{query: {ask: FOO}, as: x}"))
    (part,) = identify(profile, "FOO")
    assert (part.kind, part.is_query) == (LineClass.UNKNOWN, True)
    assert asks(profile, "FOO")


@promise("changes.declared")
def test_a_level_that_a_query_sets_before_it_acts_must_be_taken_back() -> None:
    level = "{v: {type: float, min: 0, max: 1, unit: V}}"
    read = f'scpi: ["AUXV {{v}}", "READ?"], changes: settings, parameters: {level}'
    (found,) = findings(f"read: {{description: R., {read}}}")
    assert 'read sets a level by "AUXV 1", and abort does not take that back' in found
