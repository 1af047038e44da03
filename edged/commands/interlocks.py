"""Interlocks: what the owner's meters must say before, and while, something is on.

Before a guarded write its meter is read; while a guarded output is on, it is read every ``poll_s``
by a task of its own. A bad reading, or none for ``max_age_s``, trips: the abort goes out at once.
What the readings come to is decided in ``guards.interlocks``. Software is no interlock: see
docs/guards.md.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from edged.actions.action import (
    ENDS_WORK,
    Action,
    Purpose,
    RunCommand,
    SendProgram,
    SendScpi,
    StartStream,
)
from edged.actions.caller import Caller
from edged.clock import Clock
from edged.commands.approvals import commands_sent
from edged.commands.freshness import STALE_NOTES
from edged.commands.target import Target, moment
from edged.commands.telling import outputs_told
from edged.errors import EdgedError, ErrorCode, Invalid, NotFound, Refused
from edged.guards.interlocks import MeterReading, ReadingWorth, Told, Watching, WatchState, judged
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Event
from edged.log import surviving
from edged.profiles.abort import ANYTHING, outputs_of
from edged.profiles.interlocks import Guarded, Interlock, why_no_reading
from edged.profiles.model import Changes, Command, CompletionKind
from edged.record import part, record
from edged.runs.bench import Bench
from edged.runs.units import unit_of_instrument
from edged.store.kept import InterlockTrip

TOOL: Final = "interlock"
LOOKS_EVERY_S: Final = 0.5
"""How soon it is seen that a tripped one guards nothing any more."""
SHORTEST_S: Final = 0.01
ADDED: Final = "which was added or changed while it waited"
"""Why a write is ended that was admitted when this did not guard it."""
LAST_TRIP_S: Final = 2.0
"""How long the end of the daemon waits for what a trip has begun."""

IsOff = Callable[[Instrument, Collection[str]], bool]
TripUnits = Callable[[Interlock, Sequence[Instrument], str], Awaitable[None]]
"""Makes units safe because of an interlock, and why; returns when it has been ordered."""

log = structlog.get_logger("edged.interlocks")


@record(kw_only=False)
class _Places:
    """What an instrument is to the interlocks.

    Attributes:
        guards: those that guard it, each with how.
        read_by: those whose meter it is.
    """

    guards: tuple[tuple[Watching, Guarded], ...]
    read_by: tuple[Watching, ...]


_Admitted = tuple[Watching, float | None]
"""An interlock that guards a write, and when it had tripped last as that was admitted."""


@record(frozen=False, kw_only=False, eq=False, weakref_slot=True)
class WaitingWrite:
    """A write that may not have been sent yet, and what guards it now; any thread may read that."""

    action: Action
    target: Target
    clock: Clock
    guards: tuple[_Admitted, ...] = ()

    def __call__(self) -> None:
        """Raise where one of them does not let it go; any thread may ask."""
        if not self.guards:
            return
        now_s = self.clock.monotonic()
        for watching, tripped_s in self.guards:
            if self.target.is_unknown:
                # No reading allows such a line at a unit that anything guards.
                raise _ended(self.target, watching.rule, ADDED, "Use a command of its profile.")
            if watching.tripped_s != tripped_s:
                raise _tripped(self.target, watching)
            if not watching.is_fresh(now_s, watching.rule.max_age_s):
                is_read = watching.last is not None
                raise _too_old(self.target, watching.rule, is_read=is_read)


@part
class InterlockControl:
    """All interlocks of the bench.

    Attributes:
        is_off: whether outputs of an instrument are known to be off, by what was set and asked.
        trip: makes units safe.
        is_first_look_over: whether who is on the bench is known; before that a meter that is not
            here is none that is missing.
        is_any: whether there are any; nothing else is asked where there are none.
        changes: how often one began or ceased to watch, or tripped.
    """

    bench: Bench
    is_off: IsOff
    trip: TripUnits
    is_first_look_over: Callable[[], bool]
    _all: dict[str, Watching] = field(default_factory=dict)
    # Of those that have tripped in a former life, whose abort may not have been obeyed in it:
    # the units and outputs that were marked as this life began, and were not aborted in it.
    _left: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    # What makes safe after a trip goes on, whoever found it out.
    _tripping: set[asyncio.Task[None]] = field(default_factory=set)
    # One question at a time: two that wait for one meter make each other late.
    _reading: dict[str, asyncio.Lock] = field(default_factory=dict)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    # Who was here when it was looked whom the rules mean, and what came of that.
    _here: tuple[Instrument, ...] | None = None
    _places: dict[str, _Places] = field(default_factory=dict)
    # Its guard keeps each for as long as the write lasts.
    _waiting: weakref.WeakSet[WaitingWrite] = field(default_factory=weakref.WeakSet)
    _latest: tuple[Target | None, tuple[str, ...], tuple[Watching, ...]] = None, (), ()
    _is_started: bool = False
    is_any: bool = False
    changes: int = 0

    def start(self) -> None:
        """Begin to watch; what a former life had on is watched as soon as its unit is met."""
        self._is_started = True
        self.bench.pool.subscribe(self._hear)
        marked = {
            (unit, one)
            for unit, outputs in self.bench.store.told_on.turns().items()
            for one in outputs
        }
        self._left = {name: set(marked) for name in self.bench.store.trips.trips}
        for name in self._all:
            self._take_over(name)
            self._begin(name)

    async def stop(self) -> None:
        """Watch no more."""
        self._is_started = False
        await asyncio.gather(*self._cancel(tuple(self._tasks)), return_exceptions=True)
        if self._tripping:
            await asyncio.wait(self._tripping, timeout=LAST_TRIP_S)
        for task in self._tripping:
            task.cancel()
        await asyncio.gather(*self._tripping, return_exceptions=True)

    async def learn(self, rules: Sequence[Interlock]) -> None:
        """These are the owner's from now on; one that is as it was goes on as it is."""
        wanted = {rule.name: rule for rule in rules}
        gone = [name for name, one in self._all.items() if wanted.get(name) != one.rule]
        ended = self._cancel(gone)
        for name in gone:
            del self._all[name], self._reading[name]
        for name, rule in wanted.items():
            if name in self._all:
                continue
            self._all[name], self._reading[name] = Watching(rule), asyncio.Lock()
            if self._is_started:
                self._take_over(name)
                self._begin(name)
        self.is_any = bool(self._all)
        self._here, self._latest = None, (None, (), ())
        for waiting in tuple(self._waiting):
            self._guard(waiting)
        self.changes += 1
        await asyncio.gather(*ended, return_exceptions=True)

    def wake(self) -> None:
        """Something was told to put something out."""
        if self.is_any:
            self._woken.set()

    def _hear(self, _event: Event) -> None:
        self.wake()

    # Before a write

    def guarding(self, instrument: Instrument) -> str:
        """The name of one that guards something of an instrument; empty: none does."""
        guards = self._places_of(instrument).guards if self.is_any else ()
        return next((watching.rule.name for watching, _ in guards), "")

    def guards(self, action: Action, target: Target) -> bool:
        """Whether any interlock is about this write."""
        return bool(self._about(action, target))

    async def admit(self, action: Action, target: Target) -> None:
        """Read what guards this write, now.

        Raises:
            Refused: INTERLOCK, it is not as it must be, or nobody knows.
        """
        about = self._about(action, target)
        for watching in about:
            rule, now_s = watching.rule, self.bench.clock.monotonic()
            is_watched = watching.state is WatchState.WATCHING
            is_step = bool(action.caller.on_behalf_of)
            if not (is_step and is_watched and watching.is_fresh(now_s, rule.poll_s)):
                reading = await self._read_since(watching, now_s)
                if reading.verdict is not ReadingWorth.GOOD:
                    raise _refused(target, rule, reading)
        over = [watching for watching in about if watching.reason]
        for watching in about:
            watching.let_through()
            self._left.pop(watching.rule.name, None)
        self.wake()
        if over:
            self.changes += 1
            self.bench.store.trips.note(self._last_trips())

    def send_guard(self, action: Action, target: Target) -> WaitingWrite | None:
        """From now on: what says whether the write may still go; any thread may ask it."""
        if not _is_guarded_write(action, target):
            return None
        waiting = WaitingWrite(action, target, self.bench.clock)
        if self.is_any:
            self._guard(waiting)
        self._waiting.add(waiting)
        return waiting

    def _guard(self, waiting: WaitingWrite) -> None:
        """These guard the write now; what it was admitted by stays as it was then."""
        about = self._about(waiting.action, waiting.target) if self.is_any else ()
        known = dict(waiting.guards)
        waiting.guards = tuple((one, known.get(one, one.tripped_s)) for one in about)

    def __call__(self, action: Action, target: Target) -> None:
        """The precondition: no guarded write while it cools, and no work that would keep a meter.

        Raises:
            Refused: INTERLOCK.
        """
        if not self.is_any:
            return
        for watching in self._about(action, target):
            left_s = watching.cools_until_s() - self.bench.clock.monotonic()
            if left_s > 0:
                raise _cooling(target, watching, left_s)
        if target.instrument is None:
            return
        for watching in self._places_of(target.instrument).read_by:
            if watching.state is WatchState.WATCHING:
                _refuse_long(target, watching.rule, _holds_for_s(action, target))

    def _about(self, action: Action, target: Target) -> tuple[Watching, ...]:
        """Those that guard what this would write."""
        instrument = target.instrument
        if instrument is None or not _is_guarded_write(action, target):
            return ()
        # A write is asked about several times on its way.
        known, lines, found = self._latest
        if known is not target or lines is not target.lines:
            found = self._guarding(action, instrument, target)
            self._latest = target, target.lines, found
        return found

    def _guarding(
        self, action: Action, instrument: Instrument, target: Target
    ) -> tuple[Watching, ...]:
        guards = self._places_of(instrument).guards
        if not guards:
            return ()
        sent, told = frozenset[str](), frozenset[str]()
        if any(guarded.command for _, guarded in guards):
            sent, told = commands_sent(target), _told(action, target, instrument)
        may_be_any = target.is_unknown or _is_any(instrument, target, sent, told)
        found = {
            watching.rule.name: watching
            for watching, guarded in guards
            if may_be_any
            or guarded.command in sent
            or not _is_told_apart(instrument, guarded)
            or told & _outputs_of(instrument, guarded)
        }
        return tuple(found.values())

    def _places_of(self, instrument: Instrument) -> _Places:
        """What an instrument is to the interlocks; whom a name means hangs on who is here."""
        here = self.bench.pool.all()
        if here is not self._here:
            self._here, self._places = here, {}
        places = self._places.get(instrument.id)
        if places is None:
            places = self._places[instrument.id] = _Places(
                guards=tuple(
                    (watching, guarded)
                    for watching in self._all.values()
                    for guarded in watching.rule.guards
                    if instrument in self.bench.pool.bearers(guarded.unit)
                ),
                read_by=tuple(
                    watching
                    for watching in self._all.values()
                    if instrument in self.bench.pool.bearers(watching.rule.instrument)
                ),
            )
        return places

    # Reading

    async def _read_since(self, watching: Watching, since_s: float) -> MeterReading:
        """Ask the meter, unless somebody has asked it since: many wait for one answer."""
        async with self._reading[watching.rule.name]:
            last = watching.last
            if last is not None and last.asked_s >= since_s:
                return last
            return await self._read(watching)

    async def _read(self, watching: Watching) -> MeterReading:
        """Ask the meter, and trip where that says so; one that is late gave no reading."""
        rule, asked_s = watching.rule, self.bench.clock.monotonic()
        within_s = rule.max_age_s
        if watching.ends_s is not None:
            within_s = min(within_s, max(watching.ends_s - asked_s, SHORTEST_S))
        try:
            async with asyncio.timeout(within_s):
                reading = await self._asked(rule, asked_s)
        except TimeoutError:
            said, before = f"it did not answer within {within_s:.3g} s", watching.last
            if within_s < rule.poll_s and before is not None:
                # It had no time to: what went wrong was told before.
                said = before.said if before.verdict is ReadingWorth.MISSING else said
            reading = MeterReading(verdict=ReadingWorth.MISSING, said=said, asked_s=asked_s)
        except EdgedError as error:
            reading = MeterReading(
                verdict=ReadingWorth.MISSING, said=error.message, asked_s=asked_s
            )
        except Exception as bug:
            log.exception("interlock_read_failed", name=rule.name)
            said = f"edged made a mistake reading it ({type(bug).__name__})"
            reading = MeterReading(verdict=ReadingWorth.MISSING, said=said, asked_s=asked_s)
        if reason := watching.take(reading) or watching.overdue(self.bench.clock.monotonic()):
            self._trip(watching, reason)
        return reading

    async def _asked(self, rule: Interlock, asked_s: float) -> MeterReading:
        meter = self.bench.pool.get(rule.instrument)
        command = meter.profile.commands.get(rule.command) if meter.profile else None
        if command is None:
            raise NotFound(f"{meter.called} has no command {rule.command}.")
        if why := why_no_reading(rule, command):
            raise NotFound(why)
        outcome = await self.bench.perform(
            RunCommand(
                tool=TOOL,
                caller=Caller.part(_part(rule)),
                action_id=self.bench.new_id(),
                instrument_id=meter.id,
                command_name=rule.command,
                parameters=dict(rule.parameters),
                purpose=Purpose.INTERLOCK,
            )
        )
        if outcome.error is not None:
            raise outcome.error
        stale = STALE_NOTES.intersection(outcome.data.get("notes", ()))
        if stale:
            said = f"no new reading: {', '.join(stale)}"
            return MeterReading(verdict=ReadingWorth.MISSING, said=said, asked_s=asked_s)
        data = outcome.data["data"]
        if isinstance(data, Mapping) and not rule.column:
            data = data.get(outcome.data.get("primary", ""))
        return judged(rule, data, outcome.data.get("unit", ""), asked_s)

    # Watching

    def _begin(self, name: str) -> None:
        self._tasks[name] = asyncio.create_task(
            self._watch(self._all[name]), name=f"interlock {name}"
        )

    def _cancel(self, names: Sequence[str]) -> list[asyncio.Task[None]]:
        tasks = [self._tasks.pop(name) for name in names if name in self._tasks]
        for task in tasks:
            task.cancel()
        return tasks

    def _take_over(self, name: str) -> None:
        """What a former life knew of its last trip."""
        trip, now = self.bench.store.trips.trips.get(name), moment(self.bench.clock)
        if trip is not None:
            watching = self._all[name]
            watching.reason = trip.reason
            watching.tripped_s = now.monotonic_s - trip.at.age_s(now)

    async def _watch(self, watching: Watching) -> None:
        while True:
            wait_s: float | None = LOOKS_EVERY_S
            with surviving(log, "interlock_watch_failed"):
                wait_s = await self._look(watching)
            if wait_s is None:
                self._woken.clear()
                if not self._is_marked(watching):
                    await self._woken.wait()
            else:
                await self.bench.clock.sleep(max(wait_s, SHORTEST_S))

    async def _look(self, watching: Watching) -> float | None:
        """One look; gives the seconds until the next, ``None`` while nothing is on."""
        before, told = watching.state, self._on(watching)
        if not told:
            watching.rest()
            self._note(watching, before)
            # One that is about to be switched on is marked before it is: nobody wakes this again.
            return min(LOOKS_EVERY_S, watching.rule.poll_s) if self._is_marked(watching) else None
        watching.begin(told)
        self._note(watching, before)
        if not watching.waits() and (left := self._not_obeyed(watching)):
            self._trip_again(watching, left)
        if watching.waits():
            return LOOKS_EVERY_S
        rule, began_s = watching.rule, self.bench.clock.monotonic()
        if self.bench.pool.bearers(rule.instrument) or self.is_first_look_over():
            watching.note_try(began_s)
            async with self._reading[rule.name]:
                # A write may have had it read meanwhile.
                if not watching.is_fresh(self.bench.clock.monotonic(), rule.poll_s):
                    await self._read(watching)
        now_s = self.bench.clock.monotonic()
        if reason := watching.overdue(now_s):
            self._trip(watching, reason)
        if watching.waits():
            return LOOKS_EVERY_S
        next_s = (watching.last.asked_s if watching.last else began_s) + rule.poll_s
        return min(next_s, watching.ends_s or next_s) - now_s

    def _is_marked(self, watching: Watching) -> bool:
        units = self._units(watching.rule.guards)
        return any(self.bench.store.told_on.of(unit_of_instrument(unit).key) for unit in units)

    def _on(self, watching: Watching) -> list[Told]:
        """What of the guarded units may be on, as it was last told or asked."""
        found: list[Told] = []
        for instrument in self._units(watching.rule.guards):
            told = self.bench.store.told_on.of(unit_of_instrument(instrument).key)
            if told and not self.is_off(instrument, told.keys()):
                found += [(instrument.id, output, turn) for output, turn in told.items()]
        return found

    def _units(self, guards: Sequence[Guarded]) -> Iterator[Instrument]:
        seen: set[str] = set()
        for guarded in guards:
            for instrument in self.bench.pool.bearers(guarded.unit):
                if instrument.id not in seen:
                    seen.add(instrument.id)
                    yield instrument

    def _trip(self, watching: Watching, reason: str) -> None:
        """It has tripped: the abort goes out, and nobody waits for that."""
        rule = watching.rule
        watching.trip(reason, self.bench.clock.monotonic(), self._on(watching))
        self._left.pop(rule.name, None)
        trip = InterlockTrip(reason, moment(self.bench.clock))
        self.bench.store.trips.note({**self._last_trips(), rule.name: trip})
        self._begin_abort(watching, f"{rule.name}: {reason}")

    def _not_obeyed(self, watching: Watching) -> set[tuple[str, str]]:
        """What has been on since before it tripped in a former life, and was not aborted since."""
        name = watching.rule.name
        left, trip = self._left.get(name), self.bench.store.trips.trips.get(name)
        found: set[tuple[str, str]] = set()
        if not left or trip is None:
            return found
        for instrument in self._units(watching.rule.guards):
            unit = unit_of_instrument(instrument).key
            since_ms = self.bench.store.told_on.since_ms(unit)
            if since_ms is not None and since_ms <= trip.at.wall_ms:
                found |= {(unit, output) for output in self.bench.store.told_on.of(unit)} & left
        return found

    def _trip_again(self, watching: Watching, left: set[tuple[str, str]]) -> None:
        """No restart ends a trip whose abort was not obeyed, whatever is read by now."""
        reason, tripped_s = watching.reason, watching.tripped_s
        watching.trip(reason, tripped_s or self.bench.clock.monotonic(), self._on(watching))
        name = watching.rule.name
        self._left[name] -= left
        self._begin_abort(watching, f"{name}: aborted again after a restart: {reason}")

    def _begin_abort(self, watching: Watching, told: str) -> None:
        rule, reason = watching.rule, watching.reason
        units = tuple(self._units(rule.guards))
        self.changes += 1
        log.warning("interlock_tripped", name=rule.name, reason=reason)
        task = asyncio.create_task(
            self._make_safe(rule, units, reason), name=f"interlock {rule.name} tripped"
        )
        self._tripping.add(task)
        task.add_done_callback(self._tripping.discard)
        for unit in units:
            self.bench.tell("interlock.tripped", told, unit.id, _part(rule))

    async def _make_safe(self, rule: Interlock, units: Sequence[Instrument], reason: str) -> None:
        for what in await asyncio.gather(
            self.trip(rule, units, reason),
            self.bench.store.trips.keep(),
            return_exceptions=True,
        ):
            if isinstance(what, BaseException):
                log.error("interlock_trip_failed", name=rule.name, reason=str(what))

    def _last_trips(self) -> dict[str, InterlockTrip]:
        """What is kept of trips: of those that are not over."""
        return {
            name: trip
            for name, trip in self.bench.store.trips.trips.items()
            if (found := self._all.get(name)) is not None and found.reason
        }

    def _note(self, watching: Watching, before: WatchState) -> None:
        if watching.state is not before:
            self.changes += 1

    # What people are told

    def _unknown_in(self, guarded: Guarded) -> list[str]:
        """What of it is not on the bench: the unit, or a command that its profile lacks."""
        units = self.bench.pool.bearers(guarded.unit)
        if not units:
            return [guarded.unit]
        is_known = not guarded.command or all(_is_told_apart(one, guarded) for one in units)
        return [] if is_known else [guarded.text]

    def listed(self) -> list[dict[str, Any]]:
        """All of them, for get_status."""
        if not self.is_any:
            return []
        now_s = self.bench.clock.monotonic()
        return [self._told(watching, now_s) for watching in self._all.values()]

    def _told(self, watching: Watching, now_s: float) -> dict[str, Any]:
        rule, last = watching.rule, watching.last
        age_s = watching.age_s(now_s)
        cools_s = watching.cools_until_s() - now_s
        trip = self.bench.store.trips.trips.get(rule.name)
        missing = [name for guarded in rule.guards for name in self._unknown_in(guarded)]
        if not self.bench.pool.bearers(rule.instrument):
            missing.append(rule.instrument)
        return {
            "name": rule.name,
            "state": watching.state.value,
            "reads": rule.asked,
            "must": rule.must.text,
            "guards": [guarded.text for guarded in rule.guards],
            "last": last.said if last else None,
            "age_s": None if age_s is None else round(age_s, 3),
            "tripped_ms": trip.at.wall_ms if trip is not None and watching.reason else None,
            "reason": watching.reason or None,
            "cools_s": round(cools_s, 1) if cools_s > 0 else None,
            "unknown": list(dict.fromkeys(missing)),
        }


