"""What a person is shown of the lines that an action would send: nothing is left out."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.actions.envelope import Envelope, EnvelopeRow
from edged.commands.outgoing import (
    MOST_KEPT,
    MOST_LISTED,
    Argument,
    Origin,
    Outgoing,
    arguments_of,
    unpacked,
)
from edged.profiles.model import Command
from edged.profiles.template import render
from tests.bench.fake_instruments import toy_profile
from tests.promises import promise

TOY = """
format: 1
profile_key: toy_supply
version: 1
manufacturer: Toy
model: T1
instrument_class: supply
source: made for tests
match: {idn: 'toy,t1\\b', examples: ["TOY,T1,0001,1.0"]}
abort: [":OUTP OFF"]
commands:
  set_voltage:
    scpi: ":SOUR{channel}:VOLT {voltage:.3f}"
    parameters:
      channel: {type: int, min: 1, max: 3}
      voltage: {type: float, min: -100, max: 100, unit: V}
  apply:
    scpi: ":APPL {channel},{voltage:.2f}[,{current}]"
    parameters:
      channel: {type: enum, options: [one, two], map: {one: CH1, two: 2}}
      voltage: {type: float, min: 0, max: 100, unit: V}
      current: {type: float, min: 0, max: 5, unit: A}
  output:
    scpi: ":OUTP {state}"
    parameters: {state: {type: bool}}
