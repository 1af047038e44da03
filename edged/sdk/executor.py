"""One wrapper as the engine works it: calls in order, deadlines, and a new worker when one is lost.

Calls run one after the other: most vendors' libraries allow nothing else. A safe one goes before
all that wait, and does not wait long for one that runs: it ends the worker, and the next one runs
it first. A worker that is lost is started anew at once, and the more slowly the more often; whoever
calls meanwhile does not wait longer than a second for that.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import structlog

from edged.actions.cause import ENGINE_STOPPED, Cause
from edged.clock import Clock
from edged.errors import Conflict, EdgedError, ErrorCode, Failed, Invalid
from edged.record import part, record
from edged.sdk.failures import (
    checked,
    crashed,
    ended_for,
    failure_of,
    overdue,
    shown,
    unloadable,
)
from edged.sdk.process import WorkerDied, WorkerProcess
from edged.sdk.specs import SpecSource, UsbId, WrapperSpec, read_specs, read_usb_ids, wrapper_id
from edged.sdk.wrapper import stamp_of

MOST_WAITING: Final = 32
BEGIN_WITHIN_S: Final = 60.0
"""How long a call may wait behind others."""
PREEMPT_AFTER_S: Final = 0.25
"""What a running call may still take once a safe one has come."""
SOONEST_START_S: Final = 1.0
LONGEST_REST_S: Final = 60.0
LOOK_AT_FILE_S: Final = 1.0


class WrapperState(enum.StrEnum):
    """How a wrapper is. BROKEN: its file must be corrected; RESTARTING: its worker was lost."""

    STARTING = "starting"
    READY = "ready"
    LIBRARY_MISSING = "library_missing"
    BROKEN = "broken"
    RESTARTING = "restarting"
    ENDED = "ended"


@record(frozen=False, eq=False)
class _Call:
    spec: WrapperSpec
    arguments: Mapping[str, Any]
    done: asyncio.Future[Any]
    guard: Callable[[], None] | None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    cause: Cause | None = None
    ended_for: Cause | None = None

    def settle(self, value: object) -> None:
        """Give the caller a value, or an error; of one that went away nothing is left."""
        self.begun.set()
        if self.done.done():
            return
        if isinstance(value, EdgedError):
            self.done.set_exception(value)
        else:
            self.done.set_result(value)


@part
class WrapperExecutor:
    """One wrapper.

    Attributes:
        stem, path: its name and file.
        make: makes a worker, given what to call when it has ended by itself.
        clock: for rests.
        on_change: called when its tools or its state have changed.
        specs: its tools, those of the last time that it could be loaded.
        digest: changes with them.
        last_loss: why a worker was lost the last time.
        has_answered: a call has gone well in this life of the daemon, so a device was there.
        usb_ids: by what its device is known on USB; empty where it does not say.
        is_seen: its device was seen, or has to be taken for seen: its owner named it, or it does
            not say by what it could be.
    """

    stem: str
    path: Path
    make: Callable[[Callable[[], None]], WorkerProcess]
    clock: Clock
    on_change: Callable[[], None]
    is_seen: bool = True
    state: WrapperState = WrapperState.STARTING
    _log: Any = field(init=False)
    specs: tuple[WrapperSpec, ...] = ()
    digest: str = ""
    problem: str = ""
    remedy: str = ""
    restarts: int = 0
    last_loss: str = ""
    has_answered: bool = False
    usb_ids: frozenset[UsbId] = field(default_factory=frozenset)
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: list[_Call] = field(default_factory=list)
    _running: _Call | None = None
    _worker: WorkerProcess | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _losses: int = 0
    _stamp: object = None
    _life: asyncio.Task[None] | None = None
    _hurry: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._log = structlog.get_logger("edged.sdk").bind(wrapper=self.stem)

    @property
    def pid(self) -> int:
        """Of its worker, 0 when there is none."""
        return self._worker.pid if self._worker is not None else 0

    @property
    def running(self) -> str:
        """Name of the tool that runs, else empty."""
        return self._running.spec.name if self._running is not None else ""

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return len(self._waiting)

    def start(self) -> None:
        """Start the first worker; returns at once."""
        self._life = asyncio.create_task(self._live(), name=f"sdk {self.stem}")

    async def stop(self) -> None:
        """End the worker; it may close what it holds."""
        if self._life is None:
            return
        life, self._life = self._life, None
        self._enter(WrapperState.ENDED, "The daemon stops.")
        self._drop_waiting(ended_for(ENGINE_STOPPED))
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)

    async def run_tool(
        self,
        spec: WrapperSpec,
        arguments: Mapping[str, Any],
        guard: Callable[[], None] | None = None,
        cause: Cause | None = None,
    ) -> Any:
        """Run one function in the worker; whoever stops waiting for it does not stop it.

        Args:
            guard: asked when its turn has come; raises the ``EdgedError`` that it ends by then.
            cause: the cause that an interrupted call reports; by default the name of this one.

        Raises:
            Failed: it failed, crashed, took too long; or the wrapper cannot be used.
            Conflict: BUSY, too many wait, or what runs does not end.
        """
        if self.state in (WrapperState.BROKEN, WrapperState.ENDED):
            raise self._unusable()
        if len(self._waiting) >= MOST_WAITING and not spec.is_safe:
            raise self._busy(f"{len(self._waiting)} calls wait for it already")
        done = asyncio.get_running_loop().create_future()
        call = _Call(spec=spec, arguments=arguments, done=done, guard=guard, cause=cause)
        self._enqueue(call)
        try:
            await self._its_turn(call)
            return await call.done
        finally:
            if call in self._waiting:
                self._waiting.remove(call)

    async def _its_turn(self, call: _Call) -> None:
        try:
            async with asyncio.timeout(BEGIN_WITHIN_S):
                await call.begun.wait()
        except TimeoutError:
            # One that has begun in this very moment is awaited all the same.
            if not call.begun.is_set():
                raise self._busy(f"{self.running or 'what runs'} did not end") from None

    def stop_calls(self) -> list[str]:
        """Withdraw what waits and end what runs, safe ones aside; returns their tools' names."""
        cause = Cause(f"by lockout of {wrapper_id(self.stem)}")
        ended = [call for call in self._waiting if not call.spec.is_safe]
        for call in ended:
            self._waiting.remove(call)
            call.settle(ended_for(cause))
        if self._running is not None and not self._running.spec.is_safe:
            ended.append(self._running)
            self._preempt(cause)
        return [f"{self.stem}__{call.spec.name}" for call in ended]

    def _enqueue(self, call: _Call) -> None:
        if not call.spec.is_safe:
            self._waiting.append(call)
        else:
            place = sum(waiting.spec.is_safe for waiting in self._waiting)
            self._waiting.insert(place, call)
            self._make_room(call.cause or Cause(f"by {self.stem}__{call.spec.name}"))
        self._wake.set()

    def _make_room(self, cause: Cause) -> None:
        """A safe call has come: what runs gets a moment to end."""
        if self._running is not None and not self._running.spec.is_safe and self._hurry is None:
            running = self._running
            loop = asyncio.get_running_loop()
            self._hurry = loop.call_later(PREEMPT_AFTER_S, self._make_way, running, cause)

    def _make_way(self, running: _Call, cause: Cause) -> None:
        self._hurry = None
        if self._running is running:
            self._preempt(cause)

    def _preempt(self, cause: Cause) -> None:
        if self._running is not None and self._worker is not None:
            self._running.ended_for = cause
            self._worker.kill()

    async def _live(self) -> None:
        """Workers, one after the other, until it is stopped."""
        while True:
            worker = self._worker = self.make(self._wake.set)
            try:
                if await self._bring_up(worker):
                    await self._serve(worker)
            except Exception as bug:  # noqa: BLE001 - the top of a task: whatever a worker says
                self._log.error("sdk_worker_not_understood", exc_info=bug)
                self._lose(f"What the worker of {self.stem} said could not be understood.")
            finally:
                await worker.end()
                self._worker = None
                self.looked.set()
            await self._rest()
            self.restarts += 1

    async def _bring_up(self, worker: WorkerProcess) -> bool:
        """Start and load; returns whether it can be asked."""
        try:
            message = await worker.start()
            self._stamp = message.get("stamp")
            if "broken" in message:
                raise unloadable(message["broken"], self.path)
            loaded = message["loaded"]
            self._read(loaded)
        except WorkerDied as died:
            self._lose(f"The SDK wrapper {self.stem} {died} while it was loaded.")
            return False
        except Invalid as invalid:
            self._enter(WrapperState.BROKEN, invalid.message, invalid.remedy)
            self._drop_waiting(self._unusable())
            return False
        missing = loaded.get("missing")
        if missing:
            self._enter(
                WrapperState.LIBRARY_MISSING, shown(missing["message"]), shown(missing["remedy"])
            )
        else:
            self._enter(WrapperState.READY)
        self.looked.set()
        return True

    def _read(self, loaded: Mapping[str, Any]) -> None:
        source = SpecSource(
            stem=self.stem,
            path=str(self.path),
            line=loaded["line"],
            lines=loaded["lines"],
            methods=loaded["methods"],
        )
        specs = read_specs(loaded["specs"], source)
        digest = specs[0].digest if specs else ""
        self.usb_ids = read_usb_ids(loaded.get("usb_ids"))
        if not self.usb_ids:
            # By nothing could it be seen.
            self.is_seen = True
        if digest != self.digest:
            self.specs, self.digest = specs, digest
            self.on_change()

    def note_device(self) -> None:
        """Its device is, or was, there: its tools are listed from now on."""
        if not self.is_seen:
            self.is_seen = True
            self.on_change()

    async def _serve(self, worker: WorkerProcess) -> None:
        """Run calls until the worker is gone."""
        while not worker.is_dead:
            if self._waiting:
                call = self._running = self._waiting.pop(0)
                try:
                    if not await self._run(worker, call):
                        return
                finally:
                    self._running = None
                    if self._hurry is not None:
                        self._hurry.cancel()
                        self._hurry = None
                    # Only at the engine's stop or by our own mistake: all else has settled it.
                    is_ended = self.state is WrapperState.ENDED
                    call.settle(ended_for(ENGINE_STOPPED) if is_ended else self._unusable())
            else:
                self._wake.clear()
                if not worker.is_dead:
                    await self._wake.wait()
        self._lose(f"The worker of the SDK wrapper {self.stem} ended while nothing ran.")

    async def _run(self, worker: WorkerProcess, call: _Call) -> bool:
        """Run one call; returns whether the worker can be asked again."""
        spec = call.spec
        call.begun.set()
        try:
            if call.guard is not None:
                call.guard()
        except EdgedError as recalled:
            call.settle(recalled)
            return True
        try:
            answer = await worker.ask(spec.method, call.arguments, spec.timeout_s)
        except TimeoutError:
            worker.kill()
            call.settle(overdue(spec))
            self._lose(f"{self.stem}.{spec.name} took over {spec.timeout_s:g} s.")
            return False
        except WorkerDied as died:
            if call.ended_for:
                call.settle(ended_for(call.ended_for))
                self._enter(WrapperState.RESTARTING, call.ended_for.sentence)
            else:
                call.settle(crashed(spec, str(died)))
                self._lose(f"The SDK wrapper {self.stem} {died} while {spec.name} ran.")
            return False
        self._note_answer(call, answer)
        return True

    def _note_answer(self, call: _Call, answer: Mapping[str, Any]) -> None:
        self._losses = 0
        try:
            if "error" in answer:
                raise failure_of(call.spec, answer["error"])
            call.settle(checked(call.spec, answer.get("value")))
        except Failed as failed:
            call.settle(failed)
            return
        self.has_answered = True
        self.note_device()
        if self.state is not WrapperState.READY:
            self._enter(WrapperState.READY)

    def _lose(self, why: str) -> None:
        self._losses += 1
        self.last_loss = why
        self._enter(
            WrapperState.RESTARTING, why, "It is restarted; its lines in the log may say why."
        )

    async def _rest(self) -> None:
        """Before the next worker: nothing the first time, then longer and longer."""
        if self.state is WrapperState.BROKEN:
            await self._file_changed()
            return
        if self._losses <= 1:
            return
        rest = min(LONGEST_REST_S, SOONEST_START_S * 2 ** min(self._losses - 2, 10))
        until = self.clock.monotonic() + rest
        soonest = self.clock.monotonic() + min(SOONEST_START_S, rest)
        self._log.warning("sdk_worker_rests", seconds=rest, losses=self._losses)
        while (now := self.clock.monotonic()) < until:
            if any(call.spec.is_safe for call in self._waiting):
                return
            if self._waiting and now >= soonest:
                return
            await self.clock.sleep(min(0.05, until - now))

    async def _file_changed(self) -> None:
        """Return once the file is another than the one that could not be used."""
        while await asyncio.to_thread(stamp_of, self.path) == self._stamp:
            await self.clock.sleep(LOOK_AT_FILE_S)

    def _enter(self, state: WrapperState, problem: str = "", remedy: str = "") -> None:
        if (state, problem) == (self.state, self.problem):
            return
        self.state, self.problem, self.remedy = state, problem, remedy
        tell = self._log.warning if problem and state is not WrapperState.ENDED else self._log.info
        tell("sdk_wrapper", state=state.value, problem=problem, tools=len(self.specs))
        self.on_change()

    def _drop_waiting(self, error: EdgedError) -> None:
        for call in self._waiting:
            call.settle(error)
        self._waiting.clear()

    def _unusable(self) -> Failed:
        return Failed(
            f"The SDK wrapper {self.stem} cannot be used: {self.problem or self.state.value}",
            code=ErrorCode.WRAPPER_FAILED,
            data={"wrapper": self.stem, "state": self.state.value},
            remedy=self.remedy or "get_status (sdk) says how it is.",
        )

    def _busy(self, why: str) -> Conflict:
        return Conflict(
            f"The SDK wrapper {self.stem} is busy: {why}.",
            code=ErrorCode.BUSY,
            data={"wrapper": self.stem, "running": self.running},
            remedy="Call again later.",
        )
