"""What a verb takes, read from its own help: so that completion never lags behind the parsers."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Usage", "usage_of"]

OPTION: Final = re.compile(r"--[a-z][a-z-]*")
OPTION_CHOICES: Final = re.compile(r"\[?(--[a-z][a-z-]*) \{([^}]*)\}")
CHOICES: Final = re.compile(r"(?<![-\w] )\{([^}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage line of a verb, taken apart.

    Attributes:
        subverbs: what may stand next, where that is a closed set.
        options: every option.
        choices: option → the values that it takes, where those are a closed set.
    """

    subverbs: tuple[str, ...]
    options: tuple[str, ...]
    choices: dict[str, tuple[str, ...]]


def usage_of(module: str, words: Sequence[str] = ()) -> Usage:
    """The usage of the verb in ``module``, below the subverbs ``words`` if it has such."""
    text = io.StringIO()
    with (
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        importlib.import_module(module).run([*words, "--help"])
    usage = " ".join(text.getvalue().partition("\n\n")[0].split())
    choices = {option: tuple(values.split(",")) for option, values in OPTION_CHOICES.findall(usage)}
    found = CHOICES.search(usage)
    return Usage(
        subverbs=tuple(found.group(1).split(",")) if found else (),
        options=tuple(dict.fromkeys([*OPTION.findall(usage), "--help"])),
        choices=choices,
    )
