"""Importing a library without what it only would like to have.

Some libraries import others if they are there, for features that are not used here; a daemon that
is to answer within a second, and to leave a small machine its memory, does without those.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

__all__ = ["without", "without_authorities"]


@contextlib.contextmanager
def without(*names: str) -> Iterator[None]:
    """Imports inside find no module of these names, unless it was imported before.

    Of this thread only: another one that imports such a module meanwhile gets it.
    """
    hiding = _Hiding(frozenset(names), threading.get_ident())
    sys.meta_path.insert(0, hiding)
    try:
        yield
    finally:
        sys.meta_path.remove(hiding)


@contextlib.contextmanager
def without_authorities() -> Iterator[None]:
    """A library imported inside whose client trusts the machine's authorities trusts none.

    aiohttp reads all of them when it is imported, which takes 20 ms and 2 MB; its client then finds
    no server's certificate valid. For programs that are servers only.
    """
    import ssl  # here, because verbs that do without it load this module

    whole = ssl.create_default_context
    ssl.create_default_context = _context_without_authorities
    try:
        yield
    finally:
        ssl.create_default_context = whole


def _context_without_authorities(*_: object, **__: object) -> ssl.SSLContext:
    """It asks for certificates and host names as the whole one does, and knows nobody."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Hiding(MetaPathFinder):
    """Asked before every other finder; knows better than they."""

    def __init__(self, names: frozenset[str], thread: int) -> None:
        self._names = names
        self._thread = thread

    def find_spec(
        self,
        fullname: str,
        _path: Sequence[str] | None = None,
        _target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """See ``MetaPathFinder``.

        Raises:
            ModuleNotFoundError: the module is not wanted.
        """
        if fullname in self._names and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"No module named {fullname!r} is wanted.", name=fullname)
        return None
