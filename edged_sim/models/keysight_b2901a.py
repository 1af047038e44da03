"""Keysight B2901A: sources voltage or current, measures both, with three corners.

Quirks kept: the limit stands on the side that measures (``SENS:CURR:PROT``); ``TRIP?`` of the
quantity that is sourced says 0 whatever happens; what is not switched on to be measured is 9.91E37;
a level beyond a fixed range is not taken, and nothing complains; ``READ?`` and ``INIT`` switch the
output on while ``OUTP:ON:AUTO`` is 1, as delivered; exponents have three digits. Source: the
manuals and drivers that profiles/keysight_b2901a.yaml names.
"""

from __future__ import annotations

from typing import Final

from edged_sim import scpi
from edged_sim.models.families.source import LINE_CYCLE_S, SourceUnit, switch

NOT_A_NUMBER: Final = 9.91e37
HIGHEST: Final = {"VOLT": 210.0, "CURR": 3.03}
RANGES: Final = {
    "VOLT": (0.2, 2.0, 20.0, 200.0),
    "CURR": (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 1.5, 3.0),
}
OVER_RANGE: Final = {"VOLT": 1.05, "CURR": 1.01}
CORNERS: Final = ((6.0, 3.03), (21.0, 1.515), (210.0, 0.105))
"""Volts, and the amperes that there are up to them."""
NAMES: Final = {"VOLTage": "VOLT", "CURRent": "CURR", "VOLTage:DC": "VOLT", "CURRent:DC": "CURR"}
ELEMENTS: Final = ("VOLT", "CURR", "RES", "TIME", "STAT", "SOUR")
ELEMENT_NAMES: Final = {
    "VOLTage": "VOLT",
    "CURRent": "CURR",
    "RESistance": "RES",
    "TIME": "TIME",
    "STATus": "STAT",
    "SOURce": "SOUR",
}
OFF_MODES: Final = {"NORMal": "NORM", "HIZ": "HIZ", "ZERO": "ZERO"}


class B2901a(SourceUnit):
    """The state of one unit."""

    gain_error = 100e-6
    noise = 20e-6
    amps_limit = 100e-6
    volts_limit = 2.0

    def reset(self, now: float) -> None:
        super().reset(now)
        self.fixed_range: dict[str, float | None] = {"VOLT": None, "CURR": None}
        self.sense_range = {"VOLT": 2.0, "CURR": 1e-4}
        self.is_sense_auto = {"VOLT": True, "CURR": True}
        self.measured = {"VOLT", "CURR", "RES"}
        self.elements: tuple[str, ...] = ELEMENTS
        self.nplc, self.is_remote, self.off_mode = 1.0, False, "NORM"
        self.switches_on_by_itself = True
        self.last_reading, self.is_initiated = "", False

    def source_range(self, function: str) -> float:
        """The range of the source: the fixed one, or what the level needs."""
        fixed = self.fixed_range[function]
        if fixed is not None:
            return fixed
        level = self.output.volts if function == "VOLT" else self.output.amps
        return scpi.nearest_at_least(abs(level) / OVER_RANGE[function], RANGES[function])

    def takes(self, function: str, level: float) -> bool:
        """Whether a level is within a fixed range."""
        fixed = self.fixed_range[function]
        return fixed is None or abs(level) <= fixed * OVER_RANGE[function]

    def read(self, call: scpi.SimCall, now: float) -> str:
        """One measurement of what is switched on, in the order of the elements."""
        volts, amps = self.output.measure(now, call.random)
        values = {
            "VOLT": volts,
            "CURR": amps,
            "RES": volts / amps if amps else NOT_A_NUMBER,
            "TIME": now,
            "STAT": float(self.output.is_in_compliance(now)),
            "SOUR": self.output.level,
        }
        self.last_reading = ",".join(
            f"{NOT_A_NUMBER if name in RANGES and name not in self.measured else values[name]:+.6E}"
            for name in self.elements
        )
        return self.last_reading


def check_corners(volts: float, amps: float) -> None:
    """Raises -221 where the instrument cannot deliver both at once."""
    most = next((amperes for corner, amperes in CORNERS if abs(volts) <= corner), 0.0)
    if abs(amps) > most:
        raise scpi.ScpiError(-221)


def set_function(unit: B2901a, call: scpi.SimCall) -> None:
    """``:SOUR:FUNC:MODE VOLT``."""
    unit.output.is_current = call.choice(0, {"VOLTage": False, "CURRent": True})
    unit.output.apply(call.now)


