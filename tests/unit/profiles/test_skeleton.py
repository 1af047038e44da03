"""The draft of a profile, made from what an instrument told of itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.patterns import found_in
from edged.profiles.authoring.lint import lint_profile
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.match import find_profile
from edged.profiles.model import Connection
from edged_author.drafting import (
    MetInstrument,
    draft_profile,
    key_of,
    literal,
    read_headers,
)

ADDRESS = "TCPIP::192.168.1.20::5025::SOCKET"
LISTED = """\
*IDN?/qonly/
:SOURce:VOLTage[:LEVel]
:OUTPut<n>:STATe
:MEASure:VOLTage[:DC]?/qonly/
:SYSTem:BEEPer/nquery/
this is no header
"""


@pytest.mark.parametrize(
    ("idn", "key"),
    [
        ("Example Instruments,GX100,GX000001,1.0", "example_gx100"),
        ("RIGOL TECHNOLOGIES,DP832A,DP8B26AM00234,00.01.19", "rigol_dp832a"),
        ("KORADKA3005PV2.0", "korad_ka3005p"),
        ('"2450, 3000 (inc.)",x', "x_2450_3000_inc"),
        ("TRUE", "x_true"),
        ("Very Long Maker of Instruments Inc,A-1234567890-ABCDEF-XYZ,1,1", None),
    ],
)
def test_the_key_is_maker_and_model_in_short(idn: str, key: str | None) -> None:
    made = key_of(idn)
    assert len(made) <= 26
    if key is not None:
        assert made.startswith(key[:10])


def test_a_list_of_headers_is_read_as_scpi_has_it() -> None:
    assert read_headers(LISTED) == (
        "*IDN?",
        ":SOURce:VOLTage[:LEVel]",
        ":SOURce:VOLTage[:LEVel]?",
        ":OUTPut<n>:STATe",
        ":OUTPut<n>:STATe?",
        ":MEASure:VOLTage[:DC]?",
        ":SYSTem:BEEPer",
    )


def test_the_draft_loads_is_clean_and_takes_who_it_was_drafted_from() -> None:
    idn = "Example Instruments,GX100,GX000001,1.0"
    met = MetInstrument(
        idn=idn, address=ADDRESS, error_query="SYST:ERR?", headers=read_headers(LISTED)
    )
    text = draft_profile(met, "example_gx100")
    profile = parse_profile(text)
    library = ProfileLibrary(profiles={profile.key: profile})
    assert lint_profile(profile, library) == ()
    assert find_profile(idn, None, [profile]).profile is profile
    assert find_profile(idn.replace("GX100", "GX1000"), None, [profile]).profile is None
    assert profile.connection.errors.query == "SYST:ERR?"
    assert "# get_measure_voltage: {description: \"\", scpi: ':MEAS:VOLT?'" in text
    assert "# set_output_state: {description: \"\", scpi: ':OUTP:STAT'" in text


@pytest.mark.parametrize(
    ("own", "is_needed"),
    [
        ({}, False),
        ({"read_termination": "\r\n", "timeout_ms": 9000, "min_gap_ms": 50}, False),
        ({"baud_rate": 9600, "data_bits": 8, "parity": "none", "stop_bits": 1}, False),
        ({"baud_rate": 19200}, True),
        ({"write_termination": "\r"}, True),
        ({"read_termination": "\r"}, True),
    ],
)
def test_one_that_answers_only_to_its_own_settings_must_be_named(
    own: dict[str, Any], is_needed: bool
) -> None:
    met = MetInstrument(idn="A,B,C,D", address=ADDRESS, connection=Connection(**own))
    assert met.must_be_named is is_needed
    assert ("INSTRUMENTS must name this profile" in draft_profile(met, "a_b")) is is_needed


def test_what_the_instrument_lists_is_no_command_before_somebody_has_looked_it_up() -> None:
    met = MetInstrument(idn="A,B,C,D", address=ADDRESS, headers=read_headers(LISTED))
    assert list(parse_profile(draft_profile(met, "a_b")).commands) == ["identify"]


@given(st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=60))
def test_whatever_acknowledges_the_draft_loads_and_takes_it(said: str) -> None:
    met = MetInstrument(idn="A,B,C,D", address=ADDRESS, acknowledge=f"^{literal(said)}$")
    connection = parse_profile(draft_profile(met, "a_b")).connection
    assert found_in(said, connection.acknowledge or "") is not None
    assert connection.encoding == "ascii" or not said.isascii()


@given(st.text(min_size=1, max_size=80).filter(lambda idn: bool(idn.strip().strip("\"'").strip())))
def test_whatever_answers_the_draft_loads(idn: str) -> None:
    met = MetInstrument(idn=idn, address=ADDRESS)
    profile = parse_profile(draft_profile(met, key_of(idn) or "x"))
    assert profile.commands
