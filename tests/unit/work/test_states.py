import itertools
from pathlib import Path

import pytest

from edged.errors import Conflict
from edged.runs.states import (
    OVER,
    SEQUENCE,
    STREAM,
    SWEEP,
    TABLE,
    KindWords,
    RunEvent,
    RunState,
    next_state,
    reference,
)
from tests.promises import promise

# What docs/states.md says, once more, so that a slip in the table shows.
SWEEP_CELLS = {
    "running": "completed holding stopped failed stopped failed",
    "holding": "- holding stopped failed stopped failed",
    "completed": "- completed stopped - completed completed",
    "stopped": "- stopped stopped - stopped stopped",
    "failed": "- failed failed - failed failed",
}
STREAM_CELLS = {
    "running": "ended terminated cancelled failed terminated",
    "ended": "- ended ended - ended",
    "terminated": "- terminated terminated - terminated",
    "cancelled": "- cancelled cancelled - cancelled",
    "failed": "- failed failed - failed",
}
SEQUENCE_CELLS = {
    "running": "completed failed cancelled stopped",
    "completed": "- - - -",
    "failed": "- - - -",
    "cancelled": "- - - -",
    "stopped": "- - - -",
}
CELLS = {"sweep": SWEEP_CELLS, "stream": STREAM_CELLS, "sequence": SEQUENCE_CELLS}
KINDS = (SWEEP, STREAM, SEQUENCE)
WALKED = [
    pytest.param(words, state, event, id=f"{words.name}-{state}-{event}")
    for words in KINDS
    for state, event in itertools.product(words.states, RunEvent)
]


@promise("sweep.table")
@pytest.mark.parametrize(("words", "state", "event"), WALKED)
def test_every_cell_of_a_table_moves_or_raises(
    words: KindWords, state: RunState, event: RunEvent
) -> None:
    events = list(words.events)
    cells = CELLS[words.name][words.states[state]].split()
    expected = cells[events.index(event)] if event in events else "-"
    if expected == "-":
        with pytest.raises(Conflict):
            next_state(words, state, event)
    else:
        assert words.states[next_state(words, state, event)] == expected


@pytest.mark.parametrize(("words", "state", "event"), WALKED)
def test_a_clean_up_that_failed_makes_every_end_a_failure_and_nothing_else(
    words: KindWords, state: RunState, event: RunEvent
) -> None:
    if event not in words.row(state):
        return
    plain = next_state(words, state, event)
    failed = next_state(words, state, event, is_clean_up_failed=True)
    is_end = plain is not state and plain in OVER
    assert failed is (RunState.FAILED if is_end else plain)


@pytest.mark.parametrize("words", KINDS, ids=lambda words: words.name)
def test_each_kind_has_a_word_for_every_state_that_it_can_come_to(words: KindWords) -> None:
    assert all(set(words.row(state).values()) <= set(words.states) for state in words.states)


@pytest.mark.parametrize("state", list(RunState))
def test_a_run_is_over_or_can_fail(state: RunState) -> None:
    assert (state in OVER) is (RunEvent.FAILURE not in TABLE[state])


def test_the_page_of_state_tables_is_what_the_tables_say() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "states.md"
    assert page.read_text(encoding="utf-8") == reference()
