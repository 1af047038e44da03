"""What is wrong with a YAML file, and where."""

from __future__ import annotations

from typing import Final

from edged.errors import ErrorCode, Invalid
from edged.yaml.tree import Mark

__all__ = ["YamlProblem", "quotable"]

_MOST_CHARACTERS: Final = 400


class YamlProblem(Invalid):
    """The text cannot be used. ``mark`` is where; ``sentence`` is said without it."""

    def __init__(self, mark: Mark, sentence: str, remedy: str = "") -> None:
        self.mark = mark
        self.sentence = quotable(sentence)
        super().__init__(
            f"{mark.place}: {self.sentence}",
            code=ErrorCode.BAD_CONFIG,
            data={"path": mark.path, "line": mark.line, "column": mark.column},
            remedy=remedy,
        )


def quotable(message: str) -> str:
    """Shortened and printable: what is quoted from a file ends in logs and on terminals."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
    return shown if len(shown) <= _MOST_CHARACTERS else shown[: _MOST_CHARACTERS - 1] + "…"
