"""What a caller calls an instrument → the instrument; or a sentence on what there is instead."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from edged.errors import ErrorCode, Invalid, NotFound
from edged.instruments.address import parse_address
from edged.instruments.instrument import Instrument
from edged.instruments.registration import RegistrationState

__all__ = ["address_key", "search"]

NAMES_IN_MESSAGE: Final = 20
GONE: Final = frozenset({RegistrationState.AWAY, RegistrationState.ABSENT})


def search(name: str, instruments: Collection[Instrument]) -> Instrument:
    """The instrument with this alias or serial number, or at this address however it is spelled.

    Args:
        instruments: every one that was met, in the order of arrival.

    Raises:
        NotFound: UNKNOWN_INSTRUMENT; see ``InstrumentPool.get``.
    """
    wanted = name.strip().casefold()
    key = address_key(name)
    named = [
        instrument
        for instrument in instruments
        if wanted
        and (
            wanted == instrument.alias.casefold() or wanted == instrument.identity.serial.casefold()
        )
    ]
    here = [instrument for instrument in named if instrument.state not in GONE]
    if len(here) > 1:
        raise _ambiguous(name, here)
    if named:
        return named[0]
    for instrument in instruments:
        if key and key == address_key(instrument.id):
            return instrument
    raise _unknown(name, instruments)


def address_key(text: str) -> str:
    """Canonical form of an address; empty for what is none."""
    try:
        return parse_address(text).key
    except Invalid:
        return ""


def _unknown(name: str, instruments: Collection[Instrument]) -> NotFound:
    listed = [i for i in instruments if i.state is not RegistrationState.ABSENT]
    known = [f"{i.id} ({i.alias})" if i.alias else i.id for i in listed]
    shown = ", ".join(known[:NAMES_IN_MESSAGE]) or "none"
    more = len(known) - NAMES_IN_MESSAGE
    return NotFound(
        f"There is no instrument {name[:200]!r}. There are: {shown}"
        + (f" and {more} more." if more > 0 else "."),
        code=ErrorCode.UNKNOWN_INSTRUMENT,
        data={"instrument_id": name[:200]},
        remedy="list_instruments has every id; scan_instruments looks for new ones.",
    )


def _ambiguous(name: str, named: Sequence[Instrument]) -> NotFound:
    ids = ", ".join(instrument.id for instrument in named[:NAMES_IN_MESSAGE])
    return NotFound(
        f"{name[:200]!r} is the name of {len(named)} instruments: {ids}.",
        code=ErrorCode.UNKNOWN_INSTRUMENT,
        data={"instrument_id": name[:200], "ids": [i.id for i in named[:NAMES_IN_MESSAGE]]},
        remedy="Give the id of the one that is meant. Its owner can give each a name of its own.",
    )
