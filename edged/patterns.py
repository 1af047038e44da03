r"""Which regular expressions take time linear in what they search; others count as slow. Pure.

Python's engine backtracks: it walks the paths through a pattern one after another, and each piece
of a path costs a step. So the paths are counted that can be alive at one character, over all texts:
where never more than ``MOST_STEPS`` are, a search takes at most so many steps a character. The
pattern is taken as an automaton, bounded repetitions written out, and walked for all texts at once:
a state says how many paths stand at each place, a longer text leads to another state, and one that
holds another makes that other needless. Nested and adjacent repetitions, alternatives that begin
alike and a search that starts anew at each character (``[0-9]{1,16}x``) all show as more paths.

Whatever is not known exactly is taken for more: letters in both cases, anchors that hold everywhere
but ``^``, look-aheads as one more way. Source of the trees: ``re._parser``, Python's own.

A pattern that begins with an open-ended repetition (``([0-9]+)x``) would start anew within each
run. What matches from there matches from the run's beginning, too, and the search comes there
first: so ``without_restarts`` lets it start there alone, which is how it is compiled and counted.
"""

from __future__ import annotations

import functools
import re
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from re import _constants as ops  # type: ignore[attr-defined]  # it has no stubs
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from edged.record import record

MAX_PATTERN: Final = 300
"""Characters of a pattern that is taken from a file."""
MAX_SEARCHED: Final = 4_096
"""Characters of a text that a pattern sees."""
MOST_STEPS: Final = 256
"""A character. A step takes 2 to 15 ns here, so that 4,096 characters take at most 16 ms."""

_MOST_PLACES: Final = 2_000
_MOST_STATES: Final = 250
"""After so many, one state that holds them all bounds the rest."""
_MOST_ROUNDS: Final = 600
_MOST_WAYS: Final = 4 * MOST_STEPS
_LONGEST_LOOK_BEHIND: Final = 16

_MANY: Final = f"it can take over {MOST_STEPS} steps for each character that it searches"
_LARGE: Final = f"its repetitions written out have more than {_MOST_PLACES} places"

Item = tuple[Any, Any]
"""What the parser makes of one piece: an opcode and its argument."""
State = int
"""How many paths stand at each place: a number of ``_BITS`` bits for each, the first the lowest.

One integer, because a state is added, multiplied and compared far more often than looked into.
"""
_BITS: Final = 32


class _NotShownError(Exception):
    """The pattern is not shown to be linear; the message ends a sentence."""


@functools.lru_cache(maxsize=1024)
def why_slow(pattern: str) -> str:
    """What keeps a pattern from being known as linear; empty when it is.

    Raises:
        re.error: it is no regular expression.
    """
    try:
        _walk_all_texts(_Automaton(pattern))
    except _NotShownError as reason:
        return str(reason)
    return ""


def without_restarts(pattern: str) -> str:
    """A pattern that finds the same and does not start within a run that it begins with."""
    run = _leading_run(parser.parse(pattern))
    return pattern if run is None else f"(?<!{_class_text(run)})(?:{pattern})"


