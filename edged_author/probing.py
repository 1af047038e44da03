"""How an unknown instrument has to be spoken to: line ends, speeds, pauses. Pure.

A talk is a generator: it says what is to be sent and gets what was heard, and knows no wire and no
clock. Nothing is sent but one question, the instrument's name unless its owner gives another, and
line ends that finish what an attempt in another manner has begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import KW_ONLY, replace
from typing import Final, TypeVar

from edged.errors import ErrorCode, Failed
from edged.profiles.model import Connection
from edged.record import record

T = TypeVar("T")

NAME_QUESTION: Final = "*IDN?"
ENDS: Final = ("\n", "\r", "\r\n")
"""What may end a line, the usual first; what takes one character and gets two keeps the other for
the beginning of its next line, so the pair comes last."""
FIRST_WITHIN_S: Final = 2.0
"""What wakes up for the first question may take long over it."""
WITHIN_S: Final = 0.9
SERIAL_WITHIN_S: Final = 0.6
"""At one of forty settings; whoever hears answers sooner."""
BAUD_RATES: Final = (9600, 115_200, 19_200, 38_400, 57_600, 4800, 2400, 1200, 230_400)
FRAMES: Final = (
    (8, "none", 1),
    (7, "even", 1),
    (7, "odd", 1),
    (8, "even", 1),
    (8, "odd", 1),
    (8, "none", 2),
    (7, "even", 2),
)
"""Data bits, parity, stop bits."""
PAUSES_MS: Final = (0, 10, 25, 50, 100, 200, 400)
UNASKED_WITHIN_S: Final = (0.3, 1.0, 1.0)
"""Of three silences that are waited for one comes, unless it goes on sending by itself."""
QUICK_QUESTIONS: Final = 4
"""In a row, at each pause; an instrument that needs none answers all."""
PATIENCE: Final = 4
"""A time limit is so many times the slowest answer."""
_LINE_END: Final = re.compile(r"\r\n|\n\r|\n|\r")
_PRINTABLE: Final = re.compile(rb"[\x20-\x7e\xa0-\xff\r\n\t]+")
WIRE_KEYS: Final = (
    "read_termination",
    "write_termination",
    "baud_rate",
    "data_bits",
    "parity",
    "stop_bits",
    "flow",
    "min_gap_ms",
    "timeout_ms",
    "before",
)


@record(kw_only=False)
class Say:
    """One line, and how long an answer is waited for.

    Attributes:
        line: empty: nothing is sent, it is only listened.
        leads: a bare line end goes first, to finish what another attempt has begun.
        is_quick: the answer ends at its line end; else whatever follows is waited for.
        asks: an answer is owed; of a line that asks nothing one may come all the same.
    """

    line: str
    _: KW_ONLY
    connection: Connection
    within_s: float
    leads: bool = False
    is_quick: bool = False
    pause_s: float = 0.0
    asks: bool = True


@record
class Heard:
    """What came.

    Attributes:
        data: with its line ends, where the wire has no messages.
        came: something did, be it an empty message.
        was_said: the line went out; else nothing can be made of silence.
        was_lost: the other side ended the connection instead.
    """

    data: bytes = b""
    came: bool = False
    was_said: bool = True
    was_lost: bool = False
    after_ms: float = 0.0

    def lines(self) -> tuple[str, ...]:
        """The lines of it; an empty one counts."""
        if not self.came:
            return ()
        found = _LINE_END.split(self.data.decode("latin-1"))
        return tuple(found[:-1] if len(found) > 1 and not found[-1] else found)

    def answer_to(self, question: str) -> str:
        """The first line that holds anything and is not the question come back."""
        told = (line for line in self.lines() if line.strip() and line.strip() != question)
        return next(told, "")


Talk = Generator[Say, Heard, T]


def held(talk: Talk[T], hear: Callable[[Say], Heard]) -> T:
    """What a talk comes to, held to its end with whoever ``hear`` asks."""
    try:
        say = next(talk)
        while True:
            say = talk.send(hear(say))
    except StopIteration as end:
        result: T = end.value
        return result


@record
class WireFindings:
    """How it is spoken to, and what it said then.

    Attributes:
        doubts: sentences about what could not be known.
    """

    connection: Connection
    answer: str
    after_ms: float
    doubts: tuple[str, ...] = ()


def is_text(data: bytes) -> bool:
    """Whether it holds what people read, and at least one letter or digit."""
    return _PRINTABLE.fullmatch(data) is not None and any(chr(b).isalnum() for b in data)


def find_settings(question: str, given: Connection, *, is_serial: bool) -> Talk[WireFindings]:
    """All of it, for a wire without messages.

    Args:
        question: what it is asked.
        given: what is known already; tried first.
        is_serial: speeds are to be found too.

    Raises:
        Failed: TIMEOUT, nobody answered in any manner.
    """
    if is_serial:
        given = yield from _find_speed(question, given)
    unasked = yield from find_unasked(given)
    found = yield from find_terminations(question, given)
    if found is None:
        raise _silence(question)
    found = replace(found, doubts=(*unasked, *found.doubts))
    return (yield from find_pauses(question, found))


def find_message_settings(question: str, given: Connection) -> Talk[WireFindings]:
    """The same for a wire that marks where an answer ends: only its pauses and its patience.

    Raises:
        Failed: as ``find_settings``.
    """
    heard = yield Say(question, connection=given, within_s=FIRST_WITHIN_S)
    if not heard.came:
        raise _silence(question)
    found = WireFindings(
        connection=given, answer=heard.answer_to(question), after_ms=heard.after_ms
    )
    return (yield from find_pauses(question, found))


def _silence(question: str) -> Failed:
    return Failed(
        f"No setting that was tried got an answer to {question}.",
        code=ErrorCode.TIMEOUT,
        remedy="If it knows no such question, give one from its manual that changes nothing: "
        "--ask VERSION. Is it switched on, and set to remote control over this interface?",
    )


def _find_speed(question: str, given: Connection) -> Talk[Connection]:
    """The settings of the port at which something readable came; as given, where it never did."""
    for tried, leads in _speeds(given):
        heard = yield Say(question, connection=tried, within_s=SERIAL_WITHIN_S, leads=leads)
        if is_text(heard.data):
            return replace(tried, write_termination=given.write_termination)
    return given


def _speeds(given: Connection) -> Iterator[tuple[Connection, bool]]:
    """What is tried, the likely first, and whether a line end leads: there is no time for all.

    Of CR and LF together those take notice too that want one of them, unless they are strict; what
    a wrong speed has made of earlier attempts is finished by a line end before the later ones.
    """
    rates = (given.baud_rate,) if given.baud_rate is not None else BAUD_RATES
    is_framed = (given.data_bits, given.parity, given.stop_bits) != (None, None, None)
    usual, *others = ((None, None, None),) if is_framed else FRAMES
    rounds = (("\r\n", False, usual), ("\n", True, usual), ("\r", True, usual))
    for end, leads, frame in (*rounds, *(("\r\n", False, other) for other in others)):
        for rate in rates:
            tried = replace(given, write_termination=end, baud_rate=rate)
            if not is_framed:
                bits, parity, stop = frame
                tried = replace(tried, data_bits=bits, parity=parity, stop_bits=stop)
            yield tried, leads


def find_unasked(given: Connection) -> Talk[tuple[str, ...]]:
    """What is wrong with what it sends by itself; a greeting comes once, and is heard out."""
    for within_s in UNASKED_WITHIN_S:
        heard = yield Say("", connection=given, within_s=within_s)
        if not heard.came:
            return ()
    return (UNASKED,)


def find_terminations(
    question: str, given: Connection, *, first_within_s: float = FIRST_WITHIN_S
) -> Talk[WireFindings | None]:
    """What ends a line either way; ``None`` where nothing came."""
    first = given.write_termination
    ends = (first, *(end for end in ENDS if end != first)) if first else ENDS
    for number, end in enumerate(ends):
        tried = replace(given, write_termination=end)
        within_s = WITHIN_S if number else first_within_s
        heard = yield Say(question, connection=tried, within_s=within_s, leads=number > 0)
        if not heard.came:
            continue
        ending, doubt = _ending_of(heard.data, given.read_termination)
        echoes = any(line.strip() == question for line in heard.lines())
        patience_ms = _patient(heard.after_ms, tried.timeout_ms)
        return WireFindings(
            connection=replace(tried, read_termination=ending, timeout_ms=patience_ms),
            answer=heard.answer_to(question).removesuffix(ending),
            after_ms=heard.after_ms,
            doubts=tuple(filter(None, (doubt, ECHO if echoes else ""))),
        )
    return None


UNASKED: Final = (
    "It sends without being asked, so that an answer cannot be told from that: switch it off "
    "(continuous output, talk-only mode), and do this again."
)
HANGS_UP: Final = (
    "It ended the connection each time, which may be its answer to a line that it does not know; "
    "one that ends it after every answer, too, cannot be used by edged."
)

ECHO: Final = (
    "It echoes what it receives: switch its echo off, because an echo cannot be told from an "
    "answer."
)


def _ending_of(data: bytes, given: str) -> tuple[str, str]:
    """What ends an answer, and what is wrong with it; ``given`` is its owner's word for it."""
    for ending in ("\r\n", "\n\r", "\n", "\r", given):
        if ending and data.endswith(ending.encode()):
            return ending, ""
    return "\n", (
        "No line end came behind the answer: edged cannot know where one ends. Look in the manual "
        "for a setting that makes it send one."
    )


