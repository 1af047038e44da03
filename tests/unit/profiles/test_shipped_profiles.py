import re

import pytest

from edged.profiles.match import find_profile
from edged.profiles.model import CommandStep, ImageAnswer, WaveformAnswer
from edged.profiles.raw import asks
from edged_sim.models import model_names
from tests.bench.shipped import shipped_library

LIBRARY = shipped_library()
KEYS = sorted(LIBRARY.profiles)

REAL_ANSWERS = {
    "Keysight Technologies,E36312A,MY59002391,2.1.0-1.0.4-1.12": "keysight_e36312a",
    "KEYSIGHT,E36312A,MY59002391,2.1.0-1.0.4-1.12": "keysight_e36312a",
    "RIGOL TECHNOLOGIES,DP832A,DP8B26AM00234,00.01.19": "rigol_dp832",
    "Siglent Technologies,SPD3303X-E,SPD3XIDX5R3677,1.01.01.02.07R2,V3.0": "siglent_spd3303x",
    "Siglent Technologies,SPD3303X,SPD3XJGCA01014,1.01.01.03.12R1 V6.2": "siglent_spd3303x",
    "Siglent Technologies Co., Ltd.,SPD3303X-E,SPD3XIDX5R3677,1.01": "siglent_spd3303x",
    "KEITHLEY INSTRUMENTS,MODEL 2450,01419966,1.6.4c": "keithley_2450",
    "KEITHLEY INSTRUMENTS, MODEL 2450, 01419966, 1.6.4c": "keithley_2450",
    "KEITHLEY INSTRUMENTS INC.,MODEL 2400,1234567,C30 Mar 17 2006 09:29:29/A02": "keithley_2400",
    "Keysight Technologies,34461A,MY53218366,A.02.14-02.40-02.14-00.49-01-01": "keysight_34461a",
    "KEYSIGHT TECHNOLOGIES,34461A,MY53218366,A.02.14": "keysight_34461a",
    "Agilent Technologies,34461A,MY53204321,A.01.08-02.22-00.08-00.35-01-01": "keysight_34461a",
    "Keysight Technologies,34465A,MY54506462,A.02.14-02.40-02.14-00.49-03-01": "keysight_34465a",
    "KEITHLEY INSTRUMENTS INC.,MODEL 2000,1053308,A19  /A02": "keithley_2000",
    "AMERICAN MAGNETICS INC.,MODEL 430,1.62": "ami_430",
    "KEITHLEY INSTRUMENTS INC.,MODEL 7001, 503327,A04  /A01": "keithley_7001",
    "HEWLETT-PACKARD,34401A,0,11-5-2": "keysight_34401a",
    "Agilent Technologies,34410A,MY47006594,2.35-2.35-0.09-46-09": "keysight_34410a",
    "Agilent Technologies,33220A,MY44036372,2.02-2.02-22-2": "keysight_33220a",
    "Agilent Technologies,33522B,MY52802702,2.09-1.19-2.00-52-00": "keysight_33522b",
    "Siglent Technologies,SDM3055,SDM35GBQ4R0653,1.01.01.20R2": "siglent_sdm3055",
    "Siglent Technologies,SDM3065X,SDM36HCC800071,3.02.01.13": "siglent_sdm3065x",
    "Rigol Technologies,DG1032Z,DG1ZA2012604407,03.01.12": "rigol_dg1032z",
    "Rigol Technologies,DG1062Z,DG1ZA232603118,03.01.12": "rigol_dg1062z",
    "KEITHLEY INSTRUMENTS,MODEL DMM6500,04592448,1.7.12b": "keithley_dmm6500",
    "RIGOL TECHNOLOGIES,DS1054Z,DS1ZA170500001,00.04.04.SP4": "rigol_ds1054z",
    "RIGOL TECHNOLOGIES,DS1104Z,DS1ZA266M00140,00.04.05.SP2": "rigol_ds1104z",
    "Siglent Technologies,SDS1202X-E,SDS1ECDQ2R5789,7.1.1.3.23": "siglent_sds1202xe",
    "Siglent Technologies,SDS1104X-E,SDS1EBAC0L0098,7.6.1.20": "siglent_sds1104xe",
    "SIGLENT,SDS1104X-E,SDS1EBAC0L0098,7.6.1.20": "siglent_sds1104xe",
    "Siglent Technologies Co., Ltd.,SDS1104X-E,SDS1EBAC0L0098,7.6.1.20": "siglent_sds1104xe",
    "Agilent Technologies,E5061A,JP1KI00101,03.00": "keysight_e5061a",
    "Rigol Technologies,DSA815,DSA8A134700016,00.01.12.00.02": "rigol_dsa815",
    "Rigol Technologies,DG1022Z,DG1ZA231101158,03.01.12": "rigol_dg1022z",
    "Siglent Technologies,SDG2042X,SDG2XCAC2R0212,2.01.01.23R7": "siglent_sdg2042x",
    "RIGOL TECHNOLOGIES,DL3021,DL3A204800938,00.01.05.00.01": "rigol_dl3021",
    "Keysight Technologies,E4980A,MY46516036,A.02.10": "keysight_e4980a",
    "HAMEG,HMP4040,026043549,HW50020001/SW2.50": "rs_hmp4040",
    "ROHDE&SCHWARZ,HMP4040,109401,HW50020003/SW2.70": "rs_hmp4040",
    "Rohde&Schwarz,NGE103B,5601.3800k03/101863,1.54": "rs_nge103b",
    "HAMEG,HMP4030,019480198,HW50020001/SW2.30": "rs_hmp4030",
    "HEWLETT-PACKARD,E3631A,0,2.1-5.0-1.0": "keysight_e3631a",
    "HEWLETT-PACKARD,E3632A,0,1.2-5.0-1.0": "keysight_e3632a",
    "HEWLETT-PACKARD,E3633A,0,1.7-5.0-1.0": "keysight_e3633a",
    "HEWLETT-PACKARD,E3634A,0,2.4-6.1-2.1": "keysight_e3634a",
    "Agilent Technologies,E3646A,0,1.4-5.0-1.0": "keysight_e3646a",
    "Agilent Technologies,E3647A,0,1.7-5.0-1.0": "keysight_e3647a",
    "Agilent Technologies,E3648A,0,1.7-5.0-1.0": "keysight_e3648a",
    "Agilent Technologies,E3649A,0,1.4-5.0-1.0": "keysight_e3649a",
    "Siglent Technologies,SPD1168X,SPD1XEAX4R0095,2.1.1.9R1,V1.0": "siglent_spd1168x",
    "Siglent Technologies,SPD1305X,SPD13DCC8R0195,2.1.1.8": "siglent_spd1305x",
    "RIGOL TECHNOLOGIES,DL3031A,DL3D232300106,00.01.05.00.01": "rigol_dl3031",
    "Siglent Technologies,SDL1020X-E,SDL13GCC7R0028,1.1.1.22": "siglent_sdl1020x",
    "Stanford_Research_Systems,SR830,s/n12345,ver1.07": "srs_sr830",
    "Stanford_Research_Systems,SR860,003693,V1.51": "srs_sr860",
    "Stanford_Research_Systems,SR865A,002725,v1.34": "srs_sr865a",
    "LSCI,MODEL335,335A12T/#######,1.2": "lakeshore_335",
    "LSCI,MODEL336,LSA2CMQ/LSA2C8R,2.9": "lakeshore_336",
    "HEWLETT-PACKARD,34970A,0,13-2-2": "keysight_34970a",
    "Agilent Technologies,34972A,MY49021266,1.16-1.12-02-02": "keysight_34972a",
    "KEITHLEY INSTRUMENTS INC.,MODEL 6221,4559777,D04  /700x": "keithley_6221",
    "HEWLETT-PACKARD,4284A,0,REV01.20": "hp_4284a",
    "Stanford_Research_Systems,SR844,s/n50066,ver1.006": "srs_sr844",
    "KEITHLEY INSTRUMENTS INC.,MODEL 6517B,4096271,A13/700X": "keithley_6517b",
    "LSCI,MODEL350,LSA2FKB/#######,1.7": "lakeshore_350",
    "Keysight Technologies,B2901A,MY51144054,3.4.1910.3210": "keysight_b2901a",
    "KEITHLEY INSTRUMENTS INC.,MODEL 2401,4084766,A01 Aug 25 2011": "keithley_2401",
    "KEITHLEY INSTRUMENTS INC.,MODEL 2410,4406455,C34 Sep 21 2016": "keithley_2410",
    "KEITHLEY INSTRUMENTS INC.,MODEL 2420,1230523,C30   Mar 17 2006": "keithley_2420",
    "TEKTRONIX,TBS1102C,C025730,CF:91.1CT FV:v1.29.30; FPGA:v20.78;": "tektronix_tbs1000c",
    "TEKTRONIX,TBS2204B,C010302,CF:91.1CT FV:v1.29.30;": "tektronix_tbs2204b",
    "TEKTRONIX,TBS1052C,C010198,CF:91.1CT FV:v1.29.30": "tektronix_tbs1000c",
    "TEKTRONIX,TBS 1072C,C010001,CF:91.1CT FV:v1.0": "tektronix_tbs1000c",
    "YOKOGAWA,GS210,91N928756,2.01": "yokogawa_gs200",
}
"""What real units answered, and the profile that must take each, once it ships."""

