from collections.abc import Generator
from typing import Any

import pytest

from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import (
    Ask,
    AskBlock,
    Listen,
    Pause,
    Reply,
    Send,
    capture_conversation,
    command_conversation,
    drain_errors,
    greet,
    lines_conversation,
    raw_conversation,
)
from edged.instruments.identify import (
    identify,
    identify_known,
)
from edged.profiles.frames import Frame
from edged.profiles.model import (
    Command,
    Completion,
    CompletionKind,
    Connection,
    ErrorCheck,
    Precondition,
    ScalarAnswer,
    WaveformAnswer,
)
from edged.scpi.kinds import AnswerType, ErrorKind
from tests.promises import promise

QUEUE = ErrorCheck(kind=ErrorKind.QUEUE, query="SYST:ERR?")
PLAIN = Connection()
CHECKED = Connection(errors=QUEUE)


def play(conversation: Generator[Any, Any, Any], *answers: object) -> tuple[list[Any], Any]:
    """Drive to the end; every question takes the next answer. Gives the steps and the result."""
    left = list(answers)
    steps: list[Any] = []
    answer: object = None
    try:
        while True:
            step = conversation.send(answer)
            steps.append(step)
            answer = left.pop(0) if isinstance(step, Ask | AskBlock) else None
    except StopIteration as stop:
        assert not left, f"not asked for: {left}"
        return steps, stop.value


def texts(steps: list[Any]) -> list[str]:
    return [step.text for step in steps if not isinstance(step, Pause)]


def test_a_setter_is_sent_and_its_errors_are_read() -> None:
    command = Command(name="set", scpi=("VOLT 5",))
    steps, reply = play(
        command_conversation(lines=["VOLT 5"], command=command, connection=CHECKED),
        '0,"No error"',
    )
    assert texts(steps) == ["VOLT 5", "SYST:ERR?"]
    assert reply == Reply(sent=("VOLT 5",))


NEEDS_OUTPUT = Command(
    name="measure",
    scpi=("READ?",),
    is_query=True,
    precondition=Precondition(query="OUTP?", expect=r"^\+?1", hint="Switch it on."),
)


def test_a_precondition_is_asked_before_anything_is_sent() -> None:
    steps, reply = play(
        command_conversation(lines=["READ?"], command=NEEDS_OUTPUT, connection=CHECKED), "1", "2.5"
    )
    assert texts(steps) == ["OUTP?", "READ?"]
    assert reply.answer == "2.5"


def test_a_precondition_that_does_not_hold_sends_nothing_and_says_what_to_do() -> None:
    with pytest.raises(Failed, match='measure was not sent: "OUTP\\?" answered "0"') as caught:
        play(command_conversation(lines=["READ?"], command=NEEDS_OUTPUT, connection=CHECKED), "0")
    assert caught.value.remedy == "Switch it on."
    assert caught.value.sent == ("OUTP?",)


def test_a_query_gives_its_answer_and_reads_no_errors() -> None:
    command = Command(
        name="m", scpi=("MEAS?",), is_query=True, returns=ScalarAnswer(type=AnswerType.FLOAT)
    )
    steps, reply = play(
        command_conversation(lines=["MEAS?"], command=command, connection=CHECKED), "1.5"
    )
    assert texts(steps) == ["MEAS?"]
    assert reply.answer == "1.5"


def test_an_instruments_own_error_fails_with_its_text_and_what_was_sent() -> None:
    command = Command(name="set", scpi=("VOLT 99",))
    with pytest.raises(Failed) as caught:
        play(
            command_conversation(lines=["VOLT 99"], command=command, connection=CHECKED),
            '-222,"Data out of range"',
            "+0,none",
        )
    assert caught.value.code is ErrorCode.INSTRUMENT_ERROR
    assert "Data out of range" in caught.value.message
    assert caught.value.sent == ("VOLT 99",)


