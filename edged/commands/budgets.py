"""Budgets: how often the owner lets a command be sent to a unit, whoever calls.

A write takes its share before its intent goes to disk, which goes there with it; the share is spent
as its first line goes out, and given back where none does. What the ledger says is decided in
``guards.budgets``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from edged.actions.action import ENDS_WORK, Action, Purpose, RunCommand, SendScpi
from edged.commands.target import SendGuard, Target, matches_of, moment
from edged.errors import ErrorCode, Refused
from edged.guards.budgets import HOUR_S, Key, Ledger
from edged.instruments.instrument import Instrument
from edged.profiles.budget import Budget
from edged.profiles.raw import identify
from edged.runs.bench import Bench
from edged.runs.units import unit_of_instrument

Share = tuple[int, ...]
"""What one write has taken of budgets, until it is spent or given back."""
NOTHING: Final[Share] = ()


class BudgetControl:
    """All budgets of the bench. On the loop, but for what ``share`` gives.

    Attributes:
        changes: how often anything was taken, spent or given back.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._ledger = Ledger()
        # What goes out is spent on the thread of its line.
        self._lock = threading.Lock()
        self.changes = 0

    def start(self) -> None:
        """Take over what a former life left, once the database was read."""
        self._ledger.restore(self._bench.store.budgets.left, moment(self._bench.clock))
        self._note(self._bench.store.budgets.left.keys())

    def __call__(self, action: Action, target: Target) -> None:
        """The precondition: raises Refused BUDGET where a call would be over one.

        A run is judged before its first step by all of its steps, and they by what they take.
        """
        instrument = target.instrument
        if instrument is None or not instrument.rules.budget or target.share:
            return
        if action.caller.on_behalf_of:
            return
        for name, count in counted(action, target).items():
            self._check(instrument, name, count)

    def take(self, action: Action, target: Target) -> SendGuard | None:
        """Take a write's share; gives what is asked as each of its lines goes out, by any thread.

        Raises:
            Refused: BUDGET, it is used up.
        """
        instrument = target.instrument
        if instrument is None or not instrument.rules.budget:
            return None
        taken: list[int] = []
        for name, count in counted(action, target).items():
            for nth in range(count):
                share = self._reserve(instrument, name)
                if share is None:
                    self._give_back(tuple(taken))
                    self._check(instrument, name, count - nth)
                    raise self._refused(instrument, name, 0.0)
                taken.append(share)
        if not taken:
            return None
        target.share = whole = tuple(taken)
        unit = unit_of_instrument(instrument).key
        self._note({(unit, name) for name in instrument.rules.budget})
        return lambda: self._spend(whole)

    def over(self, target: Target) -> None:
        """The write has ended: what of its share was not spent is given back."""
        if target.share:
            self._give_back(target.share)
            target.share = NOTHING

    async def keep(self) -> None:
        """For writes whose intent is not on disk: their share is, when this returns."""
        await self._bench.store.budgets.keep()

    def plan(self) -> _Plan:
        """Takes the steps of a run that is about to begin, in their order."""
        return _Plan(self)

    def instrument(self, name: str) -> Instrument:
        """By its id or alias; raises NotFound."""
        return self._bench.pool.get(name)

    def listed(self) -> list[dict[str, Any]]:
        """One entry a budget, for get_status."""
        return [
            self._told(instrument, name, budget)
            for instrument in self._bench.pool.all()
            for name, budget in instrument.rules.budget.items()
        ]

    # The ledger

    def planned(
        self, instrument: Instrument, name: str, times_s: list[float], more: list[float]
    ) -> None:
        """Raise Refused where these times, seconds from now, would be over the budget.

        Args:
            times_s: those that were found to be within it, before ``more``; grows by them.
        """
        budget, now = instrument.rules.budget[name], moment(self._bench.clock)
        with self._lock:
            spent = self._ledger.times_s(_key(instrument, name), now)
        known = [*spent, *times_s]
        for at_s in more:
            wait_s = _wait_s(known, at_s, budget)
            if wait_s > 0:
                raise self._refused_run(instrument, name, len(times_s) + 1, wait_s)
            known.append(at_s)
            times_s.append(at_s)

    def _check(self, instrument: Instrument, name: str, count: int) -> None:
        with self._lock:
            key, now = _key(instrument, name), moment(self._bench.clock)
            wait_s = self._ledger.wait_s(key, instrument.rules.budget[name], now)
        if wait_s > 0:
            raise self._refused(instrument, name, wait_s)
        if count > 1:
            self.planned(instrument, name, [], [0.0] * count)

    def _reserve(self, instrument: Instrument, name: str) -> int | None:
        key = _key(instrument, name)
        with self._lock:
            return self._ledger.reserve(
                key, instrument.rules.budget[name], moment(self._bench.clock)
            )

    def _spend(self, taken: Share) -> None:
        """On the line's thread, after every other guard has let the line pass."""
        with self._lock:
            now = moment(self._bench.clock)
            keys = {self._ledger.spend(share, now) for share in taken}
        self._note(keys - {None})

    def _give_back(self, taken: Share) -> None:
        with self._lock:
            keys = {self._ledger.give_back(share) for share in taken}
        self._note(keys - {None})

    def _note(self, keys: Collection[Key | None]) -> None:
        """Have what is left of these written down; on any thread."""
        if not keys:
            return
        self.changes += 1
        with self._lock:
            left = self._ledger.left()
        self._bench.store.budgets.note({key: left.get(key) for key in keys if key is not None})

    # What people are told

    def _refused(self, instrument: Instrument, name: str, wait_s: float) -> Refused:
        budget = instrument.rules.budget[name]
        with self._lock:
            spent = self._ledger.spent(_key(instrument, name), moment(self._bench.clock))
        if budget.per_hour is not None and spent >= budget.per_hour:
            times = "once" if spent == 1 else f"{spent} times"
            why = f"was sent {times} in the last hour, which is all that the owner allows"
        else:
            why = f"was sent less than {budget.min_interval_s:g} s ago, as the owner does not allow"
        return self._refusal(instrument, name, why, wait_s, spent)

    def _refused_run(self, instrument: Instrument, name: str, nth: int, wait_s: float) -> Refused:
        budget = instrument.rules.budget[name]
        why = f"would be sent too often by this: {budget}, and number {nth} would be over it"
        with self._lock:
            spent = self._ledger.spent(_key(instrument, name), moment(self._bench.clock))
        return self._refusal(instrument, name, why, wait_s, spent)

    def _refusal(
        self, instrument: Instrument, name: str, why: str, wait_s: float, spent: int
    ) -> Refused:
        budget, at_ms = (
            instrument.rules.budget[name],
            self._bench.clock.wall_ms() + round(wait_s * 1000),
        )
        at = datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%H:%M:%S UTC")
        return Refused(
            f"{instrument.called}: {name} {why}. Nothing was sent. It is allowed again at {at}, "
            f"in {wait_s:.0f} s.",
            code=ErrorCode.BUDGET,
            data={
                "command": name,
                "per_hour": budget.per_hour,
                "min_interval_s": budget.min_interval_s,
                "spent": spent,
                "allowed_again_ms": at_ms,
                "retry_after_s": round(wait_s, 1),
            },
            remedy=(
                "Wait until then. The owner's bench file sets the budget, and no other call "
                "avoids it."
            ),
        )

    def _told(self, instrument: Instrument, name: str, budget: Budget) -> dict[str, Any]:
        with self._lock:
            key, now = _key(instrument, name), moment(self._bench.clock)
            spent, wait_s = self._ledger.spent(key, now), self._ledger.wait_s(key, budget, now)
        return {
            "instrument_id": instrument.id,
            "command": name,
            "per_hour": budget.per_hour,
            "min_interval_s": budget.min_interval_s,
            "spent": spent,
            "wait_s": round(wait_s, 1),
        }


