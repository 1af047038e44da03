from __future__ import annotations

import asyncio

from edged.protocol.sse import KEEP_ALIVE
from edged.surfaces.mcp.reply import (
    GATHERED_BYTES,
    MAX_BUFFERED_BYTES,
    KeepAlives,
    StreamReply,
)
from tests.bench.driven_clock import DrivenClock
from tests.bench.recording_transport import RecordingTransport


def test_bytes_go_out_in_chunks_and_the_end_is_a_chunk_of_nothing(
    driven_clock: DrivenClock,
) -> None:
    transport = RecordingTransport()
    stream = StreamReply(transport, is_chunked=True, clock=driven_clock)
    stream.write(b"data: 1\n\n")
    stream.write(b"")
    stream.end()
    stream.end()
    stream.write(b"too late")
    assert transport.written == b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"


def test_http_1_0_gets_bare_bytes(driven_clock: DrivenClock) -> None:
    transport = RecordingTransport()
    stream = StreamReply(transport, is_chunked=False, clock=driven_clock)
    stream.write(b"x")
    stream.end()
    assert transport.written == b"x"


def test_a_lost_stream_takes_nothing_more(driven_clock: DrivenClock) -> None:
    transport = RecordingTransport()
    stream = StreamReply(transport, is_chunked=True, clock=driven_clock)
    stream.lost()
    stream.write(b"x")
    stream.end()
    assert transport.written == b""


def test_a_stream_is_full_when_a_megabyte_waits(driven_clock: DrivenClock) -> None:
    transport = RecordingTransport()
    stream = StreamReply(transport, is_chunked=True, clock=driven_clock)
    transport.unread_bytes = MAX_BUFFERED_BYTES
    assert not stream.is_full
    transport.unread_bytes += 1
    assert stream.is_full


async def test_of_a_burst_the_first_goes_at_once_and_the_others_with_the_turn(
    driven_clock: DrivenClock,
) -> None:
    transport = RecordingTransport()
    stream = StreamReply(transport, is_chunked=True, clock=driven_clock)
    for letter in b"abc":
        stream.write_soon(bytes([letter]))
    assert transport.written == b"1\r\na\r\n"
    await asyncio.sleep(0)
    assert transport.written == b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n"
    stream.write_soon(b"d")
    assert transport.written.endswith(b"1\r\nd\r\n")


async def test_what_follows_a_burst_stays_behind_it(driven_clock: DrivenClock) -> None:
    transport = RecordingTransport()
    stream = StreamReply(transport, is_chunked=False, clock=driven_clock)
    for letter in b"abc":
        stream.write_soon(bytes([letter]))
    stream.write(b"d")
    stream.write_soon(b"e")
    stream.end()
    stream.write_soon(b"too late")
    assert transport.written == b"abcde"
    await asyncio.sleep(0)
    assert transport.written == b"abcde"


async def test_a_burst_does_not_fill_the_memory(driven_clock: DrivenClock) -> None:
    transport = RecordingTransport()
    stream = StreamReply(transport, is_chunked=False, clock=driven_clock)
    for _ in range(100):
        stream.write_soon(b"x" * 4096)
    assert len(transport.written) > 100 * 4096 - GATHERED_BYTES - 4096
    await asyncio.sleep(0)
    assert len(transport.written) == 100 * 4096


async def test_a_stream_that_is_lost_takes_its_burst_along(driven_clock: DrivenClock) -> None:
    transport = RecordingTransport()
    stream = StreamReply(transport, is_chunked=False, clock=driven_clock)
    stream.write_soon(b"a")
    stream.write_soon(b"b")
    stream.lost()
    await asyncio.sleep(0)
    assert transport.written == b"a"


async def test_nothing_stays_silent_for_longer_than_the_interval(
    driven_clock: DrivenClock,
) -> None:
    keep_alives = KeepAlives(clock=driven_clock, interval_s=15)
    ticking = asyncio.create_task(keep_alives.run())
    transport = RecordingTransport()
    stream = StreamReply(transport, is_chunked=False, clock=driven_clock)
    keep_alives.add(stream)
    await driven_clock.advance(15)
    assert transport.written == KEEP_ALIVE
    await driven_clock.advance(3)
    stream.write(b"news")
    await driven_clock.advance(9)
    assert transport.written == KEEP_ALIVE + b"news"
    await driven_clock.advance(6)
    assert transport.written.endswith(b"news" + KEEP_ALIVE)
    keep_alives.discard(stream)
    before = transport.written
    await driven_clock.advance(60)
    assert transport.written == before
    ticking.cancel()


async def test_a_reader_that_does_not_read_gets_no_keep_alives_on_top(
    driven_clock: DrivenClock,
) -> None:
    transport = RecordingTransport()
    transport.unread_bytes = 1
    stream = StreamReply(transport, is_chunked=False, clock=driven_clock)
    stream.keep_alive()
    assert transport.written == b""
