import itertools
from pathlib import Path

import pytest

from edged.errors import Conflict
from edged.runs.states import (
    SEQUENCE,
    STREAM,
    SWEEP,
    SequenceEvent,
    SequenceState,
    StreamEvent,
    StreamState,
    SweepEvent,
    SweepState,
    next_sequence_state,
    next_stream_state,
    next_sweep_state,
    reference,
)
from tests.promises import promise


@pytest.mark.parametrize(("state", "event"), list(itertools.product(SequenceState, SequenceEvent)))
def test_every_cell_of_the_sequence_table_moves_or_raises(
    state: SequenceState, event: SequenceEvent
) -> None:
    if event in SEQUENCE[state]:
        assert next_sequence_state(state, event, finally_failed=False) is SEQUENCE[state][event]
    else:
        with pytest.raises(Conflict):
            next_sequence_state(state, event, finally_failed=False)


@pytest.mark.parametrize("event", list(SequenceEvent))
def test_failed_finally_steps_make_every_end_a_failure(event: SequenceEvent) -> None:
    end = next_sequence_state(SequenceState.RUNNING, event, finally_failed=True)
    assert end is SequenceState.FAILED


@pytest.mark.parametrize(("state", "event"), list(itertools.product(StreamState, StreamEvent)))
def test_every_cell_of_the_stream_table_moves_or_raises(
    state: StreamState, event: StreamEvent
) -> None:
    if event in STREAM[state]:
        assert next_stream_state(state, event) is STREAM[state][event]
    else:
        with pytest.raises(Conflict):
            next_stream_state(state, event)


@pytest.mark.parametrize("state", [s for s in StreamState if s is not StreamState.RUNNING])
def test_a_stream_that_is_over_stays_what_it_is(state: StreamState) -> None:
    assert all(end is state for end in STREAM[state].values())
    assert not {StreamEvent.ELAPSED, StreamEvent.FAILURE} & set(STREAM[state])


def test_a_running_stream_can_take_every_event() -> None:
    assert set(STREAM[StreamState.RUNNING]) == set(StreamEvent)


# What docs/states.md says, once more, so that a slip in the table shows.
SWEEP_CELLS = {
    "running": "completed holding stopped failed stopped failed",
    "holding": "- holding stopped failed stopped failed",
    "completed": "- completed stopped - completed completed",
    "stopped": "- stopped stopped - stopped stopped",
    "failed": "- failed failed - failed failed",
}


@promise("sweep.table")
@pytest.mark.parametrize(("state", "event"), list(itertools.product(SweepState, SweepEvent)))
def test_every_cell_of_the_sweep_table_moves_or_raises(
    state: SweepState, event: SweepEvent
) -> None:
    expected = SWEEP_CELLS[state.value].split()[list(SweepEvent).index(event)]
    if expected == "-":
        with pytest.raises(Conflict):
            next_sweep_state(state, event, abort_failed=False)
    else:
        assert next_sweep_state(state, event, abort_failed=False).value == expected


@pytest.mark.parametrize(("state", "event"), list(itertools.product(SweepState, SweepEvent)))
def test_an_abort_that_failed_turns_a_stop_into_a_failure_and_nothing_else(
    state: SweepState, event: SweepEvent
) -> None:
    if event not in SWEEP[state]:
        return
    plain = next_sweep_state(state, event, abort_failed=False)
    failed = next_sweep_state(state, event, abort_failed=True)
    becomes_stopped = plain is SweepState.STOPPED and state is not SweepState.STOPPED
    assert failed is (SweepState.FAILED if becomes_stopped else plain)


def test_the_page_of_state_tables_is_what_the_tables_say() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "states.md"
    assert page.read_text(encoding="utf-8") == reference()
