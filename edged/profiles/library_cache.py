"""The profile library as it was read last time, for a quick start.

Reading YAML with places takes a second for a few dozen profiles; most starts find the same files.
The cache is keyed by the content of every file and by the code that reads them, so it can only hold
what reading would give again; whatever is odd about it, the files are read instead. It lies in the
state directory, which is as trusted as the database there, or beside the shipped profiles, where
``python -m edged.profiles.library_cache DIRECTORY`` puts it when they are installed; still only
values that profiles are made of are taken from it.

An engine works a handful of models: the others stay in the file, which is held open. Whoever writes
it anew puts another in its place, so that what was looked at once does not change.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from edged.errors import ErrorCode, Failed
from edged.files import open_bytes, open_descriptor, read_bytes, resolved, write_atomically
from edged.profiles.library import MAX_BYTES, Packed, PackedProfiles, ProfileLibrary, pack, unpack
from edged.record import record
from edged.yaml.tree import MapNode

CACHE: Final = "profiles.cache"
"""The name of an engine's own, in STATE_DIR."""
FORMAT: Final = b"edged-profiles-5"
PACKAGE: Final = Path(__file__).parents[1]
WARMED: Final = ".library.cache"
CODE: Final = (
    "profiles/*.py", "profiles/format/*.py", "schema/*.py", "scpi/*.py", "yaml/*.py", "patterns.py",
)  # fmt: skip
"""What decides how a profile is read."""
MAX_CACHE_BYTES: Final = 64 * 1024 * 1024
LENGTH: Final = 8
"""Bytes that say how long the index is."""
PIECE: Final = 256 * 1024


def load_cached_library(directories: Sequence[Path], cache: Path) -> ProfileLibrary:
    """``load_library``, or what it gave for exactly these files before. Never raises.

    Its profiles are packed: see ``PackedProfiles``.

    Args:
        directories: as for ``load_library``.
        cache: the file that is read, and written anew where it did not fit.
    """
    key = _key(directories)
    return _find(directories, key, cache) or _load_and_keep(directories, key, cache)


def read_library(directories: Sequence[Path], state_dir: Path) -> ProfileLibrary:
    """``load_cached_library`` for commands beside an engine, whose cache is read. Never raises.

    Writes nothing: who runs a command may be another user than the engine's, and a file of theirs
    would be in its way.
    """
    cache = state_dir / CACHE
    found = _find(directories, _key(directories), cache)
    if found is None:
        return _load(directories, _trees_of(directories, cache))
    profiles = found.profiles
    kept = profiles.all_kept() if isinstance(profiles, PackedProfiles) else profiles
    return replace(found, profiles=kept)


def warm(directory: Path) -> Path:
    """Read a directory of profiles now, so that not even the first start has to.

    Returns:
        The file that is found by every start which has this directory alone; starts with others
        besides find the trees beside it.
    """
    place = directory / WARMED
    directories = (directory,)
    _load_and_keep(directories, _key(directories), place)
    return place


def _find(directories: Sequence[Path], key: bytes, cache: Path) -> ProfileLibrary | None:
    places = (cache, *map(_warmed, directories))
    return next((found for place in places if (found := _read(place, key)) is not None), None)


def _load(directories: Sequence[Path], trees: _Trees) -> ProfileLibrary:
    # A start that finds a cache needs no YAML parser and none of the grammar.
    from edged.profiles.loading import load_library

    return load_library(directories, trees.parse)


def _trees_of(directories: Sequence[Path], cache: Path) -> _Trees:
    return _Trees(cache, [*map(_warmed, directories)])


def _warmed(directory: Path) -> Path:
    """The cache in a directory of profiles, which may lie behind a link."""
    return resolved(directory.absolute() / WARMED)


def _load_and_keep(directories: Sequence[Path], key: bytes, cache: Path) -> ProfileLibrary:
    trees = _trees_of(directories, cache)
    data = _encoded(_load(directories, trees))
    trees.keep()
    _keep(data, key, cache)
    return _read(cache, key) or _decoded(data)


def _keep(data: bytes, key: bytes, place: Path) -> None:
    _write(place, key + hashlib.sha256(data).digest() + data)


class _Trees:
    """The trees of files as they were parsed last, by path and content.

    Parsing is nine tenths of reading a profile. Who saves one profile waits for that one, however
    many there are; what they say together is judged anew.
    """

    def __init__(self, cache: Path, warmed: Sequence[Path]) -> None:
        self._place = cache.with_name(f"{cache.name}.trees")
        self._code = _code_key()
        self._kept = _read_trees(self._place, self._code)
        self._before = dict(self._kept)
        for other in warmed:
            self._before |= _read_trees(other.with_name(f"{other.name}.trees"), self._code)
        self._now: dict[bytes, bytes] = {}

    def parse(self, text: str, path: Path) -> MapNode:
        from edged.profiles.loading import parse_file

        digest = hashlib.sha256(f"{path}\n{text}".encode()).digest()
        packed = self._before.get(digest)
        root: MapNode
        if packed is None:
            root = parse_file(text, path)
            packed = pack(root)
        else:
            root = unpack(packed)
        self._now[digest] = packed
        return root

    def keep(self) -> None:
        """Write those that were asked for, where they are others than before."""
        if self._now.keys() != self._kept.keys():
            _keep(pack(self._now), self._code, self._place)


