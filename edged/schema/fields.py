"""Looks at YAML nodes: each says what belongs there, or complains.

``Fields`` is one mapping. It is made with the keys that may stand there, so that an unknown key is
refused before anything is read, with the nearest known one. What the keys of a profile are stands
in tables (``tables.py``), which read with the functions of this module.

What is said about a profile or bench file: its one error, and the nearest good word.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from edged.errors import ErrorCode, Invalid
from edged.record import record
from edged.yaml.tree import ListNode, MapNode, Mark, Node, Scalar, ScalarNode, quotable

_MOST_LISTED: Final = 12
_Word = TypeVar("_Word", bound=str)
N = TypeVar("N")
R = TypeVar("R")


def complaint(mark: Mark, message: str, remedy: str = "") -> Invalid:
    """The one kind of error that profile and bench files make, to be raised.

    ``data`` has path, line, column, the bare message and the suggestion. What was quoted from the
    file is shortened and made printable: it ends in logs and on terminals.
    """
    shown = quotable(message)
    return Invalid(
        f"{mark.place}: {shown}",
        code=ErrorCode.BAD_PROFILE,
        data={
            "path": mark.path,
            "line": mark.line,
            "column": mark.column,
            "message": shown,
            "suggestion": remedy,
        },
        remedy=remedy,
    )


MOST_COMPLAINTS: Final = 100
"""Told of one file; who has more has begun to write another format."""


class SeveralInvalid(Invalid):
    """All that is wrong with one file: a line each as text; for programs the first of it."""

    def __init__(self, complaints: Sequence[Invalid]) -> None:
        first = complaints[0]
        super().__init__(first.message, code=first.code, data=first.data, remedy=first.remedy)
        self.complaints = tuple(complaints[:MOST_COMPLAINTS])

    def __str__(self) -> str:
        """A line for each."""
        return "\n".join(map(str, self.complaints))


def every_complaint(error: Invalid) -> tuple[Invalid, ...]:
    """What an error is made of: itself, mostly."""
    return error.complaints if isinstance(error, SeveralInvalid) else (error,)


class Gathering:
    """Keeps complaints, so that what follows is read all the same; ``end`` raises them."""

    def __init__(self) -> None:
        self._found: list[Invalid] = []

    @property
    def is_clean(self) -> bool:
        """Whether nothing has been wrong so far."""
        return not self._found

    @property
    def found(self) -> tuple[Invalid, ...]:
        """What has been wrong so far."""
        return tuple(self._found)

    def add(self, error: Invalid) -> None:
        """Take note of what was raised."""
        self._found += every_complaint(error)

    @contextmanager
    def part(self) -> Iterator[None]:
        """What is raised inside is kept."""
        try:
            yield
        except Invalid as error:
            self.add(error)

    def end(self) -> None:
        """Raise what was kept, if anything was.

        Raises:
            Invalid: one complaint, or ``SeveralInvalid``.
        """
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise SeveralInvalid(self._found)


def each_of(nodes: Iterable[N], read: Callable[[N], R]) -> tuple[R, ...]:
    """What every node of a list (or key of a mapping) says.

    Raises:
        Invalid: all that is wrong with all of them.
    """
    gathering = Gathering()
    found: list[R] = []
    for node in nodes:
        with gathering.part():
            found.append(read(node))
    gathering.end()
    return tuple(found)


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence that offers the known word most like ``word``, or lists them when they are few."""
    import difflib  # for those who mistyped

    words = sorted(known)
    # difflib is quadratic in the length of what it is given.
    close = difflib.get_close_matches(word[:64], words, n=1, cutoff=0.6)
    if close:
        return f'Did you mean "{close[0]}"?'
    if not words or len(words) > _MOST_LISTED:
        return ""
    return f"Known: {one_of(words)}."


def one_of(words: Iterable[str]) -> str:
    """The words as ``a, b or c``."""
    listed = list(words)
    return ", ".join(listed[:-1]) + (" or " if listed[:-1] else "") + listed[-1]


FORMAT: Final = 1
"""What ``format`` says of profile and bench files."""
MAX_TEXT: Final = 2_000


