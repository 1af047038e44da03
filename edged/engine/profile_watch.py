"""Hot reload: profiles, the owner's bench file and verification reports, looked at every second.

A thread of its own looks, and has changed profiles read by another process; the event loop only
hears what is to hold from now on, when all of it was read and understood. What is broken leaves the
old in force, and is told: in the log, in get_status and by doctor.

Polling and not inotify: it sees network directories, whole directories that are renamed, and is one
thing on every platform. A look is a few dozen ``stat`` calls.

Reads profile directories into the cache, in a process of its own.

Reading YAML with places takes a second of Python for a few dozen profiles. In the engine's own
process that second would be taken from the event loop, whichever thread does it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from edged.clock import Clock
from edged.discovery.registering import Knowledge
from edged.log import surviving
from edged.profiles.authoring.verification import Trial, digest_of, load_reports
from edged.profiles.bench_file import SeenUnit
from edged.profiles.library import ProfileLibrary, succeeded
from edged.profiles.library_cache import load_cached_library
from edged.store.bench_copy import BenchCopy, BenchReading

LOOK_EVERY_S: Final = 1.0
READ_WITHIN_S: Final = 120.0
TAKE_WITHIN_S: Final = 60.0
ANSWER_LOOK_S: Final = 0.02
END_WITHIN_S: Final = 2.0
MOST_FILES: Final = 2_000
MOST_TOLD: Final = 20
_SUFFIXES: Final = (".yaml", ".yml")
Sight = Mapping[str, tuple[int, int, int, int]]
Take = Callable[[Knowledge], Awaitable[list[str]]]
Met = Callable[[], Sequence[SeenUnit]]
R = TypeVar("R")


class ProfileWatch:
    """Reads what there is at the start, and again whenever it changes.

    Args:
        directories: PROFILE_DIRS.
        bench: BENCH_FILE, with the copy of its last good state.
        reports: where verification reports lie.
        cache: the profile library as it was read last.
        clock: for the deadline of the thread that waits for the loop.

    Attributes:
        knowledge: what is in force.
        changes: how often something else came into force.

    Raises:
        Invalid: the bench file cannot be used, nor a copy of it; at the start that is no time to
            guess.
    """

    def __init__(
        self,
        *,
        directories: Sequence[Path],
        bench: BenchCopy,
        reports: Path,
        cache: Path,
        clock: Clock,
    ) -> None:
        self._directories = tuple(directories)
        self._bench = bench
        self._reports_place = reports
        self._cache = cache
        self._clock = clock
        # Before reading: a file that changes meanwhile is seen as changed at the first look.
        self._read_ms = clock.wall_ms()
        self._seen = self._look()
        library = load_cached_library(self._directories, cache)
        self._met: Met = tuple
        self._reading = bench.read(library)
        bench.keep(self._reading, clock.wall_ms())
        # What a look at a file in a fault gave last.
        self._glimpse: object = bench.peek() if self._reading.fault else None
        self.knowledge = Knowledge(library=library, bench=self._reading.bench)
        self._reports: Mapping[str, tuple[dict[str, Any], ...]] = {}
        self._kept: tuple[str, ...] = ()
        self.changes = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._reader: subprocess.Popen[bytes] | None = None
        self._log = structlog.get_logger("edged.profiles")

    def start(self, take: Take, met: Met) -> None:
        """Begin, on the loop.

        Args:
            take: is awaited there with whatever is to hold from then on.
            met: gives the units that were met, with their profiles; called there too.
        """
        loop = asyncio.get_running_loop()
        self._met = met
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

        ``kept`` are keys whose file is broken now, so that the profile read before stays in force;
        ``read_ms`` is when the files were read that are in force: a later change is not.
        """
        library = self.knowledge.library
        return {
            "count": len(library.profiles),
            "complaints": [c.sentence for c in library.complaints[:MOST_TOLD]],
            "kept": list(self._kept),
            "bench_error": self._reading.fault,
            "bench_error_since_ms": self._bench.since_ms,
            "bench_copy_error": self._bench.unkept,
            "reloads": self.changes,
            "read_ms": self._read_ms,
        }

    def verified_on(self, key: str) -> tuple[dict[str, Any], ...]:
        """The units on which a profile was tried, the latest first."""
        return self._reports.get(key, ())

    # On the thread

    def _watch(self, loop: asyncio.AbstractEventLoop, take: Take) -> None:
        self._read_reports(self.knowledge.library)
        pending: Sight | None = None
        while not self._stopping.wait(LOOK_EVERY_S):
            before, pending = pending, None
            with surviving(self._log, "profile_reload_failed"):
                pending = self._look_again(before, loop, take)

    def _look_again(
        self, pending: Sight | None, loop: asyncio.AbstractEventLoop, take: Take
    ) -> Sight | None:
        """One look; gives what was seen for the first time and is not taken in yet."""
        now = self._look()
        if now == self._seen:
            self._look_at_bench(loop, take)
            return None
        if now != pending:
            # Somebody may still be writing; what stands for a second is meant.
            return now
        before, self._seen = self._seen, now
        self._change(before, now, loop, take)
        return None

    def _look_at_bench(self, loop: asyncio.AbstractEventLoop, take: Take) -> None:
        """A bench file in a fault may heal without a trace: a disk that could not be read can."""
        if self._bench.unkept:
            self._bench.keep(self._reading, self._clock.wall_ms())
        if self._reading.fault and self._bench.peek() != self._glimpse:
            self._take_in(loop, take)

    def _change(
        self, before: Sight, now: Sight, loop: asyncio.AbstractEventLoop, take: Take
    ) -> None:
        changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        reports = str(self._reports_place)
        if all(str(Path(path).parent) == reports for path in changed):
            self._read_reports(self.knowledge.library)
            return
        self._take_in(loop, take)

    def _take_in(self, loop: asyncio.AbstractEventLoop, take: Take) -> None:
        met = self._result_of(asyncio.run_coroutine_threadsafe(_told_of(self._met), loop))
        if met is None:
            return
        began_ms = self._clock.wall_ms()
        knowledge, kept, reading = self._read(met)
        if self._stopping.is_set():
            return
        ids = self._result_of(asyncio.run_coroutine_threadsafe(_taken(take, knowledge), loop))
        if ids is None:
            return
        self.knowledge, self._kept, self._reading = knowledge, kept, reading
        self._bench.keep(reading, self._clock.wall_ms())
        self.changes += 1
        self._read_ms = began_ms
        self._read_reports(knowledge.library)
        self._tell(knowledge.library, ids)

    def _result_of(self, future: Future[R]) -> R | None:
        """What the loop answers; ``None`` where the daemon ends before it does."""
        deadline = self._clock.monotonic() + TAKE_WITHIN_S
        while not future.done() and self._clock.monotonic() < deadline:
            if self._stopping.wait(ANSWER_LOOK_S):
                future.cancel()
                return None
        return future.result(0)

    def _read(self, met: Sequence[SeenUnit]) -> tuple[Knowledge, tuple[str, ...], BenchReading]:
        """What is to hold, the keys whose old profile does, and what the bench file gave."""
        self._warm_cache()
        after = load_cached_library(self._directories, self._cache)
        library, kept = succeeded(self.knowledge.library, after)
        self._glimpse = self._bench.peek()
        reading = self._bench.read(library, self.knowledge.bench, met)
        return Knowledge(library=library, bench=reading.bench), kept, reading

    def _warm_cache(self) -> None:
        """Have the files read by another process; if that fails they are read here."""
        command = [sys.executable, "-m", "edged.engine.profile_watch", str(self._cache)]
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
        found: dict[str, tuple[int, int, int, int]] = {}
        places = [(directory, _SUFFIXES) for directory in self._directories]
        for directory, suffixes in (*places, (self._reports_place, (".json",))):
            try:
                paths = [path for path in directory.iterdir() if path.name.endswith(suffixes)]
            except OSError:
                continue
            for path in sorted(paths)[:MOST_FILES]:
                found[str(path)] = _sight_of(path)
        found[str(self._bench.path)] = _sight_of(self._bench.path)
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
        if self._reading.fault:
            self._log.warning("bench_file_refused", reason=self._reading.fault)


async def _told_of(met: Met) -> Sequence[SeenUnit]:
    return met()


async def _taken(take: Take, knowledge: Knowledge) -> list[str]:
    return await take(knowledge)


def _sight_of(path: Path) -> tuple[int, int, int, int]:
    try:
        status = path.stat()
    except (OSError, RuntimeError, ValueError):
        return (0, 0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode)


def _told(trials: Sequence[Trial], digest: str) -> tuple[dict[str, Any], ...]:
    return tuple(trial.told(is_current=bool(digest) and trial.digest == digest) for trial in trials)


def main(arguments: Sequence[str]) -> int:
    """``python -m edged.engine.profile_watch CACHE DIRECTORY…``."""
    cache, *directories = map(Path, arguments)
    load_cached_library(directories, cache)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