class _Automaton:
    """A pattern written out: places that take a character, and the ways between them.

    Attributes:
        first: what can be alive before the first character.
        again: what a search that starts after a later character adds.
        after: for each place that takes a character, what it leads to.
        taking: for each such place, the number of its class of characters.
        places: how many there are.
        symbols: characters that differ: the classes that take them, and whether a search may start
            behind them.
    """

    def __init__(self, pattern: str) -> None:
        tree = parser.parse(pattern)
        self._flags = _flags_of(tree)
        if self._flags & re.ASCII:
            raise _NotShownError(r"it changes the meaning of \w (flag a)")
        # Ways without a character: where to, and whether only at the beginning of the text.
        self._ways: list[list[tuple[int, bool]]] = [[]]
        # Characters as the parser has them → their number.
        self._classes: dict[Item, int] = {}
        self._taking: dict[int, tuple[int, int]] = {}
        # Forks that cost nothing: those of a repeated single character.
        self._free: set[int] = set()
        run = _leading_run(tree)
        start = self._sequence(list(tree), _END)
        self.taking = {place: number for place, (number, _) in self._taking.items()}
        self.places = len(self._ways)
        self.first = self._reached(start, is_start=True)
        self.again = self._reached(start, is_start=False)
        self.after = {
            place: self._reached(target, is_start=False)
            for place, (_, target) in self._taking.items()
        }
        self.symbols = self._different_characters(run)

    def _place(self) -> int:
        if len(self._ways) >= _MOST_PLACES:
            raise _NotShownError(_LARGE)
        self._ways.append([])
        return len(self._ways) - 1

    def _fork(self, *targets: int) -> int:
        place = self._place()
        self._ways[place] += [(target, False) for target in targets]
        return place

    def _sequence(self, items: Sequence[Item], follow: int) -> int:
        """Build the items before ``follow``; gives where they begin."""
        for item in reversed(items):
            follow = self._item(item, follow)
        return follow

    def _item(self, item: Item, follow: int) -> int:
        operation, argument = item
        if operation in _SINGLE:
            place = self._place()
            kind = (operation, tuple(argument) if operation is ops.IN else argument)
            number = self._classes.setdefault(kind, len(self._classes))
            self._taking[place] = (number, follow)
            return place
        build = _BUILDERS.get(operation)
        if build is None:
            raise _NotShownError("it refers back to a group")
        return build(self, argument, follow)

    def branch(self, argument: Any, follow: int) -> int:
        """Alternatives."""
        return self._fork(*(self._sequence(list(way), follow) for way in argument[1]))

    def group(self, argument: Any, follow: int) -> int:
        """A group; to note where it begins and ends costs steps."""
        is_noted = argument[0] is not None
        begin = self._sequence(list(argument[-1]), self._fork(follow) if is_noted else follow)
        return self._fork(begin) if is_noted else begin

    def atomic(self, argument: Any, follow: int) -> int:
        """A group that is not gone back into; taken for one that is."""
        return self._sequence(list(argument), follow)

    def repeat(self, argument: Any, follow: int) -> int:
        """A repetition, written out as far as it is bounded."""
        low, high, body = argument
        items = list(body)
        before = len(self._ways)
        if high is ops.MAXREPEAT:
            begin = self._fork(follow)
            self._ways[begin].append((self._sequence(items, begin), False))
        else:
            begin = follow
            for _ in range(high - low):
                begin = self._fork(self._sequence(items, begin), follow)
        for _ in range(low):
            begin = self._sequence(items, begin)
        if len(items) == 1 and items[0][0] in _SINGLE:
            self._free.update(range(before, len(self._ways)))
        return begin

    def anchor(self, argument: Any, follow: int) -> int:
        """``^`` holds at the beginning alone, but for flag m; any other is taken to hold."""
        is_start = argument is ops.AT_BEGINNING_STRING or (
            argument is ops.AT_BEGINNING and not self._flags & re.MULTILINE
        )
        place = self._place()
        self._ways[place].append((follow, is_start))
        return place

    def look(self, argument: Any, follow: int) -> int:
        """A look-ahead: one more way, which ends. A look-behind: so many steps as it is long."""
        direction, body = argument
        items = list(body)
        if direction > 0:
            return self._fork(self._sequence(items, _END), follow)
        if len(items) > _LONGEST_LOOK_BEHIND or any(kind not in _SINGLE for kind, _ in items):
            raise _NotShownError(
                f"its look-behind is more than {_LONGEST_LOOK_BEHIND} single characters"
            )
        for _ in items:
            follow = self._fork(follow)
        return self._fork(follow)

    def _reached(self, place: int, *, is_start: bool) -> State:
        """Where paths stand after all ways without a character, and what they cost."""
        found: Counter[int] = Counter()
        ways = 0
        # Depth first, with the way that leads here: a repetition of nothing is not gone round.
        stack: list[tuple[int, frozenset[int]]] = [(place, frozenset())]
        while stack:
            here, passed = stack.pop()
            ways += 1
            if here in self._taking:
                found[here] += 1
            elif here not in passed:
                way = passed | {here}
                stack += [(to, way) for to, at in self._ways[here] if is_start or not at]
            found[_END] += here in self._taking or here not in self._free
            if found[_END] > MOST_STEPS or ways > _MOST_WAYS:
                raise _NotShownError(_MANY)
        return sum(paths << (_BITS * place) for place, paths in found.items())

    def _different_characters(self, run: Item | None) -> list[tuple[frozenset[int], bool]]:
        dots = bool(self._flags & re.DOTALL)
        takers: dict[str, set[int]] = {mark: set() for mark in _MARKS}
        for number, kind in enumerate(self._classes):
            for mark in _taken(kind, dots=dots):
                takers[mark].add(number)
        symbols = {
            (frozenset(numbers), run is None or not _surely_takes(run, mark))
            for mark, numbers in takers.items()
        }
        # What takes part in less than another does leads to no more paths.
        return [one for one in symbols if not any(_is_less(one, other) for other in symbols)]


