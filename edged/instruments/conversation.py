"""Conversations: what is said on a line, in order, as generators that know nothing of any wire.

A conversation yields steps and is sent what came of them; the actor drives it in the line's work,
as one uninterruptible job. It holds the rules of talking (completion, error queues, asking back);
time limits, terminators, gaps and broken wires are the line's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import field, replace
from typing import Any, Final, TypeVar

from edged.errors import ErrorCode, Failed, Invalid
from edged.patterns import found_in
from edged.profiles.answers import parse_answer, picked
from edged.profiles.expr import compile_expression
from edged.profiles.frames import BLOCK, Frame
from edged.profiles.model import (
    Command,
    Completion,
    CompletionKind,
    Connection,
    ErrorCheck,
    FieldsAnswer,
    ListAnswer,
    Precondition,
    Returns,
    ScalarAnswer,
)
from edged.record import record
from edged.scpi.answer_text import bad_answer, clean_text, escaped, plain_value
from edged.scpi.blocks import FindHead, find_block_head
from edged.scpi.errors import InstrumentError, folded, parse_error
from edged.scpi.kinds import AnswerType, ErrorKind
from edged.scpi.numbers import read_number
from edged.yaml.tree import Scalar

ENTRY: Final = re.compile(
    r"""\s*[+-]?[0-9]{1,6}\s*,\s*["'A-Za-z]"""
    r"""|\s*[+-]?[0-9][0-9.eE+-]{0,15}\s{1,4}[A-Za-z]{2,32}\s[A-Za-z]"""
)
"""``<number>,"<text>"``, or a number and words (``0  No Error``); what acknowledges a write may be
a number alone, or one with its unit."""
MAX_QUEUED_ERRORS: Final = 20
"""A queue longer than this is not read to its end (docs/profiles.md, ``errors``)."""
QUERY_ERRORS: Final = range(-499, -399)
"""SCPI-99 21.8.11: a question was cut off. A job that asks nothing did not cause that."""
ESR_OTHER_ERRORS: Final = 0x38
"""IEEE 488.2 11.5.1: command, execution and device errors; the fourth, 0x04, is a query error."""

OVERRIDDEN: Final = ("timeout_ms", "after_write_ms", "errors", "acknowledge")
"""What a command may say of its connection."""

UNTIL_UNFIT: Final = (
    "Correct `complete` in its profile. What was sent before has taken effect unless another "
    "message says otherwise."
)
SOON_S: Final = 0.5
"""What acknowledges a line comes so soon after an old answer."""
MOST_OLD_ANSWERS: Final = 4

LONG_ANSWER: Final = 16_384
"""Characters; what is shorter is understood within a millisecond or two."""

ALL_LINES: Final = 0
"""Of ``Ask``: as many lines as come at once."""
UNTIL_QUIET: Final = -1
"""Of ``Ask``: as many lines as come, each within the time limit."""

DEFAULT_MAX_BLOCK_MB: Final = 64
"""MAX_BLOCK_MB, where nobody says another."""

T = TypeVar("T")
Read = Callable[[str], Any]


@record(frozen=False, kw_only=False)
class Send:
    """Write one line; answered by ``None``. ``timeout_s`` of a step: ``None`` is the line's own.

    ``data`` of a step is what goes out where that is no text (a block is in it); ``text`` says it
    to people, and an answer's characters are its bytes then.

    What has come before it is dropped, unless it ``keeps_unread`` what is read afterwards.

    Made for every line, as ``Ask`` and ``Reply`` are, so they are not frozen: that costs twice.
    """

    text: str
    timeout_s: float | None = None
    data: bytes | None = None
    keeps_unread: bool = False


