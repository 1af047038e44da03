"""The dead-men of a bench: set going before an output goes on, fed while the engine is well.

One task of the engine's loop looks after all of them, so that none is fed when that loop hangs or
its process stands still. What is to be done is decided in ``guards/dead_man.py``, said by
``instruments/dead_man.py``, and kept by ``store/dead_man.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from typing import Any, Final, TypeVar

import structlog

from edged.errors import EdgedError, ErrorCode, Refused
from edged.guards.dead_man import LEAST_SUPERVISED_S, Duty, Stage
from edged.instruments.dead_man import Timer, Words, words_of
from edged.instruments.instrument import Instrument
from edged.instruments.mailbox import Priority
from edged.instruments.pool import Arrived, Changed, Event
from edged.log import surviving
from edged.profiles.format.connection_facts import connection_facts
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.left_work import Visit, address_of, feed_left
from edged.runs.units import unit_of_instrument
from edged.store.dead_man import ArmedUnit

LONGEST_TICK_S: Final = 0.25
SHORTEST_TICK_S: Final = 0.02
LOOKS: Final = 6
"""So often they are looked after in the time of one feed."""
LAST_WORDS_S: Final = 1.0
UNTIL_TAKEN_S: Final = 86_400.0
"""One that is not taken stays in, and shows by that how things are."""

T = TypeVar("T")
FailOn = Callable[[str], Awaitable[Sequence[str]]]
"""Has what runs on the instrument with that id fail; returns the ids of what it ended."""

log = structlog.get_logger("edged.dead_man")


@record(frozen=False, eq=False)
class _Kept:
    """One unit that has a timer.

    Attributes:
        flying: what is on its way to it.
        tried_s: since when the trial of a stop waits to be taken; ``None``: it was.
        stage: as it was told last.
        refused: why it is not set going though something is on, as it was told last.
    """

    instrument: Instrument
    timer: Timer
    flying: Duty | None = None
    tried_s: float | None = None
    stage: Stage = Stage.OFF
    refused: str = ""


@record(frozen=False, eq=False)
class _Left:
    """One that a former life left armed, and that has not been met yet."""

    armed: ArmedUnit
    words: Words
    fed_s: float
    visit: asyncio.Task[None] | None = None


@record(kw_only=False)
class _Waiter:
    """Waits for what is said to a timer."""

    told: Callable[[EdgedError | None], None]

    def done(self) -> bool:
        return False

    def set_result(self, result: Any, /) -> None:  # noqa: ARG002 - the timer has taken note
        self.told(None)

    def set_exception(self, error: EdgedError, /) -> None:
        self.told(error)


@record(frozen=False)
class DeadManControl:
    """Looks after every dead-man of the bench; lives on the loop.

    Attributes:
        visit: a way to an address at which nobody is registered yet.
        fail_on: what has runs fail; all are asked at once.
        is_supervised: another engine is begun when this one dies.
        changes: another number after each change that is told.
    """

    bench: Bench
    visit: Visit
    fail_on: Sequence[FailOn]
    is_supervised: bool
    changes: int = 0
    _kept: dict[str, _Kept] = field(default_factory=dict)
    _left: dict[str, _Left] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _others: set[asyncio.Task[None]] = field(default_factory=set)

    async def feed_left(self) -> None:
        """Before any scan: what a former life left armed is fed, all at once."""
        now = self.bench.clock.monotonic()
        for armed in self.bench.store.armed.all():
            words = words_of(armed.payload)
            if words is not None:
                self._left[armed.instrument_id] = _Left(armed=armed, words=words, fed_s=now)
        first = {self._begin_visit(left) for left in self._left.values()}
        while first:
            # One that hangs is waited for, and the others are fed meanwhile.
            _, first = await asyncio.wait(first, timeout=LONGEST_TICK_S)
            self.tick()

    def start(self) -> None:
        """Begin."""
        self.bench.pool.subscribe(self._hear)
        for instrument in self.bench.pool.all():
            self._look(instrument)
        self._task = asyncio.create_task(self._run(), name="edged-dead-man")

    async def stop(self) -> None:
        """End. What has an output on stays armed; what is known to be off is told to stop."""
        tasks = [self._task, *self._others, *(left.visit for left in self._left.values())]
        mine = [task for task in tasks if task is not None]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)
        ending = [
            kept
            for kept in self._kept.values()
            if kept.timer.state.stage is Stage.ARMED and not kept.timer.may_be_on
        ]
        await asyncio.gather(*map(self._say_last, ending))

    def before(self, instrument: Instrument) -> Timer:
        """An output of this unit is about to go on; its timer is noted with the order for that.

        Raises:
            Refused: DEAD_MAN, it cannot be guarded as its owner wants.
        """
        timer = self._timer_of(instrument)
        self._write_down(instrument, timer)
        now = self.bench.clock.monotonic()
        if timer.state.stage is Stage.OFF:
            timer.state.beat(now, is_stoppable=True)
            # The order itself sets it going, on its way; it is done without one a little later.
            timer.state.tried(now)
        timer.state.must_run()
        if instrument.actor is not None:
            instrument.actor.line.gate = timer.gate
        self._wake.set()
        return timer

    def wake(self) -> None:
        """Something is on that nobody told so."""
        self._wake.set()

    def listed(self) -> list[dict[str, Any]]:
        """One entry for each that runs or has switched off, for get_status."""
        now = self.bench.clock.monotonic()
        return [
            {
                "instrument_id": kept.instrument.id,
                "alias": kept.instrument.alias,
                "state": kept.timer.state.stage.value,
                "dead_man_s": kept.timer.words.limit_s,
                "asked_s_ago": round(now - kept.timer.state.asked_s, 1),
                "clear": kept.timer.words.clear,
            }
            for kept in self._kept.values()
            if kept.timer.state.stage is not Stage.OFF
        ]

    # Which units have one

    def _hear(self, event: Event) -> None:
        if isinstance(event, Arrived | Changed):
            self._look(event.instrument)

    def _look(self, instrument: Instrument) -> None:
        """A unit is there, or is known otherwise: what its owner wants of its timer holds now."""
        armed = self.bench.store.armed.find(instrument.id, unit_of_instrument(instrument).key)
        if armed is not None:
            self._left.pop(armed.instrument_id, None)
        if instrument.timer is None and armed is not None:
            words = words_of(armed.payload)
            if words is not None:
                is_tripped = armed.payload.get("is_tripped") is True
                timer = self._keep(instrument, words, Stage.TRIPPED if is_tripped else Stage.ARMED)
                timer.state.tells_once = armed.payload.get("tells_once") is True
                return
        if instrument.rules.dead_man_s is not None:
            try:
                self._timer_of(instrument)
            except Refused as refused:
                log.warning("dead_man_refused", id=instrument.id, reason=refused.message)
        elif instrument.timer is not None and instrument.timer.state.stage is Stage.OFF:
            self._forget(instrument)
        self._wake.set()

    def _timer_of(self, instrument: Instrument) -> Timer:
        """The timer as its owner wants it now; one that runs stays as it was set going.

        Raises:
            Refused: see ``before``.
        """
        timer = instrument.timer
        if timer is not None and timer.state.stage is not Stage.OFF:
            self._check_limit(instrument, timer.words.limit_s)
            return timer
        limit_s = instrument.rules.dead_man_s
        watchdog = instrument.profile.watchdog if instrument.profile is not None else None
        if limit_s is None or watchdog is None:
            if timer is not None:
                self._forget(instrument)
            raise _refused(
                instrument,
                "dead_man_s is set for it, and its profile has no watchdog",
                "Give it a profile with watchdog, or take dead_man_s out of the bench file.",
            )
        self._check_limit(instrument, limit_s)
        wanted = (watchdog, limit_s)
        if timer is not None and (timer.words.watchdog, timer.words.limit_s) == wanted:
            return timer
        return self._keep(instrument, Words(watchdog, limit_s), Stage.OFF)

    def _check_limit(self, instrument: Instrument, limit_s: float) -> None:
        if self.is_supervised and limit_s < LEAST_SUPERVISED_S:
            raise _refused(
                instrument,
                f"its dead-man of {limit_s:g} s would switch it off whenever edged restarts",
                f"Give it a dead_man_s of {LEAST_SUPERVISED_S:g} or more.",
            )

    def _keep(self, instrument: Instrument, words: Words, stage: Stage) -> Timer:
        unit = unit_of_instrument(instrument).key
        timer = Timer(
            words,
            called=instrument.called,
            connection=lambda: instrument.connection,
            meeting=lambda: instrument.meeting,
            may_be_on=lambda: bool(self.bench.store.told_on.of(unit)),
            clock=self.bench.clock,
            stage=stage,
        )
        instrument.timer = timer
        self._kept[instrument.id] = _Kept(instrument=instrument, timer=timer)
        self._wake.set()
        return timer

    def _forget(self, instrument: Instrument) -> None:
        instrument.timer = None
        del self._kept[instrument.id]
        if instrument.actor is not None:
            instrument.actor.line.gate = None

    def _write_down(self, instrument: Instrument, timer: Timer) -> None:
        """What a next life needs to know of it."""
        payload = {
            "address": instrument.address,
            "profile": instrument.profile.key if instrument.profile else "",
            "connection": connection_facts(instrument.connection),
            "is_tripped": timer.is_tripped,
            "tells_once": timer.state.tells_once,
            **timer.words.facts(),
        }
        unit = unit_of_instrument(instrument).key
        self.bench.store.armed.note(
            ArmedUnit(instrument_id=instrument.id, unit=unit, payload=payload)
        )

    # What is done with them

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            wait_s = None
            with surviving(log, "dead_man_failed"):
                wait_s = self.tick()
            if wait_s is None:
                await self._wake.wait()
            else:
                await self.bench.clock.sleep(wait_s)

    def tick(self) -> float | None:
        """Look after all; gives when to do so again, or ``None`` while nothing wants it."""
        every_s = [self._safely(self._look_after, kept) for kept in tuple(self._kept.values())]
        every_s += [
            self._safely(self._look_after_left, left) for left in tuple(self._left.values())
        ]
        shortest_s = min((one for one in every_s if one), default=None)
        if shortest_s is None:
            return None
        return min(max(shortest_s / LOOKS, SHORTEST_TICK_S), LONGEST_TICK_S)

    def _safely(self, look_after: Callable[[T], float], one: T) -> float:
        """What goes wrong with one keeps no other from being fed."""
        every_s = [LOOKS * LONGEST_TICK_S]
        with surviving(log, "dead_man_failed"):
            every_s.append(look_after(one))
        return every_s[-1]

    def _look_after(self, kept: _Kept) -> float:
        """How often it is fed; 0 where nothing is to be done."""
        timer, now = kept.timer, self.bench.clock.monotonic()
        state = timer.state
        self._tell_stage(kept)
        may_be_on = timer.may_be_on
        if state.stage is Stage.OFF and not may_be_on:
            return 0.0
        if kept.instrument.actor is not None:
            kept.instrument.actor.line.gate = timer.gate
        state.beat(now, is_stoppable=self._is_stoppable(kept, now))
        due = state.due(now, kept.instrument.meeting, may_be_on=may_be_on)
        if due is not Duty.NOTHING and kept.flying is None:
            self._say(kept, due, now)
        return state.every_s

    def _is_stoppable(self, kept: _Kept, now: float) -> bool:
        """Whether a stop would be taken by the unit's line.

        While somebody is served there it is not tried: a stop would free the wire, and a trial must
        not.
        """
        actor = kept.instrument.actor
        if actor is None:
            return True
        every_s = kept.timer.state.every_s
        if kept.tried_s is not None:
            return now - kept.tried_s <= every_s or actor.is_serving

        def taken(_error: EdgedError | None) -> None:
            kept.tried_s = None

        kept.tried_s = now
        try:
            actor.try_stop(_Waiter(taken), UNTIL_TAKEN_S)
        except EdgedError:
            kept.tried_s = None
            return False
        return True

    def _say(self, kept: _Kept, due: Duty, now: float) -> None:
        instrument, timer = kept.instrument, kept.timer
        timer.state.tried(now)
        make: Callable[[], Any] = timer.asking
        if due is Duty.ARM:
            # Something is on, and nobody's order for that is on its way.
            try:
                self.before(instrument)
            except Refused as refused:
                self._note_refused(kept, refused)
                return
            make = timer.arming
        elif due is Duty.DISARM:
            make = timer.disarming

        def told(error: EdgedError | None) -> None:
            kept.flying = None
            self._has_said(kept, due, error)

        kept.flying = due
        try:
            instrument.submit(
                make,
                _Waiter(told),
                priority=Priority.GUARD,
                timeout_s=timer.state.longest_s,
                name="dead-man",
            )
        except EdgedError as error:
            told(error)

    def _note_refused(self, kept: _Kept, refused: Refused) -> None:
        """What is on stays on, and is not guarded as its owner wants: that is told once."""
        if refused.message != kept.refused:
            kept.refused = refused.message
            log.warning("dead_man_refused", id=kept.instrument.id, reason=refused.message)
            self._record(
                "refused",
                kept.instrument,
                f"{kept.instrument.called}: something is on, and its dead-man was not started: "
                f"{refused.message}",
            )

    def _has_said(self, kept: _Kept, due: Duty, error: EdgedError | None) -> None:
        instrument, state = kept.instrument, kept.timer.state
        if error is not None:
            log.warning(
                "dead_man_unanswered", id=instrument.id, due=due.name.lower(), reason=str(error)
            )
        elif due is Duty.ARM and state.stage is Stage.ARMED:
            self._record(
                "armed",
                instrument,
                f"{instrument.called}: its dead-man was started again.",
            )
        if due is Duty.DISARM and state.stage is Stage.OFF and not kept.timer.may_be_on:
            self._remove(instrument)
        self._tell_stage(kept)

    def _remove(self, instrument: Instrument) -> None:
        """It was told to stop."""
        armed = self.bench.store.armed.find(instrument.id, unit_of_instrument(instrument).key)
        if armed is not None:
            self.bench.store.armed.remove(armed.instrument_id)
        self._record(
            "disarmed",
            instrument,
            f"{instrument.called}: everything is off, and its dead-man was stopped.",
        )
        self._look(instrument)

    def _tell_stage(self, kept: _Kept) -> None:
        """Tell what has become of it, once."""
        before, kept.stage = kept.stage, kept.timer.state.stage
        instrument = kept.instrument
        if Stage.TRIPPED in {before, kept.stage}:
            # Whether it says so once is known a question later than that it has tripped.
            self._write_down(instrument, kept.timer)
        if before is kept.stage:
            return
        self.changes += 1
        if kept.stage is Stage.TRIPPED:
            log.error("dead_man_tripped", id=instrument.id)
            self._record("tripped", instrument, kept.timer.tripped().message)
            task = asyncio.create_task(self._fail(instrument.id), name="edged-dead-man-tripped")
            self._others.add(task)
            task.add_done_callback(self._others.discard)
        elif before is Stage.TRIPPED:
            self._record(
                "cleared",
                instrument,
                f"{instrument.called}: somebody has cleared its dead-man.",
            )

    def _record(self, what: str, instrument: Instrument, text: str) -> None:
        self.bench.tell(f"dead_man.{what}", text, instrument.id, f"dead-man of {instrument.called}")

    async def _fail(self, instrument_id: str) -> None:
        ended = await asyncio.gather(
            *(fail(instrument_id) for fail in self.fail_on), return_exceptions=True
        )
        for failed in ended:
            if isinstance(failed, BaseException):
                log.error("dead_man_runs_go_on", id=instrument_id, reason=str(failed))

    async def _say_last(self, kept: _Kept) -> None:
        """The daemon ends: nothing of the unit is on."""
        try:
            await kept.instrument.converse(
                kept.timer.disarming,
                priority=Priority.GUARD,
                timeout_s=LAST_WORDS_S,
                name="dead-man",
            )
        except EdgedError as error:
            log.warning("dead_man_left_armed", id=kept.instrument.id, reason=str(error))
            return
        self._has_said(kept, Duty.DISARM, None)

    # What was left by a former life

    def _look_after_left(self, left: _Left) -> float:
        every_s = left.words.limit_s / 3
        now = self.bench.clock.monotonic()
        if now > left.fed_s + left.words.limit_s + every_s:
            # It has switched off by itself by now; should it be met, it is asked.
            del self._left[left.armed.instrument_id]
            return 0.0
        is_due = now >= left.fed_s + every_s and (left.visit is None or left.visit.done())
        # Where discovery has a line of its own, the questions on that feed it.
        if is_due and not self.bench.pool.has_line(address_of(left.armed)):
            self._begin_visit(left)
        return every_s

    def _begin_visit(self, left: _Left) -> asyncio.Task[None]:
        left.visit = asyncio.create_task(self._visit(left), name="edged-dead-man-visit")
        return left.visit

    async def _visit(self, left: _Left) -> None:
        now = self.bench.clock.monotonic()
        why = await feed_left(left.armed, self.visit)
        if why:
            log.warning("dead_man_not_fed", id=left.armed.instrument_id, reason=why)
        else:
            left.fed_s = now


def _refused(instrument: Instrument, why: str, remedy: str) -> Refused:
    return Refused(
        f"Nothing of {instrument.called} is switched on: {why}.",
        code=ErrorCode.DEAD_MAN,
        data={"dead_man_s": instrument.rules.dead_man_s},
        remedy=remedy,
    )