"""

PROFILE = toy_profile(TOY)
WORDS = st.sampled_from(
    [
        ":VOLT",
        "APPL",
        "CH1",
        '"a 1,2"',
        "5V",
        "(@101:103)",
        "MAX",
        "-1",
        "0.5",
        "1e3",
        "",
        "{voltage}",
    ]
)
RAW = st.lists(WORDS | st.floats(-1e6, 1e6).map(str), min_size=1, max_size=5).map(
    lambda words: f"{words[0]} {','.join(words[1:])}"
)


def written(command: Command, values: dict[str, Any]) -> tuple[str, Origin]:
    (template,) = command.scpi
    line = render(template, command.parameters, values)
    return line, Origin(command, template, values)


def set_voltage(voltage: float, channel: int = 1) -> tuple[str, Origin]:
    return written(PROFILE.commands["set_voltage"], {"channel": channel, "voltage": voltage})


SETS = st.builds(set_voltage, st.floats(-100, 100), st.integers(1, 3))
APPLIES = st.builds(
    lambda **values: written(
        PROFILE.commands["apply"], {n: v for n, v in values.items() if v is not None}
    ),
    channel=st.sampled_from(["one", "two"]),
    voltage=st.floats(0, 100),
    current=st.none() | st.floats(0, 5),
)
OUTPUTS = st.builds(
    lambda state: written(PROFILE.commands["output"], {"state": state}), st.booleans()
)
LEVELS = st.floats(-1e6, 1e6).map(lambda level: (f":LEV {level}", None))
LINES = st.one_of(SETS, APPLIES, OUTPUTS, RAW.map(lambda line: (line, None)))


def filled(shape: str, arguments: list[Argument]) -> str:
    """The line that a shape is of."""
    for argument in arguments:
        shape = shape.replace(f"{{{argument.name}}}", argument.text, 1)
    return shape


@promise("approval.shown")
@given(LINES)
def test_a_shape_and_its_arguments_are_the_whole_line(line: tuple[str, Origin | None]) -> None:
    text, origin = line
    _, shape, arguments = arguments_of(text, origin)
    if "{voltage}" not in text:
        assert filled(shape, arguments) == text
    numbers = {argument.text for argument in arguments}
    assert all(Decimal(number).is_finite() for number in numbers)


ROW = re.compile(r"([0-9,]+) lines? of (?:(\w+), )?(.*)")


@promise("approval.shown")
@given(st.lists(SETS | OUTPUTS | LEVELS, min_size=MOST_LISTED + 1, max_size=80))
def test_each_argument_of_each_line_lies_within_the_row_that_describes_it(
    lines: list[tuple[str, Origin | None]],
) -> None:
    outgoing = Outgoing()
    for text, origin in lines:
        outgoing.add("psu1", text, origin)
    assert not outgoing.why_incomplete()
    rows = outgoing.summary("psu1")
    told: dict[tuple[str, str], tuple[int, dict[str, tuple[Decimal, Decimal]]]] = {}
    for row in rows:
        found = ROW.fullmatch(row)
        assert found is not None, row
        shape, _, ranges = found[3].partition(": ")
        bounds = {}
        for each in ranges.split(", ") if ranges else ():
            name, least, *rest = each.split(" ")
            most = rest[1] if rest[:1] == ["to"] else least
            assert each.endswith(" V") == (name == "voltage")
            bounds[name] = (Decimal(least), Decimal(most))
        told[found[2] or "", shape] = (int(found[1].replace(",", "")), bounds)
    assert sum(count for count, _ in told.values()) == len(lines)
    reached: dict[tuple[str, str], dict[str, list[Decimal]]] = {}
    for text, origin in lines:
        name, shape, arguments = arguments_of(text, origin)
        if (name, shape) not in told:
            # All of them are the same.
            shape = text
        _, bounds = told[name, shape]
        for argument in arguments:
            least, most = bounds[argument.name]
            value = Decimal(argument.text)
            assert least <= value <= most
            reached.setdefault((name, shape), {}).setdefault(argument.name, []).append(value)
    # No row says more than goes out: its ends are values of lines.
    for key, names in reached.items():
        for argument_name, values in names.items():
            assert told[key][1][argument_name] == (min(values), max(values))


@promise("approval.shown")
@given(st.lists(LINES, max_size=MOST_LISTED))
def test_few_lines_are_shown_as_they_are(lines: list[tuple[str, Origin | None]]) -> None:
    outgoing = Outgoing()
    for text, origin in lines:
        outgoing.add("psu1", text, origin)
    assert outgoing.summary("psu1") == tuple(text for text, _ in lines)
    assert unpacked(outgoing.packed()) == [f"psu1: {text}" for text, _ in lines]


@given(st.lists(LINES, max_size=30), st.data())
def test_another_line_has_another_digest(
    lines: list[tuple[str, Origin | None]], data: st.DataObject
) -> None:
    def digest(told: list[tuple[str, Origin | None]]) -> str:
        outgoing = Outgoing()
        for text, origin in told:
            outgoing.add("psu1", text, origin)
        return outgoing.digest()

    place = data.draw(st.integers(0, len(lines)))
    changed = [*lines[:place], (f"{place} other", None), *lines[place:]]
    assert digest(lines) == digest([*lines])
    assert digest(lines) != digest(changed)


def test_a_value_is_shown_as_it_is_sent_with_its_unit() -> None:
    outgoing = Outgoing()
    for number in range(MOST_LISTED + 1):
        outgoing.add("psu1", *set_voltage(20.0104 + number / 10))
    assert outgoing.summary("psu1") == (
        "41 lines of set_voltage, :SOUR{channel}:VOLT {voltage}: channel 1, "
        "voltage 20.010 to 24.010 V",
    )


def test_what_stands_for_a_label_has_a_row_of_its_own() -> None:
    outgoing = Outgoing()
    for number in range(MOST_LISTED + 2):
        values = {"channel": ("one", "two")[number % 2], "voltage": float(number)}
        outgoing.add("psu1", *written(PROFILE.commands["apply"], values))
    assert outgoing.summary("psu1") == (
        "21 lines of apply, :APPL CH1,{voltage}: voltage 0.00 to 40.00 V",
        "21 lines of apply, :APPL 2,{voltage}: voltage 1.00 to 41.00 V",
    )


def test_lines_of_another_instrument_are_marked() -> None:
    outgoing = Outgoing()
    outgoing.add("psu1", ":OUTP 1")
    outgoing.add("dmm1", "READ?")
    assert outgoing.summary("psu1") == (":OUTP 1", "dmm1: READ?")


def test_many_steps_are_counted_and_no_longer_listed() -> None:
    outgoing = Outgoing()
    outgoing.add("psu1", *set_voltage(1.0), times=29)
    outgoing.add("psu1", *set_voltage(30.0))
    assert outgoing.summary("psu1") == (
        "30 lines of set_voltage, :SOUR{channel}:VOLT {voltage}: channel 1, "
        "voltage 1.000 to 30.000 V",
    )
    assert unpacked(outgoing.packed()) == [
        "psu1: :SOUR1:VOLT 1.000  (29 lines like it as the sweep goes)",
        "psu1: :SOUR1:VOLT 30.000",
    ]


@promise("approval.shown")
@pytest.mark.parametrize("how", ["kinds", "lines", "length", "characters"])
def test_what_cannot_be_shown_as_a_whole_says_why(how: str) -> None:
    outgoing = Outgoing()
    match how:
        case "kinds":
            for number in range(MOST_LISTED + 1):
                outgoing.add("psu1", f":CHAN{number}:ON")
            why = "more than 40 kinds"
        case "lines":
            for _ in range(MOST_KEPT + 1):
                outgoing.add("psu1", "X")
            why = "more than 100,000 lines"
        case "length":
            outgoing.add("psu1", "X" * 1_001)
            why = "longer than 1000 characters"
        case _:
            for _ in range(2_200):
                outgoing.add("psu1", "X" * 1_000)
            why = "2 MiB"
    assert why in outgoing.why_incomplete()


def test_what_would_not_be_seen_is_spelled_out() -> None:
    outgoing = Outgoing()
    outgoing.add("psu1", ":OUTP\t\u202eCH1" + " " * 50 + "ON")
    assert outgoing.summary("psu1") == (":OUTP\\t\\u202eCH1 (50 blanks) ON",)


def test_a_run_with_a_plan_is_shown_as_its_envelope_and_another_is_another_question() -> None:
    row = EnvelopeRow(unit="a", called="psu1", command="output_on", most=1)
    envelope = Envelope(plan_id="plan-1", rows=(row,), most_s=60)
    outgoing = Outgoing()
    outgoing.add("psu1", "OUTP ON")
    before = outgoing.digest()

    outgoing.envelope = envelope

    assert outgoing.summary("psu1") == ("psu1: output_on, once", "for 1 min at most")
    assert outgoing.why_incomplete() == ""
    digest = outgoing.digest()
    outgoing.envelope = replace(envelope, most_s=61)
    assert len({before, digest, outgoing.digest()}) == 3
