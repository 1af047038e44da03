"""The entries of ``abort``, and the commands that are excluded from it."""

from __future__ import annotations

import pytest

from edged.errors import Invalid
from edged.profiles.loading import parse_profile
from edged.profiles.model import AbortStep

TEXT = """\
format: 1
profile_key: acme
manufacturer: Acme
model: One
instrument_class: power_supply
source: guide
match: {{idn: acme}}
abort: {abort}
abort_excludes: {excludes}
commands:
  set_v:
    scpi: "V{{n}} {{v}}"
    parameters: {{n: {{type: int, min: 1, max: 2}}, v: {{type: float, min: 0, max: 9}}}}
    sweep:
      parameter: v
      setpoint: "V{{n}}?"
      abort: [{{send: "O{{n}} 0", ask: "O{{n}}?", expect: "^0"}}]
"""


def parsed(abort: str = "[]", excludes: str = "{}") -> tuple[AbortStep, ...]:
    profile = parse_profile(TEXT.format(abort=abort, excludes=excludes), "acme.yaml")
    assert profile.commands["set_v"].sweep is not None
    assert profile.commands["set_v"].sweep.abort == (
        AbortStep(send="O{n} 0", ask="O{n}?", expect="^0"),
    )
    return profile.abort


def test_an_entry_is_a_line_or_says_what_to_ask() -> None:
    entries = ['"A 0"', '{send: "B 0", ask: "B?", expect: "^0$"}', '{send: "C 0", ask: none}']
    assert parsed(f"[{', '.join(entries)}]") == (
        AbortStep(send="A 0"),
        AbortStep(send="B 0", ask="B?", expect="^0$"),
        AbortStep(send="C 0", is_unaskable=True),
    )


@pytest.mark.parametrize(
    ("abort", "excludes", "wrong"),
    [
        ('[{send: "A 0"}]', "{}", 'no "ask"'),
        ('[{send: "A 0", ask: "A?"}]', "{}", 'no "expect"'),
        ('[{send: "A 0", ask: none, expect: "0"}]', "{}", "no question"),
        ('[{send: "A 0", ask: "A?", expect: "("}]', "{}", "not a regular expression"),
        ('[{send: "A {x}", ask: none}]', "{}", "not a parameter"),
        ('[{send: "A 0", query: "A?"}]', "{}", "query"),
        ("[]", "{set_w: because}", "not a command"),
        ("[]", '{set_v: ""}', "no reason"),
    ],
)
def test_what_cannot_be_meant_is_refused(abort: str, excludes: str, wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        parsed(abort, excludes)
