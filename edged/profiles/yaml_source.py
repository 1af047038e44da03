"""YAML text → a tree in which every node knows its place.

Not a general YAML loader: one document, YAML 1.2 core scalars (``on``, ``off`` and ``no`` are
strings), string keys, no tags, no merge keys, aliases within a bound. What is read may come from
anywhere, so everything is bounded before it is walked: file size, nesting, number of nodes with
aliases written out. Whatever the input is, only ``Invalid`` comes out, naming file, line, column.

ruamel.yaml's event stream is used and not its constructor: an order of magnitude less work at
start, and nothing of YAML's type machinery is ever reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from ruamel.yaml.reader import ReaderError

from edged.errors import Invalid
from edged.profiles.complaints import complaint
from edged.profiles.model import Mark, Scalar
from edged.profiles.yaml_tree import ListNode, MapNode, Node, ScalarNode

__all__ = ["parse_yaml"]

MAX_DEPTH: Final = 32
MAX_NODES: Final = 50_000
"""Nodes with aliases written out; a rich profile has 2,000."""


def parse_yaml(text: str, path: str) -> Node:
    """The tree of the one document in ``text``.

    Raises:
        Invalid: not YAML 1.2 as this module reads it, or over a bound.
    """
    builder = _Builder(path)
    try:
        return builder.document(YAML(typ="safe", pure=True).parse(text))
    except Invalid:
        raise
    except MarkedYAMLError as error:
        where = error.problem_mark or error.context_mark
        mark = builder.latest if where is None else builder.mark(where)
        problem = " ".join(str(error.problem or error.context or "not YAML").split())
        raise complaint(mark, f"This is not YAML: {problem}.", _yaml_remedy(problem)) from None
    except YAMLError as error:
        mark = _place_of(error, text, path)
        raise complaint(mark, f"This is not YAML: {_first_line(error)}.") from None
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError,
        RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        # A scanner of this size may trip over broken input instead of reporting it.
        problem = f"the parser gave up ({type(error).__name__})"
        raise complaint(builder.latest, f"This is not YAML: {problem}.") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _place_of(error: YAMLError, text: str, path: str) -> Mark:
    position = error.position if isinstance(error, ReaderError) else 0
    before = text[: int(position)]
    column = len(before) - (before.rfind("\n") + 1) + 1
    return Mark(path=path, line=before.count("\n") + 1, column=column)


def _yaml_remedy(problem: str) -> str:
    if "\\t" in problem or "\t" in problem:
        return "Indent with blanks, not tabs."
    if "mapping values" in problem:
        return "Put text that holds a colon and a blank into quotes."
    return ""


class _Builder:
    """Walks the events of one document; recursion is bounded by ``MAX_DEPTH``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._open_anchors: set[str] = set()
        self._nodes = 0
        self.latest = Mark(path=path, line=1, column=1)

    def mark(self, place: Any) -> Mark:
        """The same place counted from 1; ruamel counts from 0."""
        return Mark(path=self._path, line=place.line + 1, column=place.column + 1)

    def document(self, events: Iterator[Event]) -> Node:
        """The one document of the stream."""
        root: Node | None = None
        for event in events:
            self.latest = self.mark(event.start_mark)
            match event:
                case DocumentStartEvent():
                    if root is not None:
                        raise complaint(self.latest, "A second document starts here.")
                    if event.version is not None and tuple(event.version) != (1, 2):
                        raise complaint(self.latest, "Only YAML 1.2 is read here.")
                case ScalarEvent() | SequenceStartEvent() | MappingStartEvent() | AliasEvent():
                    root = self._node(event, events, 0)
                case _:
                    pass
        if root is None:
            raise complaint(self.latest, "The file is empty.")
        return root

    def _node(self, event: Event, events: Iterator[Event], depth: int) -> Node:
        mark = self.latest = self.mark(event.start_mark)
        if isinstance(event, AliasEvent):
            return self._alias(str(event.anchor), mark)
        if not isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent):
            raise complaint(mark, "Nothing that can be read stands here.")
        before = self._nodes
        self._count(1, mark)
        if depth > MAX_DEPTH:
            raise complaint(mark, f"This is nested deeper than {MAX_DEPTH} levels.")
        if event.tag is not None:
            raise complaint(mark, f'The tag "{event.tag}" is not read here.', "Leave it out.")
        anchor = None if event.anchor is None else str(event.anchor)
        if anchor is not None:
            self._open_anchors.add(anchor)
        if isinstance(event, ScalarEvent):
            node: Node = _scalar(event, mark)
        elif isinstance(event, SequenceStartEvent):
            node = self._list(events, mark, depth)
        else:
            node = self._map(events, mark, depth)
        if anchor is not None:
            self._open_anchors.discard(anchor)
            self._anchors[anchor] = (node, self._nodes - before)
        return node

    def _count(self, nodes: int, mark: Mark) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise complaint(mark, f"This makes more than {MAX_NODES} entries, aliases written out.")

    def _alias(self, name: str, mark: Mark) -> Node:
        if name in self._open_anchors:
            raise complaint(mark, f"The alias *{name} stands inside itself.")
        if name not in self._anchors:
            raise complaint(mark, f"The alias *{name} has no anchor before it.")
        node, size = self._anchors[name]
        self._count(size, mark)
        return node

    def _list(self, events: Iterator[Event], mark: Mark, depth: int) -> ListNode:
        items: list[Node] = []
        for event in events:
            if isinstance(event, SequenceEndEvent):
                return ListNode(mark, tuple(items))
            items.append(self._node(event, events, depth + 1))
        raise complaint(mark, "This list does not end.")

    def _map(self, events: Iterator[Event], mark: Mark, depth: int) -> MapNode:
        entries: dict[str, Node] = {}
        keys: dict[str, ScalarNode] = {}
        for event in events:
            if isinstance(event, MappingEndEvent):
                return MapNode(mark, entries, keys)
            key = self._node(event, events, depth + 1)
            if not isinstance(key, ScalarNode) or isinstance(event, AliasEvent):
                raise complaint(key.mark, "A key must be plain text or a number.")
            if key.text == "<<":
                raise complaint(
                    key.mark, "Merge keys are not in YAML 1.2.", "Use an alias or extends."
                )
            if key.text in entries:
                first = keys[key.text].mark.line
                raise complaint(
                    key.mark, f'The key "{key.text}" stands here twice, first in line {first}.'
                )
            entries[key.text] = self._node(_value_event(events, key.mark), events, depth + 1)
            keys[key.text] = key
        raise complaint(mark, "This mapping does not end.")


def _value_event(events: Iterator[Event], mark: Mark) -> Event:
    event = next(events, None)
    if event is None or isinstance(event, StreamEndEvent):
        raise complaint(mark, "This key has no value.")
    return event


_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: Final[Mapping[str, Scalar | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_MOST_DIGITS: Final = 400
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def _scalar(event: ScalarEvent, mark: Mark) -> ScalarNode:
    """The value by YAML 1.2's core schema (section 10.3.2 of its specification)."""
    text: str = event.value
    if event.style not in (None, ""):
        return ScalarNode(mark, text, text)
    if text in _WORDS:
        return ScalarNode(mark, _WORDS[text], text)
    if len(text) > _MOST_DIGITS or text[0] not in "+-.0123456789":
        return ScalarNode(mark, text, text)
    return ScalarNode(mark, _number(text, mark), text)


def _number(text: str, mark: Mark) -> Scalar:
    if _INT.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _NOT_FINITE.fullmatch(text):
        raise complaint(
            mark, f"{text} is not a finite number.", "Leave a bound out where there is none."
        )
    if _FLOAT.fullmatch(text):
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise complaint(mark, f"{text} is not a finite number.")
        return value
    return text