_END: Final = 0
"""The place behind the pattern; in a state, how many steps its paths cost."""
_END_MASK: Final = (1 << _BITS) - 1


def _is_less(one: tuple[frozenset[int], bool], other: tuple[frozenset[int], bool]) -> bool:
    return one != other and one[0] <= other[0] and one[1] <= other[1]


def _walk_all_texts(automaton: _Automaton) -> None:
    """Raise unless the paths alive at one character stay few, whatever the text is."""
    # One bit over each number, which a number that is too small for a subtraction takes away.
    guards = sum(1 << (_BITS * place + _BITS - 1) for place in range(automaton.places))
    known = [automaton.first]
    waiting = deque(known)
    seen = set(known)
    while waiting:
        for longer in _longer(automaton, waiting.popleft()):
            if longer in seen:
                continue
            seen.add(longer)
            if any(((one | guards) - longer) & guards == guards for one in known):
                continue
            known.append(longer)
            waiting.append(longer)
        if len(known) > _MOST_STATES:
            _bound_all(automaton, known)
            return


def _bound_all(automaton: _Automaton, known: Sequence[State]) -> None:
    """One state that holds all: more than any text leads to, and quickly found."""
    whole = 0
    larger = _held_by_one(automaton, known)
    for _ in range(_MOST_ROUNDS):
        if larger == whole:
            return
        whole = larger
        larger = _held_by_one(automaton, [whole, *_longer(automaton, whole)])
    raise _NotShownError(_MANY)


def _held_by_one(automaton: _Automaton, states: Sequence[State]) -> State:
    numbers = (_numbers(automaton, state) for state in states)
    highest = [max(column) for column in zip(*numbers, strict=True)]
    return int.from_bytes(struct.pack(f"<{automaton.places}I", *highest), "little")


def _numbers(automaton: _Automaton, state: State) -> tuple[int, ...]:
    size = _BITS // 8 * automaton.places
    return struct.unpack(f"<{automaton.places}I", state.to_bytes(size, "little"))


def _longer(automaton: _Automaton, state: State) -> Iterator[State]:
    """The states that one more character leads to."""
    paths = _numbers(automaton, state)
    by_class: dict[int, State] = {}
    for place, number in automaton.taking.items():
        if paths[place]:
            ahead = paths[place] * automaton.after[place]
            by_class[number] = by_class.get(number, 0) + ahead
    done = set()
    for classes, may_start in automaton.symbols:
        taken = classes.intersection(by_class)
        if (taken, may_start) in done:
            continue
        done.add((taken, may_start))
        longer = sum(map(by_class.__getitem__, taken), automaton.again if may_start else 0)
        if longer & _END_MASK > MOST_STEPS:
            raise _NotShownError(_MANY)
        yield longer


def _flags_of(tree: Any) -> int:
    """The flags of the whole and of any part."""
    flags: int = tree.state.flags
    for operation, argument in _everything(tree):
        if operation is ops.SUBPATTERN:
            flags |= argument[1]
    return flags


