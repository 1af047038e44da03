"""How a wait on sockets is ended from another thread.

A link that can wait on a descriptor waits on ``Wake`` beside it.
"""

from __future__ import annotations

import contextlib
import math
import select
import selectors
import socket
import sys

from edged.clock import Clock
from edged.instruments.link import LinkPreempted

__all__ = ["SocketWatch", "Wake", "wait_readable"]

if sys.platform == "win32":
    SELECTOR_CLASS: type[selectors.BaseSelector] = selectors.SelectSelector
else:
    # poll() has no limit on descriptors and costs no descriptor of its own.
    SELECTOR_CLASS: type[selectors.BaseSelector] = selectors.PollSelector


class Wake:
    """Ends a wait on sockets from another thread, for the piece of work that is meant and no other.

    ``preempt`` may come from any thread; everything else belongs to the line's own.
    """

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        # The work in hand, and the latest that was to be pre-empted; plain ints, so that assigning
        # one is atomic.
        self._ticket = 0
        self._preempted = 0
        self._is_released = False

    def fileno(self) -> int:
        """What to wait for beside one's own socket."""
        return self._ours.fileno()

    def begin(self, ticket: int) -> None:
        """See ``Link.begin``."""
        self._ticket = ticket

    def preempt(self, ticket: int) -> None:
        """See ``Link.preempt``."""
        if self._is_released:
            return
        self._preempted = max(self._preempted, ticket)
        with contextlib.suppress(OSError):
            self._theirs.send(b"!")

    def stir(self) -> None:
        """Make the wait look up without pre-empting anything; any thread."""
        with contextlib.suppress(OSError):
            self._theirs.send(b".")

    def pause(self, seconds: float, clock: Clock) -> None:
        """Let time pass, unless the work in hand is pre-empted."""
        deadline = clock.monotonic() + seconds
        self.check()
        while (left_s := deadline - clock.monotonic()) > 0:
            self.listen(left_s)

    def listen(self, seconds: float) -> None:
        """Wait at most so long for a call; raises ``LinkPreempted`` when it was for this work."""
        if wait_readable(self.fileno(), seconds):
            self.heard()

    def check(self) -> None:
        """Raise ``LinkPreempted`` if the work in hand has been pre-empted."""
        if self._preempted >= self._ticket > 0:
            raise LinkPreempted("pre-empted")

    def heard(self) -> None:
        """Swallow what made the wait end, then ``check``."""
        with contextlib.suppress(BlockingIOError):
            while self._ours.recv(4096):
                pass
        self.check()

    def release(self) -> None:
        """Close for good."""
        self._is_released = True
        self._ours.close()
        self._theirs.close()


def wait_readable(descriptor: int, seconds: float) -> bool:
    """True once ``descriptor`` can be read; False when ``seconds`` have passed first."""
    with SELECTOR_CLASS() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(seconds))


class SocketWatch:
    """Waits for one socket and the calls of a ``Wake`` at once; used by the line's own thread.

    Asks ``poll`` itself where there is one: ``selectors`` costs three times that, for each answer.
    """

    def __init__(self, wake: Wake, connection: socket.socket) -> None:
        self._wake_fd = wake.fileno()
        self._fd = connection.fileno()
        self._events = selectors.EVENT_READ
        if sys.platform == "win32":
            self._selector = SELECTOR_CLASS()
            self._selector.register(self._wake_fd, selectors.EVENT_READ)
            self._selector.register(self._fd, selectors.EVENT_READ)
        else:
            self._poll = select.poll()
            self._poll.register(self._wake_fd, select.POLLIN)
            self._poll.register(self._fd, select.POLLIN)

    def wait(self, events: int, seconds: float) -> tuple[bool, bool]:
        """Wait at most so long for ``selectors.EVENT_READ`` or ``EVENT_WRITE``.

        Returns:
            Whether the socket is ready (or broken), and whether there was a call.
        """
        is_new, self._events = events != self._events, events
        if sys.platform == "win32":
            if is_new:
                self._selector.modify(self._fd, events)
            found = [key.fd for key, _ in self._selector.select(seconds)]
        else:
            if is_new:
                wanted = select.POLLIN if events == selectors.EVENT_READ else select.POLLOUT
                self._poll.modify(self._fd, wanted)
            found = [descriptor for descriptor, _ in self._poll.poll(math.ceil(seconds * 1000))]
        return self._fd in found, self._wake_fd in found

    def close(self) -> None:
        """Stop watching; where there is ``poll``, there is nothing to close."""
        if sys.platform == "win32":
            self._selector.close()
