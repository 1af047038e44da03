import itertools

import pytest

from edged.errors import Conflict
from edged.work.states import (
    SEQUENCE,
    STREAM,
    SequenceEvent,
    SequenceState,
    StreamEvent,
    StreamState,
    next_sequence_state,
    next_stream_state,
)


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
