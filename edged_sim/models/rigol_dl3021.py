r"""Rigol DL3021: an electronic load beside the resistor of the main node.

Quirks kept: the mode is set as CURR, VOLT, RES or POW and answered as CC, CV, CR or CP; while the
input is off, a measurement's answer has a second line, ``0.000067\n0``; the current range bounds
the current level; below VON the load takes nothing. Source: the manuals that
profiles/rigol_dl3021.yaml names.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from edged_sim.models.families.load import ElectronicLoad, set_load_level, switch_input
from edged_sim.scpi import OWN, Dialect, ModelSpec, ScpiError, Settings, SimCall, Vocabulary, flag

IDLE_A: Final = 0.000067
"""What the meter shows with the input off."""
MODES: Final = {"CURRent": "CC", "VOLTage": "CV", "RESistance": "CR", "POWer": "CP"}


class Dl3021(ElectronicLoad):
    """The state of one unit."""

    highest_v: ClassVar[float] = 150.0
    highest_a: ClassVar[float] = 40.0
    highest_w: ClassVar[float] = 200.0
    lowest_ohm: ClassVar[float] = 2.0
    highest_ohm: ClassVar[float] = 15_000.0
    low_range_a: ClassVar[float] = 4.0

    def reset(self, now: float) -> None:
        super().reset(now)
        self.transient_mode = "CONT"
        self.transient = {"a": 0.0, "b": 0.0, "hertz": 1000.0}


def set_range(unit: Dl3021, call: SimCall) -> None:
    """``:SOUR:CURR:RANG 4``; a level beyond the new range is taken down to it."""
    most = unit.highest_a
    unit.choose_range(call.number(0, lowest=0.0, highest=most, default=most), call.now)


def set_slew(unit: Dl3021, call: SimCall, *edges: str) -> None:
    """``:SOUR:CURR:SLEW`` in A/us."""
    value = call.number(0, lowest=0.001, highest=2.5)
    for edge in edges:
        unit.slew[edge] = value


def measure(unit: Dl3021, call: SimCall) -> str:
    """The four ``:MEAS`` questions; a second line while the input is off."""
    volts, amps = unit.read(call)
    if not unit.is_on:
        amps = IDLE_A
    word = call.header.upper()
    value = volts
    if "CURR" in word:
        value = amps
    elif "POW" in word:
        value = volts * amps
    elif "RES" in word:
        value = volts / amps if amps else 0.0
    return f"{value:.6f}" if unit.is_on else f"{value:.6f}\n0"


def set_sense(unit: Dl3021, call: SimCall) -> None:
    """``:SOUR:SENS ON``; refused while the input is on."""
    if unit.is_on:
        raise ScpiError(-221)
    unit.has_sense = call.boolean(0)


def set_transient_level(unit: Dl3021, call: SimCall, name: str) -> None:
    """``:SOUR:CURR:TRAN:ALEV`` and ``:BLEV``."""
    unit.transient[name] = call.number(0, lowest=0.0, highest=unit.range_a, unit="A")


def set_transient_rate(unit: Dl3021, call: SimCall) -> None:
    """``:SOUR:CURR:TRAN:FREQ``."""
    unit.transient["hertz"] = call.number(0, lowest=0.001, highest=30_000.0, unit="HZ")


def _level_words() -> dict[str, Any]:
    words: dict[str, Any] = {}
    for word, mode in MODES.items():
        header = f"[:SOURce]:{word}[:LEVel][:IMMediate]"
        words[header] = lambda u, c, m=mode: set_load_level(u, c, m)
        words[f"{header}?"] = lambda u, _c, m=mode: f"{u.levels[m]:.6f}"
    return words


APPLIED: Final = Settings(then=lambda u, c, _: u.apply(c.now))

VOCABULARY: Final = Vocabulary(
    {
        **APPLIED.choice("[:SOURce]:FUNCtion", "mode", MODES),
        **_level_words(),
        "[:SOURce]:CURRent:RANGe": set_range,
        "[:SOURce]:CURRent:RANGe?": lambda u, _c: f"{u.range_a:.6f}",
        "[:SOURce]:CURRent:SLEW[:BOTH]": lambda u, c: set_slew(u, c, "rise", "fall"),
        "[:SOURce]:CURRent:SLEW[:BOTH]?": lambda u, _c: f"{u.slew['rise']:.6f}",
        "[:SOURce]:CURRent:SLEW:POSitive": lambda u, c: set_slew(u, c, "rise"),
        "[:SOURce]:CURRent:SLEW:POSitive?": lambda u, _c: f"{u.slew['rise']:.6f}",
        "[:SOURce]:CURRent:SLEW:NEGative": lambda u, c: set_slew(u, c, "fall"),
        "[:SOURce]:CURRent:SLEW:NEGative?": lambda u, _c: f"{u.slew['fall']:.6f}",
        **APPLIED.row(
            "[:SOURce]:CURRent:VON",
            "von",
            lambda u, c: c.number(0, lowest=0.0, highest=u.highest_v, unit="V"),
            "{:.6f}".format,
        ),
        **OWN.choice(
            "[:SOURce]:CURRent:TRANsient:MODE",
            "transient_mode",
            {"CONTinuous": "CONT", "PULSe": "PULS", "TOGGle": "TOGG"},
        ),
        "[:SOURce]:CURRent:TRANsient:ALEVel": lambda u, c: set_transient_level(u, c, "a"),
        "[:SOURce]:CURRent:TRANsient:ALEVel?": lambda u, _c: f"{u.transient['a']:.6f}",
        "[:SOURce]:CURRent:TRANsient:BLEVel": lambda u, c: set_transient_level(u, c, "b"),
        "[:SOURce]:CURRent:TRANsient:BLEVel?": lambda u, _c: f"{u.transient['b']:.6f}",
        "[:SOURce]:CURRent:TRANsient:FREQuency": set_transient_rate,
        "[:SOURce]:CURRent:TRANsient:FREQuency?": lambda u, _c: f"{u.transient['hertz']:.6f}",
        "[:SOURce]:INPut[:STATe]": switch_input,
        "[:SOURce]:INPut[:STATe]?": lambda u, _c: flag(u.is_on),
        "[:SOURce]:SENSe[:STATe]": set_sense,
        "[:SOURce]:SENSe[:STATe]?": lambda u, _c: flag(u.has_sense),
        ":MEASure[:SCALar]:VOLTage[:DC]?": measure,
        ":MEASure[:SCALar]:CURRent[:DC]?": measure,
        ":MEASure[:SCALar]:POWer[:DC]?": measure,
        ":MEASure[:SCALar]:RESistance[:DC]?": measure,
    }
)

MODEL: Final = ModelSpec(
    idn="RIGOL TECHNOLOGIES,DL3021,{serial},00.01.05.00.01",
    serial="DL3A{number:09d}",
    first_number=204800938,
    dialect=Dialect(error_format='{code},"{text}"', latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Dl3021,
)
