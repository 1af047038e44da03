"""Whether a line is in step: how an answer is known to belong to its question. Pure.

A wire carries no number that ties an answer to its question, so the daemon counts what is owed. As
soon as something came, or may come, that no question asked for, the line is *out of step*; before
its next question it is brought back (``dialogue.py``): read until it is quiet, ask the unit's own
name, read until that name comes and until it is quiet again.

Three things put a line out of step for certain: bytes that nobody asked for, an answer that is not
what its question is answered by, and a raw line of which nobody knows what it is answered by. Two
are only possible, and are looked at once for each header and unit: that a line which asks nothing
is acknowledged, and that an answer is followed by more (Rigol DL3021: a second line 20 ms later,
while its input is off). What a unit was once caught at is remembered as long as the daemon lives.

In step it costs one look into a set for each question. A line that has never been quiet for a
while, because it is asked without a pause, is checked by the unit's name now and then: a shift by
one is invisible there, as each question finds the answer before its own.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from edged.changes import TOLD
from edged.record import record

QUIET_S: Final = 0.05
"""A line on which nothing comes for so long after an answer has no more to say."""
CAUGHT_QUIET_S: Final = 0.2
"""The same, of a unit that was seen to say more."""
LATENESS_TIMES: Final = 4.0
"""Times the longest that its unasked words were ever late."""
LONGEST_QUIET_S: Final = 2.0
FOLLOWS_WITHIN_S: Final = 5.0
"""What comes later than this after an answer is not taken for something that follows it."""
UNSEEN_S: Final = 0.1
"""What was not seen coming is not taken to be later than this."""
FIRST_CHECK_S: Final = 0.25
LONGEST_CHECK_S: Final = 16.0
"""How long a line may be asked without a pause before its unit says its name in between; the time
doubles with each check that finds nothing."""
MOST_HEADERS: Final = 1_024
"""More headers than any instrument has are somebody's garbage: they are looked at each time."""

ANSWERS_WRITES: Final = (
    'It answers its writes ("{answer}" to "{line}"): say acknowledge in its profile.'
)
SAYS_MORE: Final = (
    'It sends more than it was asked for ("{answer}" came after the answer to "{line}"): '
    "what follows its answers is waited for and dropped, which takes {quiet_ms:.0f} ms a "
    "question."
)


class Owed:
    """What has to happen before the next question, as bits of a number.

    No ``IntFlag``: each question looks at it several times, and that class answers in Python.
    """

    NOTHING: Final = 0
    QUIET: Final = 1
    """Nothing may come for a while."""
    NAME: Final = 2
    """Its unit has to say its name; what comes before that is dropped."""
    PROOF: Final = 3
    LOOK: Final = 4
    """Where a status byte can be had, it must tell that no answer waits."""


def header_of(line: str) -> str:
    """What a line of SCPI begins with: the same whatever values follow it."""
    return line.partition(" ")[0]


@record(frozen=False, kw_only=False)
class Habits:
    """How one unit has been seen to answer, for the life of the daemon.

    Attributes:
        calm: headers after whose answer nothing came; of a unit that was caught, none.
        silent: headers of lines that ask nothing and were not answered.
        followed: headers of questions whose answer was once followed by more.
        answered: headers of lines that ask nothing and may have been answered.
        quiet_s: how long it has to be quiet.
        warning: what its owner should know; empty while it is as it should be.
    """

    calm: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    followed: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    quiet_s: float = QUIET_S
    is_caught: bool = False
    warning: str = ""

    def may_be_answered(self, line: str) -> None:
        """A line that asks nothing was answered, or went out with one that was."""
        header = header_of(line)
        self.silent.discard(header)
        _keep(self.answered, header)

    def catch(self, question: str, answer: str, late_s: float) -> None:
        """More came after the answer to a question."""
        self.is_caught = True
        self.calm.clear()
        _keep(self.followed, header_of(question))
        self._wait_for(max(late_s, CAUGHT_QUIET_S / LATENESS_TIMES))
        self.warning = SAYS_MORE.format(answer=answer, line=question, quiet_ms=1_000 * self.quiet_s)
        TOLD.note()

    def _wait_for(self, late_s: float) -> None:
        wanted_s = max(self.quiet_s, LATENESS_TIMES * late_s)
        self.quiet_s = min(LONGEST_QUIET_S, wanted_s)

    def acknowledge(self, line: str, answer: str, late_s: float) -> None:
        """A line that asks nothing was answered."""
        self.may_be_answered(line)
        self._wait_for(late_s)
        self.warning = self.warning or ANSWERS_WRITES.format(answer=answer, line=line)
        TOLD.note()


