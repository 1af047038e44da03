"""The ladder over a request's head: one table row for each rule, first failure wins."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edged.protocol.http_rules import (
    MAX_HEADER_BYTES,
    Accepted,
    AccessPolicy,
    Guard,
    HttpHead,
    Rejected,
    Verb,
    judge_head,
    judge_visit,
    rejected_message,
    rejection,
)
from edged.protocol.jsonrpc import BadMessage, RpcCode
from tests.promises import promise

DOOR = AccessPolicy(path="/mcp", guard=Guard.of(host_name="bench7"))
BASE = {
    "Host": "127.0.0.1:8767",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


def head(verb: str = "POST", path: str = "/mcp", **changes: str | None) -> HttpHead:
    """A good request with some headers changed (``_`` for ``-``) or, with None, left out."""
    headers: dict[str, str | None] = dict(BASE)
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    return HttpHead(
        verb=verb,
        path=path,
        headers=tuple((name, value) for name, value in headers.items() if value is not None),
        peer="10.0.0.9",
    )


def with_twice(name: str, first: str, second: str) -> HttpHead:
    good = head(**{name.replace("-", "_"): None})
    return replace(good, headers=(*good.headers, (name, first), (name.lower(), second)))


REFUSED = {
    "foreign Host": (head(Host="evil.example.com"), 403),
    "no Host": (head(Host=None), 400),
    "foreign Origin": (head(Origin="http://evil.example.com"), 403),
    "null Origin": (head(Origin="null"), 403),
    "empty Origin": (head(Origin=""), 403),
    "Origin with user part": (head(Origin="http://localhost:8767@evil.example"), 403),
    "Origin on GET": (head("GET", Origin="http://evil.example.com"), 403),
    "Origin on DELETE": (head("DELETE", Origin="http://evil.example.com"), 403),
    "two Origins, good and evil": (
        with_twice("Origin", "http://localhost", "http://evil.example"),
        400,
    ),
    "two Hosts": (with_twice("Host", "127.0.0.1", "evil.example"), 400),
    "two sessions": (with_twice("Mcp-Session-Id", "a", "b"), 400),
    "two equal sessions": (with_twice("Mcp-Session-Id", "a", "a"), 400),
    "two tokens": (with_twice("Edge-Caller-JWT", "a", "b"), 400),
    "two versions": (with_twice("MCP-Protocol-Version", "2025-06-18", "2025-06-18"), 400),
    "two body types": (with_twice("Content-Type", "application/json", "text/plain"), 400),
    "two methods": (with_twice("Mcp-Method", "ping", "ping"), 400),
    "a page of another port": (
        head(Origin="http://localhost:6274", Sec_Fetch_Site="same-site"),
        403,
    ),
    "two words on whose page": (with_twice("Sec-Fetch-Site", "same-origin", "cross-site"), 400),
    "another path": (head(path="/sse"), 404),
    "two slashes at the end": (head(path="/mcp//"), 404),
    "something behind the slash": (head(path="/mcp/x"), 404),
    "messages of the old transport": (head(path="/messages"), 404),
    "PUT": (head("PUT"), 405),
    "PATCH": (head("PATCH"), 405),
    "OPTIONS": (head("OPTIONS"), 405),
    "HEAD": (head("HEAD"), 405),
    "a verb in lower case": (head("post"), 405),
    "no Content-Type": (head(Content_Type=None), 415),
    "a form": (head(Content_Type="application/x-www-form-urlencoded"), 415),
    "plain text": (head(Content_Type="text/plain"), 415),
    "JSON in UTF-16": (head(Content_Type="application/json; charset=utf-16"), 415),
    "gzip": (head(Content_Encoding="gzip"), 415),
    "body too long": (head(Content_Length=str(4 * 1024 * 1024 + 1)), 413),
    "body of absurd length": (head(Content_Length="9" * 6000), 413),
    "Accept of neither": (head(Accept="text/html"), 406),
    "plain GET": (head("GET", Accept="application/json"), 406),
    "GET of a browser": (head("GET", Accept="text/html,application/xhtml+xml"), 406),
    "headers too large": (head(X_Pad="x" * MAX_HEADER_BYTES), 431),
}


@pytest.mark.parametrize(("request_head", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_an_unusable_head_is_refused_with_a_json_rpc_error_body(
    request_head: HttpHead, status: int
) -> None:
    verdict = judge_head(request_head, DOOR)
    assert isinstance(verdict, Rejected)
    assert verdict.status == status
    assert ("Content-Type", "application/json") in verdict.headers
    body = json.loads(verdict.body)
    assert body["jsonrpc"] == "2.0"
    assert body["id"] is None
    assert body["error"]["code"] == RpcCode.INVALID_REQUEST
    assert body["error"]["message"]


def test_a_405_names_the_verbs_that_are_served() -> None:
    verdict = judge_head(head("PUT"), DOOR)
    assert isinstance(verdict, Rejected)
    assert ("Allow", "GET, POST, DELETE") in verdict.headers


PASSED = {
    "as clients send it": head(),
    "anything accepted": head(Accept="*/*"),
    "no Accept": head(Accept=None),
    "only JSON": head(Accept="application/json"),
    "only events": head(Accept="text/event-stream"),
    "type in other case": head(Content_Type="Application/JSON; Charset=UTF-8"),
    "loopback Origin": head(Origin="http://localhost:6274"),
    "its own Origin": head(Host="bench7:8767", Origin="http://bench7:8767"),
    "its own page": head(
        "GET",
        Host="bench7:8767",
        Origin="http://bench7:8767",
        Sec_Fetch_Site="same-origin",
        Accept="text/event-stream",
    ),
    "with a slash": head(path="/mcp/"),
    "by name": head(Host="bench7.local:8767"),
    "identity encoding": head(Content_Encoding="identity"),
    "4 MiB": head(Content_Length=str(4 * 1024 * 1024)),
    "GET of a stream": head("GET", Content_Type=None, Accept="text/event-stream"),
    "DELETE": head("DELETE", Content_Type=None, Accept=None),
}


@pytest.mark.parametrize("request_head", PASSED.values(), ids=PASSED.keys())
def test_a_usable_head_passes(request_head: HttpHead) -> None:
    verdict = judge_head(request_head, DOOR)
    assert isinstance(verdict, Accepted)
    assert verdict.verb == Verb(request_head.verb)
    assert verdict.peer == "10.0.0.9"


def test_accept_of_one_type_is_honoured() -> None:
    only_json = judge_head(head(Accept="application/json"), DOOR)
    only_sse = judge_head(head(Accept="text/event-stream"), DOOR)
    assert isinstance(only_json, Accepted)
    assert isinstance(only_sse, Accepted)
    assert (only_json.wants_json, only_json.wants_sse) == (True, False)
    assert (only_sse.wants_json, only_sse.wants_sse) == (False, True)


def test_header_names_are_read_in_any_case_and_values_without_blanks() -> None:
    request = head()
    request = replace(
        request,
        headers=(
            *request.headers,
            ("mcp-SESSION-id", " abc\t"),
            ("MCP-protocol-VERSION", "2025-06-18 "),
            ("last-event-id", "s-1"),
        ),
    )
    verdict = judge_head(request, DOOR)
    assert isinstance(verdict, Accepted)
    assert (verdict.session_id, verdict.version) == ("abc", "2025-06-18")
    assert verdict.last_event_id == "s-1"


def test_an_empty_caller_token_is_there_and_a_missing_one_is_not() -> None:
    empty = judge_head(head(Edge_Caller_JWT=""), DOOR)
    absent = judge_head(head(), DOOR)
    assert isinstance(empty, Accepted)
    assert isinstance(absent, Accepted)
    assert empty.header("Edge-Caller-JWT") == ""
    assert absent.header("Edge-Caller-JWT") is None


def test_repeated_accept_headers_count_together() -> None:
    request = head(Accept="application/json")
    request = replace(request, headers=(*request.headers, ("accept", "text/event-stream")))
    verdict = judge_head(request, DOOR)
    assert isinstance(verdict, Accepted)
    assert verdict.wants_json
    assert verdict.wants_sse


def test_a_rejection_can_carry_an_id_data_and_headers() -> None:
    made = rejection(
        503,
        "The engine is starting.",
        rpc_code=-32603,
        request_id="a",
        data={"x": 1},
        headers=(("Retry-After", "1"),),
    )
    assert made.status == 503
    assert ("Retry-After", "1") in made.headers
    assert json.loads(made.body)["error"] == {
        "code": -32603,
        "message": "The engine is starting.",
        "data": {"x": 1},
    }


def test_a_bad_message_becomes_an_answer_with_its_own_status() -> None:
    bad = BadMessage("Too long.", rpc_code=-32600, request_id=None, http_status=413)
    assert rejected_message(bad).status == 413


@promise("page.guarded")
@pytest.mark.parametrize(
    ("origin", "site", "is_let_in"),
    [
        (None, None, True),
        (None, "none", True),
        (None, "same-origin", True),
        (None, "same-site", False),  # an image in a page of another port
        (None, "cross-site", False),
        ("http://127.0.0.1:8767", None, True),
        ("http://127.0.0.1:8767", "same-origin", True),
        ("http://127.0.0.1:8767", "same-site", False),
        ("http://127.0.0.1:8768", None, False),
        ("http://localhost", None, False),
        ("http://[::1]:8767", None, False),
        ("https://127.0.0.1:8767", None, False),
        ("https://lab.example", None, True),
        ("https://lab.example", "cross-site", True),
        ("https://evil.example", None, False),
        ("null", None, False),
    ],
)
def test_what_only_browsers_ask_for_is_for_its_own_origin_and_the_owner_s(
    origin: str | None, site: str | None, is_let_in: bool
) -> None:
    guard = Guard.of(host_name="bench7", allowed_origins=["https://lab.example"])
    asked = head("GET", "/bench/events", Origin=origin, Sec_Fetch_Site=site)
    judged = judge_visit(asked, guard)
    assert isinstance(judged, Rejected) is not is_let_in
    if isinstance(judged, Rejected):
        assert judged.status == 403


def test_a_link_to_the_page_in_somebody_s_wiki_opens_it() -> None:
    asked = head("GET", "/bench", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert not isinstance(judge_visit(asked, DOOR.guard), Rejected)
