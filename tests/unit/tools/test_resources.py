"""Resources by permission: each kind with the tool that tells the like, and without it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from edged.actions.action import Action
from edged.actions.caller import Caller, Claims, Route
from edged.actions.outcome import Done, Outcome
from edged.auth.permissions import Permissions
from edged.commands.operation import Operation
from edged.commands.target import Catalog, Target
from edged.errors import Conflict, EdgedError, ErrorCode, Invalid, NotFound, Refused
from edged.protocol.messages import CompletionParams
from edged.runs.recordings.reader import check_own_run
from edged.tools.resources import (
    COMPLETIONS_AT_ONCE,
    KINDS,
    Resources,
    ResourceSources,
    find_kind,
    uri_of,
)
from tests.bench.command_path import command_path
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakeInstrument, FakePool, toy_profile
from tests.promises import promise

UNIT = "TCPIP::10.0.0.1::SOCKET"
VALUES = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "profile_key": "toy",
    "sweep_id": "sweep-1",
    "stream_id": "mcp-1",
    "run_id": "sweep-1",
    "point_index": "0",
    "tool": "camera__shot",
    "picture_id": "picture-1",
    "experiment_name": "warm_up",
}
PERMITS = {
    "status": "get_status",
    "instruments": "list_instruments",
    "instrument": "get_capabilities",
    "command": "get_capabilities",
    "profiles": "list_profiles",
    "profile": "get_capabilities",
    "sweep": "get_sweep_status",
    "stream": "get_status",
    "run": "resources/read:runs",
    "waveform": "fetch_waveform",
    "picture": "camera__shot:set_voltage",
    "experiment_grammar": "bench__check_experiment",
    "experiment_schema": "bench__check_experiment",
    "experiment": "bench__check_experiment",
    "bench_app": "get_status",
    "run_app": "get_status",
}
UNLISTED = {"command", "experiment", "bench_app", "run_app"}
DIRECT = Caller(route=Route.DIRECT)


class Record:
    """Implements the seam to the audit."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []

    async def intend(self, action: Action, target: Target) -> None: ...

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        self.rows.append((action.tool, action.arguments["uri"], outcome.status.value))

    def again(self, action: Action, target: Target) -> None: ...

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        self.rows.append((tool, "", error.code.value))


class Library:
    """Stands for the rooms that are only listed."""

    def __init__(self) -> None:
        self.runs = [{"run_id": "sweep-1", "kind": "sweep", "started": "2026-11-21T12:00:00"}]

    async def read(self, function: Any, *arguments: Any) -> list[dict[str, Any]]:
        if function is check_own_run and arguments != ("sweep-1", "user:ada"):
            raise NotFound("It is somebody else's.", code=ErrorCode.UNKNOWN_RUN)
        return self.runs

    async def written(self, _run_id: str) -> None: ...

    def active(self) -> tuple[dict[str, Any], ...]:
        return ({"sweep_id": "sweep-1", "status": "running"},)

    listed = active

    def running(self) -> list[dict[str, Any]]:
        return [{"stream_id": "mcp-1", "status": "running"}]

    def newest(self, _most: int) -> list[tuple[str, int, Any]]:
        waveform = SimpleNamespace(length=2, samples=b"12345678")
        return [("mcp-1", 1, waveform), ("mcp-1", 0, waveform)]

    def newest_pictures(self, _most: int) -> list[tuple[str, Any]]:
        picture = SimpleNamespace(
            tool="camera__shot", command_name="set_voltage", mime="image/png", samples=b"123"
        )
        return [("picture-1", picture)]


def token(*tools: str) -> Caller:
    claims = Claims(
        iss="i",
        aud="edge:e",
        sub="user:ada",
        exp=2,
        iat=1,
        edge_id="e",
        tools_allow=frozenset(tools),
        danger_allow=True,
    )
    return Caller(route=Route.RELAY, subject="user:ada", claims=claims)


