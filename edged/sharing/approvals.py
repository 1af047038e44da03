"""Questions that wait for a person's yes: who asked what, until when, and the first answer. Pure.

One that was answered is over; whoever answers later is told so. Nothing here knows how a person is
asked. The text of a question is the same wherever it is shown.

Source: docs/sharing.md; docs/promises.md section 16, "Approval".
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

from edged.errors import Conflict, ErrorCode, NotFound, Refused
from edged.record import record
from edged.sharing.leases import Moment

MOST_WAITING: Final = 64
"""More questions at once than any person answers."""
MOST_OF_ONE: Final = 8
"""Of one caller: what one asks must not keep others from asking."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Of the lines of all that wait, compressed: some hundred of the longest questions."""
DIGEST_CHARACTERS: Final = 16
"""Hexadecimal digits that people are shown of a digest; what is sent is compared by all."""


class Verdict(enum.StrEnum):
    """What a person said."""

    APPROVED = "approved"
    DENIED = "denied"


@record(frozen=False)
class Question:
    """One question; only its verdict ever changes, once.

    Attributes:
        digest: of caller, tool, arguments and lines: a call that is repeated is the same question.
        who: the caller, for people.
        instrument: what people call the unit.
        tool: what was called.
        parameters: each with its value and unit.
        sends: what would go out: every line, or ranges that together describe every line.
        count: how many lines that are.
        lines_digest: of all these lines, in hexadecimal digits.
        packed: all lines, compressed.
        ways: by which it may be answered.
        is_plan: it is about a run with a plan: ``sends`` are bounds, in place of lines.
        remark: why it cannot be answered by a way that the owner named; else empty.
        until: when it ends unanswered.
        by: who answered.
    """

    approval_id: str
    digest: str
    who: str
    instrument_id: str
    instrument: str
    tool: str
    parameters: tuple[str, ...]
    sends: tuple[str, ...]
    count: int
    lines_digest: str
    packed: bytes
    ways: frozenset[str]
    until: Moment
    is_plan: bool = False
    remark: str = ""
    verdict: Verdict | None = None
    by: str = ""

    @property
    def short_digest(self) -> str:
        """The beginning of the digest, for people."""
        return self.lines_digest[:DIGEST_CHARACTERS]

    @property
    def text(self) -> str:
        """What a person reads: in the client's form, on the page, in the shell and in the log."""
        given = f"Parameters: {', '.join(self.parameters)}.\n" if self.parameters else ""
        lines = "1 line" if self.count == 1 else f"{self.count:,} lines"
        would, aborts = f"It would send {lines}", "the abort of the instrument"
        if self.is_plan:
            would = "Until it ends it may send what is within these bounds (a ramp begins where "
            would, aborts = f"{would}its unit stands)", "the abort of each instrument"
        sends = "".join(f"\n  {each}" for each in self.sends)
        return (
            f"{self.instrument}: {self.tool}, asked by {self.who}, needs your approval "
            f"({self.approval_id}).\n{given}{would}, digest {self.short_digest}; "
            f"`edged approve show {self.approval_id}` prints each:{sends}\n"
            f"If it fails or is stopped, {aborts} may be sent as well."
        )

    def told(self) -> dict[str, object]:
        """JSON-ready, for whoever may look."""
        return {
            "approval_id": self.approval_id,
            "instrument_id": self.instrument_id,
            "instrument": self.instrument,
            "tool": self.tool,
            "text": self.text,
            "line_count": self.count,
            "digest": self.short_digest,
            "who": self.who,
            "ways": sorted(self.ways),
            "remark": self.remark,
            "expires_ms": self.until.wall_ms,
        }


class Approvals:
    """All questions that wait, or were answered and not acted upon.

    Args:
        new_id: makes their ids.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._questions: dict[str, Question] = {}

    @property
    def is_any(self) -> bool:
        """Whether anything was asked that is not forgotten."""
        return bool(self._questions)

    def new_id(self) -> str:
        """The id of the next question."""
        return self._new_id()

    def ask(self, question: Question, now: Moment) -> Question:
        """It waits from now on.

        Raises:
            Conflict: BUSY, too many wait already.
        """
        self.drop_ended(now)
        kept = sum(len(one.packed) for one in self._questions.values())
        if len(self._questions) >= MOST_WAITING or kept + len(question.packed) > MOST_BYTES:
            raise Conflict(
                f"{len(self._questions)} questions wait for a person already.",
                code=ErrorCode.BUSY,
                remedy="Wait until they were answered.",
            )
        if sum(one.who == question.who for one in self._questions.values()) >= MOST_OF_ONE:
            raise Conflict(
                f"{MOST_OF_ONE} questions of {question.who} wait for a person already.",
                code=ErrorCode.BUSY,
                remedy="Wait until they were answered.",
            )
        self._questions[question.approval_id] = question
        return question

    def waiting(self, now: Moment) -> tuple[Question, ...]:
        """Those without an answer, oldest first."""
        return tuple(
            question
            for question in self._questions.values()
            if question.verdict is None and not _is_over(question, now)
        )

    def answer(
        self, approval_id: str, verdict: Verdict, *, way: str, by: str, now: Moment
    ) -> Question:
        """Note a person's answer; the first counts.

        Raises:
            NotFound: UNKNOWN_APPROVAL, no such question waits.
            Conflict: BUSY, it was answered already.
            Refused: DENIED_BY_OWNER, it may not be answered by that way.
        """
        question = self.find(approval_id, now)
        if question.verdict is not None:
            raise Conflict(
                f"{approval_id} was {question.verdict} already, by {question.by}.",
                code=ErrorCode.BUSY,
            )
        if way not in question.ways:
            raise Refused(
                f"{approval_id} may not be answered here: the owner wants that by "
                f"{' or '.join(sorted(question.ways))}.",
                code=ErrorCode.DENIED_BY_OWNER,
            )
        question.verdict, question.by = verdict, by
        return question

    def find(self, approval_id: str, now: Moment) -> Question:
        """A question that waits, or was answered and not acted upon.

        Raises:
            NotFound: UNKNOWN_APPROVAL.
        """
        question = self._questions.get(approval_id)
        if question is None or _is_over(question, now):
            raise NotFound(
                f"No question {approval_id[:64]!r} waits for an answer.",
                code=ErrorCode.UNKNOWN_APPROVAL,
                remedy="It may have ended: what waits is listed by `edged approve`.",
            )
        return question

    def same(self, digest: str, now: Moment) -> Question | None:
        """The question that a repeated call is, answered or not."""
        for question in self._questions.values():
            if question.digest == digest and not _is_over(question, now):
                return question
        return None

    def end(self, approval_id: str) -> None:
        """It was acted upon, or nobody waits for it any more."""
        self._questions.pop(approval_id, None)

    def end_all(self) -> tuple[Question, ...]:
        """Nothing waits any more; returns what did."""
        ended = tuple(self._questions.values())
        self._questions.clear()
        return ended

    def drop_ended(self, now: Moment) -> tuple[Question, ...]:
        """Forget those that time has ended; returns them."""
        over = tuple(one for one in self._questions.values() if _is_over(one, now))
        for question in over:
            del self._questions[question.approval_id]
        return over


def _is_over(question: Question, now: Moment) -> bool:
    return now.monotonic_s >= question.until.monotonic_s
