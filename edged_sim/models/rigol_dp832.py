"""Rigol DP832A: a supply with three channels, current limit and protection.

Quirks kept: outputs answer ON or OFF and not 1 or 0; an out-of-range value is ignored and only the
error queue tells; ``:SOUR:VOLT:PROT:CLE`` clears a trip *and switches the output on again*, while
``:OUTP:OVP:CLEAR`` leaves it off; ``:APPL?`` names the range before the values; sense exists on no
channel of this model. Source: the manuals that
profiles/rigol_dp832.yaml names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from edged_sim.models.families.supply import Supply, SupplyChannel, memory_words
from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

DEFAULT_AMPS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """What a channel is called, may be set to, and may be protected at."""

    label: str
    volts: float
    over_volts: float
    amps: float = 3.2
    over_amps: float = 3.3


RATINGS: Final = (
    Rating(label="30V/3A", volts=32.0, over_volts=33.0),
    Rating(label="30V/3A", volts=32.0, over_volts=33.0),
    Rating(label="5V/3A", volts=5.3, over_volts=5.5),
)
CHANNELS: Final = {f"CH{number}": number for number in (1, 2, 3)}


@dataclass(kw_only=True)
class Channel(SupplyChannel):
    """One output and what the front panel shows of it."""

    gain_error = 200e-6
    noise_v = 0.0004
    noise_a = 0.0002

    rating: Rating
    over_amps: float = 0.0

    def measure(self, call: SimCall) -> tuple[float, float]:
        """Volts and amperes as the built-in meter reads them: no current while it is off."""
        volts, amps = super().measure(call)
        return volts, amps if self.source.is_on else 0.0

    def mode(self, now: float) -> str:
        """CV or CC."""
        return "CC" if self.node.advance(now).is_limiting else "CV"

    def tripped(self, now: float) -> str:
        """The protection that switched the output off, or nothing."""
        self.node.advance(now)
        return self.source.tripped

    def switch(self, *, is_on: bool, now: float) -> None:
        """Output on or off; switching on forgets a trip (and trips again if its cause stays)."""
        self.node.advance(now)
        self.source.is_on = is_on
        if is_on:
            self.source.tripped = ""

    def reset(self) -> None:
        """As delivered: 0 V, output off, protection off."""
        self.reset_wires(DEFAULT_AMPS)
        self.over_volts, self.over_amps = self.rating.over_volts, self.rating.over_amps

    def describe(self, now: float) -> dict[str, Any]:
        told = super().describe(now)
        return {**told, "mode": self.mode(now), "tripped": self.source.tripped}


class Dp832(Supply[Channel]):
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        super().__init__(
            {
                number: Channel(rating=rating, **Channel.wires(unit, number))
                for number, rating in enumerate(RATINGS, start=1)
            }
        )

    def by_suffix(self, call: SimCall) -> Channel:
        """The channel of ``:SOUR<n>``; without a number the selected one."""
        return self.channels[call.suffix(default=self.selected, highest=3)]

    def by_argument(self, call: SimCall) -> tuple[Channel, int]:
        """The channel of a leading ``CH<n>`` argument, and where the next argument is."""
        if call.has(0) and call.text(0).upper() in CHANNELS:
            return self.channels[CHANNELS[call.text(0).upper()]], 1
        return self.channel, 0


def set_volts(unit: Dp832, call: SimCall) -> None:
    """``:SOUR<n>:VOLT``."""
    channel = unit.by_suffix(call)
    _set_volts(channel, call, 0)


def set_amps(unit: Dp832, call: SimCall) -> None:
    """``:SOUR<n>:CURR``."""
    channel = unit.by_suffix(call)
    _set_amps(channel, call, 0)


def _set_volts(channel: Channel, call: SimCall, place: int) -> None:
    volts = call.number(place, lowest=0.0, highest=channel.rating.volts, default=0.0, unit="V")
    channel.set_volts(round(volts, 3), call.now)


def _set_amps(channel: Channel, call: SimCall, place: int) -> None:
    amps = call.number(
        place, lowest=0.0, highest=channel.rating.amps, default=DEFAULT_AMPS, unit="A"
    )
    channel.set_amps(round(amps, 4), call.now)


def get_volts(unit: Dp832, call: SimCall) -> str:
    """``:SOUR<n>:VOLT?``, also with MIN or MAX."""
    channel = unit.by_suffix(call)
    return f"{_bound(call, channel.rating.volts, channel.source.volts):.3f}"


def get_amps(unit: Dp832, call: SimCall) -> str:
    """``:SOUR<n>:CURR?``, also with MIN or MAX."""
    channel = unit.by_suffix(call)
    return f"{_bound(call, channel.rating.amps, channel.source.amps_limit):.4f}"


def _bound(call: SimCall, highest: float, present: float) -> float:
    if not call.has(0):
        return present
    return call.choice(0, {"MINimum": 0.0, "MAXimum": highest})


def apply(unit: Dp832, call: SimCall) -> None:
    """``:APPL CH1,5,1``: volts and amperes in one; the channel is selected by it."""
    channel, place = unit.by_argument(call)
    if call.has(place):
        _set_volts(channel, call, place)
    if call.has(place + 1):
        _set_amps(channel, call, place + 1)


def applied(unit: Dp832, call: SimCall) -> str:
    """``:APPL? CH1`` → ``CH1:30V/3A,5.000,1.0000``."""
    channel, place = unit.by_argument(call)
    number = next(number for number, known in unit.channels.items() if known is channel)
    if call.has(place):
        values = {
            "VOLTage": f"{channel.source.volts:.3f}",
            "CURRent": f"{channel.source.amps_limit:.4f}",
        }
        return call.choice(place, values)
    return (
        f"CH{number}:{channel.rating.label},"
        f"{channel.source.volts:.3f},{channel.source.amps_limit:.4f}"
    )


def switch(unit: Dp832, call: SimCall) -> None:
    """``:OUTP CH1,ON``."""
    channel, place = unit.by_argument(call)
    channel.switch(is_on=call.boolean(place), now=call.now)


def is_on(unit: Dp832, call: SimCall) -> str:
    """``:OUTP? CH1`` → ON or OFF, in letters."""
    channel, _ = unit.by_argument(call)
    channel.node.advance(call.now)
    return _on_off(channel.source.is_on)


def mode(unit: Dp832, call: SimCall) -> str:
    """``:OUTP:MODE? CH1`` → CV, CC or UR."""
    channel, _ = unit.by_argument(call)
    return channel.mode(call.now)


def measure(unit: Dp832, call: SimCall) -> str:
    """The four ``:MEAS`` queries."""
    channel, _ = unit.by_argument(call)
    volts, amps, watts = channel.display(call)
    texts = f"{volts:.4f}", f"{amps:.4f}", f"{watts:.3f}"
    word = call.header.upper()
    if "ALL" in word:
        return ",".join(texts)
    return texts[1] if "CURR" in word else texts[2] if "POW" in word else texts[0]


def set_ovp_level(unit: Dp832, call: SimCall) -> None:
    """``:OUTP:OVP:VAL CH1,12``."""
    channel, place = unit.by_argument(call)
    _set_ovp_level(channel, call, place)


def set_ocp_level(unit: Dp832, call: SimCall) -> None:
    """``:OUTP:OCP:VAL CH1,2``."""
    channel, place = unit.by_argument(call)
    _set_ocp_level(channel, call, place)


def _set_ovp_level(channel: Channel, call: SimCall, place: int) -> None:
    most = channel.rating.over_volts
    channel.set_over_volts(call.number(place, lowest=0.001, highest=most, unit="V"))


def _set_ocp_level(channel: Channel, call: SimCall, place: int) -> None:
    channel.over_amps = call.number(place, lowest=0.001, highest=channel.rating.over_amps, unit="A")
    if channel.source.over_current is not None:
        channel.source.over_current = channel.over_amps


def set_ovp(unit: Dp832, call: SimCall) -> None:
    """``:OUTP:OVP CH1,ON``."""
    channel, place = unit.by_argument(call)
    channel.protect_volts(is_on=call.boolean(place))


def set_ocp(unit: Dp832, call: SimCall) -> None:
    """``:OUTP:OCP CH1,ON``."""
    channel, place = unit.by_argument(call)
    channel.source.over_current = channel.over_amps if call.boolean(place) else None


def clear_trip(unit: Dp832, call: SimCall) -> None:
    """``:OUTP:OVP:CLEAR CH1`` and the same for OCP: the output stays off."""
    channel, _ = unit.by_argument(call)
    channel.source.tripped = ""


def clear_trip_and_switch_on(unit: Dp832, call: SimCall) -> None:
    """``:SOUR:VOLT:PROT:CLE``: the trap; after it the output is on."""
    unit.by_suffix(call).switch(is_on=True, now=call.now)


def is_tripped(kind: str, channel: Channel, now: float) -> str:
    """YES or NO, in letters."""
    return "YES" if channel.tripped(now) == kind else "NO"


def set_sense(unit: Dp832, call: SimCall) -> None:
    """``:OUTP:SENS``: no channel of a DP832 has sense terminals."""
    unit.by_argument(call)
    raise ScpiError(-221)


def select(unit: Dp832, call: SimCall) -> None:
    """``:INST CH2`` and ``:INST:NSEL 2``."""
    unit.selected = call.choice(0, {**CHANNELS, "1": 1, "2": 2, "3": 3})


def condition(unit: Dp832, call: SimCall) -> str:
    """``:STAT:QUES:INST:ISUM<n>:COND?``: bit 0 in current limit, bit 1 regulating the voltage."""
    channel = unit.by_suffix(call)
    if not channel.source.is_on:
        return "0"
    return "1" if channel.mode(call.now) == "CC" else "2"


def _on_off(is_true: bool) -> str:
    return "ON" if is_true else "OFF"


VOCABULARY: Final = Vocabulary(
    {
        "[:SOURce<n>]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
        "[:SOURce<n>]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": get_volts,
        "[:SOURce<n>]:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
        "[:SOURce<n>]:CURRent[:LEVel][:IMMediate][:AMPLitude]?": get_amps,
        "[:SOURce<n>]:VOLTage:PROTection[:LEVel]": lambda u, c: _set_ovp_level(
            u.by_suffix(c), c, 0
        ),
        "[:SOURce<n>]:VOLTage:PROTection[:LEVel]?": lambda u, c: f"{u.by_suffix(c).over_volts:.3f}",
        "[:SOURce<n>]:CURRent:PROTection[:LEVel]": lambda u, c: _set_ocp_level(
            u.by_suffix(c), c, 0
        ),
        "[:SOURce<n>]:CURRent:PROTection[:LEVel]?": lambda u, c: f"{u.by_suffix(c).over_amps:.4f}",
        "[:SOURce<n>]:VOLTage:PROTection:TRIPped?": lambda u, c: is_tripped(
            "over_voltage", u.by_suffix(c), c.now
        ),
        "[:SOURce<n>]:CURRent:PROTection:TRIPped?": lambda u, c: is_tripped(
            "over_current", u.by_suffix(c), c.now
        ),
        "[:SOURce<n>]:VOLTage:PROTection:CLEar": clear_trip_and_switch_on,
        "[:SOURce<n>]:CURRent:PROTection:CLEar": clear_trip_and_switch_on,
        ":APPLy": apply,
        ":APPLy?": applied,
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": is_on,
        ":OUTPut:MODE?": mode,
        ":OUTPut:CVCC?": mode,
        ":OUTPut:OVP[:STATe]": set_ovp,
        ":OUTPut:OVP[:STATe]?": lambda u, c: _on_off(
            u.by_argument(c)[0].source.over_voltage is not None
        ),
        ":OUTPut:OVP:VALue": set_ovp_level,
        ":OUTPut:OVP:VALue?": lambda u, c: f"{u.by_argument(c)[0].over_volts:.3f}",
        ":OUTPut:OVP:QUES?": lambda u, c: is_tripped("over_voltage", u.by_argument(c)[0], c.now),
        ":OUTPut:OVP:CLEAR": clear_trip,
        ":OUTPut:OCP[:STATe]": set_ocp,
        ":OUTPut:OCP[:STATe]?": lambda u, c: _on_off(
            u.by_argument(c)[0].source.over_current is not None
        ),
        ":OUTPut:OCP:VALue": set_ocp_level,
        ":OUTPut:OCP:VALue?": lambda u, c: f"{u.by_argument(c)[0].over_amps:.4f}",
        ":OUTPut:OCP:QUES?": lambda u, c: is_tripped("over_current", u.by_argument(c)[0], c.now),
        ":OUTPut:OCP:CLEAR": clear_trip,
        ":OUTPut:SENSe": set_sense,
        ":OUTPut:SENSe?": lambda _u, _c: "NONE",
        ":MEASure[:SCALar][:VOLTage][:DC]?": measure,
        ":MEASure[:SCALar]:CURRent[:DC]?": measure,
        ":MEASure[:SCALar]:POWEr[:DC]?": measure,
        ":MEASure[:SCALar]:ALL[:DC]?": measure,
        ":INSTrument[:SELect]": select,
        ":INSTrument[:SELect]?": lambda u, _c: f"CH{u.selected}:{u.channel.rating.label}",
        ":INSTrument:NSELect": select,
        ":INSTrument:NSELect?": lambda u, _c: str(u.selected),
        ":STATus:QUEStionable:INSTrument:ISUMmary<n>:CONDition?": condition,
        ":SYSTem:BEEPer[:IMMediate]": lambda _u, _c: None,
        ":SYSTem:REMote": lambda _u, _c: None,
        ":SYSTem:LOCal": lambda _u, _c: None,
        ":SYSTem:VERSion?": lambda _u, _c: "1999.0",
        "*OPT?": lambda _u, _c: "DP8-ACCURACY,DP-INTERFACE",
        **memory_words(10),
    }
)

MODEL: Final = ModelSpec(
    idn="RIGOL TECHNOLOGIES,DP832A,{serial},00.01.19",
    serial="DP8B26AM{number:05d}",
    first_number=234,
    dialect=Dialect(
        error_format='{code},"{text}"',
        error_texts={-113: "Undefined header; keyword cannot be found"},
        latency_s=0.002,
    ),
    vocabulary=VOCABULARY,
    build=Dp832,
)
