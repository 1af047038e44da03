"""The fleet as its users meet it: real processes, TLS, the broker's permissions, a real client."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.nats_server import JETSTREAM_USERS
from tests.bench.relay_chain import EDGE, Chain, a_port, process, running_chain
from tests.bench.sdk_session import sdk_session
from tests.bench.waiting import wait_for
from tests.promises import promise

AWAY_WITHIN_S = 45.0
TOOLS = (
    "fleet__list_edges",
    "fleet__find_instrument",
    "fleet__history",
    "fleet__stop_everywhere",
    "fleet__call",
    "list_instruments",
    "execute_command",
    "bench__stop_all",
    "bench__history",
)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    with running(tmp_path_factory.mktemp("fleet")) as made:
        yield made


@contextlib.contextmanager
def running(directory: Path) -> Iterator[Chain]:
    with running_chain(
        directory,
        a_port,
        users=JETSTREAM_USERS,
        front_settings={"RELAY_INVENTORY": "jetstream"},
        edge_settings={"RELAY_FLEET": True},
    ) as made:
        token = made.fleet_token("fleet__list_edges")
        wait_for(lambda: all(made.fleet(token, front) for front in (0, 1)))
        yield made


def told(chain: Chain, name: str, /, *, front: int = 0, **arguments: Any) -> Any:
    token = chain.fleet_token(*TOOLS, danger=True)
    return chain.ask_fleet(token, name, front, **arguments)["result"]["structuredContent"]


def state(chain: Chain, front: int = 0) -> str:
    (edge,) = chain.fleet(chain.fleet_token("fleet__list_edges"), front)
    return str(edge["state"])


@promise("fleet.whole-chain")
def test_both_fronts_tell_of_a_real_bench_and_work_it(chain: Chain) -> None:
    token = chain.fleet_token("fleet__list_edges")
    first, second = chain.fleet(token, 0), chain.fleet(token, 1)
    for edge in (*first, *second):
        assert (edge["edge_id"], edge["state"]) == (EDGE, "here")
        assert {"psu1", "dmm1"} <= {unit["alias"] for unit in edge["units"]}
    found = told(chain, "fleet__find_instrument", **{"class": "power_supply", "free": True})
    supplies = [row for row in found["instruments"] if row["alias"] == "psu1"]
    assert supplies[0]["edge_id"] == EDGE
    for front in (0, 1):
        on = told(
            chain,
            "fleet__call",
            front=front,
            edge_id=EDGE,
            tool="execute_command",
            arguments={
                "instrument_id": "psu1",
                "command_name": "output_on",
                "parameters": {"channel": 1},
            },
        )
        assert on["result"]["success"] is True, on
    rows = told(chain, "fleet__history", since_s=600)["rows"]
    assert {row["edge_id"] for row in rows} == {EDGE}
    assert any(row["command"] == "output_on" and "user:ada" in row["who"] for row in rows)
    stopped = told(chain, "fleet__stop_everywhere", front=1)
    assert stopped["is_confirmed"] is True
    assert [row["edge_id"] for row in stopped["edges"]] == [EDGE]


@promise("fleet.own-entry")
def test_the_edge_judges_the_inner_tool_scope_and_danger_by_itself(chain: Chain) -> None:
    call = {
        "edge_id": EDGE,
        "tool": "execute_command",
        "arguments": {
            "instrument_id": "psu1",
            "command_name": "output_on",
            "parameters": {"channel": 1},
        },
    }
    codes = {}
    for name, token in {
        "no danger": chain.fleet_token("fleet__call", "execute_command"),
        "another scope": chain.fleet_token("fleet__call", "execute_command:set_voltage"),
        "only the front's": chain.fleet_token("fleet__call"),
        "another edge": chain.fleet_token("fleet__call", "execute_command", edges="edge-2"),
    }.items():
        codes[name] = chain.ask_fleet(token, "fleet__call", **call)["error"]["code"]
    assert codes == {
        "no danger": -33004,
        "another scope": -33003,
        "only the front's": -33003,
        "another edge": -33003,
    }


@promise("fleet.whole-chain")
def test_the_official_client_works_with_the_fleet(chain: Chain) -> None:
    token = chain.fleet_token(*TOOLS)
    with sdk_session("python-sdk-1", chain.fleet_url(), token) as client:
        assert client.greeting["server"] == "edged"
        assert len(client.do("list")) == 5
        (edge,) = client.call("fleet__list_edges")["edges"]
        assert edge["state"] == "here"
        called = client.call("fleet__call", edge_id=EDGE, tool="list_instruments")
        assert called["edge_id"] == EDGE
        refused = client.refused("fleet__call", edge_id=EDGE, tool="send_scpi")
        assert EDGE in refused


@promise("fleet.killed-edge")
def test_an_edge_that_is_killed_is_away_and_one_that_is_back_is_here(chain: Chain) -> None:
    assert chain.supervisor is not None
    os.kill(chain.supervisor.pid, signal.SIGSTOP)
    engine = chain.engine_pid()
    os.kill(engine, signal.SIGSTOP)
    try:
        # Who hangs is stopped by nobody, and is told so before it counts as away.
        began = time.monotonic()
        stopped = told(chain, "fleet__stop_everywhere")
        # The answer is due within 3 s; on a loaded machine it may take longer to arrive.
        assert time.monotonic() - began < 8
        assert stopped["is_confirmed"] is False
        assert [row["is_confirmed"] for row in stopped["edges"]] == [False]
        took = wait_for(lambda: state(chain) == "away", AWAY_WITHIN_S)
        assert took < 31
        assert state(chain, 1) == "away"
        found = told(chain, "fleet__find_instrument", free=True)
        assert found["instruments"] == []
    finally:
        os.kill(engine, signal.SIGCONT)
        os.kill(chain.supervisor.pid, signal.SIGCONT)
    wait_for(lambda: state(chain) == "here", AWAY_WITHIN_S)


@promise("fleet.killed-edge")
def test_an_engine_that_is_killed_comes_back_into_the_table_by_itself(chain: Chain) -> None:
    os.kill(chain.engine_pid(), signal.SIGKILL)
    token = chain.fleet_token(*TOOLS)

    def works() -> bool:
        with contextlib.suppress(KeyError):
            reply = chain.ask_fleet(token, "fleet__call", edge_id=EDGE, tool="list_instruments")
            return bool(reply["result"]["structuredContent"]["result"])
        return False

    wait_for(works, 30)
    assert state(chain) == "here"


@promise("fleet.inventory")
def test_a_broker_and_a_front_that_are_restarted_know_the_fleet_again(tmp_path: Path) -> None:
    with running(tmp_path) as chain:
        chain.nats.stop()
        chain.nats.start()
        wait_for(lambda: _answers(chain, 0) and _answers(chain, 1), 30)
        words = ("relay", "--config", str(chain.directory / "front.yaml"), "--port", "0")
        with process(tmp_path / "front.log", *words, reads_line=True) as ready:
            chain.front_ports.append(ready["port"])
            # Sooner than an edge speaks again: from what was kept.
            token = chain.fleet_token("fleet__list_edges")
            wait_for(lambda: chain.fleet(token, 2), 8)
            wait_for(lambda: state(chain, 2) == "here", 15)


def _answers(chain: Chain, front: int) -> bool:
    reply = chain.ask_fleet(
        chain.fleet_token(*TOOLS), "fleet__call", front, edge_id=EDGE, tool="list_instruments"
    )
    return reply.get("result", {}).get("isError") is not True


def test_no_fleet_token_is_in_any_log(chain: Chain) -> None:
    token = chain.fleet_token(*TOOLS)
    chain.ask_fleet(token, "fleet__list_edges")
    chain.ask_fleet(token, "fleet__call", edge_id=EDGE, tool="list_instruments")
    chain.ask_fleet(token[:-8] + "AAAAAAAA", "fleet__list_edges")
    for log in chain.directory.rglob("*.log"):
        text = log.read_text(errors="replace")
        assert token.rpartition(".")[2][:40] not in text, log
        assert token[:60] not in text, log
