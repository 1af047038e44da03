"""The port proxy against a bare engine on loopback, whose every byte the test decides."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from edged.clock import SystemClock
from edged.config.keys import PRIVATE_NETWORKS, Exposure
from edged.http.pulse import Pulse
from edged.supervisor.proxy import CONNECT_WITHIN_S, PortProxy, ProxySettings
from edged.supervisor.watchdog import ANSWER_WITHIN_S, Health, Watchdog
from tests.bench.mcp_endpoint import running_endpoint
from tests.bench.waiting import HANGS_S
from tests.promises import promise

OTHER = "127.0.0.2"  # stands for an address of the private network
REQUEST = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answer_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers every request with the head it got."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head) + head)


@dataclass
class Bench:
    proxy: PortProxy
    port: int
    pulse: Pulse
    serve: Serve = answer_each
    is_away: bool = False
    engine: asyncio.Server | None = None
    connections: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start_engine(self) -> None:
        self.engine = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, reuse_port=True, backlog=1_024
        )

    async def stop_engine(self) -> None:
        if self.engine is not None:
            self.engine.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.engine = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            await self.serve(reader, writer)
            writer.close()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()


@contextlib.asynccontextmanager
async def running(
    port: int,
    *,
    serve: Serve = answer_each,
    is_port_shared: bool = True,
    networks: tuple[str, ...] = (),
    with_engine: bool = True,
) -> AsyncIterator[Bench]:
    allowed = tuple(ipaddress.ip_network(text) for text in networks) or PRIVATE_NETWORKS
    bench: Bench
    pulse = Pulse(SystemClock())
    proxy = PortProxy(
        ProxySettings(
            expose=(Exposure.ANY,),
            allowed_networks=allowed,
            peer_secret="s3cret",
            is_port_shared=is_port_shared,
        ),
        engine_port=lambda: None if bench.is_away else port,
        pulse=pulse,
        changed=lambda _addresses: None,
        clock=SystemClock(),
        addresses=lambda: (OTHER,),
        is_loopback=lambda address: address == "127.0.0.1",
    )
    bench = Bench(proxy, port, pulse, serve)
    proxy.port = port
    await proxy.look()
    if with_engine:
        await bench.start_engine()
    try:
        yield bench
    finally:
        await bench.stop_engine()
        await proxy.stop()
        pulse.stop()
        await asyncio.sleep(0.01)


class Line:
    """One client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, port: int, host: str = OTHER) -> AsyncIterator[Line]:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            yield cls(reader, writer)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    async def ask(self, request: bytes = REQUEST) -> tuple[int, bytes]:
        self.writer.write(request)
        return await self.answer()

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(HANGS_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            return int(head.split()[1]), await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        async with asyncio.timeout(HANGS_S):
            return await self.reader.read()


@pytest.fixture
def port(free_port: Callable[[], int]) -> int:
    return free_port()


@pytest.mark.parametrize("is_port_shared", [True, False])
async def test_requests_of_a_connection_reach_the_engine_each_with_the_peer_s_address(
    port: int, is_port_shared: bool
) -> None:
    # Where ports are not shared the addresses are bound one by one, here too.
    async with running(port, is_port_shared=is_port_shared) as bench:
        assert bench.proxy.listening == (("0.0.0.0",) if is_port_shared else (OTHER,))
        async with Line.to(port) as line:
            for _ in range(3):
                status, head = await line.ask()
                assert status == 200
                assert b"\r\nEdged-Peer: s3cret 127.0.0.1\r\n" in head
        assert bench.connections == 1


@promise("proxy.own-listener-wins")
async def test_loopback_reaches_the_engine_itself_while_it_listens(port: int) -> None:
    async with running(port) as bench:
        for _ in range(20):
            async with Line.to(port, "127.0.0.1") as line:
                _, head = await line.ask()
                assert b"Edged-Peer" not in head
        assert bench.connections == 20
        assert bench.proxy.connection_count == 0


@promise("proxy.away")
@pytest.mark.parametrize("host", [OTHER, "127.0.0.1"])
async def test_while_the_engine_is_away_everybody_gets_503_at_once(port: int, host: str) -> None:
    async with running(port, with_engine=False) as bench:
        for is_away in (True, False):  # known to be away; thought to be there
            bench.is_away = is_away
            async with Line.to(port, host) as line, asyncio.timeout(1.5):
                status, body = await line.ask()
                assert status == 503
                assert json.loads(body)["error"]["code"] == -32600
                assert await line.rest() == b""
        # It never went on connecting to itself.
        assert bench.proxy.connection_count <= 2


async def test_an_engine_that_dies_under_a_call_gives_503_and_under_a_stream_an_end(
    port: int,
) -> None:
    got = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        got.set()
        await asyncio.sleep(30)

    async with running(port, serve=hang) as bench, Line.to(port) as call, Line.to(port) as stream:
        call.writer.write(REQUEST)
        await got.wait()
        got.clear()
        stream.writer.write(b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n")
        await got.wait()
        await stream.reader.readuntil(b"half")
        await bench.stop_engine()
        assert (await call.answer())[0] == 503
        assert await stream.rest() == b""


class ScanSchedule:
    """What the watchdog's looks come to: an answer as long as the engine is not hung."""

    def __init__(self) -> None:
        self.is_well = asyncio.Event()
        self.is_well.set()
        self.taken = asyncio.Queue[float]()

    async def ask(self, _port: int, _request: bytes) -> bool:
        self.taken.put_nowait(asyncio.get_running_loop().time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self.is_well.wait()
        return self.is_well.is_set()


@contextlib.asynccontextmanager
async def watched(bench: Bench) -> AsyncIterator[ScanSchedule]:
    looks, health = ScanSchedule(), Health(rpc_port=1, mcp_port=None, mcp_path="/mcp")
    watchdog = Watchdog(health, pulse=bench.pulse, clock=SystemClock(), ask=looks.ask)
    watching = asyncio.create_task(watchdog.until_hung())
    try:
        yield looks
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@promise("supervisor.silent-at-once")
async def test_an_engine_that_hangs_is_answered_for_within_a_second_and_asked_nothing_more(
    port: int,
) -> None:
    got = asyncio.Queue[bytes]()

    async def hang(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while True:
            got.put_nowait(await reader.readuntil(b"\r\n\r\n{}"))

    async with running(port, serve=hang) as bench, watched(bench) as looks:
        async with Line.to(port) as first, Line.to(port) as idle, Line.to(port) as new:
            looks.is_well.clear()
            status, body = await first.ask()
            assert (status, got.qsize()) == (503, 1)
            assert "may still be carried out" in json.loads(body)["error"]["message"]
            for line in (idle, new):
                status, body = await line.ask()
                assert status == 503
                assert "Nothing of this request" in json.loads(body)["error"]["message"]
            assert got.qsize() == 1
        bench.serve = answer_each
        looks.is_well.set()
        while bench.pulse.is_silent:
            await looks.taken.get()
            await asyncio.sleep(0)
        async with Line.to(port) as line:
            assert (await line.ask())[0] == 200


@promise("proxy.long-calls-last")
async def test_a_call_that_takes_long_is_doubted_once_and_outlasts_an_engine_that_hangs_a_while(
    port: int,
) -> None:
    done, got = asyncio.Event(), asyncio.Event()

    async def query(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        got.set()
        await done.wait()
        writer.write(ANSWER)
        await reader.read()

    async with running(port, serve=query) as bench, watched(bench) as looks, Line.to(port) as long:
        long.writer.write(REQUEST)
        await got.wait()
        asked = asyncio.get_running_loop().time()
        # A look at once, because nothing is heard; then those of each second.
        assert await looks.taken.get() - asked < 0.9
        assert await looks.taken.get() - asked > 0.9
        looks.is_well.clear()
        async with Line.to(port) as other:
            assert (await other.ask())[0] == 503
        assert bench.pulse.is_silent
        done.set()
        assert await long.answer() == (200, b"done")
        assert not bench.pulse.is_silent


async def test_events_pass_at_once_and_one_by_one(port: int) -> None:
    go = asyncio.Queue[None]()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            await go.get()
            writer.write(b"9\r\ndata: x\n\n\r\n")

    async with running(port, serve=stream), Line.to(port) as line:
        line.writer.write(b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n")
        await line.reader.readuntil(b"\r\n\r\n")
        for _ in range(3):
            go.put_nowait(None)
            async with asyncio.timeout(HANGS_S):
                assert await line.reader.readexactly(14) == b"9\r\ndata: x\n\n\r\n"


async def test_a_half_that_closes_closes_the_same_half_over_there(port: int) -> None:
    async def wait_for_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = await reader.read()
        assert body.endswith(b"{}")
        writer.write(ANSWER)

    async with running(port, serve=wait_for_end), Line.to(port) as line:
        line.writer.write(REQUEST)
        line.writer.write_eof()
        assert await line.rest() == ANSWER


async def test_a_client_that_goes_is_gone_for_the_engine_at_once(port: int) -> None:
    gone = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"{}")
            await reader.read()
        gone.set()

    async with running(port, serve=watch):
        async with Line.to(port) as line:
            line.writer.write(REQUEST)
            await asyncio.sleep(0.05)
        async with asyncio.timeout(HANGS_S):
            await gone.wait()


@promise("proxy.backpressure")
async def test_a_client_that_does_not_read_makes_the_engine_wait_and_fills_no_memory(
    port: int,
) -> None:
    written = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(bytes(64 * 1024))
            await writer.drain()
            written += 64 * 1024

    async with running(port, serve=flood), Line.to(port) as line:
        line.writer.write(REQUEST)
        before = -1
        while written != before:
            before = written
            await asyncio.sleep(0.2)
        assert written < 64 * 1024 * 1024
        await line.reader.readexactly(1024 * 1024)


async def test_an_upload_that_the_engine_does_not_read_makes_the_client_wait(port: int) -> None:
    async def deaf(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(30)

    async with running(port, serve=deaf), Line.to(port) as line:
        line.writer.write(b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 900000000\r\n\r\n")
        assert await _upload(line.writer, 2_000 * 64 * 1024) < 2_000 * 64 * 1024


async def _upload(writer: asyncio.StreamWriter, size: int) -> int:
    """How much of it can be sent before the other side does not take more for half a second."""
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < size:
            writer.write(bytes(64 * 1024))
            async with asyncio.timeout(0.5):
                await writer.drain()
            sent += 64 * 1024
    return sent


@promise("proxy.networks")
async def test_a_source_outside_of_the_allowed_networks_is_refused_whatever_it_sends(
    port: int,
) -> None:
    async with running(port, networks=("10.0.0.0/8", "::1/128")) as bench, Line.to(port) as line:
        line.writer.write(REQUEST)
        status, body = await line.answer()
        assert status == 403
        assert "ALLOWED_NETWORKS" in json.loads(body)["error"]["message"]
        assert bench.connections == 0


async def test_what_cannot_be_followed_gets_400_with_an_error_body(port: int) -> None:
    async with running(port) as bench, Line.to(port) as line:
        doubled = b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
        status, body = await line.ask(doubled)
        assert (status, json.loads(body)["jsonrpc"]) == (400, "2.0")
        assert bench.connections == 0


async def test_what_cannot_be_followed_is_refused_behind_the_answers_before_it(port: int) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    head = b"POST /mcp HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n" % OTHER.encode()
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    async with running(port, with_engine=False), running_endpoint(port=port, is_port_shared=True):
        for sent, statuses in (
            (whole * 2 + b"GARBAGE\r\n\r\n" + whole, [b"200", b"200", b"400"]),
            (whole + chunked + b"zz\r\n" + whole, [b"200", b"400"]),
            (chunked + b"1\r\nzz0\r\n\r\n", [b"400"]),
        ):
            async with Line.to(port) as line, asyncio.timeout(HANGS_S):
                line.writer.write(sent)
                answers = (await line.reader.read()).split(b"HTTP/1.")[1:]
            assert [answer.split()[1] for answer in answers] == statuses
            assert b'"error"' in answers[-1]


@promise("mcp.gone-cancels")
async def test_a_watched_call_ends_soon_when_its_client_closes_behind_the_proxy(port: int) -> None:
    async with (
        running(port, with_engine=False),
        running_endpoint(port=port, is_port_shared=True) as mcp,
    ):
        client = mcp.client()
        call = client.bytes_of("POST", json.dumps(client.tool_call("watch")).encode())
        async with Line.to(port) as line:
            line.writer.write(call)
            await mcp.tools.started.get()
            line.writer.close()
            async with asyncio.timeout(HANGS_S):
                assert await mcp.tools.ended.get() == "watch"
    assert mcp.tools.cancelled == ["watch"]


@promise("proxy.thousand")
async def test_a_thousand_connections_are_served_side_by_side(port: int) -> None:
    async with running(port) as bench, contextlib.AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(Line.to(port)) for _ in range(1_000)]
        answers = await asyncio.gather(*(line.ask() for line in lines))
        assert {status for status, _ in answers} == {200}
        assert bench.connections == 1_000
        assert bench.proxy.connection_count == 1_000


@promise("proxy.thousand")
async def test_a_connection_that_was_made_while_we_were_held_up_is_not_given_up(port: int) -> None:
    async with running(port) as bench:
        connecting = bench.proxy.connect(asyncio.Protocol)
        assert connecting is not None
        await asyncio.sleep(0)
        time.sleep(CONNECT_WITHIN_S + 0.1)  # noqa: ASYNC251, TID251 - we are held up
        assert await connecting


@promise("proxy.new-addresses")
async def test_addresses_that_come_are_bound_and_those_that_go_are_left(port: int) -> None:
    now = ["127.0.0.2"]
    told: list[tuple[str, ...]] = []
    proxy = PortProxy(
        ProxySettings(
            expose=(Exposure.ANY,),
            allowed_networks=PRIVATE_NETWORKS,
            peer_secret="s",
            is_port_shared=False,
        ),
        engine_port=lambda: None,
        pulse=Pulse(SystemClock()),
        changed=told.append,
        clock=SystemClock(),
        addresses=lambda: now,
        is_loopback=lambda address: address == "127.0.0.1",
    )
    proxy.port = port
    await proxy.look()
    now[:] = ["127.0.0.3", "192.0.2.77"]  # the second is not this machine's
    await proxy.look()
    now.clear()
    await proxy.look()
    assert told == [("127.0.0.2",), ("127.0.0.3",), ()]
    await proxy.stop()