def set_volts(unit: B2901a, call: scpi.SimCall) -> None:
    """``:SOUR:VOLT``: not taken beyond a fixed range, in silence."""
    volts = call.number(0, lowest=-HIGHEST["VOLT"], highest=HIGHEST["VOLT"], default=0.0, unit="V")
    if unit.takes("VOLT", volts):
        check_corners(volts, unit.output.amps_limit)
        unit.output.volts = volts
        unit.output.apply(call.now)


def set_amps(unit: B2901a, call: scpi.SimCall) -> None:
    """``:SOUR:CURR``: not taken beyond a fixed range, in silence."""
    amps = call.number(0, lowest=-HIGHEST["CURR"], highest=HIGHEST["CURR"], default=0.0, unit="A")
    if unit.takes("CURR", amps):
        check_corners(unit.output.volts_limit, amps)
        unit.output.amps = amps
        unit.output.apply(call.now)


def set_source_range(unit: B2901a, call: scpi.SimCall, function: str) -> None:
    """``:SOUR:VOLT:RANG``: the range that holds the value; it is fixed from then on."""
    highest = HIGHEST[function]
    asked = abs(call.number(0, lowest=-highest, highest=highest))
    unit.fixed_range[function] = scpi.nearest_at_least(
        asked / OVER_RANGE[function], RANGES[function]
    )


def set_amps_limit(unit: B2901a, call: scpi.SimCall) -> None:
    """``:SENS:CURR:PROT``."""
    amps = call.number(0, lowest=1e-9, highest=HIGHEST["CURR"], default=1e-4, unit="A")
    if not unit.output.is_current:
        check_corners(unit.output.volts, amps)
    unit.output.amps_limit = amps
    unit.output.apply(call.now)


def set_volts_limit(unit: B2901a, call: scpi.SimCall) -> None:
    """``:SENS:VOLT:PROT``."""
    volts = call.number(0, lowest=1e-3, highest=HIGHEST["VOLT"], default=2.0, unit="V")
    if unit.output.is_current:
        check_corners(volts, unit.output.amps)
    unit.output.volts_limit = volts
    unit.output.apply(call.now)


def tripped(unit: B2901a, call: scpi.SimCall, *, is_current: bool) -> str:
    """``TRIP?``: of the quantity that is sourced it is 0 whatever happens."""
    return scpi.flag(
        unit.output.is_current is is_current and unit.output.is_in_compliance(call.now)
    )


def set_sense_range(unit: B2901a, call: scpi.SimCall, function: str) -> None:
    """``:SENS:CURR:RANG``: in force once its automatic ranges are off."""
    highest = HIGHEST[function]
    asked = abs(call.number(0, lowest=-highest, highest=highest))
    unit.sense_range[function] = scpi.nearest_at_least(
        asked / OVER_RANGE[function], RANGES[function]
    )


def set_nplc(unit: B2901a, call: scpi.SimCall) -> None:
    """``:SENS:CURR:NPLC``: one setting for all that is measured."""
    unit.nplc = call.number(0, lowest=4e-4, highest=100.0, default=1.0)


def set_measured(unit: B2901a, call: scpi.SimCall, *, is_on: bool) -> None:
    """``:SENS:FUNC:ON "VOLT","CURR"``."""
    names = {call.choice(place, NAMES) for place in range(len(call.arguments))}
    unit.measured = unit.measured | names if is_on else unit.measured - names


def set_elements(unit: B2901a, call: scpi.SimCall) -> None:
    """``:FORM:ELEM:SENS VOLT,CURR``: whatever their order here, it is always the same."""
    wanted = {call.choice(place, ELEMENT_NAMES) for place in range(len(call.arguments))}
    unit.elements = tuple(name for name in ELEMENTS if name in wanted)


def measure(unit: B2901a, call: scpi.SimCall) -> scpi.Answer:
    """``:MEAS?``: the output stays as it is."""
    return scpi.Later(unit.nplc * LINE_CYCLE_S, lambda now: unit.read(call, now))


def read(unit: B2901a, call: scpi.SimCall) -> scpi.Answer:
    """``:READ?``: switches the output on first, where nobody said otherwise."""
    if unit.switches_on_by_itself:
        unit.output.switch(is_on=True, now=call.now)
    return measure(unit, call)


def initiate(unit: B2901a, call: scpi.SimCall) -> None:
    """``:INIT``: as ``:READ?``, and ``:FETC?`` has the reading."""
    if unit.switches_on_by_itself:
        unit.output.switch(is_on=True, now=call.now)
    unit.is_initiated = True


