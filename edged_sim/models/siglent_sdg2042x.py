"""Siglent SDG2042X: two function generator channels; the first is what a scope's channel 2 sees.

Quirks kept: one header with names and values for everything (``C1:BSWV FRQ,1000,AMP,2``); a query
gives the whole list with units behind the numbers and the header before it; there is no query for a
single field; what does not fit is ignored without a word, and there is no error queue; the load is
HZ or a number. Source: the manuals that
profiles/siglent_sdg2042x.yaml names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from edged_sim.models.families.generator import Generator, GeneratorOutput
from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, Vocabulary

LOWEST_HZ: Final = 1e-3
HIGHEST_HZ: Final[Mapping[str, float]] = {
    "SINE": 40e6,
    "SQUARE": 25e6,
    "RAMP": 1e6,
    "PULSE": 25e6,
    "ARB": 20e6,
    "NOISE": 40e6,
    "DC": 40e6,
}
SHAPES: Final = {
    "SINE": "SIN",
    "SQUARE": "SQU",
    "RAMP": "RAMP",
    "PULSE": "PULS",
    "ARB": "USER",
    "NOISE": "NOIS",
    "DC": "DC",
}
LOWEST_PP: Final = 0.002
LOWEST_LOAD, HIGHEST_LOAD = 50.0, 100_000.0
RMS_PER_PP: Final = 0.5 / math.sqrt(2)


class Sdg2042x(Generator):
    """The state of one unit."""

    volts_pp = 4.0

    def reset(self, now: float) -> None:
        super().reset(now)
        self.waves = dict.fromkeys(self.nodes, "SINE")
        self.polarity = dict.fromkeys(self.nodes, "NOR")
        self.arbitrary = dict.fromkeys(self.nodes, "StairUp")
        self.sweeps: dict[int, dict[str, str]] = {
            n: {"STATE": "OFF", "TIME": "1", "START": "500", "STOP": "1500"} for n in self.nodes
        }
        self.bursts: dict[int, dict[str, str]] = {
            n: {"STATE": "OFF", "TRSR": "INT", "TIME": "1", "PRD": "0.01"} for n in self.nodes
        }

    def describe(self, now: float) -> Mapping[str, Any]:  # noqa: ARG002 - the seam's argument
        return {
            f"ch{n}": {"is_on": output.is_on, "wave": self.waves[n], **output.describe()}
            for n, output in self.outputs.items()
        }


def _pairs(call: SimCall, start: int = 0) -> list[tuple[str, str]]:
    texts = [call.text(place) for place in range(start, len(call.arguments))]
    if len(texts) % 2:
        raise ScpiError(-109)
    return [(texts[i].upper(), texts[i + 1]) for i in range(0, len(texts), 2)]


def _value(text: str) -> float:
    found = re.fullmatch(r"([+-]?[\d.]+(?:[eE][+-]?\d+)?)\s*[A-Za-z%]*", text)
    if found is None:
        raise ScpiError(-104)
    return float(found[1])


def _plain(value: float) -> str:
    return f"{value:.9g}"


def _set_hertz(output: GeneratorOutput, wave: str, value: float) -> None:
    if LOWEST_HZ <= value <= HIGHEST_HZ[wave]:
        output.hertz = value


def _set_level(output: GeneratorOutput, volts_pp: float, offset: float) -> None:
    try:
        output.set_level(volts_pp, offset, lowest_pp=LOWEST_PP)
    except ScpiError:
        return  # ignored, and nobody is told


def _set_high(output: GeneratorOutput, high: float) -> None:
    low = output.offset - output.volts_pp / 2
    _set_level(output, high - low, (high + low) / 2)


def _set_low(output: GeneratorOutput, low: float) -> None:
    high = output.offset + output.volts_pp / 2
    _set_level(output, high - low, (high + low) / 2)


def _set_duty(output: GeneratorOutput, value: float) -> None:
    if 0.001 <= value <= 99.999:
        output.duty_percent = value


def _set_symmetry(output: GeneratorOutput, value: float) -> None:
    if 0 <= value <= 100:
        output.symmetry_percent = value


def _set_phase(output: GeneratorOutput, value: float) -> None:
    if -360 <= value <= 360:
        output.phase = value % 360


FIELDS: Final[Mapping[str, Callable[[GeneratorOutput, float], None]]] = {
    "AMP": lambda output, value: _set_level(output, value, output.offset),
    "AMPVRMS": lambda output, value: _set_level(output, value / RMS_PER_PP, output.offset),
    "OFST": lambda output, value: _set_level(output, output.volts_pp, value),
    "HLEV": _set_high,
    "LLEV": _set_low,
    "PHSE": _set_phase,
    "DUTY": _set_duty,
    "SYM": _set_symmetry,
}


def set_wave(unit: Sdg2042x, call: SimCall) -> None:
    """``C1:BSWV WVTP,SINE,FRQ,1000,…``: name and value, as many as one likes."""
    number = unit.number(call)
    output = unit.outputs[number]
    for name, text in _pairs(call):
        if name == "WVTP":
            wave = text.upper()
            if wave not in SHAPES:
                continue
            unit.waves[number], output.function = wave, SHAPES[wave]
            output.hertz = min(output.hertz, HIGHEST_HZ[wave])
        elif name == "FRQ":
            _set_hertz(output, unit.waves[number], _value(text))
        elif name == "PERI" and _value(text) > 0:
            _set_hertz(output, unit.waves[number], 1 / _value(text))
        elif name in FIELDS:
            FIELDS[name](output, _value(text))
    output.apply()


def wave(unit: Sdg2042x, call: SimCall) -> str:
    """``C1:BSWV?`` → ``C1:BSWV WVTP,SINE,FRQ,1000HZ,…``: all of it, never a part."""
    number = unit.number(call)
    output, kind = unit.outputs[number], unit.waves[number]
    parts = [f"WVTP,{kind}"]
    if kind == "DC":
        parts.append(f"OFST,{_plain(output.offset)}V")
    elif kind == "NOISE":
        parts += [f"STDEV,{_plain(output.volts_pp / 6)}V", f"MEAN,{_plain(output.offset)}V"]
    else:
        parts += [
            f"FRQ,{_plain(output.hertz)}HZ",
            f"PERI,{_plain(1 / output.hertz)}S",
            f"AMP,{_plain(output.volts_pp)}V",
            f"AMPVRMS,{_plain(output.volts_pp * RMS_PER_PP)}Vrms",
            f"MAX_OUTPUT_AMP,{_plain(output.most_pp)}V",
            f"OFST,{_plain(output.offset)}V",
            f"HLEV,{_plain(output.offset + output.volts_pp / 2)}V",
            f"LLEV,{_plain(output.offset - output.volts_pp / 2)}V",
            f"PHSE,{_plain(output.phase)}",
        ]
    if kind in ("SQUARE", "PULSE"):
        parts.append(f"DUTY,{_plain(output.duty_percent)}")
    if kind == "RAMP":
        parts.append(f"SYM,{_plain(output.symmetry_percent)}")
    return f"C{number}:BSWV {','.join(parts)}"


def set_output(unit: Sdg2042x, call: SimCall) -> None:
    """``C1:OUTP ON``, ``C1:OUTP LOAD,50``, ``C1:OUTP PLRT,INVT``, or several of them."""
    number = unit.number(call)
    output = unit.outputs[number]
    place = 0
    if call.text(0).upper() in ("ON", "OFF"):
        output.is_on = call.text(0).upper() == "ON"
        place = 1
    for name, text in _pairs(call, place):
        if name == "LOAD":
            _set_load(output, text)
        elif name == "PLRT" and text.upper() in ("NOR", "INVT"):
            unit.polarity[number] = text.upper()
    output.apply()


def _set_load(output: GeneratorOutput, text: str) -> None:
    if text.upper() == "HZ":
        output.set_load(math.inf)
    elif LOWEST_LOAD <= _value(text) <= HIGHEST_LOAD:
        output.set_load(_value(text))


def output(unit: Sdg2042x, call: SimCall) -> str:
    """``C1:OUTP?`` → ``C1:OUTP OFF,LOAD,HZ,PLRT,NOR``."""
    number = unit.number(call)
    channel = unit.outputs[number]
    load = "HZ" if math.isinf(channel.load_ohms) else _plain(channel.load_ohms)
    state = "ON" if channel.is_on else "OFF"
    return f"C{number}:OUTP {state},LOAD,{load},PLRT,{unit.polarity[number]}"


def set_sweep(unit: Sdg2042x, call: SimCall) -> None:
    """``C1:SWWV STATE,ON,TIME,1,START,100,STOP,1000``: ends a burst."""
    number = unit.number(call)
    _take(unit.sweeps[number], call)
    if unit.sweeps[number]["STATE"] == "ON":
        unit.bursts[number]["STATE"] = "OFF"


def set_burst(unit: Sdg2042x, call: SimCall) -> None:
    """``C1:BTWV STATE,ON,TRSR,MAN,TIME,5``: ends a sweep; ``MTRIG`` alone is a trigger."""
    number = unit.number(call)
    if call.text(0).upper() == "MTRIG":
        return
    _take(unit.bursts[number], call)
    if unit.bursts[number]["STATE"] == "ON":
        unit.sweeps[number]["STATE"] = "OFF"


def _take(held: dict[str, str], call: SimCall) -> None:
    for name, text in _pairs(call):
        if name in held:
            held[name] = text.upper()


def _state(number: int, word: str, held: Mapping[str, str]) -> str:
    if held["STATE"] == "OFF":
        return f"C{number}:{word} STATE,OFF"
    units = {"TIME": "S" if word == "SWWV" else "", "START": "HZ", "STOP": "HZ", "PRD": "S"}
    return f"C{number}:{word} " + ",".join(f"{n},{v}{units.get(n, '')}" for n, v in held.items())


def set_arbitrary(unit: Sdg2042x, call: SimCall) -> None:
    """``C1:ARWV NAME,StairUp``."""
    for name, text in _pairs(call):
        if name == "NAME":
            unit.arbitrary[unit.number(call)] = text


VOCABULARY: Final = Vocabulary(
    {
        "C<n>:BSWV": set_wave,
        "C<n>:BSWV?": wave,
        "C<n>:OUTP": set_output,
        "C<n>:OUTP?": output,
        "C<n>:SWWV": set_sweep,
        "C<n>:SWWV?": lambda u, c: _state(u.number(c), "SWWV", u.sweeps[u.number(c)]),
        "C<n>:BTWV": set_burst,
        "C<n>:BTWV?": lambda u, c: _state(u.number(c), "BTWV", u.bursts[u.number(c)]),
        "C<n>:ARWV": set_arbitrary,
        "C<n>:ARWV?": lambda u, c: f"C{u.number(c)}:ARWV INDEX,2,NAME,{u.arbitrary[u.number(c)]}",
        "EQPHASE": lambda _u, _c: None,
    }
)

MODEL: Final = ModelSpec(
    idn="Siglent Technologies,SDG2042X,{serial},2.01.01.23R7",
    serial="SDG2XCAC2R{number:04d}",
    first_number=212,
    dialect=Dialect(error_format="", latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Sdg2042x,
)
