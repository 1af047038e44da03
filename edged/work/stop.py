"""Stop all: every line at once, and what each instrument confirmed.

The ramps, streams and sequences are told to end, and in the same moment every instrument gets its
abort as a job that pre-empts whatever is on its line; nothing waits for anything else, so one
instrument that hangs delays no other. What can be asked is asked afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from edged.actions.action import Purpose, SendLines, StopAll
from edged.actions.caller import Caller
from edged.actions.outcome import Outcome
from edged.clock import Clock
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.profiles.answers import clean_text
from edged.work.abort_proof import Proof, proofs_of
from edged.work.ports import NewId, Perform
from edged.work.sweeps import SweepBook

__all__ = ["BenchStop", "EndWork", "StopOthers"]

REASON: Final = "Everything was stopped."
WORK_ENDS_WITHIN_S: Final = 6.0
"""``finally`` steps have 5 s by default; what takes longer is not waited for."""

EndWork = Callable[[], Awaitable[object]]
"""Ends one kind of long work that is not a sweep; returns when that is done."""

StopOthers = Callable[[Caller, str, str], Awaitable[list[dict[str, Any]]]]
"""Makes safe what is no instrument; see ``stop_wrappers``."""


def _nothing_waits() -> None:
    return


async def _no_others(_caller: Caller, _parent_id: str, _tool: str) -> list[dict[str, Any]]:
    return []


log = structlog.get_logger("edged.stop")


@dataclass(slots=True, kw_only=True)
class _Stopped:
    """What became of one instrument."""

    instrument: Instrument
    lines: tuple[str, ...]
    began: float
    state: str = "nothing_to_send"
    error: str = ""
    taken_ms: float | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    confirmed_ms: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "instrument_id": self.instrument.id,
            "alias": self.instrument.alias,
            "state": self.state,
            "scpi": list(self.lines),
            "taken_after_ms": self.taken_ms,
            "confirmed": self.asked,
            "confirmed_after_ms": self.confirmed_ms,
            "error": self.error or None,
        }


class BenchStop:
    """Makes the whole bench safe.

    Args:
        pool: every instrument.
        sweeps: ends those, each with its own abort.
        end_work: ends streams and sequences.
        perform: the command path.
        new_id: makes action ids.
        clock: for how long things took.
        made_safe: told of each instrument that obeyed its abort.
        stop_others: makes SDK wrappers safe.
        recall: from its call on nothing that was admitted before is begun.
    """

    def __init__(
        self,
        *,
        pool: InstrumentPool,
        sweeps: SweepBook,
        end_work: tuple[EndWork, ...],
        perform: Perform,
        new_id: NewId,
        clock: Clock,
        made_safe: Callable[[str], Awaitable[None]],
        stop_others: StopOthers = _no_others,
        recall: Callable[[], None] = _nothing_waits,
    ) -> None:
        self._pool = pool
        self._sweeps = sweeps
        self._end_work = end_work
        self._perform = perform
        self._new_id = new_id
        self._clock = clock
        self._made_safe = made_safe
        self._stop_others = stop_others
        self._recall = recall

    async def stop_all(self, action: StopAll) -> dict[str, Any]:
        """End everything; returns when each instrument has answered or cannot.

        Returns:
            {instruments, wrappers, sweeps, is_confirmed, took_ms}: ``state`` of one is confirmed
            (it said so itself), taken (it took the lines without an error, and there is nothing to
            ask), failed, or nothing_to_send (no abort is known for it).
        """
        # Once begun it goes on, whoever asked for it: a client that gives up waiting stops nothing.
        return await asyncio.shield(
            asyncio.ensure_future(self._stop(action.caller, action.action_id, action.tool))
        )

    async def _stop(self, caller: Caller, action_id: str, tool: str) -> dict[str, Any]:
        began = self._clock.monotonic()
        self._recall()
        nested = caller.nested(tool=tool, scope="", on_behalf_of=f"stop-{action_id}")
        ends = [asyncio.ensure_future(end()) for end in self._end_work]
        sweeps = asyncio.ensure_future(self._sweeps.stop_all(REASON))
        instruments = [
            asyncio.ensure_future(self._make_safe(i, nested, action_id, tool, began))
            for i in self._pool.all()
        ]
        others = asyncio.ensure_future(self._stop_others(nested, action_id, tool))
        stopped = await asyncio.gather(*instruments)
        wrappers = await others
        told = await sweeps
        if ends:
            await asyncio.wait(ends, timeout=WORK_ENDS_WITHIN_S)
        failed = [s.instrument.id for s in stopped if s.state == "failed"]
        failed += [w["instrument_id"] for w in wrappers if w["state"] == "failed"]
        for one in stopped:
            if one.state in {"confirmed", "taken"}:
                await self._made_safe(one.instrument.id)
        log.warning("bench_stopped", instruments=len(stopped), sweeps=len(told), failed=failed)
        return {
            "is_confirmed": not failed and all(s["status"] == "stopped" for s in told),
            "took_ms": self._since_ms(began),
            "instruments": [s.to_json() for s in stopped],
            "wrappers": wrappers,
            "sweeps": [
                {name: s[name] for name in ("sweep_id", "instrument_id", "status", "error")}
                for s in told
            ],
        }

    async def _make_safe(
        self, instrument: Instrument, caller: Caller, parent_id: str, tool: str, began: float
    ) -> _Stopped:
        profile = instrument.safe_by
        lines = profile.abort if profile is not None else ()
        stopped = _Stopped(instrument=instrument, lines=lines, began=began)
        if not lines or profile is None:
            return stopped

        def send(what: tuple[str, ...], purpose: Purpose) -> Awaitable[Outcome]:
            return self._perform(
                SendLines(
                    tool=tool,
                    caller=caller,
                    action_id=self._new_id(),
                    parent_id=parent_id,
                    instrument_id=instrument.id,
                    lines=what,
                    purpose=purpose,
                )
            )

        outcome = await send(lines, Purpose.ABORT)
        if outcome.error is not None:
            stopped.state, stopped.error = "failed", str(outcome.error)
            return stopped
        stopped.state, stopped.taken_ms = "taken", self._since_ms(began)
        for proof in proofs_of(profile, lines):
            self._judge(stopped, proof, await send((proof.query,), Purpose.PROOF))
        if stopped.asked and stopped.state == "taken":
            stopped.state, stopped.confirmed_ms = "confirmed", self._since_ms(began)
        return stopped

    def _judge(self, stopped: _Stopped, proof: Proof, outcome: Outcome) -> None:
        if outcome.error is not None:
            stopped.state, stopped.error = "failed", str(outcome.error)
            return
        answer = str(outcome.data["answer"] or "")
        is_so = proof.is_given_by(answer)
        stopped.asked.append(
            {"query": proof.query, "answer": clean_text(answer), "is_as_wanted": is_so}
        )
        if not is_so:
            stopped.state = "failed"
            stopped.error = f"{proof.query} answers {clean_text(answer)!r}, not {proof.wanted!r}."

    def _since_ms(self, began: float) -> float:
        return round((self._clock.monotonic() - began) * 1000, 1)
