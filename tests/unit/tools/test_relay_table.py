"""Every tool, however a token names it, with and without danger (docs/promises.md section 9)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from edged.actions.action import Action, StartStream, StartSweep, StopAll
from edged.actions.caller import Caller, Claims, Route
from edged.actions.outcome import Done, Outcome
from edged.actions.tool import Tool, ToolCall
from edged.auth.permissions import Permissions
from edged.commands.target import Catalog, Target
from edged.errors import EdgedError, ErrorCode
from edged.operations.streams import FetchWaveform, StopStream
from edged.operations.sweeps import ReadSweep, StopSweep
from edged.operations.table import OPERATIONS, static_tools
from edged.runs.registry import Late, Registry
from edged.runs.sequences.registry import Sequences
from edged.tools.dispatcher import ToolDispatcher
from edged.tools.registry import ToolRegistry
from tests.bench.command_path import bench_operations, command_operations, command_path
from tests.bench.context import NoNotes, NoPlan, bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakeInstrument, FakePool, toy_profile
from tests.bench.sweep_bench import Notebook, Recorder
from tests.promises import promise

SCOPED = {
    "execute_command": "command_name",
    "start_sweep": "command_name",
    "start_stream": "command_name",
    "execute_sequence": "sequence_name",
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "execute_command": {"parameters": {}},
    "execute_sequence": {"parameters": {"voltage": 5}},
    "send_scpi": {"scpi_command": ":MEAS?"},
    "start_sweep": {"target_value": 10, "sweep_rate": 1},
    "start_stream": {"interval_ms": 100, "duration_ms": 100},
}
OF_COMMANDS: dict[str, dict[str, Any]] = {
    "set_voltage": {"voltage": 5},
    "ramp_voltage": {"voltage": 1},
    "point": {"voltage": 5},
}
DANGEROUS = {"output_on", "arm_and_read", "point"}
DONE = {None, ErrorCode.REQUIRES_SWEEP}
COMPILED = static_tools()
STATIC = {tool.name for tool in COMPILED}


class NoRecord:
    def __init__(self) -> None:
        self.refused: list[tuple[str, str, ErrorCode]] = []

    async def intend(self, action: Action, target: Target) -> None: ...

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None: ...

    def again(self, action: Action, target: Target) -> None: ...

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        self.refused.append((caller.subject, tool, error.code))


async def _nothing(_action: Action, _target: Target, _began: float) -> Done:
    return Done(data={})


# Long work does nothing here; a call that comes as far as that has been judged.
LONG_WORK = {
    row.action: replace(row, run=_nothing)
    for row in OPERATIONS
    if row.action
    in {StartSweep, ReadSweep, StopSweep, StartStream, StopStream, StopAll, FetchWaveform}
}


class NoBuses:
    async def scan(self) -> list[FakeInstrument]:
        return []


class Bench:
    """Two units of one profile, so that dynamic names have a suffix and an unsuffixed form."""

    def __init__(self) -> None:
        self.units = [
            FakeInstrument(id=f"TCPIP::10.0.0.{n}::SOCKET", profile=toy_profile()) for n in (1, 2)
        ]
        for unit in self.units:
            unit.answers.update({":VOLT?": "5", ":MEAS?": "5", ":MEAS:ON?": "1"})
        pool, catalog, clock = FakePool(*self.units), Catalog(), DrivenClock()
        count = itertools.count()
        self.record = NoRecord()
        runs = Registry(
            bench_of(
                clock,
                store={"journal": Notebook()},
                pool=pool,
                new_id=lambda: f"n{next(count)}",
                perform=lambda action: self.path.perform(action),
                precheck=lambda action: self.path.precheck(action),
            ),
            recorder=Recorder(),
            notes=NoNotes(),
        )
        book = Sequences(runs, new_plan=NoPlan)
        bench = bench_operations(pool, catalog, discovery=NoBuses())
        commands = command_operations(
            clock,
            sequences=Late.of(runs, book),
        )
        permissions = Permissions()
        self.path = command_path(
            pool,
            catalog,
            {**bench.table(), **commands.table(), **LONG_WORK},
            clock,
            permissions=permissions,
            record=self.record,
            present_tool=lambda instrument_id, plain: self.registry.present_name(
                instrument_id, plain
            ),
        )
        self.registry = ToolRegistry(static=COMPILED, pool=pool, catalog=catalog)  # type: ignore[arg-type]
        self.dispatcher = ToolDispatcher(
            registry=self.registry,
            path=self.path,
            permissions=permissions,
            on_first_call=None,
            keep=lambda _caller: None,
        )

    @property
    def sent(self) -> list[str]:
        return [text for unit in self.units for text in unit.sent]

    async def call(self, caller: Caller, name: str, arguments: dict[str, Any]) -> ErrorCode | None:
        outcome = await self.dispatcher.call(
            ToolCall(name=name, arguments=arguments, caller=caller, action_id="a1")
        )
        return outcome.error.code if outcome.error else None


def token(*tools: str, danger: bool = False) -> Caller:
    claims = Claims(
        iss="i",
        aud="edge:e",
        sub="user:ada",
        exp=2,
        iat=1,
        edge_id="e",
        tools_allow=frozenset(tools),
        danger_allow=danger,
    )
    return Caller(route=Route.RELAY, subject="user:ada", claims=claims)


def calls(tool: Tool, bench: Bench) -> list[tuple[dict[str, Any], str, bool]]:
    """Calls of a tool: arguments, scope, whether what is underneath is dangerous."""
    unit = bench.units[0].id
    if tool.instrument_id:
        name = tool.plain_name.rsplit("__", 1)[1]
        return [(OF_COMMANDS.get(name, {}), "", name in DANGEROUS)]
    scope_argument = SCOPED.get(tool.name)
    given = ARGUMENTS.get(tool.name, {})
    if scope_argument is None:
        is_raw = tool.name == "send_scpi"
        return [({**given, "instrument_id": unit} if is_raw else given, "", is_raw)]
    scopes = {
        "execute_sequence": ["point"],
        "start_sweep": ["ramp_voltage"],
        "start_stream": ["measure", "arm_and_read"],
    }.get(tool.name, ["set_voltage", "measure", "output_on", "output_off", "arm_and_read"])
    return [
        (
            {
                **given,
                "instrument_id": unit,
                scope_argument: scope,
                **({"parameters": OF_COMMANDS[scope]} if scope == "set_voltage" else {}),
            },
            scope,
            scope in DANGEROUS,
        )
        for scope in scopes
    ]


def entries(tool: Tool, scope: str) -> dict[str, tuple[str, ...]]:
    """How a token may name a tool: what it is called here → its tools_allow."""
    others = tuple(f"{name}:{scope or 'x'}" for name in (*SCOPED, "send_scpi") if name != tool.name)
    named = {
        "bare": (tool.name,),
        "by scope": (f"{tool.name}:{scope or 'x'}",),
        "other scope": (f"{tool.name}:something_else",),
        "absent": (*others, f"{tool.name}x", tool.name[:-1], tool.name.upper()),
        "nothing": (),
    }
    if tool.instrument_id:
        named["unsuffixed"] = (tool.plain_name,)
        named["the other unit's"] = (_of_the_other_unit(tool.name),)
    return named


def _of_the_other_unit(name: str) -> str:
    assert (".1SOCKET" in name) is not (".2SOCKET" in name)
    first = ".1SOCKET" in name
    return name.replace(*(".1SOCKET", ".2SOCKET") if first else (".2SOCKET", ".1SOCKET"))


def is_run_here(tool: Tool) -> bool:
    """Long work is other rooms' matter; of its tools only who may call them is tried."""
    return bool(tool.instrument_id) or tool.name in {"execute_command", "execute_sequence"}


