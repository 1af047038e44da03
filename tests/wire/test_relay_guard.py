"""The relay route at the real endpoint: tokens in the header, sessions of their owner."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edged.actions.caller import Caller, Route
from edged.auth.claims import EdgeDoor
from edged.auth.keys import JwksError, KeyBook
from edged.auth.verifier import Verifier
from edged.clock import SystemClock
from edged.errors import EdgedError, ErrorCode, Refused
from edged.surfaces.mcp.caller import RelayGuard
from edged.surfaces.mcp.seams import CallerHead
from tests.bench.bad_tokens import bad_tokens, extra_jwks
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_resources import TEXT, FakeResources
from tests.bench.mcp_client import OMIT, Answer, Connection, McpClient, modern
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.mcp_rules import holds
from tests.bench.token_issuer import EDGE, ISSUER, TokenIssuer, key_set
from tests.promises import promise

HEADER = "Edge-Caller-JWT"
REFUSED_AFTER_S = 0.01
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo"}}

# What no header can carry (the parser refuses it: test_mcp_http), what HTTP takes off a value, and
# what the machine's clock makes good within a second. test_verifier has these too.
NOT_HERE = {"with a line end", "a NUL in it", "with a blank after it", "iat 31 s ahead"}


class Keys:
    """Implements ``JwksSource``."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.issuer = issuer
        self.fetches = 0
        self.is_down = False

    async def fetch(self) -> bytes:
        self.fetches += 1
        if self.is_down:
            raise JwksError("It is down.")
        return key_set(self.issuer.jwk(), *extra_jwks(self.issuer))


class Relayed:
    """An endpoint behind the guard, its issuer, and what the audit got."""

    def __init__(self) -> None:
        # The endpoint runs by the machine's clock, so its tokens do too.
        self.issuer = TokenIssuer(now_s=int(time.time()))  # noqa: TID251
        self.keys = Keys(self.issuer)
        self.audit: list[tuple[Caller, str, EdgedError]] = []
        clock = SystemClock()
        book = KeyBook(self.keys, url="u", state_dir=None, clock=clock)
        self.guard = RelayGuard(
            verifier=Verifier(book, issuer=ISSUER, clock=clock, refused_after_s=REFUSED_AFTER_S),
            door=EdgeDoor(EDGE),
            refuse=lambda caller, tool, error: self.audit.append((caller, tool, error)),
            clock=clock,
        )
        self.shelf = FakeResources()
        self.endpoint: Endpoint

    def client(self, **claims: Any) -> McpClient:
        client = self.endpoint.client()
        client.headers[HEADER] = self.issuer.mint(**claims)
        return client


@pytest.fixture
async def relayed() -> AsyncIterator[Relayed]:
    made = Relayed()
    async with running_endpoint(guard=made.guard, resources=made.shelf) as made.endpoint:
        yield made


def assert_unauthenticated(answer: Answer, request_id: Any) -> None:
    assert answer.status == 401, answer
    reply = answer.json()
    assert reply["error"]["code"] == -33001
    assert reply["id"] == request_id
    assert set(reply["error"]) == {"code", "message"}
    assert answer.headers["www-authenticate"] == "Bearer"


@promise("auth.header-is-the-route")
async def test_a_good_token_makes_a_relay_caller_with_its_claims(relayed: Relayed) -> None:
    answer = await relayed.client(tools_allow=["echo"]).post(CALL)
    assert answer.status == 200
    (call,) = relayed.endpoint.tools.calls
    assert call.caller.route is Route.RELAY
    assert call.caller.subject == "user:ada"
    assert call.caller.claims is not None
    assert call.caller.claims.tools_allow == {"echo"}


@promise("auth.bad-token-answer")
async def test_every_bad_token_gets_its_request_id_back_with_33001_and_reaches_no_tool(
    relayed: Relayed,
) -> None:
    for name, token in bad_tokens(relayed.issuer).items():
        if name in NOT_HERE:
            continue
        answer = await relayed.endpoint.client().post(CALL, {HEADER: token})
        assert_unauthenticated(answer, 7)
        assert len(token) < 12 or token[:12] not in answer.body.decode(), name
    assert len(relayed.audit) >= 80
    caller, tool, error = relayed.audit[0]
    assert (caller.route, tool) == (Route.RELAY, "echo")
    assert error.code is ErrorCode.NOT_AUTHENTICATED
    assert all(call.caller.claims for call in relayed.endpoint.tools.calls)


