"""One abort, sent and proved: the one way of runs and of stop all.

The lines go out ahead of everything, and in the same job the instrument is asked whether it
obeyed; what it answered counts for more than that it complained of nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final

from edged.actions.action import SendLines
from edged.errors import EdgedError, ErrorCode
from edged.profiles.abort import (
    AbortVerdict,
    Proof,
    is_switching_off,
    judge,
    tellings,
)
from edged.record import record
from edged.runs.ports import Perform

UNHEARD: Final = frozenset(
    {ErrorCode.TIMEOUT, ErrorCode.DISCONNECTED, ErrorCode.PREEMPTED, ErrorCode.BUSY}
)
"""What says nothing of the instrument: it has not answered."""


@record
class Obeyed:
    """What came of one try.

    Attributes:
        is_taken: the instrument took the lines, as far as it tells.
        is_heard: it has answered, whatever it said.
        error: why it cannot be believed to be safe; empty where nothing speaks against it.
        complaint: what it complained of, though all that the lines switch off is shown to be off.
    """

    verdict: AbortVerdict = field(default_factory=AbortVerdict)
    is_taken: bool = False
    is_heard: bool = True
    error: str = ""
    complaint: str = ""


async def obey(perform: Perform, action: SendLines, proofs: Sequence[Proof]) -> Obeyed:
    """Send an abort and ask what proves it; never raises an ``EdgedError``.

    Args:
        action: with purpose ABORT; its questions are added here.
    """
    outcome = await perform(replace(action, asks=tuple(proofs)))
    complaint = outcome.error
    if complaint is None:
        verdict = judge(proofs, outcome.data["answers"])
        return Obeyed(verdict=verdict, is_taken=True, error=verdict.error)
    verdict = judge(proofs, complaint.data.get("answers", ()))
    if _is_overruled(complaint, verdict, action.lines):
        return Obeyed(verdict=verdict, is_taken=True, complaint=str(complaint))
    said = " ".join(filter(None, (str(complaint), verdict.error)))
    return Obeyed(verdict=verdict, is_heard=complaint.code not in UNHEARD, error=said)


def _is_overruled(complaint: EdgedError, verdict: AbortVerdict, lines: Sequence[str]) -> bool:
    """It complained (of something older, or of one line of several), and says that all is off."""
    if complaint.code is not ErrorCode.INSTRUMENT_ERROR or verdict.error:
        return False
    switched = {t.output for line in lines if is_switching_off(line) for t in tellings(line)}
    return bool(switched) and switched <= verdict.off
