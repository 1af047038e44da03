"""Which unit a HiSLIP sub-address means: ``hislip_<alias>``, ``hislip_<short id>``, ``hislip0``.

Names follow the rules of tools' names (``profiles/naming.py``): an alias is cleaned, short ids are
as long as they must be, and a name that was one unit's never comes to mean another.
"""

from __future__ import annotations

from typing import Final

from edged.errors import ErrorCode, NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.profiles.naming import KnownInstrument, Namer
from edged.surfaces.visa.desk import VisaDesk

PREFIX: Final = "hislip_"
"""VISA takes a device for HiSLIP's whose name begins so."""
DEFAULT_NAME: Final = "hislip0"
FAMILY: Final = "hislip"
NOBODY: Final = "0"
"""Has the name without a suffix, so that no unit is called by what is everybody's default."""
SHOWN: Final = 40
"""Names that a refusal lists; a HiSLIP client shows one line."""


class HislipNames:
    """The names in force.

    Args:
        pool: the units.
        desk: finds them by their other names.
    """

    def __init__(self, pool: InstrumentPool, desk: VisaDesk) -> None:
        self._pool = pool
        self._desk = desk
        self._namer = Namer(uses_aliases=True)
        self._namer.arrive(KnownInstrument(instrument_id=NOBODY, profile_key=FAMILY))
        # Who was named, as what: by instrument id.
        self._known: dict[str, KnownInstrument] = {}
        self._refresh()
        self._unsubscribe = pool.subscribe(lambda _event: self._refresh())

    def close(self) -> None:
        """Hear of no more units."""
        self._unsubscribe()

    def name_of(self, instrument: Instrument) -> str:
        """The sub-address that is documented: ``hislip_psu1``."""
        return f"{PREFIX}{self._namer.suffix(instrument.id)}"

    def all(self) -> list[str]:
        """Those of the units that are here."""
        return sorted(self.name_of(one) for one in self._pool.all())

    def find(self, sub_address: str) -> Instrument:
        """The unit.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT, naming those there are: it is nobody's name, or could mean
                several, or has been retired.
        """
        wanted = sub_address.strip().casefold()
        if wanted in ("", DEFAULT_NAME):
            return self._only_one()
        bare = wanted.removeprefix(PREFIX)
        for one in self._pool.all():
            if self._namer.suffix(one.id).casefold() == bare:
                return one
        for (_, suffix), owner in self._namer.book().former.items():
            if suffix.casefold() == bare:
                raise self._retired(sub_address, owner)
        try:
            return self._desk.find(sub_address.strip().removeprefix(PREFIX))
        except NotFound:
            raise self._unknown(f"No instrument is called {sub_address!r}.") from None

    def _only_one(self) -> Instrument:
        units = self._pool.all()
        if len(units) == 1:
            return units[0]
        if not units:
            raise self._unknown("No instrument is registered.")
        raise self._unknown(f"{DEFAULT_NAME} could mean any of {len(units)} instruments.")

    def _unknown(self, text: str) -> NotFound:
        listed = self._listed()
        return NotFound(
            f"{text} There are {listed}." if listed else text, code=ErrorCode.UNKNOWN_INSTRUMENT
        )

    def _retired(self, name: str, owner: str) -> NotFound:
        """A name that meant that unit, and may mean another by the owner's word since."""
        bare = name.strip().casefold().removeprefix(PREFIX)
        heir = next((i for i in self._pool.all() if i.alias.casefold() == bare), None)
        now = f"{PREFIX}{self._namer.suffix(owner)}"
        text = f"{name!r} was the name of {owner}, which is called {now!r} now."
        if heir is not None:
            text += f" {heir.alias!r} is {self.name_of(heir)!r} until a restart."
        return NotFound(text, code=ErrorCode.UNKNOWN_INSTRUMENT, data={"renamed_to": now})

    def _listed(self) -> str:
        names = self.all()
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return ", ".join(names[:SHOWN]) + more

    def _refresh(self) -> None:
        for one in self._pool.all():
            entry = KnownInstrument(instrument_id=one.id, profile_key=FAMILY, alias=one.alias or "")
            if self._known.get(one.id) != entry:
                self._known[one.id] = entry
                self._namer.arrive(entry)
