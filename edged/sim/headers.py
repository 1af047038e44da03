"""SCPI headers and message units: which command a received text means.

A header is written as programming guides write it: capitals are the short form, square brackets
what may be left out, ``<n>`` a numeric suffix, a question mark at the end a query, e.g.
``[:SOURce<n>]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?``. Pure: text in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

__all__ = ["Found", "HeaderError", "HeaderPattern", "Vocabulary", "split_list", "split_units"]

T_co = TypeVar("T_co", covariant=True)

_NODE: Final = re.compile(r"\[?:?([*A-Za-z_][A-Za-z0-9_]*)(<n>)?\]?")
_CACHED_HEADERS: Final = 1024
"""Different spellings remembered for each vocabulary; more than any client uses."""

_OPENERS: Final = {"(": ")", '"': '"', "'": "'"}


class HeaderError(ValueError):
    """A header in one of our own tables cannot be read; a mistake in a model file."""


@dataclass(frozen=True, slots=True)
class _Node:
    short: str
    long: str
    has_suffix: bool
    is_optional: bool

    def match(self, word: str) -> tuple[bool, int | None]:
        """Whether ``word`` (upper case) names this node, and its numeric suffix."""
        if word in (self.short, self.long):
            return True, None
        if not self.has_suffix:
            return False, None
        stem = word.rstrip("0123456789")
        if stem != word and stem in (self.short, self.long):
            return True, int(word[len(stem) :][:9])
        return False, None


class HeaderPattern:
    """One header of a programming guide, ready to be compared with what was received."""

    __slots__ = ("_nodes", "is_query", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_query = text.endswith("?")
        self._nodes = tuple(_nodes(text.removesuffix("?")))

    def match(self, words: tuple[str, ...]) -> tuple[int | None, ...] | None:
        """The suffixes, one for each ``<n>`` in order (None where left out), or None: no match."""
        return self._match(words, 0, 0)

    def _match(
        self, words: tuple[str, ...], at_word: int, at_node: int
    ) -> tuple[int | None, ...] | None:
        if at_node == len(self._nodes):
            return () if at_word == len(words) else None
        node = self._nodes[at_node]
        own: tuple[int | None, ...] = ()
        if at_word < len(words):
            is_match, suffix = node.match(words[at_word])
            if is_match:
                rest = self._match(words, at_word + 1, at_node + 1)
                if rest is not None:
                    own = (suffix,) if node.has_suffix else ()
                    return own + rest
        if not node.is_optional:
            return None
        rest = self._match(words, at_word, at_node + 1)
        if rest is None:
            return None
        own = (None,) if node.has_suffix else ()
        return own + rest


def _nodes(text: str) -> Iterator[_Node]:
    position = 0
    while position < len(text):
        found = _NODE.match(text, position)
        if found is None or found.start(1) == found.end(1):
            raise HeaderError(f"The header {text!r} cannot be read at character {position}.")
        word = found[1]
        lower = next((i for i, letter in enumerate(word) if letter.islower()), len(word))
        yield _Node(
            short=word[:lower].upper(),
            long=word.upper(),
            has_suffix=found[2] is not None,
            is_optional=found[0].startswith("["),
        )
        position = found.end()


@dataclass(frozen=True, slots=True)
class Found(Generic[T_co]):
    """What a header meant: the entry of the table and the numeric suffixes."""

    entry: T_co
    suffixes: tuple[int | None, ...]


class Vocabulary(Generic[T_co]):
    """A table from headers to entries that is asked by received headers.

    Where two headers fit, the first of the table wins. Answers are remembered, because a client
    sends the same few headers again and again.
    """

    def __init__(self, table: Mapping[str, T_co]) -> None:
        self._patterns = tuple((HeaderPattern(text), entry) for text, entry in table.items())
        self._known: dict[str, Found[T_co] | None] = {}

    def find(self, header: str) -> Found[T_co] | None:
        """The entry that ``header`` (as received, with its question mark) means."""
        if header in self._known:
            return self._known[header]
        if len(self._known) >= _CACHED_HEADERS:
            self._known.clear()
        found = self._search(header)
        self._known[header] = found
        return found

    def headers(self) -> tuple[str, ...]:
        """Every header of the table, as it is written there."""
        return tuple(pattern.text for pattern, _ in self._patterns)

    def _search(self, header: str) -> Found[T_co] | None:
        is_query = header.endswith("?")
        words = tuple(header.removesuffix("?").removeprefix(":").upper().split(":"))
        for pattern, entry in self._patterns:
            if pattern.is_query is is_query:
                suffixes = pattern.match(words)
                if suffixes is not None:
                    return Found(entry, suffixes)
        return None


def split_units(message: str) -> Iterator[tuple[str, str, str]]:
    """The program message units of one line: (header, header with the path before it, arguments).

    A header without a leading colon is also offered below the path of the unit before it, as
    SCPI's compound messages have it; the two are the same for the first unit and common commands.
    """
    path = ""
    for unit in split_list(message, ";"):
        header, _, arguments = unit.partition(" ") if " " in unit else unit.partition("\t")
        if not header:
            continue
        is_rooted = header.startswith((":", "*"))
        under_path = header if is_rooted or not path else f"{path}:{header}"
        yield header, under_path, arguments.strip()
        if not header.startswith("*"):
            path = under_path.removesuffix("?").rpartition(":")[0]


def split_list(text: str, separator: str) -> list[str]:
    """``text`` cut at each separator that is not in quotes or parentheses; stripped, in order."""
    parts: list[str] = []
    start = 0
    closer = ""
    for position, letter in enumerate(text):
        if closer:
            closer = "" if letter == closer else closer
        elif letter in _OPENERS:
            closer = _OPENERS[letter]
        elif letter == separator:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts
