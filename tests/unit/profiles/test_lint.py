"""What lint says about profiles that the loader takes."""

from __future__ import annotations

import pytest

from edged.profiles.authoring.lint import Finding, is_energising, lint_profile
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.model import Parameter, ParameterType, Profile
from edged.scpi.words import touches_output, why_not_on_connect, why_not_on_release
from tests.bench.shipped import shipped_library
from tests.promises import promise

LIBRARY = shipped_library()

CLEAN = """\
format: 1
profile_key: acme
manufacturer: Acme
model: One
instrument_class: power_supply
source: guide
match: {idn: 'acme,one\\b', examples: ["ACME,ONE,1,2"]}
connection: {heartbeat: false}
abort: ["OUTP OFF"]
commands:
  set_v:
    description: Set it.
    scpi: "V {v}"
    parameters: {v: {type: float, min: 0, max: 9, unit: V}}
    sweep: {parameter: v, setpoint: "V?", readback: get_v}
  get_v: {description: Get it., scpi: "V?", returns: {type: float, unit: V}}
  on: {description: Switch on., scpi: "OUTP ON", is_dangerous: true}
  off: {description: Switch off., scpi: "OUTP OFF", is_safe: true}
  is_on: {description: Ask it., scpi: "OUTP?", returns: {type: bool}}
"""


def profile_of(text: str) -> Profile:
    return parse_profile(text, "acme.yaml")


def lint(text: str, library: ProfileLibrary = ProfileLibrary()) -> tuple[Finding, ...]:  # noqa: B008
    return lint_profile(profile_of(text), library)


@promise("profile.shipped-clean")
@pytest.mark.parametrize("key", sorted(LIBRARY.profiles))
def test_the_shipped_profiles_are_clean(key: str) -> None:
    assert [f.sentence for f in lint_profile(LIBRARY.profiles[key], LIBRARY)] == []


@pytest.mark.parametrize("key", sorted(LIBRARY.profiles))
def test_the_shipped_profiles_are_rich(key: str) -> None:
    profile = LIBRARY.profiles[key]
    assert len(profile.commands) >= 20
    assert profile.sequences
    assert profile.settings
    assert profile.source
    assert profile.sim == key
    assert any(command.is_essential for command in profile.commands.values())


def test_a_clean_profile_has_no_findings() -> None:
    assert lint(CLEAN) == ()


@pytest.mark.parametrize(
    ("old", "new", "line", "wrong"),
    [
        (', examples: ["ACME,ONE,1,2"]', "", 7, "no example"),
        ("ACME,ONE,1,2", "ACME,TWO,1,2", 7, "does not match the example"),
        ('abort: ["OUTP OFF"]', "", 2, "no abort"),
        (", is_safe: true", "", 2, "no safe command"),
        (", is_dangerous: true", "", 17, "switches on"),
        (', scpi: "OUTP OFF"', ', scpi: "OUTP 1"', 18, "is safe, but"),
        (", readback: get_v", "", 15, "no readback"),
        (", unit: V}}\n    sweep", "}}\n    sweep", 14, "no unit"),
        ("type: float, unit: V}}\n  on", "type: float, unit: mW}}\n  on", 15, "answers in mW"),
        ("min: 0, max: 9", "min: 0", 14, "limited on both sides"),
        ("{v: {", "{w: {type: int}, v: {", 14, "nothing uses"),
        ("description: Set it.", "essential: false", 11, "not described"),
        ("power_supply", "power_suply", 5, "power_supply"),
        ('abort: ["OUTP OFF"]', 'abort: ["OUTP ON"]', 9, "switches on"),
        ("heartbeat: false", 'heartbeat: false, on_connect: ["HEAD OFF", "*RST"]', 8, "on_connect"),
        ("heartbeat: false", 'heartbeat: false, on_connect: ["OUTP OFF"]', 8, "touches an output"),
        ("{heartbeat: false}", "{timeout_ms: 9}", 8, "*IDN? is sent on an idle line"),
    ],
)  # fmt: skip
def test_each_flaw_is_found_where_it_stands(old: str, new: str, line: int, wrong: str) -> None:
    assert old in CLEAN
    findings = lint(CLEAN.replace(old, new, 1))
    assert any(wrong in f.sentence and f.line == line for f in findings), findings


