"""One reader at one pretended instrument: its commands in order, and the answers as faults say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from edged.clock import Clock
from edged.sim.bytelog import ByteLog
from edged.sim.faults import (
    ACKNOWLEDGEMENT,
    Close,
    FaultBook,
    FaultKind,
    Reset,
    Send,
    Wait,
    deliver,
    merged,
)
from edged.sim.scpi import PretendedInstrument

__all__ = ["Mouth", "Visit", "Visitor"]

MESSAGE_AVAILABLE: Final = 0x10
"""MAV of the status byte."""
MOST_WAITING: Final = 256
"""Messages of one reader not done yet; beyond it nothing more is read, as TCP allows."""

logger = logging.getLogger(__name__)


class Mouth(Protocol):
    """Where one reader's answers go: the far side of a wire.

    ``is_stream``: it carries bytes, and not messages.
    """

    is_stream: bool

    async def say(self, data: bytes, *, is_end: bool, tag: int) -> None:
        """Bytes of an answer; ``tag`` is that of the message it answers."""
        ...

    def end(self) -> None:
        """Close in order."""
        ...

    def reset(self) -> None:
        """Break off."""
        ...


class Visitor(Protocol):
    """What a visit needs of the station it is at."""

    instrument: PretendedInstrument[Any]
    faults: FaultBook


class Visit:
    """Commands of one reader are done one after the other, as an instrument does.

    What has arrived is logged at once, also while an earlier command still runs.
    """

    def __init__(
        self,
        station: Visitor,
        number: int,
        mouth: Mouth,
        *,
        clock: Clock,
        log: ByteLog,
        on_leave: Callable[[Visit], None],
    ) -> None:
        self.mouth = mouth
        self._station = station
        self._number = number
        self._clock = clock
        self._log = log
        self._on_leave = on_leave
        self._waiting: asyncio.Queue[tuple[bytes, int] | None] = asyncio.Queue(MOST_WAITING)
        self._has_left = False
        self._record("open")
        self._worker = asyncio.get_running_loop().create_task(self._work())

    def arrived(self, data: bytes) -> None:
        """Log bytes as they come."""
        self._record("in", data)

    async def hear(self, message: bytes, tag: int = 0) -> None:
        """A whole message; waits while too many are not done yet."""
        await self._waiting.put((message, tag))

    def overrun(self) -> None:
        """A message was longer than any input buffer."""
        self._station.instrument.status.push(-363)

    def is_under(self, kind: FaultKind) -> bool:
        """Whether a fault of that kind is in force at this instrument."""
        return self._station.faults.is_under(kind)

    def status_byte(self, *, is_unread: bool) -> int:
        """The status byte, as it is told beside the messages; ``is_unread``: an answer waits."""
        return self._station.instrument.status.byte() | (MESSAGE_AVAILABLE if is_unread else 0)

    async def forget(self) -> None:
        """A device clear: what waits or runs is neither done nor answered any more.

        An instrument that is deaf to it only says that it has done so.
        """
        if self.is_under(FaultKind.DEAF_CLEAR):
            return
        await self._end_worker()
        self._waiting = asyncio.Queue(MOST_WAITING)
        self._worker = asyncio.get_running_loop().create_task(self._work())

    async def finish(self) -> None:
        """The reader is gone; what it had sent (an output off, say) is still done."""
        self._leave()
        await self._waiting.put(None)
        await self._worker

    async def stop(self) -> None:
        """End at once."""
        self._leave()
        await self._end_worker()

    async def say(self, data: bytes, *, is_end: bool = True, tag: int = 0) -> None:
        """Send bytes, asked for or not."""
        if data and not self._has_left:
            self._record("out", data)
            await self.mouth.say(data, is_end=is_end, tag=tag)

    def _leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self._on_leave(self)
            self._record("close")

    async def _end_worker(self) -> None:
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)

    def _record(self, direction: str, data: bytes = b"") -> None:
        self._log.record(self._station.instrument.name, self._number, direction, data)

    async def _work(self) -> None:
        name = self._station.instrument.name
        while (heard := await self._waiting.get()) is not None:
            try:
                await self._do(*heard)
            except OSError:
                continue  # the reader is gone; what it had asked for before is still done
            except Exception as error:  # noqa: BLE001 - a mistake in a model must not end the bench
                logger.error("model_failed instrument=%s error=%r", name, error)  # noqa: TRY400
                self._station.instrument.status.push(-300, "Device-specific error")

    async def _do(self, message: bytes, tag: int) -> None:
        faults = self._station.faults
        if faults.is_under(FaultKind.FREEZE):
            return
        answer = await self._execute(message)
        if answer is None:
            if not faults.is_under(FaultKind.ACKNOWLEDGE) or b"?" in message:
                return
            answer = ACKNOWLEDGEMENT + self._station.instrument.dialect.line_end
        steps = deliver(answer, faults.take(), self._station.instrument.random)
        for step in merged(steps) if self.mouth.is_stream else steps:
            match step:
                case Send(data, is_end):
                    await self.say(data, is_end=is_end, tag=tag)
                case Wait(seconds):
                    await self._clock.sleep(seconds)
                case Close():
                    self.mouth.end()
                case Reset():
                    self.mouth.reset()

    async def _execute(self, message: bytes) -> bytes | None:
        steps = self._station.instrument.execute(message, self._clock.monotonic())
        try:
            pause_s = next(steps)
            while True:
                await self._clock.sleep(pause_s)
                pause_s = steps.send(self._clock.monotonic())
        except StopIteration as end:
            answer: bytes | None = end.value
            return answer
