"""Files that verbs write: whole or not at all, and with a sentence where that cannot be done."""

from __future__ import annotations

from pathlib import Path

from edged.errors import ErrorCode, Failed
from edged.host import write_atomically

__all__ = ["unwritable", "write_text"]


def write_text(path: Path, text: str, remedy: str = "") -> None:
    """Write a file.

    Raises:
        Failed: STORE_FAILED, it cannot be written there.
    """
    try:
        write_atomically(path, text)
    except OSError as refused:
        raise unwritable(path, refused, remedy) from refused


def unwritable(path: Path, refused: OSError, remedy: str = "") -> Failed:
    """STORE_FAILED: why a file could not be written."""
    return Failed(
        f"{path} cannot be written: {refused.strerror or refused}.",
        code=ErrorCode.STORE_FAILED,
        data={"path": str(path)},
        remedy=remedy,
    )
