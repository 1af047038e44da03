"""One thing that a former life of the daemon left under way, and the visit that makes it safe.

The rule: the lines that make it safe are sent if ``*IDN?`` gives the unit of the journal, and the
journal is young enough or the set-point still is the last journalled step; else somebody else may
have taken over, nothing is sent, and a person has to look.

The instruments are visited directly and not on the command path: nothing is registered yet, and the
lines were judged when the work began. Who visits, and when, is said in ``crash_recovery.py``.

A unit whose dead-man timer the previous run left running is fed at its address until it is
registered, so that a restart switches nothing off. Nothing is sent if another unit answers there.

Source: docs/promises.md section 7.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from edged.actions.caller import Caller
from edged.clock import Clock
from edged.errors import EdgedError, ErrorCode, Failed
from edged.instruments.dead_man import words_of
from edged.profiles.abort import Proof, judge
from edged.profiles.match import parse_idn
from edged.record import record
from edged.runs.run_head import RunHead, RunKind, RunNow
from edged.runs.units import unit_of_identity
from edged.scpi.numbers import number_with_suffix
from edged.store.dead_man import ArmedUnit
from edged.store.journal import JournalEntry, JournalKind

if TYPE_CHECKING:
    from edged.discovery.visit import Guest

FEED_S: Final = 4.0
"""Opening, a name and a question."""
FEEDS: Final = 6
"""So often it is fed in its time while others are visited: after that the daemon is loaded."""


def address_of(armed: ArmedUnit) -> str:
    """Where it answered; empty where nobody knows."""
    address = armed.payload.get("address")
    return address if isinstance(address, str) else ""


async def feed_left(armed: ArmedUnit, visit: Visit) -> str:
    """Feed it; gives why that could not be done, or nothing. Never raises an ``EdgedError``."""
    words, address = words_of(armed.payload), address_of(armed)
    if words is None or not address:
        return "what was written down of it does not say how."
    try:
        async with asyncio.timeout(FEED_S), visit(address, armed.payload) as visitor:
            idn = await visitor.identify()
            if unit_of_identity(parse_idn(idn), armed.instrument_id).key != armed.unit:
                return f"{idn.strip()[:120]!r} answers there now, which is another unit."
            await visitor.feed(words)
    except TimeoutError:
        return f"it did not answer within {FEED_S:g} s."
    except EdgedError as error:
        return str(error)
    return ""


async def keep_fed(
    armed: ArmedUnit, visit: Visit, clock: Clock, first: asyncio.Future[None]
) -> None:
    """Once ``first`` has been there, feed it again and again, until this is cancelled.

    So one unit that hangs, for which all wait, has no other switch off.
    """
    words = words_of(armed.payload)
    await asyncio.wait([first])
    while words is not None:
        await clock.sleep(words.limit_s / FEEDS)
        await feed_left(armed, visit)


VISIT_S: Final = 8.0
"""One visit: opening, three questions, the abort. Visits go on side by side."""
NAMED_BY: Final = ("command", "sequence", "experiment")
"""What in a row of the journal names the work."""
TRIES: Final = 3
PAUSE_S: Final = 0.25
"""A unit that does not say its name is asked so often, so far apart."""


Visit = Callable[[str, Mapping[str, Any]], "AbstractAsyncContextManager[Guest]"]
"""Address and what the journal says besides (how to speak there) → a visit."""


class Clean(enum.StrEnum):
    """What was done."""

    ABORTED = "aborted"
    LEFT_ALONE = "left_alone"


@record(frozen=False)
class LeftWork:
    """One thing that was found, and what became of it."""

    entry: JournalEntry
    done: Clean = Clean.LEFT_ALONE
    reason: str = ""
    at_ms: int = 0
    was_sent: bool = False

    @property
    def needs_attention(self) -> bool:
        """True until somebody has looked."""
        return self.done is Clean.LEFT_ALONE and not self.entry.is_of_run

    @property
    def caller(self) -> Caller:
        """Who began it."""
        return Caller.from_json(self.entry.payload.get("caller"))

    @property
    def error(self) -> str:
        """What a person is told."""
        what = self.entry.kind.value
        began = f"The daemon was killed during this {what}."
        if self.entry.is_of_run:
            return began
        if self.done is Clean.ABORTED:
            stays = ", ".join(map(str, self.entry.payload.get("stays") or ()))
            kept = f" Its owner lets it stay on, so these were left out: {stays}." if stays else ""
            if not self.was_sent and stays:
                return f"{began} Nothing was sent at the next start.{kept}"
            return f"{began} What makes it safe was sent at the next start.{kept}"
        if self.was_sent:
            return f"{began} What makes it safe was sent at the next start: {self.reason}"
        return f"{began} Nothing was sent at the next start: {self.reason}"

    def as_run(self) -> RunNow:
        """The same as a run."""
        entry = self.entry
        head = RunHead(
            kind=RunKind(entry.kind.value),
            # An experiment has a row for itself, and one for each unit.
            run_id=str(entry.payload.get("run", entry.id)),
            instrument_id=entry.instrument_id,
            command_name=next(
                (str(entry.payload[key]) for key in NAMED_BY if entry.payload.get(key)), ""
            ),
            columns=(),
            caller=self.caller,
        )
        # One that had ended, and owed its unit an abort, says so.
        is_interrupted = entry.kind is JournalKind.EXPERIMENT and "status" not in entry.payload
        state = "interrupted" if is_interrupted else "failed"
        return RunNow(head=head, state=state, started_ms=entry.begun_ms, error=self.error)

    def told(self) -> dict[str, Any]:
        """get_sweep_status's result of a sweep that was found."""
        payload: Mapping[str, Any] = self.entry.payload
        last = payload.get("last_step")
        return {
            "sweep_id": self.entry.id,
            "status": "failed",
            "instrument_id": self.entry.instrument_id,
            "alias": payload.get("alias", ""),
            "command_name": payload.get("command", ""),
            "parameter": payload.get("parameter", ""),
            "unit": payload.get("unit", ""),
            "current_value": last,
            "set_value": last,
            "target_value": payload.get("target"),
            "sweep_rate": payload.get("rate"),
            "reason": None,
            "error": self.error,
            "needs_attention": self.needs_attention,
            "abort": {
                "state": "done" if self.done is Clean.ABORTED else "given_up",
                "scpi": list(payload.get("abort", ())),
                "at_ms": self.at_ms or None,
                "tries": 1 if self.was_sent or self.done is Clean.ABORTED else 0,
                "error": self.reason or None,
            },
            "started_ms": self.entry.begun_ms,
            "who": self.caller.who,
        }


