"""Fronts with their fleet, and edges around the real MCP endpoint, on one real nats-server."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edged.actions.tool import ToolCall
from edged.auth.claims import EdgeDoor
from edged.auth.keys import KeyBook
from edged.auth.permissions import Permissions
from edged.auth.verifier import Verifier
from edged.clock import Clock, SystemClock
from edged.http.pulse import Pulse
from edged.protocol.http_rules import Guard
from edged.relay.announcement import here_subject
from edged.relay.carrier import Carrier, EngineAddress
from edged.relay.envelope import (
    CHUNK_BYTES,
    Alive,
    AnswerEnd,
    Data,
    Envelope,
    Head,
    Headers,
    Open,
    decode,
    down_subject,
    encode,
    up_subject,
)
from edged.relay.link import LinkSettings, NatsLink, RelayMessage
from edged.supervisor.peer_header import PEER_HEADER, relayed_reader, relayed_value
from edged.surfaces.mcp.caller import RelayGuard
from edged.surfaces.mcp.seams import carried_head
from edged_relay.fleet.hosts import FleetHosts
from edged_relay.fleet.service import Fleet, Keep, forget
from edged_relay.fleet.table import EdgeTable
from edged_relay.front import RelayFront
from edged_relay.login import LoginMetadata
from tests.bench.bad_fleet_tokens import fleet_claims
from tests.bench.mcp_client import McpClient
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.nats_server import USERS, NatsServer, running_nats
from tests.bench.token_issuer import EDGE, ISSUER, TokenIssuer, key_set
from tests.bench.waiting import HANGS_S

SECRET = "s" * 43
REFUSED_AFTER_S = 0.01
HOSTS = FleetHosts({"edge-1": "10.0.0.7", "edge-2": ipaddress.ip_network("10.20.0.0/16")})
ALL_TOOLS = (
    "fleet__list_edges",
    "fleet__find_instrument",
    "fleet__history",
    "fleet__stop_everywhere",
    "fleet__call",
    "bench__stop_all",
    "bench__history",
    "echo",
    "wait",
)
UNIT: dict[str, Any] = {
    "id": "usb-1",
    "alias": "psu",
    "manufacturer": "Rigol",
    "model": "DP832",
    "instrument_class": "power_supply",
    "serial": "DP8A1",
    "state": "ready",
    "used_by": None,
    "lease": None,
    "is_in_use": False,
}
WORD: dict[str, Any] = {"version": "1.0", "units": [UNIT], "runs": [], "lockouts": []}


class Keys:
    """Implements ``JwksSource``."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.issuer = issuer

    async def fetch(self) -> bytes:
        return key_set(self.issuer.jwk())


@dataclass
class Front:
    port: int
    table: EdgeTable
    link: NatsLink
    fleet: Fleet
    relay: RelayFront

    async def stop(self) -> None:
        await self.fleet.stop()
        await self.relay.stop()
        await self.link.close()


@dataclass
class EdgeEnd:
    """One edge: its engine's endpoint, and its way to the fronts."""

    edge_id: str
    endpoint: Endpoint
    link: NatsLink

    async def say(self, **changes: Any) -> None:
        await self.say_bytes(json.dumps({**WORD, **changes}).encode())

    async def say_bytes(self, data: bytes, edge_id: str = "") -> None:
        await self.link.publish(here_subject(edge_id or self.edge_id), data)
        await self.link.flush()


