"""The key ``limited`` of a profile: what it may name."""

from __future__ import annotations

import pytest

from edged.errors import Invalid
from edged.profiles.loading import parse_profile
from edged.profiles.model import Limiting

TEXT = """\
format: 1
profile_key: acme
manufacturer: Acme
model: One
instrument_class: power_supply
source: guide
match: {{idn: 'acme,one'}}
limited: {limited}
commands:
  state:
    scpi: "STAT?"
    returns: {{fields: [{{name: held, type: bool, index: 0}}, {{name: hot, type: bool, index: 1}}]}}
  mode: {{scpi: "MODE? {{channel}}", parameters: {{channel: {{type: int, min: 1, max: 2}}}}}}
  off: {{scpi: "OUTP OFF", is_safe: true}}
  arm: {{scpi: "ARM?", is_query: true, is_dangerous: true}}
  tell: {{scpi: "TELL?", is_query: true, changes: settings}}
  two: {{scpi: ["SEL 1", "TWO?"]}}
"""


def test_it_is_a_query_and_a_condition_over_its_answer() -> None:
    text = TEXT.format(limited="{command: state, when: held or hot and channel == 1}")
    assert parse_profile(text, "acme.yaml").limited == Limiting(
        command="state", when="held or hot and channel == 1"
    )
    text = TEXT.format(limited="{command: mode, when: \"value == 'CC'\", note: held back}")
    assert parse_profile(text, "acme.yaml").limited == Limiting(
        command="mode", when="value == 'CC'", note="held back"
    )
    assert parse_profile(TEXT.format(limited="null"), "acme.yaml").limited is None


@pytest.mark.parametrize(
    ("limited", "complaint"),
    [
        ("{command: nothing, when: held}", 'names "nothing", which is no command'),
        ("{command: off, when: value}", "off is no harmless query of one line"),
        ("{command: arm, when: value}", "arm is no harmless query of one line"),
        ("{command: tell, when: value}", "tell is no harmless query of one line"),
        ("{command: two, when: value}", "two is no harmless query of one line"),
        ("{command: state, when: heldd}", "names heldd, which is not known here"),
        ("{command: state, when: 'held or'}", "when"),
        ("{command: state}", 'limited has no "when"'),
        ("{when: held}", 'limited has no "command"'),
        ("{command: state, when: held, of: mode}", "of"),
    ],
)
def test_anything_else_is_refused_where_it_stands(limited: str, complaint: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_profile(TEXT.format(limited=limited), "acme.yaml")
    assert complaint in refused.value.message
    assert refused.value.data["line"] == 8
