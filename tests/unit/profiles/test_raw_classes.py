"""A raw line is allowed by what it is: known, common or unknown."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.profiles.model import (
    Changes,
    Connection,
    ErrorCheck,
    Parameter,
    ParameterType,
    Profile,
    QueryStep,
    Sequence,
)
from edged.profiles.raw import (
    MAX_LINE,
    LineClass,
    class_of,
    identify,
    judged_parts,
    nearest_commands,
)
from edged.profiles.template import possible_values, render_lines
from edged.scpi.kinds import ErrorKind
from edged.scpi.line import LONGEST_NODE, MOST_NODES, messages
from edged.scpi.words import match_node
from tests.bench.shipped import shipped_library
from tests.promises import promise
from tests.unit.profiles.test_raw import SUPPLY, command, profile

COMMON, KNOWN, UNKNOWN = LineClass.COMMON, LineClass.KNOWN, LineClass.UNKNOWN
ERRORS = Connection(errors=ErrorCheck(kind=ErrorKind.QUEUE, query="SYST:ERR?"))
NAME = command("name", "NAME {text}", text=Parameter(name="text", type=ParameterType.STRING))
OFFSET = command("offset", "OFFS {v}mV", v=Parameter(name="v", type=ParameterType.FLOAT, unit="mV"))
VOLTS = Parameter(name="v", type=ParameterType.FLOAT)
LOCK = command(
    "lock",
    "LOCK {on}",
    on=Parameter(name="on", type=ParameterType.BOOL, map={"true": "REM", "false": "LOC"}),
)
BENCH = replace(
    SUPPLY,
    connection=ERRORS,
    commands={**SUPPLY.commands, "name": NAME, "offset": OFFSET, "lock": LOCK},
)


def classes(line: str, of: Profile | None = BENCH) -> list[LineClass]:
    return [part.kind for part in identify(of, line)]


@promise("raw.classes")
@pytest.mark.parametrize(
    "line",
    ["*IDN?", "*idn?", "*OPT?", "*OPC?", "*STB?", "*ESR?", "*CLS", "SYST:ERR?", ":syst:err?",
     "SYSTEM:ERROR:NEXT?", " SYST:ERR? "],
)  # fmt: skip
def test_these_are_common_without_an_argument(line: str) -> None:
    assert classes(line) == [COMMON]


@promise("raw.classes")
@pytest.mark.parametrize(
    "line",
    [
        # Common queries that are not in the list, or have something more.
        "*CAL?", "*FOO?", "*RST?", "*TST?", "*ESE?", "*IDN? 1", "*X:SOUR1:VOLT? 1", ":*IDN?",
        "*CLS 1", "*OPC", "* IDN?",
        # The error query with an argument, and others that only resemble it.
        "SYST:ERR? #0", "SYST:ERR? 1", "SYST:ERR:COUN?", "SYST:ERR", "SYST::ERR?", "SYST:ERR?5",
        "SYST:ERR? #0<40 bytes>",
        # A known header with other arguments, or something left over.
        ":SOUR1:VOLT MAX", ":SOUR1:VOLT", ":SOUR1:VOLT 5,6", ":SOUR1:VOLT 5 6", ":SOUR1:VOLT? 1",
        ":MEAS:VOLT? CH1,1", ':MEAS:VOLT? "CH1"x', ":MEAS:VOLT? #13abc", ":SOUR1:VOLT #15<5 bytes>",
        ':MEAS:VOLT? CH1 ";:OUTP CH1,ON"', "DISP:TEXT #15<5 bytes>",
        "DISP:TEXT 'a';b", "DISP:TEXT a,b", "DISP:TEXT a b", "DISP:TEXT ,", 'DISP:TEXT ""a""',
        # A block where a text stands: nobody knows whether an instrument reads it by its length.
        "DISP:TEXT x #15<5 bytes>", "NAME x #15<5 bytes>", "NAME x,#15<5 bytes>",
        "NAME a b", "NAME x(@1)", "LOCK ON",
        # A channel that there is not may be another one to the instrument.
        ":OUTP CH9,ON", ":OUTP CH0,ON", ":SOUR4294967297:VOLT 5", "VOLT:PROT 5,(@4)",
        # Arguments that are left out, empty, quoted, or two instead of one.
        "FUNC", "FUNC ", "BEEP", ":SOUR1:VOLT 5,", "FUNC SIN,,", ':SOUR1:VOLT "5"', "FUNC 'SIN'",
        ":OUTP CH1,ON 1", ":OUTP CH1,ON1", ":OUTP CH1 0,ON", ":OUTP CH1,O N", ":OUTP CH1,(ON)",
        "VOLT:PROT 5,(@1 2)", "VOLT:PROT 5,(@1E0)", ":OUTP CH1E0,ON", ":OUTP CH#H1,ON",
        "OFFS 10mVmV",
        # An optional node where there is none, or with a number.
        ":SENS:CURR:PROT:STAT 0", ":OUTP:LEV CH1,ON", ":OUTP:STAT2 CH1,ON",
        ":SOUR1:VOLT:NEXT 5", ":SOUR1:VOLT:IMM3 5", "LEV:SOUR1:VOLT 5", "*RST:STAT",
        # Numbers of a header that are no number of an instrument, and words that are another.
        ":OUTP0000000012 CH1,ON", ":OUTP99999999999 CH1,ON", ":OUTP0 CH1,ON", "VOLT_LIMIT 5",
        # Headers that are no headers.
        "SOUR1::VOLT 5", " SOUR1 : VOLT 5", "SOUR1:VOLT:", "::SOUR1:VOLT 5", ":SOUR1:VOLT ?",
        "SOUR1:VOLT5", "VOL 5", "5", "?", "(@1)", "'*IDN?'",
        # Bytes that are no text of SCPI.
        "\xa0:SOUR1:VOLT 5", ":SOUR1:VOLT 5\x00", ":SOUR1\x0b:VOLT 5", ":SOUR1:VOLT\xa05",
        "*IDN?\rT5", "*RST\n:OUTP CH1,ON", "\u2164olt 5", ":\u017fOUR1:VOLT 5",
        # An open quote may end anywhere.
        'DISP:TEXT "a', "DISP:TEXT 'a\"",
        "FOO:BAR?", "READ?", "MEAS:CURR? CH1", "*RCL 1", "SYST:BEEP",
    ],
)  # fmt: skip
def test_everything_else_is_unknown(line: str) -> None:
    assert class_of(identify(BENCH, line)) is UNKNOWN


@promise("raw.classes")
@pytest.mark.parametrize(
    "line",
    [":SOUR1:VOLT 5", "SOURCE2:VOLTAGE 5", "sour2:volt:lev:imm:ampl 5.0e0", ":SOUR1:VOLT\t500 mV",
     "VOLT 5", ":OUTP CH1,1", "OUTPUT:STATE ch1 , on", "meas:volt? ch2", "FUNC SINUSOID", "*RST",
     "LOCK rem", "BEEP ON",
     'DISP:TEXT "a;:OUTP CH1,ON"', "DISP:TEXT 'a,b'", ":SOUR2:VOLT 5;CURR 1", "*RST\n", "*RST\r\n"],
)  # fmt: skip
def test_a_command_is_known_in_every_spelling_with_its_own_arguments(line: str) -> None:
    assert set(classes(line)) == {KNOWN}


@promise("raw.classes")
def test_a_line_is_as_its_weakest_unit() -> None:
    assert class_of(identify(BENCH, "*IDN?;*CLS")) is COMMON
    assert class_of(identify(BENCH, "*CLS;:SOUR1:VOLT 5")) is KNOWN
    assert class_of(identify(BENCH, "*CLS;:SOUR1:VOLT 5;FOO?")) is UNKNOWN
    assert class_of(identify(BENCH, "")) is UNKNOWN
    assert class_of(identify(BENCH, ";".join(["*CLS"] * 65))) is UNKNOWN
    assert class_of(identify(BENCH, "DISP:TEXT '" + "a" * MAX_LINE + "'")) is UNKNOWN


@promise("raw.classes")
def test_a_relative_header_is_what_the_standard_makes_of_it() -> None:
    """SCPI-99 volume 1, 6.2.4. What starts from the root elsewhere does not make it known."""
    value = Parameter(name="v", type=ParameterType.FLOAT)
    tree = profile(
        command("level", "SOUR:A:B {v}", v=value),
        command("other", "B {v}", v=value),
        command("deep", "SOUR:A:C:D 1"),
        command("end", "SOUR:A:C:E 1"),
    )
    assert classes("SOUR:A:B 1;B 2", tree) == [KNOWN, KNOWN]
    assert {m.command.name for m in identify(tree, "SOUR:A:B 1;B 2")[1].matches} == {
        "level",
        "other",
    }
    assert classes("FOO:X 1;B 2", tree) == [UNKNOWN, UNKNOWN]
    # Behind a relative header of two mnemonics the level is another to each reader.
    assert classes("SOUR:A:B 1;C:D 1;E 1", tree) == [KNOWN, KNOWN, UNKNOWN]


@promise("raw.classes")
def test_of_a_unit_without_a_profile_only_what_is_common_is_known() -> None:
    assert classes("*IDN?;SYST:ERR?;MEAS:VOLT?", None) == [COMMON, COMMON, UNKNOWN]


@promise("raw.classes")
def test_queries_that_the_engine_asks_by_itself_are_known() -> None:
    known = shipped_library().profiles["rigol_dp832"]
    assert classes(":SOUR1:VOLT?", known) == [KNOWN]
    assert classes(":OUTP? CH1", known) == [KNOWN]


@promise("raw.classes")
@pytest.mark.parametrize(
    ("key", "line"),
    [
        # These switch a protection off; the profiles only set its level.
        ("rs_hmp4040", "VOLT:PROT:STAT 0"),
        ("keysight_n7951a", "VOLT:PROT:STAT 0"),
        ("keithley_2400", "SENS:CURR:PROT:STAT 0"),
        ("delta_sm500_cp_90", "SOUR:VOLT:STAT 1"),
        ("hp_4284a", "TRIG:STAT"),
        ("hp_4284a", ":BIAS:STAT99999999999 ON"),
        ("hp_4284a", ":FUNC:IMP"),
        ("keysight_e4980a", ":CORR:OPEN ON"),
        ("julabo_fp50", "OUT_MODE_ 1"),
        ("oxford_itc503", "T1E-1"),
        ("oxford_itc503", "T1E1"),
        ("oxford_itc503", "T1K"),
        ("keithley_dmm6500", ":SENS:FUNC '\"VOLT:DC\"'"),
        ("siglent_sdg2042x", "C1:ARWV NAME,x #15<5 bytes>"),
    ],
)
def test_a_line_that_only_resembles_a_shipped_command_is_unknown(key: str, line: str) -> None:
    assert class_of(identify(shipped_library().profiles[key], line)) is UNKNOWN


@promise("raw.classes")
def test_a_query_of_a_sequence_is_known_only_as_a_command() -> None:
    steps = (QueryStep(query="*TST?", save_as="a"), QueryStep(query="SYST:VERS?", save_as="b"))
    toy = replace(profile(), sequences={"look": Sequence(name="look", steps=steps)})
    assert classes("*TST?;:SYST:VERS?", toy) == [UNKNOWN, UNKNOWN]
    declared = replace(command("test", "*TST?"), changes=Changes.OUTPUTS)
    commands = {"test": declared, "version": command("version", "SYST:VERS?")}
    acting, asking = identify(replace(toy, commands=commands), "*TST?;:SYST:VERS?")
    assert (acting.kind, asking.kind) == (KNOWN, KNOWN)
    assert not acting.is_harmless
    assert asking.is_harmless


@promise("raw.classes")
def test_a_line_is_every_command_that_it_is_by_its_optional_nodes() -> None:
    value = Parameter(name="v", type=ParameterType.FLOAT)
    twice = profile(
        command("one", "SOUR:VOLT {v}", v=value), command("two", "VOLT:LEV {v}", v=value)
    )
    for line in ("SOUR:VOLT 5", "VOLT:LEV 5", "VOLT 5"):
        (part,) = identify(twice, line)
        assert {match.command.name for match in part.matches} == {"one", "two"}


@promise("raw.classes")
@promise("raw.safe-passes")
@pytest.mark.parametrize("key", sorted(shipped_library().profiles))
def test_the_line_of_a_safe_command_makes_safe_whatever_else_sends_it(key: str) -> None:
    shipped = shipped_library().profiles[key]
    safe = [one for one in shipped.commands.values() if one.is_safe and len(one.scpi) == 1]
    for one in safe:
        choices = itertools.product(*map(possible_values, one.parameters.values()))
        for values in itertools.islice(choices, 16):
            (line,) = render_lines(one, dict(zip(one.parameters, values, strict=True)))
            parts = identify(shipped, line)
            assert all(part.makes_safe or part.is_harmless for part in parts), line


def test_a_line_that_may_be_another_by_its_path_does_not_make_safe() -> None:
    off = replace(command("off", "OUTP OFF"), is_safe=True)
    two = profile(command("level", "LIM:VOLT {v}", v=VOLTS), off)
    both = profile(*two.commands.values(), command("arm", "LIM:OUTP OFF"))
    line = "LIM:VOLT 1;OUTP OFF"
    assert not identify(both, line)[1].makes_safe
    assert not identify(two, line)[1].makes_safe
    assert identify(both, "LIM:VOLT 1;:OUTP OFF")[1].makes_safe


def test_calc_is_not_cal() -> None:
    toy = profile(command("calibration", "CAL?"), command("average", "CALC:AVER:CLE"))
    assert classes("CAL?", toy) == classes("CALIBRATION?", toy) == [KNOWN]
    assert classes("CALC?", toy) == classes("CAL:AVER:CLE", toy) == [UNKNOWN]
    assert classes("CALCULATE:AVERAGE:CLEAR", toy) == [KNOWN]


@promise("raw.allowed-lines")
def test_what_the_owner_lists_is_known_in_any_spelling_and_with_no_other_argument() -> None:
    allowed = ("SYST:VERS?", "DISP:MODE 2")
    for line in ("SYST:VERS?", ":system:version?", "SYST:VERS?;*IDN?", "DISP:MODE 2"):
        assert class_of(judged_parts(BENCH, line, allowed)) is not UNKNOWN, line
    for line in ("SENS:SYST:VERS?", "SYST2:VERS?", "SYST:VERS:STAT?",
                 "SYST:VERS? 1", "SYST:VERS", "DISP:MODE 3", "DISP:MODE 2;FOO", "SYST:VERS? #0",
                 ":SOUR1:VOLT 5;SYST:VERS?", "\xa0SYST:VERS?", "SYST:VERS?;" * 70):  # fmt: skip
        assert class_of(judged_parts(BENCH, line, allowed)) is UNKNOWN, line


def test_the_nearest_commands_are_named() -> None:
    (part,) = identify(BENCH, ":SOUR1:VOLT MAX")
    assert nearest_commands(BENCH, part) == ("set_voltage",)
    (part,) = identify(BENCH, "OUTP:FOO 1")
    assert set(nearest_commands(BENCH, part)) == {"output_on", "output_off"}
    (part,) = identify(BENCH, "\xa0x")
    assert nearest_commands(BENCH, part) == ()


TEXT = st.text(max_size=80)
PIECES = st.lists(
    st.sampled_from(
        [":SOUR1:VOLT 5", ":OUTP CH1,ON", "*IDN?", "SYST:ERR?", " #0", "#15", ";", "\n", "\r",
         "\xa0", '"', "'", ",", "(@1)", "::", "*", "?", " ", "\x00", "VOLT", "1e999", "T5"]
    ),
    max_size=12,
).map("".join)  # fmt: skip
KEYS = sorted(shipped_library().profiles)


@promise("raw.classes")
@given(st.one_of(TEXT, PIECES, st.binary(max_size=80).map(lambda b: b.decode("latin-1"))))
def test_any_text_has_a_class_and_what_is_allowed_is_plain_text(text: str) -> None:
    parts = identify(BENCH, text)
    if class_of(parts) is UNKNOWN:
        return
    assert all(mark == "\t" or " " <= mark <= "~" for mark in text.rstrip("\r\n"))
    for message in messages(text):
        assert message.is_formed
        assert len(message.nodes) <= MOST_NODES
    for part in parts:
        assert part.kind is COMMON or part.is_certain or not part.matches


WORST = [
    "CONF:RES (@" + ":" * 230,
    "CONF:RES (@" + ":" * 4_000,
    ";".join(["OUTP:STAT CH1,ON"] * 64),
    ";".join(f":SOUR{n}:VOLT {n}" for n in range(64)),
    ";".join(f"VOLT {n}" for n in range(64)),
    "A:" * 2_000 + "B",
    ";".join(["A:B:C:D:E:F:G:H:I:J:K:L"] * 64),
    '"' * 4_095,
    "(" * 4_000,
    "DATA " + ",".join(["0.123456"] * 450),
    ";".join(["VOLT:LEV (@1,2,3,4,5,6,7,8)"] * 64),
    ";".join(["SOUR1:VOLT:LEV:IMM:AMPL 5.0E0V"] * 64),
    # Headers that many commands of one profile send, each time with another value.
    ";".join(f"INST:NSEL {n}" for n in range(64)),
    ";".join(f":INST:NSEL {n}.5E0mV" for n in range(64)),
    ";".join(f":C{n}:BSWV OFST,{n}.5" for n in range(64)),
    ";".join(f":C{n}.5E0mV:BSWV OFST,{n}.5E0V" for n in range(64)),
    ";".join(f":C{n}.5E0mV:BSWV OFST,0" for n in range(64)),
    ";".join(f"C{n}.5E0mV:BSWV?" for n in range(64)),
    ";".join(f":C{n}:BSWV OFST,0" for n in range(64)),
    ";".join(f":MEAS:ITEM? VPP,CHAN{n}" for n in range(64)),
    ";".join(f":ROUT:CLOS (@{n}.5!1!{n},{n}!2!2,2!3!3,4!4!4)" for n in range(64)),
    ";".join(f':SENS:FUNC "VOLT{n}"' for n in range(64)),
    ";".join(f":OUTP{n}:LOAD {n}.5E0ohm" for n in range(64)),
    # Every value that a query may depend on.
    ";".join(["READ?"] * 64),
    ";".join(["VOLT:OFFS 0"] * 64),
    # Messages of a program.
    "X " + "''" * 32_000,
    "X " + "'',;'a'#1" * 7_000,
    "X " + "(," * 32_000,
    "X " + "()" * 32_000,
    "A;" * 32_000,
    "\t;" * 32_000,
    ";".join(["VOLT (@" + "1," * 480 + "1)"] * 64),
]


def calls_to_judge(key: str, line: str) -> int:
    """How many functions run until a line is judged, the tree of its profile made before."""
    known = shipped_library().profiles[key]
    identify(known, "*IDN?;FOO 1")
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        identify(known, line)
    finally:
        sys.setprofile(before)
    return counted


@promise("raw.bounded")
@pytest.mark.parametrize("line", WORST, ids=range(len(WORST)))
def test_the_longest_lines_are_judged_in_a_bounded_number_of_steps(line: str) -> None:
    """By function calls, equal on every machine; benchmarks.raw_lines has the times."""
    counted = {key: calls_to_judge(key, line) for key in KEYS}
    slowest = max(counted, key=lambda key: counted[key])
    assert counted[slowest] < 60_000, slowest


@promise("raw.bounded")
def test_where_a_line_may_be_too_many_commands_what_is_left_is_unknown() -> None:
    many = [command(f"set_{n}", "LIST {v}", v=replace(VOLTS, max=float(n + 1))) for n in range(300)]
    line = ";".join(f"LIST {n}" for n in range(8))
    kinds = classes(line, profile(*many))
    assert kinds == [KNOWN] * 4 + [UNKNOWN] * 4
    assert class_of(identify(profile(*many), line)) is UNKNOWN


@promise("raw.bounded")
def test_long_texts_are_not_kept() -> None:
    def judge(number: int) -> None:
        identify(BENCH, f":OUTP CH{number}{'1' * 600},ON;:FUNC S{'I' * (600 + number)}")

    nodes = [node for message in messages("A" * 600 + ":B 1") for node in message.nodes]
    assert max(map(len, nodes)) == LONGEST_NODE + 1
    judge(0)
    before = match_node.cache_info().currsize
    for number in range(1, 4):
        judge(number)
    assert match_node.cache_info().currsize == before
