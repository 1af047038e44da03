"""When two answers to ``*IDN?`` are one unit's: maker, model and serial number. Pure."""

from __future__ import annotations

from edged.profiles.match import Identity, parse_idn

__all__ = ["is_one_unit", "is_same_unit"]


def is_same_unit(known_idn: str, found_idn: str) -> bool:
    """Whether two ``*IDN?`` answers come from one unit; firmware may differ. Any thread."""
    return known_idn == found_idn or is_one_unit(parse_idn(known_idn), parse_idn(found_idn))


def is_one_unit(one: Identity, other: Identity) -> bool:
    """The same for what was read of them."""
    return all(
        a.casefold() == b.casefold()
        for a, b in (
            (one.manufacturer, other.manufacturer),
            (one.model, other.model),
            (one.serial, other.serial),
        )
    )
