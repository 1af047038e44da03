"""``status: imported`` in the grammar, in matching and under lint; pages to hold a profile by."""

from __future__ import annotations

import pytest

from edged.errors import Invalid
from edged.profiles.authoring.checking import checking_section, library_lines
from edged.profiles.authoring.lint import lint_profile
from edged.profiles.authoring.verification import Trial
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.match import find_profile
from edged.profiles.model import Profile, head_of
from edged.scpi.words import may_put_out
from tests.promises import promise

HEAD = """\
format: 1
profile_key: {key}
status: {status}
manufacturer: Acme
model: One
instrument_class: {kind}
source: "a test"
match: {{idn: '{idn}'}}
connection: {{heartbeat: false}}
commands:
"""
COMMANDS = """\
  set_level: {scpi: "LEV {level:g}", parameters: {level: {type: float, min: 0, max: 5, unit: V}}}
  set_range: {scpi: "SENS:VOLT:RANG {span:g}", parameters: {span: {type: float, unit: V}}}
  show: {scpi: "DISP:TEXT 'a'"}
  strange: {scpi: "Z9"}
  measure: {scpi: "MEAS:VOLT?", returns: {type: float}}
  test: {scpi: "*TST?"}
  ask: {scpi: "LEV?"}
  bare: {scpi: "TD", is_query: true}
  go: {scpi: ["SENS:AVER 1", "INIT"]}
  off: {scpi: "OUTP OFF", is_safe: true}
"""


def profile(
    status: str = "imported", *, kind: str = "power_supply", key: str = "acme", idn: str = "acme"
) -> Profile:
    return parse_profile(HEAD.format(status=status, kind=kind, key=key, idn=idn) + COMMANDS)


def dangerous(one: Profile) -> set[str]:
    return {command.name for command in one.commands.values() if command.is_dangerous}


@promise("profile.imported-narrows")
def test_of_an_imported_profile_whatever_is_not_known_to_put_nothing_out_is_dangerous() -> None:
    assert dangerous(profile("reviewed")) == set()
    assert dangerous(profile()) == {"set_level", "strange", "test", "bare", "go"}


@promise("profile.imported-narrows")
def test_a_source_meter_puts_out_what_it_measures_with() -> None:
    assert "measure" in dangerous(profile(kind="smu"))


@pytest.mark.parametrize(
    ("line", "is_so"),
    [
        ("SENS:VOLT:NPLC 1", False),
        (":SENSE:CURR:PROT 1", True),
        ("SENS:FUNC 'RES'", True),
        ("DISP:ENAB 1", False),
        ("*CLS", False),
        ("*RST", True),
        ("*RCL 1", True),
        ("FORM:DATA ASC", False),
        ("FORM:DATA ASC;OUTP 1", True),
        ("STAT:PRES", False),
        ("{x} 1", True),
        ("", False),
    ],
)
def test_what_a_line_may_do_is_judged_by_all_of_it(line: str, is_so: bool) -> None:
    assert may_put_out(line, is_query=False, sources=False) is is_so


def test_a_status_that_is_none_is_refused_with_its_place() -> None:
    with pytest.raises(Invalid, match="status"):
        profile("approved")


@promise("profile.imported-narrows")
def test_a_reviewed_profile_goes_before_an_imported_one_that_matches_more() -> None:
    known = profile("reviewed", key="known", idn="acme")
    drafted = profile(key="drafted", idn="acme, one, and more")
    for found in ([known, drafted], [drafted, known], [head_of(drafted), head_of(known)]):
        result = find_profile("ACME, One, and more", None, found)
        assert result.profile is not None
        assert result.profile.key == "known"
        assert not result.tied
    alone = find_profile("ACME, One, and more", None, [drafted])
    assert alone.profile is drafted


def test_what_a_review_tells_is_a_warning_until_there_was_one() -> None:
    def severities(one: Profile) -> set[tuple[str, str]]:
        library = ProfileLibrary(profiles={one.key: one})
        return {(f.severity, f.message) for f in lint_profile(one, library)}

    told = severities(profile("reviewed"))
    assert ("error", "There is no example of an *IDN? answer.") in told
    assert ("error", "acme is a power_supply but no abort.") in told
    imported = severities(profile())
    assert not [message for severity, message in imported if severity == "error"]
    assert ("warning", "There is no example of an *IDN? answer.") in imported


@promise("profile.page")
def test_a_page_has_what_a_manual_says_in_one_line_a_command() -> None:
    page = checking_section(profile())
    assert "**Imported**" in page
    assert "| ☐ | `set_level` (dangerous) | `LEV {level:g}` | level: float, 0 to 5 V |" in page
    assert "| ☐ | real answers | **none** |" in page
    assert "| ☐ | switched off by | **nothing** |" in page
    assert page.count("| ☐ | `") == len(profile().commands)


@promise("profile.page")
def test_the_library_is_listed_by_class_and_maker_with_what_was_verified_by_whom() -> None:
    trial = Trial(
        profile_key="acme", on="2026-11-24", digest="d", idn="ACME,One,17,1.0",
        manufacturer="ACME", model="One", serial="17", firmware="1.0", is_simulated=False,
        edged_version="0.1", passed=3, refused=1, failed=0, skipped=2, by="ada",
    )  # fmt: skip
    profiles = [profile(), profile("reviewed", kind="smu")]
    lines = list(library_lines(profiles, {"acme": [trial]}, page="pages/{}.md"))
    text = "\n".join(lines)
    assert text.index("## Power supplies") < text.index("## Source-measure units")
    assert "| Acme | One | [`acme`](pages/acme.md) | imported |" in text
    assert "3 queries on One 17 (firmware 1.0) by ada, 2026-11-24" in text
