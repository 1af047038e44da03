"""One life of a worker process: started, asked, watched, ended. Restarting is ``executor.py``'s.

The loop only ever waits for pipes here. What the worker prints is read all the time, so that it
never waits for the engine; when it prints without measure it is read slowly.

What a wrapper and its vendor's library print → lines of the log, as many as a log can bear.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import structlog

from edged.clock import Clock
from edged.host import resident_bytes
from edged.record import part, record
from edged.sdk.wire import HEAD, MAX_RESULT, OUT_OF_MEMORY, FrameError, decode, encode, frame_length
from edged.sdk.wrapper import LIBRARY_PREFIX, SETTING_PREFIX

LONGEST_LINE: Final = 1_000
MOST_LINES: Final = 100
"""In one window; beyond that they are counted only."""
WINDOW_S: Final = 10.0
LAST_WORDS: Final = 8
MOST_OF_A_CHUNK: Final = 256


class OutputLog:
    """Takes the bytes of one wrapper's standard output and error, of all its lives.

    Args:
        stem: the wrapper, for the lines.
        clock: for the window.
    """

    def __init__(self, stem: str, clock: Clock) -> None:
        self._log = structlog.get_logger("edged.sdk").bind(wrapper=stem)
        self._clock = clock
        self._rest = b""
        self._began = clock.monotonic()
        self._count = 0
        self._dropped = 0
        self._last: deque[str] = deque(maxlen=LAST_WORDS)

    @property
    def last_words(self) -> str:
        """The newest lines."""
        return "\n".join(self._last)

    def take(self, chunk: bytes) -> bool:
        """Note what was printed; returns whether it was too much, so that the reader rests."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        self._roll()
        shown = lines[-MOST_OF_A_CHUNK:]
        self._dropped += len(lines) - len(shown)
        for line in shown:
            self._note(line)
        return self._count >= MOST_LINES

    def end(self) -> None:
        """The process is gone: what has no line end yet is a line, too."""
        if self._rest:
            self._note(self._rest)
            self._rest = b""
        self._tell_dropped()

    def _note(self, line: bytes) -> None:
        text = line[:LONGEST_LINE].decode("utf-8", "replace").strip()
        if not text:
            return
        self._last.append(text[:200])
        if self._count >= MOST_LINES:
            self._dropped += 1
            return
        self._count += 1
        self._log.info("sdk_output", text=text)

    def _roll(self) -> None:
        now = self._clock.monotonic()
        if now - self._began >= WINDOW_S:
            self._tell_dropped()
            self._began, self._count = now, 0

    def _tell_dropped(self) -> None:
        if self._dropped:
            self._log.warning("sdk_output_dropped", lines=self._dropped)
            self._dropped = 0


LOAD_S: Final = 20.0
"""For starting Python and importing the wrapper with all that its vendor brings along."""
CLOSE_S: Final = 2.2
"""A little more than the worker gives itself."""
REAP_S: Final = 2.0
READ_BYTES: Final = 64 * 1024
FLOOD_REST_S: Final = 0.01
LOOK_AT_MEMORY_S: Final = 1.0
MEBIBYTE: Final = 1024 * 1024
PASSED_ON: Final = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP",
        "TEMP", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "DISPLAY",
        "WAYLAND_DISPLAY", "XAUTHORITY",
        # Windows
        "ALLUSERSPROFILE", "APPDATA", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)",
        "COMMONPROGRAMW6432", "COMPUTERNAME", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA",
        "NUMBER_OF_PROCESSORS", "OS", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA",
        "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PUBLIC", "SYSTEMDRIVE", "SYSTEMROOT",
        "USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR",
    }
)  # fmt: skip
"""What every program may need, and in which nobody keeps a secret."""
LOCALE: Final = "LC_"

Message = Mapping[str, Any]


class WorkerDied(Exception):
    """The worker is gone, or of no more use; the text completes "The SDK wrapper … "."""


