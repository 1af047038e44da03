"""Importing a library without what it only would like to have.

Some libraries import others if they are there, for features that are not used here; a daemon that
is to answer within a second does not wait for those.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

__all__ = ["without"]


@contextlib.contextmanager
def without(*names: str) -> Iterator[None]:
    """Imports inside find no module of these names, unless it was imported before.

    For the main thread at start: an import of such a module by another thread would fail meanwhile.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        # What the import system itself does to say "there is none" (importlib, section 5.3.1).
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
