"""What a caller calls an instrument → the instrument; or a sentence on what there is instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from edged.errors import ErrorCode, Invalid, NotFound
from edged.instruments.address import parse_address
from edged.instruments.instrument import Instrument
from edged.instruments.registration import RegistrationState
from edged.profiles.unit_keys import plain, serial_forms

__all__ = ["address_key", "bearers_of", "search"]

NAMES_IN_MESSAGE: Final = 20
NOBODY: Final[Mapping[str, str]] = MappingProxyType({})
GONE: Final = frozenset({RegistrationState.AWAY, RegistrationState.ABSENT})


def search(
    name: str, instruments: Collection[Instrument], given: Mapping[str, str] = NOBODY
) -> Instrument:
    """The instrument at this address; else the one of this name; else of this serial number.

    A name that the owner gave is never a serial number: another unit that tells it as one does not
    answer, also while the named one is away or was never met.

    Args:
        instruments: every one that was met, in the order of arrival.
        given: plain name → whom the owner means by it (a clause), those never met included.

    Raises:
        NotFound: UNKNOWN_INSTRUMENT; see ``InstrumentPool.get``.
    """
    key = address_key(name)
    for instrument in instruments:
        if key and key == address_key(instrument.id):
            return instrument
    called = plain(name)
    if not called:
        raise _unknown(name, instruments)
    bearers = bearers_of(name, instruments, given)
    here = [instrument for instrument in bearers if instrument.state not in GONE]
    # Of units that came one after the other a name stays with the first; twins are there together.
    if len(here) > 1 or any(instrument.twins for instrument in bearers if len(bearers) > 1):
        raise _ambiguous(name, bearers)
    if bearers:
        return bearers[0]
    if called in given:
        raise _away(name, given[called])
    raise _unknown(name, instruments)


def bearers_of(
    name: str, instruments: Iterable[Instrument], given: Mapping[str, str] = NOBODY
) -> tuple[Instrument, ...]:
    """All that are called so by their owner; where he calls none so, that tell it as their number.

    Arguments are as in ``search``.
    """
    called, met = plain(name), tuple(instruments)
    owned = tuple(i for i in met if called and called in {plain(i.alias), *map(plain, i.names)})
    if owned or called in given:
        return owned
    forms = serial_forms(name)
    return tuple(
        i
        for i in met
        if forms & (serial_forms(i.identity.serial_told) | serial_forms(i.identity.serial))
    )


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


def _away(name: str, meant: str) -> NotFound:
    return NotFound(
        f"{name[:200]!r} is the name that the owner of this bench gave to {meant}, and nothing "
        "that is called so has answered since edged started.",
        code=ErrorCode.UNKNOWN_INSTRUMENT,
        data={"instrument_id": name[:200]},
        remedy="Switch it on, or call another instrument by its id; list_instruments has them.",
    )


def _ambiguous(name: str, named: Sequence[Instrument]) -> NotFound:
    ids = ", ".join(instrument.id for instrument in named[:NAMES_IN_MESSAGE])
    return NotFound(
        f"{name[:200]!r} is the name of {len(named)} instruments: {ids}.",
        code=ErrorCode.UNKNOWN_INSTRUMENT,
        data={"instrument_id": name[:200], "ids": [i.id for i in named[:NAMES_IN_MESSAGE]]},
        remedy="Give the id of the one that is meant. Its owner can give each a name of its own.",
    )