@record(kw_only=False)
class Fields:
    """One mapping whose keys are all known; ``owner`` begins every complaint's sentence."""

    node: MapNode
    owner: str

    @classmethod
    def of(cls, node: Node, owner: str, known: Collection[str]) -> Fields:
        """Raises Invalid: not a mapping, or a key that is not in ``known``."""
        gathering = Gathering()
        fields = cls.begin(node, owner, known, gathering)
        gathering.end()
        return fields

    @classmethod
    def begin(cls, node: Node, owner: str, known: Collection[str], gathering: Gathering) -> Fields:
        """The same, where unknown keys are kept and the others read; raises: not a mapping."""
        mapping = map_of(node, owner)
        for name, key in mapping.keys.items():
            if name not in known:
                message = f'{owner} has the unknown key "{name}".'
                gathering.add(complaint(key.mark, message, nearest(name, known)))
        return cls(mapping, owner)

    @property
    def mark(self) -> Mark:
        """Where the mapping stands."""
        return self.node.mark

    def mark_of(self, key: str) -> Mark:
        """Where the key stands, or the mapping when the key is not there."""
        found = self.node.keys.get(key)
        return self.node.mark if found is None else found.mark

    def has(self, key: str) -> bool:
        """Whether the key stands there."""
        return key in self.node.entries

    def get(self, key: str) -> Node | None:
        """The value's node, if the key stands there."""
        return self.node.entries.get(key)

    def need(self, key: str) -> Node:
        """The value's node; raises Invalid when the key is missing."""
        found = self.node.entries.get(key)
        if found is None:
            raise complaint(self.node.mark, f'{self.owner} has no "{key}".')
        return found

    def name_of(self, key: str) -> str:
        """How a complaint calls the value of a key; one of no owner by its name alone."""
        return f'{self.owner}: "{key}"' if self.owner else key

    def path_of(self, key: str) -> str:
        """The owner of what stands under a key."""
        return f"{self.owner}.{key}" if self.owner else key

    def text(self, key: str, default: str = "", *, most: int = MAX_TEXT) -> str:
        """One text without control characters."""
        node = self.get(key)
        return default if node is None else text_of(node, self.name_of(key), most=most)

    def truth(self, key: str, *, default: bool = False) -> bool:
        """``true`` or ``false``."""
        node = self.get(key)
        if node is None:
            return default
        return truth_of(node, self.name_of(key))

    def number(self, key: str, low: float | None = None, high: float | None = None) -> float | None:
        """A number within bounds, if the key stands there."""
        node = self.get(key)
        return None if node is None else number_of(node, self.name_of(key), low, high)

    def items(self, key: str, *, most: int = 1_000) -> tuple[Node, ...]:
        """The nodes of a list, none when the key is missing."""
        node = self.get(key)
        return () if node is None else list_of(node, self.name_of(key), most=most)

    def mapping(self, key: str, *, most: int = 1_000) -> MapNode | None:
        """A mapping whose keys are the file's own, if the key stands there."""
        node = self.get(key)
        if node is None:
            return None
        return map_of(node, self.name_of(key), most=most)