STRANGERS = (
    "KEITHLEY INSTRUMENTS INC.,MODEL 6517A,0932142,B11  /A02",
    "KEITHLEY INSTRUMENTS INC.,MODEL 6220,4555659,D04  /700x",
    "Keysight Technologies,B2911A,MY51141631,3.4.2011",
    "LSCI,MODEL340,342638,061407",
    "Stanford_Research_Systems,SR865,001021,v1.18",
    "Agilent Technologies,E5063A,MY54100168,A.03.71",
    "Rigol Technologies,DSA832,DSA8B151700031,00.01.12.00.02",
    "RIGOL TECHNOLOGIES,DG1022,DG1D000000000,00.03.00.08",
    "KEITHLEY INSTRUMENTS INC.,MODEL 2440,1234567,C30",
    "AMERICAN MAGNETICS INC.,MODEL 420,1.19",
    "KEITHLEY INSTRUMENTS INC.,MODEL 7002,0503327,A04  /A01",
    "KEITHLEY INSTRUMENTS INC.,MODEL 2001,1234567,B17  /A02",
    "KEITHLEY INSTRUMENTS INC.,MODEL 24001,1234567,C30",
    "Keysight Technologies,E36311A,MY59002391,2.1.0",
    "Siglent Technologies,SPD3303C,SPD3EEDC6R0113,1.02.01.01.03R9,V1.3",
    "ROHDE&SCHWARZ,HMP2020,109401,HW50020003/SW2.70",
    "Keysight Technologies,34470A,MY53218366,A.02.14",
    "Keysight Technologies,34460A,MY53218366,A.02.14",
    "TEKTRONIX,TBS2104,C020205,CF:91.1CT FV:v1.23; FPGA:v1.21;",
    "Siglent Technologies,SDM3045X,SDM34FBX5R1363,5.01.01.06R1",
    "Agilent Technologies,34411A,MY46001234,2.35-2.35-0.09-46-09",
    "Agilent Technologies,33521A,MY50000101,1.12-1.19-1.50-50-00",
    "Agilent Technologies,33521B,MY52700101,2.09-1.19-2.00-52-00",
)
"""Relatives with other limits or other words: no profile here is for them."""


