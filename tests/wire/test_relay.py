"""Front, NATS and carrier around the real MCP endpoint, in one loop with a real nats-server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpRawServer

from edged.auth.claims import Door, EdgeDoor
from edged.auth.keys import JwksError, KeyBook
from edged.auth.verifier import Verifier
from edged.clock import SystemClock
from edged.http.pulse import Pulse
from edged.protocol.http_rules import Guard
from edged.relay.carrier import Carrier, EngineAddress
from edged.relay.envelope import Data, Head, encode, up_subject
from edged.relay.link import LinkSettings, NatsLink
from edged.supervisor.watchdog import Health, Watchdog
from edged.surfaces.mcp.caller import RelayGuard
from edged_relay import exchanges as exchanges_module
from edged_relay.front import RelayFront
from tests.bench.bad_tokens import bad_tokens
from tests.bench.mcp_client import Connection, McpClient
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.nats_server import NatsServer, running_nats
from tests.bench.token_issuer import EDGE, ISSUER, TokenIssuer, key_set
from tests.bench.waiting import HANGS_S
from tests.promises import promise

CLOCK = SystemClock()
TURNS_OF_AN_ATTEMPT = 20
"""Of the event loop, until a refused connection has failed; with nats-py 2.16 at turn 4 to 6."""
REFUSED_AFTER_S = 0.01
SOON_S = 20.0
"""Before anything that is waited for in vain is given up."""


class Keys:
    def __init__(self, issuer: TokenIssuer) -> None:
        self.issuer = issuer

    async def fetch(self) -> bytes:
        return key_set(self.issuer.jwk())


def verifier(issuer: TokenIssuer) -> Verifier:
    book = KeyBook(Keys(issuer), url="u", state_dir=None, clock=CLOCK)
    return Verifier(book, issuer=ISSUER, clock=CLOCK, refused_after_s=REFUSED_AFTER_S)


@dataclass
class Bench:
    """Fronts and edges on one NATS server."""

    nats: NatsServer
    issuer: TokenIssuer
    stack: contextlib.AsyncExitStack
    ports: list[int] = field(default_factory=list)

    async def link(self, user: str) -> NatsLink:
        settings = LinkSettings(
            url=self.nats.url,
            credentials=self.nats.credentials(user) if self.nats.is_guarded else None,
            ca_file=self.nats.ca_file if self.nats.is_guarded else None,
        )
        link = NatsLink(settings, clock=CLOCK)
        self.stack.push_async_callback(link.close)
        await link.open()
        return link

    async def front(self) -> int:
        link = await self.link("front")
        front = RelayFront(
            link,
            verifier=verifier(self.issuer),
            guard=Guard.of(host_name="", allowed_hosts=("relay.example",)),
            clock=CLOCK,
        )
        await front.start()
        await link.flush()
        self.stack.push_async_callback(front.stop)
        self.ports.append(await front.listen("127.0.0.1", 0))
        return self.ports[-1]

    async def edge(self, edge_id: str = EDGE) -> tuple[Endpoint, Carrier]:
        guard = RelayGuard(
            verifier=verifier(self.issuer),
            door=EdgeDoor(edge_id),
            refuse=lambda *_: None,
            clock=CLOCK,
        )
        endpoint = await self.stack.enter_async_context(running_endpoint(guard=guard))
        return endpoint, await self.carrier(endpoint.port, edge_id)

    async def carrier(
        self, engine_port: int, edge_id: str = EDGE, pulse: Pulse | None = None
    ) -> Carrier:
        link = await self.link(edge_id)
        carrier = Carrier(
            link,
            edge_id=edge_id,
            engine=lambda: EngineAddress(engine_port, "/mcp"),
            pulse=pulse or Pulse(CLOCK),
            peer_header=lambda peer: ("Edged-Peer", f"s {peer}"),
            clock=CLOCK,
        )
        await carrier.start()
        self.stack.push_async_callback(carrier.stop)
        await link.flush()
        return carrier

    def client(self, port: int = 0, edge_id: str = EDGE, **claims: Any) -> McpClient:
        client = McpClient(port or self.ports[0], path=f"/mcp/{edge_id}")
        token = self.issuer.mint(aud=f"edge:{edge_id}", edge_id=edge_id, **claims)
        client.headers["Authorization"] = f"Bearer {token}"
        return client


@contextlib.asynccontextmanager
async def running(directory: Path, port: int, *, is_guarded: bool = False) -> AsyncIterator[Bench]:
    with running_nats(directory / "nats", port, is_guarded=is_guarded) as nats:
        async with contextlib.AsyncExitStack() as stack:
            issuer = TokenIssuer(now_s=int(time.time()))  # noqa: TID251
            yield Bench(nats, issuer, stack)


@pytest.fixture
async def bench(tmp_path: Path, free_port: Callable[[], int]) -> AsyncIterator[Bench]:
    async with running(tmp_path, free_port()) as made:
        yield made


@promise("relay.round")
async def test_calls_events_and_sessions_pass_through_any_of_several_fronts(bench: Bench) -> None:
    first, second = await bench.front(), await bench.front()
    endpoint, carrier = await bench.edge()
    client = bench.client(first)
    opened = await client.initialize()
    assert opened.json()["result"]["serverInfo"]["name"] == "edged"
    # The session lives at the edge: the other front knows it too.
    client.port = second
    assert await client.call("echo", {"a": 1}) is not None
    call = endpoint.tools.calls[-1].caller
    assert call.claims is not None
    assert call.subject == "user:ada"
    # Progress comes as it is made, before the answer.
    stream = await client.open_post(client.tool_call("count", token="p1"))
    status, headers = await stream.read_head()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    for number in (1, 2, 3):
        event = await stream.next_event()
        assert event is not None
        assert event.json()["params"]["progress"] == number
    endpoint.tools.gate.set()
    last = await stream.next_event()
    assert last is not None
    assert "result" in last.json()
    assert await stream.next_event() is None
    await stream.close()
    assert (await client.send("DELETE")).status == 200
    assert (await client.request("ping")).status == 404
    assert carrier.exchange_count == 0


async def test_the_news_stream_of_a_session_passes_through(bench: Bench) -> None:
    await bench.front()
    endpoint, carrier = await bench.edge()
    client = bench.client()
    await client.initialize()
    stream = await client.open_stream()
    while not carrier.exchange_count:
        await asyncio.sleep(0.01)
    endpoint.tools.change()
    event = await stream.next_event()
    assert event is not None
    assert event.json()["method"] == "notifications/tools/list_changed"
    stream.abort()


class Unreachable:
    """Implements ``JwksSource``."""

    async def fetch(self) -> bytes:
        raise JwksError("It is down.")


@promise("auth.no-keys-is-503")
async def test_a_front_that_can_have_no_key_says_that_it_cannot_judge(bench: Bench) -> None:
    book = KeyBook(Unreachable(), url="u", state_dir=None, clock=CLOCK)
    blind = RelayFront(
        await bench.link("front"),
        verifier=Verifier(book, issuer=ISSUER, clock=CLOCK, refused_after_s=REFUSED_AFTER_S),
        guard=Guard.of(host_name=""),
        clock=CLOCK,
    )
    await blind.start()
    client = bench.client(await blind.listen("127.0.0.1", 0))
    answer = await client.post(client.tool_call("echo"))
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert "cannot be authenticated now" in answer.json()["error"]["message"]
    bad = await client.post(client.tool_call("echo"), {"Authorization": "Bearer x.y.z"})
    assert bad.status == 401
    await blind.stop()


@promise("relay.front-checks")
async def test_the_front_refuses_bad_tokens_itself_with_the_request_s_id(bench: Bench) -> None:
    await bench.front()
    endpoint, _ = await bench.edge()
    client = bench.client()
    skipped = {"with a line end", "a NUL in it", "with a blank after it", "iat 31 s ahead"}
    tokens = [t for name, t in bad_tokens(bench.issuer).items() if name not in skipped]
    values = [*(f"Bearer {t}" for t in tokens if len(t) < 8_000), "Basic eA==", "", "Bearer"]
    for value in values:
        answer = await client.post(client.tool_call("echo"), {"Authorization": value})
        assert answer.status == 401, value
        assert answer.json()["error"]["code"] == -33001
        assert answer.json()["id"] == client.next_id - 1
    assert endpoint.tools.calls == []
    other = bench.client(sub="user:bob")
    other.path = "/mcp/edge-2"  # a good token, for another edge
    assert (await other.request("ping")).status == 401


@promise("relay.edge-holds")
async def test_a_hostile_relay_gets_nothing_past_the_edge(bench: Bench, tmp_path: Path) -> None:
    port = await bench.front()
    endpoint, _ = await bench.edge()

    class Fooled:
        async def verify(self, text: str, door: Door) -> None:
            """Lets everything through, as a hostile front would."""

    hostile = RelayFront(
        await bench.link("front"),
        verifier=Fooled(),  # type: ignore[arg-type]
        guard=Guard.of(host_name=""),
        clock=CLOCK,
    )
    await hostile.start()
    client = bench.client(await hostile.listen("127.0.0.1", 0))
    for value in ("", "Bearer", "Bearer x.y.z", f"Bearer {bench.issuer.mint(exp=1, iat=1)}"):
        answer = await client.post(client.tool_call("echo"), {"Authorization": value})
        assert answer.status == 401, value
    assert endpoint.tools.calls == []
    await hostile.stop()
    assert port


@promise("relay.offline")
async def test_an_edge_that_is_offline_is_a_503_soon(bench: Bench) -> None:
    await bench.front()
    client = bench.client()
    async with asyncio.timeout(SOON_S):
        answer = await client.request("ping", request_id="r-1")
    assert answer.status == 503
    assert answer.json()["id"] == "r-1"
    assert "not connected" in answer.json()["error"]["message"]


async def test_an_edge_that_hears_and_says_nothing_is_a_503_soon(
    bench: Bench,
) -> None:
    await bench.front()
    silent = await bench.link(EDGE)

    async def ignore(_message: object) -> None: ...

    await silent.subscribe(f"edged.{EDGE}.down", ignore)
    await silent.flush()
    async with asyncio.timeout(SOON_S):
        assert (await bench.client().request("ping")).status == 503


@promise("relay.cancel")
async def test_a_client_that_goes_ends_its_call_at_the_edge(bench: Bench) -> None:
    await bench.front()
    endpoint, carrier = await bench.edge()
    client = bench.client()
    line = await client.open_post(client.tool_call("watch"))
    async with asyncio.timeout(HANGS_S):
        assert await endpoint.tools.started.get() == "watch"
    line.abort()
    async with asyncio.timeout(HANGS_S):
        assert await endpoint.tools.ended.get() == "watch"
    assert endpoint.tools.cancelled == ["watch"]
    for _ in range(100):
        if not carrier.exchange_count:
            break
        await asyncio.sleep(0.01)
    assert carrier.exchange_count == 0


async def test_bodies_up_to_the_limit_pass_and_larger_ones_are_413(bench: Bench) -> None:
    await bench.front()
    endpoint, _ = await bench.edge()
    client = bench.client()
    text = "x" * 3_000_000
    assert await client.call("echo", {"text": text}) is not None
    assert endpoint.tools.calls[-1].arguments == {"text": text}
    answer = await client.post(b" " * (4 * 1024 * 1024 + 1))
    assert answer.status == 413
    assert answer.json()["error"]["code"] == -32600


@promise("relay.front-host")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "relay.example"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "relay.example", "Origin": "http://relay.example"}, 200),
        ({"Host": "relay.example", "Origin": "http://relay.example:81"}, 403),
        ({"Origin": "http://localhost:3000", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Edge-Caller-JWT": "mine"}, 200),
    ],
)
async def test_the_front_guards_its_own_name(
    bench: Bench, headers: dict[str, str], status: int
) -> None:
    await bench.front()
    await bench.edge()
    client = bench.client()
    assert (await client.post(client.message("ping"), headers)).status == status


@promise("mcp.path-with-slash")
async def test_the_front_serves_an_edge_with_a_slash_at_the_end_of_the_path_too(
    bench: Bench,
) -> None:
    await bench.front()
    await bench.edge()
    client = bench.client()
    client.path += "/"
    assert (await client.request("ping")).status == 200
    client.path += "/"
    assert (await client.request("ping")).status == 404


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/9.9\r\nsecret\r\n\r\n",
        b"POST /mcp/e HTTP/1.1\r\nHost: a\r\nContent-Length: secret\r\n\r\n",
        b"\x16\x03\x01secret\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"secret" * 9_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_no_http_gets_a_json_rpc_error_that_quotes_nothing(
    bench: Bench, sent: bytes
) -> None:
    async with await Connection.to(await bench.front()) as line:
        line.send(sent)
        answer = await line.read_answer()
    assert 400 <= answer.status < 500
    assert answer.error_code == -32600
    assert b"secret" not in answer.body


async def test_another_path_is_404_and_health_is_told(bench: Bench) -> None:
    await bench.front()
    client = bench.client()
    for path in ("/mcp", "/mcp/", "/mcp/a/b", "/mcp/..%2f", "/mcp/a.b", "/mcp/>"):
        client.path = path
        answer = await client.request("ping")
        assert (answer.status, answer.json()["error"]["code"]) == (404, -32600), path
    client.path = "/healthz"
    assert (await client.send("GET")).status == 200


@promise("relay.reconnect")
async def test_both_ends_come_back_after_the_server_was_restarted(bench: Bench) -> None:
    await bench.front()
    await bench.edge()
    client = bench.client()
    assert (await client.request("ping")).status == 200
    bench.nats.stop()
    async with asyncio.timeout(2.5):
        assert (await client.request("ping")).status == 503
    bench.nats.start()
    async with asyncio.timeout(HANGS_S):
        while (await client.request("ping")).status != 200:
            await asyncio.sleep(0.05)


@promise("relay.reconnect")
# The NATS client forgets to close a connection on which the server never says a word.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("harm", [NatsServer.stop, NatsServer.freeze])
async def test_a_news_stream_ends_at_both_ends_when_the_server_is_killed_or_stopped(
    bench: Bench, harm: Callable[[NatsServer], None]
) -> None:
    await bench.front()
    endpoint, carrier = await bench.edge()
    client = bench.client()
    await client.initialize()
    stream = await client.open_stream()
    while not carrier.exchange_count:
        await asyncio.sleep(0.01)
    harm(bench.nats)
    endpoint.tools.change()
    async with asyncio.timeout(HANGS_S):
        # Broken off, and not as if it had come to its end.
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await read_on(stream)
        while carrier.exchange_count:
            await asyncio.sleep(0.05)
    stream.abort()
    bench.nats.stop()
    bench.nats.start()
    async with asyncio.timeout(HANGS_S):
        while (await client.request("ping")).status != 200:
            await asyncio.sleep(0.05)
    again = await client.open_stream()
    while not carrier.exchange_count:
        await asyncio.sleep(0.01)
    endpoint.tools.change()
    event = await again.next_event()
    assert event is not None
    assert event.json()["method"] == "notifications/tools/list_changed"
    again.abort()


async def read_on(stream: Connection) -> None:
    """To the end of a stream; what was on its way may still come."""
    while await stream.next_event() is not None:
        pass


async def test_half_an_answer_is_never_taken_for_a_whole_one(bench: Bench) -> None:
    await bench.front()
    cheat = await bench.link(EDGE)

    async def answer(message: Any) -> None:
        opened = json.loads(message.data.partition(b"\n")[0])
        if opened["kind"] != "open":
            return
        subject = up_subject(EDGE, opened["front"], opened["exchange"])
        head = Head(exchange=opened["exchange"], status=200, headers=())
        await cheat.publish(subject, encode(head))
        for number in (0, 2):  # the second piece was lost
            piece = Data(exchange=opened["exchange"], number=number, data=b"x")
            await cheat.publish(subject, encode(piece))

    await cheat.subscribe(f"edged.{EDGE}.down", answer)
    await cheat.flush()
    line = await bench.client().open_post(bench.client().message("ping"))
    await line.read_head()
    rest = await line.read_rest()
    assert not rest.endswith(b"0\r\n\r\n")
    await line.close()


@promise("relay.flow-control")
async def test_a_client_that_does_not_read_stops_the_edge_s_reading(
    aiohttp_raw_server: AiohttpRawServer, bench: Bench
) -> None:
    await bench.front()
    sent = 0

    async def flood(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(64 * 1024))
            sent += 64 * 1024

    server = await aiohttp_raw_server(flood)
    await bench.carrier(server.port)
    line = await bench.client().open_post(bench.client().message("ping"))
    before = -1
    while sent != before or not sent:
        before = sent
        await asyncio.sleep(0.3)
    # What the sockets on the way hold; each side's own memory is bounded by the credit.
    assert sent < 128 * 1024 * 1024
    line.abort()


@promise("relay.isolation")
async def test_with_users_and_tls_one_edge_neither_hears_nor_speaks_for_another(
    tmp_path: Path, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges_module, "OFFLINE_S", 0.5)
    async with running(tmp_path, free_port(), is_guarded=True) as bench:
        await bench.front()
        await bench.edge()
        assert (await bench.client().request("ping")).status == 200
        spy = await bench.link("edge-2")
        heard: list[Any] = []

        async def hear(message: Any) -> None:
            heard.append(message)

        for subject in (f"edged.{EDGE}.down", f"edged.{EDGE}.>", "edged.>", ">", "edged.*.up.>"):
            await spy.subscribe(subject, hear)
        await spy.flush()
        assert (await bench.client().request("ping")).status == 200
        assert heard == []
        # It serves its own requests, and nobody else's.
        assert (await bench.client(edge_id="edge-2").request("ping")).status == 503


async def test_without_the_authority_or_the_password_there_is_no_connection(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    with running_nats(tmp_path / "nats", free_port(), is_guarded=True) as nats:
        wrong = tmp_path / "wrong"
        wrong.write_text("edge-1:guess\n")
        for settings in (
            LinkSettings(url=nats.url, credentials=nats.credentials("edge-1")),
            LinkSettings(url=nats.url, credentials=wrong, ca_file=nats.ca_file),
        ):
            link = NatsLink(settings, clock=CLOCK)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.7):
                    await link.open()
            assert link.status.last_error
            await link.close()


async def test_hundred_exchanges_side_by_side_are_not_crossed(bench: Bench) -> None:
    await bench.front()
    await bench.edge()

    async def one(number: int) -> bool:
        answer = await bench.client().call("echo", {"number": number})
        return json.loads(answer["content"][0]["text"]) == {"echo": {"number": number}}

    assert all(await asyncio.gather(*(one(number) for number in range(100))))


@promise("supervisor.silent-at-once")
async def test_an_engine_that_hangs_is_answered_for_within_a_second_over_the_relay(
    aiohttp_raw_server: AiohttpRawServer, bench: Bench
) -> None:
    asked = list[str]()
    forever = asyncio.Event()

    async def hang(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        await forever.wait()
        return web.Response()

    async def silence(_port: int, _request: bytes) -> bool:
        await forever.wait()
        return False

    await bench.front()
    server, pulse = await aiohttp_raw_server(hang), Pulse(CLOCK)
    await bench.carrier(server.port, pulse=pulse)
    health = Health(rpc_port=1, mcp_port=None, mcp_path="/mcp")
    watchdog = Watchdog(health, pulse=pulse, clock=CLOCK, ask=silence)
    watching = asyncio.create_task(watchdog.until_hung())
    async with asyncio.timeout(1.8):  # a busy machine has its part
        first = await bench.client().request("ping")
    second = await bench.client().request("ping")
    assert (first.status, second.status) == (503, 503)
    assert "may still be carried out" in first.body.decode()
    assert "Nothing of this request" in second.body.decode()
    assert len(asked) == 1
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    pulse.stop()
    forever.set()


async def test_an_attempt_to_connect_ends_with_a_cancellation_in_any_turn() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        settings = LinkSettings(url=f"nats://127.0.0.1:{unused.getsockname()[1]}")
        for turns in range(TURNS_OF_AN_ATTEMPT):
            opening = asyncio.create_task(NatsLink(settings, clock=CLOCK).open())
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            _, pending = await asyncio.wait({opening}, timeout=HANGS_S)
            assert not pending
            assert opening.cancelled()
