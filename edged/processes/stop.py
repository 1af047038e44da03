"""Each platform's request to stop → one event.

Linux: SIGTERM, SIGINT, and SIGHUP (its terminal has gone, unless ``nohup`` has it ignored) through
the event loop. Where the loop has no signal handlers (Windows'
proactor loop): the C-level ones, which hand over to the loop; Ctrl-Break arrives as SIGBREAK.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

__all__ = ["stop_requested"]


@contextlib.contextmanager
def stop_requested() -> Iterator[asyncio.Event]:
    """An event that is set when this process is asked to end; must be entered on the event loop."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    restore = []
    numbers = _signals()
    for number in numbers:
        try:
            loop.add_signal_handler(number, asked.set)
        except (NotImplementedError, RuntimeError):
            before = signal.signal(number, _hand_over(loop, asked))
            restore.append((number, before))
    try:
        yield asked
    finally:
        for number in numbers:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)
        for number, before in restore:
            signal.signal(number, before)


def _signals() -> tuple[signal.Signals, ...]:
    if sys.platform == "win32":
        return (signal.SIGINT, signal.SIGBREAK, signal.SIGTERM)
    else:  # noqa: RET505 (mypy follows the platform in an else, and not after an if)
        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        return tuple(n for n in wanted if signal.getsignal(n) is not signal.SIG_IGN)


def _hand_over(
    loop: asyncio.AbstractEventLoop, asked: asyncio.Event
) -> Callable[[int, FrameType | None], None]:
    def handler(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(asked.set)

    return handler