def _read_trees(place: Path, key: bytes) -> dict[bytes, bytes]:
    size = hashlib.sha256().digest_size
    try:
        if not place.is_file() or place.stat().st_size > MAX_CACHE_BYTES:
            return {}
        found = read_bytes(place)
        digest, data = found[len(key) : len(key) + size], found[len(key) + size :]
        if not found.startswith(key) or hashlib.sha256(data).digest() != digest:
            return {}
        trees: dict[bytes, bytes] = unpack(data)
    except Exception:  # noqa: BLE001 - as in _read below
        return {}
    return trees


def _encoded(library: ProfileLibrary) -> bytes:
    """The length of the index, the index, and the profiles one behind another."""
    bodies: dict[str, bytes] = {key: pack(profile) for key, profile in library.profiles.items()}
    places: dict[str, tuple[int, int]] = {}
    at = 0
    for key, body in bodies.items():
        places[key] = (at, len(body))
        at += len(body)
    index = pack((library.complaints, dict(library.heads), places))
    return b"".join((len(index).to_bytes(LENGTH, "big"), index, *bodies.values()))


def _decoded(data: bytes) -> ProfileLibrary:
    """What a cache holds that could not be written."""
    begins = LENGTH + int.from_bytes(data[:LENGTH], "big")
    return _library(
        data[LENGTH:begins], lambda at, length: data[begins + at : begins + at + length]
    )


def _library(index: bytes, packed: Callable[[int, int], Packed]) -> ProfileLibrary:
    complaints, heads, places = unpack(index)
    profiles = {key: packed(at, length) for key, (at, length) in places.items()}
    return ProfileLibrary(profiles=PackedProfiles(profiles), complaints=complaints, known=heads)


def _key(directories: Sequence[Path]) -> bytes:
    """A digest of every file that reading would look at, and of the code that would read it."""
    digest = hashlib.sha256(_code_key())
    for directory in directories:
        digest.update(f"{directory}\n".encode())
        for path in _files(directory):
            digest.update(f"{path.name}\n".encode())
            digest.update(_digest_of(path))
    return digest.digest()


def _code_key() -> bytes:
    digest = hashlib.sha256(FORMAT)
    for path in sorted(file for code in CODE for file in PACKAGE.glob(code)):
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
        with open_bytes(cache) as file:
            if file.read(len(key)) != key:
                return None
            # Profiles are fetched when they are asked for, so whatever is damaged is found here.
            digest = file.read(hashlib.sha256().digest_size)
            length = file.read(LENGTH)
            index = file.read(min(int.from_bytes(length, "big"), MAX_CACHE_BYTES))
            begins = file.tell()
            found = hashlib.sha256(length + index)
            while piece := file.read(PIECE):
                found.update(piece)
            if found.digest() != digest:
                return None
            return _opened(cache, os.fstat(file.fileno()), index, begins)
    except Exception:  # noqa: BLE001 - a damaged pickle may raise anything; the files are read then
        return None


if sys.platform == "win32":

    def _opened(
        cache: Path, _looked_at: os.stat_result, index: bytes, begins: int
    ) -> ProfileLibrary | None:
        """The library of a cache; a file that is open cannot be replaced here, so it is read."""
        data = read_bytes(cache)[begins:]
        return _library(index, lambda at, length: data[at : at + length])

else:

    def _opened(
        cache: Path, looked_at: os.stat_result, index: bytes, begins: int
    ) -> ProfileLibrary | None:
        """The library of a cache, whose profiles stay in the file."""
        shelf = _Shelf(open_descriptor(cache, os.O_RDONLY))
        if not os.path.samestat(looked_at, os.fstat(shelf.descriptor)):
            return None
        return _library(index, lambda at, length: _Shelved(shelf, begins + at, length))

    class _Shelf:
        """A cache file that is open for as long as a profile in it may be asked for."""

        def __init__(self, descriptor: int) -> None:
            self.descriptor = descriptor
            weakref.finalize(self, os.close, descriptor)

    @record(kw_only=False)
    class _Shelved:
        """One packed profile in an open cache file."""

        shelf: _Shelf
        at: int
        length: int

        def __call__(self) -> bytes:
            """Its bytes.

            Raises:
                Failed: STORE_FAILED, the disk does not give them.
            """
            try:
                data = os.pread(self.shelf.descriptor, self.length, self.at)
            except OSError:
                data = b""
            if len(data) != self.length:
                raise Failed(
                    "The cache of profiles cannot be read any more.",
                    code=ErrorCode.STORE_FAILED,
                    remedy="Look at the disk of STATE_DIR, then start edged again.",
                )
            return data


def _write(cache: Path, data: bytes) -> None:
    # A start without a cache is slower, and nothing else.
    with contextlib.suppress(OSError):
        write_atomically(cache, data, mode=0o600, sync=False)


if __name__ == "__main__":
    for word in sys.argv[1:]:
        warm(Path(word).resolve())
