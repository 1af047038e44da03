"""A daemon beside its platform: asked to stop, telling that it lives, alone, and not in the way.

Each platform's request to stop → one event.

Linux: SIGTERM, SIGINT, and SIGHUP (its terminal has gone, unless ``nohup`` has it ignored) through
the event loop. Where the loop has no signal handlers (Windows'
proactor loop): the C-level ones, which hand over to the loop; Ctrl-Break arrives as SIGBREAK.

Tells systemd how a program is: ready, alive, stopping. Without systemd it does nothing.

Source: sd_notify(3); the protocol is one datagram of ``NAME=VALUE`` lines.

One engine a state directory, and one a data directory: locks that go with the process.

Without the first a second engine could bind the same address unnoticed (SO_REUSEPORT) and two
daemons would drive the same instruments. Without the other one would take the recordings that the
other is just writing for those of a daemon that died, call them interrupted and cut their files.

A new engine goes before other programs until it has seen to what the last one left.

On a machine that is busy with something else it would share the processor like everybody, while an
output that nobody watches stays on. The system may refuse (no privilege, no LimitNICE): then it
waits its turn. Nothing of this outside of Linux.

What the supervisor leaves in STATE_DIR about itself, and how others read it.

``supervisor.json`` has the addresses at which the port proxy listens, and how the connection to the
relay is: ``relay.link.LinkStatus`` as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final

from edged.clock import Clock
from edged.errors import Conflict, ErrorCode, Failed
from edged.files import make_directory, open_appending, open_update, read_text


@contextlib.contextmanager
def stop_requested() -> Iterator[asyncio.Event]:
    """An event that is set when this process is asked to end; must be entered on the event loop."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    restore = []
    numbers = _signals()
    if sys.platform != "win32":
        # A program that waits for them itself hands its mask on to those that it starts.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
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


MAX_INTERVAL_S: Final = 30.0


class Notifier:
    """The service manager of this process, if it has one.

    Args:
        environ: where NOTIFY_SOCKET and WATCHDOG_USEC are looked for.
        pid: who may answer the watchdog.

    Attributes:
        alive_every_s: how often ``alive`` is to be called; ``None`` when nobody waits for it.
    """

    def __init__(self, environ: Mapping[str, str], pid: int = 0) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.alive_every_s: float | None = None
        micros = environ.get("WATCHDOG_USEC", "")
        meant = environ.get("WATCHDOG_PID", "")
        if self._address and micros.isdigit() and meant in {"", str(pid or os.getpid())}:
            self.alive_every_s = max(0.1, min(int(micros) / 2e6, MAX_INTERVAL_S))

    def starting(self, within_s: float) -> None:
        """The program will serve, or say this again, within that time (sd_notify(3))."""
        self._send(f"EXTEND_TIMEOUT_USEC={round(within_s * 1e6)}")

    def ready(self, status: str) -> None:
        """The program serves."""
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """What ``systemctl status`` shows in one line."""
        self._send(f"STATUS={status}")

    def alive(self) -> None:
        """Not hung."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The program ends on request."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address or not hasattr(socket, "AF_UNIX"):
            return
        # A leading @ stands for the NUL of an abstract name.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line,
        ):
            line.setblocking(False)
            line.sendto(text.encode("utf-8"), address)


async def say_alive(notifier: Notifier, clock: Clock) -> None:
    """Answer the watchdog from the event loop, for as long as that turns; until cancelled."""
    while notifier.alive_every_s is not None:
        notifier.alive()
        await clock.sleep(notifier.alive_every_s)


def without_notification(environ: MutableMapping[str, str]) -> None:
    """Take out what is meant for this process and not for its children."""
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        environ.pop(name, None)


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


LOCK_FILE: Final = "engine.lock"
START_FILE: Final = "start.json"
"""PID and bench file of the engine that holds the lock: until it is up, ``engine.json`` is absent
or its predecessor's."""
DATA_LOCK_FILE: Final = "data.lock"
LOCKED_AT: Final = 100
"""The byte that Windows locks: past the PID, so that others can still read who holds the lock."""
DATA_LOCKED_AT: Final = 65_536
"""The same where a path stands behind the PID."""
HELD: Final = frozenset({errno.EACCES, errno.EAGAIN, errno.EDEADLK})
"""What platforms say of a lock that somebody else has; of anything else the disk has no locks."""