def test_a_queue_is_drained_to_its_end_and_never_beyond_twenty() -> None:
    _, errors = play(drain_errors(QUEUE), "-1,a", "-2,b", "0")
    assert [error.code for error in errors] == [-1, -2]
    steps, errors = play(drain_errors(QUEUE), *["-1,a"] * 20)
    assert len(errors) == len(steps) == 20


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        (["-222,a"] * 20, ["-222,a (20 times, and more)"]),
        (["-222,a"] * 3 + ["0"], ["-222,a (3 times)"]),
        (["-222,a", "-113,b", "-222,a", "0"], ["-222,a (2 times)", "-113,b"]),
        (["-222,a"] * 19 + ["-113,b"], ["-222,a (19 times)", "-113,b", "and more"]),
        (["-222,a", "0"], ["-222,a"]),
    ],
)
def test_an_error_that_repeats_is_told_once_with_how_often_it_came(
    errors: list[str], told: list[str]
) -> None:
    with pytest.raises(Failed) as caught:
        play(raw_conversation(lines=["X"], asks=False, connection=CHECKED), *errors)
    assert caught.value.data["errors"] == told
    assert f'reports "{"; ".join(told)}" after "X"' in caught.value.message


def test_an_empty_answer_to_the_completion_question_is_not_done() -> None:
    command = Command(
        name="set", scpi=("X",), complete=Completion(kind=CompletionKind.OPC, timeout_ms=500)
    )
    with pytest.raises(Failed, match="did not say within 500 ms") as caught:
        play(command_conversation(lines=["X"], command=command, connection=PLAIN), "")
    assert caught.value.code is ErrorCode.TIMEOUT
    assert caught.value.sent == ("X", "*OPC?")


NAME = "ACME,PSU1,A001,1.0"


def hear(conversation: Generator[Any, Any, Any], *lines: str | None) -> tuple[list[str], Any]:
    """Whatever reads a line gets the next one; ``None`` is a wait in vain."""
    left, asked, answer = list(lines), [], None
    try:
        while True:
            step = conversation.send(answer)
            if isinstance(step, Ask | Send):
                asked.append(step.text)
            answer = left.pop(0) if isinstance(step, Ask | Listen) else None
    except StopIteration as stop:
        assert not left, f"not read: {left}"
        return asked, stop.value


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        pytest.param([NAME], 1, id="a name counts at once"),
        pytest.param(["Welcome", "", "to port 7", NAME], 1, id="a banner comes first"),
        pytest.param(["Welcome", None, NAME, None], 2, id="a banner in place of the answer"),
        pytest.param(["Welcome", None, "", NAME, NAME], 2, id="its first answer is very late"),
    ],
)
def test_what_comes_before_a_name_is_passed_over_and_nothing_is_left(
    lines: list[str | None], times: int
) -> None:
    for conversation in (identify(), identify_known(NAME, lambda idn: idn == NAME)):
        assert hear(conversation, *lines) == (["*IDN?"] * times, NAME)


def test_what_is_no_name_counts_only_when_it_is_said_twice() -> None:
    assert hear(identify(), "WIDGET 3", None, "WIDGET 3") == (["*IDN?"] * 2, "WIDGET 3")
    with pytest.raises(Failed, match='"Welcome", and when asked again by ""') as caught:
        hear(identify(), "Welcome", None, None)
    assert caught.value.code is ErrorCode.BAD_ANSWER


def test_another_unit_behind_a_banner_is_another_unit() -> None:
    other = "ACME,PSU1,A002,1.0"
    conversation = identify_known(NAME, lambda idn: idn == NAME)
    assert hear(conversation, "Welcome", other, None, other) == (["*IDN?"] * 2, other)


def test_a_cut_off_question_is_not_blamed_on_a_job_that_asks_nothing() -> None:
    answers = ('-410,"Query INTERRUPTED"', "0")
    _, reply = play(raw_conversation(lines=["OUTP OFF"], asks=False, connection=CHECKED), *answers)
    assert "INTERRUPTED" in reply.stale_errors[0]
    with pytest.raises(Failed):
        play(raw_conversation(lines=["A", "B?"], asks=True, connection=CHECKED), "1", *answers)