@record
class Launch:
    """What a worker is started with.

    Attributes:
        directories: all of SDK_WRAPPER_DIRS, so that wrappers can share modules.
        memory_mb: address space it may have; where that cannot be bounded, memory in use.
        is_limited: whether it is to bound its address space itself, where it can.
        libraries, settings: SDK_LIBRARIES, and SDK_SETTINGS of this wrapper.
        variables: SDK_ENVIRONMENT: further variables of the engine's environment that it may have.
    """

    stem: str
    path: Path
    directories: tuple[Path, ...] = ()
    memory_mb: int = 1024
    load_s: float = LOAD_S
    libraries: Mapping[str, Path] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    is_limited: bool = True

    def command(self) -> tuple[str, ...]:
        """The command line."""
        limit_mb = self.memory_mb if self.is_limited else 0
        words = [self.path, self.stem, limit_mb, self.load_s, *self.directories]
        return (sys.executable, "-m", "edged.sdk.worker", *map(str, words))

    def environ(self, own: Mapping[str, str]) -> dict[str, str]:
        """What of the engine's environment is for everybody or was named, and its settings."""
        wanted = PASSED_ON.union(self.variables)
        if sys.platform == "win32":
            wanted = frozenset(name.upper() for name in wanted)
        environ = {
            name: text for name, text in own.items() if name in wanted or name.startswith(LOCALE)
        }
        environ |= {f"{LIBRARY_PREFIX}{n.upper()}": str(p) for n, p in self.libraries.items()}
        environ |= {f"{SETTING_PREFIX}{n.upper()}": text for n, text in self.settings.items()}
        return environ | {"PYTHONUNBUFFERED": "1"}


