"""Whole profiles as a few kilobytes of bytes each, and values again when one is asked for.

An engine works a handful of models and knows dozens: unpacked they take 300 KB each,
packed a thirtieth of that. What is packed was read and judged before; unpacking it takes a
millisecond or two and needs no file, so it cannot fail later.
"""

from __future__ import annotations

import enum
import io
import pickle
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from edged.profiles.model import Profile

__all__ = ["PackedProfiles", "pack", "unpack"]

ROOMS: Final = ("edged.profiles.", "edged.yaml.")
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


class PackedProfiles(Mapping[str, Profile]):
    """Profiles by key, each made anew when it is asked for unless it is ``kept``."""

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self._packed = packed
        self._kept: dict[str, Profile] = {}

    def __getitem__(self, key: str) -> Profile:
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        profile: Profile = unpack(self._packed[key])
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

    def kept(self, key: str) -> Profile:
        """One that instruments work by: all of that model share it from here on.

        Raises:
            KeyError: there is none.
        """
        return self._kept.setdefault(key, self[key])


class _RoomUnpickler(pickle.Unpickler):
    """Makes values of ``edged.profiles`` and ``edged.yaml``, and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        """The class of that name, if it may be made."""
        if module.startswith(ROOMS) or (module == "builtins" and name in PLAIN_TYPES):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return _member
        raise pickle.UnpicklingError(f"{module}.{name} is no value of a profile")


def _member(kind: object, name: str) -> object:
    """What Python 3.11 pickles an enum's member as a ``getattr`` for; gives members alone."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind[name]
    raise pickle.UnpicklingError(f"{kind!r} is no enum of a profile")
