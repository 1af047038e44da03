from __future__ import annotations

from edged.protocol.http_rules import Accepted, Verb
from edged.surfaces.mcp.request import (
    MAX_KNOWN_HEAD_BYTES,
    MAX_KNOWN_HEADS,
    KnownHeads,
    PostHead,
    RawHead,
)
from edged.surfaces.mcp.seams import Choice, ToolListing

ACCEPTED = Accepted(verb=Verb.POST, wants_json=True, wants_sse=True, headers={}, peer="")
HEAD = PostHead(ACCEPTED, Choice(ToolListing.ALL))


def raw(number: int, more: bytes = b"") -> RawHead:
    return "POST", "/mcp", ((b"Host", b"a"), (b"Mcp-Session-Id", b"%d" % number + more))


def learn(heads: KnownHeads, head: RawHead) -> None:
    """As two requests with this head do."""
    for _ in range(2):
        heads.learn(head, HEAD)


def test_a_head_is_known_from_its_second_time_on() -> None:
    heads = KnownHeads()
    heads.learn(raw(1), HEAD)
    assert heads.find(raw(1)) is None
    heads.learn(raw(1), HEAD)
    assert heads.find(raw(1)) is HEAD
    assert heads.find(raw(2)) is None


def test_a_long_head_is_not_kept() -> None:
    heads, long = KnownHeads(), raw(1, b"x" * MAX_KNOWN_HEAD_BYTES)
    learn(heads, long)
    assert heads.find(long) is None


def test_heads_that_came_once_are_forgotten_when_there_are_too_many() -> None:
    heads = KnownHeads()
    for number in range(MAX_KNOWN_HEADS + 1):
        heads.learn(raw(number), HEAD)
    heads.learn(raw(0), HEAD)
    assert heads.find(raw(0)) is None


def test_the_oldest_heads_are_forgotten_when_there_are_too_many() -> None:
    heads = KnownHeads()
    for number in range(MAX_KNOWN_HEADS + 2):
        learn(heads, raw(number))
    kept = range(MAX_KNOWN_HEADS + 2)
    assert [number for number in kept if heads.find(raw(number)) is None] == [0, 1]
