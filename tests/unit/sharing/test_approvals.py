"""Questions that wait: the first answer counts, and nothing waits for ever."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from edged.errors import Conflict, EdgedError, NotFound, Refused
from edged.sharing.approvals import MOST_OF_ONE, MOST_WAITING, Approvals, Question, Verdict
from edged.sharing.leases import Moment


def question(
    approval_id: str = "ask-1", *, until_s: float = 100, digest: str = "d", who: str = "ben"
) -> Question:
    return Question(
        approval_id=approval_id,
        digest=digest,
        who=who,
        instrument_id="TCPIP::1",
        instrument="psu1",
        tool="execute_command output_on",
        parameters=("channel 1",),
        sends=(":OUTP CH1,ON",),
        count=1,
        lines_digest="0123456789abcdef" * 4,
        packed=b"",
        ways=frozenset({"cli", "client"}),
        until=Moment(until_s, round(until_s * 1_000)),
    )


def book() -> Approvals:
    numbers = itertools.count(1)
    return Approvals(lambda: f"ask-{next(numbers)}")


NOW = Moment(0, 0)


def test_the_first_answer_counts() -> None:
    approvals = book()
    approvals.ask(question(), NOW)
    told = approvals.answer("ask-1", Verdict.DENIED, way="cli", by="anna", now=NOW)
    assert (told.verdict, told.by) == (Verdict.DENIED, "anna")
    with pytest.raises(Conflict, match="denied already, by anna"):
        approvals.answer("ask-1", Verdict.APPROVED, way="client", by="ben", now=NOW)
    assert approvals.waiting(NOW) == ()
    assert approvals.same("d", NOW) is told


def test_it_is_answered_by_the_ways_that_the_owner_named() -> None:
    approvals = book()
    approvals.ask(question(), NOW)
    with pytest.raises(Refused, match="cli or client"):
        approvals.answer("ask-1", Verdict.APPROVED, way="page", by="anna", now=NOW)
    assert len(approvals.waiting(NOW)) == 1


def test_what_has_ended_cannot_be_answered() -> None:
    approvals = book()
    approvals.ask(question(until_s=10), NOW)
    late = Moment(10, 10_000)
    with pytest.raises(NotFound):
        approvals.answer("ask-1", Verdict.APPROVED, way="cli", by="anna", now=late)
    assert approvals.same("d", late) is None
    assert [one.approval_id for one in approvals.drop_ended(late)] == ["ask-1"]


def test_no_more_wait_than_anybody_answers() -> None:
    approvals = book()
    for number in range(MOST_WAITING):
        approvals.ask(question(f"ask-{number}", who=f"client {number}"), NOW)
    with pytest.raises(Conflict, match="wait for a person already"):
        approvals.ask(question("one more"), NOW)
    approvals.ask(question("later", until_s=300), Moment(200, 200_000))


def test_one_caller_does_not_keep_others_from_asking() -> None:
    approvals = book()
    for number in range(MOST_OF_ONE):
        approvals.ask(question(f"ask-{number}", who="one"), NOW)
    with pytest.raises(Conflict, match="questions of one wait"):
        approvals.ask(question("one more", who="one"), NOW)
    approvals.ask(question("another's", who="two"), NOW)


class AnyOrder(RuleBasedStateMachine):
    """Questions, answers, ends and time in any order."""

    asked = Bundle("asked")

    def __init__(self) -> None:
        super().__init__()
        self.approvals = book()
        self.at_s = 0.0
        self.numbers = itertools.count(1)
        self.verdicts: dict[str, Verdict] = {}
        self.until: dict[str, float] = {}

    @property
    def now(self) -> Moment:
        return Moment(self.at_s, round(self.at_s * 1_000))

    @rule(target=asked, ttl_s=st.integers(1, 100))
    def ask(self, ttl_s: int) -> object:
        name = f"ask-{next(self.numbers)}"
        self.until[name] = self.at_s + ttl_s
        asked = question(name, until_s=self.at_s + ttl_s, digest=name)
        try:
            self.approvals.ask(asked, self.now)
        except Conflict:
            assert len(self.approvals.waiting(self.now)) + len(self.verdicts) >= MOST_OF_ONE
            return multiple()
        return name

    @rule(name=asked, verdict=st.sampled_from(Verdict), way=st.sampled_from(["cli", "page"]))
    def answer(self, name: str, verdict: Verdict, way: str) -> None:
        try:
            told = self.approvals.answer(name, verdict, way=way, by="anna", now=self.now)
        except EdgedError:
            return
        assert way == "cli"
        assert name not in self.verdicts
        assert self.at_s < self.until[name]
        self.verdicts[name] = verdict
        assert told.verdict is verdict

    @rule(name=asked)
    def end(self, name: str) -> None:
        self.approvals.end(name)
        assert self.approvals.same(name, self.now) is None

    @rule()
    def end_all(self) -> None:
        self.approvals.end_all()
        assert self.approvals.waiting(self.now) == ()

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.at_s += seconds

    @invariant()
    def what_waits_is_in_time_and_unanswered(self) -> None:
        for one in self.approvals.waiting(self.now):
            assert one.approval_id not in self.verdicts
            assert self.at_s < self.until[one.approval_id]
        assert len(self.approvals.waiting(self.now)) <= MOST_WAITING

    @invariant()
    def an_answer_stays_what_it_was(self) -> None:
        for name, verdict in self.verdicts.items():
            same = self.approvals.same(name, self.now)
            assert same is None or same.verdict is verdict


def test_in_any_order_each_question_has_one_answer() -> None:
    run_machine(AnyOrder)
