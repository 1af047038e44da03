"""A figure as SVG that stands inside of an HTML page: axes, curves, and what they are. Pure.

Every text in it is escaped, every number is finite, and nothing in it refers to anything outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from edged.plot.figure import (
    COLOURS,
    LINEAR_UNITS,
    MARKED_POINTS,
    Curve,
    Figure,
    Panel,
    has_prefixes,
)
from edged.record import record

WIDTH: Final = 720
LEFT: Final = 74
RIGHT: Final = 14
TOP: Final = 26
PANEL: Final = 210
BETWEEN: Final = 34
BELOW: Final = 46
MOST_POINTS: Final = 4_000
"""Of one curve; who makes figures keeps well below."""
HUGE: Final = 1e100
TINY: Final = 1e-100
LEAST_LOG: Final = 1e-80
FLAT: Final = 1e-11
"""Of its largest value: a spread below is that of rounding."""
MOST_TICKS: Final = 9
MOST_DECIMALS: Final = 12
BESIDE: Final = 1e-6
"""Of an axis: what is further out was left aside when it was made."""
PREFIXES: Final = {
    -15: "f", -12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T",
}  # fmt: skip
DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2")
"""Curves differ on a printer without colours, too."""


@record
class Scale:
    """An axis: which values it shows, and where.

    Attributes:
        ticks: (value, text) of each.
        unit: as the ticks count, with its prefix or power of ten.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    unit: str
    is_log: bool = False

    def place(self, value: float | None) -> float | None:
        """From 0 to 1, where the value lies; ``None`` where it cannot be shown."""
        if value is None or not math.isfinite(value) or (self.is_log and value <= 0):
            return None
        if self.is_log:
            span = math.log10(self.high) - math.log10(self.low)
            place = (math.log10(value) - math.log10(self.low)) / span
        else:
            place = (value - self.low) / (self.high - self.low)
        return place if -BESIDE <= place <= 1 + BESIDE else None


def nice_step(span: float, most: int = MOST_TICKS) -> float:
    """1, 2 or 5 times a power of ten: the smallest of which at most so many fit into the span."""
    rough = span / most
    power = math.floor(math.log10(rough))
    for factor in (1.0, 2.0, 5.0, 10.0):
        step = _times_ten(factor, power)
        if step >= rough:
            return step
    return _times_ten(1.0, power + 1)


def linear_scale(values: Iterable[float], unit: str) -> Scale:
    """An axis over these values, with some room at its ends."""
    low, high = _spread(values)
    room = (high - low) * 0.04
    low, high = low - room, high + room
    step = nice_step(high - low)
    exponent = _exponent(max(abs(low), abs(high)), unit)
    decimals = max(0, exponent - math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step), math.floor(high / step)
    ticks = tuple(
        (number * step, _numeral(number * step, exponent, decimals))
        for number in range(first, last + 1)
    )
    return Scale(low=low, high=high, ticks=ticks, unit=_unit(unit, exponent))


def log_scale(values: Iterable[float], unit: str) -> Scale:
    """An axis by powers of ten over those of these values that are above 0."""
    known = [value for value in values if LEAST_LOG <= value <= HUGE]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    if high <= low * (1 + FLAT):
        low, high = low / 2, high * 2
    room = (high / low) ** 0.02
    low, high = low / room, high * room
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / MOST_TICKS))
    factors = (1.0, 2.0, 5.0) if last - first <= 3 else (1.0,)
    places = [
        _times_ten(factor, power) for power in range(first, last + 1, every) for factor in factors
    ]
    ticks = tuple((place, _short(place)) for place in places if low <= place <= high)
    if len(ticks) < 2:
        # Less than an octave: as on a ruler.
        ruler = linear_scale((low, high), "")
        told = _times_text(ruler.unit)
        ticks = tuple((place, text + told) for place, text in ruler.ticks if low <= place <= high)
    return Scale(low=low, high=high, ticks=ticks, unit=unit, is_log=True)


def draw_figure(figure: Figure) -> str:
    """The figure as one ``svg`` element."""
    panels = figure.panels or (Panel(label="", unit="", lines=()),)
    xs = _finite(x for panel in panels for line in panel.lines for x in line.x)
    across = log_scale(xs, figure.x_unit) if figure.log_x else linear_scale(xs, figure.x_unit)
    height = TOP + len(panels) * (PANEL + BETWEEN) - BETWEEN + BELOW
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{_text(figure.title)}">'
    ]
    top = TOP
    for panel in panels:
        out += _panel(panel, across, top, is_log=figure.log_y and panel.unit not in LINEAR_UNITS)
        top += PANEL + BETWEEN
    bottom = top - BETWEEN
    out += _numbers_below(across, bottom)
    name = _named(figure.x_label, across.unit)
    out.append(_words(LEFT + _inner() / 2, bottom + 36, name, anchor="middle", kind="axis"))
    out.append("</svg>")
    return "\n".join(out)


