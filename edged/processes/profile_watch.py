"""Hot reload: profiles, the owner's bench file and verification reports, looked at every second.

A thread of its own looks, and has changed profiles read by another process; the event loop only
hears what is to hold from now on, when all of it was read and understood. What is broken leaves the
old in force, and is told: in the log, in get_status and by doctor.

Polling and not inotify: it sees network directories, whole directories that are renamed, and is one
thing on every platform. A look is a few dozen ``stat`` calls.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import structlog

from edged.clock import Clock
from edged.errors import Invalid
from edged.instruments.scan import Knowledge
from edged.profiles.bench import load_bench
from edged.profiles.library import ProfileLibrary
from edged.profiles.library_cache import load_cached_library
from edged.profiles.succession import succeeded
from edged.profiles.verification import Trial, digest_of, load_reports

__all__ = ["ProfileWatch"]

LOOK_EVERY_S: Final = 1.0
READ_WITHIN_S: Final = 120.0
TAKE_WITHIN_S: Final = 60.0
ANSWER_LOOK_S: Final = 0.02
END_WITHIN_S: Final = 2.0
MOST_FILES: Final = 2_000
MOST_TOLD: Final = 20
_SUFFIXES: Final = (".yaml", ".yml")
Sight = Mapping[str, tuple[int, int, int]]
Take = Callable[[Knowledge], Awaitable[list[str]]]


class ProfileWatch:
    """Reads what there is at the start, and again whenever it changes.

    Args:
        directories: PROFILE_DIRS.
        bench_file: BENCH_FILE.
        reports: where verification reports lie.
        cache: the profile library as it was read last.
        clock: for the deadline of the thread that waits for the loop.

    Attributes:
        knowledge: what is in force.
        changes: how often something else came into force.

    Raises:
        Invalid: the bench file cannot be used; at the start that is no time to guess.
    """

    def __init__(
        self,
        *,
        directories: Sequence[Path],
        bench_file: Path,
        reports: Path,
        cache: Path,
        clock: Clock,
    ) -> None:
        self._directories = tuple(directories)
        self._bench_file = bench_file
        self._reports_place = reports
        self._cache = cache
        self._clock = clock
        # Before reading: a file that changes meanwhile is seen as changed at the first look.
        self._seen = self._look()
        library = load_cached_library(self._directories, cache)
        self.knowledge = Knowledge(library=library, bench=load_bench(bench_file, library))
        self._reports: Mapping[str, tuple[dict[str, Any], ...]] = {}
        self._kept: tuple[str, ...] = ()
        self._bench_error = ""
        self.changes = 0
        self._changed_ms: int | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._reader: subprocess.Popen[bytes] | None = None
        self._log = structlog.get_logger("edged.profiles")

    def start(self, take: Take) -> None:
        """Begin, on the loop; ``take`` is awaited there with whatever is to hold from then on."""
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(
            target=self._watch, args=(loop, take), name="edged-profile-watch", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End; a directory that hangs keeps nobody from ending."""
        self._stopping.set()
        if (reader := self._reader) is not None:
            reader.kill()
        if self._thread is not None:
            self._thread.join(END_WITHIN_S)

    def status(self) -> dict[str, Any]:
        """For get_status and doctor: how many there are, what is broken, and what stays in force.

        ``kept`` are keys whose file is broken now, so that the profile read before stays in force.
        """
        library = self.knowledge.library
        return {
            "count": len(library.profiles),
            "complaints": [c.sentence for c in library.complaints[:MOST_TOLD]],
            "kept": list(self._kept),
            "bench_error": self._bench_error,
            "reloads": self.changes,
            "changed_ms": self._changed_ms,
        }

    def verified_on(self, key: str) -> tuple[dict[str, Any], ...]:
        """The units on which a profile was tried, the latest first."""
        return self._reports.get(key, ())

    # On the thread

    def _watch(self, loop: asyncio.AbstractEventLoop, take: Take) -> None:
        self._read_reports(self.knowledge.library)
        pending: Sight | None = None
        while not self._stopping.wait(LOOK_EVERY_S):
            now = self._look()
            if now == self._seen:
                pending = None
            elif now != pending:
                # Somebody may still be writing; what stands for a second is meant.
                pending = now
            else:
                before, self._seen, pending = self._seen, now, None
                try:
                    self._change(before, now, loop, take)
                except Exception:  # noqa: BLE001 - the top of a thread, which goes on looking
                    self._log.exception("profile_reload_failed")

    def _change(
        self, before: Sight, now: Sight, loop: asyncio.AbstractEventLoop, take: Take
    ) -> None:
        changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        reports = str(self._reports_place)
        if all(str(Path(path).parent) == reports for path in changed):
            self._read_reports(self.knowledge.library)
            return
        knowledge, kept, bench_error = self._read()
        if self._stopping.is_set():
            return
        ids = self._result_of(asyncio.run_coroutine_threadsafe(_taken(take, knowledge), loop))
        if ids is None:
            return
        self.knowledge, self._kept, self._bench_error = knowledge, kept, bench_error
        self.changes += 1
        self._changed_ms = self._clock.wall_ms()
        self._read_reports(knowledge.library)
        self._tell(knowledge.library, ids)

    def _result_of(self, future: Future[list[str]]) -> list[str] | None:
        """What the loop answers; ``None`` where the daemon ends before it does."""
        deadline = self._clock.monotonic() + TAKE_WITHIN_S
        while not future.done() and self._clock.monotonic() < deadline:
            if self._stopping.wait(ANSWER_LOOK_S):
                future.cancel()
                return None
        return future.result(0)

    def _read(self) -> tuple[Knowledge, tuple[str, ...], str]:
        """What is to hold, the keys whose old profile does, and why the old bench file does."""
        self._warm_cache()
        after = load_cached_library(self._directories, self._cache)
        library, kept = succeeded(self.knowledge.library, after)
        try:
            bench = load_bench(self._bench_file, library)
        except Invalid as error:
            return Knowledge(library=library, bench=self.knowledge.bench), kept, str(error)
        return Knowledge(library=library, bench=bench), kept, ""

    def _warm_cache(self) -> None:
        """Have the files read by another process; if that fails they are read here."""
        command = [sys.executable, "-m", "edged.processes.profile_reader", str(self._cache)]
        try:
            self._reader = subprocess.Popen(  # noqa: S603 - our own module and interpreter
                [*command, *map(str, self._directories)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return
        if self._stopping.is_set():
            # ``stop`` may have looked before there was a reader.
            self._reader.kill()
        try:
            self._reader.wait(READ_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._reader.kill()
            self._reader.wait()
        finally:
            self._reader = None

    def _look(self) -> Sight:
        """Every file that matters, with what changes when it is written."""
        found: dict[str, tuple[int, int, int]] = {}
        places = [(directory, _SUFFIXES) for directory in self._directories]
        for directory, suffixes in (*places, (self._reports_place, (".json",))):
            try:
                paths = [path for path in directory.iterdir() if path.name.endswith(suffixes)]
            except OSError:
                continue
            for path in sorted(paths)[:MOST_FILES]:
                found[str(path)] = _sight_of(path)
        found[str(self._bench_file)] = _sight_of(self._bench_file)
        return found

    def _read_reports(self, library: ProfileLibrary) -> None:
        reports = load_reports(self._reports_place)
        self._reports = {
            key: _told(trials, digest_of(library.heads[key]))
            for key, trials in reports.items()
            if key in library.heads
        }

    def _tell(self, library: ProfileLibrary, ids: list[str]) -> None:
        self._log.info("profiles_reloaded", count=len(library.profiles), instruments=ids)
        for complaint in library.complaints:
            self._log.warning("profile_refused", complaint=complaint.sentence)
        if self._kept:
            self._log.warning("profiles_kept", keys=list(self._kept))
        if self._bench_error:
            self._log.warning("bench_file_refused", reason=self._bench_error)


async def _taken(take: Take, knowledge: Knowledge) -> list[str]:
    return await take(knowledge)


def _sight_of(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except (OSError, RuntimeError, ValueError):
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _told(trials: Sequence[Trial], digest: str) -> tuple[dict[str, Any], ...]:
    return tuple(trial.told(is_current=bool(digest) and trial.digest == digest) for trial in trials)