@pytest.mark.parametrize(("answer", "is_error"), [("32", True), ("16", True), ("1", False)])
def test_event_status_bits_are_judged_one_by_one(answer: str, is_error: bool) -> None:
    check = ErrorCheck(kind=ErrorKind.ESR, query="*ESR?")
    conversation = raw_conversation(lines=["X"], asks=False, connection=Connection(errors=check))
    if is_error:
        with pytest.raises(Failed):
            play(conversation, answer)
    else:
        play(conversation, answer)


def test_a_query_error_bit_alone_is_not_blamed_on_a_write() -> None:
    check = ErrorCheck(kind=ErrorKind.ESR, query="*ESR?")
    play(raw_conversation(lines=["X"], asks=False, connection=Connection(errors=check)), "4")


def test_a_bare_code_is_asked_once() -> None:
    check = ErrorCheck(kind=ErrorKind.CODE, query="ERR?")
    steps, errors = play(drain_errors(check), "7")
    assert len(steps) == 1
    assert errors[0].code == 7


def test_completion_comes_before_the_error_query_and_verify_last() -> None:
    command = Command(name="s", scpi=("A",), complete=Completion(kind=CompletionKind.OPC))
    steps, reply = play(
        command_conversation(lines=["A"], command=command, connection=CHECKED, verify="A?"),
        "1",
        "0",
        "5.0",
    )
    assert texts(steps) == ["A", "*OPC?", "SYST:ERR?", "A?"]
    assert steps[1].timeout_s == 10.0
    assert reply.readback == "5.0"
    assert reply.sent == ("A", "*OPC?", "A?")


def test_a_query_after_writes_waits_for_their_completion() -> None:
    command = Command(
        name="m",
        scpi=("INIT", "FETC?"),
        is_query=True,
        complete=Completion(kind=CompletionKind.OPC),
    )
    steps, reply = play(
        command_conversation(lines=["INIT", "FETC?"], command=command, connection=PLAIN), "1", "2"
    )
    assert texts(steps) == ["INIT", "*OPC?", "FETC?"]
    assert reply.answer == "2"


def test_a_poll_asks_until_its_condition_holds() -> None:
    complete = Completion(
        kind=CompletionKind.POLL, query="DONE?", until="value == 1", every_ms=50, timeout_ms=500
    )
    command = Command(name="s", scpi=("GO",), complete=complete)
    steps, reply = play(
        command_conversation(lines=["GO"], command=command, connection=PLAIN), "0", "0", "1"
    )
    assert texts(steps) == ["GO", "DONE?", "DONE?", "DONE?"]
    assert steps.count(Pause(0.05)) == 2
    assert reply.sent == ("GO", "DONE?")


def test_a_poll_that_never_holds_fails_with_what_was_said_last() -> None:
    complete = Completion(
        kind=CompletionKind.POLL, query="DONE?", until="value == 1", every_ms=100, timeout_ms=300
    )
    command = Command(name="s", scpi=("GO",), complete=complete)
    with pytest.raises(Failed) as caught:
        play(command_conversation(lines=["GO"], command=command, connection=PLAIN), "0", "0", "7")
    assert caught.value.code is ErrorCode.TIMEOUT
    assert '"7"' in caught.value.message


@promise("call.sent-is-failed")
@pytest.mark.parametrize("answer", ["1TS000033", "ST33", ""])
def test_a_poll_whose_condition_cannot_be_judged_is_a_bad_answer(answer: str) -> None:
    complete = Completion(kind=CompletionKind.POLL, query="1TS", until="value > 33")
    command = Command(name="s", scpi=("GO",), complete=complete)
    with pytest.raises(Failed, match="`until` of its command cannot judge") as caught:
        play(command_conversation(lines=["GO"], command=command, connection=PLAIN), answer)
    assert caught.value.code is ErrorCode.BAD_ANSWER
    assert answer in caught.value.message


