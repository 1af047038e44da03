"""Every combination of what is known of a unit, and the one word that is told of it."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from edged.instruments.line_state import LineState
from edged.instruments.registration import CONNECTED, RegistrationState
from edged.instruments.unit_state import UnitState, unit_state
from tests.promises import promise

R, L, U = RegistrationState, LineState, UnitState


class Facts(NamedTuple):
    """What the state of a unit is derived from."""

    registration: RegistrationState
    line: LineState
    is_reachable: bool
    is_aside: bool
    is_locked: bool
    is_silent: bool


FALSE_OR_TRUE = (False, True)
EVERYTHING = list(itertools.starmap(Facts, itertools.product(R, L, *[FALSE_OR_TRUE] * 4)))


def state_of(facts: Facts) -> UnitState:
    unit = SimpleNamespace(
        registration=facts.registration,
        line_state=facts.line,
        is_reachable=facts.is_reachable,
        is_silent=facts.is_silent,
        address="here",
    )
    return unit_state(
        unit,  # type: ignore[arg-type]
        is_locked=facts.is_locked,
        is_aside=lambda address: facts.is_aside and address == "here",
    )


UNREACHED = {L.LOST, L.CONNECTING, L.CLOSED}
EXPECTED: dict[UnitState, Callable[[Facts], bool]] = {
    U.SET_ASIDE: lambda facts: facts.is_aside and not facts.is_reachable,
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
    assert len(EVERYTHING) == len(R) * len(L) * 16
    assert list(EXPECTED) == list(UnitState)
    for facts in EVERYTHING:
        assert state_of(facts) == next(state for state, holds in EXPECTED.items() if holds(facts))


@pytest.mark.parametrize("state", UnitState)
def test_every_state_is_told_of_something(state: UnitState) -> None:
    assert state in {state_of(facts) for facts in EVERYTHING}
