"""Importing a library without what it only would like to have.

Some libraries import others if they are there, for features that are not used here; a daemon that
is to answer within a second, and to leave a small machine its memory, does without those.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

__all__ = ["without", "without_authorities"]

AUTHORITIES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


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

    aiohttp reads all of them twice when it is imported, even for the client that asks for no
    certificate, which takes 20 ms or more; its client then finds no server's certificate valid.
    For programs that are servers only. Windows' own store is read all the same.

    Source: the variables are OpenSSL's, for where it looks for them (X509_get_default_cert_file).
    """
    kept = {name: os.environ.get(name) for name in AUTHORITIES}
    os.environ |= dict.fromkeys(AUTHORITIES, os.devnull)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
