"""Which profile fits an answer to ``*IDN?``, and who the instrument says it is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.profiles.loading import parse_profile
from edged.profiles.match import MAX_IDN, Identity, find_profile, parse_idn
from edged.profiles.model import Profile
from tests.promises import promise


def profile(key: str, idn: str, usb: str = "[]") -> Profile:
    return parse_profile(
        f"format: 1\nprofile_key: {key}\nmanufacturer: a\nmodel: b\ninstrument_class: other\n"
        f"source: s\nmatch: {{idn: '{idn}', usb: {usb}}}\ncommands: {{a: {{scpi: A}}}}\n"
    )


@pytest.mark.parametrize(
    ("idn", "maker", "model", "serial", "firmware"),
    [
        ("RIGOL TECHNOLOGIES,DP832A,DP8B26AM00234,00.01.19",
         "RIGOL TECHNOLOGIES", "DP832A", "DP8B26AM00234", "00.01.19"),
        ("Siglent Technologies,SPD3303X-E,SPD3XIDX5R3677,1.01.01.02.07R2,V3.0",
         "Siglent Technologies", "SPD3303X-E", "SPD3XIDX5R3677", "1.01.01.02.07R2,V3.0"),
        ("Siglent Technologies,SPD3303X,SPD3XJGCA01014,1.01.01.03.12R1 V6.2",
         "Siglent Technologies", "SPD3303X", "SPD3XJGCA01014", "1.01.01.03.12R1 V6.2"),
        ("Siglent Technologies Co., Ltd.,SDS1104X-E,SDS1EBAC0L0098,7.6.1.20",
         "Siglent Technologies Co., Ltd.", "SDS1104X-E", "SDS1EBAC0L0098", "7.6.1.20"),
        ("KEITHLEY INSTRUMENTS, MODEL 2450, 01419966, 1.6.4c\n",
         "KEITHLEY INSTRUMENTS", "2450", "01419966", "1.6.4c"),
        ("KEITHLEY INSTRUMENTS,MODEL DMM6500,04592448,1.7.12b",
         "KEITHLEY INSTRUMENTS", "DMM6500", "04592448", "1.7.12b"),
        ("LSCI,MODEL335,335A12T/#######,1.2", "LSCI", "335", "335A12T", "1.2"),
        ("TEKTRONIX,TBS 1072C,C025730,CF:91.1CT FV:v1.29.30; FPGA:v20.78;",
         "TEKTRONIX", "TBS 1072C", "C025730", "CF:91.1CT FV:v1.29.30; FPGA:v20.78"),
        ("GW INSTEK,GPD-3303D,SN:EK817462,V1.01", "GW INSTEK", "GPD-3303D", "EK817462", "V1.01"),
        ("Stanford_Research_Systems,SR830,s/n12345,ver1.07",
         "Stanford_Research_Systems", "SR830", "12345", "ver1.07"),
        ("HAMEG,HMP4040,026043549,HW50020001/SW2.50",
         "HAMEG", "HMP4040", "026043549", "HW50020001/SW2.50"),
        ("Rohde&Schwarz,NGE103B,5601.3800k03/101863,1.54",
         "Rohde&Schwarz", "NGE103B", "5601.3800k03/101863", "1.54"),
        ("*IDN SIGLENT,SDS1104X-E,SDS1EBAC0L0098,7.6.1.20",
         "SIGLENT", "SDS1104X-E", "SDS1EBAC0L0098", "7.6.1.20"),
        ("Siglent,SPD1168X,SPD13DCC8R0195\x00\x00\x00\x00,2.1",
         "Siglent", "SPD1168X", "SPD13DCC8R0195", "2.1"),
        ("KORADKA3005PV2.0", "KORAD", "KA3005P", "", "V2.0"),
        ("KORAD KA3005P V5.8 SN:03379289", "KORAD", "KA3005P", "03379289", "V5.8"),
        ("TENMA 72-2540 V2.1", "TENMA", "72-2540", "", "V2.1"),
        ("ACME,X,0,1", "ACME", "X", "", "1"),
        ("ACME,X", "ACME", "X", "", ""),
        ("SOMETHING", "", "SOMETHING", "", ""),
        ("", "", "", "", ""),
    ],
)  # fmt: skip
def test_real_answers_come_apart(
    idn: str, maker: str, model: str, serial: str, firmware: str
) -> None:
    wanted = Identity(manufacturer=maker, model=model, serial=serial, firmware=firmware)
    assert parse_idn(idn) == wanted


@given(st.text(max_size=600))
def test_any_answer_gives_printable_parts(idn: str) -> None:
    identity = parse_idn(idn)
    for part in (identity.manufacturer, identity.model, identity.serial, identity.firmware):
        assert part.isprintable()
        assert len(part) <= MAX_IDN + 2


def test_a_pattern_is_searched_anywhere_and_case_does_not_matter() -> None:
    found = find_profile("Rigol Technologies,DP832A,1,2", None, [profile("p", r"\bdp832a?\b")])
    assert found.profile is not None
    assert found.tied == ()


@promise("match.longest")
def test_the_longest_match_wins() -> None:
    short, long = profile("short", "acme"), profile("long", "acme,x1")
    assert find_profile("ACME,X1,2,3", None, [short, long]).profile is long
    assert find_profile("ACME,X1,2,3", None, [long, short]).profile is long


def test_no_match_is_said_with_the_answer() -> None:
    found = find_profile("ACME,X1\x1b[31m", None, [profile("p", "other")])
    assert found.profile is None
    assert "ACME,X1" in found.reason
    assert found.reason.isprintable()


@promise("match.longest")
def test_a_tie_is_reported_and_the_first_by_key_is_taken() -> None:
    one, two = profile("b_two", "acme,x."), profile("a_one", "acme,.1")
    found = find_profile("ACME,X1", None, [one, two])
    assert found.profile is two
    assert found.tied == ("a_one", "b_two")


def test_a_usb_id_decides_a_tie_and_nothing_else() -> None:
    one, two = profile("a_one", "acme,x."), profile("b_two", "acme,.1", "['1ab1:04ce']")
    assert find_profile("ACME,X1", (0x1AB1, 0x04CE), [one, two]).profile is two
    assert find_profile("ACME,X1", (0x1AB1, 0x04CE), [one, two]).tied == ()
    assert find_profile("OTHER", (0x1AB1, 0x04CE), [one, two]).profile is None


def test_an_endless_answer_is_searched_in_bounded_time() -> None:
    slow = profile("slow", "a.{0,40}x")
    started = time.perf_counter()
    assert find_profile("a" * 1_000_000, None, [slow]).profile is None
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("idn", "serial", "firmware"),
    [
        ("AMERICAN MAGNETICS INC.,MODEL 430,2.01", "", "2.01"),
        ("ACME,M1,V1.2.3", "", "V1.2.3"),
        ("ACME,M1,4471", "4471", ""),
        ("ACME,M1,DP8.A26", "DP8.A26", ""),
        ("ACME,M1,2.01,3.0", "2.01", "3.0"),
    ],
)
def test_a_version_in_the_place_of_the_serial_number_names_no_unit(
    idn: str, serial: str, firmware: str
) -> None:
    identity = parse_idn(idn)
    assert (identity.serial, identity.firmware) == (serial, firmware)
