"""What reading the profile directories gives: the profiles, and what was wrong with the others.

Whole profiles as a few kilobytes of bytes each, and values again when one is asked for.

An engine works a handful of models and knows dozens: unpacked they take 300 KB each,
packed a thirtieth of that, and most of those stay in the file that keeps them. What is packed was
read and judged before; unpacking it takes a millisecond or two.

Profile and bench files: read, and parsed into a tree; what is wrong becomes a complaint.

From the profiles in force to those read anew: whatever is broken now leaves the old in force.

Only what was read and understood replaces anything. A file that is gone is no broken one: its
profile goes with it.
"""

from __future__ import annotations

import enum
import io
import itertools
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from edged.profiles.model import Profile, ProfileHead, head_of
from edged.record import record
from edged.schema.fields import complaint, nearest
from edged.yaml.file import read_text
from edged.yaml.tree import Mark, Node, YamlProblem

ROOMS: Final = ("edged.profiles.", "edged.scpi.", "edged.yaml.")
PLAIN_TYPES: Final = frozenset({"frozenset", "set"})
QUICK: Final = 6
"""zlib's level: more makes it hardly smaller."""


def pack(value: object) -> bytes:
    """Values that profiles are made of, as bytes."""
    return zlib.compress(pickle.dumps(value, protocol=5), QUICK)


def unpack(data: bytes) -> Any:
    """What was packed.

    Raises:
        Exception: of any kind, where the bytes are damaged or hold other values.
    """
    return _RoomUnpickler(io.BytesIO(zlib.decompress(data))).load()


Packed = bytes | Callable[[], bytes]
"""A packed profile, or what fetches it from where it lies."""


class PackedProfiles(Mapping[str, Profile]):
    """Profiles by key, each made anew when it is asked for unless it is ``kept``."""

    def __init__(self, packed: Mapping[str, Packed]) -> None:
        self._packed = packed
        self._kept: dict[str, Profile] = {}

    def __getitem__(self, key: str) -> Profile:
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        packed = self._packed[key]
        profile: Profile = unpack(packed if isinstance(packed, bytes) else packed())
        return profile

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def __contains__(self, key: object) -> bool:
        return key in self._packed

    def with_more(self, more: Mapping[str, Profile]) -> PackedProfiles:
        """These and others, which go before them."""
        return PackedProfiles({**self._packed, **{key: pack(more[key]) for key in more}})

    def all_kept(self) -> PackedProfiles:
        """These, each made once: for a command, which looks at all again and again, and ends."""
        return _KeptProfiles(self._packed)

    def kept(self, key: str) -> Profile:
        """One that instruments work by: all of that model share it from here on.

        Raises:
            KeyError: there is none.
        """
        return self._kept.setdefault(key, self[key])


class _KeptProfiles(PackedProfiles):
    def __getitem__(self, key: str) -> Profile:
        return self._kept.setdefault(key, super().__getitem__(key))


class _RoomUnpickler(pickle.Unpickler):
    """Makes values of profiles, SCPI and YAML, and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        """The class of that name, if it may be made."""
        if module.startswith(ROOMS) or (module == "builtins" and name in PLAIN_TYPES):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return _member
        raise pickle.UnpicklingError(f"{module}.{name} is not a value of a profile")


def _member(kind: object, name: str) -> object:
    """What Python 3.11 pickles an enum's member as a ``getattr`` for; gives members alone."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind[name]
    raise pickle.UnpicklingError(f"{kind!r} is not an enum of a profile")


@record
class Complaint:
    """Why a file was not loaded, and where to look."""

    path: str
    line: int
    column: int
    message: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """All of it, as a compiler writes it."""
        return f"{self.path}:{self.line}:{self.column}: {self.message} {self.remedy}".strip()


