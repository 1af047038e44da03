import pytest

from edged.errors import Fault
from edged.instruments.registration import (
    TRANSITIONS,
    WITH_TOOLS,
    RegistrationEvent,
    RegistrationState,
    next_registration_state,
)

S, E = RegistrationState, RegistrationEvent


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("event", E)
def test_each_cell_is_what_the_table_says_or_raises(
    state: RegistrationState, event: RegistrationEvent
) -> None:
    following = TRANSITIONS[state].get(event)
    if following is None:
        with pytest.raises(Fault):
            next_registration_state(state, event)
    else:
        assert next_registration_state(state, event) is following


def test_an_instrument_registers_is_lost_comes_back_and_goes_away() -> None:
    state = S.ABSENT
    story = [
        (E.SEEN, S.PROBING),
        (E.ANSWERED_WITH_PROFILE, S.REGISTERED),
        (E.NO_ANSWER, S.RECONNECTING),
        (E.ANSWERED_WITH_PROFILE, S.REGISTERED),
        (E.NO_ANSWER, S.RECONNECTING),
        (E.GONE_PLACED, S.AWAY),
        (E.NO_ANSWER, S.AWAY),
        (E.ANSWERED_WITH_PROFILE, S.REGISTERED),
        (E.GONE_PLUGGED, S.ABSENT),
    ]
    for event, expected in story:
        state = next_registration_state(state, event)
        assert state is expected


def test_what_never_answered_never_registers_from_aside() -> None:
    with pytest.raises(Fault):
        next_registration_state(S.SET_ASIDE, E.ANSWERED_WITH_PROFILE)


def test_tools_stay_through_a_reconnect_and_go_when_away() -> None:
    assert WITH_TOOLS == (S.REGISTERED, S.RECONNECTING)
