"""Request framing: what is passed on is what came, plus one header a request; or a refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.supervisor.http_framing import BadFramingError, Framer
from tests.promises import promise

ADDED = b"Edged-Peer: s3cret 10.0.0.7"


def framer() -> Framer:
    return Framer("Edged-Peer", "s3cret 10.0.0.7")


def request(body: bytes = b"", *headers: str, line: str = "POST /mcp HTTP/1.1") -> bytes:
    return "\r\n".join([line, "Host: a", *headers]).encode() + b"\r\n\r\n" + body


def with_header(one: bytes) -> bytes:
    line, rest = one.split(b"\r\n", 1)
    return line + b"\r\n" + ADDED + b"\r\n" + rest


LENGTH = request(b"{}" * 5, "Content-Length: 10")
CHUNKED = request(
    b'5;a="b"\r\nhello\r\n0A\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n',
    "Transfer-Encoding: chunked",
)
EMPTY_CHUNKED = request(b"0\r\n\r\n", "transfer-encoding:  Chunked ")
GET = request(line="GET /mcp?tools=all HTTP/1.1")
REQUESTS = [LENGTH, CHUNKED, EMPTY_CHUNKED, GET, request(b"", "Content-Length: 0")]


@promise("proxy.each-request-named")
@given(
    st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=5),
    st.lists(st.integers(1, 60), min_size=1, max_size=40),
)
def test_every_request_of_a_connection_gets_the_header_however_its_bytes_arrive(
    requests: list[bytes], sizes: list[int]
) -> None:
    stream, reader, out, at, turn = b"".join(requests), framer(), b"", 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        out += reader.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert out == b"".join(with_header(one) for one in requests)
    assert reader.heads == len(requests)
    assert reader.is_between


@promise("proxy.no-forged-peer")
@pytest.mark.parametrize("name", ["Edged-Peer", "edged-peer", "EDGED-PEER"])
def test_a_client_s_own_copy_of_the_header_is_taken_out(name: str) -> None:
    forged = request(b"", f"{name}: s3cret 127.0.0.1", f"{name}:x", "X-Edged-Peer: stays")
    out = framer().feed(forged)
    assert out.lower().count(b"\r\nedged-peer:") == 1
    assert ADDED in out
    assert b"X-Edged-Peer: stays" in out


@promise("proxy.token-untouched")
def test_a_caller_token_is_neither_made_nor_taken_away() -> None:
    assert b"edge-caller-jwt" not in framer().feed(GET).lower()
    for value in ("abc", ""):
        out = framer().feed(request(b"", f"Edge-Caller-JWT: {value}"))
        assert f"\r\nEdge-Caller-JWT: {value}\r\n".encode() in out


@pytest.mark.parametrize(
    "bad",
    [
        request(b"", "Content-Length: 1", "Content-Length: 1"),
        request(b"", "Content-Length: 5", "Transfer-Encoding: chunked"),
        request(b"", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        request(b"", "Transfer-Encoding: gzip, chunked"),
        request(b"", "Transfer-Encoding: identity"),
        request(b"", "Content-Length: -1"),
        request(b"", "Content-Length: +1"),
        request(b"", "Content-Length: 1, 1"),
        request(b"", "Content-Length: 0x10"),
        request(b"", "Content-Length:"),
        request(b"", "Content-Length : 5"),
        request(b"", " folded: line"),
        request(b"", "no colon"),
        request(b"", ": no name"),
        request(b"", "X: a\nContent-Length: 5"),
        request(b"", "X: a\rContent-Length: 5"),
        request(b"", "X: \0"),
        request(line="POST  /mcp HTTP/1.1"),
        request(line="POST /mcp HTTP/2.0"),
        request(line="POST /mcp"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: " + b"a" * 50_000,
        request(b"zz\r\n", "Transfer-Encoding: chunked"),
        request(b"-1\r\n", "Transfer-Encoding: chunked"),
        request(b"1" * 20 + b"\r\n", "Transfer-Encoding: chunked"),
        request(b"1;" + b"a" * 9_000, "Transfer-Encoding: chunked"),
        request(b"0\r\nA: b\n\nGET / HTTP/1.1\r\n\r\n", "Transfer-Encoding: chunked"),
        request(b"0\r\n" + b"A: b\r\n" * 2_000, "Transfer-Encoding: chunked"),
    ],
)
def test_what_two_readers_could_understand_in_two_ways_is_refused(bad: bytes) -> None:
    with pytest.raises(BadFramingError):
        framer().feed(bad)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_pass_wait_or_be_refused(data: bytes) -> None:
    reader = framer()
    try:
        reader.feed(data)
    except BadFramingError:
        return
    assert reader.heads <= data.count(b"\r\n\r\n")


OFFER = request(b"", "Connection: Upgrade", "Upgrade: websocket", line="GET /bench/events HTTP/1.1")
TAKEN = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"


@promise("page.supervised")
def test_what_follows_an_offered_websocket_waits_until_the_engine_has_agreed() -> None:
    reader = framer()
    assert reader.feed(OFFER + b"\x81\x05hel") == with_header(OFFER)
    assert reader.awaits_answer
    assert reader.feed(b"lo") == b""
    assert reader.answered(TAKEN) == b"\x81\x05hello"
    forged = GET.replace(b"Host: a", b"Edged-Peer: forged")
    assert reader.feed(forged) == forged
    assert not reader.awaits_answer


@promise("page.supervised")
def test_an_offer_that_is_not_taken_leaves_requests_named_each() -> None:
    reader = framer()
    forged = GET.replace(b"Host: a", b"Edged-Peer: forged\r\nHost: a")
    assert reader.feed(OFFER + forged) == with_header(OFFER)
    passed = reader.answered(b"HTTP/1.1 400 Bad Request\r\n\r\nHTTP/1.1 101 ")
    assert passed == with_header(GET)


@promise("page.supervised")
def test_an_offer_behind_another_request_is_no_way_out_of_the_framing() -> None:
    reader = framer()
    assert reader.feed(GET + OFFER) == with_header(GET) + with_header(OFFER)
    assert not reader.awaits_answer
    with pytest.raises(BadFramingError):
        reader.feed(b"\x81\x05hello\r\n\r\n")


@promise("page.supervised")
def test_who_says_too_much_before_it_is_agreed_is_cut() -> None:
    reader = framer()
    reader.feed(OFFER)
    assert reader.feed(b"x" * 40 * 1024) == b""
    with pytest.raises(BadFramingError):
        reader.feed(b"x")
