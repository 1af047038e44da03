"""The simulated instruments, one file each; a file's ``MODEL`` is all that the bench asks of it.

What those of one kind share is in ``families``, and ``families/sisters`` has the models that differ
from one with a file only by their ratings.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re

from edged.errors import NotFound
from edged_sim.models.families.sisters import SISTERS
from edged_sim.scpi import ModelSpec, ModelState

__all__ = ["load_model", "model_names"]


@functools.cache
def model_names() -> tuple[str, ...]:
    """Every model there is, sorted."""
    files = (found.name for found in pkgutil.iter_modules(__path__) if not found.ispkg)
    return tuple(sorted([*files, *SISTERS]))


def load_model(name: str) -> ModelSpec[ModelState]:
    """The model called ``name``; only the files that a bench uses are loaded.

    Raises:
        NotFound: there is no such model.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name not in model_names():
        raise NotFound(
            f"There is no simulated instrument called {name!r}.",
            remedy=f"There are {', '.join(model_names())}.",
        )
    sister = SISTERS.get(name)
    if sister is not None:
        return sister.spec(load_model(sister.of))
    spec: ModelSpec[ModelState] = importlib.import_module(f"{__name__}.{name}").MODEL
    return spec
