import pytest

from edged.protocol.http_rules import Accepted, Verb
from edged.surfaces.mcp.connection import MAX_HEADS, HeadBook, body_size
from edged.surfaces.mcp.seams import Choice, ToolListing

ACCEPTED = Accepted(verb=Verb.POST, wants_json=True, wants_sse=True, headers={}, peer="")
START = b"POST /mcp HTTP/1.1\r\nHost: a"


def learn(book: HeadBook, head: bytes) -> None:
    """As two requests with this head do."""
    for _ in range(2):
        book.learn(head, ACCEPTED, Choice(ToolListing.ALL))


@pytest.mark.parametrize(
    ("more", "size"),
    [
        (b"", 0),
        (b"\r\nContent-Length: 17", 17),
        (b"\r\ncontent-length:17 \r\nAccept: */*", 17),
        (b"\r\nConnection: keep-alive\r\nContent-Length: 0", 0),
    ],
)
def test_the_size_of_a_plain_body_is_read_from_its_head(more: bytes, size: int) -> None:
    assert body_size(START + more) == size


@pytest.mark.parametrize(
    "more",
    [
        b"\r\nTransfer-Encoding: chunked",
        b"\r\ntransfer-encoding : chunked",
        b"\r\nContent-Length: 5\r\nContent-Length: 5",
        b"\r\nContent-Length: 5\r\ncontent-length : 6",
        b"\r\nContent-Length: +5",
        b"\r\nContent-Length: 5, 5",
        b"\r\nContent-Length: 0x5",
        b"\r\nContent-Length: 9999999999",
        b"\r\nContent-Length:",
        b"\r\nExpect: 100-continue",
        b"\r\nUpgrade: websocket",
        b"\r\nX: a\r\n Content-Length: 5",
        b"\r\nX: a\nContent-Length: 5",
        b"\r\nX: a\rContent-Length: 5",
        b"\r\nX: \0",
    ],
)
def test_framing_that_readers_could_disagree_about_is_left_to_a_real_parser(more: bytes) -> None:
    assert body_size(START + more) is None
    book = HeadBook()
    learn(book, START + more)
    assert book.find(START + more) is None


def test_a_head_is_known_from_its_second_time_on() -> None:
    book = HeadBook()
    book.learn(START, ACCEPTED, Choice(ToolListing.ALL))
    assert book.find(START) is None
    book.learn(START, ACCEPTED, Choice(ToolListing.ALL))
    assert book.find(START) is not None


def test_heads_that_came_once_are_forgotten_when_there_are_too_many() -> None:
    book = HeadBook()
    for number in range(MAX_HEADS + 1):
        book.learn(START + b"%d" % number, ACCEPTED, Choice(ToolListing.ALL))
    book.learn(START + b"0", ACCEPTED, Choice(ToolListing.ALL))
    assert book.find(START + b"0") is None


def test_the_oldest_heads_are_forgotten_when_there_are_too_many() -> None:
    book = HeadBook()
    heads = [START + b"%d" % number for number in range(MAX_HEADS + 2)]
    for head in heads:
        learn(book, head)
    assert [head for head in heads if book.find(head) is None] == heads[:2]