def _not(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return "not nothing" if node.value is None else f'not "{node.text}"'
    return "not a list" if isinstance(node, ListNode) else "not a mapping"


def map_of(node: Node, owner: str, *, most: int | None = None) -> MapNode:
    """Raises Invalid: not a mapping, or a longer one."""
    if not isinstance(node, MapNode):
        raise complaint(node.mark, f"{owner} must be a mapping (key: value), {_not(node)}.")
    if most is not None and len(node.entries) > most:
        raise complaint(node.mark, f"{owner} has more than {most} entries.")
    return node


def list_of(node: Node, owner: str, *, most: int = 1_000) -> tuple[Node, ...]:
    """Raises Invalid: not a list, or a longer one."""
    if not isinstance(node, ListNode):
        remedy = "Write [a, b], or [] for none." if isinstance(node, ScalarNode) else ""
        raise complaint(node.mark, f"{owner} must be a list, {_not(node)}.", remedy)
    if len(node.items) > most:
        raise complaint(node.mark, f"{owner} has {len(node.items)} entries, over {most}.")
    return node.items


def scalar_of(node: Node, owner: str) -> Scalar:
    """Raises Invalid: a list, a mapping or nothing."""
    if not isinstance(node, ScalarNode) or node.value is None:
        raise complaint(node.mark, f"{owner} must be one value, {_not(node)}.")
    return node.value


def text_of(node: Node, owner: str, *, most: int = MAX_TEXT) -> str:
    """A text; a number counts as the text that was written (``model: 2450``)."""
    value = scalar_of(node, owner)
    assert isinstance(node, ScalarNode)  # noqa: S101 - scalar_of has seen to it
    if isinstance(value, bool):
        raise complaint(node.mark, f"{owner} must be text.", f'Write "{node.text}" in quotes.')
    text = " ".join(node.text.split()) if "\n" in node.text else node.text
    if len(text) > most:
        raise complaint(node.mark, f"{owner} has {len(text)} characters, over {most}.")
    if not text.isprintable():
        raise complaint(node.mark, f"{owner} holds a control character.")
    return text


_NOT_TRUTHS: Final = frozenset({"on", "off", "yes", "no", "y", "n"})


def truth_of(node: Node, owner: str) -> bool:
    """Raises Invalid: neither ``true`` nor ``false``."""
    value = scalar_of(node, owner)
    if not isinstance(value, bool):
        is_word = isinstance(node, ScalarNode) and node.text.lower() in _NOT_TRUTHS
        remedy = "In YAML 1.2 on, off, yes and no are words." if is_word else ""
        raise complaint(node.mark, f"{owner} must be true or false, {_not(node)}.", remedy)
    return value


def choice_of(node: Node, owner: str, known: Sequence[_Word]) -> _Word:
    """Raises Invalid: none of the known words."""
    text = text_of(node, owner, most=64)
    if text not in known:
        message = f'{owner} must be {one_of(known)}, not "{text}".'
        raise complaint(node.mark, message, nearest(text, known))
    return next(word for word in known if word == text)


def number_of(
    node: Node,
    owner: str,
    low: float | None = None,
    high: float | None = None,
    what: str = "a number",
) -> float | int:
    """Raises Invalid: not a number, or outside of the bounds."""
    value = scalar_of(node, owner)
    if isinstance(value, bool | str):
        raise complaint(node.mark, f"{owner} must be {what}, {_not(node)}.", _unquote(node))
    if abs(value) > _LARGEST or (low is not None and value < low):
        raise complaint(node.mark, f"{owner} is {value}, {_bounds(low, high)}.")
    if high is not None and value > high:
        raise complaint(node.mark, f"{owner} is {value}, {_bounds(low, high)}.")
    return value


_LARGEST: Final = 1e300


def _bounds(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"under the minimum {low}" if low is not None else "out of range"
    return f"outside of {low} to {high}"


def whole_number_of(node: Node, owner: str, low: int, high: int) -> int:
    """Raises Invalid: not a whole number, or outside of the bounds."""
    value = number_of(node, owner, low, high, "a whole number")
    if value != int(value):
        raise complaint(node.mark, f"{owner} must be a whole number, {_not(node)}.")
    return int(value)


def _unquote(node: Node) -> str:
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        try:
            float(node.text)
        except ValueError:
            return ""
        return "Leave the quotes out."
    return ""


def check_format(fields: Fields) -> None:
    """Raises Invalid: no ``format``, or one that this edged does not read."""
    node = fields.need("format")
    value = scalar_of(node, fields.name_of("format"))
    if value != FORMAT or isinstance(value, bool):
        message = f'{fields.name_of("format")} is "{value}"; this edged reads {FORMAT}.'
        is_newer = isinstance(value, int) and not isinstance(value, bool) and value > FORMAT
        remedy = "It was written for a newer edged: upgrade, or write it anew." if is_newer else ""
        raise complaint(node.mark, message, remedy)


def marks_of(root: MapNode) -> dict[str, Mark]:
    """Where everything stands, by dotted path; list entries go by number."""
    found: dict[str, Mark] = {}
    waiting: list[tuple[str, Node]] = [("", root)]
    while waiting:
        prefix, node = waiting.pop()
        match node:
            case MapNode(entries=entries, keys=keys):
                for name, entry in entries.items():
                    path = f"{prefix}{name}"
                    found[path] = keys[name].mark
                    if not isinstance(entry, ScalarNode):
                        waiting.append((path + ".", entry))
            case ListNode(items=items):
                for index, entry in enumerate(items):
                    path = f"{prefix}{index}"
                    found[path] = entry.mark
                    if not isinstance(entry, ScalarNode):
                        waiting.append((path + ".", entry))
            case ScalarNode():
                pass
    return found


_LINEAR: Final = (
    "Begin it with ^, bound what repeats ({0,16} in place of *), and let no two repetitions in a "
    "row take the same characters ([^,]* in place of .*)."
)


def check_pattern(node: Node, owner: str, text: str, groups: int | None = None) -> str:
    """A regular expression that is safe to search.

    Args:
        node: where it stands.
        owner: begins the complaint's sentence.
        text: the expression.
        groups: how many groups it must have; ``None`` for any number.

    Raises:
        Invalid: not a regular expression, or one that can take very long.
    """
    # Most of what is read has none, and this loads what judges automata.
    from edged.patterns import compiled, why_slow

    if not text:
        raise complaint(node.mark, f"{owner} is empty.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = compiled(text)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise complaint(node.mark, f"{owner} is not a regular expression: {error}.") from None
    if groups is not None and found.groups != groups:
        message = f"{owner} has {found.groups} groups; it needs {groups}."
        raise complaint(node.mark, message, "A group that only groups is written (?:…).")
    slow = why_slow(text)
    if slow:
        raise complaint(node.mark, f"{owner} can take very long: {slow}.", _LINEAR)
    return text
