"""Which revision a request speaks, and every rule of transport that decides before dispatch.

Each row of the tables is one MUST (or one rule of ours) of docs/mcp-rules.md.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.http_rules import Accepted, Rejected, Verb
from edged.protocol.jsonrpc import Message, RpcCode, parse
from edged.protocol.recognition import Recognized, recognize, recognize_stream
from edged.protocol.revisions import REVISIONS, SUPPORTED_VERSIONS

V03, V06, V11, V26 = "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
LEGACY = (V03, V06, V11)
PREFIX = "io.modelcontextprotocol/"


def meta(version: object = V26, **changes: object) -> dict[str, object]:
    """A modern ``_meta``; a change to None leaves the key out."""
    members = {"protocolVersion": version, "clientCapabilities": {}} | changes
    return {PREFIX + key: value for key, value in members.items() if value is not None}


def call(
    method: str, params: dict[str, object] | None = None, *, request_id: object = 7
) -> dict[str, object]:
    message: dict[str, object] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else message | {"params": params}


def modern_call(method: str, **params: object) -> dict[str, object]:
    return call(method, {"_meta": meta()} | params)


def notice(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@dataclass
class Post:
    """A POST, and the revision of the session that its header names (empty: there is none)."""

    body: object
    headers: dict[str, str] = field(default_factory=dict)
    session: str = ""

    def judge(self) -> Recognized | Rejected:
        message = parse(json.dumps(self.body).encode())
        return recognize(message, accepted(self.headers), REVISIONS.get(self.session))


def accepted(headers: dict[str, str], verb: Verb = Verb.POST) -> Accepted:
    return Accepted(
        verb=verb,
        wants_json=True,
        wants_sse=True,
        headers={name.lower(): value for name, value in headers.items()},
        peer="",
    )


def headers(
    version: str | None = None,
    *,
    session: str | None = None,
    method: str | None = None,
    name: str | None = None,
) -> dict[str, str]:
    given = {
        "MCP-Protocol-Version": version,
        "Mcp-Session-Id": session,
        "Mcp-Method": method,
        "Mcp-Name": name,
    }
    return {key: value for key, value in given.items() if value is not None}


def initialize(version: object = V03, **more: object) -> dict[str, object]:
    return call("initialize", {"protocolVersion": version, "capabilities": {}} | more)


LIST = call("tools/list")
PING = call("ping")
MODERN_LIST = modern_call("tools/list")
MODERN_CALL = modern_call("tools/call", name="psu__measure", arguments={})

# name → (POST, revision, whether the session counts)
SERVED: dict[str, tuple[Post, str, bool]] = {
    # rule 1: initialize
    **{f"initialize {v}": (Post(initialize(v)), v, False) for v in LEGACY},
    "initialize of the modern one": (Post(initialize(V26)), V11, False),
    "initialize of an unknown one": (Post(initialize("2099-01-01")), V11, False),
    "initialize of an old one": (Post(initialize("2024-10-07")), V11, False),
    "initialize of the forerunner": (Post(initialize("2024-11-05")), "2024-11-05", False),
    "initialize without a version": (Post(call("initialize", {})), V11, False),
    "initialize without params": (Post(call("initialize")), V11, False),
    "initialize with a stale session": (Post(initialize(), headers(session="gone")), V03, False),
    "initialize with a live session": (Post(initialize(), headers(session="s"), V06), V03, False),
    "initialize under a modern header": (Post(initialize(V06), headers(V26)), V06, False),
    "initialize under an unknown header": (Post(initialize(), headers("2027-01-01")), V03, False),
    # rule 3: sessions
    **{f"session {v}": (Post(LIST, headers(session="s"), v), v, True) for v in LEGACY},
    "session over header": (Post(LIST, headers(V11, session="s"), V06), V06, True),
    "notification in a session": (
        Post(notice("notifications/initialized"), headers(session="s"), V03),
        V03,
        True,
    ),
    # rule 4: one-shots
    "nothing said": (Post(LIST), V03, False),
    **{f"header {v}": (Post(LIST, headers(v)), v, False) for v in LEGACY},
    "response of a client": (Post({"jsonrpc": "2.0", "id": 1, "result": {}}), V03, False),
    "legacy progress token": (Post(call("ping", {"_meta": {"progressToken": 0}})), V03, False),
    "meta of another kind": (Post(call("ping", {"_meta": 5})), V03, False),
    # batches: 2025-03-26 MUST accept
    "batch one-shot": (Post([PING, LIST]), V03, False),
    "batch in a session": (Post([PING], headers(session="s"), V03), V03, True),
    "batch of notifications": (Post([notice("notifications/initialized")]), V03, False),
    "batch with rubbish": (Post([1, PING]), V03, False),
    # modern
    "modern list": (Post(MODERN_LIST, headers(V26, method="tools/list")), V26, False),
    "modern call": (
        Post(MODERN_CALL, headers(V26, method="tools/call", name="psu__measure")),
        V26,
        False,
    ),
    "modern call, name in Base64": (
        Post(
            modern_call("tools/call", name="Spannung_Ω"),
            headers(
                V26,
                method="tools/call",
                name=f"=?base64?{base64.b64encode('Spannung_Ω'.encode()).decode()}?=",
            ),
        ),
        V26,
        False,
    ),
    "modern call without a name in the body": (
        Post(modern_call("tools/call"), headers(V26, method="tools/call", name="x")),
        V26,
        False,
    ),
    "modern ignores a session": (
        Post(MODERN_LIST, headers(V26, method="tools/list", session="gone")),
        V26,
        False,
    ),
    "modern notification": (Post(notice("x/y"), headers(V26)), V26, False),
    "modern notification by meta": (Post(notice("x/y", _meta=meta())), V26, False),
    "modern unknown method": (Post(modern_call("ping"), headers(V26, method="ping")), V26, False),
    "modern initialize": (
        Post(modern_call("initialize"), headers(V26, method="initialize")),
        V26,
        False,
    ),
    "client info is optional": (
        Post(
            call("tools/list", {"_meta": meta(clientInfo={"name": "x", "version": "1"})}),
            headers(V26, method="tools/list"),
        ),
        V26,
        False,
    ),
}


@pytest.mark.parametrize(("post", "version", "uses_session"), SERVED.values(), ids=SERVED.keys())
def test_a_post_is_served_under_the_revision_it_speaks(
    post: Post, version: str, uses_session: bool
) -> None:
    verdict = post.judge()
    assert isinstance(verdict, Recognized), verdict
    assert verdict.revision.version == version
    assert verdict.uses_session is uses_session


HM, UV = RpcCode.HEADER_MISMATCH, RpcCode.UNSUPPORTED_VERSION
IR, IP = RpcCode.INVALID_REQUEST, RpcCode.INVALID_PARAMS
MODERN_HEADERS = headers(V26, method="tools/list")

# name → (POST, HTTP status, JSON-RPC code, id in the body)
REFUSED: dict[str, tuple[Post, int, int, object]] = {
    # sessions: an unknown or ended one is exactly 404
    "unknown session": (Post(LIST, headers(session="gone")), 404, IR, 7),
    "empty session": (Post(LIST, headers(session="")), 404, IR, 7),
    "unknown session, notification": (
        Post(notice("notifications/initialized"), headers(session="gone")),
        404,
        IR,
        None,
    ),
    "unknown session, batch": (Post([PING], headers(session="gone")), 404, IR, None),
    # MCP-Protocol-Version: an unsupported value MUST be 400
    "unknown version": (Post(LIST, headers("2027-01-01")), 400, UV, 7),
    "old version": (Post(LIST, headers("2024-11-05")), 400, UV, 7),
    "empty version": (Post(LIST, headers("")), 400, UV, 7),
    "unknown version in a session": (Post(LIST, headers("1", session="s"), V06), 400, UV, 7),
    "unknown version, notification": (Post(notice("x"), headers("1")), 400, UV, None),
    "unknown version, batch": (Post([PING], headers("1")), 400, UV, None),
    # batches
    "batch under 2025-06-18": (Post([PING], headers(V06)), 400, IR, None),
    "batch under 2025-11-25": (Post([PING], headers(V11)), 400, IR, None),
    "batch in a 2025-06-18 session": (Post([PING], headers(session="s"), V06), 400, IR, None),
    "batch in a 2025-11-25 session": (Post([PING], headers(session="s"), V11), 400, IR, None),
    "batch under the modern header": (Post([PING], headers(V26)), 400, IR, None),
    "batch with a modern item": (Post([PING, MODERN_LIST]), 400, IR, None),
    "initialize in a batch": (Post([PING, initialize()]), 400, IR, 7),
    "initialize alone in a batch": (Post([initialize()]), 400, IR, 7),
    # modern rung 1
    "modern response": (
        Post({"jsonrpc": "2.0", "id": 1, "result": {}}, headers(V26)),
        400,
        IR,
        None,
    ),
    # rung 2
    "no meta": (Post(LIST, MODERN_HEADERS), 400, IP, 7),
    "no version in meta": (
        Post(call("tools/list", {"_meta": meta(None)}), MODERN_HEADERS),
        400,
        IP,
        7,
    ),
    "version of another type": (
        Post(call("tools/list", {"_meta": meta(5)}), MODERN_HEADERS),
        400,
        IP,
        7,
    ),
    "no capabilities": (
        Post(call("tools/list", {"_meta": meta(clientCapabilities=None)}), MODERN_HEADERS),
        400,
        IP,
        7,
    ),
    "capabilities of another type": (
        Post(call("tools/list", {"_meta": meta(clientCapabilities=[])}), MODERN_HEADERS),
        400,
        IP,
        7,
    ),
    "meta before headers": (Post(call("tools/list", {"_meta": meta(5)}), headers()), 400, IP, 7),
    # rung 3
    "no version header": (Post(MODERN_LIST, headers(method="tools/list")), 400, HM, 7),
    "no header at all": (Post(MODERN_LIST), 400, HM, 7),
    "legacy header over a modern meta": (
        Post(MODERN_LIST, headers(V11, method="tools/list")),
        400,
        HM,
        7,
    ),
    "legacy header and session over a modern meta": (
        Post(MODERN_LIST, headers(V11, session="s", method="tools/list"), V11),
        400,
        HM,
        7,
    ),
    "unknown header over a modern meta": (
        Post(MODERN_LIST, headers("2027-01-01", method="tools/list")),
        400,
        HM,
        7,
    ),
    "no Mcp-Method": (Post(MODERN_LIST, headers(V26)), 400, HM, 7),
    "another Mcp-Method": (Post(MODERN_LIST, headers(V26, method="tools/call")), 400, HM, 7),
    "Mcp-Method in other case": (Post(MODERN_LIST, headers(V26, method="Tools/List")), 400, HM, 7),
    "no Mcp-Name": (Post(MODERN_CALL, headers(V26, method="tools/call")), 400, HM, 7),
    "another Mcp-Name": (
        Post(MODERN_CALL, headers(V26, method="tools/call", name="psu__MEASURE")),
        400,
        HM,
        7,
    ),
    "Mcp-Name in bad Base64": (
        Post(MODERN_CALL, headers(V26, method="tools/call", name="=?base64?###?=")),
        400,
        HM,
        7,
    ),
    "Mcp-Name in cut Base64": (
        Post(MODERN_CALL, headers(V26, method="tools/call", name="=?base64?=")),
        400,
        HM,
        7,
    ),
    "Mcp-Name in Base64 of no text": (
        Post(MODERN_CALL, headers(V26, method="tools/call", name="=?base64?/w==?=")),
        400,
        HM,
        7,
    ),
    "no Mcp-Name for a resource": (
        Post(modern_call("resources/read", uri="a:b"), headers(V26, method="resources/read")),
        400,
        HM,
        7,
    ),
    "header checks before the version": (
        Post(call("tools/list", {"_meta": meta("2027-01-01")}), headers("2027-01-01")),
        400,
        HM,
        7,
    ),
    # rung 4
    "unknown version in both": (
        Post(
            call("tools/list", {"_meta": meta("2027-01-01")}),
            headers("2027-01-01", method="tools/list"),
        ),
        400,
        UV,
        7,
    ),
    "legacy version in meta": (
        Post(call("tools/list", {"_meta": meta(V11)}), headers(V11, method="tools/list")),
        400,
        UV,
        7,
    ),
    "modern notification of an unknown version": (
        Post(notice("x", _meta=meta("2027-01-01"))),
        400,
        UV,
        None,
    ),
}


@pytest.mark.parametrize(
    ("post", "status", "code", "request_id"), REFUSED.values(), ids=REFUSED.keys()
)
def test_a_post_that_breaks_a_rule_is_refused_with_its_code(
    post: Post, status: int, code: int, request_id: object
) -> None:
    verdict = post.judge()
    assert isinstance(verdict, Rejected), verdict
    body = json.loads(verdict.body)
    assert (verdict.status, body["error"]["code"], body["id"]) == (status, code, request_id)


@pytest.mark.parametrize(
    "post",
    [
        Post(LIST, headers("2027-01-01")),
        Post(
            call("tools/list", {"_meta": meta("2027-01-01")}),
            headers("2027-01-01", method="tools/list"),
        ),
    ],
    ids=["by header", "by meta"],
)
def test_an_unsupported_version_is_told_all_four_and_what_it_asked_for(post: Post) -> None:
    verdict = post.judge()
    assert isinstance(verdict, Rejected)
    assert json.loads(verdict.body)["error"]["data"] == {
        "supported": list(SUPPORTED_VERSIONS),
        "requested": "2027-01-01",
    }


def test_a_revision_that_begins_with_initialize_is_not_said_to_be_unknown() -> None:
    post = Post(call("tools/list", {"_meta": meta(V11)}), headers(V11, method="tools/list"))
    verdict = post.judge()
    assert isinstance(verdict, Rejected)
    error = json.loads(verdict.body)["error"]
    assert error["code"] == -32022
    assert "initialize" in error["message"]


STREAMS: dict[str, tuple[dict[str, str], str, str | int]] = {
    "a live session": (headers(session="s"), V03, V03),
    "a live session with its header": (headers(V11, session="s"), V11, V11),
    "no session": (headers(), "", 400),
    "an unknown session": (headers(session="gone"), "", 404),
    "an unknown version": (headers("2027-01-01", session="s"), V11, 400),
    "the modern revision": (headers(V26), "", 405),
    "the modern revision with a session": (headers(V26, session="s"), V11, 405),
}


@pytest.mark.parametrize("verb", [Verb.GET, Verb.DELETE])
@pytest.mark.parametrize(("given", "session", "expected"), STREAMS.values(), ids=STREAMS.keys())
def test_get_and_delete_need_a_live_session(
    verb: Verb, given: dict[str, str], session: str, expected: str | int
) -> None:
    verdict = recognize_stream(accepted(given, verb), REVISIONS.get(session))
    if isinstance(verdict, Rejected):
        assert verdict.status == expected
        assert json.loads(verdict.body)["error"]["code"] == IR or expected == 400
    else:
        assert verdict.version == expected


def test_a_405_of_the_modern_revision_allows_post() -> None:
    verdict = recognize_stream(accepted(headers(V26), Verb.GET), None)
    assert isinstance(verdict, Rejected)
    assert ("Allow", "POST") in verdict.headers


versions = st.sampled_from([*SUPPORTED_VERSIONS, "2027-01-01", "", None])
metas: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.integers(), st.builds(meta, versions, clientCapabilities=st.sampled_from([{}, 1]))
)


@given(
    st.sampled_from(["initialize", "ping", "tools/call", "x"]),
    metas,
    versions,
    st.sampled_from([None, "tools/call", "x"]),
    st.sampled_from([None, "", "=?base64?", "n"]),
    st.sampled_from([None, "s"]),
    st.sampled_from(["", V03, V11]),
    st.sampled_from(["call", "notice", "batch"]),
)
def test_every_post_is_served_or_refused_with_a_4xx_and_a_body(
    method: str,
    given_meta: object,
    version: str | None,
    method_header: str | None,
    name: str | None,
    session_id: str | None,
    session: str,
    form: str,
) -> None:
    params = {"name": "n"} if given_meta is None else {"name": "n", "_meta": given_meta}
    single = call(method, params) if form == "call" else notice(method, **params)
    post = Post(
        [single] if form == "batch" else single,
        headers(version, session=session_id, method=method_header, name=name),
        session,
    )
    verdict = post.judge()
    if isinstance(verdict, Rejected):
        assert 400 <= verdict.status < 500
        assert "error" in json.loads(verdict.body)
    else:
        assert verdict.revision in REVISIONS.values()
        assert not (verdict.uses_session and not session)


def test_parse_gives_the_message_that_recognize_takes() -> None:
    message: object = parse(json.dumps(PING).encode())
    assert isinstance(message, Message)