def takers(idn: str) -> list[str]:
    """The profiles that would take an answer if they stood alone."""
    alone = (find_profile(idn, None, [profile]).profile for profile in LIBRARY.profiles.values())
    return [profile.key for profile in alone if profile is not None]


def test_every_shipped_profile_loads() -> None:
    assert LIBRARY.complaints == ()


@pytest.mark.parametrize(("idn", "key"), REAL_ANSWERS.items())
def test_a_real_answer_is_taken_by_one_profile(idn: str, key: str) -> None:
    assert takers(idn) == ([key] if key in LIBRARY.profiles else [])


@pytest.mark.parametrize("idn", STRANGERS)
def test_a_relative_is_taken_by_none(idn: str) -> None:
    assert takers(idn) == []


@pytest.mark.parametrize("key", KEYS)
def test_an_example_of_a_profile_is_taken_by_it_alone(key: str) -> None:
    profile = LIBRARY.profiles[key]
    examples = profile.match.examples
    assert bool(examples) is profile.connection.asks_idn
    assert [takers(example) for example in examples] == [[key]] * len(examples)


@pytest.mark.parametrize("key", KEYS)
def test_a_shipped_profile_has_a_simulation_and_says_where_it_comes_from(key: str) -> None:
    profile = LIBRARY.profiles[key]
    assert profile.sim in model_names()
    assert profile.source


