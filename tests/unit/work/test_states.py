import itertools

import pytest

from edged.errors import Conflict
from edged.work.states import SEQUENCE, SequenceEvent, SequenceState, next_sequence_state


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