@promise("mcp.resource-claims")
async def test_a_resource_is_read_as_the_tokens_caller_and_by_no_bad_token(
    relayed: Relayed,
) -> None:
    read = {"jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": {"uri": TEXT}}
    answer = await relayed.client(tools_allow=["get_status"]).post(read)
    assert answer.json()["result"]["contents"][0]["text"] == "hello"
    ((_, caller, _),) = relayed.shelf.read_by
    assert caller.route is Route.RELAY
    assert caller.claims is not None
    assert caller.claims.tools_allow == {"get_status"}
    for method in ("resources/read", "resources/list", "completion/complete"):
        answer = await relayed.endpoint.client().post({**read, "method": method}, {HEADER: "x.y.z"})
        assert_unauthenticated(answer, 7)
    assert len(relayed.shelf.read_by) == 1


LARGE = 4 * 1024 * 1024


@promise("auth.token-before-body")
@pytest.mark.parametrize("expects", [{}, {"Expect": "100-continue"}])
async def test_a_bad_token_is_refused_before_the_body_has_come(
    relayed: Relayed, expects: dict[str, str]
) -> None:
    client = relayed.endpoint.client()
    headers = {HEADER: "x.y.z", "Content-Length": str(LARGE), **expects}
    async with await Connection.to(relayed.endpoint.port) as line:
        line.send(client.bytes_of("POST", b"", headers))
        assert_unauthenticated(await line.read_answer(), None)


async def test_of_a_large_body_behind_a_bad_token_little_is_read(relayed: Relayed) -> None:
    client = relayed.endpoint.client()
    chunk = b"4000\r\n" + bytes(0x4000) + b"\r\n"
    headers = {HEADER: "x.y.z", "Transfer-Encoding": "chunked", "Content-Length": OMIT}
    async with await Connection.to(relayed.endpoint.port) as line:
        line.send(client.bytes_of("POST", b"", headers) + chunk * 8)
        # The body never ends; what has come is over what would be read for an id.
        assert_unauthenticated(await line.read_answer(), None)


async def test_a_small_body_that_comes_late_still_gives_the_refusal_its_id(
    relayed: Relayed,
) -> None:
    request = relayed.endpoint.client().bytes_of("POST", json.dumps(CALL).encode(), {HEADER: "x"})
    async with await Connection.to(relayed.endpoint.port) as line:
        line.send(request[:-20])
        await asyncio.sleep(0.05)
        line.send(request[-20:])
        assert_unauthenticated(await line.read_answer(), 7)
    assert relayed.audit[0][1] == "echo"


async def test_an_empty_token_is_the_relay_route_on_every_verb_and_method(
    relayed: Relayed,
) -> None:
    client = relayed.endpoint.client()
    bare = {HEADER: ""}
    methods = ["initialize", "ping", "tools/list", "tools/call", "no/such"]
    for method in methods:
        answer = await client.post(client.message(method, request_id=method), bare)
        assert_unauthenticated(answer, method)
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert_unauthenticated(await client.post(notice, bare), None)
    assert_unauthenticated(await client.send("GET", headers=bare), None)
    assert_unauthenticated(await client.send("DELETE", headers=bare), None)
    assert_unauthenticated(await client.send("PUT", headers=bare), None)
    assert_unauthenticated(await client.post(b"{", bare), None)
    assert_unauthenticated(await client.post([CALL], bare), None)


async def test_two_tokens_are_refused_though_one_is_good(relayed: Relayed) -> None:
    client = relayed.client()
    for other in (client.headers[HEADER], "", "bad"):
        request = client.bytes_of("POST", b"", {"Connection": "close"})
        doubled = request.replace(b"Connection:", f"{HEADER}: {other}\r\nConnection:".encode())
        answer = await relayed.endpoint.exchange(doubled)
        assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 400")), answer
    assert relayed.endpoint.tools.calls == []


@promise("auth.session-owner")
async def test_a_session_is_404_to_every_other_caller(relayed: Relayed) -> None:
    ada = relayed.client()
    await ada.initialize()
    assert (await ada.request("ping")).status == 200
    # the same person with a newer token goes on
    ada.headers[HEADER] = relayed.issuer.mint(jti="newer")
    assert (await ada.request("ping")).status == 200
    bob = relayed.client(sub="user:bob")
    nobody = relayed.endpoint.client()
    for other in (bob, nobody):
        other.session_id = ada.session_id
        assert (await other.request("ping")).status == 404
        get = await other.send("GET", headers={"Accept": "text/event-stream"})
        assert get.status == 404
        assert (await other.send("DELETE")).status == 404
    assert (await ada.request("ping")).status == 200
    direct = relayed.endpoint.client()
    await direct.initialize()
    ada.session_id = direct.session_id
    assert (await ada.request("ping")).status == 404


