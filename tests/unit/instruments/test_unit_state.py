"""Every combination of what is known of a unit, and the one word that is told of it."""

import itertools
from collections.abc import Callable

import pytest

from edged.instruments.line_state import LineState
from edged.instruments.registration import CONNECTED, RegistrationState
from edged.instruments.unit_state import Facts, UnitState, unit_state
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


UNREACHED = {L.LOST, L.CONNECTING, L.CLOSED}
EXPECTED: dict[UnitState, Callable[[Facts], bool]] = {
    U.SET_ASIDE: lambda facts: facts.is_set_aside,
    U.LOCKED: lambda facts: facts.is_locked,
    U.AWAY: lambda facts: facts.registration in {R.AWAY, R.ABSENT} and not facts.is_silent,
    U.LOST: lambda facts: (
        (facts.registration not in CONNECTED or facts.line in UNREACHED) and not facts.is_silent
    ),
    U.SILENT: lambda facts: facts.is_silent,
    U.BUSY: lambda facts: facts.line is not L.READY,
    U.READY: lambda _facts: True,
}
"""As docs/instruments.md has it: the first that holds."""


@promise("health.one-state")
def test_every_combination_of_facts_has_the_first_state_that_holds() -> None:
    assert len(EVERYTHING) == len(R) * len(L) * 8
    assert list(EXPECTED) == list(UnitState)
    for facts in EVERYTHING:
        assert unit_state(facts) == next(state for state, holds in EXPECTED.items() if holds(facts))


@pytest.mark.parametrize("state", UnitState)
def test_every_state_is_told_of_something(state: UnitState) -> None:
    assert state in {unit_state(facts) for facts in EVERYTHING}