def expected(kind: str, scope: str, is_dangerous: bool, danger: bool) -> ErrorCode | None:
    allowed = kind in {"bare", "unsuffixed"} or (kind == "by scope" and bool(scope))
    if not allowed:
        return ErrorCode.NOT_ALLOWED
    return ErrorCode.DANGEROUS if is_dangerous and not danger else None


@promise("auth.every-tool")
async def test_a_token_opens_exactly_what_it_names_for_every_tool_and_never_danger_unasked() -> (
    None
):
    bench = Bench()
    cells = 0
    for tool in bench.registry.tools():
        for arguments, scope, is_dangerous in calls(tool, bench):
            for kind, allowed in entries(tool, scope).items():
                for danger in (True, False):
                    want = expected(kind, scope, is_dangerous, danger)
                    before = len(bench.sent)
                    code = await bench.call(token(*allowed, danger=danger), tool.name, arguments)
                    cell = (tool.name, scope, kind, danger)
                    cells += 1
                    if want is not None:
                        assert code is want, cell
                        assert len(bench.sent) == before, cell
                    else:
                        assert code not in {ErrorCode.NOT_ALLOWED, ErrorCode.DANGEROUS}, cell
                        assert not is_run_here(tool) or code in DONE, cell
    assert cells > 200


@pytest.mark.parametrize("tool", sorted(STATIC & SCOPED.keys()))
@pytest.mark.parametrize("value", [..., "", None, 7, ["set_voltage"], "set_voltage "])
async def test_a_scope_that_is_missing_or_odd_is_not_allowed(tool: str, value: Any) -> None:
    bench = Bench()
    arguments = {**ARGUMENTS[tool], "instrument_id": bench.units[0].id}
    if value is not ...:
        arguments[SCOPED[tool]] = value
    allowed = (f"{tool}:set_voltage", f"{tool}:point", f"{tool}:None", f"{tool}:7")
    assert await bench.call(token(*allowed, danger=True), tool, arguments) is ErrorCode.NOT_ALLOWED
    assert bench.sent == []