def test_a_pause_follows_each_write_and_no_question() -> None:
    connection = Connection(after_write_ms=100)
    steps, _ = play(raw_conversation(lines=["A", "B?"], asks=True, connection=connection), "x")
    assert steps == [Send("A"), Pause(0.1), Ask("B?", 2.0, may_be_empty=True)]


def test_what_a_command_overrides_holds_for_it_alone() -> None:
    command = Command(name="q", scpi=("Q?",), is_query=True, timeout_ms=9000, errors=QUEUE)
    steps, _ = play(command_conversation(lines=["Q?"], command=command, connection=PLAIN), "1", "0")
    assert texts(steps) == ["Q?", "SYST:ERR?"]
    assert [step.timeout_s for step in steps] == [9.0, None]


def test_a_waveform_is_set_up_asked_for_its_meaning_and_fetched() -> None:
    steps, reply = play(
        capture_conversation(
            setup=("WAV:MODE NORM",),
            preamble=("WAV:PRE?", "WAV:OFFS?"),
            data="WAV:DATA?",
            connection=CHECKED,
            framed=lambda _: Frame(WaveformAnswer(data="", dtype="u1", trailing_bytes=1)),
        ),
        "0",
        "0",
        "1",
        b"#11x",
        "0",
    )
    assert texts(steps) == [
        "WAV:MODE NORM",
        "SYST:ERR?",
        "WAV:PRE?",
        "WAV:OFFS?",
        "WAV:DATA?",
        "SYST:ERR?",
    ]
    assert steps[4].trailing_bytes == 1
    assert (reply.preamble, reply.block) == ("0,1", b"x")


def test_a_picture_is_a_block_without_a_preamble() -> None:
    steps, reply = play(
        capture_conversation(setup=(), preamble=(), data="DISP?", connection=PLAIN), b"#11x"
    )
    assert [(step.text, step.trailing_bytes, step.timeout_s) for step in steps] == [
        ("DISP?", 0, 2.0)
    ]
    assert reply.block == b"x"


def test_an_abort_sends_its_lines_and_lets_nothing_stand_in_the_way() -> None:
    steps, reply = play(lines_conversation(["OFF 1", "OFF 2"], CHECKED))
    assert steps == [Send("OFF 1"), Send("OFF 2")]
    assert reply.sent == ("OFF 1", "OFF 2")


def test_a_greeting_sends_on_connect_and_gives_old_errors() -> None:
    connection = Connection(on_connect=("HEAD OFF",), errors=QUEUE)
    steps, errors = play(greet(connection), "-100,old", "0")
    assert texts(steps) == ["HEAD OFF", "SYST:ERR?", "SYST:ERR?"]
    assert len(errors) == 1


def test_who_is_there_is_asked_and_nothing_else() -> None:
    steps, answer = play(identify(), "ACME,1,2,3")
    assert steps == [Ask("*IDN?")]
    assert answer == "ACME,1,2,3"


def test_a_capture_without_set_up_reads_no_errors() -> None:
    steps, _ = play(
        capture_conversation(setup=(), preamble=(), data="D?", connection=CHECKED), b"#10"
    )
    assert texts(steps) == ["D?"]


def test_a_refused_set_up_ends_a_capture_before_its_data_are_asked_for() -> None:
    talk = capture_conversation(setup=("DAT:SOU CH9",), preamble=(), data="D?", connection=CHECKED)
    with pytest.raises(Failed, match="Data out of range") as caught:
        play(talk, '-222,"Data out of range"', "0")
    assert caught.value.sent == ("DAT:SOU CH9",)


def test_the_wording_of_an_error_is_asked_for_where_the_register_has_only_bits() -> None:
    events = ErrorCheck(kind=ErrorKind.ESR, query="*ESR?", detail="ALLEv?")
    steps, errors = play(drain_errors(events), "32", '113,"Undefined header; FOO"')
    assert texts(steps) == ["*ESR?", "ALLEv?"]
    assert [e.text for e in errors] == ['command error (ESR 32): 113,"Undefined header; FOO"']
    assert texts(play(drain_errors(events), "0")[0]) == ["*ESR?"]
