"""The timer inside an instrument that switches its outputs off when it gets no messages. Pure.

Some power supplies have one: once it runs, the instrument wants to hear something every so many
seconds, and switches its outputs off by itself where it does not. That is what is left when this
daemon is killed, stopped or hangs, or when its line is cut. So:

- it runs before an output goes on, and until all of them are known to be off;
- it is fed every third of its time, and only by an engine that could stop the instrument, too: any
  word feeds most of them, so one that could not says nothing at all (``may_talk``);
- once it has switched off, that is for a person to look at: it is asked whether that was cleared,
  and told nothing.

``due`` says what to do next; nobody else decides. What is done on the line is told by the line's
work (``armed``, ``heard``, ``disarmed``), how the engine is by its loop (``beat``). Each of the two
only assigns, so they need no lock.

Source: docs/guards.md.
"""

from __future__ import annotations

import enum
from typing import Final

LEAST_SUPERVISED_S: Final = 5.0
"""A supervisor needs up to three seconds to have another engine talk to the instruments."""
FEEDS: Final = 3
"""So often it is fed in its time: one question may be lost."""
HUNG_S: Final = 0.75
"""A loop that was not there for so long hangs, to whatever talks beside it: within a second of that
the last word was said, and what is on is off ``limit_s`` later."""
MOST_TRIES: Final = 4
"""What did not succeed is tried again so often until it is due once more."""


class Stage(enum.StrEnum):
    """How the timer is, as far as anybody has heard.

    ``OFF``: it does not run; ``ARMED``: it runs, or has to; ``TRIPPED``: it has switched off.
    """

    OFF = "off"
    ARMED = "armed"
    TRIPPED = "tripped"


class Duty(enum.Enum):
    """What is to be done with it now."""

    NOTHING = enum.auto()
    ASK = enum.auto()
    """Ask whether it has tripped, which feeds it."""
    ARM = enum.auto()
    DISARM = enum.auto()


class DeadMan:
    """The timer of one unit.

    Attributes:
        limit_s: after so long a silence it switches off.
        stage: see ``Stage``.
        asked_s: when it was last asked and has answered, on the monotonic scale.
        tells_once: that it has switched off it says once and forgets (Delta SM15K): then it holds
            here until every output of the unit was confirmed off.
    """

    def __init__(self, limit_s: float, now_s: float, *, stage: Stage = Stage.OFF) -> None:
        """Begin.

        Args:
            stage: ``ARMED``: a former life of the daemon has left it so.
        """
        self.limit_s = limit_s
        self.stage = stage
        self.asked_s = now_s
        self.tells_once = False
        # The connection on which it was set going; on another one the unit may be another's by
        # now, or may have been switched off and on and have forgotten it.
        self._met: object = None
        self._tried_s = float("-inf")
        self._beat_s = now_s
        self._is_stoppable = True

    @property
    def every_s(self) -> float:
        """How often it is fed, and how old the engine's last sign of health may be."""
        return self.limit_s / FEEDS

    @property
    def longest_s(self) -> float:
        """How long the line may be kept without a word."""
        return self.limit_s - self.every_s

    def beat(self, now_s: float, *, is_stoppable: bool) -> None:
        """The engine's loop is there.

        Args:
            is_stoppable: what makes the unit safe would reach its line.
        """
        self._is_stoppable = is_stoppable
        self._beat_s = now_s

    def may_talk(self, now_s: float, *, is_on_loop: bool = False) -> bool:
        """Whether the unit may be talked to; what makes it safe may always be said. Any thread.

        Args:
            is_on_loop: the loop itself asks, so that it does not hang.
        """
        if self.stage is Stage.OFF:
            return True
        is_there = is_on_loop or now_s - self._beat_s <= min(self.every_s, HUNG_S)
        return is_there and self._is_stoppable

    def is_armed_at(self, meeting: object) -> bool:
        """Whether it was set going on this very connection, and has not tripped."""
        return self.stage is Stage.ARMED and self._met is not None and self._met == meeting

    def due(self, now_s: float, meeting: object, *, may_be_on: bool) -> Duty:
        """What to do now.

        Args:
            meeting: equal as long as the connection is the same.
            may_be_on: an output was told to put something out, and is not known to be off.
        """
        if not self._is_healthy(now_s) or now_s < self._tried_s + self.every_s / MOST_TRIES:
            return Duty.NOTHING
        is_time = now_s >= self.asked_s + self.every_s
        match self.stage:
            case Stage.TRIPPED:
                return Duty.ASK if is_time else Duty.NOTHING
            case Stage.OFF:
                return Duty.ARM if may_be_on else Duty.NOTHING
            case Stage.ARMED if not may_be_on:
                return Duty.DISARM
            case Stage.ARMED if self._met is None or self._met != meeting:
                return Duty.ARM
            case Stage.ARMED:
                return Duty.ASK if is_time else Duty.NOTHING

    def tried(self, now_s: float) -> None:
        """What was due is on its way."""
        self._tried_s = now_s

    def must_run(self) -> None:
        """An output is about to go on; until it runs at the unit, that is not known."""
        if self.stage is Stage.OFF:
            self._met = None
            self.stage = Stage.ARMED

    def armed(self, meeting: object, now_s: float) -> None:
        """It runs at the unit, by this connection, and the unit has answered since."""
        if self.stage is not Stage.TRIPPED:
            self._met = meeting
            self.asked_s = now_s
            self.stage = Stage.ARMED

    def heard(self, now_s: float, *, is_tripped: bool, may_be_on: bool = True) -> None:
        """The unit has said whether it has switched off.

        That it says no more so is a person's doing: what that has left of the timer nobody knows.

        Args:
            may_be_on: see ``due``.
        """
        self.asked_s = now_s
        if is_tripped:
            self.stage = Stage.TRIPPED
        elif self.stage is Stage.TRIPPED and not (self.tells_once and may_be_on):
            self.tells_once = False
            self._met = None
            self.stage = Stage.ARMED

    def disarmed(self) -> None:
        """It was told to stop, after it had said that it has not tripped."""
        if self.stage is not Stage.TRIPPED:
            self._met = None
            self.stage = Stage.OFF

    def _is_healthy(self, now_s: float) -> bool:
        return self._is_stoppable and now_s - self._beat_s <= self.every_s
