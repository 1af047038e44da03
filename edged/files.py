"""Files in STATE_DIR and DATA_DIR: the one module that opens, makes, moves and removes them.

None of them is reached through a symbolic link. Otherwise a link that another user puts there would
have the engine show a file to any caller, or overwrite one, that is not the other user's to read or
write. The two configured directories may lie behind links: they are resolved once, when the
configuration is read (``resolved``), and no part of a path may be a link from then on.

On Linux a path is walked from the root by descriptors of its directories, so that nothing can be
exchanged between a look and its use. Windows has no such calls: there each part is looked at before
the file is opened. SQLite opens by name on both; ``refuse_link`` looks before it does.

Only regular files are opened: a FIFO would make its reader wait for ever.

All functions raise ``OSError``; a link is ``errno.ELOOP``.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

OWNERS_ALONE: Final = 0o600
LINK: Final = "it is a symbolic link, or lies behind one"


def resolved(directory: Path) -> Path:
    """A configured directory without symbolic links in its path, whether it is there or not."""
    return Path(os.path.realpath(directory)) if directory.is_absolute() else directory


if sys.platform == "win32":
    FLAGS: Final[int] = vars(os).get("O_BINARY", 0) | vars(os).get("O_NOINHERIT", 0)
    LINK_TAGS: Final = (0xA000000C, 0xA0000003)
    """Those of symbolic links, and of junctions and mounted disks."""
    VOLUME: Final = "\\\\?\\Volume{"
    """What a directory leads to at which a disk is mounted, and which is no link therefore."""

    @contextlib.contextmanager
    def _place(path: Path) -> Iterator[tuple[str, None]]:
        """The path, of which no part is a link now."""
        path = path.absolute()
        for part in (*reversed(path.parents), path):
            with contextlib.suppress(FileNotFoundError):
                is_link = getattr(os.lstat(part), "st_reparse_tag", 0) in LINK_TAGS
                if is_link and not str(part.readlink()).startswith(VOLUME):
                    raise OSError(errno.ELOOP, LINK, str(part))
        yield str(path), None

    @contextlib.contextmanager
    def _inside(path: Path) -> Iterator[str | int]:
        """A directory, as ``os.scandir`` takes it."""
        with _place(path) as (name, _):
            yield name

else:
    FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    DIRECTORY: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    PASSED: Final[int] = DIRECTORY | vars(os)["O_PATH"]
    """To enter a directory it need not be readable."""

    @contextlib.contextmanager
    def _place(path: Path) -> Iterator[tuple[str, int]]:
        """The name of a file and the descriptor of its directory, reached without a link."""
        path = path.absolute()
        directory = os.open("/", PASSED)
        try:
            for part in path.parts[1:-1]:
                inner = _entered(part, directory, PASSED)
                os.close(directory)
                directory = inner
            yield path.name, directory
        except OSError as error:
            # By a name in a directory nobody finds the file that is meant.
            reason = LINK if error.errno == errno.ELOOP else error.strerror
            raise OSError(error.errno, reason, str(path)) from error
        finally:
            os.close(directory)

    def _entered(name: str, directory: int, flags: int) -> int:
        try:
            return os.open(name, flags, dir_fd=directory)
        except NotADirectoryError:
            # What Linux says of a link, too.
            if stat.S_ISLNK(os.lstat(name, dir_fd=directory).st_mode):
                raise OSError(errno.ELOOP, LINK, name) from None
            raise

    @contextlib.contextmanager
    def _inside(path: Path) -> Iterator[str | int]:
        """A directory, as ``os.scandir`` takes it."""
        with _place(path) as (name, directory):
            listed = _entered(name, directory, DIRECTORY)
        try:
            yield listed
        finally:
            os.close(listed)


def open_descriptor(path: Path, flags: int, mode: int = OWNERS_ALONE) -> int:
    """A descriptor of a regular file.

    Args:
        path: the file; its directory must be there.
        flags: of ``os.open``.
        mode: who may read and write a file that is made; the umask takes away from that.
    """
    with _place(path) as (name, directory):
        handle = os.open(name, flags | FLAGS, mode, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return handle


class KeptFile:
    """A regular file that stays open, read and written at its beginning.

    While it is open no other file has its place, so a look at the name shows whether it was deleted
    or exchanged.

    Args:
        path: the file; its directory must be there.
        flags: of ``os.open``.
    """

    def __init__(self, path: Path, flags: int) -> None:
        self._name = str(path)
        self._handle = open_descriptor(path, flags)
        found = os.fstat(self._handle)
        self._place = (found.st_dev, found.st_ino)

    def look(self, size: int) -> tuple[int, bytes] | None:
        """Its size, and at most ``size`` bytes from its beginning.

        ``None`` where its name leads to nothing, or to another file.
        """
        try:
            found = os.lstat(self._name)
        except FileNotFoundError:
            return None
        if (found.st_dev, found.st_ino) != self._place:
            return None
        if sys.platform == "win32":
            os.lseek(self._handle, 0, os.SEEK_SET)
            start = os.read(self._handle, size)
        else:
            start = os.pread(self._handle, size, 0)
        return found.st_size, start

    def write(self, data: bytes) -> None:
        """Put these over the bytes at the beginning, in one write."""
        if sys.platform == "win32":
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, data)
        else:
            os.pwrite(self._handle, data, 0)

    def close(self) -> None:
        """Let go of it. Only once."""
        os.close(self._handle)


def _opener(name: str, flags: int) -> int:
    return open_descriptor(Path(name), flags)


def open_bytes(path: Path) -> io.BufferedReader:
    """A file for reading."""
    return open(path, "rb", opener=_opener)


def open_text(path: Path) -> io.TextIOWrapper:
    """A UTF-8 file for reading, with the line ends that it has."""
    return open(path, encoding="utf-8", newline="", opener=_opener)


def open_update(path: Path) -> io.BufferedRandom:
    """A file that is there, for reading and writing."""
    return open(path, "r+b", opener=_opener)


def open_appending(path: Path, mode: int) -> io.TextIOWrapper:
    """A UTF-8 file for reading and for writing at its end; made if there is none."""
    handle = open_descriptor(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode)
    return os.fdopen(handle, "a+", encoding="utf-8")


def read_bytes(path: Path) -> bytes:
    """All of a file."""
    with open_bytes(path) as file:
        return file.read()


def read_text(path: Path, errors: str = "strict") -> str:
    """All of a UTF-8 file; ``errors`` as for ``bytes.decode``."""
    return read_bytes(path).decode("utf-8", errors)


def make_directory(path: Path, *, exist_ok: bool = True) -> None:
    """Make a directory, and those above it that are missing.

    Raises:
        FileExistsError: it is there, and must not be.
    """
    try:
        _make(path)
    except FileNotFoundError:
        make_directory(path.parent)
        _make(path)
    except FileExistsError:
        if not exist_ok:
            raise
        # A link, or a file, is none.
        names_in(path)


def _make(path: Path) -> None:
    with _place(path) as (name, directory):
        os.mkdir(name, dir_fd=directory)


def names_in(path: Path) -> list[str]:
    """The names of what is in a directory."""
    with _inside(path) as listed, os.scandir(listed) as entries:
        return [entry.name for entry in entries]


def remove(path: Path) -> None:
    """Remove a file, or a link; nothing happens if there is none."""
    with contextlib.suppress(FileNotFoundError), _place(path) as (name, directory):
        os.unlink(name, dir_fd=directory)


def remove_directory(path: Path) -> None:
    """Remove an empty directory."""
    with _place(path) as (name, directory):
        os.rmdir(name, dir_fd=directory)


def move(source: Path, target: Path) -> None:
    """Give a file another name; a file or a link that has it is replaced."""
    with _place(source) as (old, old_directory), _place(target) as (new, new_directory):
        os.replace(old, new, src_dir_fd=old_directory, dst_dir_fd=new_directory)


def sync_directory(path: Path) -> None:
    """Have the names of new files survive a power cut; where directories can be synced."""
    with _inside(path) as directory:
        if isinstance(directory, int):
            os.fsync(directory)


def write_atomically(
    path: Path, text: str | bytes, *, mode: int = 0o666, sync: bool = True
) -> None:
    """Write a small file so that a reader sees the old or the new content, never half of it.

    Args:
        path: the file; its directory is made.
        text: written as UTF-8, with the line ends that it has.
        mode: who may read and write it; the process's umask takes away from that.
        sync: return only when it is on the disk.

    Raises:
        OSError: the directory cannot be made or written.
    """
    make_directory(path.parent)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    remove(draft)
    try:
        with open(_draft(draft, mode), "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        move(draft, path)
    except OSError:
        # A full disk leaves an empty draft, which nobody would look for.
        with contextlib.suppress(OSError):
            remove(draft)
        raise


def _draft(path: Path, mode: int) -> int:
    return open_descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


def keep_secret(path: Path, *, of: Callable[[bytes], bytes], make: Callable[[], bytes]) -> bytes:
    """The secret in a file that only its owner can read; made if there is none, or no good one.

    Of two processes that make one at the same time, both get the same.

    Args:
        path: the file; its directory is made.
        of: gives the secret in what the file holds, or nothing if that is no secret.
        make: gives what a new file is to hold.
    """
    kept = read_secret(path, of=of)
    if kept:
        return kept
    make_directory(path.parent)
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with open(_draft(draft, OWNERS_ALONE), "wb") as file:
        file.write(make())
        file.flush()
        os.fsync(file.fileno())
    try:
        # A link, not a rename: of two the first one wins.
        with contextlib.suppress(FileExistsError), _place(draft) as (name, directory):
            os.link(name, _beside(name, path), src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        remove(draft)
    kept = read_secret(path, of=of)
    if kept:
        return kept
    # What has the name is no secret: it is spoiled, or a symbolic link.
    remove(path)
    return keep_secret(path, of=of, make=make)


def _beside(name: str, path: Path) -> str:
    """The name of a file in the directory of ``name``, as ``_place`` has it."""
    return os.path.join(os.path.dirname(name), path.name)  # noqa: PTH118, PTH120 (a name alone, too)


def read_secret(path: Path, *, of: Callable[[bytes], bytes]) -> bytes:
    """The secret in a file; empty if there is none, or no good one."""
    try:
        return of(read_bytes(path))
    except (FileNotFoundError, IsADirectoryError):
        return b""
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL):
            raise
        return b""


def refuse_link(path: Path) -> None:
    """Raise ``errno.ELOOP`` if a path is a link or lies behind one: for those who open by name."""
    with contextlib.suppress(FileNotFoundError), _place(path) as (name, directory):
        if stat.S_ISLNK(os.lstat(name, dir_fd=directory).st_mode):
            raise OSError(errno.ELOOP, LINK, str(path))
