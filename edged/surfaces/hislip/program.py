"""One program that speaks HiSLIP: its two connections, and its VISA session.

Three steps, in this order: what comes on a connection goes to ``exchange``, what is to be said is
said, what the program asks is done by its session. Messages are worked off one after the other;
locks, status queries and device clears do not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from edged.actions.cause import CALLER_GONE, Cause
from edged.errors import EdgedError
from edged.protocol.hislip import (
    FatalCode,
    HislipMessage,
    HislipProblem,
    MessageType,
    ProblemCode,
    TooLarge,
    message,
    problem,
)
from edged.surfaces.hislip.connection import HislipConnection
from edged.surfaces.hislip.exchange import (
    ClearAsked,
    Happening,
    HislipChannel,
    HislipExchange,
    LockAsked,
    LockInfoAsked,
    MessageWritten,
    PeerEnded,
    Say,
    StatusAsked,
    TriggerAsked,
    UnlockAsked,
    status_message,
)
from edged.surfaces.hislip.unit_locks import UnitLocks
from edged.surfaces.visa.session import CLEARED, VisaSession

MOST_WAITING: Final = 64
MOST_WAITING_BYTES: Final = 1024 * 1024
"""Messages that have come and are not worked off; what is more waits with the client."""
MOST_STATUS_QUERIES: Final = 16
ARRIVES_WITHIN_S: Final = 0.02
"""The channels are two: a message that a query names may come a moment after it."""
LISTENED_S: Final = 60.0
"""How long an answer to a line that asks nothing is sent on, however late it comes."""
LOOK_EVERY_S: Final = 0.1
"""Between two looks whether it has come."""
READS_WITHIN_S: Final = 60.0
"""An answer that the client's system does not even take up for so long is given up."""
WHOLE: Final = 1 << 40
"""Bytes of an answer at most: all of it."""
LONGEST_LOCK_WAIT_S: Final = 86_400.0

log = structlog.get_logger("edged.hislip")


