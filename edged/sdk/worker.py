"""The program inside a worker process: loads one wrapper, runs its functions one after the other.

Frames come in by what was standard input and leave by what was standard output; both are moved
away before the wrapper is loaded, and the numbers 0, 1 and 2 become nothing, and the log. So a
vendor's library may print what it likes. Ends when the engine does, however that ended: its pipe
closes then. A C thread of ``faulthandler`` watches the deadlines, because a library that never lets
go of the interpreter would keep every Python thread from doing so.

Started as ``python -m edged.sdk.worker PATH STEM MEMORY_MB LOAD_S DIRECTORY…``. Loads no
instrument code.

A wrapper's file → its module and what it says of its tools; runs in the worker.

Where the import itself fails for want of a vendor's package, the specifications are read from the
source instead (they must be written as literals then), so that the tools are listed all the same.

What a wrapper or its vendor's library starts ends with the worker. On Linux a worker leads a
process group of its own, and its children belong to that, however they were started. The engine
ends the group when the worker has ended, and a worker that ends by itself does so, too, because its
engine may be gone. Only a child that leaves the group stays. On Windows the worker puts itself into
a job that ends with the last handle to it, and the only one is the worker's.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import importlib.util
import inspect
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from edged.sdk.wire import HEAD, MAX_RESULT, OUT_OF_MEMORY, FrameError, decode, encode, frame_length
from edged.sdk.wrapper import NotConnected, SdkMissing, json_ready, stamp_of

SPECS_NAME: Final = "MCP_TOOL_SPECS"
USB_NAME: Final = "USB_IDS"
CLASS_NAME: Final = "Wrapper"
CHECK_NAME: Final = "check_library"
CLOSE_NAME: Final = "close"
MAX_LOADED: Final = MAX_RESULT - 1_000
"""Bytes of what a wrapper offers, as JSON, with room for what is added to it."""
MAX_SOURCE: Final = 2_000_000
"""Bytes of a wrapper's file."""

Message = dict[str, Any]


class Loading:
    """One wrapper's file, imported as far as that is possible.

    Args:
        path: the file.
        stem: its name; it is imported under another, because a wrapper ``serial.py`` that needs
            the package ``serial`` must not find itself.
    """

    def __init__(self, path: Path, stem: str) -> None:
        self._path = path
        self._name = f"sdk_wrapper_{stem}"
        self._module: ModuleType | None = None
        self._instance: object | None = None

    def load(self) -> Message:
        """Import it and say what it offers.

        Returns:
            ``specs`` as they stand there, ``lines`` (where each begins), ``line`` of the whole,
            ``methods`` (name → what it takes and needs, null where it does not say; null for all
            where the import failed), ``missing`` (why its library cannot be used, or null),
            ``usb_ids`` (``USB_IDS`` as it stands there: by what its device is known on USB).

        Raises:
            Exception: whatever the module raised; SyntaxError, OSError of the file.
        """
        lines, whole = spec_lines(self._source())
        usb_ids = self._literal(USB_NAME)
        missing: Message | None = None
        try:
            self._import()
        except (ImportError, OSError, SdkMissing) as error:
            literal = self._literal(SPECS_NAME)
            if literal is None:
                raise
            return {
                "specs": json_ready(literal),
                "lines": lines,
                "line": whole,
                "methods": None,
                "missing": told(error, self._path),
                "usb_ids": json_ready(usb_ids),
            }
        specs = getattr(self._module, SPECS_NAME, None)
        try:
            self._check_library()
        except SdkMissing as error:
            missing = told(error, self._path)
        return {
            "specs": json_ready(specs),
            "lines": lines,
            "line": whole,
            "methods": self._methods(specs),
            "missing": missing,
            "usb_ids": json_ready(usb_ids),
        }

    def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Call one function; imports first what could not be imported before.

        Raises:
            Exception: whatever it raises.
        """
        if self._module is None:
            self._import()
        return self._callable(method)(**arguments)

    def close(self) -> None:
        """Tell the wrapper that it ends, if it wants to know."""
        own = getattr(self._instance, CLOSE_NAME, None)
        for close in (own, getattr(self._module, CLOSE_NAME, None)):
            if callable(close):
                close()

    def _source(self) -> str:
        with self._path.open("rb") as file:
            text = file.read(MAX_SOURCE + 1)
        if len(text) > MAX_SOURCE:
            raise OSError(f"{self._path} is over {MAX_SOURCE} bytes long")
        return text.decode("utf-8")

    def _import(self) -> None:
        importlib.invalidate_caches()
        spec = importlib.util.spec_from_file_location(self._name, self._path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self._path} is not a Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[self._name] = module
        with contextlib.ExitStack() as undo:
            undo.callback(sys.modules.pop, self._name, None)
            spec.loader.exec_module(module)
            undo.pop_all()
        self._module = module

    def _check_library(self) -> None:
        check = getattr(self._module, CHECK_NAME, None)
        if callable(check):
            check()

    def _callable(self, name: str) -> Callable[..., Any]:
        """A method of the one ``Wrapper`` object, else a function of the module."""
        owner = getattr(self._module, CLASS_NAME, None)
        if owner is not None and hasattr(owner, name):
            if self._instance is None:
                self._instance = owner()
            found: Callable[..., Any] = getattr(self._instance, name)
            return found
        function: Callable[..., Any] = getattr(self._module, name)
        return function

    def _methods(self, specs: object) -> dict[str, Message | None]:
        """The functions that the specifications name and that are there, with what they take."""
        owner = getattr(self._module, CLASS_NAME, None)
        found: dict[str, Message | None] = {}
        for spec in specs if isinstance(specs, list | tuple) else ():
            name = spec.get("method") if isinstance(spec, Mapping) else None
            if not isinstance(name, str):
                continue
            if owner is not None and callable(getattr(owner, name, None)):
                plain = isinstance(inspect.getattr_static(owner, name), FunctionType)
                found[name] = _parameters(getattr(owner, name), is_bound=not plain)
            elif callable(function := getattr(self._module, name, None)):
                found[name] = _parameters(function, is_bound=True)
        return found

    def _literal(self, name: str) -> object:
        """What is assigned to a name as the source has it, or None where that is no literal."""
        try:
            node = _assigned(self._source(), name)
            literal: object = None if node is None else ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
        return literal


def spec_lines(source: str) -> tuple[list[int], int]:
    """Where each specification begins, and where all do; 1 where that cannot be seen."""
    try:
        node = _assigned(source, SPECS_NAME)
    except (SyntaxError, ValueError, RecursionError):
        return [], 1
    if node is None:
        return [], 1
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    return [item.lineno for item in items], node.lineno


def told(error: BaseException, path: Path) -> Message:
    """An exception as the engine is told of it: kind, text, remedy, and the line in this file."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines.append(error.lineno)
    kinds = {cls.__name__ for cls in type(error).__mro__}
    kind = next((k for k in ("SdkMissing", "NotConnected", "ImportError") if k in kinds), "error")
    remedy = _text(lambda: getattr(error, "remedy", ""))
    if isinstance(error, ModuleNotFoundError) and error.name:
        remedy = f"Install the Python package {error.name} for {sys.executable}."
    return {
        "kind": kind,
        "type": type(error).__name__,
        "message": _text(lambda: error),
        "remedy": remedy,
        "line": (lines[-1] if lines else None) or 0,
    }


