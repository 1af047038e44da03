"""A small YAML file from outside, read into plain values that know their lines.

Made for files that people write and that nobody has checked: bounded in size, depth and number of
values; anchors, aliases and tags are refused (with them a file of one kilobyte can mean gigabytes);
a key that stands twice is an error. Plain scalars follow YAML 1.2's core schema, so ``on``,
``off``, ``yes`` and ``no`` are strings. ruamel.yaml is used for its event stream only, which is
flat: neither depth nor size of the file becomes depth of a stack here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from edged.errors import ErrorCode, Invalid

__all__ = ["Value", "YamlProblem", "parse_scalar", "parse_text", "read_file"]

# A configuration of a hundred instruments is 20 kB; the parser needs a second for 256 KiB.
MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 16
MAX_VALUES: Final = 20_000

INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}\Z")
OTHER_BASE: Final = re.compile(r"0o[0-7]{1,20}\Z|0x[0-9a-fA-F]{1,16}\Z")
FLOAT: Final = re.compile(
    r"[-+]?(\.[0-9]{1,40}|[0-9]{1,40}(\.[0-9]{0,40})?)([eE][-+]?[0-9]{1,3})?\Z"
)
WORDS: Final[Mapping[str, bool | None]] = MappingProxyType(
    {
        "true": True,
        "True": True,
        "TRUE": True,
        "false": False,
        "False": False,
        "FALSE": False,
        "null": None,
        "Null": None,
        "NULL": None,
        "~": None,
        "": None,
    }
)


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


class YamlProblem(Invalid):
    """The text cannot be used; ``line`` is 1-based, 0 where the file as a whole is meant."""

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message, code=ErrorCode.BAD_CONFIG, data={"line": line})
        self.line = line


def read_file(path: Path) -> Value:
    """The value of a whole file; an empty one is None.

    Raises:
        YamlProblem: it cannot be read, or not used.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise YamlProblem(f"The file cannot be read: {error.strerror or error}.") from error
    if len(data) > MAX_BYTES:
        raise YamlProblem(f"The file is larger than {MAX_BYTES // 1024} KiB.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise YamlProblem("The file is not UTF-8 text.", line=line) from error
    return parse_text(text)


def parse_text(text: str) -> Value:
    """The value of one YAML document.

    Raises:
        YamlProblem: it is no YAML, or more than a small file of plain values.
    """
    if len(text) > MAX_BYTES:
        raise YamlProblem(f"The text is longer than {MAX_BYTES // 1024} KiB.")
    # Imported here because most commands of the CLI run without any file to read.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return _build(YAML(typ="safe", pure=True).parse(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        sentence = " ".join(str(error.problem or error.context or "it is no YAML").split())
        raise YamlProblem(f"{sentence}.", line=mark.line + 1 if mark else 0) from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise YamlProblem(f"It is no YAML: {' '.join(str(error).split())[:200]}.") from error


def parse_scalar(text: str) -> Any:
    """What a plain scalar means under YAML 1.2's core schema: None, bool, int, float or str."""
    if text in WORDS:
        return WORDS[text]
    if INTEGER.match(text):
        return int(text)
    if OTHER_BASE.match(text):
        return int(text, 0)
    if FLOAT.match(text):
        return float(text)
    return text


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been seen."""

    line: int
    is_mapping: bool
    items: list[Value] = field(default_factory=list)
    entries: dict[str, Value] = field(default_factory=dict)
    key: Value | None = None

    def add(self, value: Value) -> None:
        if not self.is_mapping:
            self.items.append(value)
        elif self.key is None:
            self._take_key(value)
        else:
            self.entries[self.key.text] = Value(
                data=value.data, line=self.key.line, text=value.text
            )
            self.key = None

    def _take_key(self, value: Value) -> None:
        if isinstance(value.data, list | dict) or not value.text:
            raise YamlProblem("A key must be a plain word.", line=value.line)
        if value.text in self.entries:
            first = self.entries[value.text].line
            raise YamlProblem(f"{value.text} stands twice, first in line {first}.", line=value.line)
        self.key = value

    def finished(self) -> Value:
        return Value(data=self.entries if self.is_mapping else self.items, line=self.line)


def _build(events: Iterator[Any]) -> Value:
    """Fold the event stream into one value."""
    from ruamel.yaml import events as kinds

    root = _Open(line=1, is_mapping=False)
    stack = [root]
    values = 0
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, kinds.NodeEvent):
            _refuse_cleverness(event, line)
            values += 1
            if values > MAX_VALUES:
                raise YamlProblem(f"There are more than {MAX_VALUES} values.", line=line)
        match event:
            case kinds.ScalarEvent():
                _refuse_half_characters(event.value, line)
                data = parse_scalar(event.value) if event.style is None else event.value
                stack[-1].add(Value(data=data, line=line, text=event.value))
            case kinds.CollectionStartEvent():
                if len(stack) > MAX_DEPTH:
                    raise YamlProblem(f"It is nested deeper than {MAX_DEPTH}.", line=line)
                is_mapping = isinstance(event, kinds.MappingStartEvent)
                stack.append(_Open(line=line, is_mapping=is_mapping))
            case kinds.CollectionEndEvent():
                done = stack.pop().finished()
                stack[-1].add(done)
            case kinds.DocumentStartEvent() if root.items:
                raise YamlProblem("There is a second document (---).", line=line)
            case _:
                pass
    return root.items[0] if root.items else Value(data=None, line=1)


def _refuse_cleverness(event: Any, line: int) -> None:
    if event.anchor is not None:
        raise YamlProblem("Anchors and aliases (& and *) are not used here.", line=line)
    if getattr(event, "tag", None) is not None:
        raise YamlProblem("Tags (!) are not used here.", line=line)


def _refuse_half_characters(text: str, line: int) -> None:
    # A lone surrogate ("\ud800") can be neither printed nor sent.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise YamlProblem("There is half a surrogate pair in a text.", line=line)