class StateLock:
    """Held from ``take`` to ``release`` or the end of the process.

    Args:
        directory: where it lies; made if it is missing.
        name: the file; each program that may run once has its own.
        what: that program, for the sentence.
        key: the key of the configuration that names the directory.
        told: what others are told of the holder besides its PID; one line.
        locked_at: the byte that Windows locks.
    """

    def __init__(
        self,
        directory: Path,
        *,
        name: str = LOCK_FILE,
        what: str = "engine",
        key: str = "STATE_DIR",
        told: str = "",
        locked_at: int = LOCKED_AT,
    ) -> None:
        self._path = directory / name
        self._what = what
        self._key = key
        self._told = told
        self._locked_at = locked_at
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Hold the lock.

        Raises:
            Conflict: another engine holds it; its PID is in the sentence.
            Failed: the state directory cannot be written.
        """
        try:
            make_directory(self._path.parent)
            file = open_appending(self._path, 0o666)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            is_ours = _try_lock(file, self._locked_at)
        except OSError as error:
            file.close()
            raise self._unusable(error) from error
        if not is_ours:
            file.close()
            raise self._taken()
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n{self._told}")
        file.flush()
        self._file = file

    def _unusable(self, error: OSError) -> Failed:
        return Failed(
            f"The directory {self._path.parent} cannot be used: {error.strerror}.",
            code=ErrorCode.STORE_FAILED,
            remedy=f"Set {self._key} to a directory that this user may write.",
        )

    def _taken(self) -> Conflict:
        holder, told = _read_holder(self._path)
        more = f", STATE_DIR {told}" if told else ""
        return Conflict(
            f"Another edged {self._what} (PID {holder}{more}) works with {self._path.parent}.",
            data={"pid": holder, "state_dir": told} if told else {"pid": holder},
            remedy=f"Use that one, stop it first, or give this one another {self._key}.",
        )

    def release(self) -> None:
        """Let go; the file stays, because removing it would race with the next holder."""
        if self._file is not None:
            self._file.close()
            self._file = None


def lock_holder(state_dir: Path) -> str:
    """The PID of the engine that works with a state directory, "unknown", or empty: there is none.

    A PID in a file alone proves nothing: after a restart of the machine it is somebody else's.
    """
    path = state_dir / LOCK_FILE
    try:
        with open_update(path) as file:
            return "" if _try_lock(file) else _read_holder(path)[0]
    except OSError:
        return ""


def lock_data(data_dir: Path, state_dir: Path) -> StateLock | None:
    """The lock on DATA_DIR, held; ``None`` where nothing can be locked there.

    A directory that cannot be written stops no engine: its recordings say so themselves.

    Raises:
        Conflict: another engine holds it; its PID and STATE_DIR are in the sentence.
    """
    lock = StateLock(
        data_dir,
        name=DATA_LOCK_FILE,
        key="DATA_DIR",
        told=f"{state_dir.absolute()}\n",
        locked_at=DATA_LOCKED_AT,
    )
    try:
        lock.take()
    except Failed as unusable:
        # Loaded here because first aid waits for what is loaded before it.
        import structlog

        structlog.get_logger("edged.engine").warning("data_dir_not_locked", error=str(unusable))
        return None
    return lock


def _try_lock(file: IO[Any], locked_at: int = LOCKED_AT) -> bool:
    """False if somebody else holds it; raises OSError where there are no locks."""
    try:
        if sys.platform == "win32":
            file.seek(locked_at)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD:
            return False
        raise
    return True


def _read_holder(path: Path) -> tuple[str, str]:
    """PID and what else is told; of a holder that is just writing it, unknown."""
    try:
        pid, _, told = read_text(path, errors="replace").partition("\n")
    except OSError:
        pid, told = "", ""
    return pid.strip() or "unknown", told.strip()


STEPS: Final = 10
"""Of niceness: about nine tenths of a processor that one other program wants, too."""


def hurry(pid: int) -> None:
    """Put a program that was just started before others, if the system allows it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) - STEPS)


def calm() -> None:
    """Share with others again, as whoever started us does."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
            os.setpriority(os.PRIO_PROCESS, 0, wanted)


OFF: Final = {"state": "off", "since_ms": 0, "last_error": "", "last_error_ms": 0}


def relay_link(facts: dict[str, Any]) -> dict[str, Any]:
    """The connection to the relay, by the supervisor's file."""
    found = facts.get("relay")
    if isinstance(found, dict):
        return {**OFF, **found}
    return {**OFF, "last_error": "" if facts else "No supervisor is running."}