class Bench:
    """Resources over a command path whose executors only say that they ran."""

    def __init__(self) -> None:
        unit = FakeInstrument(id=UNIT, profile=toy_profile(), alias="psu1")
        pool: Any = FakePool(unit)
        self.record, self.clock = Record(), DrivenClock()
        self.ran: list[Action] = []
        permissions = Permissions()
        library: Any = Library()

        def run(action: Action, _target: Target, _began: float) -> Done:
            self.ran.append(action)
            commands = [{"name": "set_voltage"}]
            if find_kind(action.arguments["uri"])[0].name in ("instrument", "command"):
                return Done(data=[{"instrument_id": UNIT, "commands": commands}])
            blob = {"y_data": "AAA=", "image": "AAA=", "mime": "image/png"}
            return Done(data={**blob, "y_unit": "V", "encoding": "base64"})

        async def run_later(action: Action, _target: Target, _began: float) -> Done:
            return run(action, _target, _began)

        actions = {action.row: action for action in map(self._action, KINDS)}
        self.resources = Resources(
            sources=ResourceSources(
                pool=pool,
                profiles=lambda: {"toy": toy_profile(), "toy2": toy_profile()},
                sweeps=library,
                streams=library,
                runs=library,
                waveforms=library,
            ),
            path=command_path(
                pool,
                Catalog(),
                {
                    row: Operation(
                        action=type(action), run=run if action.answers_at_once else run_later
                    )
                    for row, action in actions.items()
                },
                self.clock,
                permissions=permissions,
                record=self.record,
            ),
            permissions=permissions,
            news=cast(Any, None),
            clock=self.clock,
        )

    @staticmethod
    def _action(name: str) -> Action:
        kind = KINDS[name]
        asked: Any = SimpleNamespace(uri="", values=VALUES, caller=DIRECT, action_id="a")
        return kind.action(asked)


def uri(name: str) -> str:
    return uri_of(name, **{key: VALUES[key] for key in KINDS[name].variables})


@promise("mcp.resource-claims")
@pytest.mark.parametrize("name", KINDS)
async def test_a_token_reads_what_its_tools_would_tell_and_nothing_else(name: str) -> None:
    bench, allowed = Bench(), PERMITS[name]
    (content,) = await bench.resources.read(uri(name), token(allowed), "a1")
    assert content.uri == uri(name)
    assert bench.record.rows == [(allowed.split(":")[0], uri(name), "ok")]
    others = token(*(set(PERMITS.values()) - {allowed}), f"{allowed}x", "execute_command")
    for caller in (others, token(), token(f"{allowed}:x")):
        with pytest.raises(Refused) as refused:
            await bench.resources.read(uri(name), caller, "a2")
        assert refused.value.code is ErrorCode.NOT_ALLOWED
        with pytest.raises(Refused):
            await bench.resources.watch_key(uri(name), caller)
        assert "psu1" not in str(refused.value)
    assert len(bench.ran) == 1
    assert [row[2] for row in bench.record.rows[1:]] == ["refused", "not_allowed"] * 3


@promise("mcp.resource-claims")
async def test_the_list_tells_a_token_only_what_it_may_read() -> None:
    bench = Bench()
    everything = {find_kind(e.uri)[0].name for e in await bench.resources.entries(DIRECT)}
    assert everything == set(KINDS) - UNLISTED
    assert await bench.resources.entries(token("execute_command")) == []
    for name, allowed in PERMITS.items():
        listed = await bench.resources.entries(token(allowed))
        kinds = {find_kind(entry.uri)[0].name for entry in listed}
        assert kinds == {n for n, a in PERMITS.items() if a == allowed} - UNLISTED, name


async def test_every_listed_uri_is_found_again_and_says_its_size_where_it_is_known() -> None:
    listed = await Bench().resources.entries(DIRECT)
    assert len({entry.uri for entry in listed}) == len(listed)
    assert [e.size for e in listed if "waveforms" in e.uri] == [8, 8]
    assert [e.title for e in listed if "instruments/" in e.uri] == ["psu1: Toy S1"]


@pytest.mark.parametrize(
    "name",
    ["USB0::0x1AB1::0x0E11::DP8C::INSTR", "ASRL/dev/ttyUSB0::INSTR", "bench/psu 1%", "a?b#c"],
)
def test_any_instrument_id_survives_the_way_through_a_uri(name: str) -> None:
    made = uri_of("instrument", instrument_id=name)
    assert find_kind(made) == (KINDS["instrument"], {"instrument_id": name})
    assert all(character not in made for character in " ?#")