async def make_safe(left: LeftWork, visit: Visit, clock: Clock, abort_within_s: float) -> None:
    """Visit it, and note what came of that; never raises an ``EdgedError``."""
    try:
        async with asyncio.timeout(VISIT_S):
            left.reason = await _visited(left, visit, clock, abort_within_s)
    except TimeoutError:
        left.reason = f"{left.entry.instrument_id} did not answer within {VISIT_S:g} s."
    except EdgedError as error:
        left.reason = str(error)
    if not left.reason:
        left.done, left.at_ms = Clean.ABORTED, clock.wall_ms()


async def _visited(left: LeftWork, visit: Visit, clock: Clock, abort_within_s: float) -> str:
    """Why it cannot be believed to be safe; empty when the lines were sent and obeyed."""
    entry = left.entry
    payload = entry.payload
    lines = tuple(line for line in payload.get("abort", ()) if isinstance(line, str))
    stored = payload.get("proofs")
    read = map(Proof.from_json, stored if isinstance(stored, list) else ())
    proofs = [proof for proof in read if proof is not None]
    address = payload.get("address")
    if not lines and payload.get("stays"):
        return ""
    if not lines or not isinstance(address, str):
        return "its journal does not say how."
    async with visit(address, payload) as visitor:
        idn = await _identified(visitor, clock)
        if unit_of_identity(parse_idn(idn), entry.instrument_id).key != entry.unit:
            return f"{idn.strip()[:120]!r} answers there now, which is another unit."
        is_due = is_young(entry, clock.wall_ms(), abort_within_s)
        query = payload.get("setpoint")
        if not is_due and isinstance(query, str):
            is_due = is_still_there(payload, await visitor.ask(query))
        if not is_due:
            return "it was too long ago, and the set-point is not where it was left."
        left.was_sent = True
        answers = await visitor.abort(lines, [proof.question for proof in proofs])
    return judge(proofs, answers).error


async def _identified(visitor: Guest, clock: Clock) -> str:
    """Who answers; asked again where nobody does.

    What was on the line when the daemon died may keep the unit busy, and one that is not asked
    again stays as it is.
    """
    for _ in range(TRIES - 1):
        try:
            return await visitor.identify()
        except Failed as error:
            if error.code not in {ErrorCode.TIMEOUT, ErrorCode.DISCONNECTED}:
                raise
        await clock.sleep(PAUSE_S)
    return await visitor.identify()


def is_young(entry: JournalEntry, now_ms: int, within_s: float) -> bool:
    """Whether the journal is of a moment ago; one from the future (a clock that jumped) is not."""
    return 0 <= now_ms - entry.updated_ms <= within_s * 1000


def is_still_there(payload: Mapping[str, Any], answer: str) -> bool:
    """Whether a set-point is the last journalled step, or where the sweep can have gone from it.

    The journal is written every half second at most: steps may lie between it and the end.
    """
    value = number_with_suffix(answer, str(payload.get("unit", "")))
    numbers = [payload.get(name) for name in ("last_step", "target", "reach", "tolerance")]
    if value is None or not all(isinstance(n, int | float) for n in numbers):
        return False
    last, target, reach, tolerance = (float(n) for n in numbers if n is not None)
    further = min(reach, abs(target - last))
    end = last + further if target >= last else last - further
    return min(last, end) - tolerance <= value <= max(last, end) + tolerance
