"""A raw SCPI line taken apart: message units, headers, arguments, and the path of a header.

The grammar is that of IEEE 488.2 (chapter 7) and SCPI-99 (volume 1, 6.2.4). Any text gives message
units, in time linear in its length: ``is_formed`` says whether a unit is in the grammar. A unit
that is not is still taken apart as leniently as an instrument might read it (blanks around colons,
control characters as blanks), for messages to people and for those who look for what it could do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

from edged.record import record

P = ParamSpec("P")
R = TypeVar("R")

MOST_NODES: Final = 12
"""Mnemonics of a header; the deepest of real instruments have seven."""
MOST_ARGUMENTS: Final = 64
"""Arguments of a message unit; no template of a profile has more than a few."""
LONGEST_NODE: Final = 64
"""Characters of a mnemonic; IEEE 488.2 has at most 12 (7.6.1.4.1)."""
LONGEST_KEPT: Final = 256
"""Characters of a line of which the parts are remembered for a while."""

# Whole runs, and not one character after the other: that costs a sixth.
_QUOTED: Final = r"\"[^\"]*+\"|'[^']*+'"
_BALANCED: Final = re.compile(rf"[^\"']*+(?:(?:{_QUOTED})[^\"']*+)*+")
"""A text in which each quote is closed."""
_BLANKS: Final = re.compile(r"[\x00-\x20\x7f]+")
_BLOCK: Final = re.compile(rf"(?:[^\"' ,]|{_QUOTED}|[ ,](?!#[0-9]))*+[ ,]")
"""Up to where a block begins that stands outside of quotes."""
_BETWEEN: Final = re.compile(r"[;\x00-\x20\x7f]*")
_UNIT: Final = re.compile(rf"[^;\r\n\"']*+(?:(?:{_QUOTED})[^;\r\n\"']*+)*+")
_UNQUOTED_UNIT: Final = re.compile(r"[^;\r\n]*")
_HEADER: Final = re.compile(r"[^ ?,(\"']*\??")
_AROUND_COLON: Final = re.compile(r" ?: ?")
_WORD: Final = "[A-Za-z][A-Za-z0-9_]*"
_FORMED: Final = re.compile(rf"(?:\*[A-Za-z]+|:?{_WORD}(?::{_WORD})*)\??")
"""A header of IEEE 488.2: a common or a compound one."""
_INSIDE: Final = rf"{_QUOTED}|\([^()\"']*+\)"
_ARGUMENT: Final = re.compile(rf"[^,()\"']*+(?:(?:{_INSIDE})[^,()\"']*+)*+")


@record
class LineKind:
    """What a line is, before anyone knows what it means.

    Attributes:
        parts: its message units as written, trimmed; empty ones left out.
        is_query: an answer will come.
    """

    parts: tuple[str, ...]
    is_query: bool


@record
class Message:
    """One program message unit.

    Attributes:
        text: as written.
        nodes: the header's mnemonics, without colons and question mark, as written; longer ones
            than those of the standard are cut.
        arguments: between commas, trimmed, blanks inside made single.
        path: the level of the unit before it in a compound line, which a header without a leading
            colon continues (SCPI-99 volume 1, 6.2.4); empty where it continues none.
        base: the same as of the last header that was written from the root. The two differ behind a
            relative header of several mnemonics, where instruments differ, too.
        is_formed: it is in the grammar of IEEE 488.2, within the bounds above, and no block.
        is_plain: its line is printable ASCII without a line end inside or an open quote, so that
            the parts of it are beyond doubt.
    """

    text: str
    nodes: tuple[str, ...]
    is_query: bool
    arguments: tuple[str, ...]
    path: tuple[str, ...] = ()
    base: tuple[str, ...] = ()
    is_formed: bool = True
    is_plain: bool = True

    @property
    def headers(self) -> tuple[tuple[str, ...], ...]:
        """The headers that it may stand for by the standard, each from the root."""
        return tuple(dict.fromkeys((self.path + self.nodes, self.base + self.nodes)))


def split_compound(line: str) -> tuple[str, ...]:
    """The messages of a line; a ``;`` or line end inside quotes does not part them.

    Unbalanced quotes quote nothing: an instrument may not see them as quotes at all.
    """
    return tuple(_parts(line, is_balanced=_is_balanced(line)))


def _parts(line: str, *, is_balanced: bool) -> Iterator[str]:
    unit = _UNIT if is_balanced else _UNQUOTED_UNIT
    at = 0
    while at < len(line):
        begin = _end(_BETWEEN, line, at)
        at = _end(unit, line, begin)
        if at > begin:
            text = line[begin:at]
            if "  " in text or not text.isprintable():
                text = _BLANKS.sub(" ", text)
            yield text.strip(" ")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what a pattern takes from here ends."""
    found = pattern.match(text, at)
    return at if found is None else found.end()


