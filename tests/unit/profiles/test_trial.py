"""What of a profile is tried on an instrument, and what is kept of it."""

from __future__ import annotations

import json
from pathlib import Path

from edged.profiles.authoring.verification import Trial, digest_of, load_reports, report_name
from edged.profiles.loading import load_profile, parse_profile
from edged.profiles.model import head_of
from edged_author.drafting import plan_trial

HEAD = """\
format: 1
profile_key: acme
manufacturer: Acme
model: One
instrument_class: other
source: "a test"
match: {idn: 'acme'}
"""
TEXT = (
    HEAD
    + """\
commands:
  write: {scpi: "W"}
  ask: {scpi: "A?"}
  goes: {scpi: "G?", is_dangerous: true}
  channel:
    scpi: "C? {channel},{gate},{mode},{fine}"
    parameters:
      channel: {type: int, min: 2, max: 4}
      gate: {type: float, min: 0.5, max: 2, unit: s, default: 1}
      mode: {type: enum, options: [fast, slow]}
      fine: {type: bool}
  both:
    scpi: "B? {low},{high}"
    parameters: {low: {type: int, min: 0, max: 9}, high: {type: int, min: 0, max: 9}}
    checks: ["low + high == 18"]
"""
)


def test_only_questions_that_cannot_give_energy_are_asked_each_with_its_smallest_arguments() -> (
    None
):
    plan = {q.command: q for q in plan_trial(parse_profile(TEXT))}
    assert plan["write"].why_not == "it writes"
    assert plan["goes"].why_not == "it is dangerous"
    assert (plan["ask"].why_not, dict(plan["ask"].arguments)) == ("", {})
    assert dict(plan["channel"].arguments) == {"channel": 2, "mode": "fast", "fine": False}
    assert dict(plan["both"].arguments) == {"low": 9, "high": 9}


def trial(**more: object) -> Trial:
    told = {
        "profile_key": "acme", "on": "2026-11-21", "digest": "d", "idn": "ACME,One,17,1.0",
        "manufacturer": "ACME", "model": "One", "serial": "17/4", "firmware": "1.0",
        "is_simulated": False, "edged_version": "0.1", "passed": 3, "refused": 1, "failed": 0,
        "skipped": 2, **more,
    }  # fmt: skip
    return Trial(**told)  # type: ignore[arg-type]


def test_reports_are_found_by_profile_the_newest_first(tmp_path: Path) -> None:
    for one in (trial(), trial(serial="18", on="2026-12-01"), trial(is_simulated=True)):
        (tmp_path / report_name(one)).write_text(json.dumps(one.as_json()))
    found = load_reports(tmp_path)["acme"]
    assert (found[0].serial, found[0].on) == ("18", "2026-12-01")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "acme--One-17_4.json",
        "acme--One-18.json",
        "acme--simulated.json",
    ]
    assert trial().told(is_current=True)["is_current"]


def test_what_is_no_report_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.json").write_text(json.dumps({**trial().as_json(), "passed": "many"}))
    (tmp_path / "d.json").symlink_to(tmp_path / "d.json")
    (tmp_path / "e.json").mkdir()
    assert load_reports(tmp_path) == {}
    assert load_reports(tmp_path / "nowhere") == {}


def test_the_digest_changes_with_the_profile_and_with_its_family(tmp_path: Path) -> None:
    family, member = tmp_path / "acme.yaml", tmp_path / "member.yaml"
    family.write_text(TEXT)
    member.write_text(
        "format: 1\nprofile_key: member\nmodel: Two\nextends: acme\nmatch: {idn: two}\n"
    )
    first = digest_of(head_of(load_profile(member)))
    assert first == digest_of(head_of(load_profile(member)))
    family.write_text(TEXT + "version: 2\n")
    assert digest_of(head_of(load_profile(member))) not in ("", first)
    profile = load_profile(member)
    member.unlink()
    assert digest_of(head_of(profile)) == ""
