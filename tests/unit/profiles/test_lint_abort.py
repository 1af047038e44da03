"""What lint finds about aborts: outputs that nothing takes back, and proofs that nobody asks."""

from __future__ import annotations

import pytest

from edged.profiles.authoring.lint import lint_profile
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from tests.promises import promise

HEAD = """\
format: 1
profile_key: acme
manufacturer: Acme
model: One
instrument_class: {kind}
source: guide
match: {{idn: 'acme,one\\b', examples: ["ACME,ONE,1,2"]}}
connection: {{heartbeat: false}}
{abort}
commands:
  off: {{description: Off., scpi: "OUTP OFF", is_safe: true}}
  is_on: {{description: Ask it., scpi: "OUTP?", returns: {{type: bool}}}}
{commands}
"""


def findings(abort: str, commands: str, kind: str = "power_supply") -> list[str]:
    text = HEAD.format(kind=kind, abort=abort, commands="  " + commands)
    found = lint_profile(parse_profile(text, "acme.yaml"), ProfileLibrary())
    told = [finding.sentence for finding in found]
    return [sentence for sentence in told if "is not described" not in sentence]


VOLTS = "parameters: {v: {type: float, min: 0, max: 1, unit: V}}"
CHANNEL = "parameters: {n: {type: int, min: 1, max: 3}}"


@promise("stop-all.every-output")
@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("power_supply", f'on: {{scpi: "OUTP CH{{n}},ON", is_dangerous: true, {CHANNEL}}}'),
        ("other", 'a: {scpi: "AUX:OUTP ON", is_dangerous: true}'),
        ("other", f'a: {{scpi: "AUXV {{v}}", {VOLTS}}}'),
        ("switch", f'a: {{scpi: "ROUT:CLOS (@{{n}})", {CHANNEL}}}'),
        ("other", f'a: {{scpi: "RELAY {{n}},ON", {CHANNEL}}}'),
        ("lcr_meter", f'a: {{scpi: "VOLT {{v}}", {VOLTS}}}'),
        ("power_supply", 'a: {scpi: "*RCL 1", is_dangerous: true, changes: any}'),
        ("power_supply", 'a: {scpi: ["OUTP ON", "AUX:OUTP ON"], is_dangerous: true}'),
    ],
)  # fmt: skip
def test_what_nothing_takes_back_is_found_until_a_reason_is_given(kind: str, command: str) -> None:
    [found] = findings('abort: ["OUTP OFF"]', command, kind)
    assert "abort does not take that back" in found
    name = command.partition(":")[0]
    assert findings(f'abort: ["OUTP OFF"]\nabort_excludes: {{{name}: tried}}', command, kind) == []


def test_each_channel_needs_its_own_line() -> None:
    on = f'on: {{description: O., scpi: "OUTP CH{{n}},ON", is_dangerous: true, {CHANNEL}}}'
    ask = f'\n  ask: {{description: Q., scpi: "OUTP? CH{{n}}", returns: {{type: bool}}, {CHANNEL}}}'
    two = 'abort: ["OUTP CH1,OFF", "OUTP CH2,OFF"]'
    [found] = findings(two, on + ask)
    assert '"OUTP CH3,ON"' in found
    assert findings(two.replace("]", ', "OUTP CH3,OFF"]'), on + ask) == []


def test_a_level_behind_a_switch_is_taken_back_by_the_switch() -> None:
    level = f'a: {{scpi: "VOLT {{v}}", {VOLTS}}}'  # fmt: skip
    assert findings('abort: ["OUTP OFF"]', level) == []


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ('"AUX:OUTP OFF"', "Nothing asks whether"),
        ('{send: "AUX:OUTP OFF", ask: none}', ""),
        ('{send: "AUX:OUTP OFF", ask: "STAT?", expect: \'^0$\'}', ""),
        ('{send: "OUTP OFF", ask: none}', 'but the profile has "OUTP?"'),
        ('":ABOR"', ""),
    ],
)
def test_a_proof_that_could_be_asked_is_missed(entry: str, wrong: str) -> None:
    found = findings(f'abort: ["OUTP OFF", {entry}]', 'x: {description: X., scpi: "*CLS"}')
    assert any(wrong in sentence for sentence in found) is bool(wrong)
    assert bool(found) is bool(wrong)


CURVE = """mode: {description: M., scpi: "MODE?", returns: {type: string}}
  volts: {description: V., scpi: "VOLT?", returns: {type: float, unit: V}}
sequences:
  curve:
    description: C.
    steps:
      - for: n
        in: {lin: [0, 1, 2]}
        steps:
          - {command: mode, as: mode}
          - {command: volts, as: volts}
          - row: {volts: "{volts}", limited: "{WHEN}"}
"""


@promise("notes.single")
@pytest.mark.parametrize(
    ("when", "limited", "is_found"),
    [
        ("mode == 'CC'", "", True),
        ("mode == 'CC'", "limited: {command: mode, when: \"value == 'CC'\"}", False),
        ("volts < 0.9", "", False),
    ],
)
def test_a_curve_that_knows_its_limit_wants_single_measurements_to_know_it(
    when: str, limited: str, *, is_found: bool
) -> None:
    found = findings(f"abort: ['OUTP OFF']\n{limited}", CURVE.replace("WHEN", when))
    assert any("single measurements do not" in one for one in found) is is_found


SELECTED = 'abort: ["{first}", "OUTP OFF", "{second}", "OUTP OFF"]'


@promise("stop-all.selected")
@pytest.mark.parametrize(
    ("first", "second", "is_known"),
    [
        ("INST:NSEL 1", "INST:NSEL 2", True),
        ("ADR 6", "ADR 7", True),
        ("CHAN 1", "CHANnel 2", True),
        ("*CLS", "INST:NSEL 2", False),
        ("PORT 1", "PORT 2", False),
    ],
)
def test_a_question_whose_selection_cannot_be_repeated_is_found(
    first: str, second: str, *, is_known: bool
) -> None:
    found = findings(SELECTED.format(first=first, second=second), "")
    about = [one for one in found if "depends on a selection that edged cannot repeat" in one]
    assert bool(about) is not is_known
    assert is_known or about[0].startswith("acme.yaml:9:")


@promise("stop-all.selected")
@pytest.mark.parametrize(
    ("first", "second", "is_known"),
    [
        ("INST:NSEL 1;:OUTP OFF", "INST:NSEL 2;:OUTP OFF", True),
        ("PORT 1;OUTP OFF", "PORT 2;OUTP OFF", False),
    ],
)
def test_one_question_for_lines_that_differ_is_found(
    first: str, second: str, *, is_known: bool
) -> None:
    lines = "".join(
        f'{{send: "{line}", ask: "OUTP?", expect: "^0$"}}, ' for line in (first, second)
    )
    found = findings(f"abort: [{lines}]", "")
    about = [one for one in found if "depends on a selection that edged cannot repeat" in one]
    assert bool(about) is not is_known


def test_a_watchdog_wants_every_output_to_be_askable() -> None:
    watchdog = (
        'watchdog: {delay: ["WD:DEL {s}"], enable: ["WD ON"], disable: ["WD OFF"], range: [1, 9], '
        'clear: ["WD:CLE"], tripped: {ask: "WD?", bit: 1}, feeds: any}'
    )
    asked, unasked = "abort: ['OUTP OFF']\n", "abort: [{send: 'OUTP2 OFF', ask: none}]\n"
    assert findings(asked + watchdog, "") == []
    (told,) = [f for f in findings(unasked + watchdog, "") if "watchdog" in f]
    assert "error" in told
    assert "OUTP2" in told
