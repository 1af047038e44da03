from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from multidict import CIMultiDict

from edged.http.pulse import Pulse
from edged.service import Notifier, without_notification
from edged.supervisor.peer_header import (
    PEER_HEADER,
    keep_peer_secret,
    peer_reader,
    peer_value,
    relayed_reader,
    relayed_value,
)
from edged.supervisor.supervisor import backoff_s
from edged.supervisor.watchdog import EVERY_S, Health, Watchdog, ask, look_at_rpc
from tests.bench.driven_clock import DrivenClock, settle
from tests.promises import promise

HEALTH = Health(rpc_port=1, mcp_port=2, mcp_path="/mcp")


class FakeEngine:
    def __init__(self) -> None:
        self.silent: set[int] = set()
        self.asked: list[tuple[int, bytes]] = []

    async def ask(self, port: int, request: bytes) -> bool:
        self.asked.append((port, request.split(b" HTTP/")[0]))
        return port not in self.silent


async def test_an_engine_that_misses_three_answers_in_a_row_is_hung(
    driven_clock: DrivenClock,
) -> None:
    engine = FakeEngine()
    watching = asyncio.create_task(
        Watchdog(HEALTH, pulse=Pulse(driven_clock), clock=driven_clock, ask=engine.ask).until_hung()
    )
    await driven_clock.advance(10 * EVERY_S)
    engine.silent = {2}
    await driven_clock.advance(2 * EVERY_S)
    engine.silent = set()
    await driven_clock.advance(5 * EVERY_S)
    assert not watching.done()
    engine.silent = {2}
    await driven_clock.advance(3 * EVERY_S)
    await settle()
    assert watching.result() == "MCP"
    assert set(engine.asked) == {(1, b"GET /alive"), (2, b"POST /mcp")}


@pytest.mark.parametrize(
    ("answer", "is_alive"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", True),
        (b"", True),
        (b"HTTP/1.1 503 Service Unavailable\r\nEdged-Full: yes\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\r\n{}", False),
        (b"HTTP/1.1 500 Oops\r\n\r\n", False),
        (b"SSH-2.0-x\r\n", False),
    ],
)
async def test_what_an_answer_says_of_life(answer: bytes, is_alive: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await ask(port, look_at_rpc(port)) is is_alive
    server.close()
    await server.wait_closed()
    assert not await ask(port, look_at_rpc(port))


async def test_without_an_mcp_listener_its_health_check_is_skipped(
    driven_clock: DrivenClock,
) -> None:
    engine = FakeEngine()
    off = Health(rpc_port=1, mcp_port=None, mcp_path="/mcp")
    pulse = Pulse(driven_clock)
    assert await Watchdog(off, pulse=pulse, clock=driven_clock, ask=engine.ask).is_well()
    assert engine.asked == [(1, b"GET /alive")]


def test_the_first_restart_is_at_once_and_later_ones_ever_slower_up_to_a_bound() -> None:
    pauses = [backoff_s(failures) for failures in range(12)]
    assert pauses[:4] == [0.0, 0.0, 0.5, 1.0]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 30.0


def test_an_engine_that_may_have_left_a_sweep_is_never_waited_for_long() -> None:
    assert max(backoff_s(failures, got_ready=True) for failures in range(40)) == 1.0


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_hears_ready_alive_and_stopping(tmp_path: Path, is_abstract: bool) -> None:
    name = "@edged-test-notify" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if is_abstract else name)
        manager.settimeout(1)
        notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "30000000"})
        assert notifier.alive_every_s == 15.0
        notifier.starting(90.5)
        notifier.ready("runs")
        notifier.alive()
        notifier.stopping()
        heard = [manager.recv(100).decode() for _ in range(4)]
    assert heard == [
        "EXTEND_TIMEOUT_USEC=90500000",
        "READY=1\nSTATUS=runs",
        "WATCHDOG=1",
        "STOPPING=1",
    ]


def test_without_systemd_nothing_is_said_and_no_watchdog_waits() -> None:
    notifier = Notifier({})
    notifier.ready("runs")
    assert notifier.alive_every_s is None
    assert Notifier({"WATCHDOG_USEC": "1000"}).alive_every_s is None
    other = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    assert Notifier(other, pid=2).alive_every_s is None


def test_a_child_gets_nothing_of_the_service_manager() -> None:
    environ = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "2", "PATH": "/bin"}
    without_notification(environ)
    assert environ == {"PATH": "/bin"}


def test_only_who_knows_the_secret_names_the_peer(tmp_path: Path) -> None:
    secret = keep_peer_secret(tmp_path)
    assert keep_peer_secret(tmp_path) == secret
    assert (tmp_path / "peer_secret").stat().st_mode & 0o777 == 0o600
    read, name = peer_reader(secret), PEER_HEADER.lower()
    for headers in (dict, CIMultiDict):
        told = headers({name: peer_value(secret, "10.0.0.7")})
        assert read(told, "127.0.0.1") == "10.0.0.7"
    told = CIMultiDict({PEER_HEADER: peer_value(secret, "10.0.0.7")})
    assert read(told, "127.0.0.1") == "10.0.0.7"
    for forged in ("", "x", "x 10.0.0.7", secret, f"{secret}x 10.0.0.7", "\udcff 1"):
        assert read({name: forged}, "127.0.0.1") == "127.0.0.1"
    assert read({}, "10.0.0.9") == "10.0.0.9"


@promise("fleet.token-at-edge")
def test_only_the_supervisor_can_say_that_something_came_over_nats(tmp_path: Path) -> None:
    secret, name = keep_peer_secret(tmp_path), PEER_HEADER.lower()
    is_relayed, read = relayed_reader(secret), peer_reader(secret)
    told = {name: relayed_value(secret, "203.0.113.7")}
    assert is_relayed(told)
    assert read(told, "127.0.0.1") == "203.0.113.7"
    assert read({name: relayed_value(secret, "")}, "127.0.0.1") == "127.0.0.1"
    assert not is_relayed({name: peer_value(secret, "203.0.113.7")})
    for forged in ("", "relay 10.0.0.7", "x relay 10.0.0.7", f"{secret}x relay 1", secret):
        assert not is_relayed({name: forged})
    assert not is_relayed({})


def test_a_spoilt_secret_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "peer_secret").write_text("short")
    assert len(keep_peer_secret(tmp_path)) == 43
