from __future__ import annotations

import pytest

from edged.errors import Conflict
from edged.surfaces.mcp.sessions import CallEnd, CallRegistry


class Call:
    def __init__(self) -> None:
        self.ended: CallEnd | None = None

    def end(self, why: CallEnd) -> None:
        self.ended = why


def test_two_calls_of_one_id_are_a_conflict_and_1_is_not_the_text_1() -> None:
    calls = CallRegistry()
    first = Call()
    calls.add(1, first)
    calls.add("1", Call())
    for refused in (lambda: calls.add(1, Call()), lambda: calls.check(1)):
        with pytest.raises(Conflict):
            refused()
    calls.discard(1, Call())
    with pytest.raises(Conflict):
        calls.check(1)
    calls.discard(1, first)
    calls.add(1, Call())
    assert len(calls) == 2


def test_ending_an_id_that_is_not_in_flight_is_ignored() -> None:
    calls = CallRegistry()
    call = Call()
    calls.add("a", call)
    calls.end("b", CallEnd.CANCELLED)
    assert call.ended is None
    calls.end_all(CallEnd.STOPPING)
    assert call.ended is CallEnd.STOPPING
