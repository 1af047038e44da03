"""bench__history: who may see what, and what a row tells."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edged.actions.action import NamedAction
from edged.actions.caller import Caller, Claims, Route
from edged.auth.permissions import Grant, Permissions
from edged.commands.operation import Operation
from edged.commands.target import Catalog, Target
from edged.errors import NotFound
from edged.operations.history import History
from edged.operations.table import bench_tools, static_tools
from edged.store.audit.row import Entry, Phase
from edged.tools.registry import ToolRegistry
from tests.bench.context import bench_of
from tests.bench.fake_instruments import FakeInstrument, FakePool, toy_profile
from tests.bench.store_bench import StoreBench, running_store
from tests.promises import promise

PSU = "TCPIP::192.168.1.10::5025::SOCKET"
POOL: Any = FakePool(FakeInstrument(id=PSU, profile=toy_profile(), alias="psu1"))
DIRECT = Caller(route=Route.DIRECT, remote="127.0.0.1")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[StoreBench]:
    async with running_store(tmp_path / "edged.db") as running:
        yield running


def registry_of(pool: Any, *, is_strict: bool = False) -> ToolRegistry:
    return ToolRegistry(
        static=static_tools(),
        bench=bench_tools(),
        pool=pool,
        catalog=Catalog(),
        is_strict=is_strict,
    )


def by_relay(*tools: str, sub: str = "alice") -> Caller:
    claims = Claims(
        iss="i",
        aud="a",
        sub=sub,
        exp=1,
        iat=0,
        edge_id="e",
        tools_allow=frozenset(tools),
        danger_allow=False,
    )
    return Caller(
        route=Route.RELAY, remote="10.0.0.7", subject=sub, claims=claims, client="claude 4"
    )


async def asked(
    store: StoreBench, caller: Caller, *, permissions: Permissions | None = None, **arguments: Any
) -> Any:
    history = History(
        bench=bench_of(store.clock, store={"audit": store.audit}, pool=POOL),
        permissions=permissions or Permissions(),
        plain_name=registry_of(POOL).plain_name,
    )
    operation: Operation = history.table()["bench__history"]
    action = NamedAction(
        operation="bench__history",
        tool="bench__history",
        caller=caller,
        action_id="h",
        arguments=arguments,
    )
    done: Any = await operation.run(action, Target(), 0.0)  # type: ignore[misc]
    return done.data


def note(
    store: StoreBench, action_id: str, tool: str, caller: Caller = DIRECT, **more: Any
) -> None:
    store.audit.note(
        Entry(
            time_ms=store.clock.wall_ms(),
            phase=Phase.END,
            tool=tool,
            route=caller.route.value,
            remote=caller.remote,
            subject=caller.subject,
            client=caller.client,
            action_id=action_id,
            outcome="ok",
            **more,
        )
    )


@promise("bench.history-seen-by")
async def test_a_direct_caller_sees_what_it_may_do_and_one_of_the_relay_what_it_asked_for(
    store: StoreBench,
) -> None:
    note(store, "a1", "get_status")
    note(store, "a2", "execute_command", scope="set_voltage")
    note(store, "a3", "execute_command", scope="measure")
    note(store, "a4", "toy_supply__measure")
    note(store, "a5", "lockout.set")
    note(store, "a6", "send_scpi", by_relay())
    note(store, "a7", "send_scpi", by_relay(sub="bob"))

    async def seen(caller: Caller, permissions: Permissions | None = None) -> list[str]:
        told = await asked(store, caller, permissions=permissions)
        return [row["tool"] for row in told["rows"]]

    everything = [
        "send_scpi", "send_scpi", "lockout.set", "toy_supply__measure", "execute_command",
        "execute_command", "get_status",
    ]  # fmt: skip
    assert await seen(DIRECT) == everything
    assert await seen(Caller(route=Route.RPC)) == everything
    assert await seen(by_relay("bench__history")) == ["send_scpi"]
    assert await seen(by_relay("execute_command:measure", "send_scpi", sub="eve")) == []
    assert await seen(Caller(route=Route.RELAY)) == []
    narrow = Permissions(Grant(tools=frozenset({"get_status"}), danger=False))
    assert await seen(DIRECT, narrow) == ["get_status"]


async def test_a_row_says_who_what_and_what_came_of_it(store: StoreBench) -> None:
    arguments = {"instrument_id": "psu1", "command_name": "set_voltage", "parameters": {"v": 5}}
    note(
        store,
        "a1",
        "execute_command",
        by_relay(),
        instrument=PSU,
        command="set_voltage",
        arguments=arguments,
        scpi=(":VOLT 5", ":VOLT?"),
    )
    note(store, "a2", "settings", Caller.part("recording run-7"), error="e" * 900)
    note(store, "a3", "start_sweep", arguments={"parameters": {"v": 5}, "target_value": 1})
    note(store, "a4", "send_scpi", arguments={"scpi_command": "x" * 3_000})
    long, sweep, own, first = (await asked(store, DIRECT))["rows"]
    assert first.pop("time_ms") > 0
    assert first == {
        "who": "claude 4 for alice at 10.0.0.7",
        "tool": "execute_command",
        "instrument_id": PSU,
        "command": "set_voltage",
        "parameters": {"v": 5},
        "scpi": ":VOLT 5\n:VOLT?",
        "outcome": "ok",
        "error": None,
    }
    assert own["who"] == "recording run-7"
    assert len(own["error"]) == 400
    assert sweep["parameters"] == {"parameters": {"v": 5}, "target_value": 1}
    assert len(json.dumps(long)) < 1_000


async def test_an_alias_means_its_instrument_and_old_ids_still_count(store: StoreBench) -> None:
    note(store, "a1", "x", instrument=PSU)
    note(store, "a2", "y", instrument="GONE::1")
    for name, tools in (("psu1", ["x"]), (PSU, ["x"]), ("GONE::1", ["y"]), ("nothing", [])):
        told = await asked(store, DIRECT, instrument_id=name)
        assert [row["tool"] for row in told["rows"]] == tools


@pytest.mark.parametrize(("since_s", "found"), [(0, 0), (60, 1), (10**9, 2), (10**18, 2)])
async def test_it_looks_back_as_far_as_it_is_asked(
    store: StoreBench, since_s: int, found: int
) -> None:
    now_ms = store.clock.wall_ms()
    old = Entry(time_ms=now_ms - 3_600_000, phase=Phase.END, tool="old", action_id="a0")
    store.audit.note(old)
    store.audit.note(old._replace(time_ms=now_ms - 1_000, action_id="a1"))
    told = await asked(store, DIRECT, since_s=since_s)
    assert len(told["rows"]) == found


@promise("bench.without-instruments")
@pytest.mark.parametrize("is_strict", [False, True])
def test_bench_tools_can_be_called_always_and_are_listed_beside_instruments(
    *, is_strict: bool
) -> None:
    bench = {tool.name for tool in bench_tools()}
    for pool in (FakePool(), POOL):
        registry = registry_of(pool, is_strict=is_strict)
        listed = {tool.name for tool in registry.tools()}
        assert listed & bench == (bench if pool is POOL else set())
        alone = {tool.name for tool in bench_tools() if tool.answers_alone}
        assert set(registry.unlisted_names()) == (set() if pool is POOL else alone)
        for name in alone:
            assert registry.find(name).name == name
    with pytest.raises(NotFound):
        registry.find("bench__nothing")