@record(frozen=False, kw_only=False)
class Ask:
    """Write one line and read one; answered by its text without line ends.

    Where the answer ``may_be_empty``, an empty line can be it; else it is passed over. Where it
    ``takes_first``, the first line is it, though it be empty. Where it ``may_repeat``, the line as
    it was sent is an answer, and no echo. ``proves`` tells whether an answer can be to no other
    question, by its form alone.

    ``lines`` is how many lines the answer has, and ``extra_lines`` how many may follow: where the
    wire marks no end, what comes at once behind them makes it a bad answer (BAD_ANSWER). With
    ``ALL_LINES`` all that comes at once is the answer; with ``UNTIL_QUIET`` all that comes until
    no line has come within the time limit of one. ``None`` is for questions of the engine's own:
    one line is read, and what follows it is dropped. Only the text of such a question is without
    the NULs and line ends in front of it. With ``data`` the answer is byte for byte what came, its
    line end included.
    """

    text: str
    timeout_s: float | None = None
    may_be_empty: bool = False
    takes_first: bool = False
    may_repeat: bool = False
    proves: Callable[[str], bool] | None = None
    data: bytes | None = None
    # How it is read is no part of what is said.
    lines: int | None = field(default=None, compare=False)
    extra_lines: int = field(default=0, compare=False)


@record(kw_only=False)
class AskBlock:
    """Write one line and read binary data; answered by their bytes, a header included.

    ``trailing_bytes`` follow the block (besides a line end, which is always dropped). ``find``
    tells where they end: of an IEEE 488.2 block, unless something else is said. ``held_bytes`` is
    what is in memory already of data that come in several answers. With ``data`` the answer is byte
    for byte what came, also where it is of another form. Where it ``takes_short``, a message that
    ends before is an answer.
    """

    text: str
    trailing_bytes: int = 0
    timeout_s: float | None = None
    data: bytes | None = None
    find: FindHead = find_block_head
    held_bytes: int = 0
    takes_short: bool = False


@record(kw_only=False)
class Beat:
    """``Ask``, where ``is_answer`` knows the answer; noted in the trace only if it is another."""

    text: str
    is_answer: Callable[[str], bool]


@record(kw_only=False)
class Listen:
    """Read one more line; answered by its text, or ``None`` when none comes in time.

    With a ``line``, which a program has written: what that is answered by, byte for byte.
    """

    timeout_s: float | None = None
    line: str = ""


@record(kw_only=False)
class Pause:
    """Let time pass; answered by when it is over, in seconds of the monotonic clock, if known."""

    seconds: float


@record(kw_only=False)
class ExpectMore:
    """What was sent last may be answered by more than was read; answered by ``None``.

    With a ``line``, that was written, asks nothing, and may be answered all the same: what comes
    soon is heard, and what comes until the next answer stands in ``Reply.unasked``.
    """

    line: str = field(default="", compare=False)


@record(kw_only=False)
class Apart:
    """Do what takes long and needs no wire, where it keeps nobody else; answered by ``None``."""

    work: Callable[[], None]


Step = Send | Ask | AskBlock | Beat | ExpectMore | Listen | Pause | Apart
Answer = str | bytes | bytearray | float | None
Conversation = Generator[Step, Answer, T]


@record
class KnownQuestion:
    """A question whose answer is known by heart: the unit's name, or its profile's probe."""

    question: str
    is_answer: Callable[[str], bool]


@record(frozen=False)
class Reply:
    """What came of a conversation.

    Attributes:
        answer: text of the line that asked, or ``None`` when none did.
        value: what that means, where the conversation was told how to read it.
        readback: what the answer to the verify query means.
        block: the data of a capture; for a program all bytes of its answer.
        preamble: what the preamble query of a capture answered.
        sent: the SCPI lines that went out, those of checks included.
        stale_errors: errors that were found in the queue and not blamed on this job.
        unasked: lines that ask nothing, and what came as if to answer them; ``None``: the
            caller does not want them.
        came: what came as if to answer the line that was sent last.
        may_answer: nobody knows whether the line is answered: its answer may come later.
    """

    answer: str | None = None
    block: bytes | bytearray | memoryview | None = None
    value: Any = None
    readback: Any = None
    preamble: str | None = None
    sent: tuple[str, ...] = ()
    stale_errors: tuple[str, ...] = ()
    unasked: tuple[tuple[str, bytes], ...] | None = None
    came: bytes = b""
    may_answer: bool = False


def _as_it_is(answer: str) -> Any:
    return answer


