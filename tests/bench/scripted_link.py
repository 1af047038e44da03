"""A ``Link`` that plays a script: what a question is answered by, and what befalls the wire.

No thread, socket or clock: whoever drives a line by hand sees each step at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edged.profiles.model import Connection
from edged.transports.link import (
    LinkError,
    LinkLost,
    LinkPreempted,
    LinkTimeout,
    Since,
    ThreadWake,
    Urgency,
    Wake,
)

Part = bytes | LinkError | Callable[[], bytes]


class ScriptedLink:
    """Answers by ``answers``: line → bytes that come, an error to raise, or a list of them.

    What is not in the script is not answered. ``written`` are the lines that were sent, ``events``
    everything else that was done to the link, in order.
    """

    # It has a thread of its own, and waits for nothing that could be called.
    wake: Wake = ThreadWake()
    is_shared = False

    def __init__(self, answers: Mapping[str, Part | list[Part]] | None = None) -> None:
        self.answers = dict(answers or {})
        self.written: list[str] = []
        self.events: list[str] = []
        self.open_errors: list[LinkError] = []
        self.is_open = False
        self.can_clear = False
        self.is_peer_gone = False
        self.arrived = b""
        self.paused: list[float] = []
        self.ticket = 0
        self.preempted = 0
        self.tuned_to: Connection | None = None
        self.while_waiting: Callable[[], None] | None = None
        # What ``status_byte`` gives: always the same, or one after the other.
        self.status: int | list[int | LinkError | None] | None = None

    def open(self, timeout_s: float) -> None:
        assert timeout_s > 0
        self.events.append("open")
        if self.open_errors:
            raise self.open_errors.pop(0)
        self.is_open, self.is_peer_gone, self.arrived = True, False, b""

    def tune(self, connection: Connection) -> None:
        self.tuned_to = connection

    def take_turn(self, timeout_s: float, urgency: Urgency) -> Since:
        return Since.NOTHING

    def end_turn(self, *, is_clean: bool) -> None:
        pass

    def begin(self, ticket: int) -> None:
        assert ticket > self.ticket
        self.ticket = ticket

    def write(self, data: bytes, timeout_s: float) -> None:
        assert timeout_s > 0
        self._check()
        line = data.decode().removesuffix("\n")
        self.written.append(line)
        part = self.answers.get(line, b"")
        if isinstance(part, list):
            part = part.pop(0) if part else b""
        if isinstance(part, LinkError):
            raise part
        self.arrived += part() if callable(part) else part

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        # Without a terminator, a message is all that has arrived.
        self._wait(terminator in self.arrived if terminator else bool(self.arrived), timeout_s)
        end = self.arrived.find(terminator) if terminator else len(self.arrived)
        message, self.arrived = self.arrived[:end], self.arrived[end + len(terminator) :]
        return message

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        self._wait(len(self.arrived) >= count, timeout_s)
        data, self.arrived = self.arrived[:count], self.arrived[count:]
        return data

    def pending(self) -> bytes:
        self._check()
        unasked, self.arrived = self.arrived, b""
        return unasked

    def is_quiet(self) -> bool:
        return False

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    def clear(self, timeout_s: float) -> bool:
        assert timeout_s > 0
        self.events.append("clear")
        self.arrived = b""
        return self.can_clear

    def marks_answers(self) -> bool:
        return False

    def status_byte(self, timeout_s: float) -> int | None:
        assert timeout_s > 0
        self._check()
        if not isinstance(self.status, list):
            return self.status
        self.events.append("status_byte")
        told = self.status.pop(0) if self.status else 0
        if isinstance(told, LinkError):
            raise told
        return told

    def preempt(self, ticket: int) -> None:
        self.preempted = max(self.preempted, ticket)

    def close(self) -> None:
        if self.is_open:
            self.events.append("close")
        self.is_open = False

    def release(self) -> None:
        self.close()

    def _check(self) -> None:
        assert self.is_open, "used while closed"
        if self.is_peer_gone:
            raise LinkLost("the peer has gone")

    def _wait(self, has_come: bool, timeout_s: float) -> None:
        self._check()
        if has_come:
            return
        if timeout_s <= 0:
            raise LinkTimeout("no time")
        if self.while_waiting is not None:
            self.while_waiting()
        if self.preempted >= self.ticket:
            raise LinkPreempted("pre-empted")
        raise LinkTimeout("nothing came")
