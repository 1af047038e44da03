"""Raw lines taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.scpi.line import classify, is_query, messages, split_compound


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("VOLT 5", ("VOLT 5",)),
        (" VOLT 5 ;; CURR 1 ; ", ("VOLT 5", "CURR 1")),
        ('DISP "a;b";*CLS', ('DISP "a;b"', "*CLS")),
        ("DISP 'a;b'", ("DISP 'a;b'",)),
        ('DISP "say ""a;b""";X', ('DISP "say ""a;b"""', "X")),
        ('DISP "open;OUTP ON', ('DISP "open', "OUTP ON")),
        ("VOLT 5\nOUTP ON", ("VOLT 5", "OUTP ON")),
        ("", ()),
    ],
)
def test_messages_part_at_semicolons_outside_of_quotes(line, parts):
    assert split_compound(line) == parts


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("*IDN?", True),
        ("VOLT? MAX", True),
        ("VOLT?(@1)", True),
        ("VOLT ?", True),
        ("KRDG? A", True),
        ("VOLT 5;VOLT?", True),
        ("VOLT 5", False),
        ('DISP "ready?"', False),
        ("VOLT 5?", False),
        ("", False),
    ],
)
def test_a_query_is_told_by_its_header(line, asks):
    assert classify(line).is_query is asks
    assert is_query(line) is asks


def test_header_and_arguments_are_found_whatever_the_spacing():
    (message,) = messages("\t:SOUR1 : VOLT\t 5.0  V , (@1,2) ")

    assert message.nodes == ("SOUR1", "VOLT")
    assert message.arguments == ("5.0 V", "(@1,2)")


def test_a_header_without_colon_continues_the_path_of_the_one_before():
    found = list(messages(":SOUR1:VOLT 5;*OPC;CURR 1;:OUTP ON;X"))

    assert [message.path for message in found] == [(), (), ("SOUR1",), (), ()]


@given(st.text(max_size=80))
def test_any_text_is_taken_apart_without_raising(line):
    kind = classify(line)

    assert len(list(messages(line))) == len(kind.parts)