@record(frozen=False)
class AbortReply:
    """What came of an abort: the answers to its questions, and all lines that went out."""

    answers: tuple[str, ...]
    sent: tuple[str, ...]


def command_conversation(
    *,
    lines: Sequence[str],
    command: Command,
    connection: Connection,
    read: Read = _as_it_is,
    is_urgent: bool = False,
    verify: str | None = None,
    confirm: Read = _as_it_is,
) -> Conversation[Reply]:
    """One profile command but a capture: its lines, completion, error check, verify question.

    Args:
        lines: rendered; the last one asks when the command is a query.
        connection: the instrument's own; what the command overrides is taken from the command.
        read: what the answer means; raises BAD_ANSWER, which puts the line out of step.
        is_urgent: it makes safe, or is the end of a run: its lines wait for nothing.
        verify: the rendered verify query, or ``None``.
        confirm: what its answer means; raises VERIFY_FAILED.

    Raises:
        Failed: INSTRUMENT_ERROR with the instrument's text; BAD_ANSWER when a check answers
            something that cannot be one; what ``read`` and ``confirm`` raise.
    """
    ask = only_question(lines, command, connection) if verify is None else None
    if ask is not None:
        return (yield from asked(ask, read))
    own = _overridden(connection, command)
    timeout_s = own.timeout_ms / 1000
    if command.precondition is not None:
        yield from require(command.name, command.precondition, own)
    asking = lines[-1] if command.is_query else None
    written = lines[:-1] if command.is_query else lines
    sent: tuple[str, ...] = ()
    if written:
        sent = yield from write_lines(written, own, is_urgent=is_urgent or command.is_safe)
        if command.complete is not None:
            sent += yield from _complete(command.complete, timeout_s, sent)
    answer = None
    if asking is not None:
        told = yield _asks_all(asking, timeout_s, command.returns, lines_in(command.returns))
        answer = told if isinstance(told, str) else ""
        sent += (asking,)
    stale: tuple[str, ...] = ()
    if written or command.errors is not None:
        errors = yield from drain_errors(own.errors)
        if errors:
            stale = _judged(errors, own.errors, sent, has_asked=asking is not None)
    value = None if answer is None else (yield from _read(read, answer, sent))
    readback = None
    if verify is not None:
        told = yield Ask(verify, timeout_s, lines=1)
        sent += (verify,)
        readback = yield from _read(confirm, told if isinstance(told, str) else "", sent)
    return Reply(answer=answer, value=value, readback=readback, sent=sent, stale_errors=stale)


def only_question(lines: Sequence[str], command: Command, connection: Connection) -> Ask | None:
    """What a command asks that is one question and nothing besides; ``None`` for any other."""
    if not command.is_query or len(lines) > 1:
        return None
    if command.precondition is not None or command.errors is not None:
        return None
    timeout_s = _overridden(connection, command).timeout_ms / 1000
    return _asks_all(lines[0], timeout_s, command.returns, lines_in(command.returns))


def asked(ask: Ask, read: Read) -> Conversation[Reply]:
    """One question; see ``command_conversation``."""
    told = yield ask
    answer, sent = told if isinstance(told, str) else "", (ask.text,)
    value = yield from _read(read, answer, sent)
    return Reply(answer=answer, value=value, sent=sent)


def _read(read: Read, answer: str, sent: tuple[str, ...]) -> Conversation[Any]:
    """What an answer means; a long one is taken apart where that keeps nobody else."""
    try:
        if len(answer) <= LONG_ANSWER:
            return read(answer)
        means: list[Any] = []
        failed: list[Failed] = []

        def work() -> None:
            try:
                means.append(read(answer))
            except Failed as unreadable:
                failed.append(unreadable)

        yield Apart(work)
        if failed:
            raise failed[0]
        return means[0]
    except Failed as unreadable:
        unreadable.sent = unreadable.sent or sent
        raise