@pytest.mark.parametrize(
    "name",
    ["", "edged://", "edged://instruments/", "http://status", "edged://status/x", "status",
     "edged://runs", "edged://waveforms/mcp-1", "edged://instruments//commands/x", "../status"],
)  # fmt: skip
async def test_a_uri_of_no_kind_leads_to_nothing_and_is_in_the_audit(name: str) -> None:
    bench = Bench()
    if name == "edged://instruments/":
        assert find_kind(name)[0].name == "instruments"
        return
    with pytest.raises(NotFound):
        await bench.resources.read(name, DIRECT, "a1")
    assert bench.record.rows == [("resources/read", "", "unknown_resource")]


async def test_a_command_that_is_not_there_is_not_found() -> None:
    missing = uri_of("command", instrument_id="psu1", command_name="fly")
    with pytest.raises(NotFound, match="no command 'fly'"):
        await Bench().resources.read(missing, DIRECT, "a1")


async def test_a_resource_is_watched_by_id_however_the_instrument_is_named() -> None:
    resources = Bench().resources
    by_id = uri_of("instrument", instrument_id=UNIT)
    assert await resources.watch_key("edged://instruments/psu1", DIRECT) == by_id
    with pytest.raises(NotFound):
        await resources.watch_key("edged://instruments/psu9", DIRECT)


def asked(kind: str, argument: str, value: str = "", **known: str) -> CompletionParams:
    template = KINDS[kind].template
    return CompletionParams(
        kind="ref/resource", ref=template, argument=argument, value=value, known=known
    )


async def test_names_are_completed_the_best_first() -> None:
    complete = Bench().resources.complete
    assert list(await complete(asked("instrument", "instrument_id", "ps"), DIRECT)) == ["psu1"]
    assert list(await complete(asked("instrument", "instrument_id"), DIRECT)) == ["psu1", UNIT]
    found = await complete(asked("command", "command_name", "volt"), DIRECT)
    assert set(found) >= {"set_voltage", "ramp_voltage"}
    found = await complete(asked("command", "command_name", "SET", instrument_id="psu1"), DIRECT)
    assert found[0] == "set_voltage"
    nowhere = asked("command", "command_name", "set", instrument_id="psu9")
    assert list(await complete(nowhere, DIRECT)) == []
    assert list(await complete(asked("profile", "profile_key", "toy"), DIRECT)) == ["toy", "toy2"]
    assert list(await complete(asked("sweep", "sweep_id"), DIRECT)) == ["sweep-1"]
    assert list(await complete(asked("run", "run_id", "sw"), DIRECT)) == ["sweep-1"]
    assert list(await complete(asked("stream", "stream_id"), DIRECT)) == ["mcp-1"]
    assert list(await complete(asked("picture", "tool"), DIRECT)) == ["camera__shot"]
    assert list(await complete(asked("picture", "command_name"), DIRECT)) == ["set_voltage"]
    assert list(await complete(asked("picture", "picture_id"), DIRECT)) == ["picture-1"]
    waveform = asked("waveform", "point_index", stream_id="mcp-1")
    assert list(await complete(waveform, DIRECT)) == ["1", "0"]
    assert list(await complete(asked("waveform", "stream_id"), DIRECT)) == ["mcp-1"]


async def test_what_cannot_be_completed_is_said() -> None:
    complete = Bench().resources.complete
    with pytest.raises(Invalid, match="no template"):
        await complete(CompletionParams(kind="ref/prompt", ref="x", argument="a", value=""), DIRECT)
    with pytest.raises(Invalid, match="no variable"):
        await complete(asked("instrument", "colour"), DIRECT)


@promise("mcp.resource-claims")
async def test_names_are_not_completed_for_who_may_not_read_them() -> None:
    bench = Bench()
    with pytest.raises(Refused):
        await bench.resources.complete(asked("instrument", "instrument_id"), token("get_status"))
    assert bench.record.rows == [("get_capabilities", "", "not_allowed")]


async def test_completions_are_bounded_and_come_back() -> None:
    bench = Bench()
    for _ in range(COMPLETIONS_AT_ONCE):
        await bench.resources.complete(asked("sweep", "sweep_id"), DIRECT)
    with pytest.raises(Conflict):
        await bench.resources.complete(asked("sweep", "sweep_id"), DIRECT)
    await bench.clock.advance(1.0)
    await bench.resources.complete(asked("sweep", "sweep_id"), DIRECT)
