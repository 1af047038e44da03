"""Leases: one holder a unit, none for ever, and nothing sent under one that has ended."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from edged.errors import Conflict, EdgedError, NotFound, Refused
from edged.sharing.leases import End, Holder, Lease, Leases, Moment, Permit, new_lease_id
from tests.promises import promise

ALICE = Holder("session:1", "claude-code 2.1 at 127.0.0.1")
BOB = Holder("session:2", "notebook at 127.0.0.1")
NOBODY = Holder("", "curl at 127.0.0.1")
MOST_S = 1_000.0


def at(seconds: float, *, wall_s: float | None = None) -> Moment:
    return Moment(seconds, round((seconds if wall_s is None else wall_s) * 1_000))


def book(most_s: float = MOST_S) -> Leases:
    numbers = itertools.count(1)
    return Leases(most_s=most_s, new_id=lambda: f"lease-{next(numbers)}")


def test_a_unit_that_is_reserved_is_its_holders_and_nobody_elses() -> None:
    leases = book()
    leases.reserve(["psu1"], holder=ALICE, purpose="burn-in", ttl_s=60, now=at(0))
    assert leases.permit("psu1", ALICE, at(1)) == Permit("psu1", 1)
    with pytest.raises(Conflict) as kept_out:
        leases.permit("psu1", BOB, at(10))
    assert "claude-code 2.1 at 127.0.0.1 for 'burn-in', for 50 s" in kept_out.value.message
    assert kept_out.value.data["expires_ms"] == 60_000
    assert "present its id as the argument `lease`" in kept_out.value.remedy


def test_another_session_of_the_same_program_is_not_told_of_itself() -> None:
    leases = book()
    leases.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(0))
    with pytest.raises(Conflict, match="in another session, for"):
        leases.permit("psu1", Holder("session:3", ALICE.who), at(10))


def test_no_refusal_tells_the_id_of_a_lease() -> None:
    leases = book()
    lease = leases.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(0))
    with pytest.raises(Conflict) as kept_out:
        leases.reserve(["psu1"], holder=BOB, purpose="", ttl_s=60, now=at(0))
    told = f"{kept_out.value.message}{kept_out.value.data}{kept_out.value.remedy}"
    assert lease.lease_id not in told
    assert lease.lease_id not in repr(lease)


def test_all_units_are_reserved_or_none() -> None:
    leases = book()
    leases.reserve(["dmm1"], holder=BOB, purpose="", ttl_s=60, now=at(0))
    with pytest.raises(Conflict):
        leases.reserve(["psu1", "dmm1"], holder=ALICE, purpose="", ttl_s=60, now=at(0))
    assert leases.of("psu1", at(0)) is None


def test_a_caller_without_a_key_holds_by_the_leases_id_alone() -> None:
    leases = book()
    lease = leases.reserve(["psu1"], holder=NOBODY, purpose="", ttl_s=60, now=at(0))
    with pytest.raises(Conflict):
        leases.permit("psu1", NOBODY, at(0))
    holder = Holder("session:9", "anybody", lease.lease_id)
    assert leases.permit("psu1", holder, at(0)) == Permit("psu1", 1)


def test_an_id_that_is_none_ended_or_another_units_is_refused_and_says_so() -> None:
    leases = book()
    lease = leases.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(0))
    with pytest.raises(NotFound, match="does not exist, or has ended") as none:
        leases.permit("psu1", Holder("", "x", "lease-none"), at(0))
    assert "present the new id as the argument `lease`" in none.value.remedy
    with pytest.raises(Conflict, match="is of psu1"):
        leases.permit("dmm1", Holder("", "x", lease.lease_id), at(0))
    with pytest.raises(NotFound, match="does not exist, or has ended"):
        leases.permit("psu1", Holder("", "x", lease.lease_id), at(60))


@promise("lease.kept-by-use")
def test_it_never_expires_during_a_call_of_its_holder_and_lasts_its_time_from_the_end() -> None:
    leases = book()
    lease = leases.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(0))
    held = leases.begin_call(ALICE, at(59))
    assert leases.ended(at(500)) == ()
    leases.end_call(held, at(500))
    assert leases.of("psu1", at(559)) is not None
    ((ended, why),) = leases.ended(at(560))
    assert (ended.lease_id, why) == (lease.lease_id, End.UNUSED)


@promise("lease.kept-by-use")
def test_a_run_keeps_it_but_not_longer_than_it_may_last_at_most() -> None:
    leases = book()
    lease = leases.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(0))
    leases.begin_run(lease.lease_id, at(1))
    assert leases.of("psu1", at(MOST_S - 1)) is not None
    assert [why for _, why in leases.ended(at(MOST_S))] == [End.TOO_LONG]
    leases.end_run(lease.lease_id, at(MOST_S + 1))
    assert leases.of("psu1", at(MOST_S + 1)) is None


def test_what_waited_under_an_ended_lease_is_refused_though_its_caller_has_the_unit_again() -> None:
    leases = book()
    first = leases.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(0))
    permit = leases.permit("psu1", ALICE, at(1))
    leases.check_again("psu1", permit, ALICE, at(2))
    leases.end(first.lease_id, now=at(3))
    with pytest.raises(
        Conflict, match="was ended by the end of the lease of psu1 before it was sent"
    ):
        leases.check_again("psu1", permit, ALICE, at(3))
    second = leases.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(4))
    assert second.fence == first.fence + 1
    with pytest.raises(
        Conflict, match="was ended by the end of the lease of psu1 before it was sent"
    ):
        leases.check_again("psu1", permit, ALICE, at(4))


def test_what_waited_while_somebody_else_reserved_is_refused() -> None:
    leases = book()
    permit = leases.permit("psu1", BOB, at(0))
    leases.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(1))
    with pytest.raises(Conflict, match="reserved by claude-code"):
        leases.check_again("psu1", permit, BOB, at(1))


def test_a_restart_keeps_the_earlier_of_both_clocks_deadlines() -> None:
    for monotonic_s, wall_s, left_s in (
        (20, 20, 40),
        (20, 50, 10),  # the wall was set forward
        (20, -500_000, 40),  # and back
        (3, 20, 40),  # the machine was booted anew: its monotonic scale begins again
    ):
        before, after = book(), book()
        lease = before.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(0))
        after.restore([lease], {}, at(monotonic_s, wall_s=wall_s))
        assert after.of("psu1", at(monotonic_s + left_s - 1)) is not None
        assert after.of("psu1", at(monotonic_s + left_s)) is None
        again = after.reserve(
            ["psu1"], holder=BOB, purpose="", ttl_s=60, now=at(monotonic_s + left_s)
        )
        assert again.fence == 2


def test_a_bench_that_gives_no_leases_says_so() -> None:
    with pytest.raises(Refused, match="LEASE_MAX_SEC"):
        book(most_s=0).reserve(["psu1"], holder=ALICE, purpose="", ttl_s=60, now=at(0))


def test_an_id_has_at_least_96_random_bits() -> None:
    ids = {new_lease_id() for _ in range(100)}
    assert len(ids) == 100
    assert min(len(one.removeprefix("lease-")) for one in ids) * 6 >= 96


UNITS = ("psu1", "psu2", "dmm1")
HOLDERS = (ALICE, BOB, NOBODY)


class AnyOrder(RuleBasedStateMachine):
    """Grants, renewals, ends, calls, runs, clock steps and crashes in any order."""

    granted = Bundle("granted")
    calls = Bundle("calls")
    permits = Bundle("permits")

    def __init__(self) -> None:
        super().__init__()
        self.leases = book()
        self.monotonic_s = 0.0
        self.wall_s = 0.0
        self.life = 0
        self.busy: dict[str, int] = {}
        self.granted_at: dict[str, float] = {}
        self.granted_wall: dict[str, float] = {}
        self.highest: dict[str, int] = {}
        self.numbers = itertools.count(1)

    @property
    def now(self) -> Moment:
        return Moment(self.monotonic_s, round(self.wall_s * 1_000))

    @rule(
        target=granted,
        units=st.lists(st.sampled_from(UNITS), min_size=1, max_size=3, unique=True),
        holder=st.sampled_from(HOLDERS),
        ttl_s=st.integers(30, 2_000),
    )
    def reserve(self, units: list[str], holder: Holder, ttl_s: int) -> object:
        taken = [self.leases.of(unit, self.now) for unit in units]
        try:
            lease = self.leases.reserve(units, holder=holder, purpose="", ttl_s=ttl_s, now=self.now)
        except Conflict:
            assert any(taken)
            return multiple()
        assert not any(taken)
        for unit in units:
            assert lease.fence > self.highest.get(unit, 0)
            self.highest[unit] = lease.fence
        self.granted_at[lease.lease_id] = self.monotonic_s
        self.granted_wall[lease.lease_id] = self.wall_s
        return lease.lease_id

    @rule(lease_id=granted, ttl_s=st.none() | st.integers(30, 2_000))
    def renew(self, lease_id: str, ttl_s: int | None) -> None:
        try:
            self.leases.renew(lease_id, now=self.now, ttl_s=ttl_s)
        except NotFound:
            assert lease_id not in {lease.lease_id for lease in self.leases.all(self.now)}

    @rule(lease_id=granted)
    def end(self, lease_id: str) -> None:
        try:
            self.leases.end(lease_id, now=self.now)
        except NotFound:
            return
        assert lease_id not in {lease.lease_id for lease in self.leases.all(self.now)}

    @rule(target=calls, lease_id=granted, is_run=st.booleans())
    def begin(self, lease_id: str, is_run: bool) -> object:
        if not is_run:
            held = self.leases.begin_call(Holder("", "somebody", lease_id), self.now)
            if held:
                self.busy[lease_id] = self.busy.get(lease_id, 0) + 1
            return (lease_id, held, self.life) if held else multiple()
        try:
            self.leases.begin_run(lease_id, self.now)
        except NotFound:
            return multiple()
        return (lease_id, (), self.life)

    @rule(call=calls)
    def finish(self, call: tuple[str, tuple[Lease, ...], int]) -> None:
        lease_id, held, life = call
        if life != self.life or (held and not self.busy.get(lease_id)):
            return
        if held:
            self.leases.end_call(held, self.now)
            self.busy[lease_id] -= 1
        else:
            self.leases.end_run(lease_id, self.now)

    @rule(target=permits, unit=st.sampled_from(UNITS), holder=st.sampled_from(HOLDERS))
    def judge(self, unit: str, holder: Holder) -> object:
        try:
            return (unit, self.leases.permit(unit, holder, self.now), holder)
        except EdgedError:
            assert self.leases.of(unit, self.now) is not None
            return multiple()

    @rule(judged=permits)
    def send(self, judged: tuple[str, Permit | None, Holder]) -> None:
        unit, permit, holder = judged
        try:
            self.leases.check_again(unit, permit, holder, self.now)
        except Conflict:
            return
        lease = self.leases.of(unit, self.now)
        if lease is not None:
            assert lease.holder_key == holder.key
        if permit is not None:
            assert lease is not None
            assert lease.fence == permit.fence

    @rule(seconds=st.integers(1, 1_500), step_s=st.integers(-10_000, 10_000))
    def wait(self, seconds: int, step_s: int) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds + step_s
        self.leases.ended(self.now)

    @rule(away_s=st.integers(0, 500), step_s=st.integers(-10_000, 10_000), is_boot=st.booleans())
    def crash(self, away_s: int, step_s: int, is_boot: bool) -> None:
        before = self.leases
        kept = before.all(self.now)
        old_s = self.monotonic_s
        self.monotonic_s = away_s if is_boot else self.monotonic_s + away_s
        self.wall_s += away_s + step_s
        self.leases = Leases(most_s=MOST_S, new_id=lambda: f"again-{next(self.numbers)}")
        self.leases.restore(kept, before.fences, self.now)
        self.life += 1
        self.busy = {}
        # Where the one scale has begun again nobody knows more than the wall's clock tells.
        self.granted_at = {
            lease.lease_id: self.monotonic_s
            - (
                max(0.0, self.wall_s - self.granted_wall[lease.lease_id])
                if is_boot
                else old_s - self.granted_at[lease.lease_id]
            )
            for lease in kept
        }

    @invariant()
    def no_unit_has_two_holders(self) -> None:
        units = [unit for lease in self.leases.all(self.now) for unit in lease.units]
        assert len(units) == len(set(units))

    @invariant()
    def none_lasts_for_ever(self) -> None:
        for lease in self.leases.all(self.now):
            age_s = self.monotonic_s - self.granted_at[lease.lease_id]
            assert age_s < MOST_S or self.busy.get(lease.lease_id)

    @invariant()
    def it_is_told_when_the_next_one_ends(self) -> None:
        next_s = self.leases.next_end_s()
        if next_s is None:
            assert not self.leases.all(self.now)
        # Else one whose last call is over has ended, and is about to be told.
        elif self.monotonic_s < next_s < float("inf"):
            far = Moment(next_s, self.now.wall_ms)
            assert len(self.leases.all(far)) < len(self.leases.all(self.now))


@promise("lease.never-two")
def test_in_any_order_there_are_never_two_holders_nor_a_lease_for_ever() -> None:
    run_state_machine_as_test(AnyOrder)


@promise("lease.max")
def test_calls_that_overlap_keep_no_lease_beyond_its_longest() -> None:
    leases, holder = book(), Holder("session:1", "ben")
    lease = leases.reserve(["psu1"], holder=holder, purpose="", ttl_s=MOST_S, now=Moment(0.0, 0))
    first = leases.begin_call(holder, Moment(MOST_S - 1.0, 0))
    assert first == (lease,)
    late = Moment(MOST_S + 1.0, 0)
    # The call that runs keeps it; the next does not.
    assert leases.of("psu1", late) is lease
    assert leases.begin_call(holder, late) == ()
    leases.end_call(first, late)
    assert leases.of("psu1", late) is None


RUN = Holder(ALICE.key, ALICE.who, run_id="exp-1")


def test_what_a_run_has_reserved_is_the_runs_and_not_its_clients_until_it_is_paused() -> None:
    leases = book()
    lease = leases.reserve_for_run(["psu1", "smu1"], holder=RUN, for_s=5 * MOST_S, now=at(0))
    assert leases.permit("psu1", RUN, at(4 * MOST_S)) is not None
    for one in (ALICE, Holder("", "cli", lease.lease_id), BOB, Holder("", "x", run_id="exp-2")):
        with pytest.raises(Conflict) as kept_out:
            leases.permit("psu1", one, at(1))
        assert "psu1 is used by exp-1 of claude-code 2.1 at 127.0.0.1" in kept_out.value.message
        assert kept_out.value.data["run_id"] == "exp-1"
        assert lease.lease_id not in f"{kept_out.value}{kept_out.value.data}"

    lease.is_paused = True

    leases.permit("psu1", ALICE, at(1))
    leases.permit("psu1", Holder("", "cli", lease.lease_id), at(1))
    permit = leases.permit("psu1", RUN, at(1))
    with pytest.raises(Conflict):
        leases.permit("psu1", BOB, at(1))
    lease.is_paused = False
    with pytest.raises(Conflict):
        leases.check_again("psu1", permit, ALICE, at(2))
    assert [why for _, why in leases.ended(at(5 * MOST_S))] == [End.TOO_LONG]


def test_a_run_gets_all_of_its_units_or_none_and_is_told_who_has_them() -> None:
    leases = book()
    leases.reserve(["psu1"], holder=BOB, purpose="burn-in", ttl_s=60, now=at(0))
    leases.reserve_for_run(["smu2"], holder=Holder("", "cli", run_id="exp-0"), for_s=60, now=at(0))

    with pytest.raises(Conflict) as taken:
        leases.reserve_for_run(["smu1", "psu1", "smu2"], holder=RUN, for_s=60, now=at(1))

    assert "psu1 is reserved by notebook at 127.0.0.1 for 'burn-in'" in taken.value.message
    assert "smu2 is used by exp-0 of cli" in taken.value.message
    assert leases.of("smu1", at(1)) is None


def test_what_its_client_had_reserved_is_the_clients_again_after_the_run() -> None:
    leases = book()
    own = leases.reserve(["psu1"], holder=ALICE, purpose="", ttl_s=900, now=at(0))
    run = leases.reserve_for_run(["psu1"], holder=RUN, for_s=60, now=at(1))
    with pytest.raises(Conflict):
        leases.permit("psu1", ALICE, at(2))

    leases.end(run.lease_id, now=at(3))

    assert leases.of("psu1", at(3)) == own
    leases.reserve_for_run(["psu1"], holder=RUN, for_s=60, now=at(4))
    assert leases.of("psu1", at(64)) == own


def test_a_run_may_reserve_where_nobody_else_may_and_a_restart_shortens_nothing_of_it() -> None:
    leases = book(most_s=0)
    lease = leases.reserve_for_run(["psu1"], holder=RUN, for_s=9 * MOST_S, now=at(0))
    again = book(most_s=0)

    again.restore([lease], leases.fences, at(10))

    found = again.of("psu1", at(8 * MOST_S))
    assert found is not None
    assert found.run_id == "exp-1"
