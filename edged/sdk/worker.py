"""The program inside a worker process: loads one wrapper, runs its functions one after the other.

Frames come in by what was standard input and leave by what was standard output; both are moved
away before the wrapper is loaded, and the numbers 0, 1 and 2 become nothing, and the log. So a
vendor's library may print what it likes. Ends when the engine does, however that ended: its pipe
closes then. A C thread of ``faulthandler`` watches the deadlines, because a library that never lets
go of the interpreter would keep every Python thread from doing so.

Started as ``python -m edged.sdk.worker PATH STEM MEMORY_MB LOAD_S DIRECTORY…``. Loads no
instrument code.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from edged.sdk.files import stamp_of
from edged.sdk.loading import Loading, told
from edged.sdk.results import json_ready
from edged.sdk.wire import (
    HEAD,
    MAX_RESULT,
    OUT_OF_MEMORY,
    FrameError,
    decode,
    encode,
    frame_length,
)
from edged.sdk.wrapper import NotConnected, SdkMissing

if sys.platform != "win32":
    import resource

__all__ = ["main"]

CLOSE_S: Final = 2.0
"""For a call that runs and for the wrapper's ``close``, once the engine is gone."""
OVERTIME_S: Final = 5.0
"""Beyond its deadline, at which the engine kills; so this counts only where no engine is left."""
MEBIBYTE: Final = 1024 * 1024

Message = dict[str, Any]


class Pipes:
    """The two ends that lead to the engine, as descriptors nobody else knows."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def read(self) -> Message | None:
        """The next message; None when the engine is gone, or talks nonsense."""
        head = self._exactly(HEAD.size)
        if head is None:
            return None
        try:
            body = self._exactly(frame_length(head))
            return None if body is None else decode(body)
        except FrameError:
            return None

    def write(self, message: Message) -> None:
        """Send one message; what cannot be sent is told in its place."""
        try:
            frame = encode(message, MAX_RESULT)
        except FrameError as error:
            failure = {
                "kind": "error",
                "type": "TypeError",
                "message": f"the result {error}",
                "remedy": f"Give back at most {MAX_RESULT} bytes as JSON: fewer samples.",
            }
            frame = encode({"answer": message.get("answer"), "error": failure})
        view = memoryview(frame)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._out, view) :]

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            part = os.read(self._in, size - len(parts))
            if not part:
                return None
            parts += part
        return bytes(parts)


def main(arguments: list[str]) -> int:
    """Load the wrapper and serve it until the engine closes the pipe."""
    path, stem, memory_mb, load_s, *directories = arguments
    # At the end, so that no file of a wrapper is taken for a module of Python's own.
    sys.path.extend(directories)
    pipes = Pipes()
    # A Ctrl-C or a stop of the unit is for the engine, which then closes the pipe.
    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    faulthandler.enable(all_threads=False)
    is_limited = _limit_memory(int(memory_mb))
    orders: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    is_gone = threading.Event()
    threading.Thread(target=_listen, args=(pipes, orders, is_gone), daemon=True).start()
    loading = Loading(Path(path), stem)
    with _watched(float(load_s)):
        # As it was before it was read: so a change meanwhile is seen as one.
        stamp = stamp_of(Path(path))
        loaded = _load(loading, Path(path))
        pipes.write({**loaded, "stamp": stamp, "is_memory_limited": is_limited})
    while (order := orders.get()) is not None and not is_gone.is_set():
        with _watched(float(order["timeout_s"])):
            pipes.write(_call(loading, order, Path(path)))
    _close(loading)
    return 0


def _listen(
    pipes: Pipes, orders: queue.SimpleQueue[Message | None], is_gone: threading.Event
) -> None:
    while (order := pipes.read()) is not None:
        orders.put(order)
    # The engine is gone. What runs gets a moment to end, then this process does, whatever holds it.
    faulthandler.dump_traceback_later(CLOSE_S, exit=True)
    is_gone.set()
    orders.put(None)


@contextlib.contextmanager
def _watched(seconds: float) -> Iterator[None]:
    faulthandler.dump_traceback_later(seconds + OVERTIME_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _load(loading: Loading, path: Path) -> Message:
    try:
        return {"loaded": loading.load()}
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BaseException as error:  # noqa: BLE001 - sys.exit() in a module ends nothing here
        _log(error)
        return {"broken": told(error, path)}


def _call(loading: Loading, order: Message, path: Path) -> Message:
    try:
        value = json_ready(loading.call(order["method"], order["arguments"]))
    except MemoryError as error:
        _log(error)
        os._exit(OUT_OF_MEMORY)
    except BaseException as error:  # noqa: BLE001 - as above; the engine tells the caller
        _log(error)
        return {"answer": order["call"], "error": told(error, path)}
    return {"answer": order["call"], "value": value}


def _close(loading: Loading) -> None:
    faulthandler.dump_traceback_later(CLOSE_S, exit=True)
    try:
        loading.close()
    except BaseException as error:  # noqa: BLE001 - it ends anyway
        _log(error)


def _log(error: BaseException) -> None:
    """The trace goes to the log; the caller gets a sentence. What was foreseen has no trace."""
    if isinstance(error, SdkMissing | NotConnected):
        return
    with contextlib.suppress(Exception):
        traceback.print_exception(error, limit=-4)


def _limit_memory(megabytes: int) -> bool:
    """Bound the address space; returns whether that could be done.

    Windows has no such bound, and a service may be forbidden to set any (``@resources`` in a
    unit's SystemCallFilter); then the engine looks at the memory in use.
    """
    if sys.platform != "win32" and megabytes:
        wanted = megabytes * MEBIBYTE
        try:
            _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
            if hard != resource.RLIM_INFINITY:
                wanted = min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_AS, (wanted, wanted))
        except (OSError, ValueError):
            return False
        return True
    return False


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not through the interpreter's own end: a vendor's thread could keep it there.
    os._exit(status)