def fetch(unit: B2901a, call: scpi.SimCall) -> str:
    """``:FETC?``: what was initiated, or else the last reading again."""
    if unit.is_initiated:
        unit.is_initiated = False
        return unit.read(call, call.now)
    return unit.last_reading


def _number(value: float) -> str:
    mantissa, _, exponent = f"{value:+.8E}".partition("E")
    return f"{mantissa}E{int(exponent):+04d}"


SENSE_WORDS: Final = {
    ":RANGe[:UPPer]": set_sense_range,
    ":RANGe[:UPPer]?": lambda u, _c, function: _number(u.sense_range[function]),
    **scpi.OWN.switch(":RANGe:AUTO", "is_sense_auto"),
    ":NPLCycles": lambda u, c, _function: set_nplc(u, c),
    ":NPLCycles?": lambda u, _c, _function: _number(u.nplc),
}
SOURCE_WORDS: Final = {
    ":RANGe": set_source_range,
    ":RANGe?": lambda u, _c, function: _number(u.source_range(function)),
}
LEVEL: Final = "[:LEVel][:IMMediate][:AMPLitude]"
PROTECTION: Final = ":PROTection[:LEVel]"

VOCABULARY: Final = scpi.Vocabulary(
    {
        "[:SOURce<n>]:FUNCtion:MODE": set_function,
        "[:SOURce<n>]:FUNCtion:MODE?": lambda u, _c: u.function,
        f":SOURce<n>:VOLTage{LEVEL}": set_volts,
        f":SOURce<n>:VOLTage{LEVEL}?": lambda u, _c: _number(u.output.volts),
        f":SOURce<n>:CURRent{LEVEL}": set_amps,
        f":SOURce<n>:CURRent{LEVEL}?": lambda u, _c: _number(u.output.amps),
        **scpi.below(":SOURce<n>:VOLTage", "VOLT", SOURCE_WORDS),
        **scpi.below(":SOURce<n>:CURRent", "CURR", SOURCE_WORDS),
        f":SENSe<n>:CURRent[:DC]{PROTECTION}": set_amps_limit,
        f":SENSe<n>:CURRent[:DC]{PROTECTION}?": lambda u, _c: _number(u.output.amps_limit),
        f":SENSe<n>:VOLTage[:DC]{PROTECTION}": set_volts_limit,
        f":SENSe<n>:VOLTage[:DC]{PROTECTION}?": lambda u, _c: _number(u.output.volts_limit),
        ":SENSe<n>:CURRent[:DC]:PROTection:TRIPped?": lambda u, c: tripped(u, c, is_current=False),
        ":SENSe<n>:VOLTage[:DC]:PROTection:TRIPped?": lambda u, c: tripped(u, c, is_current=True),
        **scpi.below(":SENSe<n>:VOLTage[:DC]", "VOLT", SENSE_WORDS),
        **scpi.below(":SENSe<n>:CURRent[:DC]", "CURR", SENSE_WORDS),
        ":SENSe<n>:FUNCtion[:ON]": lambda u, c: set_measured(u, c, is_on=True),
        ":SENSe<n>:FUNCtion:OFF": lambda u, c: set_measured(u, c, is_on=False),
        ":SENSe<n>:FUNCtion:OFF:ALL": lambda u, _c: u.measured.clear(),
        # Four wires.
        **scpi.OWN.switch(":SENSe<n>:REMote", "is_remote"),
        ":FORMat:ELEMents:SENSe": set_elements,
        ":FORMat:ELEMents:SENSe?": lambda u, _c: ",".join(u.elements),
        ":MEASure?": measure,
        ":READ?": read,
        ":INITiate[:IMMediate][:ALL]": initiate,
        ":FETCh?": fetch,
        ":OUTPut<n>[:STATe]": switch,
        ":OUTPut<n>[:STATe]?": lambda u, _c: scpi.flag(u.output.is_on),
        **scpi.OWN.switch(":OUTPut<n>:ON:AUTO", "switches_on_by_itself"),
        **scpi.OWN.choice(":OUTPut<n>:OFF:MODE", "off_mode", OFF_MODES),
        ":ABORt[:ALL]": lambda _u, _c: None,
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="Keysight Technologies,B2901A,{serial},3.4.2011",
    serial="MY{number:08d}",
    first_number=51_144_054,
    dialect=scpi.Dialect(latency_s=0.002),
    vocabulary=VOCABULARY,
    build=B2901a,
)