def capture_conversation(
    *,
    setup: Sequence[str],
    preamble: Sequence[str],
    data: str,
    connection: Connection,
    framed: Callable[[str | None], Frame] = lambda _preamble: BLOCK,
    separator: str = ",",
) -> Conversation[Reply]:
    """Fetch one block: set-up lines, the questions what the block means, the block, the errors.

    Errors are asked for after the set-up too: where a line of it was refused, some scopes never
    answer the data query (Tektronix).

    Args:
        preamble: the questions; their answers are joined by ``separator``.
        framed: in what form the data come, by what the preamble answered.

    Raises:
        Failed: also what ``framed`` raises, and BAD_ANSWER for data of another form.
    """
    timeout_s = connection.timeout_ms / 1000
    sent = yield from write_lines(setup, connection)
    stale: tuple[str, ...] = ()
    if setup:
        stale = yield from _check(connection.errors, sent, has_asked=False)
    meanings: list[str] = []
    for question in preamble:
        meanings.append((yield from _ask(question, timeout_s)))
        sent += (question,)
    meaning = separator.join(meanings) if preamble else None
    asked: list[str] = []
    try:
        frame = framed(meaning)
        came = yield from _fetched(data, frame, timeout_s, asked)
        sent, asked = (*sent, *asked), []
        if setup:
            stale += yield from _check(connection.errors, sent, has_asked=True)
        # Nothing came of a rehearsal.
        samples = frame.samples(came) if came else came
    except Failed as unreadable:
        unreadable.sent = unreadable.sent or (*sent, *asked)
        raise
    return Reply(block=samples, preamble=meaning, sent=sent, stale_errors=stale)


def _fetched(
    data: str, frame: Frame, timeout_s: float, asked: list[str]
) -> Conversation[bytes | bytearray]:
    """What answers a data query, which is ``asked`` again for each packet."""
    joiner = frame.joiner()
    is_in_packets = joiner is not None
    ask = AskBlock(
        data, frame.trailing_bytes, timeout_s, find=frame.find, takes_short=is_in_packets
    )
    while True:
        asked.append(data)
        block = _bytes((yield ask))
        if joiner is None or not block:
            return block
        if joiner.add(block):
            return joiner.data
        ask = replace(ask, held_bytes=len(joiner.data))


def raw_conversation(
    *,
    lines: Sequence[str],
    asks: bool,
    connection: Connection,
    is_known: bool = True,
    form: Frame | int = 1,
) -> Conversation[Reply]:
    """Lines as they are; ``asks``: the last one is answered. A write is followed by the check.

    Args:
        is_known: what they are answered by is known: one line at most, of the last one, or none.
        form: in which form the answer comes: binary data, of which each byte becomes a character,
            or so many lines.
    """
    sent = yield from write_lines(lines[:-1] if asks else lines, connection)
    answer = None
    has_written = bool(sent)
    if asks:
        timeout_s = connection.timeout_ms / 1000
        if isinstance(form, Frame) and not form.is_block:
            block = yield AskBlock(lines[-1], form.trailing_bytes, timeout_s, find=form.find)
            answer = _bytes(block).decode("latin-1")
        else:
            due = form if isinstance(form, int) else 1
            asked = yield _asks_all(lines[-1], timeout_s, None, due)
            answer = asked if isinstance(asked, str) else ""
        sent += (lines[-1],)
    if not is_known:
        yield ExpectMore()
        if not asks and sent:
            yield ExpectMore(sent[-1])
    stale: tuple[str, ...] = ()
    if has_written:
        stale = yield from _check(connection.errors, sent, has_asked=asks)
    return Reply(answer=answer, sent=sent, stale_errors=stale, unasked=())


