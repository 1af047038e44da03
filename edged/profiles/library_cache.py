"""The profile library as it was read last time, for a quick start.

Reading YAML with places takes a second for a few dozen profiles; most starts find the same files.
The cache is keyed by the content of every file and by the code that reads them, so it can only hold
what reading would give again; whatever is odd about it, the files are read instead. It lies in the
state directory, which is as trusted as the database there, or beside the shipped profiles, where
``python -m edged.profiles.library_cache DIRECTORY`` puts it when they are installed; still only
values that profiles are made of are taken from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from edged.profiles.library import MAX_BYTES, PackedProfiles, ProfileLibrary, pack, unpack

__all__ = ["load_cached_library", "warm"]

FORMAT: Final = b"edged-profiles-3"
PACKAGE: Final = Path(__file__).parents[1]
WARMED: Final = ".library.cache"
CODE: Final = ("profiles/*.py", "profiles/format/*.py", "scpi/*.py", "yaml/*.py", "patterns.py")
"""What decides how a profile is read."""
MAX_CACHE_BYTES: Final = 64 * 1024 * 1024


def load_cached_library(directories: Sequence[Path], cache: Path) -> ProfileLibrary:
    """``load_library``, or what it gave for exactly these files before. Never raises.

    Its profiles are packed: see ``PackedProfiles``.

    Args:
        directories: as for ``load_library``.
        cache: the file that is read, and written anew where it did not fit.
    """
    key = _key(directories)
    for place in (cache, *(directory / WARMED for directory in directories)):
        found = _read(place, key)
        if found is not None:
            return found
    return _load_and_keep(directories, key, cache)


def warm(directory: Path) -> Path:
    """Read a directory of profiles now, so that not even the first start has to.

    Returns:
        The file that is found by every start which has this directory alone.
    """
    place = directory / WARMED
    directories = (directory,)
    _load_and_keep(directories, _key(directories), place)
    return place


def _load_and_keep(directories: Sequence[Path], key: bytes, cache: Path) -> ProfileLibrary:
    # A start that finds a cache needs no YAML parser and none of the grammar.
    from edged.profiles.loading import load_library

    data = _encoded(load_library(directories))
    _write(cache, key + hashlib.sha256(data).digest() + data)
    return _decoded(data)


def _encoded(library: ProfileLibrary) -> bytes:
    packed = {key: pack(profile) for key, profile in library.profiles.items()}
    return pack((library.complaints, dict(library.heads), packed))


def _decoded(data: bytes) -> ProfileLibrary:
    complaints, heads, packed = unpack(data)
    return ProfileLibrary(profiles=PackedProfiles(packed), complaints=complaints, known=heads)


def _key(directories: Sequence[Path]) -> bytes:
    """A digest of every file that reading would look at, and of the code that would read it."""
    digest = hashlib.sha256(FORMAT)
    for path in sorted(file for code in CODE for file in PACKAGE.glob(code)):
        digest.update(f"{path.name}\n".encode())
        digest.update(_digest_of(path))
    for directory in directories:
        digest.update(f"{directory}\n".encode())
        for path in _files(directory):
            digest.update(f"{path.name}\n".encode())
            digest.update(_digest_of(path))
    return digest.digest()


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError:
        return []


def _digest_of(path: Path) -> bytes:
    """Of the content, where it would be read; of what else is there only what that is.

    Opening a FIFO waits for a writer for ever, and a device may never end.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return f"kind {stat.S_IFMT(status.st_mode)}".encode()
        if status.st_size > MAX_BYTES:
            return f"size {status.st_size}".encode()
        with path.open("rb") as file:
            return hashlib.sha256(file.read(MAX_BYTES)).digest()
    except (OSError, RuntimeError, ValueError) as error:
        return str(error).encode()


def _read(cache: Path, key: bytes) -> ProfileLibrary | None:
    try:
        if not cache.is_file():
            return None
        with cache.open("rb") as file:
            if file.read(len(key)) != key:
                return None
            # Profiles are unpacked when they are asked for, so whatever is damaged is found here.
            digest, data = file.read(hashlib.sha256().digest_size), file.read(MAX_CACHE_BYTES)
        return _decoded(data) if hashlib.sha256(data).digest() == digest else None
    except Exception:  # noqa: BLE001 - a damaged pickle may raise anything; the files are read then
        return None


def _write(cache: Path, data: bytes) -> None:
    draft = cache.with_name(f".{cache.name}.{os.getpid()}")
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        draft.replace(cache)
    except OSError:
        # A start without a cache is slower, and nothing else.
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


if __name__ == "__main__":
    for word in sys.argv[1:]:
        warm(Path(word).resolve())