async def test_without_the_header_a_request_is_direct(relayed: Relayed) -> None:
    answer = await relayed.endpoint.client().post(CALL, {HEADER: OMIT})
    assert answer.status == 200
    assert relayed.endpoint.tools.calls[0].caller.route is Route.DIRECT


async def test_without_an_issuer_no_token_is_accepted() -> None:
    audit: list[str] = []
    guard = RelayGuard(
        verifier=None,
        door=EdgeDoor(EDGE),
        refuse=lambda _caller, _tool, error: audit.append(str(error)),
        clock=SystemClock(),
    )
    issuer = TokenIssuer(now_s=1)
    async with running_endpoint(guard=guard) as endpoint:
        answer = await endpoint.client().post(CALL, {HEADER: issuer.mint()})
        assert_unauthenticated(answer, 7)
        assert (await endpoint.client().post(CALL)).status == 200
    assert audit == ["No issuer is configured (RELAY_ISSUER, RELAY_JWKS_URL)."]


@promise("auth.no-keys-is-503")
async def test_while_no_key_can_be_had_a_token_is_not_told_to_be_bad(relayed: Relayed) -> None:
    relayed.keys.is_down = True
    answer = await relayed.client().post(CALL)
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    reply = answer.json()
    assert (reply["error"]["code"], reply["id"]) == (-32603, 7)
    assert "cannot be authenticated now" in reply["error"]["message"]
    ((caller, tool, error),) = relayed.audit
    assert (caller.route, tool) == (Route.RELAY, "echo")
    assert "It is down." in error.message
    # What is wrong with a token whatever its key is, is told all the same.
    bad = await relayed.endpoint.client().post(CALL, {HEADER: relayed.issuer.mint(aud="edge:x")})
    assert_unauthenticated(bad, 7)
    assert relayed.endpoint.tools.calls == []


async def test_a_flood_at_the_door_asks_the_issuer_twice(relayed: Relayed, tmp_path: Path) -> None:
    forged = TokenIssuer(kid="k1", key="foreign", now_s=relayed.issuer.now_s).mint()
    for _ in range(100):
        await relayed.endpoint.client().post(CALL, {HEADER: forged})
    assert relayed.keys.fetches == 2
    assert (await relayed.client().post(CALL)).status == 200


@promise("auth.flood-no-disk")
async def test_a_flood_of_refusals_is_counted_and_does_not_fill_the_audit(
    driven_clock: DrivenClock,
) -> None:
    audit: list[str] = []
    guard = RelayGuard(
        verifier=None,
        door=EdgeDoor(EDGE),
        refuse=lambda _caller, _tool, error: audit.append(error.message),
        clock=driven_clock,
    )
    head = CallerHead(tokens=("x",), remote="10.0.0.7")
    for _ in range(10_000):
        with pytest.raises(Refused):
            await guard.guard(head)
        driven_clock.move(0.001)
    assert 200 <= len(audit) <= 260
    told = [int(row.split(". ")[-1].split(" ")[0]) for row in audit if "more refusals" in row]
    driven_clock.move(1)
    with pytest.raises(Refused):
        await guard.guard(head)
    last = int(audit[-1].split(". ")[-1].split(" ")[0]) if "more" in audit[-1] else 0
    assert len(audit) + sum(told) + last == 10_001


