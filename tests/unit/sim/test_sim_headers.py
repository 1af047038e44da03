import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged_sim.scpi import HeaderError, HeaderPattern, Vocabulary, split_list, split_units

VOLTAGE = "[:SOURce<n>]:VOLTage[:LEVel][:IMMediate][:AMPLitude]"


def match(pattern: str, header: str) -> tuple[int | None, ...] | None:
    found = Vocabulary({pattern: "entry"}).find(header)
    return None if found is None else found.suffixes


@pytest.mark.parametrize(
    "header",
    [
        ":SOUR2:VOLT",
        "sour2:volt",
        "Source2:Voltage:Level:Immediate:Amplitude",
        ":SOUR2:VOLT:AMPL",
        ":SOURCE2:VOLT:LEV:AMPLITUDE",
    ],
)
def test_long_and_short_forms_with_and_without_optional_nodes_mean_one_command(header: str) -> None:
    assert match(VOLTAGE, header) == (2,)


def test_an_optional_node_with_a_suffix_may_be_left_out() -> None:
    assert match(VOLTAGE, "VOLT") == (None,)


@pytest.mark.parametrize("header", ["VOLTA", "SOUR:VOL", "SOURC1:VOLT", "VOLT:SOUR1", "VOLT1", ""])
def test_what_is_neither_short_nor_long_form_is_no_match(header: str) -> None:
    assert match(VOLTAGE, header) is None


def test_a_query_is_another_command() -> None:
    table = Vocabulary({"VOLTage": "set", "VOLTage?": "get"})
    assert table.find("VOLT").entry == "set"
    assert table.find("VOLT?").entry == "get"


def test_suffixes_come_in_the_order_of_the_header() -> None:
    assert match(":STATus:INST<n>:ISUM<n>:COND?", "STAT:INST1:ISUM3:COND?") == (1, 3)


def test_common_commands_are_headers_too() -> None:
    assert match("*IDN?", "*idn?") == ()


def test_an_unreadable_header_of_a_table_is_refused() -> None:
    with pytest.raises(HeaderError):
        HeaderPattern(":VOLTage:<n>")


def test_a_header_without_colon_is_offered_below_the_path_before_it() -> None:
    units = list(split_units(":SOUR1:VOLT 5;CURR 1;*OPC?;:OUTP ON"))
    assert units == [
        (":SOUR1:VOLT", ":SOUR1:VOLT", "5"),
        ("CURR", ":SOUR1:CURR", "1"),
        ("*OPC?", "*OPC?", ""),
        (":OUTP", ":OUTP", "ON"),
    ]


def test_separators_in_quotes_and_lists_separate_nothing() -> None:
    assert split_list('"a;b";(@1;2);c', ";") == ['"a;b"', "(@1;2)", "c"]


@given(st.text(max_size=60))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    table = Vocabulary({VOLTAGE: 1, "*IDN?": 2})
    for header, under_path, _ in split_units(text):
        table.find(header)
        table.find(under_path)


@given(st.lists(st.sampled_from(["SOUR", "VOLT", "LEV", "source1", "AMPL", "x"]), max_size=6))
def test_asking_twice_gives_the_same(words: list[str]) -> None:
    table = Vocabulary({VOLTAGE: 1})
    header = ":".join(words)
    assert table.find(header) == table.find(header)
