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

from edged.instruments.instrument import Instrument
from edged.instruments.line_state import LineState
from edged.instruments.registration import CONNECTED, RegistrationState


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


StateOf = Callable[[Instrument], UnitState]
# Not sets: each look into one would ask a member for its hash, in Python.
GONE: Final = (RegistrationState.AWAY, RegistrationState.ABSENT)
UNREACHED: Final = (LineState.LOST, LineState.CONNECTING, LineState.CLOSED)


def unit_state(
    instrument: Instrument, *, is_locked: bool, is_aside: Callable[[str], bool]
) -> UnitState:
    """The state: the first that holds.

    Args:
        is_aside: whether discovery has set aside what is at an address now. Of a unit to which a
            line leads that is not asked: the line looks after it.
    """
    if not instrument.is_reachable and is_aside(instrument.address):
        return UnitState.SET_ASIDE
    if is_locked:
        return UnitState.LOCKED
    if instrument.is_silent:
        return UnitState.SILENT
    registration, line = instrument.registration, instrument.line_state
    if registration in GONE:
        return UnitState.AWAY
    if registration not in CONNECTED or line in UNREACHED:
        return UnitState.LOST
    return UnitState.READY if line is LineState.READY else UnitState.BUSY


def heard_ms(instrument: Instrument, now_s: float, now_ms: int) -> int | None:
    """When a unit last answered anything, as Unix epoch milliseconds; ``None``: never.

    Args:
        now_s: now, in monotonic seconds.
        now_ms: now, as Unix epoch milliseconds.
    """
    ago_s = now_s - instrument.heard_at
    return None if math.isinf(ago_s) else now_ms - round(ago_s * 1_000)


def counted(instruments: Iterable[Instrument], state_of: StateOf) -> dict[str, int]:
    """How many there are in each state that any of them is in."""
    return dict(Counter(state_of(instrument).value for instrument in instruments))
