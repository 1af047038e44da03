"""Keysight 34970A: a multimeter behind three 20-channel multiplexers (34901A).

The first channel of each is across the main load, the second has a resistor of a kilohm, and every
one a thermocouple that is a little warmer than the one before it. Quirks kept: ``MEAS?`` and
``CONF`` make their channels the scan list and forget how these were set; the list is told as a
block, as are the readings that ``R?`` takes out of the memory; a channel that there is not is error
112; a four-wire resistance needs its partner ten channels further; current is measured on channels
21 and 22 alone. Source: the manual and programs that profiles/keysight_34970a.yaml names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from edged_sim import scpi

OVERLOAD: Final = 9.9e37
READING_S: Final = 0.05
KILOHM: Final = 1000.0
NO_CHANNEL: Final = 112
SLOTS: Final = (100, 200, 300)
MUX: Final = tuple(slot + number for slot in SLOTS for number in range(1, 21))
SHUNTED: Final = tuple(slot + number for slot in SLOTS for number in (21, 22))
PAIRED: Final = tuple(channel for channel in MUX if channel % 100 <= 10)
MODULE: Final = "HEWLETT-PACKARD,34901A,0,1.0"
THERMOCOUPLES: Final = frozenset("BEJKNRST")
_LIST: Final = re.compile(r"\(@([\d,:]*)\)")


class Logger:
    """The state of one unit."""

    def __init__(self, unit: scpi.SimUnit) -> None:
        self.random = unit.random
        self.node = unit.world.main()
        self.gain = 1 + unit.random.uniform(-5e-5, 5e-5)
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``ModelState``: every channel for DC volts, none of them in the list."""
        self.functions = dict.fromkeys((*MUX, *SHUNTED), "VOLT")
        self.scanned: tuple[int, ...] = ()
        self.memory: list[str] = []

    def describe(self, now: float) -> Mapping[str, Any]:  # noqa: ARG002 - the seam's argument
        return {"scan": list(self.scanned), "functions": dict(self.functions)}

    def value(self, channel: int, now: float) -> float:
        """One reading of a channel, by what it is set to."""
        noise = self.random.gauss(0.0, 1e-6)
        match self.functions[channel]:
            case "VOLT":
                volts = self.node.advance(now).volts if channel % 100 == 1 else 0.0
                return volts * self.gain + noise
            case "RES" | "FRES":
                return KILOHM * self.gain + noise if channel % 100 == 2 else OVERLOAD
            case "TEMP":
                return 22.0 + channel % 100 * 0.1 + noise * 1e3
            case _:
                return abs(noise) * 1e-3

    def scan(self, now: float) -> str:
        """A reading of each channel in the list."""
        self.memory = [f"{self.value(channel, now):+.8E}" for channel in self.scanned]
        return ",".join(self.memory)


def _channels(
    call: scpi.SimCall, allowed: Mapping[int, str], *, may_be_none: bool = False
) -> list[int]:
    """The channels of the last argument, ``(@101,103:105)``."""
    found = _LIST.fullmatch(call.text(len(call.arguments) - 1)) if call.arguments else None
    if found is None:
        raise scpi.ScpiError(-109)
    numbers: list[int] = []
    for part in filter(None, found[1].split(",")):
        first, _, last = part.partition(":")
        numbers.extend(range(int(first), int(last or first) + 1))
    if not numbers and not may_be_none:
        raise scpi.ScpiError(-109)
    for number in numbers:
        if number not in allowed:
            raise scpi.ScpiError(NO_CHANNEL, "Channel list: channel number out of range")
    return numbers


def configure(unit: Logger, call: scpi.SimCall, function: str) -> None:
    """``CONF:VOLT:DC (@101:103)``: these channels alone are scanned from then on."""
    kinds = {"CURR": SHUNTED, "ACA": SHUNTED, "FRES": PAIRED}
    allowed = {n: f for n, f in unit.functions.items() if n in kinds.get(function, MUX)}
    channels = _channels(call, allowed)
    if function == "TEMP" and (
        call.choice(0, {"TCouple": "TC", "TC": "TC"}) != "TC"
        or call.text(1).upper() not in THERMOCOUPLES
    ):
        raise scpi.ScpiError(-224)
    unit.functions.update(dict.fromkeys(channels, function))
    unit.scanned = tuple(channels)


