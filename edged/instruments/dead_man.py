"""The timer inside one instrument, as its profile says how to speak to it.

What is said is decided in ``guards/dead_man.py``; here stand the words, as conversations of the
unit's line. None of them clears a timer that has switched off, or stops one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any, Final

from edged.clock import Clock
from edged.errors import ErrorCode, Failed, Refused
from edged.guards.dead_man import DeadMan, Stage
from edged.instruments.conversation import (
    Ask,
    Conversation,
    Send,
    raw_conversation,
    require,
    write_lines,
)
from edged.patterns import found_in
from edged.profiles import model
from edged.scpi.answer_text import clean_text
from edged.scpi.line import is_query
from edged.scpi.words import is_recalling, works_switch

SETS_UP: Final = "setting its dead-man going"


class Words:
    """What is said to the timer of one unit, whoever says it.

    Args:
        watchdog: the profile's.
        limit_s: dead_man_s of the bench file.
    """

    def __init__(self, watchdog: model.InstrumentWatchdog, limit_s: float) -> None:
        self.watchdog = watchdog
        self.limit_s = limit_s
        self.begin = _filled((*watchdog.delay, *watchdog.enable), limit_s)
        self.disable = _filled(watchdog.disable, limit_s)
        # What a person clears it by.
        self.clear = "; ".join(watchdog.clear)

    def feed(self, connection: model.Connection) -> Conversation[None]:
        """What feeds it besides whatever is said; nothing of it takes an answer away."""
        for line in self.watchdog.feeds:
            if is_query(line):
                yield Ask(line)
            else:
                yield from write_lines((line,), connection)

    def ask(self, connection: model.Connection) -> Conversation[bool]:
        """Feed it, and ask whether it has switched off.

        Raises:
            Failed: BAD_ANSWER; that is no "no".
        """
        yield from self.feed(connection)
        tripped = self.watchdog.tripped
        answer = yield Ask(tripped.ask)
        return _is_tripped(tripped, str(answer))

    @property
    def lines(self) -> tuple[str, ...]:
        """What ``ask`` sends."""
        return (*self.watchdog.feeds, self.watchdog.tripped.ask)

    def facts(self) -> dict[str, Any]:
        """What ``words_of`` makes the same of; JSON-ready."""
        return {"limit_s": self.limit_s, "watchdog": asdict(self.watchdog)}


def words_of(facts: Mapping[str, Any]) -> Words | None:
    """The words that a former life wrote down; ``None`` for whatever ``facts`` does not make."""
    try:
        told = dict(facts["watchdog"])
        lines = {name: tuple(map(str, told[name])) for name in ("enable", "disable", "delay",
                                                                "clear", "feeds")}  # fmt: skip
        least_s, most_s = told["range_s"]
        needed = told["precondition"]
        watchdog = model.InstrumentWatchdog(
            **lines,
            range_s=(float(least_s), float(most_s)),
            step_s=float(told["step_s"]),
            tripped=model.Tripped(**told["tripped"]),
            precondition=model.Precondition(**needed) if needed else None,
        )
        return Words(watchdog, float(facts["limit_s"]))
    except (KeyError, TypeError, ValueError):
        return None


class Timer:
    """The timer of one unit: what is known of it, and what is said to it.

    Args:
        called: what people call the unit.
        connection: gives how it is spoken to now.
        meeting: gives what is equal as long as the unit's line has not been opened anew.
        may_be_on: whether an output of the unit may be on; from any thread.
        stage: ``ARMED``: a former life of the daemon has left it so.
    """

    def __init__(
        self,
        words: Words,
        *,
        called: str,
        connection: Callable[[], model.Connection],
        meeting: Callable[[], object],
        may_be_on: Callable[[], bool],
        clock: Clock,
        stage: Stage = Stage.OFF,
    ) -> None:
        self.words = words
        self.state = DeadMan(words.limit_s, clock.monotonic(), stage=stage)
        self._called = called
        self._connection = connection
        self._meeting = meeting
        self._may_be_on = may_be_on
        self._clock = clock
        # It is made on the loop.
        self._loop_thread = threading.get_ident()

    @property
    def may_be_on(self) -> bool:
        """An output was told to put something out, and is not known to be off."""
        return self._may_be_on()

    @property
    def is_tripped(self) -> bool:
        """It has switched off, and nobody has cleared that, as far as is known."""
        return self.state.stage is Stage.TRIPPED

    def gate(self, text: str) -> None:
        """See ``Gate``: whatever is said keeps it from switching off.

        Raises:
            Failed: PREEMPTED, the engine is not healthy.
        """
        is_on_loop = threading.get_ident() == self._loop_thread
        if not self.state.may_talk(self._clock.monotonic(), is_on_loop=is_on_loop):
            raise Failed(
                f'"{text[:200]}" was not sent to {self._called}: edged does not answer itself in '
                "time, and any message would keep its dead-man from switching the outputs off.",
                code=ErrorCode.PREEMPTED,
                remedy="Try again when edged answers; get_status tells how late its loop is.",
            )

    # Conversations, in the line's work

    def asking(self) -> Conversation[bool]:
        """Feed it, and take note whether it has switched off."""
        state, now = self.state, self._clock.monotonic
        is_tripped = yield from self.words.ask(self._connection())
        is_new = is_tripped and state.stage is not Stage.TRIPPED
        # As long as it has not said so again, it may be one that says so once: that goes to disk.
        state.tells_once = state.tells_once or is_new
        state.heard(now(), is_tripped=is_tripped, may_be_on=self.may_be_on)
        if is_new:
            # Nobody can have cleared it by now.
            state.tells_once = not (yield from self.words.ask(self._connection()))
        return state.stage is Stage.TRIPPED

    def arming(self) -> Conversation[tuple[str, ...]]:
        """Set it going; gives what was sent.

        Raises:
            Failed: DEAD_MAN, it has switched off and a person has to look; or the instrument did
                not take it. Nothing may be switched on then.
        """
        meeting, sent = self._meeting(), list[str]()
        try:
            yield from self._begun(sent)
        except Failed as failed:
            failed.sent = failed.sent or tuple(sent)
            raise
        self.state.armed(meeting, self._clock.monotonic())
        return tuple(sent)

    def _begun(self, sent: list[str]) -> Conversation[None]:
        connection, needed = self._connection(), self.words.watchdog.precondition
        if needed is not None:
            sent.append(needed.query)
            yield from require(SETS_UP, needed, connection)
        yield from self._not_tripped(sent)
        sent += self.words.begin
        yield from raw_conversation(lines=self.words.begin, asks=False, connection=connection)
        # Some count from the first word after it was set going only (TDK-Lambda GENESYS+).
        yield from self._not_tripped(sent)

    def _not_tripped(self, sent: list[str]) -> Conversation[None]:
        sent += self.words.lines
        if (yield from self.asking()):
            raise self.tripped()

    def before(
        self, lines: Collection[str], guard: Callable[[], None] | None
    ) -> Conversation[tuple[str, ...]]:
        """What comes before a write that may switch on; gives what was sent.

        It is set going where it does not run for certain. Whatever works a switch has it set going
        anew: on some wires (RS-232, a gateway to GPIB) a unit that was switched off and on, and has
        forgotten it, is on the same connection still.

        Args:
            lines: of the write.
            guard: what says whether the write may still go.

        Raises:
            Failed: see ``arming``; nothing of the write may be sent then.
        """
        if self._runs_for(lines):
            return ()
        if guard is not None:
            guard()
        return (yield from self.arming())

    def _runs_for(self, lines: Collection[str]) -> bool:
        is_armed = self.state.is_armed_at(self._meeting())
        return is_armed and not any(map(_may_switch, lines))

    def would_begin(self, lines: Collection[str]) -> Conversation[None]:
        """What ``before`` would say to a unit that agrees with all of it; nothing is noted."""
        if self._runs_for(lines):
            return
        needed = self.words.watchdog.precondition
        if needed is not None:
            yield Ask(needed.query)
        yield from self._would_ask()
        yield from raw_conversation(
            lines=self.words.begin, asks=False, connection=self._connection()
        )
        yield from self._would_ask()

    def _would_ask(self) -> Conversation[None]:
        for line in self.words.lines:
            yield Ask(line) if is_query(line) else Send(line)

    def disarming(self) -> Conversation[None]:
        """Have it stop, if nothing may be on still, and it has not switched off.

        On some (TDK-Lambda GENESYS+) stopping it clears that it has.
        """
        if (yield from self.asking()) or self.may_be_on:
            return
        yield from raw_conversation(
            lines=self.words.disable, asks=False, connection=self._connection()
        )
        self.state.disarmed()

    # What is refused

    def tripped(self) -> Failed:
        """Why nothing is switched on."""
        return Failed(
            f"{self._called}: its dead-man switched the outputs off. Nothing is switched on.",
            code=ErrorCode.DEAD_MAN,
            data={"dead_man_s": self.words.limit_s, "stage": Stage.TRIPPED.value},
            remedy="A person has to look at it and to clear it: "
            f"{self.words.clear or 'as its manual says'}. Its outputs may come on with that.",
        )

    def bounded(self, timeout_s: float) -> float:
        """What a transfer of unknown length may take: a long one keeps the line without a word."""
        return timeout_s if self.state.stage is Stage.OFF else min(timeout_s, self.state.longest_s)

    def check_pace(self, command: model.Command) -> None:
        """Let pass what keeps the line for no longer than the timer bears.

        A time limit that is the connection's own is let pass: an instrument that does not answer
        for so long is at fault, and switching off is right then.

        Raises:
            Refused: DEAD_MAN.
        """
        if self.state.stage is Stage.OFF:
            return
        waits_s = _own_waits_s(command)
        # Where not any word will do, none that does comes in between.
        longest_s = sum(waits_s) if self.words.watchdog.feeds else max(waits_s)
        if longest_s > self.state.longest_s:
            raise Refused(
                f"{command.name} may keep the line to {self._called} for {longest_s:g} s without "
                "a message, and its dead-man switches its outputs off after "
                f"{self.words.limit_s:g} s.",
                code=ErrorCode.DEAD_MAN,
                data={"longest_s": longest_s, "allowed_s": self.state.longest_s},
                remedy=f"Allowed are {self.state.longest_s:g} s. Switch the outputs off first, or "
                "have the owner give it a longer dead_man_s.",
            )


def _own_waits_s(command: model.Command) -> tuple[float, ...]:
    """What one exchange of it may take, as far as the command itself says so."""
    waits_ms = [command.timeout_ms or 0, command.after_write_ms or 0]
    complete: model.Completion | None = command.complete
    if complete is not None and complete.kind is model.CompletionKind.OPC:
        waits_ms.append(complete.timeout_ms)
    if complete is not None and complete.kind is model.CompletionKind.POLL:
        waits_ms.append(complete.every_ms)
    return tuple(wait / 1000 for wait in waits_ms)


def _may_switch(line: str) -> bool:
    # A query among the lines of a write acts, and may switch on.
    return works_switch(line) or is_recalling(line) or is_query(line)


def _filled(lines: tuple[str, ...], limit_s: float) -> tuple[str, ...]:
    seconds, thousandths = f"{limit_s:g}", f"{round(1000 * limit_s)}"
    return tuple(line.replace("{s}", seconds).replace("{ms}", thousandths) for line in lines)


def _is_tripped(tripped: model.Tripped, answer: str) -> bool:
    """What an answer says.

    Raises:
        Failed: BAD_ANSWER, nobody knows what it says.
    """
    text = answer.strip()
    if tripped.bit is None:
        return found_in(text, tripped.expect) is not None
    try:
        return bool(int(float(text)) & tripped.bit)
    except (ValueError, OverflowError):
        raise Failed(
            f'"{tripped.ask}" was answered by "{clean_text(answer)}", which is not a number.',
            code=ErrorCode.BAD_ANSWER,
            data={"query": tripped.ask},
        ) from None
