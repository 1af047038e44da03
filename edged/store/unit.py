"""One physical instrument, as the store knows it again: whatever address it answers at."""

from __future__ import annotations

from typing import NamedTuple


class Unit(NamedTuple):
    """One physical instrument: a key that stays the same, and the firmware it has now."""

    key: str
    firmware: str = ""


def unit_of(
    *, manufacturer: str, model: str, serial: str, firmware: str, instrument_id: str
) -> Unit:
    """The unit behind an identity; without a serial number its address is all there is."""
    tail = serial or instrument_id
    return Unit(f"{manufacturer}|{model}|{tail}", firmware)
