"""No call that says success carries another question's value: thousands of numbered questions.

Every kind of left-over, on every transport, by typed calls and raw lines of 1, 4 and 16 clients,
with instruments that flush their output and that keep it (on HiSLIP: that mark all answers alike).
``python -m tests.bench.numbered_trial`` asks the same and prints the whole table.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.numbered import CONNECTIONS, TRANSPORTS
from tests.bench.numbered_trial import FAULTS, Trial, ask_all_of, rows_of, trials_on
from tests.promises import promise

QUESTIONS = 24
"""Of each unit whose questions take no pause; in all it is more than 9,600."""
BUSY = 0.05
MOST_EARLY = 1
"""Of each client: the first late line of a unit is met by the calls that were under way."""


@promise("line.in-step")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_no_answer_is_another_questions(transport: str, tmp_path: Path) -> None:
    trials = trials_on(transport, seed=15)
    await ask_all_of(trials, tmp_path, tuple(CONNECTIONS), QUESTIONS)
    wrong = [trial for trial in trials if trial.wrong]
    assert not wrong, "\n".join(rows_of(wrong, is_whole=True))
    uncaught = [t for t in trials if t.early > MOST_EARLY * t.clients]
    assert not uncaught, "\n".join(rows_of(uncaught, is_whole=True))
    failing = [name for name in FAULTS if not _is_of_use(name, trials)]
    assert not failing, "\n".join(rows_of([t for t in trials if t.fault in failing]))
    assert sum(trial.asked for trial in trials) > 1_600


def _is_of_use(fault: str, trials: list[Trial]) -> bool:
    """Whether as many calls succeeded as may with such instruments; a busy machine costs some."""
    calls = sum(trial.calls for trial in trials if trial.fault == fault)
    failed = sum(trial.failed for trial in trials if trial.fault == fault)
    return failed <= (FAULTS[fault].may_fail + BUSY) * calls