def _panel(panel: Panel, across: Scale, top: float, *, is_log: bool) -> Iterator[str]:
    values = _finite(y for line in panel.lines for ys in (line.low, line.high or ()) for y in ys)
    up = log_scale(values, panel.unit) if is_log else linear_scale(values, panel.unit)
    yield f'<rect x="{LEFT}" y="{top}" width="{_inner()}" height="{PANEL}" class="frame"/>'
    for value, _ in across.ticks:
        x = _x(across, value)
        if x is not None:
            yield f'<path d="M{x} {top}V{top + PANEL}" class="grid"/>'
    for value, text in up.ticks:
        y = _y(up, value, top)
        if y is not None:
            yield f'<path d="M{LEFT} {y}H{LEFT + _inner()}" class="grid"/>'
            yield _words(LEFT - 7, y + 3.5, text, anchor="end")
    yield _words(LEFT, top - 9, _named(panel.label, up.unit), kind="axis")
    if not values:
        middle = LEFT + _inner() / 2
        yield _words(middle, top + PANEL / 2, "no numbers here", anchor="middle", kind="axis")
        return
    if len(panel.lines) > 1:
        yield from _legend(panel.lines, top)
    for number, line in enumerate(panel.lines):
        yield from _curve(line, number, across, up, top)


def _curve(line: Curve, number: int, across: Scale, up: Scale, top: float) -> Iterator[str]:
    colour = COLOURS[number % len(COLOURS)]
    path: list[str] = []
    marks: list[str] = []
    is_down = False
    for x, y in _points(line):
        at_x, at_y = _x(across, x), _y(up, y, top)
        if is_shown := at_x is not None and at_y is not None:
            path.append(f"{'L' if is_down else 'M'}{at_x} {at_y}")
            marks.append(f'<circle cx="{at_x}" cy="{at_y}" r="2.2" fill="{colour}"/>')
        is_down = is_shown
    if path:
        yield _stroke("".join(path), number)
    if len(line.low) <= MARKED_POINTS:
        yield from marks


def _points(line: Curve) -> Iterator[tuple[float | None, float | None]]:
    """What is joined; where each stands for many, up and down between their extremes."""
    places = zip(line.x[:MOST_POINTS], line.low[:MOST_POINTS], strict=False)
    if line.high is None:
        yield from places
        return
    for (x, low), high in zip(places, line.high[:MOST_POINTS], strict=False):
        yield x, low
        yield x, high


def _legend(lines: Sequence[Curve], top: float) -> Iterator[str]:
    """The names of the curves, from the right."""
    x = float(LEFT + _inner())
    for number, line in reversed(list(enumerate(lines))):
        label = line.label[:40]
        x -= 6.2 * len(label)
        yield _words(x, top - 9, label)
        x -= 30
        yield _stroke(f"M{x:.1f} {top - 12.5}h24", number)
        x -= 12


def _stroke(path: str, number: int) -> str:
    """A line as that of the curve of this number."""
    dash = DASHES[number % len(DASHES)]
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="{path}" class="curve" stroke="{COLOURS[number % len(COLOURS)]}"{style}/>'


def _numbers_below(across: Scale, bottom: float) -> Iterator[str]:
    for value, text in across.ticks:
        x = _x(across, value)
        if x is not None:
            yield _words(x, bottom + 16, text, anchor="middle")


def _words(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "tick") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"'
    return f"<text {place}>{_text(text)}</text>"


def _text(text: str) -> str:
    """As XML takes it: no control character, which not even a reference may stand for."""
    return escape("".join(c if c.isprintable() else " " for c in text[:300]))


def _inner() -> int:
    return WIDTH - LEFT - RIGHT


def _x(across: Scale, value: float | None) -> float | None:
    place = across.place(value)
    return None if place is None else round(LEFT + place * _inner(), 1)


def _y(up: Scale, value: float | None, top: float) -> float | None:
    place = up.place(value)
    return None if place is None else round(top + (1 - place) * PANEL, 1)


def _named(label: str, unit: str) -> str:
    if not unit:
        return label
    return f"{label[:80]} ({unit})" if label else unit


def _finite(values: Iterable[float | None]) -> list[float]:
    return [v for v in values if v is not None and math.isfinite(v) and abs(v) <= HUGE]


def _spread(values: Iterable[float]) -> tuple[float, float]:
    """The ends of what is shown; apart also where all values are one."""
    known = _finite(values)
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    largest = max(abs(low), abs(high))
    if high - low > largest * FLAT and high - low > TINY:
        return low, high
    around = largest * 0.05 if largest > TINY / FLAT else 1.0
    return low - around, high + around


def _exponent(largest: float, unit: str) -> int:
    """The power of ten by which the numbers of an axis are written; they have few digits then."""
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    if has_prefixes(unit):
        return min(max(power // 3 * 3, min(PREFIXES)), max(PREFIXES))
    return 0 if -4 <= power <= 5 else power


def _unit(unit: str, exponent: int) -> str:
    if has_prefixes(unit):
        return f"{PREFIXES[exponent]}{unit}"
    if exponent == 0:
        return unit
    return f"10^{exponent} {unit}".strip()


def _times_text(unit: str) -> str:
    return f"·{unit}" if unit else ""


def _numeral(value: float, exponent: int, decimals: int) -> str:
    scaled = _times_ten(value, -exponent)
    text = f"{scaled:.{decimals}f}" if decimals <= MOST_DECIMALS else f"{scaled:.14g}"
    return text.replace("-", "\N{MINUS SIGN}") if float(text) else text.lstrip("-")


def _short(value: float) -> str:
    """A number of a logarithmic axis: 20 m, 1 k, 5 M."""
    power = math.floor(math.log10(value) + 1e-9) // 3 * 3
    if power not in PREFIXES:
        return f"{value:.0e}"
    return f"{_times_ten(value, -power):.3g} {PREFIXES[power]}".strip()


def _times_ten(value: float, power: int) -> float:
    """By the exact power: 0.1 is no number of which 3 times are 0.3."""
    return value * 10.0**power if power >= 0 else value / 10.0**-power
