"""Every form of RELAY_CREDENTIALS at a real nats-server with TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edged.clock import SystemClock
from edged.errors import Invalid
from edged.relay.link import LinkSettings, LinkState, NatsLink, RelayMessage
from tests.bench.nats_keys import NatsKey, creds, operator_config
from tests.bench.nats_server import NKEY_USERS, NatsServer, running_nats
from tests.bench.waiting import HANGS_S
from tests.promises import promise

CLOCK = SystemClock()
EDGE_MAY = ("edged.edge-1.up.>", "edged.edge-1.down")
SEED = NatsKey("U", "changed").seed
CHANGED = SEED[:20] + ("A" if SEED[20] != "A" else "B") + SEED[21:]
FRONT_MAY = ("edged.*.down", "edged.*.up.>")


@asynccontextmanager
async def link_of(nats: NatsServer, path: Path) -> AsyncIterator[NatsLink]:
    link = NatsLink(LinkSettings(url=nats.url, credentials=path, ca_file=nats.ca_file), clock=CLOCK)
    try:
        async with asyncio.timeout(HANGS_S):
            await link.open()
        yield link
    finally:
        await link.close()


def keep(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


async def assert_a_message_passes(front: NatsLink, edge: NatsLink) -> None:
    heard: asyncio.Queue[RelayMessage] = asyncio.Queue()
    await edge.subscribe("edged.edge-1.down", heard.put)
    # What the server does not allow it only refuses to this one.
    await edge.subscribe("edged.edge-2.down", heard.put)
    await edge.flush()
    await front.publish("edged.edge-2.down", b"not yours")
    await front.publish("edged.edge-1.down", b"yours")
    async with asyncio.timeout(HANGS_S):
        assert (await heard.get()).data == b"yours"
    assert heard.empty()


@promise("relay.credentials")
async def test_a_creds_file_opens_the_server_of_its_operator_and_no_more_than_it_says(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    with running_nats(
        tmp_path / "nats", free_port(), is_guarded=True, users=operator_config()
    ) as nats:
        edge_file = keep(tmp_path / "edge-1.creds", creds("edge-1", *EDGE_MAY))
        front_file = keep(tmp_path / "front.creds", creds("front", *FRONT_MAY))
        async with link_of(nats, edge_file) as edge, link_of(nats, front_file) as front:
            await assert_a_message_passes(front, edge)


@promise("relay.credentials")
async def test_an_nkey_seed_opens_the_server_that_knows_its_public_half(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    with running_nats(tmp_path / "nats", free_port(), is_guarded=True, users=NKEY_USERS) as nats:
        edge_file = keep(tmp_path / "edge-1.nk", NatsKey("U", "edge-1").seed + "\n")
        front_file = keep(tmp_path / "front.nk", "# of the front\n" + NatsKey("U", "front").seed)
        async with link_of(nats, edge_file) as edge, link_of(nats, front_file) as front:
            await assert_a_message_passes(front, edge)
        stranger = keep(tmp_path / "other.nk", NatsKey("U", "stranger").seed)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), link_of(nats, stranger):
                pass


class ExpiringServer:
    """Speaks as much of NATS as is needed to end a connection as a server does with an old pass."""

    def __init__(self) -> None:
        self.connections = 0
        self.subscribed: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        writer.write(b'INFO {"server_id":"x","version":"2.9.10","max_payload":1048576}\r\n')
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
            if line.startswith(b"SUB"):
                self.subscribed.append(line.split()[1])
                if number == 1:
                    writer.write(b"-ERR 'User Authentication Expired'\r\n")
        writer.close()


@promise("relay.reconnect")
async def test_a_connection_that_the_server_ended_with_an_error_is_made_anew() -> None:
    expiring = ExpiringServer()
    server = await asyncio.start_server(expiring.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    link = NatsLink(LinkSettings(url=f"nats://127.0.0.1:{port}"), clock=CLOCK)

    async def hear(_message: RelayMessage) -> None: ...

    await link.subscribe("edged.edge-1.down", hear)
    try:
        async with asyncio.timeout(HANGS_S):
            await link.open()
            while len(expiring.subscribed) < 2 or link.status.state is not LinkState.CONNECTED:
                await asyncio.sleep(0.02)
        assert expiring.subscribed == [b"edged.edge-1.down"] * 2
        assert "expired" in link.status.last_error
    finally:
        await link.close()
        server.close()
        await asyncio.sleep(0.05)


async def test_the_state_of_the_connection_is_told_as_it_changes(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    told: list[LinkState] = []
    nats = NatsServer(tmp_path / "nats", free_port())
    link = NatsLink(
        LinkSettings(url=nats.url), clock=CLOCK, changed=lambda: told.append(link.status.state)
    )
    assert link.status.state is LinkState.OFF
    opening = asyncio.create_task(link.open())
    try:
        async with asyncio.timeout(HANGS_S):
            while not link.status.last_error:
                await asyncio.sleep(0.02)
            nats.start()
            await opening
            began_ms = link.status.since_ms
            nats.stop()
            while link.status.state is not LinkState.RECONNECTING:
                await asyncio.sleep(0.02)
            nats.start()
            while link.status.state is not LinkState.CONNECTED:
                await asyncio.sleep(0.02)
        assert link.status.since_ms > began_ms > 0
    finally:
        await link.close()
        nats.stop()
    order = [state for state, before in zip(told, [None, *told], strict=False) if state != before]
    assert order == ["reconnecting", "connected", "reconnecting", "connected", "off"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no colon",
        ":open-sesame",
        "two:lines\nof:it",
        NatsKey("A", "an account").seed,
        NatsKey("U", "cut").seed[:-1],
        CHANGED,
        creds("x", "a", "b").split("-----BEGIN USER")[0],
    ],
)
async def test_what_is_no_credential_is_refused_and_not_quoted(tmp_path: Path, text: str) -> None:
    settings = LinkSettings(url="nats://127.0.0.1:1", credentials=keep(tmp_path / "c", text))
    link = NatsLink(settings, clock=CLOCK)
    with pytest.raises(Invalid) as refused:
        await link.open()
    assert link.status.state is LinkState.OFF
    secrets = [word for word in text.replace(":", " ").split() if len(word) > 7]
    assert not [word for word in secrets if word in str(refused.value)]
