"""Delta Elektronika SM500-CP-90 (SM15K): 500 V and 90 A, one output.

Quirks of its watchdog kept: its time is in milliseconds; the very line that sets the time enables
it and feeds it; of other lines only valid ones feed it; having switched off it says so once
(``WAT?`` answers 0) and is off from then on (-1); the output can be switched on again at once. A
word may be cut anywhere behind its short form. Source: the manual that
profiles/delta_sm500_cp_90.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged_sim import scpi
from edged_sim.models.families.supply import Supply, SupplyChannel
from edged_sim.models.families.watchdog import OutputWatchdog

VOLTS: Final = 500.0
AMPS: Final = 90.0
WATTS: Final = 15_000.0
SHORTEST_MS: Final = 20
LONGEST_MS: Final = 10_000
TEST_S: Final = 0.0025


@dataclass(kw_only=True)
class Channel(SupplyChannel):
    """Its output."""

    gain_error = 500e-6
    noise_v = 0.005
    noise_a = 0.005

    def reset(self) -> None:
        """As delivered."""
        self.reset_wires(0.0)


class Sm15k(Supply[Channel]):
    """The state of one unit."""

    def __init__(self, unit: scpi.SimUnit) -> None:
        super().__init__({1: Channel(**Channel.wires(unit, 1))})
        self.watchdog = OutputWatchdog(outputs=(self.channel.source,), delay_s=0.0)
        self.watts_limit = WATTS

    def look(self, now: float) -> None:
        """Let the time until now pass; having switched off, the timer is off."""
        self.watchdog.look(now)
        self.channel.node.advance(now)
        if self.watchdog.is_tripped:
            self.watchdog.is_enabled = False

    def reset(self, now: float) -> None:
        """See ``ModelState``; that it also ends the watchdog is what a cycle of the power does."""
        self.look(now)
        self.watchdog.disable()
        self.watchdog.is_tripped = False
        self.watts_limit = WATTS
        super().reset(now)

    def describe(self, now: float) -> Mapping[str, Any]:
        self.look(now)
        return {**super().describe(now), "watchdog": self.watchdog.describe(now)}


def look(unit: Sm15k, now: float) -> None:
    """A message has come; whether it feeds is known when it is done."""
    unit.look(now)


def feed(unit: Sm15k, now: float) -> None:
    """It was a valid one; what ``TEST`` has set runs out all the same."""
    if unit.watchdog.delay_s != TEST_S:
        unit.watchdog.feed(now)


def set_volts(unit: Sm15k, call: scpi.SimCall) -> None:
    """``SOUR:VOLT 5``."""
    unit.channel.set_volts(call.number(0, lowest=0.0, highest=VOLTS), call.now)


def set_amps(unit: Sm15k, call: scpi.SimCall) -> None:
    """``SOUR:CURR 10``."""
    unit.channel.set_amps(call.number(0, lowest=0.0, highest=AMPS), call.now)


def measured_volts(unit: Sm15k, call: scpi.SimCall) -> str:
    """``MEAS:VOLT?``."""
    return f"{unit.channel.display(call)[0]:.4f}"


def measured_amps(unit: Sm15k, call: scpi.SimCall) -> str:
    """``MEAS:CURR?``."""
    return f"{unit.channel.display(call)[1]:.4f}"


def switch(unit: Sm15k, call: scpi.SimCall) -> None:
    """``OUTP ON``."""
    unit.channel.node.advance(call.now)
    unit.channel.source.is_on = call.boolean(0)


def work_watchdog(unit: Sm15k, call: scpi.SimCall) -> str | None:
    """``SYST:COM:WAT SET,1000``, ``STOP``, ``TEST``; each clears that it has switched off.

    ``SET?`` is the time that was set, valid until it runs out.
    """
    watchdog = unit.watchdog
    word = call.text(0).upper()
    if word == "SET?":
        return str(round(1000 * watchdog.delay_s) if watchdog.is_enabled else 0)
    if word == "SET":
        watchdog.delay_s = call.whole(1, lowest=SHORTEST_MS, highest=LONGEST_MS) / 1000
        watchdog.enable()
    elif word == "TEST":
        watchdog.delay_s = TEST_S
        watchdog.enable()
    elif word == "STOP":
        watchdog.disable()
    else:
        raise scpi.ScpiError(-224)
    watchdog.is_tripped = False
    watchdog.feed(call.now)
    return None


def ask_watchdog(unit: Sm15k, call: scpi.SimCall) -> str:
    """``WAT?``: what is left, 0 once after it has switched off, -1 while it is off."""
    watchdog = unit.watchdog
    if watchdog.is_tripped:
        watchdog.is_tripped = False
        return "0"
    left_s = watchdog.left_s(call.now)
    return "-1" if left_s is None else str(max(1, round(1000 * left_s)))


OWN: Final = scpi.Settings(say="{:.4f}".format)

VOCABULARY: Final = scpi.Vocabulary(
    {
        ":SOURce:VOLtage": set_volts,
        ":SOURce:VOLTage": set_volts,
        ":SOURce:VOLtage?": lambda u, _c: f"{u.channel.source.volts:.4f}",
        ":SOURce:VOLTage?": lambda u, _c: f"{u.channel.source.volts:.4f}",
        ":SOURce:VOLtage:MAXimum?": lambda _u, _c: f"{VOLTS:.0f}",
        ":SOURce:CURrent": set_amps,
        ":SOURce:CURRent": set_amps,
        ":SOURce:CURrent?": lambda u, _c: f"{u.channel.source.amps_limit:.4f}",
        ":SOURce:CURRent?": lambda u, _c: f"{u.channel.source.amps_limit:.4f}",
        ":SOURce:CURrent:MAXimum?": lambda _u, _c: f"{AMPS:.0f}",
        ":SOURce:CURrent:NEGative?": lambda _u, _c: "0.0000",
        ":SOURce:POWer:MAXimum?": lambda _u, _c: f"{WATTS:.0f}",
        # ; kept, and not in the way of this simulation.
        **OWN.number(":SOURce:POWer", "watts_limit", 0.0, WATTS),
        ":OUTPut": switch,
        ":OUTPut?": lambda u, _c: scpi.flag(u.channel.source.is_on),
        ":MEASure:VOLtage?": measured_volts,
        ":MEASure:VOLTage?": measured_volts,
        ":MEASure:CURrent?": measured_amps,
        ":MEASure:CURRent?": measured_amps,
        ":MEASure:POWer?": lambda u, c: f"{u.channel.display(c)[2]:.4f}",
        ":MEASure:TEMperature?": lambda _u, _c: "31.5",
        ":SYSTem:COMmunicate:WATchdog": work_watchdog,
        ":SYSTem:COMMunicate:WATchdog": work_watchdog,
        ":SYSTem:COMmunicate:WATchdog?": ask_watchdog,
        ":SYSTem:COMMunicate:WATchdog?": ask_watchdog,
        ":SYSTem:WARning?": lambda _u, _c: "0,None",
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="DELTA ELEKTRONIKA B.V.,SM500-CP-90,{serial},H0-P0110",
    serial="{number:012d}",
    first_number=118100470001,
    dialect=scpi.Dialect(error_format="{code},{text}", error_texts={0: "None"}, latency_s=0.002),
    vocabulary=VOCABULARY,
    build=Sm15k,
    on_message=look,
    on_understood=feed,
)