def _everything(tree: Any) -> Iterator[Item]:
    for item in tree:
        yield item
        for part in _parts(item[1]):
            yield from _everything(part)


def _parts(argument: Any) -> Iterator[Any]:
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for inner in argument:
            yield from _parts(inner)


def _leading_run(tree: Any) -> Item | None:
    """The characters of an open-ended repetition that a pattern begins with, if it does."""
    if tree.state.flags != re.UNICODE.value:  # Flags stand first, and nothing can go before them.
        return None
    while len(tree):
        operation, argument = tree[0]
        if operation is ops.SUBPATTERN and not argument[1] | argument[2]:
            tree = argument[-1]
            continue
        if operation in (ops.MAX_REPEAT, ops.MIN_REPEAT) and argument[1] is ops.MAXREPEAT:
            body = list(argument[-1])
            return body[0] if len(body) == 1 and body[0][0] in _SINGLE else None
        return None
    return None


def _class_text(item: Item) -> str:
    """Characters as a class that a pattern can hold."""
    operation, argument = item
    if operation is ops.ANY:
        return "."
    if operation is ops.IN:
        return f"[{''.join(map(_class_part, argument))}]"
    mark = "^" if operation is ops.NOT_LITERAL else ""
    return f"[{mark}{_escaped(argument)}]"


def _class_part(part: Item) -> str:
    operation, argument = part
    if operation is ops.NEGATE:
        return "^"
    if operation is ops.LITERAL:
        return _escaped(argument)
    if operation is ops.RANGE:
        return f"{_escaped(argument[0])}-{_escaped(argument[1])}"
    return _CATEGORIES[argument].spelled


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


@record(kw_only=False)
class _Category:
    spelled: str
    holds: Callable[[str], bool] = field(repr=False)


def _is_word(mark: str) -> bool:
    return mark.isalnum() or mark == "_"


_CATEGORIES: Final = {
    ops.CATEGORY_DIGIT: _Category(r"\d", str.isdecimal),
    ops.CATEGORY_NOT_DIGIT: _Category(r"\D", lambda mark: not mark.isdecimal()),
    ops.CATEGORY_SPACE: _Category(r"\s", str.isspace),
    ops.CATEGORY_NOT_SPACE: _Category(r"\S", lambda mark: not mark.isspace()),
    ops.CATEGORY_WORD: _Category(r"\w", _is_word),
    ops.CATEGORY_NOT_WORD: _Category(r"\W", lambda mark: not _is_word(mark)),
}

_LATIN: Final = tuple(map(chr, range(256)))
_OTHERS: Final = ("\u0663", "\u0416", "\u2003", "\u20ac")
"""Stand for all other characters: a digit, a letter, a blank and none of these."""
_MARKS: Final = (*_LATIN, *_OTHERS)
_SAME: Final = (
    "iI\u0130\u0131",
    "sS\u017f",
    "kK\u212a",
    "\xb5\u03bc\u039c",
    "\xe5\xc5\u212b",
    "\xff\u0178",
    "\xdf\u1e9e",
)
"""Letters that have cases beyond Latin-1."""
_CASES: Final = {
    mark: frozenset({mark, mark.lower(), mark.upper()}).union(
        *(same for same in _SAME if mark in same)
    )
    for mark in _MARKS
}


@functools.lru_cache(maxsize=1024)
def _taken(item: Item, *, dots: bool) -> frozenset[str]:
    return frozenset(mark for mark in _MARKS if _may_take(item, mark, dots=dots))


def _may_take(item: Item, mark: str, *, dots: bool) -> bool:
    """Whether characters may take one, letters in either case; rather yes than no."""
    operation, argument = item
    if operation is ops.ANY:
        return dots or mark != "\n"
    if operation is ops.NOT_LITERAL:
        return mark in _OTHERS or ord(mark) != argument
    parts = [(ops.LITERAL, argument)] if operation is ops.LITERAL else list(argument)
    if parts[0][0] is ops.NEGATE:
        return not any(_is_in(part, mark) for part in parts[1:])
    if mark in _OTHERS and any(_reaches_beyond(part) for part in parts):
        return True
    return any(_is_in(part, other) for part in parts for other in _CASES[mark])


