"""What the tools that have one device do one thing say of themselves, whatever carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edged.errors import Invalid
from edged.tools.tool import ToolAnnotations

__all__ = ["annotations_of", "cautions", "fits_json", "title_of"]


def title_of(name: str) -> str:
    """A name as people write it."""
    return name.replace("_", " ").capitalize()


def annotations_of(*, is_query: bool, is_dangerous: bool) -> ToolAnnotations:
    """MCP's hints; a query that is dangerous is no plain read."""
    is_plain_read = is_query and not is_dangerous
    return ToolAnnotations(
        read_only=is_plain_read,
        destructive=is_dangerous,
        idempotent=is_plain_read,
        open_world=True,
    )


def cautions(*, is_dangerous: bool, is_safe: bool, unit: str) -> list[str]:
    """The sentences of a description that are the same for every such tool."""
    told = []
    if is_dangerous:
        told.append("Dangerous: it can put energy on the terminals or harm what is connected.")
    if is_safe:
        told.append("Safe: it is never refused.")
    if unit:
        told.append(f"Answers in {unit}.")
    return told


def fits_json(arguments: Mapping[str, Any]) -> None:
    """The check of the tool itself; its schema is the command's, which the path checks, once.

    Raises:
        Invalid: the arguments are no object.
    """
    if not isinstance(arguments, Mapping):
        raise Invalid("The arguments of a tool are an object.")
