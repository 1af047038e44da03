"""A verb in a table of verbs, and how its code is found."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from edged.host import ExitStatus
from edged.record import record


@record(kw_only=False)
class CliVerb:
    """A verb: where its ``run(arguments) -> int`` is, and its line in the help.

    Attributes:
        place: a module of ``edged.cli``, and after a colon its function if that is not ``run``;
            of a verb in another package, the name of its entry point.
        package: that other package.
        failed: its exit status after an error that has none of its own.
    """

    place: str
    sentence: str
    package: str = ""
    failed: ExitStatus = ExitStatus.FAILED

    def load(self) -> Callable[[Sequence[str]], int]:
        """Import its code.

        Raises:
            Failed: UNSUPPORTED_PLATFORM, its package is not installed.
        """
        if not self.package:
            place, _, function = self.place.partition(":")
            module = importlib.import_module(f"edged.cli.{place}")
        else:
            from edged.plugins import load_plugin

            module, function = load_plugin(self.place, self.package), ""
        run: Callable[[Sequence[str]], int] = getattr(module, function or "run")
        return run