class _Plan:
    """See ``runs.ports.StepPlan``."""

    def __init__(self, control: BudgetControl) -> None:
        self._control = control
        self._times_s: dict[Key, list[float]] = {}

    def add(
        self,
        action: RunCommand | SendScpi,
        lines: tuple[str, ...],
        at_s: float,
        *,
        count: int = 1,
        every_s: float = 0.0,
    ) -> None:
        instrument = self._control.instrument(action.instrument_id)
        budgets = instrument.rules.budget
        if not budgets:
            return
        for name, times in counted(action, _target(instrument, action, lines)).items():
            # What is periodic is within its budget for ever if it is for one more than that.
            most = min(count, (budgets[name].per_hour or 1) + 2)
            more = [at_s + nth * every_s for nth in range(most) for _ in range(times)]
            known = self._times_s.setdefault(_key(instrument, name), [])
            self._control.planned(instrument, name, known, more)


def _target(instrument: Instrument, action: Action, lines: tuple[str, ...]) -> Target:
    """A step's, as far as it says what is sent."""
    profile = instrument.profile
    command = None
    if profile is not None and isinstance(action, RunCommand):
        command = profile.commands.get(action.command_name)
    parts = identify(profile, lines[0]) if profile and lines and command is None else ()
    return Target(
        instrument=instrument,
        command=command,
        lines=lines,
        parts=parts,
        is_write=True,
        is_safe=command is not None and command.is_safe,
    )


def counted(action: Action, target: Target) -> Mapping[str, int]:
    """How often what goes out is, or may be, each command that has a budget."""
    instrument = target.instrument
    if instrument is None or not target.is_write or target.is_safe or target.is_let_through:
        return {}
    if not isinstance(action, RunCommand | SendScpi) or action.purpose in ENDS_WORK:
        return {}
    if action.purpose is Purpose.INTERLOCK:
        return {}
    found = Counter(_names(target, instrument))
    return {name: count for name, count in found.items() if name in instrument.rules.budget}


def _names(target: Target, instrument: Instrument) -> Iterator[str]:
    own = target.command.name if target.command is not None else ""
    if own:
        yield own
    for matches in matches_of(target, instrument):
        yield from {match.command.name for match in matches} - {own}


def _key(instrument: Instrument, name: str) -> Key:
    return unit_of_instrument(instrument).key, name


def _wait_s(known: list[float], at_s: float, budget: Budget) -> float:
    """How much later than ``at_s`` it would be allowed, after all that is known; 0: then."""
    wait_s = 0.0
    if budget.min_interval_s is not None and known:
        wait_s = known[-1] + budget.min_interval_s - at_s
    if budget.per_hour is not None and len(known) >= budget.per_hour:
        wait_s = max(wait_s, known[len(known) - budget.per_hour] + HOUR_S - at_s)
    # Steps that keep to the interval exactly are within it.
    return wait_s if wait_s > 1e-9 else 0.0