class HislipProgram:
    """One session, once both of its connections are there; lives on the event loop.

    Args:
        session: what it does.
        locks: those of its unit.
        on_end: told once, when the session is over; ``end`` has been begun then.
    """

    def __init__(
        self,
        session: VisaSession,
        synchronous: HislipConnection,
        asynchronous: HislipConnection,
        *,
        locks: UnitLocks,
        on_end: Callable[[HislipProgram], None],
    ) -> None:
        self.session = session
        self._exchange = HislipExchange()
        self._connections = {
            HislipChannel.SYNCHRONOUS: synchronous,
            HislipChannel.ASYNCHRONOUS: asynchronous,
        }
        self._locks = locks
        self._on_end = on_end
        self._queue: deque[MessageWritten | TriggerAsked] = deque()
        self._queued_bytes = 0
        self._has_work = asyncio.Event()
        # Everything that has come is worked off.
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        # A message has come; for who waits for one.
        self._came = asyncio.Event()
        self._names_next = False
        self._queries: deque[StatusAsked] = deque()
        self._telling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._clearing: asyncio.Task[None] | None = None
        self._is_over = False
        self._ended_for = CALLER_GONE
        self._worker = self._start(self._work(), "hislip program")

    # see ``Ears``

    def heard(self, connection: HislipConnection, received: HislipMessage | TooLarge) -> None:
        is_synchronous = connection is self._connections[HislipChannel.SYNCHRONOUS]
        try:
            if is_synchronous:
                happenings = self._exchange.synchronous(received)
            else:
                happenings = self._exchange.asynchronous(received)
        except HislipProblem as refused:
            connection.say(problem(refused.code, refused.text))
            return
        for happening in happenings:
            self._happen(happening)

    def lost(self, connection: HislipConnection) -> None:  # noqa: ARG002 - see ``Ears``
        """See ``Ears``: one connection without the other is no session."""
        self._over()

    def end(self, code: FatalCode, text: str, cause: Cause = CALLER_GONE) -> None:
        """End the session, and say why; ``cause`` is the reason that its pending calls get."""
        self._ended_for = cause
        self._connections[HislipChannel.SYNCHRONOUS].end(code, text)
        self._over()

    async def close(self) -> None:
        """Give up what is under way, its locks and its session; after ``on_end``, or instead."""
        self._is_over = True
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel(self._ended_for)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._locks.leave(self.session)
        await self.session.close(self._ended_for)
        for connection in self._connections.values():
            connection.close()

    def _over(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._on_end(self)
            for connection in self._connections.values():
                connection.close()

    def _happen(self, happening: Happening) -> None:
        match happening:
            case Say():
                self._connections[happening.channel].say(happening.data)
            case MessageWritten() | TriggerAsked():
                self._take(happening)
            case StatusAsked():
                self._ask_status(happening)
            case ClearAsked():
                self._clear()
            case LockAsked():
                self._start(self._lock(happening), "hislip lock")
            case UnlockAsked():
                self._start(self._unlock(happening), "hislip unlock")
            case LockInfoAsked():
                self._tell_locks()
            case PeerEnded():
                log.info("hislip_client_ended", reason=happening.reason)
                self._over()

    # Messages, one after the other

    def _take(self, asked: MessageWritten | TriggerAsked) -> None:
        self._queue.append(asked)
        self._queued_bytes += len(asked.data) if isinstance(asked, MessageWritten) else 0
        self._is_idle.clear()
        self._has_work.set()
        self._came.set()
        if len(self._queue) >= MOST_WAITING or self._queued_bytes >= MOST_WAITING_BYTES:
            self._connections[HislipChannel.SYNCHRONOUS].pause()

    async def _work(self) -> None:
        while True:
            try:
                if not self._queue:
                    self._is_idle.set()
                    self._has_work.clear()
                    await self._wait_for_work()
                asked = self._queue.popleft()
                if isinstance(asked, MessageWritten):
                    self._queued_bytes -= len(asked.data)
                await self._carry_out(asked)
            except EdgedError as refused:
                # It may be that its lock's lease has ended: it is told so once.
                self._locks.look()
                self._happen(self._exchange.refused(str(refused)))
            except TimeoutError:
                self.end(FatalCode.UNIDENTIFIED, "The client does not read its answers.")
                return
            if len(self._queue) < MOST_WAITING // 2:
                self._connections[HislipChannel.SYNCHRONOUS].resume()

    async def _carry_out(self, asked: MessageWritten | TriggerAsked) -> None:
        """Do what one message asks, and say what is answered.

        Raises:
            EdgedError: it was refused, or failed.
            TimeoutError: the client does not take up its answer.
        """
        session = self.session
        if asked.is_interrupting:
            session.interrupted()
        if isinstance(asked, TriggerAsked):
            await session.trigger()
        else:
            await session.write(asked.data)
        if not session.has_asked:
            return
        await session.wait_answered(math.inf)
        if session.is_answered and self._exchange.is_overtaken(asked.message_id):
            # It is left unread: the next write finds it so, and says that it was interrupted.
            answer = b""
        else:
            answer, _ = await session.read(WHOLE, 0.0)
        await self._answer(asked.message_id, answer)

    async def _answer(self, message_id: int, answer: bytes) -> None:
        for said in self._exchange.answer(message_id, answer):
            connection = self._connections[said.channel]
            connection.say(said.data)
            await connection.writable(READS_WITHIN_S)

    async def _wait_for_work(self) -> None:
        """Wait for the next message; meanwhile the last one may be answered.

        A program's read is no message: what comes late to a line that nobody knows to be answered
        is sent as soon as it is there, and does not occupy the unit until then.
        """
        left_s = LISTENED_S
        while left_s > 0 and self.session.may_be_answered:
            left_s -= LOOK_EVERY_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._has_work.wait()
                    return
            if self.session.has_overheard():
                message_id = self._exchange.latest_id
                try:
                    answer, _ = await self.session.read(WHOLE)
                except EdgedError:
                    # It stands in the program's own queue; nobody may be reading.
                    break
                await self._answer(message_id, answer)
        await self._has_work.wait()

    # Device clear

    def _clear(self) -> None:
        if self._clearing is not None and not self._clearing.done():
            self._clearing.cancel()
        self._clearing = self._start(self._cleared(), "hislip clear")

    async def _cleared(self) -> None:
        self._worker.cancel(CLEARED)
        await asyncio.gather(self._worker, return_exceptions=True)
        self._queue.clear()
        self._queued_bytes = 0
        await self.session.clear()
        self._worker = self._start(self._work(), "hislip program")
        self._connections[HislipChannel.SYNCHRONOUS].resume()
        self._happen(self._exchange.cleared())

    # Status

    def _ask_status(self, asked: StatusAsked) -> None:
        if len(self._queries) >= MOST_STATUS_QUERIES:
            refusal = problem(ProblemCode.UNIDENTIFIED, "too many status queries wait")
            self._connections[HislipChannel.ASYNCHRONOUS].say(refusal)
            return
        self._queries.append(asked)
        if self._telling is None or self._telling.done():
            self._telling = self._start(self._tell_status(), "hislip status")

    async def _tell_status(self) -> None:
        while self._queries:
            asked = self._queries[0]
            await self._wait_for(asked.message_id)
            status_byte = await self.session.read_stb()
            has_message = self._exchange.mav(asked)
            self._queries.popleft()
            told = status_message(status_byte, has_message=has_message)
            self._connections[HislipChannel.ASYNCHRONOUS].say(told)

    async def _wait_for(self, message_id: int) -> None:
        """A message that the client names and that has not come: let it.

        Some clients (pyvisa-py) name the message that they will send next: after one that did not
        come nothing is waited for again.
        """
        if self._names_next or not self._exchange.is_coming(message_id):
            return
        self._came.clear()
        try:
            async with asyncio.timeout(ARRIVES_WITHIN_S):
                await self._came.wait()
        except TimeoutError:
            self._names_next = True

    # Locks

    async def _lock(self, asked: LockAsked) -> None:
        timeout_s = min(asked.timeout_s, LONGEST_LOCK_WAIT_S)
        result = await self._locks.acquire(self.session, asked.key, timeout_s)
        self._happen(self._exchange.lock_said(result))

    async def _unlock(self, asked: UnlockAsked) -> None:
        """What was sent under the lock is worked off under it."""
        await self._wait_for(asked.message_id)
        await self._is_idle.wait()
        result = await self._locks.release(self.session)
        self._happen(self._exchange.lock_said(result))

    def _tell_locks(self) -> None:
        is_exclusive, count = self._locks.told_to(self.session)
        told = message(MessageType.ASYNC_LOCK_INFO_RESPONSE, int(is_exclusive), count)
        self._connections[HislipChannel.ASYNCHRONOUS].say(told)

    def _start(self, doing: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(doing, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.error("hislip_failed", exc_info=bug)
            self.end(FatalCode.UNIDENTIFIED, "An error of edged's own; its log has it.")