def program_conversation(
    *,
    line: str,
    data: bytes,
    asks: bool,
    connection: Connection,
    timeout_s: float,
    is_known: bool,
    may_answer: bool = False,
    form: Frame | int = 1,
) -> Conversation[Reply]:
    """One message of a program, byte for byte; its answer is ``block``, whatever it is.

    A write is followed by the check, but where that reads ``*ESR?``: the program may wait for a bit
    of it, and reads it itself.

    Args:
        line: what it is to people.
        timeout_s: what its answer may take.
        is_known, form: see ``raw_conversation``.
        may_answer: it asks nothing, and nobody knows whether it is answered.
    """
    if not asks:
        if connection.errors.kind is ErrorKind.ESR:
            connection = _unchecked(connection)
        sent = yield from write_lines((line,), connection, data=data)
        if not is_known:
            yield ExpectMore()
        if may_answer:
            yield ExpectMore(line)
        stale = yield from _check(connection.errors, sent, has_asked=False)
        return Reply(sent=sent, stale_errors=stale, unasked=(), may_answer=may_answer)
    if isinstance(form, Frame):
        block = yield AskBlock(line, form.trailing_bytes, timeout_s, data, form.find)
        return Reply(block=_bytes(block), sent=(line,))
    due = ALL_LINES if form == 1 else form
    answer = yield Ask(line, timeout_s, may_be_empty=True, data=data, lines=due)
    if not is_known:
        yield ExpectMore()
    text = answer if isinstance(answer, str) else ""
    return Reply(block=text.encode("latin-1", errors="replace"), sent=(line,))


def listen_conversation(*, line: str, timeout_s: float) -> Conversation[Reply]:
    """Read what a line is answered by that a program wrote before, and that asks nothing.

    Raises:
        Failed: TIMEOUT, nothing came.
    """
    answer = yield Listen(timeout_s, line)
    if not isinstance(answer, str):
        raise Failed(
            f'Nothing was asked, and nothing came after "{line[:200]}" that could be read.',
            code=ErrorCode.TIMEOUT,
        )
    yield ExpectMore()
    return Reply(block=answer.encode("latin-1", errors="replace"))


def lines_conversation(lines: Sequence[str], connection: Connection) -> Conversation[Reply]:
    """Lines and nothing else, for aborts and releases: no check may stand in their way."""
    return Reply(sent=(yield from write_lines(lines, _unchecked(connection), is_urgent=True)))


def _unchecked(connection: Connection) -> Connection:
    """The connection, its errors not asked for."""
    return replace(connection, errors=ErrorCheck())


def abort_conversation(
    lines: Sequence[str],
    connection: Connection,
    asks: Sequence[Sequence[str]] = (),
    note_taken: Callable[[], None] | None = None,
) -> Conversation[AbortReply]:
    """An abort: its lines first, then whether the instrument took them, then what proves it.

    All of it is one job: between a line and its proof nobody can switch on again.

    Args:
        asks: the questions whose answers show that the lines were obeyed: of each the lines that
            select its channel, and the query last. They are asked even where the instrument
            complains: it may have obeyed all the same.
        note_taken: called once the lines were taken without a complaint.

    Raises:
        Failed: INSTRUMENT_ERROR, with ``answers`` in its data; or what the line raises when no
            answer comes. The lines have gone out all the same, and stand in ``sent``.
    """
    complaint: Failed | None = None
    sent = tuple(lines)
    try:
        # What it has noted is asked for below, complaint or not.
        yield from write_lines(lines, _unchecked(connection), is_urgent=True)
    except Failed as refused:
        if refused.code is not ErrorCode.INSTRUMENT_ERROR:
            raise
        complaint = refused
    try:
        yield from _check(connection.errors, sent, has_asked=False)
        if complaint is None and note_taken is not None:
            note_taken()
    except Failed as failed:
        if failed.code is not ErrorCode.INSTRUMENT_ERROR:
            raise
        complaint = complaint or failed
    answers: tuple[str, ...] = ()
    for *selecting, query in asks:
        yield from write_lines(selecting, _unchecked(connection))
        answers += ((yield from _ask(query, connection.timeout_ms / 1000)),)
        sent += (*selecting, query)
    if complaint is not None:
        raise Failed(
            complaint.message,
            code=complaint.code,
            data={**complaint.data, "answers": list(answers)},
            remedy=complaint.remedy,
            sent=sent,
        )
    return AbortReply(answers=answers, sent=sent)


def greet(connection: Connection) -> Conversation[tuple[InstrumentError, ...]]:
    """What follows an opened and identified line: the profile's ``on_connect``, and old errors.

    Returns:
        The errors that stood in the queue: somebody else's, from before.
    """
    yield from write_lines(connection.on_connect, connection)
    return (yield from drain_errors(connection.errors))


