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

__all__ = ["without"]


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