class Driven:
    """An endpoint behind the guard whose time is a test's."""

    def __init__(self, clock: DrivenClock) -> None:
        self.issuer = TokenIssuer(now_s=clock.wall_ms() // 1000)
        book = KeyBook(Keys(self.issuer), url="u", state_dir=None, clock=clock)
        self.clock, self.shelf = clock, FakeResources()
        self.guard = RelayGuard(
            verifier=Verifier(book, issuer=ISSUER, clock=clock),
            door=EdgeDoor(EDGE),
            refuse=lambda *_: None,
            clock=clock,
        )
        self.endpoint: Endpoint

    def client(self, *tools: str, lives_s: int = 60) -> McpClient:
        client = self.endpoint.client()
        self.renew(client, *tools, lives_s=lives_s)
        return client

    def renew(self, client: McpClient, *tools: str, lives_s: int = 60) -> None:
        now_s = self.clock.wall_ms() // 1000
        client.headers[HEADER] = self.issuer.mint(
            iat=now_s, exp=now_s + lives_s, tools_allow=list(tools)
        )


@pytest.fixture
async def driven(driven_clock: DrivenClock) -> AsyncIterator[Driven]:
    made = Driven(driven_clock)
    async with running_endpoint(
        guard=made.guard, resources=made.shelf, clock=driven_clock
    ) as made.endpoint:
        yield made


@holds("expiry.ends")
@promise("auth.expiry-ends")
@pytest.mark.parametrize("tool", ["wait", "watch"])
@pytest.mark.parametrize("accepts", ["application/json", "application/json, text/event-stream"])
async def test_a_call_ends_with_its_token_and_what_it_began_goes_on(
    driven: Driven, tool: str, accepts: str
) -> None:
    client, tools = driven.client("wait", "watch"), driven.endpoint.tools
    call = client.tool_call(tool, token="t", request_id=7)
    async with await client.open_post(call, {"Accept": accepts}) as line:
        await tools.started.get()
        await driven.clock.advance(59)
        # Whoever waits with a newer token, or none, is not concerned.
        other = driven.client("echo")
        assert (await other.request("ping")).status == 200
        await driven.clock.advance(1)
        (reply,) = (await line.read_answer()).messages()[-1:]
    assert reply["id"] == 7
    assert reply["error"]["code"] == -33001
    assert "expired" in reply["error"]["message"]
    assert tools.cancelled == []
    tools.gate.set()
    assert await tools.ended.get() == tool
    assert (await client.post(call)).status == 401


async def test_a_batch_ends_with_its_token_and_nothing_more_of_it_is_begun(
    driven: Driven,
) -> None:
    client, tools = driven.client("wait", "echo"), driven.endpoint.tools
    calls = [client.tool_call(name, request_id=name) for name in ("wait", "echo")]
    async with await client.open_post(calls, {"Accept": "application/json"}) as line:
        await tools.started.get()
        await driven.clock.advance(60)
        replies = (await line.read_answer()).json()
    assert [(r["id"], r["error"]["code"]) for r in replies] == [("wait", -33001), ("echo", -33001)]
    tools.gate.set()
    await tools.ended.get()
    assert [call.name for call in tools.calls] == ["wait"]


@holds("expiry.ends")
@promise("auth.expiry-ends")
async def test_a_session_s_stream_ends_with_the_token_that_opened_it(driven: Driven) -> None:
    client = driven.client("get_status")
    await client.initialize("2025-06-18")
    assert "result" in (await client.request("resources/subscribe", {"uri": TEXT})).json()
    async with await client.open_stream() as stream:
        driven.shelf.tell(TEXT)
        event = await stream.next_event()
        assert event is not None
        assert event.json()["params"]["uri"] == TEXT
        await driven.clock.advance(60)
        assert await stream.next_event() is None
        driven.shelf.tell(TEXT)
    # By a newer token that allows the same it goes on, with what came meanwhile.
    driven.renew(client, "get_status")
    async with await client.open_stream() as stream:
        event = await stream.next_event()
        assert event is not None
        assert event.json()["params"]["uri"] == TEXT
        await driven.clock.advance(60)
        assert await stream.next_event() is None
    driven.shelf.tell(TEXT)
    # By one that does not, it does not.
    driven.renew(client, "echo")
    async with await client.open_stream() as stream:
        driven.shelf.tell(TEXT, is_list_changed=True)
        event = await stream.next_event()
        assert event is not None
        assert event.json()["method"] == "notifications/resources/list_changed"


@holds("expiry.ends")
@promise("auth.expiry-ends")
async def test_a_subscription_of_the_latest_revision_ends_with_its_token_and_a_result(
    driven: Driven,
) -> None:
    client = driven.client("get_status")
    asked = {"notifications": {"resourceSubscriptions": [TEXT]}}
    message, headers = modern(client.message("subscriptions/listen", asked, request_id=5))
    async with await client.open_post(message, headers) as line:
        assert (await line.read_head())[0] == 200
        acknowledged = await line.next_event()
        assert acknowledged is not None
        driven.shelf.tell(TEXT)
        assert await line.next_event() is not None
        await driven.clock.advance(60)
        last = await line.next_event()
        assert last is not None
        assert "result" in last.json()
        driven.shelf.tell(TEXT)
        assert await line.next_event() is None