def find_pauses(question: str, found: WireFindings) -> Talk[WireFindings]:
    """How long it must be left alone between two lines, and how patient one must be."""
    slowest, connection = found.after_ms, found.connection
    for gap_ms in PAUSES_MS:
        answered = 0
        for _ in range(QUICK_QUESTIONS):
            heard = yield Say(
                question,
                connection=connection,
                within_s=max(WITHIN_S, 2 * found.after_ms / 1000),
                is_quick=True,
                pause_s=gap_ms / 1000,
            )
            if not heard.came:
                break
            answered += 1
            slowest = max(slowest, heard.after_ms)
        if answered == QUICK_QUESTIONS:
            # Twice what was just enough: this was one good minute of one unit.
            connection = replace(
                connection,
                min_gap_ms=max(connection.min_gap_ms, 2 * gap_ms),
                timeout_ms=_patient(slowest, connection.timeout_ms),
            )
            return replace(found, connection=connection)
        # What is still under way has time to come, and is not taken for the next answer.
        yield Say("", connection=connection, within_s=WITHIN_S)
    doubt = f"It does not answer {question} reliably even {PAUSES_MS[-1]} ms after another line."
    return replace(found, doubts=(*found.doubts, doubt))


def _patient(slowest_ms: float, least_ms: int) -> int:
    wanted = PATIENCE * slowest_ms
    return least_ms if wanted <= least_ms else int(-(-wanted // 500) * 500)


def flow_of(connection: Connection) -> dict[str, object]:
    """The keys of ``connection:`` that are not as usual, for a profile."""
    usual = Connection()
    found = {key: getattr(connection, key) for key in WIRE_KEYS}
    return {key: value for key, value in found.items() if value != getattr(usual, key)}
