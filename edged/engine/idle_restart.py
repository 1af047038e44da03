"""A restart that waits until nothing is under way: after an upgrade, with the bench at work.

Nobody is kept from beginning anything meanwhile, so it may never come to it: then it is given up at
its deadline, and told. The engine ends by ``ExitStatus.RESTART``, by which the supervisor knows
that it is to begin anew itself, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog

from edged.clock import Clock
from edged.engine.long_work import LongWork
from edged.errors import Conflict
from edged.record import part
from edged.runs.run_head import RunKind

if TYPE_CHECKING:
    from edged.surfaces.rpc.own_methods import OwnMethod

log = structlog.get_logger("edged.restart")

LOOK_EVERY_S: Final = 0.1
WITHIN_S: Final = 3_600
Params = Mapping[str, Any]


def under_way(work: LongWork, calls: int) -> list[str]:
    """What a restart would break off, a clause each; a sweep that holds an output is at work.

    Args:
        calls: how many are in flight.
    """
    found = [
        f"sweep {sweep['sweep_id']} on {sweep['instrument_id']} ({sweep['status']})"
        for sweep in work.sweeps.active()
        if sweep["status"] in {"running", "holding"} or _owes_abort(sweep)
    ]
    found += [
        f"stream {stream['stream_id']} on {stream['instrument_id']}"
        for stream in work.streams.running()
    ]
    found += [
        f"sequence {run['sequence_name']} on {run['instrument_id']}"
        for run in work.registry.running(RunKind.SEQUENCE)
    ]
    found += [
        f"experiment {run['experiment']}" for run in work.registry.running(RunKind.EXPERIMENT)
    ]
    # Streams and sequences are calls, too, unless they are detached.
    if not found and calls:
        found.append(f"{calls} calls")
    return found


def _owes_abort(sweep: Mapping[str, Any]) -> bool:
    return bool((sweep.get("abort") or {}).get("state") == "pending")


@part
class IdleRestart:
    """Waits for an idle moment when it is asked to, and ends the engine in it.

    Attributes:
        work: what may be under way.
        calls: gives how many calls are in flight.
        is_supervised: whether somebody starts the engine again.
        end: ends the engine so that it is started again.
    """

    clock: Clock
    work: LongWork
    calls: Callable[[], int]
    is_supervised: bool
    end: Callable[[], None]
    _waiting: asyncio.Task[None] | None = None
    _until_s: float = 0.0
    _state: str = "none"

    def methods(self) -> dict[str, OwnMethod]:
        """The RPC interface's methods for it."""
        return {
            "restart.begin": self._begin,
            "restart.status": self._status,
            "restart.cancel": self._cancel,
        }

    async def stop(self) -> None:
        """The engine ends; nothing is waited for any more."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)

    async def _begin(self, params: Params) -> Any:
        if not self.is_supervised:
            raise Conflict(
                "The engine runs without a supervisor, so nothing would start it again.",
                remedy="Stop it and start it again yourself, or run `edged supervisor`.",
            )
        self._until_s = self.clock.monotonic() + params.get("within_s", WITHIN_S)
        if self._waiting is None or self._waiting.done():
            self._state = "waiting"
            self._waiting = asyncio.create_task(self._wait(), name="restart when idle")
        return self._told()

    async def _status(self, params: Params) -> Any:
        """As soon as it is another than it was, or after a while."""
        before, until_s = self._told(), self.clock.monotonic() + params.get("wait_s", 0)
        while self._is_as(before) and self.clock.monotonic() < until_s:
            await self.clock.sleep(LOOK_EVERY_S)
        return self._told()

    async def _cancel(self, _params: Params) -> Any:
        await self.stop()
        if self._state == "waiting":
            self._state = "cancelled"
        return self._told()

    async def _wait(self) -> None:
        while found := under_way(self.work, self.calls()):
            if self.clock.monotonic() >= self._until_s:
                self._state = "given_up"
                log.warning("restart_given_up", under_way=found)
                return
            await self.clock.sleep(LOOK_EVERY_S)
        self._state = "restarting"
        log.info("restart_begins")
        self.end()

    def _is_as(self, before: Mapping[str, Any]) -> bool:
        now = self._told()
        return (now["state"], now["under_way"]) == (before["state"], before["under_way"])

    def _told(self) -> dict[str, Any]:
        left_s = max(0.0, self._until_s - self.clock.monotonic())
        return {
            "state": self._state,
            "under_way": under_way(self.work, self.calls()),
            "left_s": round(left_s, 1) if self._state == "waiting" else 0.0,
        }