@dataclass
class FleetBench:
    nats: NatsServer
    issuer: TokenIssuer
    stack: contextlib.AsyncExitStack
    clock: Clock = field(default_factory=SystemClock)
    fronts: list[Front] = field(default_factory=list)

    def verifier(self) -> Verifier:
        book = KeyBook(Keys(self.issuer), url="u", state_dir=None, clock=self.clock)
        return Verifier(book, issuer=ISSUER, clock=self.clock, refused_after_s=REFUSED_AFTER_S)

    async def link(self, user: str) -> NatsLink:
        settings = LinkSettings(
            url=self.nats.url,
            credentials=self.nats.credentials(user) if self.nats.is_guarded else None,
            ca_file=self.nats.ca_file if self.nats.is_guarded else None,
        )
        link = NatsLink(settings, clock=self.clock)
        self.stack.push_async_callback(link.close)
        await link.open()
        return link

    async def front(
        self,
        *,
        takes_all: bool = False,
        keep: Callable[[NatsLink, EdgeTable], Keep] | None = None,
        login: LoginMetadata | None = None,
    ) -> Front:
        link, table = await self.link("front"), EdgeTable(hosts=HOSTS)
        names = Guard.of(host_name="", allowed_hosts=("relay.example",))
        relay = RelayFront(
            link, verifier=self.verifier(), guard=names, clock=self.clock, login=login
        )
        fleet = Fleet(
            link,
            relay.exchanges,
            verifier=self.verifier(),
            takes_all=takes_all,
            names=names,
            table=table,
            keep=keep(link, table) if keep is not None else forget,
            login=login,
            clock=self.clock,
        )
        await relay.start()
        await fleet.start()
        await link.flush()
        port = await relay.listen("127.0.0.1", 0, door=fleet.entrance)
        front = Front(port, table, link, fleet, relay)
        self.stack.push_async_callback(front.stop)
        self.fronts.append(front)
        return front

    async def edge(self, edge_id: str = EDGE, *, takes_fleet: bool = True) -> EdgeEnd:
        guard = RelayGuard(
            verifier=self.verifier(),
            door=EdgeDoor(edge_id),
            relayed=EdgeDoor(edge_id, takes_fleet=takes_fleet),
            refuse=lambda *_: None,
            clock=self.clock,
        )
        endpoint = await self.stack.enter_async_context(
            running_endpoint(guard=guard, read_head=carried_head(relayed_reader(SECRET)))
        )
        _add_bench_tools(endpoint)
        link = await self.link(edge_id)
        carrier = Carrier(
            link,
            edge_id=edge_id,
            engine=lambda: EngineAddress(endpoint.port, "/mcp"),
            pulse=Pulse(self.clock),
            peer_header=lambda peer: (PEER_HEADER, relayed_value(SECRET, peer)),
            clock=self.clock,
        )
        await carrier.start()
        self.stack.push_async_callback(carrier.stop)
        await link.flush()
        return EdgeEnd(edge_id, endpoint, link)

    async def hostile_edge(
        self, edge_id: str, body: bytes, *, status: int = 200, headers: Headers = ()
    ) -> None:
        """An edge that announces itself, and answers every request with these bytes."""
        link = await self.link(edge_id)

        async def answer(message: RelayMessage) -> None:
            opened = decode(message.data)
            if not isinstance(opened, Open):
                return
            pieces = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
            subject, one = up_subject(edge_id, opened.front, opened.exchange), opened.exchange
            for envelope in (
                Head(exchange=one, status=status, headers=headers),
                *(Data(exchange=one, number=at, data=data) for at, data in enumerate(pieces)),
                AnswerEnd(exchange=one, number=len(pieces), is_whole=True),
            ):
                await link.publish(subject, encode(envelope))

        await link.subscribe(down_subject(edge_id), answer)
        await link.publish(here_subject(edge_id), json.dumps(WORD).encode())
        await link.flush()

    async def silent_edge(self, edge_id: str, *, takes: bool = False) -> list[Envelope]:
        """An edge that answers nothing, and says at most that it has it; gives what it hears."""
        link = await self.link(edge_id)
        heard: list[Envelope] = []

        async def hear(message: RelayMessage) -> None:
            envelope = decode(message.data)
            heard.append(envelope)
            if takes and isinstance(envelope, Open):
                alive = Alive(exchange=envelope.exchange, front=envelope.front)
                subject = up_subject(edge_id, envelope.front, envelope.exchange)
                await link.publish(subject, encode(alive))

        await link.subscribe(down_subject(edge_id), hear)
        await link.flush()
        return heard

    def token(self, *tools: str, **claims: Any) -> str:
        return self.issuer.mint(**fleet_claims(tools_allow=list(tools or ALL_TOOLS), **claims))

    def client(self, front: int = 0, token: str | None = None, **claims: Any) -> McpClient:
        client = McpClient(self.fronts[front].port, path="/mcp", version="2025-11-25")
        client.headers["Authorization"] = f"Bearer {token or self.token(**claims)}"
        return client

    async def known(self, *edges: str) -> None:
        """Wait until every front has heard these."""
        async with asyncio.timeout(HANGS_S):
            while not all(front.table.find(e) for front in self.fronts for e in edges):
                await asyncio.sleep(0.05)


def _add_bench_tools(endpoint: Endpoint) -> None:
    permissions = Permissions()

    def judged(
        name: str, behaviour: Callable[[ToolCall], Awaitable[Any]]
    ) -> Callable[[ToolCall], Awaitable[Any]]:
        async def run(call: ToolCall) -> Any:
            permissions.authorize_tool(call.caller, name, None)
            return await behaviour(call)

        return run

    async def stop_all(_call: ToolCall) -> Any:
        return {"is_confirmed": True, "instruments": []}

    async def history(call: ToolCall) -> Any:
        row = {"time_ms": endpoint.port, "who": call.caller.subject, "tool": "x", "edge_id": "liar"}
        return {"rows": [row], "more": False, "next_before": None}

    endpoint.tools.add("bench__stop_all", judged("bench__stop_all", stop_all))
    endpoint.tools.add("bench__history", judged("bench__history", history))


@contextlib.asynccontextmanager
async def running_fleet(
    directory: Path, port: int, *, is_guarded: bool = False, users: str = USERS
) -> AsyncIterator[FleetBench]:
    with running_nats(directory / "nats", port, is_guarded=is_guarded, users=users) as nats:
        async with contextlib.AsyncExitStack() as stack:
            issuer = TokenIssuer(now_s=int(time.time()))  # noqa: TID251
            yield FleetBench(nats, issuer, stack)