@part
class WorkerProcess:
    """A worker that is a process.

    Attributes:
        launch: what to start.
        output: takes what it prints.
        clock: for rests.
        on_end: called on the loop when it has ended by itself.
        is_dead: it can be asked nothing more.
    """

    launch: Launch
    output: OutputLog
    clock: Clock
    on_end: Callable[[], None]
    _process: asyncio.subprocess.Process | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _first: asyncio.Future[Message] | None = None
    _answers: dict[int, asyncio.Future[Message]] = field(default_factory=dict)
    _asked: int = 0
    _why: str = ""
    _is_limited: bool = False
    _looking: asyncio.Task[None] | None = None
    _exit: int | None = None
    _is_over: bool = False
    is_dead: bool = False

    @property
    def pid(self) -> int:
        """0 before it runs."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> Mapping[str, Any]:
        """Start it and load the wrapper: {loaded: …} or {broken: …}.

        Raises:
            WorkerDied: it ended meanwhile, or took too long.
        """
        first: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._first = first
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *self.launch.command(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self.launch.environ(os.environ),
                # A process group of its own: what it starts ends with it.
                start_new_session=sys.platform != "win32",
            )
        except (OSError, ValueError) as error:
            # A ValueError is a name in SDK_SETTINGS that no environment can hold.
            raise WorkerDied(f"could not be started: {error}") from error
        self._watch_exit(process.pid)
        self._tasks = [
            asyncio.create_task(self._read(process), name=f"sdk {self.launch.stem} frames"),
            asyncio.create_task(self._pump(process), name=f"sdk {self.launch.stem} output"),
        ]
        self._looking = asyncio.create_task(
            self._look_at_memory(), name=f"sdk {self.launch.stem} memory"
        )
        try:
            async with asyncio.timeout(self.launch.load_s):
                return await first
        except TimeoutError:
            raise WorkerDied(
                f"was not loaded within {self.launch.load_s:g} s, so it was ended"
            ) from None

    async def ask(
        self, method: str, arguments: Mapping[str, Any], timeout_s: float
    ) -> Mapping[str, Any]:
        """Run one function: {value: …} or {error: …}.

        Raises:
            TimeoutError: it did not answer in time; it still runs.
            WorkerDied: it ended.
        """
        if self._process is None or self._process.stdin is None or self.is_dead:
            raise WorkerDied("is not running")
        number = self._asked = self._asked + 1
        order = {
            "call": number,
            "method": method,
            "arguments": arguments,
            "timeout_s": timeout_s,
        }
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            async with asyncio.timeout(timeout_s):
                with contextlib.suppress(ConnectionError):  # then its end is told, too
                    self._process.stdin.write(encode(order))
                    await self._process.stdin.drain()
                return await answer
        finally:
            self._answers.pop(number, None)

    def kill(self) -> None:
        """End it now."""
        if self._process is None or self._is_over:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform != "win32":
                # Also if the worker has ended: what it has started may be left.
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def _watch_exit(self, pid: int) -> None:
        """End what the worker leaves behind as soon as it ends.

        A child has the worker's pipes, too, so their end does not show that the worker has ended.
        """
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._exit = os.pidfd_open(pid)
                asyncio.get_running_loop().add_reader(self._exit, self._note_exit)

    def _note_exit(self) -> None:
        if self._exit is not None:
            asyncio.get_running_loop().remove_reader(self._exit)
            os.close(self._exit)
            self._exit = None
            self.kill()

    async def end(self) -> None:
        """Let it close what it holds, and be gone; kills what does not go."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await process.wait()
        except TimeoutError:
            pass
        finally:
            self._note_exit()
            self.kill()
            self._is_over = True
            if self._looking is not None:
                self._looking.cancel()
                self._tasks.append(self._looking)
            # The pipes are read to their ends, which closes them; only a grandchild that left the
            # group could keep them open.
            await asyncio.wait(self._tasks, timeout=REAP_S)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.output.end()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Hand on frames until there are no more."""
        why = ""
        try:
            while process.stdout is not None:
                head = await process.stdout.readexactly(HEAD.size)
                message = decode(await process.stdout.readexactly(frame_length(head, MAX_RESULT)))
                self._hand_on(message)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except FrameError as error:
            why = f"sent what cannot be understood ({error}), so it was ended"
            self.kill()
        self.is_dead = True
        died = WorkerDied(why or await self._how_it_ended(process))
        for waiting in (self._first, *self._answers.values()):
            if waiting is not None and not waiting.done():
                waiting.set_exception(died)
                waiting.exception()  # seen: nobody may be waiting any more
        self.on_end()

    def _hand_on(self, message: Mapping[str, Any]) -> None:
        if self._first is not None and not self._first.done():
            self._is_limited = message.get("is_memory_limited") is True
            self._first.set_result(message)
            return
        number = message.get("answer")
        answer = self._answers.get(number) if isinstance(number, int) else None
        if answer is not None and not answer.done():
            answer.set_result(message)

    async def _how_it_ended(self, process: asyncio.subprocess.Process) -> str:
        try:
            async with asyncio.timeout(REAP_S):
                status = await process.wait()
        except TimeoutError:
            self.kill()
            return "closed its pipe, so it was ended"
        if self._why:
            return self._why
        if status == OUT_OF_MEMORY:
            limit = self.launch.memory_mb
            return f"asked for more memory than its {limit} MiB (SDK_MEMORY_MB), so it was ended"
        if status < 0:
            with contextlib.suppress(ValueError):
                return f"crashed ({signal.Signals(-status).name})"
        return f"ended by itself with status {status}"

    async def _pump(self, process: asyncio.subprocess.Process) -> None:
        while process.stderr is not None and (chunk := await process.stderr.read(READ_BYTES)):
            if self.output.take(chunk):
                await self.clock.sleep(FLOOD_REST_S)

    async def _look_at_memory(self) -> None:
        """Where there is no limit of the address space: end it when it has become too large."""
        while not self.is_dead and not self._is_limited:
            await self.clock.sleep(LOOK_AT_MEMORY_S)
            used = (resident_bytes(self.pid) or 0) // MEBIBYTE
            if used > self.launch.memory_mb:
                self._why = (
                    f"used {used} MiB of memory, over its {self.launch.memory_mb} "
                    "(SDK_MEMORY_MB), so it was ended"
                )
                self.kill()
