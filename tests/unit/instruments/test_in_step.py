"""What a line owes: told what is said on it, without any line."""

from hypothesis import given
from hypothesis import strategies as st

from edged.instruments.in_step import LONGEST_QUIET_S, MOST_HEADERS, InStep, Owed
from tests.promises import promise

HEADERS = st.sampled_from(["A?", "B?", "VOLT", "OUTP"])
EVENTS = st.one_of(
    st.tuples(st.just("asked"), HEADERS),
    st.tuples(st.just("wrote"), HEADERS),
    st.tuples(st.just("left over"), st.floats(0, 10)),
    st.tuples(st.just("doubt"), st.none()),
    st.tuples(st.just("raw"), st.none()),
)


def tell(line: InStep, event: tuple[str, object], at: float) -> None:
    match event:
        case ("asked", str(text)):
            line.asked(text, at)
        case ("wrote", str(text)):
            line.wrote(text)
        case ("left over", float(late_s)):
            line.left_over("more", late_s, is_seen_coming=True)
        case ("doubt", _):
            line.doubt()
        case ("raw", _):
            line.expect_more()


def in_step_after(line: InStep, question: str, at: float) -> None:
    """The question is asked on a line that was brought back, and nothing came."""
    line.proved(at, "*IDN?")
    line.asked(question, at)
    line.rested(at)
    line.looked(at)


@promise("line.in-step")
@given(st.lists(EVENTS, max_size=20), st.sampled_from([("doubt", None), ("raw", None)]))
def test_whatever_came_before_a_doubt_is_settled_by_the_name_alone(
    before: list[tuple[str, object]], doubt: tuple[str, object]
) -> None:
    line = InStep()
    for at, event in enumerate(before):
        tell(line, event, float(at))
    tell(line, doubt, 100.0)
    line.rested(100.0)
    assert line.before(proves_itself=False) & Owed.NAME
    line.proved(101.0, "*IDN?")
    assert line.owed is Owed.NOTHING
    assert line.unproved == []


@given(st.lists(EVENTS, max_size=30))
def test_a_unit_that_was_caught_never_counts_as_calm_again(
    events: list[tuple[str, object]],
) -> None:
    line = InStep()
    line.asked("A?", 0.0)
    line.left_over("more", 0.02, is_seen_coming=True)
    for at, event in enumerate(events, start=1):
        tell(line, event, float(at))
        line.rested(float(at))
    line.asked("B?", 1000.0)
    assert line.owed & Owed.QUIET
    assert line.habits.quiet_s <= LONGEST_QUIET_S
    assert not line.habits.calm


@promise("line.in-step")
def test_a_question_that_is_always_followed_by_a_write_is_looked_at_once() -> None:
    """A sweep's step is: measure, write, measure; 50 ms each time would be its pace."""
    line = InStep()
    line.asked("MEAS?", 0.0)
    line.wrote("VOLT 1")
    assert line.before(proves_itself=False) & Owed.QUIET
    line.rested(0.1)
    line.proved(0.2, "*IDN?")
    line.rested(0.3)
    line.asked("MEAS?", 0.4)
    line.wrote("VOLT 2")
    assert not line.before(proves_itself=False) & Owed.QUIET


def test_what_comes_after_a_write_leaves_the_question_before_it_unlooked_at() -> None:
    line = InStep()
    line.asked("MEAS?", 0.0)
    line.wrote("VOLT 1")
    line.left_over("more", 0.02, is_seen_coming=True)
    line.rested(0.1)
    assert "MEAS?" not in line.habits.calm


def test_in_step_nothing_is_owed_once_a_header_was_looked_at() -> None:
    line = InStep()
    line.asked("MEAS? 1", 0.0)
    assert line.owed is Owed.QUIET
    line.rested(0.1)
    for at in range(1, 50):
        line.proved_at = float(at)
        line.asked(f"MEAS? {at}", at + 0.01)
        assert line.owed is Owed.NOTHING


def test_a_write_is_proved_once_by_the_name_and_never_by_silence() -> None:
    line = InStep()
    line.wrote("VOLT 1")
    assert line.before(proves_itself=False) is Owed.NAME
    line.rested(1.0)
    line.looked(1.0)
    assert line.before(proves_itself=False) is Owed.NAME
    line.proved(2.0, "*IDN?")
    line.wrote("VOLT 2")
    assert line.before(proves_itself=False) is Owed.LOOK


def test_what_acknowledges_a_write_is_told_and_its_header_stays_unproved() -> None:
    line = InStep()
    line.wrote("VOLT 1")
    line.left_over("OK", 0.01, is_seen_coming=True)
    assert "say acknowledge in its profile" in line.habits.warning
    line.proved(1.0, "*IDN?")
    line.wrote("VOLT 2")
    assert line.before(proves_itself=False) & Owed.NAME


@promise("line.in-step")
def test_where_unread_answers_are_dropped_only_a_status_byte_proves_a_write_silent() -> None:
    """GPIB: the question for the name drops the OK before it, and the next one comes late."""
    line = InStep(drops_unread=True)
    line.wrote("NOTE 1")
    assert line.before(proves_itself=False) == Owed.NAME | Owed.QUIET
    line.proved(1.0, "*IDN?")
    line.wrote("NOTE 2")
    assert line.before(proves_itself=False) & Owed.NAME
    line.rested(2.0, is_told=True)
    line.proved(2.1, "*IDN?")
    line.wrote("NOTE 3")
    assert line.before(proves_itself=False) is Owed.LOOK


@promise("line.in-step")
def test_where_unread_answers_are_dropped_one_that_answered_a_write_may_answer_every_one() -> None:
    line = InStep(drops_unread=True)
    line.wrote("NOTE 1")
    line.rested(1.0, is_told=True)
    line.proved(1.1, "*IDN?")
    line.wrote("HELLO")
    line.left_over("OK", 0.01, is_seen_coming=False)
    line.proved(2.0, "*IDN?")
    line.wrote("NOTE 2")
    assert line.before(proves_itself=False) & Owed.NAME


def test_what_is_left_of_a_raw_line_is_no_habit_of_its_unit() -> None:
    line = InStep()
    line.asked("A?;B?", 0.0)
    line.expect_more()
    line.left_over("b", 0.01, is_seen_coming=True)
    assert not line.habits.warning
    assert not line.habits.is_caught


def test_what_comes_long_after_an_answer_does_not_follow_it() -> None:
    line = InStep()
    line.asked("A?", 0.0)
    line.left_over("boot", 60.0, is_seen_coming=False)
    assert line.owed & Owed.NAME
    assert not line.habits.is_caught


def test_headers_without_end_are_not_kept() -> None:
    line = InStep()
    for number in range(MOST_HEADERS + 10):
        in_step_after(line, f"H{number}?", float(number))
    assert len(line.habits.calm) == MOST_HEADERS
    assert line.habits.followed == set()
