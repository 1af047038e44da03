"""A line driven by hand: no thread, no socket; what is sent is read from the link's record."""

import asyncio
import functools
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from edged.errors import Conflict, EdgedError, ErrorCode, Failed, Fault, Invalid, Refused
from edged.instruments.conversation import (
    Ask,
    AskBlock,
    Conversation,
    ExpectMore,
    Pause,
    Send,
    command_conversation,
    raw_conversation,
    write_lines,
)
from edged.instruments.dialogue import Dialogue
from edged.instruments.in_step import Habits
from edged.instruments.line import BoundInstrument, Line, LineDown, LineReport, LineUp, UnitChanged
from edged.instruments.line_state import LineState
from edged.instruments.mailbox import Job, Priority
from edged.instruments.trace import Trace
from edged.profiles.model import Command, Completion, CompletionKind, Connection, ErrorCheck
from edged.scpi.kinds import ErrorKind
from edged.transports.address import Cleaning
from edged.transports.link import Link, LinkGarbled, LinkLost, LinkTimeout
from tests.bench.driven_clock import DrivenClock
from tests.bench.job_owner import NoActor
from tests.bench.scripted_link import ScriptedLink
from tests.promises import promise

IDN = "ACME,M,1,1"
ANSWERS = {"*IDN?": b"ACME,M,1,1\n", "A?": b"a\n", "B?": b"b\n"}
GREETING = ["*IDN?"]