def _is_guarded_write(action: Action, target: Target) -> bool:
    """Whether an interlock could hold it back, if one guards what it writes to."""
    if target.instrument is None or not target.is_write or target.is_safe or target.is_let_through:
        return False
    return getattr(action, "purpose", None) not in ENDS_WORK


def _part(rule: Interlock) -> str:
    """What its rows in the audit log call it."""
    return f"interlock {rule.name}"


def _is_told_apart(instrument: Instrument, guarded: Guarded) -> bool:
    """Whether it is known which writes are the guarded command; else each of them may be it."""
    profile = instrument.profile
    return bool(guarded.command) and profile is not None and guarded.command in profile.commands


def _is_any(
    instrument: Instrument, target: Target, sent: Collection[str], told: Collection[str]
) -> bool:
    """Whether a command among those sent can do whatever the unit can."""
    known: Mapping[str, Command] = instrument.profile.commands if instrument.profile else {}
    commands = [known[name] for name in sent if name in known]
    if target.command is not None:
        commands.append(target.command)
    changes = {command.changes for command in commands}
    return Changes.ANY in changes or (Changes.OUTPUTS in changes and ANYTHING in told)


def _told(action: Action, target: Target, instrument: Instrument) -> frozenset[str]:
    try:
        return outputs_told(action, target, instrument)
    except Invalid:
        # A sweep is asked about before its values are known, and once more with them.
        return frozenset()


