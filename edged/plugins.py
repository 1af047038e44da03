"""What other packages of this repository do for ``edged``, found by entry points.

An entry point of group ``edged.plugins`` names a module (``setup.cfg``). Nothing of ``edged``
imports those packages, and it runs without them. A look-up costs as much time as a whole light
verb, so only what needs a plug-in makes one.

``python -m edged.plugins NAME PACKAGE ARGUMENTS`` runs a plug-in with a ``main`` as a program, so
that the look-up is that program's and not its parent's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from edged.errors import ErrorCode, Failed

GROUP: Final = "edged.plugins"
UNAVAILABLE: Final = 69
"""That of ``host.ExitStatus``, which would import more than all of this."""


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
        if found.module.partition(".")[0] != package:
            # Of somebody else, who chose the same name.
            continue
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


def main(words: Sequence[str]) -> int:
    """Run a plug-in as a program; returns the exit status."""
    name, package, *arguments = words
    try:
        module = load_plugin(name, package)
    except Failed as error:
        sys.stderr.write(f"edged {name}: {error}\n")
        return UNAVAILABLE
    status: int = module.main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
