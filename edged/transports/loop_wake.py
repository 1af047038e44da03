"""A line served on the event loop: its work is a greenlet, and its waits give the loop back.

The same code serves a line on a thread of its own (``link.ThreadWake``); only how it waits is
another. For a stream socket that spares each conversation two hand-overs between threads, each of
which costs more than all that is said in between (docs/benchmarks.md). The greenlet is only ever
resumed by the loop itself, never out of another greenlet, and gives back to the loop with each
wait; so it is where the loop called it from that it returns to.

What waits in a way that cannot be ended (looking up a host name) is done apart, on a thread for the
moment. What the line has to tell the loop's side is told once it has given back: so nothing of that
side ever runs inside of a line's work.

Not on Windows: its event loop cannot watch a socket that somebody else reads.
"""

from __future__ import annotations

import asyncio
import math
import queue
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from greenlet import getcurrent, greenlet

from edged.transports.link import SocketWatch, Teller, Tokens, Wake, Worker
from edged.turns import TURNS

T = TypeVar("T")

NOTHING: Final = object()


class LoopWake(Wake):
    """See ``Wake``; made on the loop.

    Attributes:
        is_rung: there was a call that the line has not heard yet.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._thread = threading.get_ident()
        self._greenlet: greenlet | None = None
        # Lets the line work until it waits again.
        self._switch: Callable[..., object] = _has_not_begun
        self._hub = _hub()
        self._told: list[tuple[Callable[[Any], None], Any]] = []
        # What it waits for; and the number of that wait, so that nothing late ends another.
        self._waits_for: object = NOTHING
        self._wait_number = 0
        # When that wait is over, on the loop's scale. The alarm is left standing when a wait ends
        # in time, as nearly all do: a timer for each cost as much as to send the question.
        self._until = math.inf
        self._alarm: asyncio.TimerHandle | None = None
        self._rings_at = math.inf
        self.is_rung = False

    def worker(self, work: Callable[[], None], name: str) -> Worker:  # noqa: ARG002 - of threads
        return _GreenletWorker(self, work)

    def begin_work(self, work: Callable[[], None]) -> greenlet:
        """Have the loop begin the work."""
        self._greenlet = greenlet(work, parent=self._hub)
        self._switch = self._greenlet.switch
        self._loop.call_soon(self._begin)
        return self._greenlet

    def tokens(self) -> Tokens:
        return _LoopTokens(self)

    def watch(self, connection: socket.socket) -> SocketWatch:
        return _LoopWatch(self, self._loop, connection)

    def stir(self) -> None:
        if threading.get_ident() == self._thread:
            self._ring()
            return
        try:
            self._loop.call_soon_threadsafe(self._ring)
        except RuntimeError:
            # The loop is closed, and nobody waits any more.
            return

    def listen(self, seconds: float) -> None:
        if self.is_rung or (self.wait(self, seconds) and self.is_rung):
            self.heard()

    def heard(self) -> None:
        self.is_rung = False
        self.check()

    def apart(self, function: Callable[[], T]) -> T:
        """See ``Wake``: on a thread for the moment."""
        call: _Apart[T] = _Apart(self, self._loop, function)
        threading.Thread(target=call.run, name="edged-line-apart", daemon=True).start()
        while not call.is_done:
            self.wait(call, None)
        return call.result()

    def wait(self, what: object, seconds: float | None) -> bool:
        """Give the loop back until ``resume`` of the same thing, or for so long.

        Returns:
            Whether it was resumed in time.
        """
        self._wait_number += 1
        self._until = math.inf if seconds is None else self._loop.time() + seconds
        if self._until < self._rings_at:
            self._set_alarm()
        self._waits_for = what
        assert self._greenlet is not None  # noqa: S101 - only its own work waits
        in_time: bool = self._greenlet.parent.switch()
        return in_time

    def resume(self, what: object) -> bool:
        """By a callback of the loop's: let it go on, if it waits for that. Whether it did."""
        if self._waits_for is not what:
            return False
        self._waits_for = NOTHING
        self._switch(True)
        if self._told:
            self._tell_all()
        return True

    def resume_soon(self, what: object) -> None:
        """By whoever may be in the middle of something: let it go on at the loop's next turn."""
        if self._waits_for is what:
            self._loop.call_soon(self._resume_later, self._wait_number)

    def resume_within(self, what: object) -> None:
        """``resume`` by whoever is in the middle of something: is told nothing before its end."""
        if self._waits_for is not what:
            return
        if getcurrent() is not self._hub:
            self.resume_soon(what)
            return
        self._waits_for = NOTHING
        self._switch(True)
        if self._told:
            self._loop.call_soon(self._tell_all)

    def teller(self, loop: asyncio.AbstractEventLoop) -> Teller:
        """See ``Wake``: by the line's work it is called once that has given the loop back."""

        def tell(function: Callable[[Any], None], value: object) -> None:
            if getcurrent() is self._greenlet:
                self._told.append((function, value))
            else:
                loop.call_soon(function, value)

        return tell

    def _begin(self) -> None:
        self._switch()
        self._tell_all()

    def release(self) -> None:
        super().release()
        if self._alarm is not None:
            self._alarm.cancel()

    def _resume_later(self, number: int) -> None:
        if number == self._wait_number and self._waits_for is not NOTHING:
            self._go_on(in_time=True)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._rings_at = self._until
        self._alarm = self._loop.call_at(self._until, self._ring_alarm, self._until)

    def _ring_alarm(self, at: float) -> None:
        self._alarm, self._rings_at = None, math.inf
        if self._waits_for is NOTHING or self._until == math.inf:
            return
        if self._until <= at:
            self._go_on(in_time=False)
        else:
            self._set_alarm()

    def _go_on(self, *, in_time: bool) -> None:
        self._waits_for = NOTHING
        self._switch(in_time)
        self._tell_all()

    def _tell_all(self) -> None:
        told, self._told = self._told, []
        for function, value in told:
            function(value)

    def _ring(self) -> None:
        self.is_rung = True
        if self._waits_for is self or isinstance(self._waits_for, _LoopWatch):
            self.resume_soon(self._waits_for)