def measure(unit: Logger, call: scpi.SimCall, function: str) -> scpi.Answer:
    """``MEAS:VOLT:DC? (@101)``."""
    configure(unit, call, function)
    return scpi.Later(READING_S * len(unit.scanned), unit.scan)


def set_scan(unit: Logger, call: scpi.SimCall) -> None:
    """``ROUT:SCAN (@101:103)``, or ``(@)`` for none."""
    unit.scanned = tuple(_channels(call, unit.functions, may_be_none=True))


def scan_list(unit: Logger, _call: scpi.SimCall) -> str:
    """``ROUT:SCAN?``: a block."""
    return _block(f"(@{','.join(map(str, unit.scanned))})")


def _block(told: str) -> str:
    return f"#{len(str(len(told)))}{len(told)}{told}"


def configuration(unit: Logger, call: scpi.SimCall) -> str:
    """``CONF?``: function and range of each channel in the scan list, or in the one given."""
    channels = _channels(call, unit.functions) if call.arguments else unit.scanned
    told = (WORDS.get(unit.functions[channel], unit.functions[channel]) for channel in channels)
    return ",".join(f'"{word} {RANGE}"' for word in told)


def read(unit: Logger, _call: scpi.SimCall) -> scpi.Answer:
    """``READ?``."""
    if not unit.scanned:
        raise scpi.ScpiError(-221)
    return scpi.Later(READING_S * len(unit.scanned), unit.scan)


def initiate(unit: Logger, call: scpi.SimCall) -> None:
    """``INIT``: into memory."""
    if not unit.scanned:
        raise scpi.ScpiError(-221)
    unit.scan(call.now)


def fetch(unit: Logger, _call: scpi.SimCall) -> str:
    """``FETC?``: what ``INIT`` stored."""
    if not unit.memory:
        raise scpi.ScpiError(-230)
    return ",".join(unit.memory)


def take_readings(unit: Logger, call: scpi.SimCall) -> str:
    """``R? 10``: the oldest readings, which are in the memory no more; all without a number."""
    most = call.whole(0, lowest=1, highest=50_000) if call.arguments else len(unit.memory)
    taken, unit.memory = unit.memory[:most], unit.memory[most:]
    return _block(",".join(taken))


def module(_unit: Logger, call: scpi.SimCall) -> str:
    """``SYST:CTYP? 100``."""
    if call.whole(0, lowest=SLOTS[0], highest=SLOTS[-1]) not in SLOTS:
        raise scpi.ScpiError(-222)
    return MODULE


WORDS: Final = {"ACV": "VOLT:AC", "ACA": "CURR:AC", "TEMP": "TEMP TC,K,1"}
"""Functions that ``CONF?`` calls otherwise."""
RANGE: Final = "+1.000000E+01,+1.000000E-05"
HEADERS: Final = {
    ":VOLTage[:DC]": "VOLT",
    ":VOLTage:AC": "ACV",
    ":RESistance": "RES",
    ":FRESistance": "FRES",
    ":TEMPerature": "TEMP",
    ":FREQuency": "FREQ",
    ":PERiod": "PER",
    ":CURRent[:DC]": "CURR",
    ":CURRent:AC": "ACA",
}


def _functions() -> dict[str, Any]:
    table: dict[str, Any] = {}
    for header, function in HEADERS.items():
        table[f":CONFigure{header}"] = lambda u, c, f=function: configure(u, c, f)
        table[f":MEASure{header}?"] = lambda u, c, f=function: measure(u, c, f)
    return table


VOCABULARY: Final = scpi.Vocabulary(
    {
        **_functions(),
        ":CONFigure?": configuration,
        ":R?": take_readings,
        ":ROUTe:SCAN": set_scan,
        ":ROUTe:SCAN?": scan_list,
        ":ROUTe:SCAN:SIZE?": lambda u, _c: f"{len(u.scanned):+d}",
        ":READ?": read,
        ":INITiate": initiate,
        ":FETCh?": fetch,
        ":ABORt": lambda _u, _c: None,
        ":SYSTem:CTYPe?": module,
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="HEWLETT-PACKARD,34970A,{serial},13-2-2",
    serial="0",
    first_number=0,
    dialect=scpi.Dialect(latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Logger,
)
