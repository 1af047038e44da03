"""The owner's bench file as it holds: what it says now, or what it said when it was good last.

A file that was there and is gone, cannot be read or is broken lifts no limit: a network home that
hangs, an editor between its two renames and a typing error look like that. So the last good text is
kept in the state directory, under a name made from the file's path, and goes on to hold, over
restarts too. Only what the owner writes lifts limits: a file that holds ``format: 1`` alone.

A file that was never there is no fault.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from edged.errors import Invalid
from edged.files import read_bytes, read_text, remove, write_atomically
from edged.host import kept_copy
from edged.profiles.bench_file import BenchFile, SeenUnit, parse_bench
from edged.profiles.library import ProfileLibrary, read_file
from edged.record import record
from edged.schema.fields import complaint
from edged.yaml.tree import Mark

OWNERS_ALONE: Final = 0o600
PUT_BACK: Final = "Put it back; to lift its limits, write a file that holds only: format: 1"


@record
class BenchReading:
    """One look at the file.

    Attributes:
        bench: what is to hold.
        text: what the file says, where it is good; else ``None``.
        fault: why the file itself cannot be used, and what to do; empty where it can be used, and
            where there never was one.
    """

    bench: BenchFile
    text: str | None = None
    fault: str = ""


class BenchCopy:
    """A bench file, and the copy of its last good state.

    Args:
        path: BENCH_FILE.
        state_dir: STATE_DIR.

    Attributes:
        since_ms: wall time since which the file cannot be used; ``None`` where it can.
        unkept: why the copy could not be written; empty where it stands.
    """

    def __init__(self, path: Path, state_dir: Path) -> None:
        self.path = path
        self.copy = kept_copy(state_dir, path)
        self.since_ms: int | None = None
        self.unkept = ""
        self._since_file = self.copy.with_suffix(".fault")

    def read(
        self,
        library: ProfileLibrary,
        last: BenchFile | None = None,
        seen: Sequence[SeenUnit] = (),
    ) -> BenchReading:
        """What is to hold now.

        Args:
            library: the profiles there are.
            last: what held until now; ``None`` at a start, where the copy takes its place.
            seen: the units that were met; an entry of theirs is judged by their own profile.

        Raises:
            Invalid: the file cannot be used, and nothing good is known of it.
        """
        try:
            text = self._text()
            if text is not None:
                bench = parse_bench(text, str(self.path), library, seen)
                return BenchReading(bench=bench, text=text)
            if last is None and not _is_there(self.copy):
                return BenchReading(bench=BenchFile())
            # What never was there and is not there now is as it was.
            if last is not None and not last.units and not _is_there(self.copy):
                return BenchReading(bench=last)
            raise complaint(_start(self.path), "The file was there and is gone.", PUT_BACK)
        except Invalid as error:
            bench = last if last is not None else self._kept(library, error)
            return BenchReading(bench=bench, fault=str(error))

    def keep(self, reading: BenchReading, now_ms: int) -> None:
        """What was read is in force: keep it for the next start, or remember since when it is not.

        A state directory that cannot be written costs the copy and nothing else: ``unkept``.
        """
        if reading.fault:
            if self.since_ms is None:
                self.since_ms = self.faulty_since() or now_ms
                with contextlib.suppress(OSError):
                    write_atomically(self._since_file, json.dumps(self.since_ms))
            return
        self.since_ms = None
        with contextlib.suppress(OSError):
            remove(self._since_file)
        if reading.text is not None:
            self._write(reading.text)

    def faulty_since(self) -> int | None:
        """Since when an engine has known that the file cannot be used, in wall milliseconds."""
        try:
            since = json.loads(read_text(self._since_file))
        except (OSError, ValueError):
            return None
        return since if isinstance(since, int) else None

    def place(self) -> Path:
        """The file itself, or its copy where the file is gone."""
        return self.path if _is_there(self.path) or not _is_there(self.copy) else self.copy

    def peek(self) -> object:
        """Another value where reading the file would bring something else; for one in a fault."""
        try:
            return self._text()
        except Invalid as error:
            return (error.message,)

    def _text(self) -> str | None:
        """The file's text, or ``None`` where there certainly is no file.

        Raises:
            Invalid: it cannot be read, or cannot be told to be missing.
        """
        try:
            os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            message = f"The file cannot be read: {reason}."
            raise complaint(_start(self.path), message) from None
        return read_file(self.path)

    def _kept(self, library: ProfileLibrary, why: Invalid) -> BenchFile:
        if not _is_there(self.copy):
            raise why
        try:
            return parse_bench(self._copied(), str(self.copy), library)
        except Invalid as error:
            raise Invalid(
                f"{why.message} Nor can the copy of its last good state be used: {error.message}",
                code=why.code,
                data=why.data,
                remedy=why.remedy or error.remedy,
            ) from error

    def _copied(self) -> str:
        try:
            return read_text(self.copy)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise complaint(_start(self.copy), f"The file cannot be read: {reason}.") from None

    def _write(self, text: str) -> None:
        try:
            if _is_there(self.copy) and read_bytes(self.copy) == text.encode():
                self.unkept = ""
                return
            write_atomically(self.copy, text, mode=OWNERS_ALONE)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self.unkept = f"{self.copy} cannot be written: {reason}."
            return
        self.unkept = ""


def _start(path: Path) -> Mark:
    return Mark(path=str(path), line=1, column=1)


def _is_there(path: Path) -> bool:
    """What may be there and cannot be looked at counts as there."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