def _surely_takes(item: Item, mark: str) -> bool:
    """Whether characters take one whatever the case of letters; rather no than yes."""
    operation, argument = item
    if operation is ops.ANY:
        return mark != "\n"
    if operation is ops.NOT_LITERAL:
        return _surely_takes((ops.IN, [(ops.NEGATE, None), (ops.LITERAL, argument)]), mark)
    parts = [(ops.LITERAL, argument)] if operation is ops.LITERAL else list(argument)
    if parts[0][0] is ops.NEGATE:
        if mark in _OTHERS and any(_has_cases(part) or _reaches_beyond(part) for part in parts[1:]):
            return False
        return not any(_is_in(part, other) for part in parts[1:] for other in _CASES[mark])
    return any(_is_in(part, mark) for part in parts)


def _is_in(part: Item, mark: str) -> bool:
    operation, argument = part
    if operation is ops.CATEGORY:
        return _CATEGORIES[argument].holds(mark)
    if mark in _OTHERS:
        return False
    low, high = argument if operation is ops.RANGE else (argument, argument)
    return any(low <= ord(one) <= high for one in mark)


def _reaches_beyond(part: Item) -> bool:
    operation, argument = part
    if operation is ops.CATEGORY:
        return False
    highest: int = argument[1] if operation is ops.RANGE else argument
    return highest >= len(_LATIN)


def _has_cases(part: Item) -> bool:
    operation, argument = part
    if operation is ops.CATEGORY:
        return False
    low, high = argument if operation is ops.RANGE else (argument, argument)
    return any(len(_CASES[mark]) > 1 for mark in _LATIN[low : high + 1])


_SINGLE: Final = frozenset({ops.LITERAL, ops.NOT_LITERAL, ops.IN, ops.ANY})
_BUILDERS: Final[dict[Any, Callable[[_Automaton, Any, int], int]]] = {
    ops.BRANCH: _Automaton.branch,
    ops.SUBPATTERN: _Automaton.group,
    ops.ATOMIC_GROUP: _Automaton.atomic,
    ops.MAX_REPEAT: _Automaton.repeat,
    ops.MIN_REPEAT: _Automaton.repeat,
    ops.POSSESSIVE_REPEAT: _Automaton.repeat,
    ops.AT: _Automaton.anchor,
    ops.ASSERT: _Automaton.look,
    ops.ASSERT_NOT: _Automaton.look,
}


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str, *, any_case: bool = True) -> re.Pattern[str]:
    """The pattern; raises ``re.error`` for what ``pattern_of`` refuses."""
    return re.compile(without_restarts(pattern), re.IGNORECASE if any_case else 0)


def found_in(text: str, pattern: str, *, any_case: bool = True) -> re.Match[str] | None:
    """Where a pattern of a file first matches in the beginning of a text, which is all it sees."""
    return compiled(pattern, any_case=any_case).search(text, 0, MAX_SEARCHED)


@functools.lru_cache(maxsize=1024)
def needed_text(pattern: str) -> str:
    """A text without which a pattern finds nothing, for a look that costs less; empty: not known.

    In lower case as ``str.casefold`` makes it: whoever looks makes what is searched alike.

    Raises:
        re.error: it is no regular expression.
    """
    found = _needed(parser.parse(pattern))
    return max(found, key=len, default="")


def _needed(tree: Any) -> Iterator[str]:
    """Runs of characters that every match of a sequence holds."""
    run = ""
    for code, argument in tree:
        if code is ops.LITERAL and argument < 128:
            run += chr(argument)
            continue
        yield run.casefold()
        run = ""
        if code is ops.SUBPATTERN:
            yield from _needed(argument[3])
        elif code is ops.MAX_REPEAT and argument[0] > 0:
            yield from _needed(argument[2])
    yield run.casefold()
