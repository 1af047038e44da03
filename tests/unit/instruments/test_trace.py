from edged.instruments.trace import KEPT_BYTES, RING_LENGTH, Direction, Trace
from tests.bench.driven_clock import DrivenClock


def test_the_ring_keeps_the_last_exchanges_with_their_times(driven_clock: DrivenClock) -> None:
    trace = Trace(driven_clock)
    for number in range(RING_LENGTH + 5):
        trace.add(Direction.SENT, str(number).encode())
    kept = trace.exchanges()
    assert len(kept) == RING_LENGTH
    assert kept[0].data == b"5"
    assert kept[-1].at_ms == driven_clock.wall_ms()


def test_long_exchanges_are_cut_and_say_how_long_they_were(driven_clock: DrivenClock) -> None:
    trace = Trace(driven_clock)
    trace.add(Direction.RECEIVED, b"x" * (KEPT_BYTES + 1))
    (entry,) = trace.exchanges()
    assert len(entry.data) == KEPT_BYTES
    assert entry.size == KEPT_BYTES + 1
    assert entry.as_json()["bytes"] == KEPT_BYTES + 1


def test_bytes_that_are_no_text_are_shown_escaped(driven_clock: DrivenClock) -> None:
    trace = Trace(driven_clock)
    trace.add(Direction.RECEIVED, b"\xff\x00A")
    trace.note("opened")
    first, second = trace.exchanges()
    assert first.as_json()["text"] == "\\xff\x00A"
    assert second.as_json()["direction"] == "note"


def test_what_moved_aside_is_noted_unless_it_is_taken_out(driven_clock: DrivenClock) -> None:
    trace = Trace(driven_clock)
    with trace.aside() as held:
        trace.add(Direction.SENT, b"as it should be")
        held.clear()
    with trace.aside():
        trace.add(Direction.SENT, b"odd")
        assert trace.exchanges() == []
    trace.add(Direction.SENT, b"next")
    assert [entry.data for entry in trace.exchanges()] == [b"odd", b"next"]
