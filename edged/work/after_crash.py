"""What is done, before any scan, about work that a former life of the daemon left under way.

The rule: the lines that make it safe are sent if ``*IDN?`` gives the unit of the journal, and the
journal is young enough or the set-point still is the last journalled step; else somebody else may
have taken over, nothing is sent, and a person has to look.

The instruments are visited directly and not on the command path: nothing is registered yet, and the
lines were judged when the work began. The audit is told all the same.

Source: SPEC.md section 7, "daemon died".
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog

from edged.clock import Clock
from edged.errors import EdgedError
from edged.profiles.match import parse_idn
from edged.profiles.suffixes import number_with_suffix
from edged.store.capability import unit_of
from edged.store.journal import JournalEntry, JournalKind
from edged.work.journalling import Journalling

__all__ = ["AfterCrash", "Left", "Visitor", "is_still_there", "is_young"]

VISIT_S: Final = 8.0
"""One visit: opening, three questions, the abort. Visits go on side by side."""

log = structlog.get_logger("edged.after_crash")


class Visitor(Protocol):
    """Somebody who talks to an address at which nobody is registered yet."""

    async def identify(self) -> str:
        """The answer to ``*IDN?``; raises Failed."""
        ...

    async def ask(self, query: str) -> str:
        """The answer to a query; raises Failed."""
        ...

    async def abort(self, lines: tuple[str, ...]) -> None:
        """Send lines and hear whether they were taken; raises Failed."""
        ...


Visit = Callable[[str, str], AbstractAsyncContextManager[Visitor]]
"""Address and profile key → a visit."""


class Clean(enum.StrEnum):
    """What was done."""

    ABORTED = "aborted"
    LEFT_ALONE = "left_alone"


@dataclass(slots=True, kw_only=True)
class Left:
    """One thing that was found, and what became of it."""

    entry: JournalEntry
    done: Clean = Clean.LEFT_ALONE
    reason: str = ""
    at_ms: int = 0

    @property
    def needs_attention(self) -> bool:
        """True until somebody has looked."""
        return self.done is Clean.LEFT_ALONE

    @property
    def error(self) -> str:
        """What a person is told."""
        what = "sweep" if self.entry.kind is JournalKind.SWEEP else "sequence"
        began = f"The daemon died during this {what}."
        if self.done is Clean.ABORTED:
            return f"{began} What makes it safe was sent at the next start."
        return f"{began} Nothing was sent at the next start: {self.reason}"

    def told(self) -> dict[str, Any]:
        """get_sweep_status's result of a sweep that was found."""
        payload: Mapping[str, Any] = self.entry.payload
        last = payload.get("last_step")
        return {
            "sweep_id": self.entry.id,
            "status": "failed",
            "instrument_id": self.entry.instrument_id,
            "command_name": payload.get("command", ""),
            "parameter": payload.get("parameter", ""),
            "unit": payload.get("unit", ""),
            "current_value": last,
            "set_value": last,
            "target_value": payload.get("target"),
            "sweep_rate": payload.get("rate"),
            "error": self.error,
            "needs_attention": self.needs_attention,
            "abort": {
                "state": "done" if self.done is Clean.ABORTED else "given_up",
                "scpi": list(payload.get("abort", ())),
                "at_ms": self.at_ms or None,
                "tries": 1 if self.done is Clean.ABORTED else 0,
                "error": self.reason or None,
            },
            "started_ms": self.entry.begun_ms,
        }


@dataclass(slots=True, kw_only=True)
class AfterCrash:
    """Cleans up once, at the start of the daemon.

    Attributes:
        abort_within_s: ABORT_AFTER_CRASH_SEC: how old a journal may be to be acted on unasked.
        tell: writes an event into the audit: its name, a sentence, the instrument.
    """

    journal: Journalling
    visit: Visit
    tell: Callable[[str, str, str], None]
    clock: Clock
    abort_within_s: float
    found: list[Left] = field(default_factory=list)

    async def clean_up(self) -> None:
        """Visit what was left, all at once; never raises an ``EdgedError``."""
        self.found = [Left(entry=entry) for entry in self.journal.unfinished()]
        await asyncio.gather(*map(self._clean_up, self.found))

    async def made_safe(self, instrument_id: str) -> None:
        """A person has had this instrument made safe: what it was left with is done."""
        for left in self.found:
            if left.needs_attention and left.entry.instrument_id == instrument_id:
                left.done, left.at_ms = Clean.ABORTED, self.clock.wall_ms()
                await self.journal.finish(left.entry.id)

    async def _clean_up(self, left: Left) -> None:
        entry = left.entry
        try:
            async with asyncio.timeout(VISIT_S):
                left.reason = await self._visited(left)
        except TimeoutError:
            left.reason = f"{entry.instrument_id} did not answer within {VISIT_S:g} s."
        except EdgedError as error:
            left.reason = str(error)
        if left.reason:
            log.error("work_left_alone", id=entry.id, reason=left.reason)
        else:
            left.done, left.at_ms = Clean.ABORTED, self.clock.wall_ms()
            log.warning("work_cleaned_up", id=entry.id, scpi=entry.payload.get("abort"))
            await self.journal.finish(entry.id)
        self.tell(
            f"{entry.kind.value}.after_crash",
            f"{entry.id}: {left.error}"[:500],
            entry.instrument_id,
        )

    async def _visited(self, left: Left) -> str:
        """Why nothing was sent; empty when the lines were."""
        entry, payload = left.entry, left.entry.payload
        lines = tuple(line for line in payload.get("abort", ()) if isinstance(line, str))
        address = payload.get("address")
        if not lines or not isinstance(address, str):
            return "its journal does not say how."
        async with self.visit(address, str(payload.get("profile", ""))) as visitor:
            idn = await visitor.identify()
            if _unit_key(idn, entry.instrument_id) != entry.unit:
                return f"{idn.strip()[:120]!r} answers there now, which is another unit."
            is_due = is_young(entry, self.clock.wall_ms(), self.abort_within_s)
            query = payload.get("setpoint")
            if not is_due and isinstance(query, str):
                is_due = is_still_there(payload, await visitor.ask(query))
            if not is_due:
                return "it was too long ago, and the set-point is not where it was left."
            await visitor.abort(lines)
        return ""


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


def _unit_key(idn: str, instrument_id: str) -> str:
    identity = parse_idn(idn)
    return unit_of(
        manufacturer=identity.manufacturer,
        model=identity.model,
        serial=identity.serial,
        firmware=identity.firmware,
        instrument_id=instrument_id,
    ).key