class InStep:
    """What one line owes, and why. Told of all that is said on it; has no clock of its own.

    Attributes:
        habits: of the unit at the other end; replaced as a whole when another lives there.
        owed: before the next question.
        unproved: lines that asked nothing, and may be answered all the same.
        proved_at: when nothing more could come for certain, on the monotonic scale.

    Args:
        drops_unread: what the unit said and nobody fetched may be dropped by the next message, as
            on GPIB: an answer that was not seen is no proof there that none was given.
    """

    def __init__(self, *, drops_unread: bool = False) -> None:
        self._drops_unread = drops_unread
        # Nothing waited to be fetched after the last line that asked nothing had had its time.
        self._is_seen_silent = False
        self.habits = Habits()
        self.owed: int = Owed.NOTHING
        self.unproved: list[str] = []
        self.proved_at = float("-inf")
        # The last line may be answered, or not.
        self._is_open = False
        # The last line that went out, and whether it was a question that has been answered.
        self._last = ""
        self._has_asked = False
        # The header after whose answer it has not been quiet yet, whatever was written since.
        self._unrested = ""
        self._check_after_s = FIRST_CHECK_S

    def begin(self, *, is_fresh: bool) -> None:
        """A connection was opened or cleared; a fresh one brings nothing that was owed before."""
        self.owed = Owed.NOTHING if is_fresh else Owed.PROOF
        self._last, self._has_asked, self._unrested = "", False, ""
        self._is_open = False
        self._check_after_s = FIRST_CHECK_S
        self.unproved.clear()

    def asked(self, question: str, at: float, *, has_more: bool = False) -> None:
        """A question was answered.

        Args:
            has_more: by more than its own line: it is to be looked at again the next time.
        """
        self._last, self._has_asked, self._is_open = question, True, False
        header = question.partition(" ")[0]
        if header not in self.habits.calm:
            self.owed |= Owed.PROOF if header in self.habits.followed else Owed.QUIET
            self._unrested = "" if has_more else header
        elif at - self.proved_at > self._check_after_s:
            self._check_after_s = min(LONGEST_CHECK_S, 2 * self._check_after_s)
            self.owed |= Owed.NAME

    def wrote(self, line: str) -> None:
        """A line went out that nobody expects an answer to."""
        self._last, self._has_asked, self._is_open = line, False, False
        self._is_seen_silent = False
        if len(self.unproved) < MOST_HEADERS:
            self.unproved.append(line.partition(" ")[0])

    def may_be_answered(self) -> None:
        """Nobody knows whether the last line is answered: if it is, that is no habit."""
        self._last, self._is_open = "", True

    def before(self, *, proves_itself: bool) -> int:
        """What is owed before a question.

        Args:
            proves_itself: by its answer's form it is seen whether that is its own.
        """
        if self.unproved:
            may_answer_all = self._drops_unread and bool(self.habits.answered)
            silent = self.habits.silent
            if not may_answer_all and silent.issuperset(self.unproved):
                self.unproved.clear()
                self.owed |= Owed.LOOK
            elif not proves_itself:
                self.owed |= Owed.NAME
                if self._drops_unread and not may_answer_all:
                    # To be seen before the question for the name drops it.
                    self.owed |= Owed.QUIET
            if self.habits.is_caught:
                self.owed |= Owed.QUIET
        return self.owed

    def doubt(self) -> None:
        """What came may leave more to come: it was not what its question is answered by."""
        self.owed = Owed.PROOF

    def expect_more(self) -> None:
        """What was sent may be answered by more than was read: that would be no habit."""
        self.owed = Owed.PROOF
        self._last = self._unrested = ""
        self.unproved.clear()

    def interrupted(self) -> None:
        """Another unit of the same port was spoken to: what comes now is no habit of this one."""
        self._last, self._is_open = "", False

    def left_over(self, text: str, late_s: float, *, is_seen_coming: bool) -> None:
        """Something came that nobody asked for.

        Args:
            text: cleaned, and bounded.
            late_s: since the last byte that was asked for.
            is_seen_coming: it was waited for, so that it is known when it came; else it has come by
                then.
        """
        self.owed = Owed.PROOF
        self._unrested = ""
        follows = late_s <= FOLLOWS_WITHIN_S
        if not is_seen_coming:
            late_s = min(late_s, UNSEEN_S)
        if self._is_open or (self._last and not self._has_asked):
            if not self._is_open:
                self.habits.acknowledge(self._last, text, late_s)
            for line in self.unproved:
                self.habits.may_be_answered(line)
            self.unproved.clear()
        elif self._last and follows:
            self.habits.catch(self._last, text, late_s)

    def rested(self, at: float, *, is_told: bool = False) -> None:
        """Nothing came for ``habits.quiet_s``: what was answered is over.

        Args:
            is_told: by a status byte, that nothing waits to be fetched.
        """
        self.proved_at = at
        self._is_seen_silent = is_told
        self.owed &= ~Owed.QUIET
        if self._unrested and not self.habits.is_caught:
            _keep(self.habits.calm, self._unrested)
        self._unrested = ""

    def looked(self, at: float) -> None:
        """What was owed was looked for, and nothing was found."""
        self.proved_at = at
        self.owed = Owed.NOTHING

    def proved(self, at: float, by: str) -> None:
        """A question was answered as only it can be: nothing before it is answered any more.

        Args:
            by: the question; whatever comes from now on follows its answer.
        """
        self.looked(at)
        self._last, self._has_asked, self._unrested = by, True, header_of(by)
        self._is_open = False
        for header in self.unproved:
            is_sure = self._is_seen_silent or not self._drops_unread
            if is_sure and header not in self.habits.answered:
                _keep(self.habits.silent, header)
        self.unproved.clear()


def _keep(headers: set[str], header: str) -> None:
    if len(headers) < MOST_HEADERS:
        headers.add(header)