def _has_not_begun(*_gives: bool) -> object:
    raise RuntimeError("The line's work has not begun.")


def _hub() -> greenlet:
    """The loop's own: what all lines give back to."""
    hub = getcurrent()
    while hub.parent is not None:
        hub = hub.parent
    return hub


class _GreenletWorker:
    """See ``Worker``."""

    def __init__(self, wake: LoopWake, work: Callable[[], None]) -> None:
        self._wake = wake
        self._work = work
        self._greenlet: greenlet | None = None

    def start(self) -> None:
        self._greenlet = self._wake.begin_work(self._work)

    def is_alive(self) -> bool:
        return self._greenlet is not None and not self._greenlet.dead

    def join(self, timeout: float | None = None) -> None:
        """It does nothing after its last act."""


class _LoopTokens:
    """See ``Tokens``."""

    def __init__(self, wake: LoopWake) -> None:
        self._wake = wake
        self._count = 0

    def put(self, item: None) -> None:  # noqa: ARG002 - as ``SimpleQueue`` has it
        self._count += 1
        if self._count == 1:
            self._wake.resume_within(self)

    def get(self, *, timeout: float | None = None) -> None:
        if not self._count and not self._wake.wait(self, timeout) and not self._count:
            raise queue.Empty
        self._count -= 1


class _LoopWatch:
    """See ``SocketWatch``. The loop looks for something to read until that comes unasked."""

    def __init__(
        self, wake: LoopWake, loop: asyncio.AbstractEventLoop, connection: socket.socket
    ) -> None:
        self._wake = wake
        self._loop = loop
        self._fd = connection.fileno()
        self._is_reading = False
        self._is_ready = False

    def wait(self, events: int, seconds: float) -> tuple[bool, bool]:
        self._is_ready = False
        if not self._wake.is_rung:
            if events == selectors.EVENT_WRITE:
                self._loop.add_writer(self._fd, self._ready)
            elif not self._is_reading:
                self._is_reading = True
                self._loop.add_reader(self._fd, self._readable)
            TURNS.waiting += 1
            try:
                self._wake.wait(self, seconds)
            finally:
                TURNS.waiting -= 1
                if events == selectors.EVENT_WRITE:
                    self._loop.remove_writer(self._fd)
        return self._is_ready, self._wake.is_rung

    def close(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def _ready(self) -> None:
        self._is_ready = True
        self._wake.resume(self)

    def _readable(self) -> None:
        self._is_ready = True
        if not self._wake.resume(self):
            # Nobody wants it now, and the loop would tell of it again and again.
            self.close()


class _Apart(Generic[T]):
    """A function on a thread, and the line that waits for it."""

    def __init__(
        self, wake: LoopWake, loop: asyncio.AbstractEventLoop, function: Callable[[], T]
    ) -> None:
        self._wake = wake
        self._loop = loop
        self._function = function
        self._error: BaseException | None = None
        self._results: list[T] = []
        self.is_done = False

    def run(self) -> None:
        try:
            self._results.append(self._function())
        except BaseException as error:  # noqa: BLE001 - raised in the line's own work
            self._error = error
        try:
            self._loop.call_soon_threadsafe(self._tell)
        except RuntimeError:
            # The loop is closed, and nobody waits any more.
            return

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _tell(self) -> None:
        self.is_done = True
        self._wake.resume(self)