def drain_errors(check: ErrorCheck) -> Conversation[tuple[InstrumentError, ...]]:
    """Read what the instrument has to complain about, to the end of its queue (20 at most).

    Returns:
        Oldest first; empty when all is well.
    """
    if check.kind is ErrorKind.NONE:
        return ()
    found: list[InstrumentError] = []
    for _ in range(MAX_QUEUED_ERRORS if check.kind is ErrorKind.QUEUE else 1):
        proves = _is_entry if check.kind is ErrorKind.QUEUE else None
        answer = yield Ask(check.query, None, may_be_empty=True, proves=proves)
        line = answer if isinstance(answer, str) else ""
        error = parse_error(check.kind, line, check.pattern, check.none)
        if not error.is_error:
            break
        if check.detail:
            more = clean_text((yield from _ask(check.detail, None, may_be_empty=True)))
            error = replace(error, text=f"{error.text}: {more}")
        found.append(error)
    return tuple(found)


def require(name: str, needed: Precondition, connection: Connection) -> Conversation[str]:
    """Ask what a command needs, and send nothing of it where the answer is another one.

    Returns:
        The answer.
    """
    answer = yield from _ask(needed.query, connection.timeout_ms / 1000)
    if found_in(answer.strip(), needed.expect) is None:
        yield ExpectMore()
        raise Failed(
            f'{name} was not sent: "{needed.query}" answered "{clean_text(answer)}".',
            code=ErrorCode.INSTRUMENT_ERROR,
            data={"query": needed.query, "expected": needed.expect},
            remedy=needed.hint,
            sent=(needed.query,),
        )
    return answer


def write_lines(
    lines: Sequence[str],
    connection: Connection,
    *,
    is_urgent: bool = False,
    data: bytes | None = None,
) -> Conversation[tuple[str, ...]]:
    """Lines that ask nothing.

    Args:
        is_urgent: all of them go out before what acknowledges them is waited for.
        data: see ``Send``; of the only line.
    """
    pattern = connection.acknowledge
    is_blank = bool(pattern) and found_in("", pattern or "") is not None
    for number, line in enumerate(lines):
        if pattern and not is_urgent:
            answer = yield Ask(
                line,
                connection.timeout_ms / 1000,
                may_be_empty=True,
                takes_first=is_blank,
                data=data,
                may_repeat=found_in(line.strip(), pattern) is not None,
            )
            yield from _acknowledge(pattern, line, answer, connection.errors)
        else:
            # What acknowledges the lines before is read when all are out.
            yield Send(line, data=data, keeps_unread=bool(pattern) and number > 0)
        if connection.after_write_ms:
            yield Pause(connection.after_write_ms / 1000)
    if pattern and is_urgent:
        yield from _acknowledge_all(pattern, lines, connection.errors)
        # They went out as lines that nobody answers: what was read may not be all.
        yield ExpectMore()
    return tuple(lines)


def _acknowledge_all(pattern: str, lines: Sequence[str], check: ErrorCheck) -> Conversation[None]:
    """Read what acknowledges lines that have all gone out already.

    They waited for nothing: the answer to a question that they cut off may come first. What fits
    no pattern is that, as long as each line is acknowledged in the end; else it is the complaint.
    """
    odd: list[str] = []
    for line in lines:
        answer = yield Listen(SOON_S if odd else None)
        while isinstance(answer, str) and found_in(answer.strip(), pattern) is None:
            odd.append(answer)
            answer = None if len(odd) > MOST_OLD_ANSWERS else (yield Listen(SOON_S))
        told = answer if not odd or answer is not None else odd[0]
        yield from _acknowledge(pattern, "; ".join(lines) if odd else line, told, check)


class NotAcknowledged(Failed):
    """Nothing came where a line had to be acknowledged: the unit is silent."""

    default_code = ErrorCode.TIMEOUT


