"""What a test needs beside it, on an event loop of its own in a thread of this process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from tests.bench.driven_clock import settle
from tests.bench.leaks import HOSTED_THREAD
from tests.bench.waiting import HANGS_S

What = TypeVar("What")


@contextlib.contextmanager
def hosted(make: Callable[[], AbstractAsyncContextManager[What]]) -> Iterator[What]:
    """What ``make`` opens; it is closed, and its loop has ended, when the context has.

    Raises:
        BaseException: what opening or closing it raised.
    """
    host = _Host(make)
    host.thread.start()
    try:
        yield host.ready.result(HANGS_S)
    finally:
        host.end()


class _Host(Generic[What]):
    def __init__(self, make: Callable[[], AbstractAsyncContextManager[What]]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = asyncio.Event()
        self.ready: Future[What] = Future()
        self._ended: Future[None] = Future()
        self.thread = threading.Thread(target=self._run, name=HOSTED_THREAD)

    def end(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._asked.set)
        self.thread.join(HANGS_S)
        assert not self.thread.is_alive(), "what is hosted did not end"
        if self.ready.exception() is None:
            self._ended.result(0)

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # noqa: BLE001 - raised again where the test is
            (self._ended if self.ready.done() else self.ready).set_exception(error)
        else:
            self._ended.set_result(None)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._make() as opened:
            self.ready.set_result(opened)
            await self._asked.wait()
            # `asyncio.Server.close` loses a connection that it has just accepted (accepting.py).
            await settle()
