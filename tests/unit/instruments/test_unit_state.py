"""Every combination of what is known of a unit, and the one word that is told of it."""

import itertools

import pytest

from edged.instruments.line_state import LineState
from edged.instruments.registration import CONNECTED, RegistrationState
from edged.instruments.unit_state import RULES, Facts, UnitState, unit_state
from tests.promises import promise

R, L, U = RegistrationState, LineState, UnitState
EVERYTHING = [
    Facts(
        registration=registration,
        line=line,
        is_set_aside=is_set_aside,
        is_locked=is_locked,
        is_silent=is_silent,
    )
    for registration, line, is_set_aside, is_locked, is_silent in itertools.product(
        R, L, (False, True), (False, True), (False, True)
    )
]


def expected(facts: Facts) -> UnitState:
    """As docs/instruments.md has it, written out another way than the rules are."""
    if facts.is_set_aside:
        return U.SET_ASIDE
    if facts.is_locked:
        return U.LOCKED
    if facts.is_silent:
        return U.SILENT
    if facts.registration in {R.AWAY, R.ABSENT}:
        return U.AWAY
    if facts.registration not in CONNECTED:
        return U.LOST
    return {L.READY: U.READY, L.BUSY: U.BUSY, L.RECOVERING: U.BUSY}.get(facts.line, U.LOST)


@promise("health.one-state")
def test_every_combination_of_facts_has_the_first_state_that_holds() -> None:
    assert len(EVERYTHING) == len(R) * len(L) * 8
    assert [unit_state(facts) for facts in EVERYTHING] == [expected(f) for f in EVERYTHING]


def test_the_states_stand_in_the_order_in_which_they_are_told() -> None:
    assert [state for state, _ in RULES] == list(UnitState)


@pytest.mark.parametrize("state", UnitState)
def test_every_state_is_told_of_something(state: UnitState) -> None:
    assert state in {unit_state(facts) for facts in EVERYTHING}