def test_a_heartbeat_needs_a_source_that_calls_it_harmless() -> None:
    assert lint(CLEAN.replace("heartbeat: false", "heartbeat_source: guide page 3")) == ()
    probe = 'probe: {query: "*LANG?", expect: SCPI}'
    (finding,) = lint(CLEAN.replace("heartbeat: false", probe))
    assert "*LANG? is sent on an idle line" in finding.message
    assert finding.severity == "warning"


def test_a_dangerous_sequence_must_end_safe() -> None:
    text = CLEAN + "sequences: {s: {description: x, steps: [{command: on}]%s}}\n"
    assert any("finally" in f.message for f in lint(text % ""))
    assert lint(text % ", finally: [{command: off}]") == ()


def test_a_recalled_state_may_have_an_output_on() -> None:
    text = CLEAN + '  recall: {description: Recall., scpi: "*RCL 1"}\n'
    assert any("recalls a state" in f.message for f in lint(text))


def test_more_than_eight_essential_commands_are_too_many() -> None:
    more = "".join(
        f'  q{i}: {{description: x, scpi: "Q{i}?", essential: true}}\n' for i in range(9)
    )
    assert any("over 8" in f.message for f in lint(CLEAN + more))


def test_a_tool_name_over_64_characters_is_found() -> None:
    text = CLEAN.replace("profile_key: acme", "profile_key: a_very_long_key_of_a_profile")
    name = "another_very_long_name_of_a_command"
    text += f'  {name}: {{description: x, scpi: "Q?"}}\n'
    assert any("over 64" in f.message for f in lint(text))


def test_a_pattern_that_fits_anothers_example_is_found() -> None:
    wide = CLEAN.replace("profile_key: acme", "profile_key: wide").replace(
        "{idn: 'acme,one\\b', examples: [\"ACME,ONE,1,2\"]}", "{idn: acme, examples: ['ACME,X']}"
    )
    library = ProfileLibrary(profiles={"acme": profile_of(CLEAN), "wide": profile_of(wide)})
    assert any("also matches" in f.message for f in lint_profile(profile_of(wide), library))
    assert any("matched by wide too" in f.message for f in lint_profile(profile_of(CLEAN), library))


def test_findings_read_like_a_compilers() -> None:
    finding = lint(CLEAN.replace(", readback: get_v", ""))[0]
    assert finding.sentence.startswith("acme.yaml:15:5: warning: ")


SWITCH = {"state": Parameter(name="state", type=ParameterType.BOOL)}


@pytest.mark.parametrize(
    "line",
    [
        ":OUTP CH{channel},ON", "OUTP ON,(@{channel})", ":OUTP{channel} ON", "OUTPut:STATe 1",
        ":SOUR:INP:STAT ON", "OUTP:GEN ON", "C{channel}:OUTP ON", "OUTP CH1,{state}", "OUT1",
        ":SOUR:VOLT:PROT:CLE", ":BIAS:STAT ON",
    ],
)  # fmt: skip
def test_words_that_switch_on_are_known(line: str) -> None:
    assert is_energising(line, SWITCH)


@pytest.mark.parametrize(
    "line",
    [
        ":OUTP CH1,OFF", "OUTP OFF,(@1:3)", ":OUTP:OVP CH1,ON", ":OUTP:LOAD 1", "OUTP? CH1", "OUT0",
        ":INP:COUP 1", "C1:OUTP LOAD,50", "VOLT 1", ":OUTP:MODE? CH1",
    ],
)  # fmt: skip
def test_words_that_do_not_switch_on_are_left_alone(line: str) -> None:
    assert not is_energising(line, SWITCH)


@pytest.mark.parametrize("line", ["CHDR OFF", "HEAD OFF", "OUTX 1", "*CLS", "SYST:REM"])
def test_what_belongs_into_on_connect_touches_no_output(line: str) -> None:
    assert not touches_output(line)


@pytest.mark.parametrize(
    "line", ["OUTP OFF", "*RST", ":VOLT 1", "SYST:HEAD?;:OUTP OFF", "MEM:REC 1", "*IDN?"]
)
def test_what_does_not_belong_into_on_connect_is_told(line: str) -> None:
    assert why_not_on_connect(line)


@pytest.mark.parametrize("line", ["OUTP ON", ":SOUR1:VOLT 0", "*RST", "*RCL 1", "SYST:ERR?"])
def test_last_words_may_switch_an_output_off_and_do_nothing_else_to_it(line: str) -> None:
    assert why_not_on_release(line)
    assert not why_not_on_release(":OUTP CH1,OFF")
    assert not why_not_on_release("SYST:LOC")
