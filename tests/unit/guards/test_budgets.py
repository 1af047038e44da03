"""How often a command may be sent, whatever the clocks do and however often the daemon dies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edged.guards.budgets import HOUR_S, Ledger
from edged.profiles.budget import Budget
from edged.sharing.leases import Moment

KEY = ("SN1", "output_on")


def at(second: float, wall_ms: int = 0) -> Moment:
    return Moment(second, wall_ms)


def test_what_was_given_back_is_free_again_and_what_was_spent_is_not() -> None:
    ledger, budget = Ledger(), Budget(per_hour=1)
    first = ledger.reserve(KEY, budget, at(0))
    assert first is not None
    assert ledger.reserve(KEY, budget, at(1)) is None
    ledger.give_back(first)
    second = ledger.reserve(KEY, budget, at(2))
    assert second is not None
    ledger.spend(second, at(3))
    ledger.give_back(second)
    assert ledger.reserve(KEY, budget, at(4)) is None
    assert ledger.wait_s(KEY, budget, at(4)) == HOUR_S - 1
    assert ledger.reserve(KEY, budget, at(3 + HOUR_S)) is not None


def test_each_command_of_each_unit_has_its_own_and_nothing_is_kept_of_the_old() -> None:
    ledger, budget = Ledger(), Budget(min_interval_s=5)
    for name in ("a", "b"):
        taken = ledger.reserve((name, "output_on"), budget, at(0))
        assert taken is not None
        ledger.spend(taken, at(0))
        assert ledger.spent((name, "output_on"), at(HOUR_S)) == 0
    assert not ledger.left()


def test_what_a_dead_life_had_reserved_counts_as_sent_just_now() -> None:
    ledger, budget = Ledger(), Budget(per_hour=1)
    assert ledger.reserve(KEY, budget, at(0)) is not None
    heir = Ledger()
    heir.restore(ledger.left(), at(100))
    assert heir.wait_s(KEY, budget, at(100)) == HOUR_S


def test_after_a_reboot_what_lies_in_the_future_counts_as_just_now() -> None:
    ledger, budget = Ledger(), Budget(per_hour=1)
    taken = ledger.reserve(KEY, budget, at(5000, 9_000_000))
    assert taken is not None
    ledger.spend(taken, at(5000, 9_000_000))
    heir = Ledger()
    heir.restore(ledger.left(), at(10, 1_000))
    assert heir.wait_s(KEY, budget, at(10, 1_000)) == HOUR_S
    assert heir.wait_s(KEY, budget, at(10 + HOUR_S, 1_000)) == 0


def test_the_stricter_of_two_budgets_holds() -> None:
    one = Budget(per_hour=3, min_interval_s=2)
    assert one.stricter(Budget(per_hour=5, min_interval_s=9)) == Budget(
        per_hour=3, min_interval_s=9
    )
    assert Budget(per_hour=3).stricter(Budget()) == Budget(per_hour=3)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(0, 4000)),
        st.tuples(st.just("set_clock"), st.integers(-10_000_000, 10_000_000)),
        st.tuples(st.sampled_from(["reserve", "spend", "give_back", "crash"]), st.integers(0, 5)),
    ),
    max_size=80,
)


@given(STEPS, st.integers(1, 4), st.sampled_from([None, 1, 7, 1000]))
def test_no_order_of_events_sends_more_than_is_allowed_or_blocks_for_ever(
    steps: list[tuple[str, int]], per_hour: int, min_interval_s: float | None
) -> None:
    budget = Budget(per_hour=per_hour, min_interval_s=min_interval_s)
    ledger, true_s, wall_ms = Ledger(), 0, 0
    opened: list[int] = []
    sent: list[int] = []
    disk = ledger.left()
    for kind, number in steps:
        now = at(true_s, wall_ms)
        if kind == "pass":
            true_s, wall_ms = true_s + number, wall_ms + number * 1000
        elif kind == "set_clock":
            wall_ms += number
        elif kind == "reserve":
            taken = ledger.reserve(KEY, budget, now)
            if taken is not None:
                opened.append(taken)
                # What is on disk is no newer than the last reservation.
                disk = ledger.left()
        elif kind == "crash":
            ledger, opened = Ledger(), []
            ledger.restore(disk, now)
            disk = ledger.left()
        elif opened:
            taken = opened.pop(number % len(opened))
            if kind == "spend":
                ledger.spend(taken, now)
                sent.append(true_s)
            else:
                ledger.give_back(taken)
    for index, when in enumerate(sent):
        assert len([one for one in sent if when <= one < when + HOUR_S]) <= per_hour
        if index and min_interval_s is not None:
            assert when - sent[index - 1] >= min_interval_s
    for taken in opened:
        ledger.give_back(taken)
    assert ledger.reserve(KEY, budget, at(true_s + HOUR_S, wall_ms)) is not None