@pytest.mark.parametrize("key", KEYS)
def test_a_shipped_profile_says_what_nobody_tried_on_hardware(key: str) -> None:
    profile = LIBRARY.profiles[key]
    assert set(profile.unverified) == {*profile.commands, *profile.sequences}


SOURCES = {"calibrator", "electrometer", "power_supply", "smu"}
CAPTURING = {"network_analyzer", "oscilloscope", "spectrum_analyzer"}
NO_CURVE = {"ami_430"}
"""A magnet's current is ramped, never stepped."""


@pytest.mark.parametrize("key", KEYS)
def test_a_source_has_its_curve_and_what_captures_a_sequence_for_that(key: str) -> None:
    profile = LIBRARY.profiles[key]
    assert profile.sequences
    if profile.instrument_class in SOURCES:
        assert ("iv_curve" in profile.sequences) is (key not in NO_CURVE)
    if profile.instrument_class in CAPTURING:
        captures = {
            name
            for name, command in profile.commands.items()
            if isinstance(command.returns, WaveformAnswer | ImageAnswer)
        }
        steps = [step for one in profile.sequences.values() for step in one.steps]
        assert captures & {step.command for step in steps if isinstance(step, CommandStep)}


def test_no_command_of_the_2400_asks_what_switches_the_output_on() -> None:
    lines = [line for c in LIBRARY.profiles["keithley_2400"].commands.values() for line in c.scpi]
    assert not any("MEAS" in line.upper() for line in lines)


PLACE = re.compile(r"\b\d+-\d+\b|\bp\. \d+|\b(section|chapter|issue|page) \d+|, [A-Z]{3,}")
"""Where in a source something stands: a page, a chapter, the name of a command or a message."""


@pytest.mark.parametrize("key", KEYS)
def test_a_heartbeat_names_where_it_was_looked_up_or_what_is_still_to_be_read(key: str) -> None:
    connection = LIBRARY.profiles[key].connection
    said = connection.heartbeat_source
    assert re.search(r"\b(manual|guide)\b", said), said
    assert PLACE.search(said) or (not connection.heartbeat and "not read: " in said), said


def test_no_two_heartbeats_have_the_same_reason() -> None:
    reasons = [profile.connection.heartbeat_source for profile in LIBRARY.profiles.values()]
    assert len(set(reasons)) == len(reasons)


@pytest.mark.parametrize("key", ["rs_hmp2030", "rs_hmp4030", "rs_hmp4040", "rs_nge103b"])
def test_whatever_concerns_a_channel_selects_it_in_the_same_job(key: str) -> None:
    for command in LIBRARY.profiles[key].commands.values():
        # A status register names its channel itself.
        if "channel" in command.parameters and command.name != "get_status":
            assert any(line.startswith("INST:NSEL {channel}") for line in command.scpi), (
                command.name
            )
            if command.verify:
                assert command.verify.query.startswith("INST:NSEL {channel};:")
            if command.sweep:
                assert command.sweep.setpoint.startswith("INST:NSEL {channel};:")
                assert command.sweep.abort[0].send == "INST:NSEL {channel}"


def test_the_nge103b_has_the_limits_of_its_own() -> None:
    commands = LIBRARY.profiles["rs_nge103b"].commands
    assert commands["set_voltage"].parameters["voltage"].max == 32
    assert commands["set_current"].parameters["current"].max == 3
    assert all(
        c.parameters["channel"].max == 3 for c in commands.values() if "channel" in c.parameters
    )


@pytest.mark.parametrize("key", [k for k in KEYS if LIBRARY.profiles[k].connection.asks_idn])
def test_of_a_profile_that_is_scpi_a_question_is_what_has_its_mark(key: str) -> None:
    """What a line is, is the same as before profiles could say it."""
    profile = LIBRARY.profiles[key]
    for command in profile.commands.values():
        lines = [*command.scpi, *([command.verify.query] if command.verify else [])]
        assert [asks(profile, line) for line in lines] == [asks(None, line) for line in lines]


@pytest.mark.parametrize("key", ["lakeshore_336", "lakeshore_350"])
def test_every_sensor_of_a_four_channel_controller_can_control(key: str) -> None:
    """A map of the family is replaced as a whole, not added to."""
    chosen = LIBRARY.profiles[key].commands["set_output_mode"].parameters["input"]
    assert chosen.map == {"none": 0, "A": 1, "B": 2, "C": 3, "D": 4}
