"""Stop all: every line at once, and what each instrument confirmed.

The ramps, streams and sequences are told to end, and in the same moment every instrument gets its
abort as a job that pre-empts whatever is on its line; nothing waits for anything else, so one
instrument that hangs delays no other. In the same breath each is asked whether it obeyed. After a
second the answer is given: what has not answered by then is not confirmed, and goes on being tried.

Stop all, for SDK wrappers: the tools that they mark as their aborts, side by side.

A wrapper whose device has answered in this life of the daemon must say that it is safe; of one that
never had a device nothing is asked. Only a tool that returns ``is_on: false`` has seen the device
say that it is off; without it the order was taken, and no more is known.

What became of one instrument when everything was stopped, and what that is worth.
"""

from __future__ import annotations

import asyncio
import enum
import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import structlog

from edged.actions.action import CallWrapper, Purpose, SendLines, StopAll
from edged.actions.caller import Caller
from edged.actions.cause import ENGINE_STOPPED, Cause
from edged.clock import Clock
from edged.errors import ErrorCode
from edged.instruments.instrument import Instrument
from edged.profiles.abort import ANYTHING, Proof, output_names, proofs_of, unproved_outputs
from edged.record import part, record
from edged.runs.bench import Bench
from edged.runs.obey import Obeyed, obey
from edged.runs.sweeps.registry import Sweeps
from edged.runs.units import unit_of_instrument
from edged.runs.wording import all_stopped_by
from edged.sdk.specs import wrapper_id

WITHIN_S: Final = 6.0
WRAPPER_ANSWER_S: Final = 0.85
"""What is told after this is what is known by then; the tool goes on."""
IS_ON: Final = "is_on"
"""What an abort tool returns as false when its device has said that it is off."""
ITS_DEVICE: Final = "its device"
TRYING: Final[Mapping[str, Any]] = {
    "state": "trying",
    "error": "It has not answered yet; it goes on being tried.",
}
NOBODY_THERE: Final = frozenset({ErrorCode.DISCONNECTED, ErrorCode.SDK_MISSING})
"""How a wrapper says that its device, or its maker's library, is not there."""


