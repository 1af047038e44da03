"""Which physical unit stands behind what is worked with: for the record, lockouts and the journal.

They know a unit by what it says of itself, wherever it answers; ``store.experience`` has the rule.
"""

from __future__ import annotations

from edged.instruments.instrument import Instrument
from edged.profiles.match import Identity
from edged.sdk.specs import WrapperSpec
from edged.store.experience import Unit, unit_of


def unit_of_instrument(instrument: Instrument) -> Unit:
    """The unit behind an instrument."""
    return unit_of_identity(instrument.identity, instrument.id)


def unit_of_identity(identity: Identity, instrument_id: str) -> Unit:
    """The unit that says this of itself; one without a serial number goes by the id."""
    return unit_of(
        manufacturer=identity.manufacturer,
        model=identity.model,
        serial=identity.serial,
        firmware=identity.firmware,
        instrument_id=instrument_id,
    )


def unit_of_wrapper(spec: WrapperSpec) -> Unit:
    """An SDK wrapper, as capability tracking knows it: with other tools it is another one."""
    return Unit(f"{spec.wrapper_id}||", spec.digest)
