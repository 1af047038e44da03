"""What goes on beside the steps of a run: logs and watches, each at its own interval."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import structlog

from edged.errors import EdgedError, ErrorCode, Failed
from edged.experiments.model import Log, Watch, WatchElse
from edged.profiles.expr import compile_expression
from edged.profiles.model import Target
from edged.runs.bench import Bench
from edged.runs.experiments.bounds import hours_of
from edged.runs.experiments.run import ExperimentRun
from edged.runs.run import Ending
from edged.runs.states import OVER, RunEvent
from edged.yaml.tree import Scalar

log = structlog.get_logger("edged.experiments")


class Beside:
    """The logs and watches of one run.

    Args:
        look: reads a target.
        logged: takes a value of a log.
        pause: pauses the run for a reason; ``go_on`` ends that.
    """

    def __init__(
        self,
        bench: Bench,
        run: ExperimentRun,
        *,
        look: Callable[[Target], Awaitable[Scalar | None]],
        logged: Callable[[str, Scalar], None],
        pause: Callable[[str], None],
        go_on: Callable[[], None],
    ) -> None:
        self._bench = bench
        self._run = run
        self._look = look
        self._logged = logged
        self._pause = pause
        self._go_on = go_on

    @contextlib.asynccontextmanager
    async def while_running(self) -> AsyncIterator[None]:
        """They go on while this context is open."""
        plan = self._run.checked.experiment
        work = [self._log(name, what) for name, what in plan.logs.items()]
        work += [self._watch(watch) for watch in plan.watches]
        work.append(self._bound_run(hours_of(self._run.checked)))
        name = f"{self._run.run_id}-beside"
        tasks = [asyncio.create_task(self._guarded(one), name=name) for one in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A mistake of edged in here ends the run: nobody would watch it any more."""
        try:
            await work
        except Exception:
            log.exception("experiment_fault", run_id=self._run.run_id)
            said = f"edged made a mistake; its log has it under {self._run.run_id}."
            failure = Failed(said, code=ErrorCode.INTERNAL)
            self._run.end(Ending(event=RunEvent.FAILURE, error=said, failure=failure))

    async def _log(self, name: str, what: Log) -> None:
        clock = self._bench.clock
        due = clock.monotonic()
        while True:
            value = await self._read(what.command)
            if value is not None:
                self._logged(name, value)
            # By what was due, so that the time of the readings does not add up over a night.
            missed = max(0, int((clock.monotonic() - due) / what.every_s))
            due += (missed + 1) * what.every_s
            await clock.sleep(due - clock.monotonic())

    async def _watch(self, watch: Watch) -> None:
        good_since: float | None = None
        while True:
            value = await self._read(watch.read)
            now = self._bench.clock.monotonic()
            # A watch without a reading counts as bad: nobody looks any more.
            is_good = value is not None and self._holds(watch.must, value)
            said = f"watch {watch.read.text}: {watch.must} does not hold"
            if not is_good and watch.otherwise is WatchElse.ABORT:
                read = "no reading came" if value is None else f"it was {value}"
                self._run.end(Ending(event=RunEvent.STOP, reason=f"{said}: {read}"))
                return
            if not is_good and watch.otherwise is WatchElse.NOTE:
                self._run.note(said)
            if not is_good and watch.otherwise is WatchElse.PAUSE:
                self._pause(said)
            if watch.again and not self._run.going.is_set() and self._run.pause_reason == said:
                is_again = value is not None and self._holds(watch.again, value)
                good_since = (good_since or now) if is_again else None
                if good_since is not None and now - good_since >= watch.for_s:
                    self._go_on()
                    good_since = None
            await self._bench.clock.sleep(watch.every_s)

    async def _read(self, target: Target) -> Scalar | None:
        try:
            return await self._look(target)
        except EdgedError:
            return None

    async def _bound_run(self, hours: float) -> None:
        """The plan's own bound."""
        due = self._run.began + hours * 3_600
        await self._bench.clock.sleep(due - self._bench.clock.monotonic())
        if self._run.state not in OVER:
            reason = f"it took longer than its at_most_h of {hours:g}"
            self._run.end(Ending(event=RunEvent.STOP, reason=reason))

    def _holds(self, condition: str, value: Scalar) -> bool:
        known = {name: one for name, one in self._run.names.items() if one is not None}
        try:
            return compile_expression(condition).is_true({**known, "value": value})
        except EdgedError:
            return False
