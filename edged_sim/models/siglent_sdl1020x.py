"""Siglent SDL1020X: an electronic load beside the resistor of the main node.

Quirks kept: the mode is answered as the long word, ``CURRENT``; each mode has ranges of its own,
of which the current range of constant current bounds its level; below Von the load takes nothing.
Source: the manuals that profiles/siglent_sdl1020x.yaml names.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from edged_sim.models.families.load import ElectronicLoad, set_load_level, switch_input
from edged_sim.scpi import OWN, Dialect, ModelSpec, Settings, SimCall, Vocabulary, flag

MODES: Final = {"CURRent": "CC", "VOLTage": "CV", "RESistance": "CR", "POWer": "CP"}
LOW_RANGE_V: Final = 36.0


class Sdl1020x(ElectronicLoad):
    """The state of one unit."""

    highest_v: ClassVar[float] = 150.0
    highest_a: ClassVar[float] = 30.0
    highest_w: ClassVar[float] = 200.0
    lowest_ohm: ClassVar[float] = 0.03
    highest_ohm: ClassVar[float] = 10_000.0
    low_range_a: ClassVar[float] = 5.0

    def reset(self, now: float) -> None:
        super().reset(now)
        self.range_v = self.highest_v
        self.trips = {"CURR": self.highest_a, "POW": self.highest_w}
        self.guards = {"CURR": False, "POW": False}

    def guard(self, now: float) -> None:
        """Switch the input off where a protection that is on has been passed."""
        volts, amps = self.wires(now)
        taken = {"CURR": amps, "POW": volts * amps}
        if any(self.guards[what] and taken[what] > self.trips[what] for what in taken):
            self.is_on = False
            self.apply(now)


def set_mode(unit: Sdl1020x, call: SimCall) -> None:
    """``:SOUR:FUNC CURR``."""
    unit.mode = call.choice(0, MODES)
    unit.apply(call.now)


def mode(unit: Sdl1020x, _call: SimCall) -> str:
    """``:SOUR:FUNC?`` → ``CURRENT``."""
    return next(word.upper() for word, short in MODES.items() if short == unit.mode)


def set_range(unit: Sdl1020x, call: SimCall) -> None:
    """``:SOUR:CURR:IRANG 5``."""
    most = unit.highest_a
    unit.choose_range(call.number(0, lowest=0.0, highest=most, default=most), call.now)


def set_voltage_range(unit: Sdl1020x, call: SimCall) -> None:
    """``:SOUR:CURR:VRANG 36``."""
    most = unit.highest_v
    asked = call.number(0, lowest=0.0, highest=most, default=most)
    unit.range_v = LOW_RANGE_V if asked <= LOW_RANGE_V else most


def set_trip(unit: Sdl1020x, call: SimCall, what: str) -> None:
    """``:SOUR:CURR:PROT:LEV 7``."""
    most = unit.highest_a if what == "CURR" else unit.highest_w
    unit.trips[what] = call.number(0, lowest=0.0, highest=most, default=most)


def set_guard(unit: Sdl1020x, call: SimCall, what: str) -> None:
    """``:SOUR:CURR:PROT:STAT ON``."""
    unit.guards[what] = call.boolean(0)


def measure(unit: Sdl1020x, call: SimCall, what: str) -> str:
    """``MEAS:VOLT?`` and the other three."""
    unit.guard(call.now)
    volts, amps = unit.read(call)
    if not unit.is_on:
        amps = 0.0
    values = {"V": volts, "A": amps, "W": volts * amps, "OHM": volts / amps if amps else 0.0}
    return f"{values[what]:.6f}"


def _level_words() -> dict[str, Any]:
    words: dict[str, Any] = {}
    for word, short in MODES.items():
        header = f"[:SOURce]:{word}[:LEVel][:IMMediate]"
        words[header] = lambda u, c, m=short: set_load_level(u, c, m)
        words[f"{header}?"] = lambda u, _c, m=short: f"{u.levels[m]:.6f}"
    for word, what in (("CURRent", "CURR"), ("POWer", "POW")):
        header = f"[:SOURce]:{word}:PROTection"
        words[f"{header}:LEVel"] = lambda u, c, w=what: set_trip(u, c, w)
        words[f"{header}:LEVel?"] = lambda u, _c, w=what: f"{u.trips[w]:.3f}"
        words[f"{header}:STATe"] = lambda u, c, w=what: set_guard(u, c, w)
        words[f"{header}:STATe?"] = lambda u, _c, w=what: flag(u.guards[w])
    return words


def ask_input(unit: Sdl1020x, call: SimCall) -> str:
    """``:SOUR:INP:STAT?``: 0 as well where a protection has tripped."""
    unit.guard(call.now)
    return flag(unit.is_on)


APPLIED: Final = Settings(then=lambda u, c, _: u.apply(c.now))

VOCABULARY: Final = Vocabulary(
    {
        "[:SOURce]:FUNCtion": set_mode,
        "[:SOURce]:FUNCtion?": mode,
        **_level_words(),
        "[:SOURce]:CURRent:IRANGe": set_range,
        "[:SOURce]:CURRent:IRANGe?": lambda u, _c: f"{u.range_a:g}",
        "[:SOURce]:CURRent:VRANGe": set_voltage_range,
        "[:SOURce]:CURRent:VRANGe?": lambda u, _c: f"{u.range_v:g}",
        **APPLIED.row(
            "[:SOURce]:VOLTage[:LEVel]:ON",
            "von",
            lambda u, c: c.number(0, lowest=0.0, highest=u.highest_v, unit="V"),
            "{:.3f}".format,
        ),
        "[:SOURce]:INPut[:STATe]": switch_input,
        "[:SOURce]:INPut[:STATe]?": ask_input,
        **OWN.switch(":SYSTem:SENSe[:STATe]", "has_sense"),
        ":MEASure:VOLTage[:DC]?": lambda u, c: measure(u, c, "V"),
        ":MEASure:CURRent[:DC]?": lambda u, c: measure(u, c, "A"),
        ":MEASure:POWer[:DC]?": lambda u, c: measure(u, c, "W"),
        ":MEASure:RESistance[:DC]?": lambda u, c: measure(u, c, "OHM"),
    }
)

MODEL: Final = ModelSpec(
    idn="Siglent Technologies,SDL1020X-E,{serial},1.1.1.22",
    serial="SDL13GCC7R{number:04d}",
    first_number=28,
    dialect=Dialect(error_format='{code},"{text}"', latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Sdl1020x,
)
