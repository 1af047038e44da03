from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.auth.claims import is_edge_id
from edged.relay.envelope import (
    CHUNK_BYTES,
    Alive,
    AnswerEnd,
    BadEnvelopeError,
    Body,
    Cancel,
    Credit,
    Data,
    Envelope,
    Head,
    Open,
    decode,
    down_subject,
    encode,
    up_subject,
)

ID, FRONT = "0123456789abcdef", "fedcba9876543210"
OPEN = Open(
    exchange=ID,
    front=FRONT,
    verb="POST",
    query="tools=all",
    headers=(("content-type", "application/json"), ("mcp-session-id", "")),
    token="a.b.c",
    peer="2001:db8::1",
    length=3,
    data=b"\n{}",
)
EACH: list[Envelope] = [
    OPEN,
    Body(exchange=ID, front=FRONT, offset=1, data=b"\x00\n\xff"),
    Credit(exchange=ID, front=FRONT, size=1),
    Cancel(exchange=ID, front=FRONT),
    Alive(exchange=ID, front=FRONT),
    Head(exchange=ID, status=200, headers=(("content-type", "text/event-stream"),)),
    Data(exchange=ID, number=0, data=b""),
    AnswerEnd(exchange=ID, number=1, is_whole=True),
]


@pytest.mark.parametrize("envelope", EACH, ids=lambda made: type(made).__name__)
def test_what_is_encoded_is_decoded(envelope: Envelope) -> None:
    assert decode(encode(envelope)) == envelope


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "other"},
        {"kind": None},
        {"exchange": "../x"},
        {"exchange": "a.b.>"},
        {"front": "*"},
        {"front": 7},
        {"verb": "POST / HTTP/1.1\r\nX: y"},
        {"query": "a b"},
        {"query": "a\r\nX: y"},
        {"headers": [["host", "x"]]},
        {"headers": [["authorization", "x"]]},
        {"headers": [["edge-caller-jwt", "x"]]},
        {"headers": [["edged-peer", "x"]]},
        {"headers": [["accept", "x\r\nHost: y"]]},
        {"headers": [["accept", "x" * 9_000]]},
        {"headers": {"accept": "x"}},
        {"headers": [["accept"]]},
        {"token": "a b"},
        {"token": "a\nb"},
        {"peer": "1.2.3.4 x"},
        {"length": -1},
        {"length": True},
        {"length": 5_000_000},
        {"extra": 1},
    ],
)
def test_what_a_hostile_relay_could_smuggle_in_is_refused(changes: dict[str, object]) -> None:
    line, _, data = encode(OPEN).partition(b"\n")
    fields = json.loads(line) | changes
    with pytest.raises(BadEnvelopeError):
        decode(json.dumps(fields).encode() + b"\n" + data)


@pytest.mark.parametrize(
    "message",
    [b"", b"\n", b"{}", b"[]\n", b"null\n", b"[" * 9_000 + b"\n", b'{"kind":"alive"}\n'],
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(BadEnvelopeError):
        decode(message)


def test_a_piece_over_the_bound_is_refused() -> None:
    with pytest.raises(BadEnvelopeError):
        decode(encode(Data(exchange=ID, number=0, data=bytes(CHUNK_BYTES + 1))))


@given(st.binary(max_size=300))
def test_no_bytes_do_anything_but_decode_or_be_refused(message: bytes) -> None:
    with pytest.raises(BadEnvelopeError):
        decode(message)


@pytest.mark.parametrize("text", ["", "*", ">", "a.b", "a b", "-a", "a" * 65, "é", "a\n"])
def test_what_could_widen_a_subject_is_no_edge_id(text: str) -> None:
    assert not is_edge_id(text)


def test_an_edge_hears_one_subject_and_speaks_below_its_own() -> None:
    assert down_subject("e1") == "edged.e1.down"
    assert up_subject("e1", FRONT, ID).startswith("edged.e1.up.")