async def wait_for_all(clock: Clock, parts: Sequence[asyncio.Future[Any]], within_s: float) -> None:
    """Until all are done, and no longer than so many seconds; ends none of them."""
    bound = asyncio.ensure_future(clock.sleep(within_s))
    try:
        while not bound.done() and (left := {part for part in parts if not part.done()}):
            await asyncio.wait({*left, bound}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        bound.cancel()
        await asyncio.gather(bound, return_exceptions=True)


@record
class WrapperAbort:
    """One tool that makes a wrapper's device safe. ``is_expected``: its device has been there."""

    wrapper: str
    spec_name: str
    is_expected: bool


class WrapperStop:
    """Runs the aborts of all wrappers.

    Args:
        aborts: what there is to run.
    """

    def __init__(self, bench: Bench, aborts: Callable[[], Sequence[WrapperAbort]]) -> None:
        self._bench = bench
        self._aborts = aborts
        self._running: set[asyncio.Task[dict[str, Any]]] = set()

    async def __call__(
        self, caller: Caller, cause: Cause, parent_id: str, tool: str
    ) -> list[dict[str, Any]]:
        """Run all at once; an entry each, in the form of an instrument's, before long."""
        return await self._run(self._aborts(), WRAPPER_ANSWER_S, caller, cause, parent_id, tool)

    async def stop_marked(
        self, caller: Caller, cause: Cause, *, tool: str, within_s: float
    ) -> list[dict[str, Any]]:
        """The same of those whose device may be on."""
        aborts = [one for one in self._aborts() if self._bench.store.told_on.of(_unit(one))]
        return await self._run(aborts, within_s, caller, cause, "", tool)

    async def _run(
        self,
        aborts: Sequence[WrapperAbort],
        within_s: float,
        caller: Caller,
        cause: Cause,
        parent_id: str,
        tool: str,
    ) -> list[dict[str, Any]]:
        began = self._bench.clock.monotonic()
        found = [
            (abort, asyncio.ensure_future(self._one(abort, caller, cause, parent_id, tool, began)))
            for abort in aborts
        ]
        tasks = [task for _, task in found]
        self._running.update(tasks)
        for task in tasks:
            task.add_done_callback(self._running.discard)
        await wait_for_all(self._bench.clock, tasks, within_s)
        return [
            task.result() if task.done() else self._with_told(abort, {**_told(abort), **TRYING})
            for abort, task in found
        ]

    async def close(self) -> None:
        """The daemon stops: nothing is waited for any more."""
        running = list(self._running)
        for task in running:
            task.cancel(ENGINE_STOPPED)
        await asyncio.gather(*running, return_exceptions=True)

    async def _one(
        self,
        abort: WrapperAbort,
        caller: Caller,
        cause: Cause,
        parent_id: str,
        tool: str,
        began: float,
    ) -> dict[str, Any]:
        action = CallWrapper(
            tool=tool,
            caller=caller,
            action_id=self._bench.new_id(),
            parent_id=parent_id,
            wrapper=abort.wrapper,
            spec_name=abort.spec_name,
            cause=cause,
            is_expected=abort.is_expected,
        )
        told = _told(abort)
        unit = _unit(abort)
        marked = self._bench.store.told_on.of(unit)
        try:
            async with asyncio.timeout(WITHIN_S):
                outcome = await self._bench.perform(action)
        except TimeoutError:
            said = f"It did not answer within {WITHIN_S:g} s."
            return self._with_told(abort, {**told, **_failed(said)})
        if outcome.error is None:
            spent_ms = round((self._bench.clock.monotonic() - began) * 1000, 1)
            told["taken_after_ms"] = spent_ms
            returned = outcome.data.get("data")
            if isinstance(returned, Mapping) and returned.get(IS_ON) is False:
                self._bench.store.told_on.clear(unit, marked)
                told |= {"state": "confirmed", "confirmed_after_ms": spent_ms}
        elif outcome.error.code in NOBODY_THERE and not abort.is_expected:
            told["state"] = "not_connected"
        else:
            told |= _failed(str(outcome.error))
        return self._with_told(abort, told)

    def _with_told(self, abort: WrapperAbort, told: dict[str, Any]) -> dict[str, Any]:
        """With what it was told and has not been seen to be off."""
        is_told = bool(self._bench.store.told_on.of(_unit(abort)))
        return {**told, "unconfirmed": [ITS_DEVICE] if is_told else []}


def _entry(instrument_id: str, state: StopState, **more: Any) -> dict[str, Any]:
    """What is told of one instrument; what is not known of it is empty."""
    return {
        "instrument_id": instrument_id,
        "alias": "",
        "state": state.value,
        "scpi": [],
        "taken_after_ms": None,
        "confirmed": [],
        "confirmed_after_ms": None,
        "unconfirmed": [],
        "error": None,
    } | more


def _unit(abort: WrapperAbort) -> str:
    return f"{wrapper_id(abort.wrapper)}||"


def _told(abort: WrapperAbort) -> dict[str, Any]:
    return {
        "instrument_id": wrapper_id(abort.wrapper),
        "alias": "",
        "state": "taken",
        "tool": f"{abort.wrapper}__{abort.spec_name}",
        "taken_after_ms": None,
        "confirmed": [],
        "confirmed_after_ms": None,
        "error": None,
    }


def _failed(why: str) -> Mapping[str, Any]:
    return {"state": "failed", "error": why}


RAW_LINES: Final = "what raw lines switched on"
"""What is told in place of outputs that no profile knows."""


class StopState(enum.StrEnum):
    """Of one instrument.

    ``confirmed``: all that its abort switches off answered that it is off; ``taken``: it took the
    lines, and not all of it can be asked; ``trying``: it has not answered yet; ``failed``: it did
    not take them, or says that it is not off; ``nothing_to_send``: no abort is known for it;
    ``absent``: it was told to put something out, and is not here.
    """

    CONFIRMED = "confirmed"
    TAKEN = "taken"
    TRYING = "trying"
    FAILED = "failed"
    NOTHING_TO_SEND = "nothing_to_send"
    ABSENT = "absent"


@record(frozen=False)
class Stopped:
    """One instrument.

    Attributes:
        told: which of its outputs had been told something when the stop was given, and in which
            turn.
        outputs: what its abort switches off; ``unproved``: those of which nobody can ask.
        settled: done once there is something to tell.
    """

    instrument: Instrument
    told: Mapping[str, int]
    lines: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()
    outputs: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()
    state: StopState = StopState.NOTHING_TO_SEND
    error: str = ""
    taken_ms: float | None = None
    asked: tuple[dict[str, Any], ...] = ()
    off: frozenset[str] = frozenset()
    confirmed_ms: float | None = None
    settled: asyncio.Future[None] = field(default_factory=lambda: asyncio.Future())

    @classmethod
    def of(cls, instrument: Instrument, told: Mapping[str, int]) -> Stopped:
        """Before anything was sent; the last profile that it had says how."""
        profile = instrument.safe_by
        if profile is None or not profile.abort:
            return cls(instrument=instrument, told=told, unproved=(RAW_LINES,) if told else ())
        return cls(
            instrument=instrument,
            told=told,
            lines=profile.abort_lines,
            proofs=proofs_of(profile, profile.abort),
            outputs=output_names(profile),
            unproved=unproved_outputs(profile),
            state=StopState.TRYING,
        )

    def settle(self) -> None:
        """There is something to tell."""
        if not self.settled.done():
            self.settled.set_result(None)

    def note_taken(self, after_ms: float) -> None:
        """It took the lines; called on the thread of its line."""
        if self.taken_ms is None:
            self.taken_ms = after_ms

    def note(self, obeyed: Obeyed, after_ms: float) -> None:
        """What came of a try."""
        self.asked, self.off = obeyed.verdict.asked, obeyed.verdict.off
        self.error = obeyed.error or obeyed.complaint
        if obeyed.error:
            self.state = StopState.FAILED
            return
        self.note_taken(after_ms)
        if self.proofs and not self.unproved:
            self.state, self.confirmed_ms = StopState.CONFIRMED, after_ms
        else:
            self.state = StopState.TAKEN

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """What was told to put something out, and has not answered that it is off."""
        seen = seen_off(self.told, self.outputs, self.off)
        return tuple(output for output in self.told if output not in seen)

    @property
    def puts_nothing_out(self) -> bool:
        """A meter: nothing of it can be on, and nothing was told it that nobody knows."""
        return not (self.told or self.outputs or self.unproved)

    @property
    def is_believed(self) -> bool:
        """Whether nothing speaks against its being safe."""
        if self.puts_nothing_out:
            return True
        if self.state in {StopState.FAILED, StopState.TRYING}:
            return False
        return not self.unconfirmed

    def seen_off(self) -> dict[str, int]:
        """What of ``told`` is shown to be off."""
        return seen_off(self.told, self.outputs, self.off)

    def to_json(self) -> dict[str, Any]:
        """Its entry in the result."""
        return _entry(
            self.instrument.id,
            self.state,
            alias=self.instrument.alias,
            scpi=list(self.lines),
            taken_after_ms=self.taken_ms,
            confirmed=list(self.asked),
            confirmed_after_ms=self.confirmed_ms,
            unconfirmed=self._unconfirmed_by_name(),
            error=self.error or self._why_unanswered(),
        )

    def _unconfirmed_by_name(self) -> list[str]:
        """With the outputs that ``ANYTHING`` stands for."""
        left = list(self.unconfirmed)
        if ANYTHING not in left:
            return left
        doubtful = [output for output in self.outputs if output not in self.off]
        named = [output for output in left if output != ANYTHING]
        return list(dict.fromkeys([*named, *(doubtful or [RAW_LINES])]))

    def _why_unanswered(self) -> str | None:
        if self.state is StopState.TRYING:
            harmless = " It supplies no energy." if self.puts_nothing_out else ""
            return f"It has not answered yet; it goes on being tried.{harmless}"
        return None


ANSWER_S: Final = 0.9
"""Whoever stops everything is answered within a second; the rest of it is the way there."""
FIRST_RETRY_S: Final = 0.25
LONGEST_RETRY_S: Final = 2.0

EndWork = Callable[[Cause], Awaitable[object]]
"""Ends one kind of long work, with why; returns when that is done."""

StopOthers = Callable[[Caller, Cause, str, str], Awaitable[list[dict[str, Any]]]]
"""Makes safe what is no instrument; see ``stop_wrappers``."""


log = structlog.get_logger("edged.stop")


@record
class _Order:
    """One stop: who gave it, and what had been told to put something out by then.

    Attributes:
        try_for_s: how long an abort that is not taken is tried again.
        cause: what is told to the calls that it interrupts.
    """

    caller: Caller
    action_id: str
    tool: str
    began: float
    told: Mapping[str, Mapping[str, int]]
    try_for_s: float
    cause: Cause
    by_unit: dict[str, list[Stopped]] = field(default_factory=dict)

    def seen_off(self, unit: str) -> Mapping[str, int]:
        """What is shown to be off by all that call themselves this unit: twins share a serial."""
        twins = [one.seen_off() for one in self.by_unit[unit]]
        return {
            output: turn
            for output, turn in twins[0].items()
            if all(output in others for others in twins[1:])
        }


def seen_off(
    told: Mapping[str, int], outputs: Collection[str], off: Collection[str]
) -> dict[str, int]:
    """What of ``told`` is shown to be off by what has answered so.

    Args:
        told: what was told to put something out, and in which turn.
        outputs: all of the unit that there is to be switched off.
        off: those that answered that they are.
    """
    is_all_off = bool(outputs) and set(off) >= set(outputs)
    return {
        output: turn
        for output, turn in told.items()
        if (output in off if output in outputs else is_all_off)
    }


@part
class BenchStop:
    """Makes the whole bench safe.

    Attributes:
        sweeps: ends those, each with its own abort.
        end_work: ends streams and sequences.
        made_safe: told of each instrument that obeyed its abort.
        stop_others: makes SDK wrappers safe.
        recall: from its call on nothing that was admitted before is begun.
    """

    bench: Bench
    sweeps: Sweeps
    end_work: tuple[EndWork, ...]
    made_safe: Callable[[str], Awaitable[None]]
    stop_others: StopOthers
    recall: Callable[[Cause], None]
    # What goes on after the answer: by instrument id, and what else is ending.
    _trying: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _ending: set[asyncio.Future[Any]] = field(default_factory=set)

    async def stop_all(self, action: StopAll) -> dict[str, Any]:
        """End everything; returns after a second at the latest.

        Returns:
            {is_confirmed, took_ms, instruments, unproved, wrappers, sweeps, is_work_ended}:
            ``is_confirmed`` when everything that was told to put something out answered that it is
            off. For the ``state`` of one instrument see ``StopState``.
        """
        # Once begun it goes on, whoever asked for it: a client that gives up waiting stops nothing.
        return await asyncio.shield(
            asyncio.ensure_future(self._stop(action.caller, action.action_id, action.tool))
        )

    async def stop_units(
        self,
        instruments: Sequence[Instrument],
        caller: Caller,
        cause: Cause,
        *,
        tool: str,
        try_for_s: float,
    ) -> list[dict[str, Any]]:
        """Make these safe, and end the sweeps on them; returns after a second at the latest.

        Args:
            cause: why the sweeps ended, and what else is interrupted.
            try_for_s: how long an abort that is not taken is tried again.

        Returns:
            An entry for each, as of ``stop_all``.
        """
        order = self._order(caller, self.bench.new_id(), tool, try_for_s, cause)
        stopped = [self._begin(instrument, order) for instrument in instruments]
        sweeps = [
            self._keep(asyncio.ensure_future(self.sweeps.stop_all(cause, instrument.id)))
            for instrument in instruments
        ]
        parts = [*sweeps, *(one.settled for one in stopped)]
        await wait_for_all(self.bench.clock, parts, ANSWER_S)
        return [one.to_json() for one in stopped]

    async def stop_marked(
        self, caller: Caller, cause: Cause, *, tool: str, within_s: float
    ) -> list[dict[str, Any]]:
        """Abort every instrument that may be on, until it has obeyed or the time is over.

        Returns:
            An entry for each, as of ``stop_all``, also for those that are not here; none for
            wrappers.
        """
        order = self._order(caller, self.bench.new_id(), tool, within_s, cause)
        stopped = [
            self._begin(instrument, order)
            for instrument in self.bench.pool.all()
            if unit_of_instrument(instrument).key in order.told
        ]
        tasks = [self._trying[one.instrument.id] for one in stopped if one.lines]
        await wait_for_all(self.bench.clock, tasks, within_s)
        absent = self._absent(order, stopped, ())
        return [one.to_json() for one in stopped] + [
            one for one in absent if not one["instrument_id"].startswith(wrapper_id(""))
        ]

    def trying(self) -> tuple[str, ...]:
        """Ids of the instruments that have not obeyed a stop, and are told to again."""
        return tuple(self._trying)

    async def close(self) -> None:
        """The daemon stops: nothing is tried any more."""
        left = [*self._trying.values(), *self._ending]
        for task in left:
            task.cancel(ENGINE_STOPPED)
        await asyncio.gather(*left, return_exceptions=True)

    async def _stop(self, caller: Caller, action_id: str, tool: str) -> dict[str, Any]:
        # Both at once: what is marked by now and has not gone out is called back.
        cause = all_stopped_by(caller.who)
        self.recall(cause)
        order = self._order(caller, action_id, tool, self.bench.config.abort_after_crash_sec, cause)
        ends = [self._keep(asyncio.ensure_future(end(cause))) for end in self.end_work]
        sweeps = self._keep(asyncio.ensure_future(self.sweeps.stop_all(cause)))
        stopped = [self._begin(instrument, order) for instrument in self.bench.pool.all()]
        others = self._keep(
            asyncio.ensure_future(self.stop_others(order.caller, cause, action_id, tool))
        )
        parts = [*ends, sweeps, others, *(one.settled for one in stopped)]
        await wait_for_all(self.bench.clock, parts, ANSWER_S)
        told = sweeps.result() if sweeps.done() else list(self.sweeps.active())
        wrappers = others.result() if others.done() else []
        absent = self._absent(order, stopped, wrappers)
        is_work_ended = all(end.done() for end in ends) and sweeps.done() and others.done()
        is_confirmed = (
            is_work_ended
            and not absent
            and all(one.is_believed for one in stopped)
            and all(w["state"] not in {"failed", "trying"} for w in wrappers)
            and not any(w["unconfirmed"] for w in wrappers)
            and all(s["status"] == "stopped" for s in told)
        )
        reports = [one.to_json() for one in stopped] + absent
        log.warning(
            "bench_stopped",
            is_confirmed=is_confirmed,
            instruments=len(stopped),
            sweeps=len(told),
            unconfirmed=[r["instrument_id"] for r in reports if r["unconfirmed"] or r["error"]],
        )
        return {
            "is_confirmed": is_confirmed,
            "took_ms": self._since_ms(order.began),
            "instruments": reports,
            "unproved": [
                {"instrument_id": one.instrument.id, "output": output}
                for one in stopped
                for output in one.unproved
            ],
            "wrappers": wrappers,
            "sweeps": [
                {
                    name: s[name]
                    for name in ("sweep_id", "instrument_id", "status", "reason", "error")
                }
                for s in told
            ],
            "is_work_ended": is_work_ended,
        }

    def _order(
        self, caller: Caller, action_id: str, tool: str, try_for_s: float, cause: Cause
    ) -> _Order:
        return _Order(
            caller=caller.nested(tool=tool, scope="", on_behalf_of=f"stop-{action_id}"),
            action_id=action_id,
            tool=tool,
            began=self.bench.clock.monotonic(),
            told=self.bench.store.told_on.turns(),
            try_for_s=try_for_s,
            cause=cause,
        )

    def _keep(self, part: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """Have it go on after the answer, with somebody who ends it when the daemon stops."""
        self._ending.add(part)
        part.add_done_callback(self._ending.discard)
        return part

    def _begin(self, instrument: Instrument, order: _Order) -> Stopped:
        """Give one instrument its abort; what was still being tried of an older stop ends."""
        unit = unit_of_instrument(instrument).key
        stopped = Stopped.of(instrument, order.told.get(unit, {}))
        order.by_unit.setdefault(unit, []).append(stopped)
        if not stopped.lines:
            stopped.settle()
            return stopped
        older = self._trying.pop(instrument.id, None)
        if older is not None:
            self._keep(older)
            older.cancel()
        task = asyncio.ensure_future(self._until_obeyed(stopped, unit, order))
        self._trying[instrument.id] = task
        task.add_done_callback(functools.partial(self._forget, instrument.id))
        return stopped

    def _forget(self, instrument_id: str, task: asyncio.Task[None]) -> None:
        if self._trying.get(instrument_id) is task:
            del self._trying[instrument_id]

    async def _until_obeyed(self, stopped: Stopped, unit: str, order: _Order) -> None:
        """Try until the instrument has obeyed, or until it is too late to do so unasked.

        One that answers and is not off is tried too, until somebody orders it anew.
        """
        give_up = self.bench.clock.monotonic() + order.try_for_s
        delay_s = FIRST_RETRY_S
        try:
            while True:
                obeyed = await self._try(stopped, order)
                stopped.note(obeyed, self._since_ms(order.began))
                if not obeyed.error:
                    self.bench.store.told_on.clear(unit, order.seen_off(unit))
                    await self.made_safe(stopped.instrument.id)
                    return
                stopped.settle()
                if self.bench.clock.monotonic() >= give_up:
                    log.error("stop_given_up", instrument_id=stopped.instrument.id,
                              error=obeyed.error)  # fmt: skip
                    return
                await self.bench.clock.sleep(delay_s)
                delay_s = min(2 * delay_s, LONGEST_RETRY_S)
                while (
                    not stopped.instrument.is_reachable and self.bench.clock.monotonic() < give_up
                ):
                    # It was taken away: each try would be a row of the record, and reach nobody.
                    await self.bench.clock.sleep(LONGEST_RETRY_S)
                if obeyed.is_heard and self.bench.store.told_on.of(unit) != order.told.get(
                    unit, {}
                ):
                    return
        finally:
            stopped.settle()

    async def _try(self, stopped: Stopped, order: _Order) -> Obeyed:
        def note_taken() -> None:
            stopped.note_taken(self._since_ms(order.began))

        return await obey(
            self.bench.perform,
            SendLines(
                tool=order.tool,
                caller=order.caller,
                action_id=self.bench.new_id(),
                parent_id=order.action_id,
                instrument_id=stopped.instrument.id,
                lines=stopped.lines,
                purpose=Purpose.ABORT,
                cause=order.cause,
                note_taken=note_taken,
            ),
            stopped.proofs,
        )

    def _absent(
        self, order: _Order, stopped: list[Stopped], wrappers: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Units that were told to put something out and are not here to be asked."""
        here = {unit_of_instrument(one.instrument).key for one in stopped}
        ids = {wrapper["instrument_id"] for wrapper in wrappers}
        told_on = self.bench.store.told_on
        return [
            _entry(
                instrument_id,
                StopState.ABSENT,
                unconfirmed=sorted(outputs),
                error="It was told to switch an output on, and is not connected now, so "
                "it cannot be asked.",
            )
            for unit in order.told
            if unit not in here
            and (instrument_id := told_on.instrument_of(unit)) not in ids
            and (outputs := told_on.of(unit))
        ]

    def _since_ms(self, began: float) -> float:
        return round((self.bench.clock.monotonic() - began) * 1000, 1)
