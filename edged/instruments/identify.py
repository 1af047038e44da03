"""Asking who is there: ``*IDN?``, whatever else comes before the answer, and whose name counts.

Each is a conversation; what is passed over here is never left on the line for the next question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import Ask, Beat, Conversation, Listen, Send
from edged.profiles.match import has_name_form
from edged.scpi.answer_text import clean_text

__all__ = [
    "IDENTITY_QUESTION",
    "beat",
    "identify",
    "identify_again",
    "identify_known",
]

IDENTITY_QUESTION: Final = "*IDN?"
SETTLED_S: Final = 0.2
"""A banner, or old answers, have ended when nothing more came for so long."""
MOST_PASSED_OVER: Final = 30
"""Lines of a banner."""


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
        f'"{clean_text(again)}", does not say who it is.',
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


def _asked() -> Conversation[str]:
    answer = yield Ask(IDENTITY_QUESTION)
    return answer if isinstance(answer, str) else ""