def _outputs_of(instrument: Instrument, guarded: Guarded) -> frozenset[str]:
    """The outputs that a guarded command can switch on: so nothing else may do that unguarded."""
    profile = instrument.profile
    if profile is None or guarded.command not in profile.commands:
        return frozenset()
    return outputs_of(profile, guarded.command)


def _holds_for_s(action: Action, target: Target) -> float:
    """How long a call could keep its line without a pause; 0 where nothing of it goes there."""
    instrument = target.instrument
    if instrument is None or getattr(action, "purpose", None) in {*ENDS_WORK, Purpose.INTERLOCK}:
        return 0.0
    patience_ms = instrument.connection.timeout_ms
    command = target.command
    if isinstance(action, SendProgram):
        return max(patience_ms / 1000, action.timeout_s)
    if isinstance(action, SendScpi):
        return patience_ms / 1000
    is_asked = isinstance(action, RunCommand | StartStream)
    # A sweep's measure stands inside it: its command is a question, the sweep's own is none.
    if command is None or not (is_asked or command.is_query):
        return 0.0
    patience_ms = command.timeout_ms or patience_ms
    if command.complete is not None and command.complete.kind is not CompletionKind.NONE:
        patience_ms += command.complete.timeout_ms
    return patience_ms / 1000


def _refuse_long(target: Target, rule: Interlock, held_s: float) -> None:
    if held_s <= rule.max_age_s:
        return
    raise Refused(
        f"{target.called} is read by the interlock {rule.name} while it guards, and "
        f"{target.command_name or 'this line'} could keep its line for {held_s:g} s, longer than "
        f"max_age_s {rule.max_age_s:g}.",
        code=ErrorCode.INTERLOCK,
        data={"interlock": rule.name, "could_take_s": held_s},
        remedy="Wait until what it guards is off, or use another instrument.",
    )


