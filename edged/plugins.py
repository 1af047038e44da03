"""What other packages of this repository do for ``edged``, found by entry points.

An entry point of group ``edged.plugins`` names a module (``setup.cfg``). Nothing of ``edged``
imports those packages, and it runs without them. A look-up costs as much time as a whole light
verb, so only what needs a plug-in makes one.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from edged.errors import ErrorCode, Failed

__all__ = ["load_plugin"]

GROUP: Final = "edged.plugins"


def load_plugin(name: str, package: str) -> ModuleType:
    """The module of an entry point.

    Args:
        name: of the entry point.
        package: the import package that has it.

    Raises:
        Failed: UNSUPPORTED_PLATFORM, the package is not installed.
    """
    # Late: it costs more than all that a light verb imports.
    from importlib.metadata import entry_points

    for found in entry_points(group=GROUP, name=name):
        try:
            module: ModuleType = found.load()
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
        else:
            return module
    raise Failed(
        f"This needs the package {package}, which is not installed (no entry point {name!r}).",
        code=ErrorCode.UNSUPPORTED_PLATFORM,
        remedy="Install edged again with all of its packages: `apt install --reinstall edged`, "
        "`pip install --force-reinstall edged`, or `make run` in its source tree.",
    )
