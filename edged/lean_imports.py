"""Importing a library without what it only would like to have.

Some libraries import others if they are there, for features that are not used here; a daemon that
is to answer within a second, and to leave a small machine its memory, does without those.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Final


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


def shallow(name: str) -> None:
    """Import a package without what its ``__init__`` imports; it runs when something needs it.

    Its modules can be imported as ever, and whatever else somebody asks the package for makes it
    whole first. So a server that is made of a few modules of aiohttp does without its client, which
    takes 5 MB, and reads all authorities of the machine as soon as it is imported. Nothing happens
    where the package is imported already, or has no source that tells its version.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        return
    try:
        told = VERSION.search(spec.loader.get_source(name) or "")
    except ImportError:
        return
    if told is not None:
        package = _Shallow(spec, spec.loader)
        package.__dict__["__version__"] = told[1]
        sys.modules[name] = package
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, package)


VERSION: Final = re.compile(r"""^ *__version__ ?= ?["']([^"']+)["']""", re.M)


class _Shallow(ModuleType):
    """See ``shallow``."""

    def __init__(self, spec: ModuleSpec, loader: SourceFileLoader) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__path__ = list(spec.submodule_search_locations or ())
        self.__file__ = spec.origin
        self.__loader__ = loader
        self.__package__ = spec.name
        self.__dict__.update(_lock=threading.RLock(), _is_running=False)

    def __getattr__(self, name: str) -> object:
        """What is no module of the package: only its ``__init__`` can have it."""
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self.__name__}.{name}"
        if path in sys.modules or importlib.util.find_spec(path) is not None:
            return importlib.import_module(path)
        own = self.__dict__
        with own["_lock"]:
            if own["_is_running"]:
                # Its own __init__ asks, or what that imports.
                raise AttributeError(name)
            if type(self) is _Shallow:
                own["_is_running"] = True
                try:
                    self.__loader__.exec_module(self)  # type: ignore[union-attr]
                    self.__class__ = ModuleType  # type: ignore[assignment]
                finally:
                    own["_is_running"] = False
        return getattr(self, name)


class _Hiding:
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
        """See ``importlib.abc.MetaPathFinder``.

        Raises:
            ModuleNotFoundError: the module is not wanted.
        """
        if fullname in self._names and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"No module named {fullname!r} is wanted.", name=fullname)
        return None
