"""YAML text → a tree in which every node knows its place.

Not a general YAML loader: one document, YAML 1.2 core scalars, string keys, no tags, no merge keys,
aliases within a bound or not at all. What is read may come from anywhere, so everything is bounded
before it is walked: nesting, number of nodes with aliases written out. Whatever the input is, only
``YamlProblem`` comes out, naming file, line, column.

ruamel.yaml's reader, scanner and parser are used and nothing else of it: the engine does without
its types and its dumper, 1 MB (``lean_imports.shallow``).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

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
from ruamel.yaml.parser import Parser
from ruamel.yaml.reader import Reader, ReaderError
from ruamel.yaml.scanner import Scanner

from edged.record import record
from edged.yaml.tree import (
    ListNode,
    MapNode,
    Mark,
    Node,
    NotFinite,
    ScalarNode,
    YamlProblem,
    core_scalar,
)


@record
class Bounds:
    """How much of YAML a kind of file may use; nodes count with aliases written out."""

    max_depth: int
    max_nodes: int
    has_aliases: bool


def parse_document(text: str, path: str, bounds: Bounds) -> Node | None:
    """The tree of the one document in ``text``; None where there is nothing in it.

    Raises:
        YamlProblem: not YAML 1.2 as this module reads it, or over a bound.
    """
    builder = _Builder(path, bounds)
    try:
        return builder.document(_events(text))
    except YamlProblem:
        raise
    except MarkedYAMLError as error:
        where = error.problem_mark or error.context_mark
        mark = builder.latest if where is None else builder.mark(where)
        problem = " ".join(str(error.problem or error.context or "not YAML").split())
        raise YamlProblem(mark, f"This is not YAML: {problem}.", _yaml_remedy(problem)) from None
    except YAMLError as error:
        mark = _place_of(error, text, path)
        raise YamlProblem(mark, f"This is not YAML: {_first_line(error)}.") from None
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError,
        RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        # A scanner of this size may trip over broken input instead of reporting it.
        problem = f"the parser gave up ({type(error).__name__})"
        raise YamlProblem(builder.latest, f"This is not YAML: {problem}.") from error


class _Loader:
    """What ruamel.yaml's parts ask of the ``YAML`` that they work for."""

    processing_version = (1, 2)
    comment_handling = None

    def __init__(self) -> None:
        self._resolver = self
        self.doc_infos = [SimpleNamespace()]


def _events(text: str) -> Iterator[Event]:
    loader = _Loader()
    # Each makes itself known to the loader.
    Reader(text, loader)
    Scanner(loader)
    parser = Parser(loader)
    while parser.check_event():
        yield parser.get_event()


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
    """Walks the events of one document; recursion is bounded by ``Bounds.max_depth``."""

    def __init__(self, path: str, bounds: Bounds) -> None:
        self._path = path
        self._bounds = bounds
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._open_anchors: set[str] = set()
        self._nodes = 0
        self.latest = Mark(path=path, line=1, column=1)

    def mark(self, place: Any) -> Mark:
        """The same place counted from 1; ruamel counts from 0."""
        return Mark(path=self._path, line=place.line + 1, column=place.column + 1)

    def document(self, events: Iterator[Event]) -> Node | None:
        """The one document of the stream."""
        root: Node | None = None
        for event in events:
            self.latest = self.mark(event.start_mark)
            match event:
                case DocumentStartEvent():
                    if root is not None:
                        raise YamlProblem(self.latest, "A second document starts here.")
                    if event.version is not None and tuple(event.version) != (1, 2):
                        raise YamlProblem(self.latest, "Only YAML 1.2 is read here.")
                case ScalarEvent() | SequenceStartEvent() | MappingStartEvent() | AliasEvent():
                    root = self._node(event, events, 0)
                case _:
                    pass
        return root

    def _node(self, event: Event, events: Iterator[Event], depth: int) -> Node:
        mark = self.latest = self.mark(event.start_mark)
        if isinstance(event, AliasEvent):
            return self._alias(str(event.anchor), mark)
        if not isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent):
            raise YamlProblem(mark, "What is here cannot be read.")
        before = self._nodes
        self._count(1, mark)
        if depth > self._bounds.max_depth:
            raise YamlProblem(mark, f"This is nested deeper than {self._bounds.max_depth} levels.")
        if event.tag is not None:
            raise YamlProblem(mark, f'The tag "{event.tag}" is not read here.', "Leave it out.")
        anchor = None if event.anchor is None else str(event.anchor)
        if anchor is not None:
            self._refuse_aliases(mark)
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
        most = self._bounds.max_nodes
        if self._nodes > most:
            told = ", aliases written out" if self._bounds.has_aliases else ""
            raise YamlProblem(mark, f"This makes more than {most} entries{told}.")

    def _refuse_aliases(self, mark: Mark) -> None:
        if not self._bounds.has_aliases:
            raise YamlProblem(mark, "Anchors and aliases (& and *) are not used here.")

    def _alias(self, name: str, mark: Mark) -> Node:
        self._refuse_aliases(mark)
        if name in self._open_anchors:
            raise YamlProblem(mark, f"The alias *{name} is inside itself.")
        if name not in self._anchors:
            raise YamlProblem(mark, f"The alias *{name} has no anchor before it.")
        node, size = self._anchors[name]
        self._count(size, mark)
        return node

    def _list(self, events: Iterator[Event], mark: Mark, depth: int) -> ListNode:
        items: list[Node] = []
        for event in events:
            if isinstance(event, SequenceEndEvent):
                return ListNode(mark, tuple(items))
            items.append(self._node(event, events, depth + 1))
        raise YamlProblem(mark, "This list does not end.")

    def _map(self, events: Iterator[Event], mark: Mark, depth: int) -> MapNode:
        entries: dict[str, Node] = {}
        keys: dict[str, ScalarNode] = {}
        for event in events:
            if isinstance(event, MappingEndEvent):
                return MapNode(mark, entries, keys)
            key = self._node(event, events, depth + 1)
            if not isinstance(key, ScalarNode) or isinstance(event, AliasEvent):
                raise YamlProblem(key.mark, "A key must be plain text or a number.")
            if key.text == "<<":
                raise YamlProblem(
                    key.mark, "Merge keys are not in YAML 1.2.", "Use an alias or extends."
                )
            if key.text in entries:
                first = keys[key.text].mark.line
                raise YamlProblem(
                    key.mark, f'The key "{key.text}" is here twice, first in line {first}.'
                )
            entries[key.text] = self._node(_value_event(events, key.mark), events, depth + 1)
            keys[key.text] = key
        raise YamlProblem(mark, "This mapping does not end.")


def _value_event(events: Iterator[Event], mark: Mark) -> Event:
    event = next(events, None)
    if event is None or isinstance(event, StreamEndEvent):
        raise YamlProblem(mark, "This key has no value.")
    return event


def _scalar(event: ScalarEvent, mark: Mark) -> ScalarNode:
    text: str = event.value
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise YamlProblem(mark, "There is half a surrogate pair in a text, which nobody can send.")
    if event.style not in (None, ""):
        return ScalarNode(mark, text, text)
    try:
        return ScalarNode(mark, core_scalar(text), text)
    except NotFinite as error:
        raise YamlProblem(mark, str(error), "Leave a bound out where there is none.") from None
