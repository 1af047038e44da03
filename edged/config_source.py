"""The configuration's YAML, as values that know their lines.

Made for files that people write and that nobody has checked: smaller than a profile may be, and
without anchors and aliases (with them a file of one kilobyte can mean gigabytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edged.yaml.file import read_text
from edged.yaml.problem import YamlProblem
from edged.yaml.scalar import NotFinite, core_scalar
from edged.yaml.tree import ListNode, MapNode, Mark, Node, ScalarNode

__all__ = ["MAX_BYTES", "Value", "parse_scalar", "parse_text", "read_file"]

# A configuration of a hundred instruments is 20 kB; the parser needs a second for 256 KiB.
MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 16
MAX_VALUES: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value and where it stood.

    Attributes:
        data: None, bool, int, float, str, a list of ``Value``, or a dict from str to ``Value``.
        line: 1-based line of the value; of an entry of a mapping, the line of its key.
        text: what was written, of a scalar.
    """

    data: Any
    line: int
    text: str = ""

    def plain(self) -> Any:
        """The data without lines."""
        match self.data:
            case list():
                return [item.plain() for item in self.data]
            case dict():
                return {key: item.plain() for key, item in self.data.items()}
            case _:
                return self.data


def read_file(path: Path) -> Value:
    """The value of a whole file; an empty one is None.

    Raises:
        YamlProblem: it cannot be read, or not used.
    """
    return parse_text(read_text(path, MAX_BYTES), str(path))


def parse_text(text: str, path: str = "") -> Value:
    """The value of one YAML document.

    Raises:
        YamlProblem: it is no YAML, or more than a small file of plain values.
    """
    if len(text) > MAX_BYTES:
        start = Mark(path=path, line=1, column=1)
        raise YamlProblem(start, f"The text is longer than {MAX_BYTES // 1024} KiB.")
    if _says_nothing(text):
        return Value(data=None, line=1)
    # Imported here because most commands of the CLI run without any value to read.
    from edged.yaml.source import Bounds, parse_document

    bounds = Bounds(max_depth=MAX_DEPTH, max_nodes=MAX_VALUES, has_aliases=False)
    root = parse_document(text, path, bounds)
    return Value(data=None, line=1) if root is None else _value(root, root.mark.line)


def _says_nothing(text: str) -> bool:
    """Whether there are comments only, as in the file that the Debian package ships.

    Every verb reads that file, and none needs the parser for it, which takes longer to load than
    the rest of a verb. What is odd in a comment (control characters) is left to the parser.
    """
    lines = (line.strip(" \r") for line in text.split("\n"))
    return all(not line or (line[0] == "#" and line.isprintable()) for line in lines)


def parse_scalar(text: str) -> Value:
    """What one word means that was given without a file.

    Raises:
        YamlProblem: it is a number without end.
    """
    try:
        return Value(data=core_scalar(text), line=1, text=text)
    except NotFinite as error:
        raise YamlProblem(Mark(path="", line=1, column=1), str(error)) from None


def _value(node: Node, line: int) -> Value:
    match node:
        case ScalarNode():
            return Value(data=node.value, line=line, text=node.text)
        case ListNode():
            return Value(data=[_value(item, item.mark.line) for item in node.items], line=line)
        case MapNode():
            entries = {
                key: _value(entry, node.keys[key].mark.line) for key, entry in node.entries.items()
            }
            return Value(data=entries, line=line)
