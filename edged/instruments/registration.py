"""How an instrument comes to be known and to be gone: the registration states, pure.

The table is printed in docs/states.md; ``pool.py`` and ``discovery/loop.py`` keep it, nothing else
decides a registration's next state. "Plugged" are buses that tell of a departure (USB, serial);
everything else is "placed": it has an address that goes on existing without it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from edged.errors import ErrorCode, Fault


class RegistrationState(enum.StrEnum):
    """What is known of an instrument.

    ``LISTED`` has no profile and is reached by raw SCPI; ``REGISTERED`` has its tools;
    ``RECONNECTING`` keeps them for a while; ``AWAY`` is listed without them. ``SET_ASIDE`` is what
    becomes of an address at which nobody was ever known (``KnownAddress.is_aside`` of discovery): a
    unit that was met never gets there. Of one that has gone ``unit_state.py`` says what its address
    has come to.
    """

    ABSENT = "absent"
    PROBING = "probing"
    LISTED = "listed"
    REGISTERED = "registered"
    RECONNECTING = "reconnecting"
    AWAY = "away"
    SET_ASIDE = "set_aside"


class RegistrationEvent(enum.Enum):
    """What can happen to a registration; the two ``GONE_…`` are one column of the architecture."""

    SEEN = "seen"
    ANSWERED_WITH_PROFILE = "answered, profile fits"
    ANSWERED_WITHOUT_PROFILE = "answered, no profile"
    NO_ANSWER = "no answer"
    GONE_PLUGGED = "gone (USB, serial)"
    GONE_PLACED = "gone (LAN, configured)"


def next_registration_state(
    state: RegistrationState, event: RegistrationEvent
) -> RegistrationState:
    """Where ``event`` takes a registration.

    Raises:
        Fault: the table has no such cell; nothing has changed.
    """
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise Fault(
            f"An instrument that is {state.value} cannot meet {event.value!r}.",
            code=ErrorCode.INTERNAL,
        )
    return following


# Not sets: see unit_state.
CONNECTED: Final = (RegistrationState.REGISTERED, RegistrationState.LISTED)
"""States in which the unit answers, as far as anybody has noticed."""
WITH_TOOLS: Final = (RegistrationState.REGISTERED, RegistrationState.RECONNECTING)
"""States in which an instrument's tools are listed (when it has a profile at all)."""

_S = RegistrationState
_E = RegistrationEvent
_ANSWERS: Final = {
    _E.ANSWERED_WITH_PROFILE: _S.REGISTERED,
    _E.ANSWERED_WITHOUT_PROFILE: _S.LISTED,
}

TRANSITIONS: Final[Mapping[RegistrationState, Mapping[RegistrationEvent, RegistrationState]]] = (
    MappingProxyType(
        {
            _S.ABSENT: {
                _E.SEEN: _S.PROBING,
                _E.GONE_PLUGGED: _S.ABSENT,
                _E.GONE_PLACED: _S.ABSENT,
            },
            _S.PROBING: {
                _E.SEEN: _S.PROBING,
                **_ANSWERS,
                _E.NO_ANSWER: _S.SET_ASIDE,
                _E.GONE_PLUGGED: _S.ABSENT,
                _E.GONE_PLACED: _S.ABSENT,
            },
            _S.LISTED: {
                _E.SEEN: _S.LISTED,
                # A profile was written for it, or taken from it, while it was here.
                **_ANSWERS,
                _E.NO_ANSWER: _S.RECONNECTING,
                _E.GONE_PLUGGED: _S.ABSENT,
                _E.GONE_PLACED: _S.AWAY,
            },
            _S.REGISTERED: {
                _E.SEEN: _S.REGISTERED,
                **_ANSWERS,
                _E.NO_ANSWER: _S.RECONNECTING,
                _E.GONE_PLUGGED: _S.ABSENT,
                _E.GONE_PLACED: _S.AWAY,
            },
            _S.RECONNECTING: {
                _E.SEEN: _S.PROBING,
                **_ANSWERS,
                _E.NO_ANSWER: _S.RECONNECTING,
                _E.GONE_PLUGGED: _S.ABSENT,
                _E.GONE_PLACED: _S.AWAY,
            },
            _S.AWAY: {
                _E.SEEN: _S.PROBING,
                **_ANSWERS,
                _E.NO_ANSWER: _S.AWAY,
                _E.GONE_PLUGGED: _S.AWAY,
                _E.GONE_PLACED: _S.AWAY,
            },
            _S.SET_ASIDE: {
                _E.SEEN: _S.PROBING,
                _E.NO_ANSWER: _S.SET_ASIDE,
                _E.GONE_PLUGGED: _S.ABSENT,
                _E.GONE_PLACED: _S.ABSENT,
            },
        }
    )
)
