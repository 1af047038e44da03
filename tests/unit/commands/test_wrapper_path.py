"""Tools of SDK wrappers on the one command path: who may, what is held back, what is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from edged.actions.action import Action
from edged.actions.caller import Caller, Claims, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.actions.tool import ToolCall
from edged.auth.permissions import Grant, Permissions
from edged.commands.preconditions import locked_out
from edged.commands.resolve import Resolver
from edged.commands.target import Catalog, Target
from edged.errors import EdgedError, ErrorCode, NotFound
from edged.operations.wrappers import WrapperOperations, wrapper_capabilities
from edged.store.lockouts import Lockout
from edged.tools.dispatcher import ToolDispatcher
from edged.tools.registry import ToolRegistry
from tests.bench.command_path import command_path
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakePool
from tests.bench.fake_worker import WorkerBench
from tests.promises import promise

DIRECT = Caller(route=Route.DIRECT)


class Recorded:
    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []

    async def intend(self, action: Action, target: Target) -> None:
        self.rows.append(("intent", target.instrument_id, target.command_name))

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        self.rows.append(("end", action.tool, outcome.status.value))

    def again(self, action: Action, target: Target) -> None: ...

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        self.rows.append(("refused", tool, error.code.value))


class House:
    def __init__(self, clock: DrivenClock, grant: Grant) -> None:
        self.bench = WorkerBench(clock)
        self.lockout: Lockout | None = None
        self.record = Recorded()
        pool: Any = FakePool()
        catalog = Catalog()
        # What the path and the tools' registry ask of the wrappers' own, with this one in it.
        self.wrappers: Any = SimpleNamespace(find=self.find, offered=lambda: (self.bench.executor,))
        permissions = Permissions(grant)
        path = command_path(
            pool,
            catalog,
            WrapperOperations(registry=self.wrappers, clock=clock).table(),
            clock,
            permissions=permissions,
            resolver=Resolver(
                pool=pool,
                catalog=catalog,
                find_spec=lambda stem, name: self.find(stem, name)[1],
            ),
            preconditions=(locked_out(lambda _instrument: None, lambda _id: self.lockout),),
            record=self.record,
        )
        self.registry = ToolRegistry(
            static=(), pool=pool, catalog=catalog, wrappers=self.wrappers.offered
        )
        self.dispatcher = ToolDispatcher(
            registry=self.registry,
            path=path,
            permissions=permissions,
            on_first_call=None,
            keep=lambda _caller: None,
        )

    def find(self, stem: str, name: str) -> Any:
        for spec in self.bench.executor.specs:
            if (stem, name) == ("toy", spec.name):
                return self.bench.executor, spec
        raise NotFound("no such tool", code=ErrorCode.UNKNOWN_COMMAND)

    async def call(self, tool: str, caller: Caller = DIRECT, **arguments: Any) -> Outcome:
        return await self.dispatcher.call(
            ToolCall(name=tool, arguments=arguments, caller=caller, action_id="a")
        )


@pytest.fixture
async def house(driven_clock: DrivenClock, request: pytest.FixtureRequest) -> AsyncIterator[House]:
    made = House(driven_clock, getattr(request, "param", Grant(tools=None, danger=True)))
    made.bench.executor.start()
    await made.bench.executor.looked.wait()
    made.registry.refresh()
    yield made
    await made.bench.executor.stop()


def relay(*tools: str, danger: bool) -> Caller:
    claims = Claims(
        iss="i",
        aud="edge:e",
        sub="user:u",
        exp=1,
        iat=0,
        edge_id="e",
        tools_allow=frozenset(tools),
        danger_allow=danger,
    )
    return Caller(route=Route.RELAY, claims=claims)


def code(outcome: Outcome) -> str:
    return outcome.error.code.value if outcome.error else ""


@promise("sdk.path")
async def test_a_write_is_intended_run_and_ended_and_a_read_has_no_intent(house: House) -> None:
    house.bench.answers = [{"value": None}, {"value": 1.5}]
    assert (await house.call("toy__set", volts=5)).data["success"] is True
    read = await house.call("toy__read")
    assert (read.data["data"], read.data["unit"]) == (1.5, "V")
    assert house.bench.asked == [("set", {"volts": 5}), ("read", {})]
    assert house.record.rows == [
        ("intent", "sdk:toy", "set"),
        ("end", "toy__set", "ok"),
        ("end", "toy__read", "ok"),
    ]


@pytest.mark.parametrize(
    "arguments", [{}, {"volts": 31}, {"volts": True}, {"volts": float("nan")}, {"watts": 1}]
)
async def test_arguments_that_do_not_fit_reach_no_worker(house: House, arguments: Any) -> None:
    outcome = await house.call("toy__set", **arguments)
    assert (outcome.status, code(outcome)) == (OutcomeStatus.REFUSED, "bad_arguments")
    assert house.bench.asked == []


@promise("sdk.allowed")
async def test_a_token_bounds_tools_and_danger(house: House) -> None:
    token = relay("toy__set", "toy__arm", danger=False)
    assert code(await house.call("toy__set", token, volts=1)) == ""
    assert code(await house.call("toy__read", token)) == "not_allowed"
    assert code(await house.call("toy__arm", token)) == "dangerous"
    assert code(await house.call("toy__arm", relay("toy__arm", danger=True))) == ""
    assert [method for method, _ in house.bench.asked] == ["set", "arm"]


@promise("sdk.allowed")
@pytest.mark.parametrize(
    "house", [Grant(tools=frozenset({"toy__arm"}), danger=False)], indirect=True
)
async def test_the_owner_bounds_the_direct_route_as_well(house: House) -> None:
    assert code(await house.call("toy__arm")) == "dangerous"
    assert code(await house.call("toy__read")) == "not_allowed"
    assert house.bench.asked == []


@promise("sdk.lockout")
async def test_a_lockout_refuses_writes_and_lets_reads_and_safe_tools_pass(house: House) -> None:
    house.lockout = Lockout(
        instrument_id="sdk:toy", unit="", reason="hands inside", by="Ada", since_ms=1
    )
    refused = await house.call("toy__set", volts=1)
    assert code(refused) == "locked_out"
    assert "sdk:toy is locked out by Ada" in str(refused.error)
    house.bench.answers = [{"value": 1.0}, {"value": None}]
    assert code(await house.call("toy__read")) == ""
    assert code(await house.call("toy__off")) == ""


async def test_a_failure_has_the_shape_of_a_commands_result(house: House) -> None:
    house.bench.answers = [{"error": {"kind": "error", "type": "ValueError", "message": "no"}}]
    outcome = await house.call("toy__set", volts=1)
    assert outcome.status is OutcomeStatus.FAILED
    assert outcome.data["success"] is False
    assert outcome.data["error"]["message"] == "toy.set failed: ValueError: no"


async def test_the_registry_lists_its_tools_and_the_way_to_stop_them(house: House) -> None:
    tools = {tool.name: tool for tool in house.registry.tools()}
    assert set(tools) == {"toy__read", "toy__set", "toy__arm", "toy__off"}
    assert tools["toy__read"].annotations.read_only
    assert tools["toy__arm"].annotations.destructive
    assert not tools["toy__off"].annotations.destructive
    assert "Answers in V." in tools["toy__read"].description
    generation = house.registry.generation
    house.registry.refresh()
    assert house.registry.generation == generation, "nothing has changed"


async def test_capabilities_tell_of_wrappers_in_the_form_of_instruments(house: House) -> None:
    told = wrapper_capabilities(house.wrappers, lambda _spec: {}, house.registry.names_of)
    assert told[0]["instrument_id"] == "sdk:toy"
    command = told[0]["commands"][0]
    assert (command["tool"], command["unit"], command["is_query"]) == ("toy__read", "V", True)


@promise("names.fit")
async def test_capabilities_name_a_tool_as_it_is_listed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    stem = "a_wrapper_with_a_name_as_long_as_forty_eight_can"
    specs = tuple(replace(spec, wrapper=stem) for spec in house.bench.executor.specs)
    monkeypatch.setattr(house.bench.executor, "specs", specs)
    monkeypatch.setattr(house.bench.executor, "stem", stem)
    registry = ToolRegistry(
        static=(),
        pool=FakePool(),  # type: ignore[arg-type]
        catalog=Catalog(),
        wrappers=house.wrappers.offered,
    )
    told = wrapper_capabilities(house.wrappers, lambda _spec: {}, registry.names_of)
    listed = {tool.name for tool in registry.tools()}
    assert {command["tool"] for command in told[0]["commands"]} == listed
    assert max(map(len, listed)) <= 52
