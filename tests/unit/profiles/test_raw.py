"""No road round a limit: raw SCPI is the command that it is, however it is spelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.profiles.model import Command, Match, Parameter, ParameterType, Profile
from edged.profiles.raw import MAX_LINE, MOST_KEPT, RawPart, identify
from edged.profiles.template import render_lines

FLOAT, INT, ENUM = ParameterType.FLOAT, ParameterType.INT, ParameterType.ENUM
BOOL, STRING = ParameterType.BOOL, ParameterType.STRING

CHANNEL = Parameter(name="channel", type=INT, min=1, max=3)
VOLTAGE = Parameter(name="voltage", type=FLOAT, unit="V", min=0, max=32)
CURRENT = Parameter(name="current", type=FLOAT, unit="A", min=0, max=3)


def command(name: str, *scpi: str, **parameters: Parameter) -> Command:
    return Command(
        name=name,
        scpi=scpi,
        parameters=dict(parameters),
        is_query="?" in scpi[-1],
    )


def profile(*commands: Command) -> Profile:
    return Profile(
        key="test",
        version=1,
        manufacturer="",
        model="",
        instrument_class="power_supply",
        source="",
        match=Match(idn="x"),
        commands={one.name: one for one in commands},
    )


WAVE = Parameter(
    name="wave", type=ENUM, options=("sine", "square"), map={"sine": "SIN", "square": "SQU"}
)
SUPPLY = profile(
    command(
        "set_voltage", ":SOUR{channel}:VOLT {voltage:.3f}", channel=CHANNEL, voltage=VOLTAGE
    ),
    command("set_current", ":SOUR{channel}:CURR {current}", channel=CHANNEL, current=CURRENT),
    command("set_ovp", "VOLT:PROT {voltage},(@{channel})", channel=CHANNEL, voltage=VOLTAGE),
    command("ovp_on", "VOLT:PROT:STAT ON"),
    command("output_on", ":OUTP CH{channel},ON", channel=CHANNEL),
    command("output_off", ":OUTP CH{channel},OFF", channel=CHANNEL),
    command("measure_voltage", ":MEAS:VOLT? CH{channel}", channel=CHANNEL),
    command(
        "apply", "INST:NSEL {channel}", "APPL {voltage}[,{current}]",
        channel=CHANNEL, voltage=VOLTAGE, current=CURRENT,
    ),
    command("set_wave", "FUNCtion {wave}", wave=WAVE),
    command("reset", "*RST"),
    command("sense", ":SENS:CURR:PROT {current}", current=CURRENT),
    command("source_limit", ":SOUR:CURR:PROT {current}", current=CURRENT),
    command("display", "DISP:TEXT {text:q}", text=Parameter(name="text", type=STRING)),
    command("beep", "BEEP {is_on}", is_on=Parameter(name="is_on", type=BOOL)),
)  # fmt: skip


def only(line: str) -> RawPart:
    (part,) = identify(SUPPLY, line)
    return part


@pytest.mark.parametrize(
    ("line", "name", "values"),
    [
        (":SOUR1:VOLT 5", "set_voltage", {"channel": 1, "voltage": 5.0}),
        ("SOURCE2:VOLTAGE 5", "set_voltage", {"channel": 2, "voltage": 5.0}),
        ("sour2:volt:lev:imm:ampl 5.0e0", "set_voltage", {"channel": 2, "voltage": 5.0}),
        (":SOUR1:VOLT\t500 mV", "set_voltage", {"channel": 1, "voltage": 0.5}),
        (" SOUR1 : VOLT   +5V ", "set_voltage", {"channel": 1, "voltage": 5.0}),
        ("SOUR:VOLT 5", "set_voltage", {"channel": 1, "voltage": 5.0}),
        ("VOLT 61", "set_voltage", {"channel": 1, "voltage": 61.0}),
        (":SOUR1:VOLT 0.061KV", "set_voltage", {"channel": 1, "voltage": 61.0}),
        (":SOUR1:VOLT #H20", "set_voltage", {"channel": 1, "voltage": 32.0}),
        ("VOLT:PROT 6, (@ 2)", "set_ovp", {"channel": 2, "voltage": 6.0}),
        ("VOLTAGE:PROTECTION 6,(@2)", "set_ovp", {"channel": 2, "voltage": 6.0}),
        ("VOLT:PROT:STATE 1", "ovp_on", {}),
        (":OUTP CH1,1", "output_on", {"channel": 1}),
        ("OUTPUT:STATE ch1 , on", "output_on", {"channel": 1}),
        (":OUTP CH1,0", "output_off", {"channel": 1}),
        ("meas:volt? ch2", "measure_voltage", {"channel": 2}),
        ("FUNC SINUSOID", "set_wave", {"wave": "sine"}),
        ("FUNCT squ", "set_wave", {"wave": "square"}),
        ("*rst", "reset", {}),
        ("CURR:PROT 1;", "sense", {"current": 1.0}),
        ("SOUR:CURR:PROT 1", "source_limit", {"current": 1.0}),
        ("DISP:TEXT 'a,b'", "display", {"text": "a,b"}),
        ("BEEP on", "beep", {"is_on": True}),
    ],
)
def test_a_spelling_is_the_command_that_an_instrument_takes_it_for(line, name, values):
    part = only(line)

    assert part.command is not None
    assert (part.command.name, dict(part.values), part.is_certain) == (name, values, True)


@pytest.mark.parametrize("line", ["*TST?", "VOLTS:FOO 5", "SYST:ERR?", "SOUR1:VOLT?", "", "?", "5"])
def test_what_the_profile_does_not_know_is_no_command(line):
    assert all(part.command is None for part in identify(SUPPLY, line))


@pytest.mark.parametrize(
    ("line", "name", "unknown"),
    [
        (":SOUR1:VOLT MAX", "set_voltage", {"voltage"}),
        (":SOUR1:VOLT 5VRMS", "set_voltage", {"voltage"}),
        (":SOUR1:VOLT 1e999", "set_voltage", {"voltage"}),
        (":SOUR1:VOLT", "set_voltage", {"voltage"}),
        (":SOUR1:VOLT 5,6", "set_voltage", {"channel", "voltage"}),
        ("VOLT:PROT 5,(@1:3)", "set_ovp", {"channel"}),
        ("OUTP ON", "output_on", {"channel"}),
        ("OUTP CH1,MAYBE", "output_on", {"channel"}),
        ("FUNC NOISE", "set_wave", {"wave"}),
        ("INST:NSEL 2", "apply", {"voltage"}),
    ],
)
def test_what_cannot_be_read_is_that_command_still_and_says_so(line, name, unknown):
    part = only(line)

    assert part.command is not None
    assert not part.is_certain
    assert (part.command.name, part.matches[0].unknown) == (name, unknown)


def test_a_channel_that_is_not_in_the_line_may_be_any():
    for line in ("VOLT 5", "SOUR:VOLT 5"):
        readings = only(line).matches[0].readings
        assert [reading["channel"] for reading in readings] == [1, 2, 3]

    readings = only("APPL 5,1").matches[0].readings
    assert {reading["channel"] for reading in readings} == {1, 2, 3}
    assert all(reading["voltage"] == 5 and reading["current"] == 1 for reading in readings)


def test_every_message_of_a_compound_line_is_judged_with_its_path():
    parts = identify(SUPPLY, ":SOUR2:VOLT 5;CURR 1;:OUTP CH2,ON;*RST")

    assert [part.command and part.command.name for part in parts] == [
        "set_voltage",
        "set_current",
        "output_on",
        "reset",
    ]
    assert parts[1].values == {"channel": 2, "current": 1.0}


def test_commands_with_one_header_are_told_apart_by_their_arguments():
    generator = profile(
        command("set_frequency", "C{channel}:BSWV FRQ,{f}", channel=CHANNEL,
                f=Parameter(name="f", type=FLOAT, unit="Hz")),
        command("set_amplitude", "C{channel}:BSWV AMP,{a}", channel=CHANNEL,
                a=Parameter(name="a", type=FLOAT, unit="V")),
    )  # fmt: skip

    (known,) = identify(generator, "c1:bswv amp, 4V")
    (frequency,) = identify(generator, "C1:BSWV FRQ,10mhz")
    (several,) = identify(generator, "C1:BSWV AMP,4,FRQ,5")

    assert (known.command.name, known.values) == ("set_amplitude", {"channel": 1, "a": 4.0})
    assert frequency.values["f"] == 10e6
    assert not several.is_certain
    assert {match.command.name for match in several.matches} == {"set_frequency", "set_amplitude"}


def test_a_line_beyond_any_measure_is_one_part_that_nobody_knows():
    for line in ("*RST;" * 1000, "*CLS;" * 100 + "*RST;*OPC?", "VOLT " + "5" * MAX_LINE + ";*OPC?"):
        (part,) = identify(SUPPLY, line)
        assert part.command is None
        assert not part.is_query
        assert part.text == line


LONG = {
    "SOUR": "SOURCE",
    "VOLT": "VOLTAGE",
    "CURR": "CURRENT",
    "OUTP": "OUTPUT",
    "MEAS": "MEASURE",
    "PROT": "PROTECTION",
}


@st.composite
def respelled(draw: st.DrawFn) -> tuple[Command, dict[str, object], str]:
    """A rendered command of one line, spelled as an instrument would still take it."""
    name = draw(
        st.sampled_from(["set_voltage", "set_current", "set_ovp", "output_on", "measure_voltage"])
    )
    chosen = SUPPLY.commands[name]
    values: dict[str, object] = {"channel": draw(st.integers(1, 3))}
    if "voltage" in chosen.parameters:
        values["voltage"] = draw(st.integers(0, 32000)) / 1000
    if "current" in chosen.parameters:
        values["current"] = draw(st.integers(0, 3000)) / 1000
    (line,) = render_lines(chosen, values)
    header, _, rest = line.partition(" ")
    nodes = []
    for node in header.lstrip(":").rstrip("?").split(":"):
        letters = node.rstrip("0123456789")
        suffix = node[len(letters) :]
        if suffix == "1" and draw(st.booleans()):
            suffix = ""
        nodes.append((LONG.get(letters, letters) if draw(st.booleans()) else letters) + suffix)
    if name in {"set_voltage", "set_current"}:
        nodes += draw(st.sampled_from([[], ["LEV"], ["LEVEL", "IMMediate"], ["IMM", "AMPL"]]))
        number, unit = rest, chosen.parameters[name.removeprefix("set_")].unit
        rest = draw(
            st.sampled_from([number, f"{number}{unit}", f"{number} {unit}", f"+{number}",
                             f"{float(number) * 1000!r} m{unit}"])
        )  # fmt: skip
    if name == "output_on":
        rest = draw(st.sampled_from([rest, rest.replace("ON", "1"), rest.replace("ON", "on")]))
    blank = draw(st.sampled_from([" ", "  ", "\t"]))
    rest = rest.replace(",", draw(st.sampled_from([",", " , ", ",\t"])))
    header = draw(st.sampled_from([":", ""])) + ":".join(nodes) + ("?" if "?" in header else "")
    text = header + blank + rest
    return chosen, values, draw(st.sampled_from([text, text.lower(), text.upper(), f" {text} "]))


@given(respelled(), st.sampled_from(["", "*CLS;", ":OUTP CH3,OFF;:"]))
def test_a_respelled_command_is_that_command_with_the_same_values(spelled, before):
    chosen, values, line = spelled

    part = identify(SUPPLY, before + line.strip().removeprefix(":") if before else line)[-1]

    assert part.command is chosen
    assert part.is_certain
    assert part.values == pytest.approx(values)


@given(
    st.one_of(st.text(max_size=60), st.text(alphabet=":;?*,()@ SOURVLT12.5'\"\ue000#", max_size=40))
)
def test_any_line_is_identified_without_raising(line):
    for part in identify(SUPPLY, line):
        for match in part.matches:
            assert match.readings
            assert not (match.is_certain and match.unknown)


def test_what_was_found_of_a_line_is_kept_for_its_own_profile_and_is_bounded() -> None:
    one, other = (profile(command("set", "VOLT {voltage}", voltage=VOLTAGE)) for _ in range(2))
    first = identify(one, "VOLT 5")
    assert identify(one, "VOLT 5") is first
    assert identify(other, "VOLT 5") == first
    assert identify(other, "VOLT 5") is not first
    for number in range(2 * MOST_KEPT):
        identify(one, f"VOLT {number}")
    assert len(identify.found) <= MOST_KEPT