def is_query(line: str) -> bool:
    """Whether an answer will come: some message of the line asks."""
    return classify(line).is_query


def kept(judge: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
    """Remember for a while what a pure function says of lines that are not long.

    Several judges ask about each line, and programs send the same few over and over.
    """
    remembered = cast("Callable[Concatenate[str, P], R]", functools.lru_cache(maxsize=512)(judge))

    @functools.wraps(judge)
    def asked(line: str, /, *more: P.args, **named: P.kwargs) -> R:
        return (remembered if len(line) <= LONGEST_KEPT else judge)(line, *more, **named)

    return asked


@kept
def classify(line: str) -> LineKind:
    """Messages of a line, and whether some of them ask."""
    found = tuple(messages(line))
    return LineKind(
        parts=tuple(message.text for message in found),
        is_query=any(message.is_query for message in found),
    )


def messages(line: str) -> Iterable[Message]:
    """The messages of a line in order, each with the path that it may continue.

    As ``kept``, but that those of a long line are found one by one: it may never be read whole.
    """
    return _kept(line) if len(line) <= LONGEST_KEPT else _messages(line)


@functools.lru_cache(maxsize=512)
def _kept(line: str) -> tuple[Message, ...]:
    return tuple(_messages(line))


def _messages(line: str) -> Iterator[Message]:
    path: tuple[str, ...] = ()
    base: tuple[str, ...] = ()
    is_balanced = _is_balanced(line)
    is_line_plain = is_balanced and _is_printable(line)
    for text in _parts(line, is_balanced=is_balanced):
        header, rest = _header_and_rest(text)
        is_common = header.lstrip(":").startswith("*")
        nodes = tuple(
            node[: LONGEST_NODE + 1]
            for node in header.rstrip("?").split(":", MOST_NODES + 2)
            if node
        )
        is_rooted = header.startswith(":") or is_common
        arguments = _split_arguments(rest)
        message = Message(
            text=text,
            nodes=nodes[: MOST_NODES + 1],
            is_query=header.endswith("?"),
            arguments=arguments,
            path=() if is_rooted else path,
            base=() if is_rooted else base,
            is_plain=is_line_plain,
            is_formed=is_line_plain
            and text.startswith(header)
            and len(nodes) + (0 if is_rooted else len(path)) <= MOST_NODES
            and len(arguments) <= MOST_ARGUMENTS
            and max(map(len, nodes), default=0) <= LONGEST_NODE
            and "" not in arguments
            and _FORMED.fullmatch(header) is not None
            and text[len(header) : len(header) + 1] in {"", " "}
            and not _has_block(text),
        )
        yield message
        if not is_common:  # common commands leave the path as it is
            path = (message.path + message.nodes)[:-1][:MOST_NODES]
            base = base if message.path else path


def _is_printable(line: str) -> bool:
    """Whether a line is tabs and printable ASCII, apart from one line end behind it."""
    text = line.removesuffix("\n")
    text = text.removesuffix("\r") if len(text) < len(line) else text
    return text.isascii() and text.replace("\t", " ").isprintable()


def _is_balanced(line: str) -> bool:
    """Whether each quote is closed."""
    return ('"' not in line and "'" not in line) or _BALANCED.fullmatch(line) is not None


def _has_block(text: str) -> bool:
    """Whether data may follow that an instrument reads by its length, or as commands."""
    return "#" in text and _BLOCK.match(text) is not None


def _header_and_rest(text: str) -> tuple[str, str]:
    """The header, and everything after it; blanks around colons and before ``?`` taken out."""
    first_quote = min((text.find(mark) for mark in "\"'" if mark in text), default=len(text))
    head, tail = text[:first_quote], text[first_quote:]
    if " :" in head or ": " in head:
        head = _AROUND_COLON.sub(":", head)
    head = head.replace(" ?", "?")
    match = _HEADER.match(head)
    header = match.group() if match else ""
    return header, (head[len(header) :] + tail).strip()


def _split_arguments(text: str) -> tuple[str, ...]:
    """Arguments between commas; a comma inside quotes or parentheses does not part them.

    At most one more than ``MOST_ARGUMENTS``. The last holds what is left, and all behind an open
    quote or parentheses within others, which no template has.
    """
    if not text:
        return ()
    pieces: list[str] = []
    start = 0
    while len(pieces) < MOST_ARGUMENTS:
        end = _end(_ARGUMENT, text, start)
        if text[end : end + 1] != ",":
            break
        pieces.append(text[start:end].strip())
        start = end + 1
    return (*pieces, text[start:].strip())
