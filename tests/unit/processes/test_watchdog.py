from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from edged.processes.notify import Notifier, without_notification
from edged.processes.peer_header import PEER_HEADER, keep_peer_secret, peer_reader, peer_value
from edged.processes.supervisor import backoff_s
from edged.processes.watchdog import EVERY_S, Health, Watchdog
from tests.bench.driven_clock import DrivenClock, settle

HEALTH = Health(rpc_port=1, mcp_port=2, mcp_path="/mcp")


class FakeEngine:
    def __init__(self) -> None:
        self.silent: set[int] = set()
        self.asked: list[tuple[int, str]] = []

    async def ask(self, port: int, path: str) -> bool:
        self.asked.append((port, path))
        return port not in self.silent


async def test_an_engine_that_misses_three_answers_in_a_row_is_hung(
    driven_clock: DrivenClock,
) -> None:
    engine = FakeEngine()
    watching = asyncio.create_task(
        Watchdog(HEALTH, clock=driven_clock, ask=engine.ask).until_hung()
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
    assert set(engine.asked) == {(1, "/rpc"), (2, "/mcp")}


async def test_without_an_mcp_listener_its_health_check_is_skipped(
    driven_clock: DrivenClock,
) -> None:
    engine = FakeEngine()
    off = Health(rpc_port=1, mcp_port=None, mcp_path="/mcp")
    assert await Watchdog(off, clock=driven_clock, ask=engine.ask).is_well()
    assert engine.asked == [(1, "/rpc")]


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
        notifier.ready("runs")
        notifier.alive()
        notifier.stopping()
        heard = [manager.recv(100).decode() for _ in range(3)]
    assert heard == ["READY=1\nSTATUS=runs", "WATCHDOG=1", "STOPPING=1"]


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
    read = peer_reader(secret)
    assert read({PEER_HEADER: peer_value(secret, "10.0.0.7")}, "127.0.0.1") == "10.0.0.7"
    for forged in ("", "x", "x 10.0.0.7", secret, f"{secret}x 10.0.0.7", "\udcff 1"):
        assert read({PEER_HEADER: forged}, "127.0.0.1") == "127.0.0.1"
    assert read({}, "10.0.0.9") == "10.0.0.9"


def test_a_spoilt_secret_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "peer_secret").write_text("short")
    assert len(keep_peer_secret(tmp_path)) == 43
