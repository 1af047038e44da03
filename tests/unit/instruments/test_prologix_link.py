"""Adapters that greet, keep what was old or are stuck, and one whose instrument talks for ever."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from edged.clock import SystemClock
from edged.errors import ErrorCode, Failed
from edged.profiles.model import Connection
from edged.transports import prologix as prologix_link
from edged.transports.link import LinkGarbled, LinkLost, LinkPreempted
from edged.transports.prologix import PrologixAdapter, PrologixLink
from tests.bench.prologix_adapter import VERSION, Adapter
from tests.bench.wired import Lines
from tests.promises import promise

SLOW_MACHINE = 5
"""So many times the promised time may pass where others work on the machine."""


@contextlib.contextmanager
def behind(adapter: Adapter, *places: str) -> Iterator[list[PrologixLink]]:
    """Links to instruments behind it."""
    shared = PrologixAdapter(adapter.address, SystemClock())
    links = [PrologixLink(shared, gpib, SystemClock()) for gpib in places]
    try:
        for link in links:
            link.begin(1)
            link.open(5)
        yield links
    finally:
        for link in links:
            link.release()
        shared.drop()
        shared.deaf.release()
        adapter.close()


@contextlib.contextmanager
def babbling(piece: bytes, pause_s: float) -> Iterator[PrologixLink]:
    """A link that has asked an instrument which, once asked, never stops."""
    adapter = Adapter()
    adapter.babble = (piece, pause_s)
    with behind(adapter, "5") as (link,):
        link.write(b"*IDN?\n", 5)
        yield link


def ask(link: PrologixLink, question: str) -> str:
    link.write(question.encode() + b"\n", 3)
    return link.read_message(b"\n", 3).decode()


@promise("line.adapter-greets")
@pytest.mark.parametrize(
    "greeting", [b"AR488 ready.\r\n", b"*****\r\nAR488 ready.\r\n*****\r\n\r\n", VERSION * 2]
)
@pytest.mark.parametrize("knows_mark", [True, False])
def test_a_greeting_is_passed_over(greeting: bytes, knows_mark: bool) -> None:
    with behind(Adapter(greeting=greeting, knows_mark=knows_mark), "5", "6") as (one, other):
        assert [ask(link, f"{n}?") for n in range(3) for link in (one, other)] == [
            f"{n}?!" for n in range(3) for _ in range(2)
        ]


@promise("line.adapter-greets")
def test_what_an_adapter_kept_from_an_earlier_connection_is_no_answer() -> None:
    # An answer, and what was to end an exchange of the connection before.
    with behind(Adapter(kept=b"old answer\n" + VERSION), "5") as (link,):
        assert [ask(link, f"{n}?") for n in range(3)] == ["0?!", "1?!", "2?!"]


@promise("line.adapter-greets")
def test_what_comes_unasked_is_thrown_away_and_the_adapter_is_set_up_anew() -> None:
    adapter = Adapter()
    with behind(adapter, "5") as (link,):
        assert ask(link, "1?") == "1?!"
        was_set_up = adapter.heard.count("++auto 0")
        adapter.say(b"AR488 ready.\r\n")
        assert ask(link, "2?") == "2?!"
        assert ask(link, "3?") == "3?!"
        assert adapter.heard.count("++auto 0") == was_set_up + 1


TRACE = b"".join(b"%d.5E-01,0\n" % point for point in range(11))


@promise("answer.whole")
@pytest.mark.parametrize("marks_ends", [True, False])
def test_eoi_ends_a_message_whatever_line_ends_are_in_it(marks_ends: bool) -> None:
    adapter = Adapter(marks_ends=marks_ends)
    with behind(adapter, "5") as (link,):
        for message in (TRACE, b"\n\x00\n\n", b"\x01\x02", b"1\n"):
            adapter.parts = [message]
            link.write(b"FORM?\n", 3)
            assert link.read_message(b"", 3) == message
        assert ask(link, "1?") == "1?!"


@promise("answer.whole")
def test_a_pause_behind_a_line_does_not_end_a_message_where_eoi_does() -> None:
    adapter = Adapter(marks_ends=True)
    with behind(adapter, "5") as (link,):
        assert ask(link, "*IDN?") == "*IDN?!"
        adapter.parts = [TRACE[:20], TRACE[20:40], b"", TRACE[40:]]
        link.write(b"FORM?\n", 3)
        assert link.read_message(b"\n", 3) == TRACE[:-1]


@promise("answer.whole")
@pytest.mark.parametrize("mark", range(prologix_link.FIRST_MARK, prologix_link.FIRST_MARK + 3))
def test_a_byte_of_data_before_a_pause_is_not_taken_for_the_mark_of_eoi(mark: int) -> None:
    adapter = Adapter(marks_ends=True)
    data = [b"\x01\x02" + bytes([mark]), bytes([mark]), b"\x03", bytes([0, mark])]
    with behind(adapter, "5") as (link,):
        adapter.parts = list(data)
        link.write(b"DATA?\n", 3)
        assert link.read_message(b"", 3) == b"".join(data)
        assert ask(link, "1?") == "1?!"


@pytest.mark.parametrize("marks_ends", [True, False])
def test_an_instrument_that_asserts_no_eoi_ends_its_answer_by_a_line_end(marks_ends: bool) -> None:
    adapter = Adapter(marks_ends=marks_ends)
    with behind(adapter, "5") as (link,):
        link.tune(Connection(read_termination="\r"))
        adapter.parts = [b"1.", b"5\r", b""]
        link.write(b"MEAS?\n", 3)
        assert link.read_message(b"\r", 3) == b"1.5"


def test_who_greets_without_an_end_is_given_up() -> None:
    with (
        pytest.raises(LinkGarbled, match="without an end"),
        behind(Adapter(greeting=b"again and again\r\n" * 200, knows_mark=False), "5"),
    ):
        pass


@promise("line.adapter-stuck")
def test_a_stop_gets_through_to_an_adapter_that_is_stuck_in_a_read() -> None:
    adapter = Adapter()
    with behind(adapter, "5", "6") as (one, other):
        assert ask(one, "1?") == "1?!"
        adapter.is_stuck = True
        one.write(b"2?\n", 3)
        began: list[float] = []

        def stop() -> None:
            adapter.wait_for("++read eoi")
            began.append(time.monotonic())
            one.preempt(1)

        adapter.heard.clear()
        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(LinkPreempted):
            one.read_message(b"\n", 60)
        took_s = time.monotonic() - began[0]
        stopper.join()
        assert took_s < 0.3 * SLOW_MACHINE
        # Its connection is given up, and the next one is there for both.
        adapter.is_stuck = False
        for link in (one, other):
            link.begin(2)
            link.close()
            link.open(3)
            link.write(b"OUTP OFF\n", 3)
        adapter.wait_for("OUTP OFF")


@promise("line.adapter-stuck")
async def test_what_makes_safe_goes_out_past_a_stuck_adapter_that_takes_another_connection() -> (
    None
):
    idn = "ACME,PSU,1,1.0"
    adapter = Adapter()
    adapter.answers["*IDN?"] = idn
    lines = Lines()
    try:
        line = lines.open(f"PRLGX-TCPIP::127.0.0.1::{adapter.port}::5::INSTR", idn)
        assert await line.ask("VOLT?") == "VOLT?!"
        adapter.is_stuck = True
        adapter.heard.clear()
        hung = asyncio.ensure_future(line.ask("MEAS?"))
        await asyncio.to_thread(adapter.wait_for, "++read eoi")
        began = time.monotonic()
        adapter.is_stuck = False
        await line.make_safe("OUTP OFF")
        await asyncio.to_thread(adapter.wait_for, "OUTP OFF")
        assert time.monotonic() - began < 0.5 * SLOW_MACHINE
        with pytest.raises(Failed) as caught:
            await hung
        assert caught.value.code is ErrorCode.PREEMPTED
    finally:
        await lines.close()
        await asyncio.to_thread(adapter.close)


@promise("line.adapter-stuck")
def test_who_waits_for_a_stuck_adapter_is_woken_too() -> None:
    adapter = Adapter()
    with behind(adapter, "5", "6") as (one, other):
        shared = one._adapter
        assert shared.turn.acquire(timeout=1)
        try:
            stop = threading.Timer(0.1, other.preempt, [1])
            stop.start()
            began = time.monotonic()
            with pytest.raises(LinkPreempted):
                other.write(b"1?\n", 60)
            assert time.monotonic() - began < 0.4 * SLOW_MACHINE
            stop.join()
        finally:
            shared.turn.release()


def test_an_adapter_that_says_nothing_is_given_up_after_a_second() -> None:
    adapter = Adapter()
    with behind(adapter, "5") as (link,):
        adapter.is_stuck = True
        link.write(b"1?\n", 3)
        began = time.monotonic()
        with pytest.raises(LinkLost, match="does not answer"):
            link.read_message(b"\n", 60)
        assert time.monotonic() - began < 2 * SLOW_MACHINE


def test_an_adapter_that_says_nothing_is_not_said_to_talk_when_time_is_short() -> None:
    adapter = Adapter()
    with behind(adapter, "5") as (link,):
        adapter.is_stuck = True
        link.write(b"1?\n", 3)
        with pytest.raises(LinkLost, match="does not answer") as lost:
            link.read_message(b"\n", 0.2)
        assert lost.value.came == b""


@promise("answer.bytes-came")
def test_who_talks_slowly_for_ever_is_given_up_at_the_time_limit() -> None:
    with babbling(b"x", 0.02) as link:
        began = time.monotonic()
        with pytest.raises(LinkLost, match="time limit") as lost:
            link.read_message(b"\n", 0.2)
        assert lost.value.came.startswith(b"xxx")
        assert time.monotonic() - began < 10


def test_a_stop_gets_through_to_who_talks_for_ever() -> None:
    with babbling(b"x", 0.02) as link:
        stop = threading.Timer(0.2, link.preempt, [1])
        stop.start()
        with pytest.raises(LinkPreempted):
            link.read_message(b"\n", 60)
        stop.join()


def test_who_fills_the_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prologix_link, "MOST_BYTES", 1024 * 1024)
    with (
        babbling(b"x" * 65_536, 0.0) as link,
        pytest.raises(LinkLost, match="bytes came without an end"),
    ):
        link.read_message(b"\n", 60)