class Bench:
    """A line on a scripted link, and somebody to wait for its jobs."""

    def __init__(
        self, clock: DrivenClock, cleaning: Cleaning = Cleaning.REOPEN, max_block_mb: int = 64
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = clock
        self.link = ScriptedLink(dict(ANSWERS))
        self.reports: list[LineReport] = []
        self.line = Line(
            name="psu",
            link=self.link,
            clock=clock,
            trace=Trace(clock),
            cleaning=cleaning,
            is_same_unit=lambda one, other: one.split(",")[2:3] == other.split(",")[2:3],
            report=self.reports.append,
            max_block_mb=max_block_mb,
        )
        self.line.bound = BoundInstrument(number=1, idn=IDN)
        self._ticket = 0

    def ticket(self) -> int:
        self._ticket += 1
        return self._ticket

    def serve(
        self,
        *steps: Any,
        priority: Priority = Priority.COMMAND,
        unit: int = 1,
        timeout_s: float = 5.0,
        make: Callable[[], Conversation[Any]] | None = None,
        own_s: float | None = None,
        submitted_at: float | None = None,
    ) -> Any:
        """Serve one job that takes these steps; gives its answers or raises what it failed by."""

        def talk() -> Conversation[list[Any]]:
            answers: dict[int, Any] = {}
            for place, step in enumerate(steps):
                answers[place] = yield step
            return list(answers.values())

        job = Job(
            make=make or talk,
            priority=priority,
            name="job",
            deadline=self.clock.monotonic() + timeout_s,
            unit=unit,
            future=self.loop.create_future(),
            owner=NoActor(self.link.wake, self.loop),
        )
        if own_s is not None:
            job.own_s, job.submitted_at = own_s, submitted_at or self.clock.monotonic()
        self.line.serve(job, self.ticket())
        return self.loop.run_until_complete(job.future)

    def fail(self, *steps: Any, **more: Any) -> EdgedError:
        with pytest.raises(EdgedError) as caught:
            self.serve(*steps, **more)
        return caught.value

    def heal(self) -> None:
        self.line.heal(self.ticket())


@pytest.fixture
def bench(driven_clock: DrivenClock) -> Iterator[Bench]:
    bench = Bench(driven_clock)
    yield bench
    bench.loop.close()


def later(bench: Bench, seconds: float) -> None:
    bench.loop.run_until_complete(bench.clock.advance(seconds))


# Opening


def test_the_unit_proves_who_it_is_before_it_is_driven(bench: Bench) -> None:
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.link.written == ["*IDN?", "A?"]
    assert bench.line.state is LineState.READY


def test_a_unit_greeted_on_this_connection_is_not_asked_again(bench: Bench) -> None:
    bench.line.bound = BoundInstrument()
    bench.serve(Ask("*IDN?"), unit=0)
    bench.line.bound = BoundInstrument(number=1, idn=IDN, greeted_at=bench.line.openings)
    bench.serve(Ask("A?"))
    assert bench.link.written == ["*IDN?", "A?"]


def test_a_reconnected_unit_is_greeted_and_its_old_errors_are_read(bench: Bench) -> None:
    errors = ErrorCheck(kind=ErrorKind.QUEUE, query="ERR?")
    connection = Connection(on_connect=("HEAD OFF",), errors=errors)
    bench.line.bound = BoundInstrument(number=1, idn=IDN, connection=connection)
    bench.link.answers["ERR?"] = [b"-1,old\n", b"0\n"]
    bench.serve(Ask("A?"))
    assert bench.link.written == ["*IDN?", "HEAD OFF", "ERR?", "ERR?", "A?"]


def test_an_error_query_answered_by_a_number_alone_may_be_an_acknowledgement(
    bench: Bench,
) -> None:
    errors = ErrorCheck(kind=ErrorKind.QUEUE, query="ERR?")
    bench.line.bound = BoundInstrument(number=1, idn=IDN, connection=Connection(errors=errors))
    bench.link.answers |= {"VOLT 0": b"0\n", "ERR?": b'0,"No error"\n'}
    bench.serve(Ask("A?"))
    make = functools.partial(
        raw_conversation, lines=("VOLT 0",), asks=False, connection=bench.line.bound.connection
    )
    bench.serve(make=make)
    assert bench.serve(Ask("B?")) == ["b"]
    assert "acknowledge" in bench.line.bound.habits.warning


def test_another_unit_at_the_address_is_never_driven(bench: Bench) -> None:
    bench.link.answers["*IDN?"] = b"ACME,M,2,1\n"
    error = bench.fail(Send("OUTP ON"))
    assert error.code is ErrorCode.DISCONNECTED
    assert bench.link.written == ["*IDN?", "*IDN?"]
    assert bench.reports == [UnitChanged(unit=1, idn="ACME,M,2,1")]
    assert bench.line.idle_s() is None
    assert bench.fail(Send("OUTP OFF"), priority=Priority.SAFE).code is ErrorCode.DISCONNECTED
    bench.heal()
    assert bench.link.written == ["*IDN?", "*IDN?"]


@pytest.mark.parametrize("odd", [b"0.030\n", b"ACME,M,7\n", b"Welcome\nto me\n"])
def test_one_odd_answer_is_no_other_unit_and_the_known_one_is_driven_when_it_has_spoken(
    bench: Bench, odd: bytes
) -> None:
    bench.link.answers["*IDN?"] = [odd, IDN.encode() + b"\n"]
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.link.written == ["*IDN?", "*IDN?", "A?"]
    assert bench.reports == []


def test_no_name_twice_is_no_other_unit_and_the_known_one_comes_back(bench: Bench) -> None:
    bench.link.answers["*IDN?"] = [b"ready\n", b"ready\n"]
    assert bench.fail(Send("OUTP ON")).code is ErrorCode.DISCONNECTED
    assert bench.link.written == ["*IDN?", "*IDN?"]
    assert not any(isinstance(report, UnitChanged) for report in bench.reports)
    assert bench.line.idle_s() is not None
    bench.link.answers["*IDN?"] = IDN.encode() + b"\n"
    later(bench, 1.0)
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.reports[-1] == LineUp(unit=1)


def test_a_job_for_a_unit_that_left_is_refused(bench: Bench) -> None:
    bench.line.bound = BoundInstrument(number=2, idn=IDN)
    assert bench.fail(Send("X"), unit=1).code is ErrorCode.DISCONNECTED
    assert bench.link.written == []


def test_garbage_for_a_name_is_no_proof_of_another_unit(bench: Bench) -> None:
    bench.link.answers["*IDN?"] = b"\xff\xfe,\xff,2,\xff\n"
    assert bench.fail(Ask("A?")).code is ErrorCode.DISCONNECTED
    assert [type(report) for report in bench.reports] == [LineDown]
    assert bench.link.written == ["*IDN?", "*IDN?"]


# Staying in step


def test_a_late_answer_is_never_taken_for_another_questions(bench: Bench) -> None:
    error = bench.fail(Ask("SLOW?"))
    assert error.code is ErrorCode.TIMEOUT
    assert isinstance(error, Failed)
    assert error.sent == ("SLOW?",)
    bench.link.arrived = b"late\n"
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.link.events == ["open", "close", "open"]


def test_after_what_came_unasked_the_unit_says_its_name_before_the_next_question(
    bench: Bench,
) -> None:
    bench.serve(Ask("A?"))
    bench.link.arrived = b"surprise\n"
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.events == ["open"]
    assert bench.link.written == ["*IDN?", "A?", "*IDN?", "B?"]


def test_a_line_whose_unit_does_not_say_its_name_any_more_is_opened_anew(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.arrived = b"surprise\n"
    bench.link.answers["*IDN?"] = [b"", b"ACME,M,1,1\n"]
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.events == ["open", "close", "open"]
    assert bench.link.written == ["*IDN?", "A?", "*IDN?", "*IDN?", "B?"]


def test_a_left_over_answer_is_dropped_before_the_units_name(bench: Bench) -> None:
    bench.link.answers["BOTH?"] = b"a\nb\n"
    assert bench.serve(Ask("BOTH?"), ExpectMore()) == ["a", None]
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.written == ["*IDN?", "BOTH?", "*IDN?", "B?"]
    assert not bench.line.bound.habits.warning


def test_what_follows_an_answer_is_remembered_and_waited_for(bench: Bench) -> None:
    bench.link.answers["A?"] = b"a\nmore\n"
    for _ in range(2):
        assert bench.serve(Ask("A?")) == ["a"]
        assert bench.serve(Ask("B?")) == ["b"]
    habits = bench.line.bound.habits
    assert "more" in habits.warning
    assert habits.followed == {"A?"}


def test_a_write_that_is_answered_is_noticed_before_the_next_question(bench: Bench) -> None:
    bench.link.answers["VOLT 7"] = b"OK\n"
    bench.serve(Send("VOLT 7"))
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.written == ["*IDN?", "VOLT 7", "*IDN?", "B?"]
    assert "acknowledge" in bench.line.bound.habits.warning
    assert bench.serve(Send("VOLT 8"), Ask("A?")) == [None, "a"]


def test_a_write_that_is_not_answered_is_proved_once_for_its_header(bench: Bench) -> None:
    bench.serve(Send("VOLT 7"))
    bench.serve(Ask("B?"))
    bench.link.written.clear()
    assert bench.serve(Send("VOLT 8"), Ask("A?")) == [None, "a"]
    assert bench.link.written == ["VOLT 8", "A?"]
    assert not bench.line.bound.habits.warning


def test_an_answer_of_the_wrong_kind_puts_the_line_out_of_step(bench: Bench) -> None:
    def talk() -> Conversation[None]:
        yield Ask("A?")
        raise Failed("No number.", code=ErrorCode.BAD_ANSWER)

    bench.fail(make=talk)
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.written == ["*IDN?", "A?", "*IDN?", "B?"]


def test_the_echo_of_an_earlier_question_in_another_case_is_no_answer(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.answers["B?"] = b"a?\n"
    assert bench.fail(Ask("B?")).code is ErrorCode.BAD_ANSWER


def test_an_acknowledgement_may_repeat_the_line_and_an_answer_may_not(bench: Bench) -> None:
    bench.link.answers["T=10"] = b"T=10\n"
    assert bench.serve(Ask("T=10", may_repeat=True)) == ["T=10"]
    assert bench.fail(Ask("T=10")).code is ErrorCode.BAD_ANSWER


def test_a_block_asked_for_as_text_is_read_by_its_length(bench: Bench) -> None:
    bench.link.answers["A?"] = b"#15a\nb\nc\n"
    assert bench.serve(Ask("A?")) == ["#15a\nb\nc"]
    assert bench.serve(Ask("B?")) == ["b"]


def test_a_line_asked_without_a_pause_is_checked_by_the_units_name_now_and_then(
    bench: Bench,
) -> None:
    for _ in range(100):
        bench.serve(Ask("A?"))
        later(bench, 0.02)
    names = bench.link.written.count("*IDN?")
    assert 3 <= names <= 6


def test_after_a_clear_the_unit_says_its_name_before_it_is_written(
    driven_clock: DrivenClock,
) -> None:
    bench = Bench(driven_clock, Cleaning.CLEAR_OR_REOPEN)
    bench.link.can_clear = True
    bench.line.bound = BoundInstrument(number=1, idn=IDN, greeted_at=1)
    bench.serve(Ask("A?"))
    bench.fail(Ask("SLOW?"))
    bench.link.answers["*IDN?"] = b"ACME,M,2,1\n"
    assert bench.fail(Send("VOLT 7")).code is ErrorCode.DISCONNECTED
    assert "VOLT 7" not in bench.link.written
    assert isinstance(bench.reports[-1], UnitChanged)
    bench.loop.close()


def test_line_ends_alone_are_dropped_without_ado(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.arrived = b"\r\n"
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.events == ["open"]


def test_an_answer_given_twice_is_right_and_the_line_is_cleaned(bench: Bench) -> None:
    bench.link.answers["A?"] = b"a\na\n"
    assert bench.serve(Ask("A?"), Ask("B?")) == ["a", "b"]
    assert bench.link.written == ["*IDN?", "A?", "*IDN?", "B?"]
    assert bench.line.state is LineState.READY
    assert bench.line.idle_s() is None


def test_carriage_returns_and_stray_line_ends_are_stripped(bench: Bench) -> None:
    bench.link.answers["A?"] = b"a\r\n"
    bench.link.answers["B?"] = b"\r\nb\r\n"
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.serve(Ask("B?")) == ["b"]


def test_an_answer_that_does_not_decode_is_given_with_marks_and_the_line_cleaned(
    bench: Bench,
) -> None:
    bench.link.answers["A?"] = b"5\xb0\n"
    assert bench.serve(Ask("A?")) == ["5\ufffd"]
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.written == ["*IDN?", "A?", "*IDN?", "B?"]


def test_an_empty_answer_is_empty(bench: Bench) -> None:
    bench.link.answers["A?"] = b"\n"
    assert bench.serve(Ask("A?")) == [""]


@pytest.mark.parametrize("strays", [b"\n", b"\r\n\r\n", b"\x00\n", b"  \n"])
def test_a_unit_that_sends_empty_lines_before_each_answer_is_kept(
    bench: Bench, strays: bytes
) -> None:
    bench.link.answers = {line: strays + bytes(ANSWERS[line]) for line in ANSWERS}
    for _ in range(3):
        assert bench.serve(Ask("A?"), Ask("B?", may_be_empty=True)) == ["a", "b"]
        bench.heal()
    assert bench.link.events == ["open"]
    assert bench.reports == []


def test_a_question_that_comes_back_is_no_answer(bench: Bench) -> None:
    bench.link.answers["A?"] = b"A?\r\na\r\n"
    assert bench.fail(Ask("A?", may_be_empty=True)).code is ErrorCode.BAD_ANSWER
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.events == ["open", "close", "open"]


def test_a_unit_that_sends_empty_lines_after_each_answer_is_kept(bench: Bench) -> None:
    bench.link.answers = {line: bytes(ANSWERS[line]) + b"\n" for line in ANSWERS}
    for _ in range(3):
        assert bench.serve(Ask("A?"), Ask("B?")) == ["a", "b"]
    assert bench.link.events == ["open"]


def test_an_answer_that_cannot_be_empty_is_waited_for_beyond_an_empty_line(bench: Bench) -> None:
    bench.link.answers["A?"] = b"\n"
    waits: list[float] = []
    read = bench.link.read_message

    def late(terminator: bytes, timeout_s: float) -> bytes:
        waits.append(timeout_s)
        if bench.link.written[-1] == "A?" and not bench.link.arrived:
            bench.link.arrived = b"5\n"
        return read(terminator, timeout_s)

    bench.link.read_message = late  # type: ignore[method-assign]
    assert bench.serve(Ask("A?", 2.0)) == ["5"]
    assert waits[-1] == pytest.approx(2.0)
    # From here on the habit is known: what may be empty is waited for as long.
    assert bench.serve(Ask("A?", 2.0, may_be_empty=True)) == ["5"]
    assert waits[-1] == pytest.approx(2.0)
    assert bench.link.events == ["open"]


@promise("answer.is-its-type")
def test_a_nul_in_front_of_a_line_end_stays_for_the_answer_to_be_judged(bench: Bench) -> None:
    bench.link.answers["A?"] = [b"5.5\x00\n", b"5.5\r\x00\n", b"\x005.5\n", b"5.5\x00\r\n"]

    answers = [bench.serve(Ask("A?"))[0] for _ in range(4)]

    assert answers == ["5.5\x00", "5.5", "5.5", "5.5\x00"]


@promise("answer.is-its-type")
def test_nuls_behind_a_line_end_are_padding_and_a_nul_may_be_the_line_end(bench: Bench) -> None:
    bench.link.answers["A?"] = [b"5.5\n\x00\x00", b"6.5\n\x00\x00"]
    bench.link.answers["B?"] = b"7.5\x00"
    # NULs behind a line end come with the next answer, or before anything is asked.
    bench.link.pending = lambda: b""  # type: ignore[method-assign]
    nul = Connection(read_termination="\x00")

    assert bench.serve(Ask("A?"), Ask("A?")) == ["5.5", "6.5"]
    bench.link.arrived = b""
    bench.line.bound = BoundInstrument(
        number=1, idn=IDN, connection=nul, greeted_at=bench.line.openings
    )
    assert bench.serve(Ask("B?")) == ["7.5"]


def test_empty_lines_without_an_end_are_an_empty_answer_and_the_line_is_cleaned(
    bench: Bench,
) -> None:
    bench.link.answers["A?"] = b"\n" * 500 + b"late\n"
    assert bench.serve(Ask("A?")) == [""]
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.written == ["*IDN?", "A?", "*IDN?", "B?"]


def test_a_clear_that_works_spares_the_reopening(driven_clock: DrivenClock) -> None:
    bench = Bench(driven_clock, Cleaning.CLEAR_OR_REOPEN)
    bench.link.can_clear = True
    bench.fail(Ask("SLOW?"))
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.link.events == ["open", "clear"]
    bench.link.can_clear = False
    bench.fail(Ask("SLOW?"))
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.link.events == ["open", "clear", "clear", "close", "open"]
    bench.loop.close()


# Losing and finding again


def test_a_peer_that_left_while_idle_is_noticed_before_anything_is_sent(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.is_peer_gone = True
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.written == ["*IDN?", "A?", "*IDN?", "B?"]
    assert bench.reports == []


def test_a_write_that_was_sent_is_never_sent_again(bench: Bench) -> None:
    bench.link.answers["GO"] = LinkLost("reset")
    error = bench.fail(Send("GO"))
    assert isinstance(error, Failed)
    assert error.code is ErrorCode.DISCONNECTED
    assert error.sent == ("GO",)
    bench.heal()
    assert bench.link.written.count("GO") == 1


def test_a_refused_connection_fails_the_job_and_is_reported_once(bench: Bench) -> None:
    bench.link.open_errors = [LinkLost("refused"), LinkLost("refused")]
    error = bench.fail(Send("X"))
    assert error.code is ErrorCode.DISCONNECTED
    assert "refused" in error.message
    later(bench, 1)
    assert bench.fail(Send("X")).code is ErrorCode.DISCONNECTED
    assert bench.reports == [LineDown(unit=1, reason="refused")]
    later(bench, 1)
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.reports[1:] == [LineUp(unit=1)]


def test_jobs_in_quick_succession_do_not_hammer_a_dead_address(bench: Bench) -> None:
    bench.link.open_errors = [LinkLost("refused")] * 9
    bench.fail(Send("X"))
    assert bench.fail(Send("X")).code is ErrorCode.DISCONNECTED
    assert bench.link.events == ["open"]
    bench.fail(Send("OFF"), priority=Priority.SAFE)
    assert bench.link.events == ["open", "open"]


def test_a_lost_line_heals_with_growing_waits(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.is_peer_gone = True
    bench.link.open_errors = [LinkLost("refused")] * 3
    waits = []
    for _ in range(4):
        bench.heal()
        waits.append(bench.line.idle_s())
    assert waits[:3] == [0.25, 0.5, 1.0]
    assert waits[3] is None
    assert [type(report) for report in bench.reports] == [LineDown, LineUp]


def test_an_instrument_that_stays_silent_after_reopening_is_down(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.answers["*IDN?"] = b""
    bench.fail(Ask("SLOW?"))
    bench.heal()
    assert [type(report) for report in bench.reports] == [LineDown]
    assert bench.line.state is LineState.LOST


# Safe jobs and pre-emption


def test_a_safe_job_does_not_wait_for_a_busy_instrument_to_say_its_name(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    later(bench, 1.0)
    bench.link.while_waiting = lambda: bench.link.preempt(bench.link.ticket)
    cut_short = bench.fail(Ask("SLOW?"))
    assert cut_short.code is ErrorCode.PREEMPTED
    assert "call again" in cut_short.remedy
    bench.link.while_waiting = None
    bench.serve(Send("OUTP OFF"), priority=Priority.SAFE)
    assert bench.link.written == ["*IDN?", "A?", "SLOW?", "OUTP OFF"]
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.written[4:] == ["*IDN?", "B?"]


def test_a_safe_job_reaches_a_line_that_was_only_silent(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.answers["*IDN?"] = b""
    bench.fail(Ask("SLOW?"))
    bench.heal()
    written = len(bench.link.written)
    bench.serve(Send("OUTP OFF"), priority=Priority.SAFE)
    assert bench.link.written[written:] == ["OUTP OFF"]


def test_a_safe_job_on_a_line_that_was_lost_asks_the_name_first(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.is_peer_gone = True
    bench.serve(Send("OUTP OFF"), priority=Priority.SAFE)
    assert bench.link.written == ["*IDN?", "A?", "*IDN?", "OUTP OFF"]


def test_a_stale_preemption_does_not_hit_the_next_job(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.preempt(bench.link.ticket)
    bench.link.answers["SLOW?"] = b""
    assert bench.fail(Ask("SLOW?")).code is ErrorCode.TIMEOUT


def test_a_job_whose_time_is_over_is_not_sent_and_spoils_nothing(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    assert bench.fail(Send("X"), timeout_s=0.0).code is ErrorCode.TIMEOUT
    assert bench.line.state is LineState.READY
    assert "X" not in bench.link.written


# Steps


def test_gaps_between_commands_are_kept(bench: Bench) -> None:
    bench.line.bound = BoundInstrument(number=1, idn=IDN, connection=Connection(min_gap_ms=50))
    bench.serve(Send("X"), Send("Y"), Pause(0.2))
    assert bench.link.paused == [pytest.approx(0.05), pytest.approx(0.05), 0.2]


def test_a_pause_that_outlasts_the_job_is_not_begun(bench: Bench) -> None:
    assert bench.fail(Send("X"), Pause(9.0)).code is ErrorCode.TIMEOUT
    assert bench.link.paused == []


@pytest.mark.parametrize("length", [0, 1, 1199, 20_020, 1_048_576])
def test_blocks_of_any_length_come_whole(bench: Bench, length: int) -> None:
    body = bytes(range(256)) * (length // 256 + 1)
    block = b"#%d%d" % (len(str(length)), length) + body[:length]
    bench.link.answers["D?"] = b"\n" + block + b"\n"
    answers = bench.serve(AskBlock("D?"), Ask("A?"))
    assert answers[0].endswith(block)
    assert answers[1] == "a"


@promise("blocks.bounded")
@pytest.mark.parametrize("head", [b"#8%d" % (64 * 2**20 + 1), b"#9999999999", b"BM" + b"\xff" * 4])
def test_a_block_over_the_maximum_is_refused_by_its_head(bench: Bench, head: bytes) -> None:
    bench.link.answers["D?"] = head + b"x" * 100
    failed = bench.fail(AskBlock("D?"))
    assert failed.code is ErrorCode.BAD_ANSWER
    assert "too large" in failed.message
    assert "MAX_BLOCK_MB is 64" in failed.message
    announced = int.from_bytes(head[2:], "little") if head[:2] == b"BM" else int(head[2:])
    assert f"{announced} bytes" in failed.message
    assert bench.line.state is LineState.RECOVERING


@promise("blocks.bounded")
@pytest.mark.parametrize("ask", [AskBlock, Ask], ids=["block", "text"])
def test_the_owner_may_want_larger_blocks_or_smaller_ones(ask: type[AskBlock] | type[Ask]) -> None:
    clock = DrivenClock()
    wide, narrow = Bench(clock, max_block_mb=2), Bench(clock, max_block_mb=1)
    body = b"x\n" * 2**19 + b"x"
    for bench in (wide, narrow):
        bench.link.answers["D?"] = b"#7%d" % len(body) + body + b"\n"
    assert len(wide.serve(ask("D?"))[0]) == 9 + len(body)
    assert "MAX_BLOCK_MB is 1" in narrow.fail(ask("D?")).message
    wide.loop.close()
    narrow.loop.close()


class Endless:
    """A link on which a block of any length comes, without ever being held."""

    def __init__(self, head: bytes, size: int) -> None:
        self.head = head
        self.left = len(head) + size

    def pending(self) -> bytes:
        return b""

    def write(self, data: bytes, timeout_s: float) -> None:
        assert (data, timeout_s > 0) == (b"D?\n", True)

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        assert timeout_s > 0
        if not self.left:
            raise LinkTimeout("nothing came")
        self.left -= count
        head, self.head = self.head[:count], self.head[count:]
        return head + bytes(count - len(head))


def test_a_block_that_is_asked_for_as_text_is_bounded_too(bench: Bench) -> None:
    bench.link.answers["D?"] = b"#9999999999abc\n"
    assert "MAX_BLOCK_MB is 64" in bench.fail(Ask("D?")).message


@promise("blocks.bounded")
def test_a_block_is_held_once_while_it_is_read() -> None:
    size = 24 * 2**20
    link = Endless(b"#8%d" % size, size)
    clock = DrivenClock()
    speech = Dialogue(
        link=cast(Link, link),
        clock=clock,
        trace=Trace(clock),
        known=lambda: None,
        has_messages=False,
    )

    def fetch() -> Conversation[int]:
        return len((yield AskBlock("D?")) or b"")

    tracemalloc.start()
    got = speech.hold(fetch(), Connection(), clock.monotonic() + 60, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert got == size + 10
    assert peak < 1.2 * size


def test_an_indefinite_block_lasts_to_the_line_end(bench: Bench) -> None:
    bench.link.answers["D?"] = b"#0xyz\n"
    assert bench.serve(AskBlock("D?")) == [b"#0xyz\n"]


def test_text_where_a_block_should_be_is_a_bad_answer(bench: Bench) -> None:
    bench.link.answers["D?"] = b"ERROR 5\n"
    assert bench.fail(AskBlock("D?")).code is ErrorCode.BAD_ANSWER
    assert bench.serve(Ask("B?")) == ["b"]
    assert bench.link.written == ["*IDN?", "D?", "*IDN?", "B?"]


def test_what_follows_data_of_another_form_is_no_habit_of_the_question_before(
    bench: Bench,
) -> None:
    bench.link.answers["D?"] = b"ERROR 5 at\nline 3\n"
    bench.serve(Ask("A?"))
    assert bench.fail(AskBlock("D?")).code is ErrorCode.BAD_ANSWER
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.line.bound is not None
    assert not bench.line.bound.habits.followed


def test_a_block_that_is_cut_short_times_out(bench: Bench) -> None:
    bench.link.answers["D?"] = b"#15abc"
    assert bench.fail(AskBlock("D?")).code is ErrorCode.TIMEOUT


@pytest.mark.parametrize("text", ["VOLT 5\nOUTP ON", "VOLT 5\r", "VOLT 5µ"])
def test_what_the_line_cannot_carry_is_refused_before_a_byte_is_sent(
    bench: Bench, text: str
) -> None:
    error = bench.fail(Send(text))
    assert isinstance(error, Invalid)
    assert error.code is ErrorCode.BAD_SCPI
    assert bench.link.written == GREETING
    assert bench.line.state is LineState.READY


def test_garbage_without_an_end_is_a_bad_answer(bench: Bench) -> None:
    bench.link.answers["A?"] = LinkGarbled("too much")
    assert bench.fail(Ask("A?")).code is ErrorCode.BAD_ANSWER


def test_a_bug_in_a_conversation_is_a_fault_with_an_id_and_the_line_lives(bench: Bench) -> None:
    def broken() -> Conversation[None]:
        yield Send("X")
        raise ZeroDivisionError

    error = bench.fail(make=broken)
    assert isinstance(error, Fault)
    assert error.data["fault_id"] in error.message
    assert bench.serve(Ask("A?")) == ["a"]


def test_what_acknowledges_urgent_lines_is_read_after_all_of_them_and_none_is_dropped(
    bench: Bench,
) -> None:
    """Between two lines a slow instrument (min_gap_ms) has answered the first already."""
    lines = ("OUT1 OFF", "OUT2 OFF")
    bench.link.answers |= {"OUT1 OFF": b"OK\n", "OUT2 OFF": b"OK\n"}
    connection = Connection(acknowledge="^OK$", min_gap_ms=30)
    bench.line.bound = BoundInstrument(number=1, idn=IDN, connection=connection)
    bench.link.arrived = b"late\n"
    bench.serve(make=lambda: write_lines(lines, connection, is_urgent=True))
    assert bench.link.written == [*GREETING, *lines]
    bench.link.answers["OUT2 OFF"] = b"ERROR\n"
    error = bench.fail(make=lambda: write_lines(lines, connection, is_urgent=True))
    assert error.code is ErrorCode.INSTRUMENT_ERROR


# The end


def test_last_words_are_said_on_a_healthy_line_only(bench: Bench) -> None:
    bench.serve(Ask("A?"))

    def bye() -> Conversation[None]:
        yield Send("LOCAL")

    bench.line.release(bench.ticket(), bye(), bench.clock.monotonic() + 1)
    assert bench.link.written[-1] == "LOCAL"
    assert bench.line.state is LineState.CLOSED


def test_nothing_is_said_on_a_line_that_is_not_clean(bench: Bench) -> None:
    bench.fail(Ask("SLOW?"))

    def bye() -> Conversation[None]:
        yield Send("LOCAL")

    bench.line.release(bench.ticket(), bye(), bench.clock.monotonic() + 1)
    assert "LOCAL" not in bench.link.written
    assert not bench.link.is_open


def test_a_line_without_a_tenant_is_let_go_of(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.line.bound = BoundInstrument()
    bench.heal()
    assert bench.line.state is LineState.LOST
    assert not bench.link.is_open
    assert bench.line.idle_s() is None


def test_a_bug_while_healing_never_ends_the_thread(bench: Bench) -> None:
    def bug() -> bytes:
        raise ZeroDivisionError

    bench.link.answers["*IDN?"] = bug
    bench.heal()
    bench.link.answers["*IDN?"] = ANSWERS["*IDN?"]
    later(bench, 1)
    assert bench.serve(Ask("A?")) == ["a"]


def test_a_unit_at_work_on_what_was_written_has_the_questions_own_time_to_say_its_name(
    bench: Bench,
) -> None:
    waited: list[float] = []
    read = bench.link.read_message

    def note(terminator: bytes, timeout_s: float) -> bytes:
        waited.append(timeout_s)
        return read(terminator, timeout_s)

    bench.serve(Ask("A?"))
    bench.link.read_message = note  # type: ignore[method-assign]
    bench.serve(Send("CAL"), Ask("B?", 60.0), timeout_s=100.0)
    assert bench.link.written[-3:] == ["CAL", "*IDN?", "B?"]
    assert waited[0] > 60.0


# A gate


def test_what_a_closed_gate_holds_back_is_not_sent_and_what_makes_safe_is(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.written.clear()

    def closed(text: str) -> None:
        raise Failed(f"{text} is held back.", code=ErrorCode.PREEMPTED)

    bench.line.gate = closed
    assert bench.fail(Ask("A?")).code is ErrorCode.PREEMPTED
    assert bench.link.written == []
    assert bench.serve(Ask("B?"), priority=Priority.SAFE) == ["b"]
    assert bench.link.written == ["B?"]
    bench.line.gate = None
    assert bench.serve(Ask("A?")) == ["a"]


def test_a_gate_that_closes_in_the_middle_of_a_job_holds_back_the_rest_of_it(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.link.written.clear()

    def only_a(text: str) -> None:
        if text != "A?":
            raise Failed(f"{text} is held back.", code=ErrorCode.PREEMPTED)

    bench.line.gate = only_a
    failed = bench.fail(Ask("A?"), Ask("B?"))
    assert isinstance(failed, Failed)
    assert failed.sent == ("A?",)
    bench.line.gate = None
    assert bench.serve(Ask("B?")) == ["b"]


# Errors behind a line that was sent


@promise("call.sent-is-failed")
@pytest.mark.parametrize(
    "error",
    [
        Invalid("It compares a string with a number."),
        Invalid("It cannot be sent.", code=ErrorCode.BAD_SCPI),
        Refused("It is locked.", code=ErrorCode.LOCKED_OUT),
        Conflict("Somebody has it.", code=ErrorCode.LEASED),
    ],
)
def test_whatever_ends_a_conversation_after_a_line_is_a_failure_with_that_line(
    bench: Bench, error: EdgedError
) -> None:
    def talk(has_sent: bool) -> Conversation[None]:
        if has_sent:
            yield Send("GO")
        raise error
        yield

    failed = bench.fail(make=lambda: talk(has_sent=True))
    assert isinstance(failed, Failed)
    assert failed.sent == ("GO",)
    assert (failed.code, failed.message) == (error.code, error.message)
    assert bench.fail(make=lambda: talk(has_sent=False)) is error


# Bounds of recovery


@promise("line.recovery-bounded")
def test_polls_that_are_answered_slowly_end_in_their_own_time(bench: Bench) -> None:
    complete = Completion(
        kind=CompletionKind.POLL, query="DONE?", until="value == 1", every_ms=20, timeout_ms=600
    )
    command = Command(name="go", scpi=("GO",), complete=complete)

    def slowly() -> bytes:
        bench.clock.move(0.25)
        return b"0\n"

    bench.link.answers["DONE?"] = slowly
    began = bench.clock.monotonic()
    failed = bench.fail(
        make=lambda: command_conversation(lines=["GO"], command=command, connection=Connection()),
        timeout_s=60,
    )
    assert failed.code is ErrorCode.TIMEOUT
    assert "was not done within 600 ms" in failed.message
    assert bench.clock.monotonic() - began < 1.6


@promise("line.no-late-answer")
def test_what_was_followed_by_more_is_looked_at_again_the_next_time(bench: Bench) -> None:
    ask = Ask("A?", lines=1)
    assert bench.serve(ask) == ["a"]
    assert bench.serve(ask) == ["a"]
    assert "A?" in bench.line.bound.habits.calm
    bench.link.answers["A?"] = b"a\nmore\n"
    assert bench.fail(ask).code is ErrorCode.BAD_ANSWER
    assert "A?" not in bench.line.bound.habits.calm


class SilentLink(ScriptedLink):
    """Each wait in vain takes its time."""

    def __init__(self, clock: DrivenClock) -> None:
        super().__init__(dict(ANSWERS))
        self.clock = clock

    def _wait(self, has_come: bool, timeout_s: float) -> None:
        if not has_come:
            self.clock.move(max(0.0, timeout_s))
        super()._wait(has_come, timeout_s)


T = Connection().timeout_ms / 1000
BOUND_S = T + 1.0


def silent(bench: Bench) -> None:
    """From here on nothing is answered."""
    link = SilentLink(bench.clock)
    link.answers, link.is_open, link.ticket = {}, True, bench.link.ticket
    bench.line._link = bench.line._dialogue._link = bench.link = link


@promise("line.recovery-bounded")
@pytest.mark.parametrize(
    "before",
    [[Send("OUTP 1"), ExpectMore()], [Send("OUTP 1")], [Ask("A?")], []],
    ids=["raw line", "setting", "question", "nothing"],
)
def test_each_call_to_a_unit_that_hangs_ends_within_its_own_limit_and_a_second(
    bench: Bench, before: list[Any]
) -> None:
    bench.serve(Ask("A?"))
    if before:
        bench.serve(*before)
    silent(bench)
    for _ in range(6):
        began = bench.clock.monotonic()
        failed = bench.fail(Ask("A?"), timeout_s=T + 5, own_s=T)
        assert bench.clock.monotonic() - began <= BOUND_S
        assert failed.code in {ErrorCode.TIMEOUT, ErrorCode.DISCONNECTED}
        bench.heal()
        bench.clock.move(0.5)


@promise("line.recovery-bounded")
@pytest.mark.parametrize("timeout_ms", [300, 600, 2000])
def test_a_unit_that_was_late_before_and_hangs_ends_calls_in_time_too(
    bench: Bench, timeout_ms: int
) -> None:
    t_s = timeout_ms / 1000
    habits = Habits()
    habits.catch("A?", "more", 0.5)
    bench.line.bound = BoundInstrument(
        number=1, idn=IDN, connection=Connection(timeout_ms=timeout_ms), habits=habits
    )
    bench.serve(Ask("A?", lines=1), timeout_s=t_s + 5, own_s=t_s)
    silent(bench)
    for _ in range(4):
        began = bench.clock.monotonic()
        bench.fail(Ask("A?", lines=1), timeout_s=t_s + 5, own_s=t_s)
        assert bench.clock.monotonic() - began <= t_s + 1.0


@promise("line.recovery-bounded")
def test_a_call_that_waited_for_another_to_a_unit_that_hangs_ends_in_time_too(
    bench: Bench,
) -> None:
    bench.serve(Ask("A?"))
    silent(bench)
    bench.fail(Ask("A?"), timeout_s=T + 5, own_s=T)
    submitted = bench.clock.monotonic()
    for _ in range(4):
        bench.fail(Ask("A?"), timeout_s=T + 5, own_s=T, submitted_at=submitted)
    assert bench.clock.monotonic() - submitted <= T + 1.0 + 3 * 0.2


@promise("line.recovery-bounded")
def test_the_call_after_one_that_was_not_answered_says_that_the_line_is_recovered(
    bench: Bench,
) -> None:
    bench.serve(Ask("A?"))
    silent(bench)
    first = bench.fail(Ask("VOLT?"), timeout_s=T + 5, own_s=T)
    assert "being recovered" not in first.message
    second = bench.fail(Ask("A?"), timeout_s=T + 5, own_s=T)
    assert 'is being recovered since it did not answer "VOLT?"' in second.message
    assert isinstance(second, Failed)
    assert second.sent == ()
    # It answers again: nothing of it is left.
    bench.link.answers = dict(ANSWERS)
    bench.clock.move(6.0)
    bench.heal()
    assert bench.serve(Ask("A?")) == ["a"]
    assert bench.line.unanswered == ""


@promise("line.recovery-bounded")
def test_a_unit_that_is_busy_for_less_than_its_limit_is_waited_for(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    bench.serve(Send("*RST"))
    silent(bench)
    link = bench.link

    def late() -> bytes:
        bench.clock.move(T - 0.1)
        return ANSWERS["*IDN?"]

    link.answers = {**ANSWERS, "*IDN?": late}
    assert bench.serve(Ask("A?"), timeout_s=T + 5, own_s=T) == ["a"]
    assert link.events == []


@promise("line.recovery-bounded")
def test_a_stop_is_sent_while_the_line_is_recovered(bench: Bench) -> None:
    bench.serve(Ask("A?"))
    silent(bench)
    bench.fail(Ask("A?"), timeout_s=T + 5, own_s=T)
    bench.serve(Send("OUTP OFF"), priority=Priority.SAFE)
    assert bench.link.written[-1] == "OUTP OFF"
