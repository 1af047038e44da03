"""Two TDK-Lambda GEN60-25 on one RS-485 line, with the addresses 6 and 7: 60 V and 25 A each.

Quirks kept: after ``ADR n`` all lines go to unit n, and a unit that was not addressed since it was
switched on is silent; a line that sets something is answered by ``OK``, one that it does not know
by ``C01``, a value out of range by ``E01`` or ``C05``; ``*IDN?`` is no word of it. Source: public
drivers and reports that quote the manual of the Genesys series.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged_sim.models.families.supply import Supply, SupplyChannel
from edged_sim.plain import PlainSpec
from edged_sim.scpi import Answer, Dialect, SimUnit

VOLTS: Final = 60.0
AMPS: Final = 25.0
ADDRESSES: Final = (6, 7)
OK, UNKNOWN = "OK", "C01"
OUT_OF_RANGE: Final[Mapping[str, str]] = {"PV": "E01", "PC": "C05"}
_NUMBER: Final = re.compile(r"[0-9]{1,5}(?:\.[0-9]{0,6})?")


@dataclass(kw_only=True)
class Channel(SupplyChannel):
    """One of the two supplies."""

    gain_error = 500e-6
    noise_v = 0.002
    noise_a = 0.002

    def reset(self) -> None:
        """As it wakes up."""
        self.reset_wires(AMPS)


class GenesysPair(Supply[Channel]):
    """The state of both."""

    def __init__(self, unit: SimUnit) -> None:
        super().__init__({n: Channel(**Channel.wires(unit, n)) for n in ADDRESSES})
        self.selected = 0

    def reset(self, now: float) -> None:
        """See ``ModelState``: nobody is addressed."""
        super().reset(now)
        self.selected = 0

    def describe(self, now: float) -> Mapping[str, Any]:
        return {**super().describe(now), "addressed": self.selected}


def perform(unit: GenesysPair, text: str, now: float) -> Answer:
    """What the line does; nothing is answered where nobody is addressed."""
    head, _, rest = text.upper().partition(" ")
    if head == "ADR":
        unit.selected = int(rest) if rest.isdigit() and len(rest) < 3 else 0
        return OK if unit.selected in unit.channels else None
    if unit.selected not in unit.channels:
        return None
    if head.endswith("?"):
        return _told(unit, head, now)
    return _set(unit.channel, head, rest, now)


def _told(unit: GenesysPair, head: str, now: float) -> str:
    channel = unit.channel
    node = channel.node.advance(now)
    volts, amps = node.terminal_volts * channel.gain, node.amps * channel.gain
    told = {
        "IDN?": "LAMBDA,GEN60-25",
        "SN?": f"19A{unit.selected:04d}",
        "PV?": f"{channel.source.volts:06.3f}",
        "PC?": f"{channel.source.amps_limit:06.3f}",
        "MV?": f"{max(0.0, volts):06.3f}",
        "MC?": f"{max(0.0, amps):06.3f}",
        "OUT?": "ON" if channel.source.is_on else "OFF",
    }
    return told.get(head, UNKNOWN)


def _set(channel: Channel, head: str, rest: str, now: float) -> str:
    if head == "OUT" and rest in {"0", "1", "OFF", "ON"}:
        channel.node.advance(now)
        channel.source.is_on = rest in {"1", "ON"}
        return OK
    if head not in {"PV", "PC"} or _NUMBER.fullmatch(rest) is None:
        return UNKNOWN
    value = float(rest)
    if value > (VOLTS if head == "PV" else AMPS):
        return OUT_OF_RANGE[head]
    if head == "PV":
        channel.set_volts(value, now)
    else:
        channel.set_amps(value, now)
    return OK


MODEL: Final = PlainSpec(
    idn="LAMBDA,GEN60-25",
    serial="19A{number:04d}",
    first_number=6,
    dialect=Dialect(error_format="", line_end=b"\r", message_end=b"\r", latency_s=0.005),
    build=GenesysPair,
    perform=perform,
    profile="",
)
