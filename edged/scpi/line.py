"""A raw SCPI line taken apart: messages, headers, arguments, and the path that a header continues.

Lenient on purpose: blanks around colons, tabs and other control characters as blanks, a missing or
additional leading colon. What an instrument might take must not look like something else here,
because the owner's limits are held against what this module sees.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

__all__ = [
    "LONGEST_KEPT",
    "LineKind",
    "Message",
    "classify",
    "is_query",
    "kept",
    "messages",
    "split_compound",
]

P = ParamSpec("P")
R = TypeVar("R")

_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_BLANKS: Final = re.compile(r"[\x00-\x20\x7f]+")
_PARTS: Final = re.compile(r"[;\r\n]")
_HEADER: Final = re.compile(r"[^ ?,(\"']*\??")
LONGEST_KEPT: Final = 256
"""Characters of a line of which it is remembered for a while what it is."""
_AROUND_COLON: Final = re.compile(r" ?: ?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineKind:
    """What a line is, before anyone knows what it means.

    Attributes:
        parts: its messages as written, trimmed; empty ones left out.
        is_query: an answer will come.
        is_only_queries: nothing in it but queries.
    """

    parts: tuple[str, ...]
    is_query: bool
    is_only_queries: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One program message unit.

    Attributes:
        text: as written.
        nodes: the header's mnemonics, without colons and question mark, as written.
        arguments: between commas, trimmed, blanks inside made single.
        path: the mnemonics that came before it in a compound line, which a header without a leading
            colon continues (SCPI-99 volume 1, 6.2.4); empty where it continues none.
    """

    text: str
    nodes: tuple[str, ...]
    is_query: bool
    arguments: tuple[str, ...]
    path: tuple[str, ...] = ()


def split_compound(line: str) -> tuple[str, ...]:
    """The messages of a line; a ``;`` or line end inside quotes does not part them.

    Unbalanced quotes quote nothing: an instrument may not see them as quotes at all.
    """
    outside = _QUOTED.sub(lambda match: "." * len(match.group()), line)
    if '"' in outside or "'" in outside:
        outside = line
    parts, start = [], 0
    for match in _PARTS.finditer(outside):
        parts.append(line[start : match.start()])
        start = match.end()
    parts.append(line[start:])
    return tuple(trimmed for part in parts if (trimmed := _BLANKS.sub(" ", part).strip()))


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
    """Messages of a line, and whether some or all of them ask."""
    asks = [message.is_query for message in messages(line)]
    return LineKind(
        parts=split_compound(line),
        is_query=any(asks),
        is_only_queries=bool(asks) and all(asks),
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
    for text in split_compound(line):
        header, arguments = _header_and_rest(text)
        asks = header.endswith("?")
        is_rooted = header.startswith(":")
        is_common = header.lstrip(":").startswith("*")
        nodes = tuple(node for node in header.rstrip("?").split(":") if node)
        own_path = () if is_rooted or is_common else path
        yield Message(
            text=text,
            nodes=nodes,
            is_query=asks,
            arguments=_split_arguments(arguments),
            path=own_path,
        )
        if not is_common:  # common commands leave the path as it is
            path = (own_path + nodes)[:-1]


def _header_and_rest(text: str) -> tuple[str, str]:
    """The header, and everything after it; blanks around colons and before ``?`` taken out."""
    first_quote = min((text.find(mark) for mark in "\"'" if mark in text), default=len(text))
    head, tail = text[:first_quote], text[first_quote:]
    head = _AROUND_COLON.sub(":", head).replace(" ?", "?")
    match = _HEADER.match(head)
    header = match.group() if match else ""
    return header, (head[len(header) :] + tail).strip()


def _split_arguments(text: str) -> tuple[str, ...]:
    """Arguments between commas; a comma inside quotes or parentheses does not part them."""
    if not text:
        return ()
    pieces, piece, quote, depth = [], "", "", 0
    for mark in text:
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "\"'":
            quote = mark
        elif mark in "()":
            depth = max(0, depth + (1 if mark == "(" else -1))
        elif mark == "," and depth == 0:
            pieces.append(piece.strip())
            piece = ""
            continue
        piece += mark
    return (*pieces, piece.strip())