def _refusal(target: Target, rule: Interlock, why: str, remedy: str, **data: Any) -> Refused:
    return Refused(
        f"{target.called} is guarded by the interlock {rule.name}: {why}. Nothing was sent.",
        code=ErrorCode.INTERLOCK,
        data={"interlock": rule.name, "must": rule.must.text, **data},
        remedy=remedy,
    )


def _refused(target: Target, rule: Interlock, reading: MeterReading) -> Refused:
    if reading.verdict is ReadingWorth.BAD:
        why = f"{rule.asked} is {reading.said}, and must be: {rule.must.text}"
        remedy = (
            "Bring it into that range first, and call again; it is read again before each "
            "such write."
        )
    else:
        why = f"{rule.asked} gave no reading: {reading.said.rstrip('.')}"
        remedy = (
            f"Check {rule.instrument}: while it cannot be read, the guarded writes are refused."
        )
    return _refusal(target, rule, why, remedy, value=reading.value)


def _tripped(target: Target, watching: Watching) -> Refused:
    because = f" ({watching.reason})" if watching.reason else ""
    why = f"which tripped while it waited{because}"
    return _ended(target, watching.rule, why, "Correct what it read, and call again.")


def _too_old(target: Target, rule: Interlock, *, is_read: bool) -> Refused:
    why = ADDED
    if is_read:
        why = f"because {rule.asked} was read longer ago than max_age_s {rule.max_age_s:g}"
    return _ended(target, rule, why, "Call it again; it is then read again.")


def _ended(target: Target, rule: Interlock, why: str, remedy: str) -> Refused:
    """Of a write that had been admitted: a part of it may have been sent."""
    return Refused(
        f"{target.command_name or 'The call'} to {target.called} was ended by "
        f"{_part(rule)}, {why}.",
        code=ErrorCode.INTERLOCK,
        data={"interlock": rule.name, "must": rule.must.text},
        remedy=remedy,
    )


def _cooling(target: Target, watching: Watching, left_s: float) -> Refused:
    until = datetime.now(tz=UTC).timestamp() + left_s
    at = datetime.fromtimestamp(until, tz=UTC).strftime("%H:%M:%S UTC")
    why = f"it tripped ({watching.reason}) and cools down until {at}, for {left_s:.0f} s more"
    return _refusal(target, watching.rule, why, "Call again then.", retry_after_s=round(left_s, 1))
