"""One YAML file as text: bounded, UTF-8, and never a thing that makes a reader wait."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path

from edged.yaml.tree import Mark, YamlProblem


def read_text(path: Path, most_bytes: int) -> str:
    """The text of the file; a byte order mark is taken off.

    Raises:
        YamlProblem: missing, unreadable, a symlink loop, not a regular file, too large, not UTF-8.
    """
    start = Mark(path=str(path), line=1, column=1)
    try:
        status = path.stat()
        # Opening a FIFO waits for a writer for ever, so the kind is looked at first.
        if not stat.S_ISREG(status.st_mode):
            raise YamlProblem(start, "This is not a regular file.")
        if status.st_size > most_bytes:
            raise _too_large(start, status.st_size, most_bytes)
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise YamlProblem(start, f"The file cannot be read: {reason}.") from None
    except (RuntimeError, ValueError) as error:
        # What pathlib raises for a symlink loop (RuntimeError) and a NUL in the name (ValueError).
        raise YamlProblem(start, f"The file cannot be read: {error}.") from None
    if len(data) > most_bytes:
        raise _too_large(start, len(data), most_bytes)
    return _decode(data, str(path))


def _too_large(start: Mark, size: int, most_bytes: int) -> YamlProblem:
    return YamlProblem(start, f"The file has {size} bytes, over the maximum {most_bytes}.")


def _decode(data: bytes, path: str) -> str:
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        raise YamlProblem(
            Mark(path=path, line=line, column=column),
            f"Byte 0x{data[error.start]:02x} is not UTF-8.",
            "Save the file as UTF-8.",
        ) from None
