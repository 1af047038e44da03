"""Names of tools: short ids, collisions, and that no name ever means another instrument."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.profiles.naming import (
    NAME_LENGTH,
    KnownInstrument,
    book,
    clean_alias,
    listed_names,
    sequence_tool_name,
    short_name,
    strict_name,
    tool_name,
    wrapper_tool_name,
)
from tests.promises import promise

USB = "USB0::0x1AB1::0x0E11::DP8B26AM00234::INSTR"
LAN = "TCPIP0::192.168.1.20::5025::SOCKET"


def known(*ids: str, key: str = "psu") -> list[KnownInstrument]:
    return [KnownInstrument(instrument_id=id_, profile_key=key) for id_ in ids]


def assign(entries: list[KnownInstrument]) -> Mapping[str, str]:
    """Instrument id → suffix."""
    return book(entries).suffixes


REAL_IDS = st.one_of(
    st.builds(
        "TCPIP{}::192.168.{}.{}::{}::SOCKET".format,
        st.sampled_from(["", "0"]),
        st.integers(0, 3),
        st.integers(1, 250),
        st.sampled_from([5025, 5555]),
    ),
    st.builds("TCPIP0::10.0.0.{}::inst0::INSTR".format, st.integers(1, 20)),
    st.builds("USB0::0xF4EC::0x1430::SPD{}::INSTR".format, st.integers(0, 99)),
    st.builds("USB0::62700::5136::SPD13DCC8R{}\x00::0::INSTR".format, st.integers(0, 9)),
    st.builds("ASRL/dev/ttyUSB{}::INSTR".format, st.integers(0, 12)),
    st.builds("ASRLCOM{}::INSTR".format, st.integers(1, 12)),
    st.builds("GPIB0::{}::INSTR".format, st.integers(0, 30)),
    st.sampled_from(["a::sequence", "b/sequence", "x__sequence"]),
    st.sampled_from(["(1)", ":1:", "1", "::", "", "-2"]),
    st.text(alphabet="ab.:-_12/", max_size=14),
)


def test_the_first_instance_has_no_suffix() -> None:
    assert assign(known(USB)) == {USB: ""}
    assert tool_name("psu", "", "set_voltage") == "psu__set_voltage"
    assert sequence_tool_name("psu", "", "iv") == "psu__sequence__iv"
    assert wrapper_tool_name("korad", "set_voltage") == "korad__set_voltage"


def test_the_second_instance_gives_both_a_short_id() -> None:
    other = USB.replace("00234", "00235")
    assert assign(known(USB, other)) == {USB: "234INSTR", other: "235INSTR"}
    assert tool_name("psu", "234INSTR", "set_voltage") == "psu__234INSTR__set_voltage"
    assert sequence_tool_name("psu", "234INSTR", "iv") == "psu__234INSTR__sequence__iv"


def test_ids_that_end_alike_take_more_characters_the_same_number_for_all() -> None:
    other = LAN.replace("1.20", "1.21")
    assert assign(known(LAN, other)) == {LAN: "05025SOCKET", other: "15025SOCKET"}


def test_strange_characters_are_taken_out_before_counting() -> None:
    serial = "ASRL/dev/ttyUSB0::INSTR"
    assert assign(known(serial, USB)) == {serial: "SB0INSTR", USB: "234INSTR"}


def test_instances_of_different_profiles_do_not_meet() -> None:
    entries = known(USB) + known(LAN, key="dmm")
    assert assign(entries) == {USB: "", LAN: ""}


def test_a_suffix_stays_when_the_other_has_left_and_come_again() -> None:
    entries = known(USB, LAN, USB)
    assert assign(entries) == assign(known(USB, LAN))


def test_the_former_names_lead_to_their_instrument() -> None:
    found = book(known(USB, LAN))
    assert found.former == {("psu", ""): USB}


def test_ids_that_differ_in_removed_characters_only_are_numbered_and_it_is_said() -> None:
    found = book(known("ASRL/dev/a", "ASRL/deva"))
    assert found.suffixes == {"ASRL/dev/a": "ASRLdeva", "ASRL/deva": "ASRLdeva-2"}
    assert len(found.notes) == 1
    assert '"ASRL/deva"' in found.notes[0]


def test_a_suffix_never_reads_as_the_word_for_sequences() -> None:
    suffixes = assign(known("x::sequence", "y::sequences"))
    assert suffixes["x::sequence"] == "xsequence"


def called(*entries: tuple[str, str]) -> list[KnownInstrument]:
    return [KnownInstrument(instrument_id=i, profile_key="psu", alias=a) for i, a in entries]


@promise("names.alias")
def test_an_alias_stands_for_the_short_id_of_whoever_has_one() -> None:
    entries = called((USB, "psu1"), (LAN, ""))
    assert book(entries, uses_aliases=True).suffixes == {USB: "psu1", LAN: "25SOCKET"}
    assert book(entries).suffixes == {USB: "234INSTR", LAN: "25SOCKET"}
    assert tool_name("psu", "psu1", "set_voltage") == "psu__psu1__set_voltage"


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("main supply", "main_supply"),
        ("a__sequence", "a_sequence"),
        ("Ω5.1", "5_1"),
        ("x" * 30, "x" * 24),
        ("…", ""),
    ],
)
def test_an_alias_is_cleaned_for_names(alias: str, name: str) -> None:
    assert clean_alias(alias) == name


@pytest.mark.parametrize("alias", ["sequence", "…"])
def test_an_alias_that_can_be_no_name_leaves_the_short_id_and_says_so(alias: str) -> None:
    found = book(called((USB, ""), (LAN, alias)), uses_aliases=True)
    assert found.suffixes[LAN] == "25SOCKET"
    assert alias in found.notes[0]


@promise("names.alias")
def test_an_alias_that_moves_to_another_unit_is_retired() -> None:
    found = book(called((USB, "psu1"), (USB, ""), (LAN, "psu1")), uses_aliases=True)
    assert found.suffixes == {USB: "234INSTR", LAN: "25SOCKET"}
    assert USB in found.notes[0]
    again = book(called((USB, "psu1"), (LAN, "psu1"), (USB, "psu1")), uses_aliases=True)
    assert again.suffixes == {USB: "psu1", LAN: "25SOCKET"}


def test_a_short_id_never_takes_what_is_an_alias_nor_the_other_way_round() -> None:
    first = book(called((USB, "25SOCKET"), (LAN, "")), uses_aliases=True)
    assert first.suffixes[LAN] == "025SOCKET"
    later = book(called((USB, ""), (LAN, ""), (USB, "25SOCKET")), uses_aliases=True)
    assert later.suffixes == {USB: "234INSTR", LAN: "25SOCKET"}


def by_the_rule(ids: list[str]) -> dict[str, str] | None:
    """docs/promises.md section 5, word for word; ``None`` where it does not say what to do."""
    stripped = {id_: re.sub(r"[^A-Za-z0-9_.\-]", "", id_) for id_ in ids}
    for length in range(8, 200):
        found = {id_: text[-length:] for id_, text in stripped.items()}
        if len(set(found.values())) == len(ids):
            return found
    return None


@promise("name.short-id")
@given(
    st.lists(
        REAL_IDS.filter(lambda i: "sequence" not in i and len(i) > 14),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
def test_two_instances_are_named_exactly_by_the_rule(ids: list[str]) -> None:
    wanted = by_the_rule(ids)
    if wanted is not None:
        assert assign(known(*ids)) == wanted


@promise("names.never-retarget")
@given(st.lists(REAL_IDS, max_size=9))
def test_names_differ_and_never_come_to_mean_another_instrument(ids: list[str]) -> None:
    owners: dict[str, str] = {}
    for count in range(len(ids) + 1):
        found = book(known(*ids[:count]))
        suffixes = found.suffixes
        assert len(set(suffixes.values())) == len(suffixes)
        for id_, suffix in suffixes.items():
            assert re.fullmatch(r"[A-Za-z0-9_.\-]*", suffix)
            assert owners.setdefault(suffix, id_) == id_
            assert suffix != "sequence"
        for (_, suffix), owner in found.former.items():
            assert owners[suffix] == owner


ALIASES = st.sampled_from(["", "psu1", "psu 1", "PSU1", "sequence", "25SOCKET", "x" * 30])


@promise("names.never-retarget")
@given(st.lists(st.tuples(REAL_IDS, ALIASES), max_size=9))
def test_with_aliases_too_no_name_comes_to_mean_another_instrument(
    entries: list[tuple[str, str]],
) -> None:
    owners: dict[str, str] = {}
    for count in range(len(entries) + 1):
        suffixes = book(called(*entries[:count]), uses_aliases=True).suffixes
        assert len(set(suffixes.values())) == len(suffixes)
        for id_, suffix in suffixes.items():
            assert owners.setdefault(suffix, id_) == id_
            assert suffix != "sequence"


@promise("name.short-id")
@given(st.lists(REAL_IDS, min_size=2, max_size=9, unique=True))
def test_all_instances_take_the_same_number_of_characters(ids: list[str]) -> None:
    suffixes = assign(known(*ids))
    stripped = {id_: re.sub(r"[^A-Za-z0-9_.\-]", "", id_) for id_ in ids}
    plain = [id_ for id_ in ids if stripped[id_].endswith(suffixes[id_])]
    lengths = {len(suffixes[id_]) for id_ in plain}
    cut = {len(suffixes[id_]) for id_ in plain if suffixes[id_] != stripped[id_]}
    assert len(cut) <= 1
    assert not cut or max(lengths) == max(cut)


def test_strict_names_hold_no_dots_and_are_not_too_long() -> None:
    assert strict_name("psu__1.2__set") == "psu__1_2__set"
    long = "psu__" + "x" * 60 + "__set_voltage"
    assert len(strict_name(long)) == NAME_LENGTH
    assert strict_name(long) != strict_name(long + "s")
    assert strict_name(short_name("1.2" + long)) == strict_name("1.2" + long)


def test_names_that_would_meet_are_told_apart() -> None:
    found = listed_names(["a.b", "a_b", "c"], is_strict=True)
    assert len(set(found.values())) == 3
    assert found["a_b"] == "a_b"
    assert found["c"] == "c"


@promise("names.fit")
@given(st.lists(st.text("ab._", min_size=1, max_size=80), unique=True), st.booleans())
def test_listed_names_are_short_and_never_the_same(names: list[str], is_strict: bool) -> None:
    # Those that look as if they had been shortened already.
    names += [one for one in map(short_name, names) if one not in names]
    found = listed_names(names, is_strict=is_strict)
    assert len(set(found.values())) == len(names)
    assert max(map(len, found.values()), default=0) <= NAME_LENGTH
    assert listed_names(names, is_strict=is_strict) == found
