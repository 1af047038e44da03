"""Asking who is there: ``*IDN?``, whatever else comes before the answer, and whose name counts.

A unit that does not know ``*IDN?``, or must never be asked it, is asked what its profile has in
that place; what comes of that has the form of an answer to ``*IDN?``, so nobody else need know.

Each is a conversation; what is passed over here is never left on the line for the next question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import Ask, Beat, Conversation, KnownQuestion, Listen, Send
from edged.patterns import found_in
from edged.profiles.match import has_name_form
from edged.profiles.model import Connection
from edged.scpi.answer_text import clean_text

IDENTITY_QUESTION: Final = "*IDN?"
SETTLED_S: Final = 0.2
"""A banner, or old answers, have ended when nothing more came for so long."""
MOST_PASSED_OVER: Final = 30
"""Lines of a banner."""
MOST_OLD_ANSWERS: Final = 4
"""On a line that keeps old answers they come first."""


def identify(is_name: Callable[[str], bool] = has_name_form) -> Conversation[str]:
    """Ask who is there; no setting of any instrument changes by it.

    What is no name may be a banner, or the answer to somebody else's question: what comes with it
    is passed over, and the question asked once more.

    Args:
        is_name: whether an answer counts at once.

    Returns:
        A name; or what is none, but was answered twice.

    Raises:
        Failed: BAD_ANSWER, neither.
    """
    idn = yield from _asked()
    if is_name(idn):
        return idn
    for following in (yield from _banner(is_name)):
        if is_name(following):
            return following
    again = yield from _once_more(is_name)
    if is_name(again) or again == idn:
        return again
    raise Failed(
        f'What answers *IDN? by "{clean_text(idn)}", and when asked again by '
        f'"{clean_text(again)}", does not identify itself.',
        code=ErrorCode.BAD_ANSWER,
    )


def identify_known(known_idn: str, is_known: Callable[[str], bool]) -> Conversation[str]:
    """``identify`` where one unit is expected: only who says another name twice is another unit.

    One answer can be an old one (adapters keep them over a connection), a banner, or a mangled one.
    Taken for another unit it would keep the known one from its line for good.

    Returns:
        The expected name, or another unit's.

    Raises:
        Failed: BAD_ANSWER, what came is nobody's name, or not the same twice.
    """
    idn = yield from _asked()
    if is_known(idn):
        return idn
    heard = (idn, *(yield from _banner(is_known)))
    if is_known(heard[-1]):
        return heard[-1]
    again = yield from _once_more(is_known)
    if is_known(again):
        return again
    if again not in heard:
        raise Failed("Two answers to *IDN? were not the same.", code=ErrorCode.BAD_ANSWER)
    if not has_name_form(again) and has_name_form(known_idn):
        raise Failed(
            f"*IDN? was answered by {clean_text(again)[:40]!r}.", code=ErrorCode.BAD_ANSWER
        )
    return again


def _banner(is_name: Callable[[str], bool]) -> Conversation[tuple[str, ...]]:
    """What comes until nothing more comes, or until a name: that is the last one then."""
    lines: list[str] = []
    for _ in range(MOST_PASSED_OVER):
        line = yield Listen(SETTLED_S)
        if not isinstance(line, str):
            break
        if line:
            lines.append(line)
        if is_name(line):
            break
    return tuple(lines)


def _once_more(is_name: Callable[[str], bool]) -> Conversation[str]:
    """Ask again, on a line on which the first question may still be answered.

    Both answers to it are waited for before a name counts, so that none is left for the next
    question.
    """
    yield Send(IDENTITY_QUESTION)
    answer = ""
    for _ in range(MOST_PASSED_OVER):
        line = yield Listen()
        if not isinstance(line, str):
            break
        answer = line or answer
        if is_name(line):
            yield Listen()
            break
        if answer:
            break
    return answer


def identify_again(is_known: Callable[[str], bool], *, owed: int) -> Conversation[str]:
    """``identify`` where answers to earlier questions may come first: they are passed over.

    Args:
        is_known: whether a line is the name of the unit that is expected.
        owed: how many earlier ``*IDN?`` may still be answered, which no reader can tell apart.

    Returns:
        The expected name, or another unit's.

    Raises:
        Failed: BAD_ANSWER, what came is nobody's name.
    """
    answer = yield from _asked()
    while not is_known(answer):
        following = yield Listen()
        if not isinstance(following, str):
            if not has_name_form(answer):
                raise Failed("An old answer came, and no name.", code=ErrorCode.BAD_ANSWER)
            return answer
        answer = following or answer
    for _ in range(owed):
        if (yield Listen()) is None:
            break
    return answer


def beat(question: str, is_answer: Callable[[str], bool]) -> Conversation[None]:
    """Ask what is known by heart, to learn whether anybody answers.

    Raises:
        Failed: BAD_ANSWER, something else came: the line is brought back before it is used.
    """
    answer = yield Beat(question, is_answer)
    if not (isinstance(answer, str) and is_answer(answer)):
        raise Failed(
            f"{question} was answered by {clean_text(str(answer))[:40]!r}.",
            code=ErrorCode.BAD_ANSWER,
        )


def hail(connection: Connection) -> Conversation[str]:
    """Ask who is there, in whatever way its connection says; raises as ``identify``."""
    return identify() if connection.asks_idn else identify_otherwise(connection)


def identify_otherwise(connection: Connection) -> Conversation[str]:
    """Ask what stands in the place of ``*IDN?``: ``identify``, else the probe, else nothing.

    Returns:
        The name that its profile has for it, with the serial number that it told; or, where another
        answer came, that one.
    """
    question, _ = _in_place_of_idn(connection)
    if not question:
        return connection.unit_name
    answer = yield Ask(question)
    for _ in range(MOST_OLD_ANSWERS):
        if not isinstance(answer, str) or not answer:
            break
        name = _named_by(connection, answer)
        if name:
            return name
        following = yield Listen()
        if not isinstance(following, str):
            return f"{question} answered: {clean_text(answer)}"
        answer = following
    return f"{question} answered otherwise"


def known_by_heart(connection: Connection, is_me: Callable[[str], bool]) -> KnownQuestion | None:
    """What a unit can be asked at any time; ``None`` where nothing is known.

    Args:
        is_me: whether a name is this unit's.
    """
    if connection.asks_idn:
        return KnownQuestion(question=IDENTITY_QUESTION, is_answer=is_me)
    question, _ = _in_place_of_idn(connection)
    if not question:
        return None
    return KnownQuestion(
        question=question, is_answer=lambda line: is_me(_named_by(connection, line))
    )


def _in_place_of_idn(connection: Connection) -> tuple[str, str]:
    """The question, and what its answer must be like; empty where there is none."""
    if connection.identify is not None:
        return connection.identify.ask, connection.identify.expect
    probe = connection.probe
    return ("", "") if probe is None else (probe.query, probe.expect)


def _named_by(connection: Connection, answer: str) -> str:
    """The name that an answer gives; empty where it is not what is expected."""
    _, expect = _in_place_of_idn(connection)
    if found_in(answer, expect, any_case=False) is None:
        return ""
    asked = connection.identify
    told = found_in(answer, asked.serial, any_case=False) if asked and asked.serial else None
    serial = (told.group(1) or "").replace(",", " ").strip() if told is not None else ""
    return f"{connection.unit_name},{serial}," if serial else connection.unit_name


def _asked() -> Conversation[str]:
    answer = yield Ask(IDENTITY_QUESTION)
    return answer if isinstance(answer, str) else ""
