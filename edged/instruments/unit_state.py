"""The one word for how a unit is: derived here, and nowhere else.

list_instruments, get_status, doctor, the metrics and the command line all tell what this says, so
that none of them can count otherwise. The state of a registration (``registration.py``) and of a
line (``line_state.py``) are two of the facts that it is made of.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from edged.clock import Clock
from edged.instruments.instrument import Instrument
from edged.instruments.line_state import LineState
from edged.instruments.registration import CONNECTED, RegistrationState
from edged.record import record

__all__ = ["Facts", "StateOf", "UnitState", "counted", "facts_of", "heard_ms", "unit_state"]


class UnitState(enum.StrEnum):
    """How a unit is, for whoever wants to work it; the first that holds.

    ``SET_ASIDE``: it has gone, and what is at its address now hangs, is no instrument or cannot be
    opened; ``LOCKED``: somebody has locked it out; ``AWAY``: it has gone; ``LOST``: it cannot be
    reached, and is tried again; ``SILENT``: it can be reached and does not answer, for however
    long; ``BUSY``: its line is at work.

    An address at which no unit was ever known is set aside without a unit: it is not listed, and
    get_status tells of it under ``set_aside``.
    """

    SET_ASIDE = "set_aside"
    LOCKED = "locked"
    AWAY = "away"
    LOST = "lost"
    SILENT = "silent"
    BUSY = "busy"
    READY = "ready"


@record
class Facts:
    """What the state of a unit is derived from.

    Attributes:
        is_set_aside: discovery has set aside what is at its address now.
        is_silent: the last that was asked on its connection was not answered in time, and nothing
            has been since.
    """

    registration: RegistrationState
    line: LineState
    is_set_aside: bool
    is_locked: bool
    is_silent: bool


StateOf = Callable[[Instrument], UnitState]
GONE: Final = frozenset({RegistrationState.AWAY, RegistrationState.ABSENT})
UNREACHED: Final = frozenset({LineState.LOST, LineState.CONNECTING, LineState.CLOSED})


def unit_state(facts: Facts) -> UnitState:
    """The state: the first that holds."""
    if facts.is_set_aside:
        return UnitState.SET_ASIDE
    if facts.is_locked:
        return UnitState.LOCKED
    if facts.is_silent:
        return UnitState.SILENT
    if facts.registration in GONE:
        return UnitState.AWAY
    if facts.registration not in CONNECTED or facts.line in UNREACHED:
        return UnitState.LOST
    return UnitState.READY if facts.line is LineState.READY else UnitState.BUSY


def facts_of(instrument: Instrument, *, is_locked: bool, is_aside: Callable[[str], bool]) -> Facts:
    """What holds of a unit now.

    Args:
        is_aside: whether what is at an address was set aside. Of a unit to which a line leads that
            is not asked: the line looks after it.
    """
    return Facts(
        registration=instrument.registration,
        line=instrument.line_state,
        is_set_aside=not instrument.is_reachable and is_aside(instrument.address),
        is_locked=is_locked,
        is_silent=instrument.is_silent,
    )


def heard_ms(instrument: Instrument, clock: Clock) -> int | None:
    """When a unit last answered anything, as Unix epoch milliseconds; ``None``: never."""
    ago_s = clock.monotonic() - instrument.heard_at
    return None if math.isinf(ago_s) else clock.wall_ms() - round(ago_s * 1_000)


def counted(instruments: Iterable[Instrument], state_of: StateOf) -> dict[str, int]:
    """How many there are in each state that any of them is in."""
    return dict(Counter(state_of(instrument).value for instrument in instruments))
