"""Whether an instrument itself said that it does not know a command. Pure."""

from __future__ import annotations

import re
from typing import Final

from edged.errors import EdgedError, ErrorCode

__all__ = ["says_undefined"]

# SCPI-99 volume 2, 21.8.9: command errors that speak of the header, and the bare "command error"
# and "syntax error" that some makers send instead. Not -114: it speaks of the suffix (a channel).
UNDEFINED_CODES: Final = frozenset({-100, -102, -110, -111, -112, -113})
ERROR_NUMBER: Final = re.compile(r"\s*\"?([+-]?\d{1,6})\b")
# What ``profiles.instrument_errors`` makes of the bit for command errors in ``*ESR?``.
ESR_COMMAND_ERROR: Final = re.compile(r"command error\b.*\(ESR \d+\)")


def says_undefined(error: EdgedError | None) -> bool:
    """True if the instrument itself said that it does not know the command."""
    if error is None or error.code is not ErrorCode.INSTRUMENT_ERROR:
        return False
    return any(_is_undefined(str(text)) for text in error.data.get("errors", ()))


def _is_undefined(text: str) -> bool:
    if (found := ERROR_NUMBER.match(text)) is not None:
        return int(found.group(1)) in UNDEFINED_CODES
    return ESR_COMMAND_ERROR.search(text) is not None