def _acknowledge(pattern: str, line: str, answer: Answer, check: ErrorCheck) -> Conversation[None]:
    """Raise where a line was answered by something else than what acknowledges it.

    Args:
        check: what it noted of the line besides is read, so that the next line is not blamed.
    """
    text = answer.strip() if isinstance(answer, str) else None
    if text is not None and found_in(text, pattern) is not None:
        return
    # The true one may still come.
    yield ExpectMore()
    if text is None:
        raise NotAcknowledged(
            f'"{line[:200]}" was not acknowledged.',
            data={"line": line, "expected": pattern},
            remedy="It may have taken effect all the same.",
        )
    noted = yield from drain_errors(check)
    errors = list(folded([error.text for error in noted], has_more=False))
    reports = f' It reports "{"; ".join(errors)}".' if errors else ""
    told = clean_text(escaped(text))
    data: dict[str, Any] = {"line": line, "answer": told, "expected": pattern}
    raise Failed(
        f'"{line[:200]}" was answered by "{told}", which is not the expected '
        f"answer ({pattern}).{reports}",
        code=ErrorCode.INSTRUMENT_ERROR,
        data={**data, "errors": errors} if errors else data,
        remedy=(
            "Either the instrument reports an error by it, or `acknowledge` in its profile "
            "is wrong."
        ),
    )


def _ask(
    question: str, timeout_s: float | None, *, may_be_empty: bool = False
) -> Conversation[str]:
    answer = yield Ask(question, timeout_s, may_be_empty, lines=1)
    return answer if isinstance(answer, str) else ""


def lines_in(returns: Returns | None) -> int:
    """How many lines an answer has, as ``Ask`` has it."""
    if not isinstance(returns, ListAnswer):
        return 1
    return UNTIL_QUIET if returns.lines is None else returns.lines


def _asks_all(question: str, timeout_s: float, returns: Returns | None, lines: int = 1) -> Ask:
    """Asks for an answer of which nothing may be missing."""
    extra = returns.extra_lines if isinstance(returns, ScalarAnswer | FieldsAnswer) else 0
    # Some instruments answer each query of a line by a line of its own.
    extra = max(extra, question.count("?") - 1)
    return Ask(question, timeout_s, _is_text(returns), lines=lines, extra_lines=extra)


def _is_text(returns: Returns | None) -> bool:
    """Whether an empty answer can be meant: that of a text, but never that of a number."""
    match returns:
        case None:
            return True
        case ScalarAnswer() | ListAnswer():
            return returns.type is AnswerType.STRING
        case FieldsAnswer():
            return all(field.type is AnswerType.STRING for field in returns.fields)
        case _:
            return False


def _bytes(answer: Answer) -> bytes | bytearray:
    return answer if isinstance(answer, (bytes, bytearray)) else b""