async def test_a_token_for_a_sequence_is_enough_for_its_steps_and_for_nothing_else() -> None:
    bench = Bench()
    unit = bench.units[0].id
    caller = token("execute_sequence:point", danger=True)
    arguments = {"instrument_id": unit, "sequence_name": "point", "parameters": {"voltage": 5}}
    assert await bench.call(caller, "execute_sequence", arguments) is None
    assert ":OUTP ON" in bench.sent
    assert ":OUTP OFF" in bench.sent
    step = {"instrument_id": unit, "command_name": "set_voltage", "parameters": {"voltage": 1}}
    assert await bench.call(caller, "execute_command", step) is ErrorCode.NOT_ALLOWED


@promise("auth.unknown-tool")
async def test_on_the_relay_route_a_name_that_does_not_exist_looks_like_one_not_allowed() -> None:
    bench = Bench()
    assert await bench.call(token("get_status"), "no_such_tool", {}) is ErrorCode.NOT_ALLOWED
    assert await bench.call(token("no_such_tool"), "no_such_tool", {}) is ErrorCode.UNKNOWN_TOOL
    plain = "toy_supply__set_voltage"
    # The unsuffixed name is nobody's here; that it was one must not be told either.
    assert await bench.call(token("get_status"), plain, {}) is ErrorCode.NOT_ALLOWED
    direct = Caller(route=Route.DIRECT)
    assert await bench.call(direct, "no_such_tool", {}) is ErrorCode.UNKNOWN_TOOL
    assert bench.record.refused[0] == ("user:ada", "no_such_tool", ErrorCode.NOT_ALLOWED)


async def test_a_tool_called_in_the_other_spelling_is_judged_by_its_present_name() -> None:
    bench = Bench()
    tool = next(tool for tool in bench.registry.tools() if "." in tool.name)
    spelled = tool.name.replace(".", "_")
    assert await bench.call(token("get_status"), spelled, {}) is ErrorCode.NOT_ALLOWED
    code = await bench.call(token(tool.name, danger=True), spelled, {"voltage": 1})
    assert code is not ErrorCode.NOT_ALLOWED


MEASURES = {
    "bare": ("start_sweep", "execute_command"),
    "by scope": ("start_sweep", "execute_command:{name}"),
    "other scope": ("start_sweep:ramp_voltage", "execute_command:set_voltage"),
    "absent": ("start_sweep", "start_sweep:{name}", "start_stream:{name}", "{name}"),
    "own tool": ("start_sweep", "toy_supply__.1SOCKET__{name}"),
    "unsuffixed": ("start_sweep:ramp_voltage", "toy_supply__{name}"),
    "the other unit's": ("start_sweep", "toy_supply__.2SOCKET__{name}"),
}


@promise("auth.measure")
@pytest.mark.parametrize("danger", [True, False])
@pytest.mark.parametrize("name", ["measure", "arm_and_read"])
@pytest.mark.parametrize("kind", MEASURES)
async def test_each_command_in_a_sweep_s_measure_must_be_allowed_by_itself(
    kind: str, name: str, danger: bool
) -> None:
    bench = Bench()
    unit = bench.units[0].id
    arguments = {
        **ARGUMENTS["start_sweep"],
        "instrument_id": unit,
        "command_name": "ramp_voltage",
        "measure": [{"instrument_id": unit, "command_name": name}],
    }
    caller = token(*(entry.format(name=name) for entry in MEASURES[kind]), danger=danger)
    code = await bench.call(caller, "start_sweep", arguments)
    if kind in {"other scope", "absent", "the other unit's"}:
        assert code is ErrorCode.NOT_ALLOWED
    elif name in DANGEROUS and not danger:
        assert code is ErrorCode.DANGEROUS
    else:
        assert code not in {ErrorCode.NOT_ALLOWED, ErrorCode.DANGEROUS}
    assert bench.sent == []