def _text(of: Callable[[], object]) -> str:
    """A text of somebody's exception, which may itself raise anything."""
    try:
        return "".join(str(of()))[:2_000]
    except BaseException as broken:  # noqa: BLE001 - the call failed, and that is what is reported
        return f"(its text cannot be read: that raises {type(broken).__name__})"


def _assigned(source: str, wanted: str) -> ast.expr | None:
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == wanted:
                return value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if (
                name == wanted
            ):
                return value
    return None


def _parameters(function: Callable[..., Any], *, is_bound: bool) -> Message | None:
    """The names it ``takes`` and those it ``needs``; None where it takes any, or does not say."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    if not is_bound:
        parameters = parameters[1:]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {
        "takes": [p.name for p in named],
        "needs": [p.name for p in named if p.default is p.empty],
    }


if sys.platform != "win32":
    import resource


CLOSE_S: Final = 2.0
"""For a call that runs and for the wrapper's ``close``, once the engine is gone."""
OVERTIME_S: Final = 5.0
"""Beyond its deadline, at which the engine kills; so this counts only where no engine is left."""
MEBIBYTE: Final = 1024 * 1024


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
    bind_children()
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
    loaded, error = _tried(loading.load)
    if error is not None:
        return {"broken": told(error, path)}
    message = {"loaded": loaded}
    try:
        encode(message, MAX_LOADED)
    except FrameError as too_long:
        failure = told(ValueError(f"{SPECS_NAME} {too_long}"), path)
        return {"broken": {**failure, "line": loaded["line"]}}
    return message


def _call(loading: Loading, order: Message, path: Path) -> Message:
    value, error = _tried(lambda: json_ready(loading.call(order["method"], order["arguments"])))
    if error is not None:
        return {"answer": order["call"], "error": told(error, path)}
    return {"answer": order["call"], "value": value}


def _close(loading: Loading) -> None:
    faulthandler.dump_traceback_later(CLOSE_S, exit=True)
    _tried(loading.close)


def _tried(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What somebody's module made, or what it raised: even sys.exit() there ends nothing here.

    Without memory the process ends, and says so by its status.
    """
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 - the engine tells the caller
        _log(error)
        if isinstance(error, MemoryError):
            os._exit(OUT_OF_MEMORY)
        return None, error


def _log(error: BaseException) -> None:
    """The trace goes to the log; the caller gets a sentence. What was foreseen has no trace."""
    if isinstance(error, SdkMissing | NotConnected):
        return
    with contextlib.suppress(BaseException):
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


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    EXTENDED_LIMITS = 9
    KILL_ON_CLOSE = 0x2000

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
            ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_ulonglong * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    def bind_children() -> None:
        """Have everything that is started from now on end with this process."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateJobObjectW.restype = wintypes.HANDLE
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        job = wintypes.HANDLE(kernel.CreateJobObjectW(None, None))
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = KILL_ON_CLOSE
        size = ctypes.sizeof(limits)
        kernel.SetInformationJobObject(job, EXTENDED_LIMITS, ctypes.byref(limits), size)
        # The handle stays open until the process ends. Where this is refused, children may stay.
        kernel.AssignProcessToJobObject(job, wintypes.HANDLE(kernel.GetCurrentProcess()))

    def end_children() -> None:
        """The job sees to them."""

else:

    def bind_children() -> None:
        """The process group that the engine has made sees to them."""

    def end_children() -> None:
        """End what is left of this process's group, and with it this process."""
        if os.getpgrp() == os.getpid():
            with contextlib.suppress(OSError):
                os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    end_children()
    # Not through the interpreter's own end: a vendor's thread could keep it there.
    os._exit(status)
