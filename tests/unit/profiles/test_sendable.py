"""What a profile sends can be sent: its encoding, its number formats, its commands in a line."""

from __future__ import annotations

import pytest

from edged.errors import Invalid
from edged.profiles.loading import parse_profile

HEAD = """\
format: 1
profile_key: acme_one
manufacturer: Acme
model: One
instrument_class: other
source: "guide"
match: {idn: 'acme,one'}
"""
SAID = {
    "commands: {a: {scpi: 'LABEL é'}}": 'ascii has no "é"',
    "commands: {a: {scpi: [A, 'LABEL é']}}": 'ascii has no "é"',
    "commands: {a: {scpi: {ask: 'é?'}}}": "must be one value",
    "commands: {a: {scpi: 'A?'}}\nconnection: {on_connect: ['é']}": 'ascii has no "é"',
    "commands: {a: {scpi: 'A?'}}\nconnection: {encoding: latin-1, on_connect: ['Ж']}": (
        'latin-1 has no "Ж"'
    ),
    "commands: {a: {scpi: 'A?'}}\nconnection: {lan: {encoding: latin-1}, before: ['Ж']}": (
        'ascii or latin-1 has no "Ж"'
    ),
    "commands: {a: {scpi: 'A {x}', parameters: {x: {type: enum, options: [µV]}}}}": "has no",
    "commands: {a: {scpi: 'A {x}', parameters: {x: {type: enum, map: {a: µV}}}}}": "has no",
    "commands: {a: {scpi: 'A {x:.99f}', parameters: {x: {type: float}}}}": "precision is over 20",
    "commands: {a: {scpi: 'A {x:+.21e}', parameters: {x: {type: float}}}}": "precision is over 20",
    "commands: {a: {scpi: 'A;B;;C'}}": 'an empty command between two ";"',
    "commands: {a: {scpi: 'A; ;C'}}": 'an empty command between two ";"',
    "commands: {a: {scpi: A}}\nconnection: {on_release: ['A;;B']}": "an empty command between",
}
TAKEN = (
    "commands: {a: {scpi: 'LABEL é'}}\nconnection: {encoding: latin-1}",
    "commands: {a: {scpi: 'LABEL é'}}\nconnection: {lan: {encoding: utf-8}}",
    "commands: {a: {scpi: 'A?', description: é, returns: {type: string, unit: µV}}}",
    "commands: {a: {scpi: 'A {x}', parameters: {x: {type: enum, map: {µV: U}}}}}",
    "commands: {a: {scpi: 'A {x:.20f}', parameters: {x: {type: float}}}}",
    """commands: {a: {scpi: 'A "x;;y";B'}}""",
)


@pytest.mark.parametrize("text", SAID)
def test_what_cannot_be_sent_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_profile(HEAD + text, "one.yaml")
    assert SAID[text] in caught.value.message
    assert caught.value.data["line"] >= 8


@pytest.mark.parametrize("text", TAKEN)
def test_what_can_be_sent_is_taken(text: str) -> None:
    assert parse_profile(HEAD + text, "one.yaml").key == "acme_one"
