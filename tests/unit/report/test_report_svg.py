"""A figure as SVG: axes that people can read, curves that lose nothing, texts that stay texts."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.plot.figure import Curve, Figure, Panel
from edged.runs.recordings.figures import MOST_STRETCHES, table_figure
from edged.runs.report import svg
from edged.runs.report.svg import Scale, draw_figure, linear_scale, log_scale, nice_step

SVG = "{http://www.w3.org/2000/svg}"
ANY_NUMBER = st.one_of(
    st.none(), st.floats(), st.sampled_from([0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 1e-300])
)


def read(figure: Figure) -> ET.Element:
    return ET.fromstring(draw_figure(figure))


def figure_of(*lines: Curve, title: str = "a title", unit: str = "V", **more: bool) -> Figure:
    panel = Panel(label="voltage", unit=unit, lines=lines)
    return Figure(title=title, x_label="time", x_unit="s", panels=(panel,), **more)


def texts(drawn: ET.Element) -> list[str]:
    return [found.text or "" for found in drawn.iter(f"{SVG}text")]


def curves(drawn: ET.Element) -> list[ET.Element]:
    paths = [e for e in drawn.iter(f"{SVG}path") if e.get("class") == "curve"]
    return [path for path in paths if "L" in path.get("d", "")]


def places(path: ET.Element) -> list[tuple[float, float]]:
    found = re.findall(r"[ML](\S+?) ([^ML]+)", path.get("d", ""))
    return [(float(x), float(y)) for x, y in found]


@given(st.floats(min_value=1e-111, max_value=1e100))
def test_a_step_is_1_2_or_5_times_a_power_of_ten_and_fills_the_axis(span: float) -> None:
    step = nice_step(span)
    digits = step / 10.0 ** math.floor(math.log10(step * (1 + 1e-9)))
    assert min(abs(digits - nice) for nice in (1, 2, 5)) < 1e-6
    assert span / step <= svg.MOST_TICKS * (1 + 1e-9)
    assert span / step > svg.MOST_TICKS / 3


@given(st.lists(st.floats(), max_size=20), st.sampled_from(["V", "", "dB", "°C", "Hz"]))
def test_every_axis_has_ticks_in_their_order_each_with_its_own_text(
    values: list[float], unit: str
) -> None:
    check(linear_scale(values, unit))
    check(log_scale(values, unit))


def check(scale: Scale) -> None:
    assert scale.low < scale.high
    places = [scale.place(value) for value, _ in scale.ticks]
    assert 2 <= len(places) <= 4 * svg.MOST_TICKS
    assert all(place is not None and -1e-6 <= place <= 1 + 1e-6 for place in places)
    assert places == sorted(places, key=lambda place: place or 0.0)
    told = [text for _, text in scale.ticks]
    assert len(set(told)) == len(told), told


@pytest.mark.parametrize(
    ("values", "unit", "told", "shown"),
    [
        ([0, 0.0123], "V", "mV", ["0", "2", "4", "6", "8", "10", "12"]),
        ([4.99891, 5.0006], "V", "V", ["4.9990", "4.9995", "5.0000", "5.0005"]),
        ([-40, 120], "°C", "°C", ["-40", "-20", "0", "20", "40", "60", "80", "100", "120"]),
        ([0, 3e9], "", "10^9", ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0"]),
        ([-2.5e-6, 2.5e-6], "A", "µA", ["-2", "-1", "0", "1", "2"]),
    ],
)
def test_the_numbers_of_an_axis_have_one_prefix_and_as_many_places_as_they_need(
    values: list[float], unit: str, told: str, shown: list[str]
) -> None:
    scale = linear_scale(values, unit)
    assert scale.unit == told
    got = [text.replace("\N{MINUS SIGN}", "-") for _, text in scale.ticks]
    assert got == shown


def test_a_logarithmic_axis_goes_by_powers_of_ten() -> None:
    assert [text for _, text in log_scale([12, 30_000], "Hz").ticks] == ["100", "1 k", "10 k"]
    short = [text for _, text in log_scale([10, 400], "Hz").ticks]
    assert short == ["10", "20", "50", "100", "200"]
    narrow = [text for _, text in log_scale([1000, 1100], "Hz").ticks]
    assert len(narrow) >= 2


def test_what_cannot_lie_on_a_logarithmic_axis_leaves_a_gap() -> None:
    line = Curve(label="a", x=[1, 10, 0, 100, 1000], low=[1, 10, 5, -1, 100])
    (drawn,) = curves(read(figure_of(line, log_x=True, log_y=True)))
    assert len(places(drawn)) == 3
    assert drawn.get("d", "").count("M") == 2


def test_what_is_no_number_leaves_a_gap_in_the_curve() -> None:
    line = Curve(label="a", x=[0, 1, 2, 3, 4], low=[1, 2, None, 3, 4])
    (drawn,) = curves(read(figure_of(line)))
    assert drawn.get("d", "").count("M") == 2


@given(
    st.lists(st.tuples(ANY_NUMBER, ANY_NUMBER, ANY_NUMBER), max_size=30),
    st.booleans(),
    st.booleans(),
    st.text(max_size=40),
    st.sampled_from(["V", "", "dB", "<b>", '"&']),
)
def test_any_figure_makes_one_well_formed_element_with_finite_numbers(
    rows: list[tuple[float | None, ...]], log_x: bool, log_y: bool, title: str, unit: str
) -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    line = Curve(label=title, x=columns[0], low=columns[1], high=columns[2])
    other = Curve(label=title, x=columns[0], low=columns[2])
    drawn = read(figure_of(line, other, title=title, unit=unit, log_x=log_x, log_y=log_y))
    assert drawn.tag == f"{SVG}svg"
    for element in drawn.iter():
        for name, value in element.items():
            if name != "aria-label":
                assert "nan" not in value
                assert "inf" not in value.replace("infinite", "")


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", '"/><image href="http://x"/>', "]]>&\x00\x1b\ud800", "$x_{"],
)
def test_names_of_others_are_text_in_it(name: str) -> None:
    figure = Figure(
        title=name,
        x_label=name,
        x_unit=name,
        panels=(
            Panel(
                label=name,
                unit=name,
                lines=(Curve(label=name, x=[0, 1], low=[1, 2]), Curve(label=name, x=[0], low=[1])),
            ),
        ),
    )
    drawn = ET.fromstring(draw_figure(figure).encode("utf-8", "replace").decode())
    assert {e.tag.removeprefix(SVG) for e in drawn.iter()} <= {
        "svg",
        "rect",
        "path",
        "text",
        "circle",
    }
    assert not any("href" in key for element in drawn.iter() for key in element.attrib)


@given(st.integers(min_value=1, max_value=20_000), st.randoms(use_true_random=False))
def test_of_many_rows_the_highest_and_the_lowest_are_drawn_and_no_more_than_some_thousand_points(
    count: int, chance: object
) -> None:
    values = [float((number * 7919) % 1000) for number in range(count)]
    peak, pit = (count * 2) // 3, count // 3
    values[peak] = 5_000.0
    values[pit] = -3_000.0 if pit != peak else 5_000.0
    rows = [[float(number), value] for number, value in enumerate(values)]
    figure = table_figure("many", [("t", "s"), ("u", "V")], rows)
    drawn = [place for path in curves(read(figure)) for place in places(path)]
    assert len(drawn) <= 2 * MOST_STRETCHES
    if count > 2:
        heights = [y for _, y in drawn]
        up = linear_scale(values, "V")
        assert min(heights) == pytest.approx(y_of(up, 5_000.0), abs=0.1)
        assert max(heights) == pytest.approx(y_of(up, min(values)), abs=0.1)


def y_of(scale: Scale, value: float) -> float:
    place = scale.place(value)
    assert place is not None
    return svg.TOP + (1 - place) * svg.PANEL


def test_each_curve_is_named_and_differs_in_more_than_its_colour() -> None:
    lines = [Curve(label=name, x=[0, 1], low=[n, n + 1]) for n, name in enumerate("abc")]
    drawn = read(figure_of(*lines))
    assert {"a", "b", "c", "time (s)", "voltage (V)"} <= set(texts(drawn))
    styles = {(path.get("stroke"), path.get("stroke-dasharray")) for path in curves(drawn)}
    assert len(styles) == 3
    assert len({dash for _, dash in styles}) == 3


def test_a_figure_without_a_number_says_so() -> None:
    assert "no numbers here" in texts(read(figure_of(Curve(label="a", x=[0], low=[None]))))
    nothing = Figure(title="", x_label="", x_unit="", panels=())
    assert "no numbers here" in texts(read(nothing))
