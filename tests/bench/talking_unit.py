"""An instrument at the other end of a talk, without a wire and without time: for pure tests.

Written from how instruments behave: a line is what ends with the one line end that it takes, what
has come before that stays, and a serial one reads nothing at a speed that is not its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from edged.profiles.model import Connection
from edged_author.probing import Heard, Say, Talk

T = TypeVar("T")

Answer = str | Callable[[], str | None] | None


@dataclass(slots=True)
class TalkingUnit:
    """See the module.

    Attributes:
        answers: line → what is answered; a line that is not there is answered by ``unknown``.
        takes, ends: what ends a line, and an answer.
        port: speed, data bits, parity and stop bits, of a serial one.
        rest_ms: a line that comes sooner after another one is lost.
        took_ms: how long an answer takes.
        hangs_up_at: lines at which it ends the connection.
        unasked: what it has sent by itself each time that it is listened to, oldest first.
        said: every line that was sent to it.
    """

    answers: Mapping[str, Answer]
    unknown: Answer = None
    takes: str = "\n"
    ends: str = "\n"
    port: tuple[int, int, str, float] | None = None
    rest_ms: float = 0.0
    took_ms: float = 1.0
    hangs_up_at: frozenset[str] = frozenset()
    unasked: tuple[bytes, ...] = ()
    said: list[str] = field(default_factory=list)
    tried: list[Connection] = field(default_factory=list)
    _begun: str = ""

    def hold(self, talk: Talk[T], most: int = 1_000) -> T:
        """Hold the talk to its end."""
        try:
            say = next(talk)
            for _ in range(most):
                say = talk.send(self.hear(say))
        except StopIteration as end:
            result: T = end.value
            return result
        raise AssertionError("the talk does not end")

    def hear(self, say: Say) -> Heard:
        """What comes of one line."""
        self.tried.append(say.connection)
        if not say.line:
            heard, self.unasked = self.unasked[:1], self.unasked[1:]
            return Heard(data=b"".join(heard), came=bool(heard))
        self.said.append(say.line)
        wire = say.connection
        own = (wire.baud_rate, wire.data_bits, wire.parity, wire.stop_bits)
        if self.port is not None and own != self.port:
            return Heard(data=b"\xfe\x80", came=True)
        if say.line in self.hangs_up_at:
            return Heard(was_lost=True)
        end = wire.write_termination
        sent = self._begun + (end if say.leads else "") + say.line + end
        *lines, self._begun = sent.split(self.takes)
        if say.is_quick and say.pause_s * 1000 < self.rest_ms:
            return Heard()
        answers = [answer for line in lines if line for answer in self._answers(line)]
        if not answers:
            return Heard()
        data = "".join(f"{answer}{self.ends}" for answer in answers)
        return Heard(data=data.encode("latin-1"), came=True, after_ms=self.took_ms)

    def _answers(self, line: str) -> list[str]:
        found = self.answers.get(line, self.unknown)
        answer = found() if callable(found) else found
        return [] if answer is None else [answer]