def _complete(
    complete: Completion, timeout_s: float, sent: tuple[str, ...]
) -> Conversation[tuple[str, ...]]:
    """Wait until the instrument says that it is done; gives the questions that were sent.

    The number of polls is bounded by time: each takes at least ``every_ms``, and one whose answers
    are slow is the last once the time is over.
    """
    longest_s = complete.timeout_ms / 1000
    match complete.kind:
        case CompletionKind.NONE:
            return ()
        case CompletionKind.OPC:
            said = yield from _ask("*OPC?", longest_s)
            if said and not _is_one(said):
                raise bad_answer('"*OPC?"', said, "is not 1", UNTIL_UNFIT)
            if not said:
                raise Failed(
                    f"The instrument did not say within {complete.timeout_ms} ms that it was done: "
                    '"*OPC?" was answered by an empty line alone.',
                    code=ErrorCode.TIMEOUT,
                    data={"query": "*OPC?"},
                    sent=(*sent, "*OPC?"),
                )
            return ("*OPC?",)
        case CompletionKind.POLL:
            pass
    until = compile_expression(complete.until)
    polls = max(1, complete.timeout_ms // max(1, complete.every_ms))
    answer = ""
    over_at: float | None = None
    for _ in range(polls):
        answer = yield from _ask(complete.query, timeout_s)
        try:
            is_done = until.is_true({"value": _polled(complete, answer)})
        except Invalid as unfit:
            raise bad_answer(
                f'"{complete.query}"',
                answer,
                f"`until` of its command cannot judge: {unfit.message.rstrip('.')}",
                UNTIL_UNFIT,
            ) from unfit
        if is_done:
            return (complete.query,)
        now = yield Pause(complete.every_ms / 1000)
        if isinstance(now, float):
            over_at = over_at or now + longest_s - complete.every_ms / 1000
            if now >= over_at:
                break
    raise Failed(
        f'The instrument was not done within {complete.timeout_ms} ms: "{complete.query}" last '
        f'answered "{answer[:200]}".',
        code=ErrorCode.TIMEOUT,
        data={"query": complete.query, "until": complete.until},
        sent=(*sent, complete.query),
    )


def _polled(complete: Completion, answer: str) -> Scalar:
    """The value of a poll.

    Raises:
        Failed: BAD_ANSWER, it is not of its type.
    """
    text = picked(answer, complete.pattern)
    if complete.type is None:
        return plain_value(text)
    value = parse_answer(ScalarAnswer(type=complete.type), text).value
    return value if isinstance(value, bool | int | float | str) else clean_text(text)


def _is_one(answer: str) -> bool:
    """Whether it is the answer to ``*OPC?`` (IEEE 488.2, 10.19), behind a header too."""
    number = read_number(answer.strip().rpartition(" ")[2])
    return number == 1


def _is_entry(answer: str) -> bool:
    """Whether an answer is an entry of an error queue and nothing else (SCPI-99 volume 2, 21.8)."""
    return ENTRY.match(answer) is not None


def _check(
    check: ErrorCheck, sent: tuple[str, ...], *, has_asked: bool
) -> Conversation[tuple[str, ...]]:
    """Read what the instrument complains about, and judge it."""
    errors = yield from drain_errors(check)
    return _judged(errors, check, sent, has_asked=has_asked) if errors else ()


def _judged(
    errors: tuple[InstrumentError, ...],
    check: ErrorCheck,
    sent: tuple[str, ...],
    *,
    has_asked: bool,
) -> tuple[str, ...]:
    """Raise what the instrument complains about; give what it complains about others."""
    odd = next((error.text for error in errors if error.is_odd), None)
    if odd is not None:
        raise Failed(
            f'"{check.query}" was answered by "{odd}" after "{"; ".join(sent)[:200]}": that is '
            "not an entry of an error queue.",
            code=ErrorCode.BAD_ANSWER,
            data={"answer": odd, "query": check.query},
            remedy="If it answers its writes, say acknowledge in its profile; what was sent has "
            "taken effect unless another message says otherwise.",
            sent=sent,
        )
    has_more = check.kind is ErrorKind.QUEUE and len(errors) >= MAX_QUEUED_ERRORS
    blamed = [e.text for e in errors if has_asked or not _is_query_error(e, check.kind)]
    if blamed:
        told = list(folded(blamed, has_more=has_more))
        # What a program of its own expects to read, where that is no entry of SCPI's.
        entries = [error.answer for error in errors if error.answer != error.text]
        raise Failed(
            f'The instrument reports "{"; ".join(told)}" after "{"; ".join(sent)[:200]}".',
            code=ErrorCode.INSTRUMENT_ERROR,
            data={
                "errors": told,
                "query": check.query,
                **({"entries": entries} if entries else {}),
            },
            sent=sent,
        )
    return folded([e.text for e in errors], has_more=has_more)


def _is_query_error(error: InstrumentError, kind: ErrorKind) -> bool:
    """A question was cut off (by us, when a line was made clean): no fault of a plain write."""
    if error.code is None:
        return False
    if kind is ErrorKind.ESR:
        return not error.code & ESR_OTHER_ERRORS
    return kind is ErrorKind.QUEUE and error.code in QUERY_ERRORS


def _overridden(connection: Connection, command: Command) -> Connection:
    """The connection as this command wants it."""
    own: dict[str, Any] = {}
    for name in OVERRIDDEN:
        value = getattr(command, name)
        if value is not None:
            own[name] = value
    return replace(connection, **own) if own else connection