class _Each(Iterable[Profile]):
    """See ``ProfileLibrary.each``."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._others = iter(profiles)
        self._made: list[Profile] = []

    def __iter__(self) -> Iterator[Profile]:
        for place in itertools.count():
            if place == len(self._made):
                self._made.extend(itertools.islice(self._others, 1))
            if place == len(self._made):
                return
            yield self._made[place]


@record
class ProfileLibrary:
    """Every profile that could be loaded, by key, and what was wrong with the others.

    ``known`` are their heads, where somebody has them already.
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    complaints: tuple[Complaint, ...] = ()
    known: Mapping[str, ProfileHead] | None = field(default=None, compare=False, repr=False)

    @property
    def heads(self) -> Mapping[str, ProfileHead]:
        """What is known of each profile without unpacking it."""
        if self.known is not None:
            return self.known
        return {key: head_of(profile) for key, profile in self.profiles.items()}

    def with_more(self, more: Mapping[str, Profile]) -> ProfileLibrary:
        """This library and other profiles, which go before its own."""
        own = self.profiles
        return ProfileLibrary(
            profiles=own.with_more(more) if isinstance(own, PackedProfiles) else {**own, **more},
            complaints=self.complaints,
            known={**self.heads, **{key: head_of(profile) for key, profile in more.items()}},
        )

    def each(self) -> Iterable[Profile]:
        """Every profile, to be iterated over many times; each is unpacked once, when reached."""
        return _Each(self.profiles.values())

    def chosen(self, key: str) -> Profile | None:
        """The profile by which an instrument is to be worked; all of one model share it."""
        if isinstance(self.profiles, PackedProfiles) and key in self.profiles:
            return self.profiles.kept(key)
        return self.profiles.get(key)

    def missing(self, key: str) -> str:
        """What to tell of an entry of INSTRUMENTS that names no profile; empty where it does."""
        if key in self.profiles:
            return ""
        hint = nearest(key, self.profiles)
        return f"INSTRUMENTS names the profile {key}, which does not exist. {hint}".strip()


MAX_BYTES: Final = 1024 * 1024
"""A rich profile has 20 kB."""
MAX_DEPTH: Final = 32
MAX_NODES: Final = 50_000
"""Nodes with aliases written out; a rich profile has 2,000."""


def read_file(path: Path) -> str:
    """The text of a file of at most ``MAX_BYTES``; a byte order mark is taken off.

    Raises:
        Invalid: missing, unreadable, a symlink loop, not a regular file, too large, not UTF-8.
    """
    with _as_complaint():
        return read_text(path, MAX_BYTES)


def parse_yaml(text: str, path: str) -> Node:
    """The tree of the one document in ``text``.

    Raises:
        Invalid: not YAML 1.2 as it is read here, over a bound, or nothing at all.
    """
    # Whoever finds all profiles in the cache needs no YAML parser to start.
    from edged.yaml.source import Bounds, parse_document

    bounds = Bounds(max_depth=MAX_DEPTH, max_nodes=MAX_NODES, has_aliases=True)
    with _as_complaint():
        root = parse_document(text, path, bounds)
    if root is None:
        raise complaint(Mark(path=path, line=1, column=1), "The file is empty.")
    return root


@contextmanager
def _as_complaint() -> Iterator[None]:
    try:
        yield
    except YamlProblem as problem:
        raise complaint(problem.mark, problem.sentence, problem.remedy) from None


def succeeded(
    before: ProfileLibrary, after: ProfileLibrary
) -> tuple[ProfileLibrary, tuple[str, ...]]:
    """The library in force from now on, and the keys whose old profile stays in it.

    Args:
        before: what is in force.
        after: what was read; its complaints stay in the result.
    """
    broken = {complaint.path for complaint in after.complaints}
    kept = [
        key
        for key, head in before.heads.items()
        if key not in after.profiles and _is_broken(head, broken)
    ]
    library = after.with_more({key: before.profiles[key] for key in kept}) if kept else after
    return library, tuple(sorted(kept))


def _is_broken(head: ProfileHead, broken: set[str]) -> bool:
    """Its own file, its family's, their directory, or a new file that was to override it."""
    directories = {str(Path(path).parent) for path in head.files}
    is_named = head.key in {Path(path).stem for path in broken}
    return is_named or bool(broken & (head.files | directories))
