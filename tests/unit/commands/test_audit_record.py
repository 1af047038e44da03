"""The record that is the audit, under the real command path and on a real database."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from edged.actions.action import CallWrapper, MemoryAction, Purpose, RunCommand, SendScpi
from edged.actions.caller import Caller, Route, who_of
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.commands.audit_record import AuditRecord
from edged.commands.target import Catalog
from edged.errors import ErrorCode, Failed, NotFound
from edged.log import Aside
from edged.runs.units import unit_of_instrument
from edged.store.audit.queries import AuditFilter
from edged.store.audit.row import AuditRow
from edged.store.experience import CommandKnowledge
from tests.bench.command_path import bench_operations, command_operations, command_path
from tests.bench.fake_instruments import FakeInstrument, FakePool, toy_profile
from tests.bench.store_bench import StoreBench, running_store
from tests.promises import promise

CALLER = Caller(route=Route.RPC, session_id="s-9", remote="10.0.0.7:99", subject="user:kim")


class House:
    def __init__(self, store: StoreBench) -> None:
        self.store = store
        self.supply = FakeInstrument(id="S::1", profile=toy_profile(), alias="psu1")
        self.record = AuditRecord(audit=store.audit, capability=store.capability, clock=store.clock)
        self.ids = itertools.count()
        pool, catalog = FakePool(self.supply), Catalog()
        commands = command_operations(store.clock)
        bench = bench_operations(pool, catalog)
        self.path = command_path(
            pool,
            catalog,
            {**bench.table(), **commands.table()},
            store.clock,
            record=self.record,
        )

    async def command(
        self, name: str, *, purpose: Purpose = Purpose.CALL, parent_id: str = "", **given: Any
    ) -> Outcome:
        return await self.path.perform(
            RunCommand(
                tool="execute_command",
                scope=name,
                caller=CALLER,
                action_id=f"a{next(self.ids)}",
                parent_id=parent_id,
                instrument_id="psu1",
                command_name=name,
                arguments={"instrument_id": "psu1", "command_name": name, "parameters": given},
                parameters=given,
                purpose=purpose,
            )
        )

    async def rows(self) -> list[AuditRow]:
        rows = await self.store.audit.list(AuditFilter(), limit=10_000)
        return [row for row in rows if row.phase != "event"]

    async def phases(self) -> list[tuple[str, str]]:
        return [(row.phase, row.command or row.tool) for row in await self.rows()]

    def known(self, command: str) -> CommandKnowledge:
        return self.store.capability.of(unit_of_instrument(self.supply))[command]  # type: ignore[arg-type]

    async def fill_the_disk(self) -> None:
        """Until there is not even room for a small row."""
        await self.store.fill_the_disk()
        for _ in range(300):
            if (await self.command("output_on")).status is OutcomeStatus.FAILED:
                return
        raise AssertionError("the disk never was full")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with running_store(tmp_path / "edged.db") as store:
        yield House(store)


@promise("audit.row-of-every-attempt")
async def test_a_write_leaves_its_intent_and_its_end(house: House) -> None:
    house.supply.answers[":VOLT?"] = "3.3"
    await house.command("set_voltage", voltage=3.3)
    intent, end = await house.rows()
    assert (intent.phase, end.phase) == ("intent", "end")
    assert intent.action_id == end.action_id == "a0"
    assert intent.scpi == ":VOLT 3.300"
    assert end.scpi.startswith(":VOLT 3.300")
    assert end.outcome == "ok"
    assert end.to_json()["parameters"]["parameters"] == {"voltage": 3.3}
    assert (end.instrument, end.command, end.scope) == ("S::1", "set_voltage", "set_voltage")
    assert (end.route, end.session, end.remote, end.subject) == (
        "rpc",
        "s-9",
        "10.0.0.7:99",
        "user:kim",
    )


async def test_the_line_of_a_write_that_failed_is_in_the_log_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A store thread that writes out no line.
    monkeypatch.setattr("edged.store.writer.ASIDE", Aside())
    with capture_logs() as logs:
        house.record = AuditRecord(
            audit=house.store.audit, capability=house.store.capability, clock=house.store.clock
        )
        house.path.record = house.record
        house.supply.answers[":VOLT?"] = "3.3"
        await house.command("set_voltage", voltage=3.3)
        assert logs == []
        house.supply.failing = Failed("It is gone.", code=ErrorCode.DISCONNECTED)
        await house.command("set_voltage", voltage=3.3)
        assert logs[-1]["error"] == "It is gone."


async def test_a_read_leaves_one_row(house: House) -> None:
    house.supply.answers[":MEAS?"] = "1.5"
    await house.command("measure")
    assert await house.phases() == [("end", "measure")]


@promise("audit.row-of-every-attempt")
async def test_what_was_refused_leaves_a_row_with_the_reason(house: House) -> None:
    await house.command("set_voltage", voltage=61)
    (row,) = await house.rows()
    assert (row.phase, row.outcome, row.code) == ("refusal", "refused", "bad_arguments")
    assert "61" in row.error
    assert row.instrument == "psu1"


async def test_an_attempt_without_an_action_leaves_a_row(house: House) -> None:
    error = NotFound("There is no tool frobnicate.", code=ErrorCode.UNKNOWN_TOOL)
    house.record.refuse(CALLER, "frobnicate", error)
    (row,) = await house.rows()
    assert (row.phase, row.tool, row.code) == ("refusal", "frobnicate", "unknown_tool")
    assert row.remote == "10.0.0.7:99"


async def test_a_nested_action_names_its_parent(house: House) -> None:
    house.supply.answers[":MEAS?"] = "1.5"
    await house.command("measure", parent_id="outer")
    assert [row.parent_id for row in await house.rows()] == ["outer"]


async def test_a_sweeps_step_leaves_its_end_only(house: House) -> None:
    await house.command("ramp_voltage", purpose=Purpose.SWEEP_STEP, voltage=10)
    assert await house.phases() == [("end", "ramp_voltage")]


async def test_raw_scpi_is_in_its_row(house: House) -> None:
    house.supply.answers["*IDN?"] = "TOY,S1,0001,1.0"
    await house.path.perform(
        SendScpi(tool="send_scpi", caller=CALLER, action_id="a", instrument_id="psu1", scpi="*IDN?")
    )
    assert [(row.phase, row.scpi) for row in await house.rows()] == [
        ("intent", "*IDN?"),
        ("end", "*IDN?"),
    ]


async def test_what_was_sent_in_the_wrong_type_makes_a_row_all_the_same(house: House) -> None:
    action = RunCommand(
        tool="execute_command",
        caller=CALLER,
        action_id="a",
        instrument_id=["psu1"],  # type: ignore[arg-type]
        command_name={"x": 1},  # type: ignore[arg-type]
        parameters=7,  # type: ignore[arg-type]
    )
    error = NotFound("No.", code=ErrorCode.UNKNOWN_INSTRUMENT)
    house.record.conclude(action, None, Outcome(status=OutcomeStatus.REFUSED, error=error))
    (row,) = await house.rows()
    assert row.instrument == "['psu1']"


async def test_outcomes_are_counted_for_the_instrument(house: House) -> None:
    house.supply.answers[":MEAS?"] = "1.5"
    for _ in range(3):
        await house.command("measure")
    house.supply.failing = Failed("It stayed silent.", code=ErrorCode.TIMEOUT)
    await house.command("measure")
    known = house.known("measure")
    assert (known.calls, known.failures, known.last_error) == (4, 1, "It stayed silent.")


async def test_refusals_and_what_was_not_its_fault_are_not_counted(house: House) -> None:
    house.supply.answers[":MEAS?"] = "1.5"
    await house.command("measure")
    await house.command("measure", nonsense=1)
    house.supply.failing = Failed("A stop came first.", code=ErrorCode.PREEMPTED)
    await house.command("measure")
    assert house.known("measure").calls == 1


@pytest.mark.parametrize(
    ("error", "is_undefined"),
    [
        ('-113,"Undefined header"', True),
        ("-100 Command error", True),
        ("command error (ESR 32)", True),
        ('-114,"Header suffix out of range"', False),
        ('-222,"Data out of range"', False),
        ("execution error (ESR 16)", False),
        ("error 113", False),
        ("what?", False),
    ],
)
async def test_a_command_that_the_instrument_calls_undefined_is_known_as_such(
    house: House, error: str, *, is_undefined: bool
) -> None:
    house.supply.failing = Failed(
        "It complains.", code=ErrorCode.INSTRUMENT_ERROR, data={"errors": [error]}
    )
    await house.command("measure")
    assert house.known("measure").is_undefined is is_undefined


@promise("store.broken-refuses-writes-only")
async def test_on_a_full_disk_writes_are_refused_and_safe_commands_and_reads_go_on(
    house: House,
) -> None:
    await house.fill_the_disk()
    house.supply.sent.clear()
    house.supply.answers[":MEAS?"] = "1.5"
    refused = await house.command("set_voltage", voltage=3)
    assert house.supply.sent == []
    assert refused.error is not None
    assert refused.error.code is ErrorCode.STORE_FAILED
    assert "the disk is full" in refused.error.message
    assert (await house.command("measure")).status is OutcomeStatus.OK
    assert (await house.command("output_off")).status is OutcomeStatus.OK
    house.store.free_the_disk()
    await house.store.healed()
    assert (await house.command("output_on")).status is OutcomeStatus.OK
    assert (await house.phases())[-5:] == [
        ("end", "set_voltage"),
        ("end", "measure"),
        ("end", "output_off"),
        ("intent", "output_on"),
        ("end", "output_on"),
    ]
    assert (await house.store.audit.verify()).is_intact


def _direct(session_id: str, remote: str = "10.0.0.7") -> Caller:
    return Caller(route=Route.DIRECT, session_id=session_id, remote=remote)


def _tell(house: House, caller: Caller, tool: str, **given: Any) -> None:
    """What a tool that tells what the daemon knows leaves behind."""
    action = MemoryAction(
        operation="get_status",
        tool=tool,
        caller=caller,
        action_id=f"a{next(house.ids)}",
        arguments=given,
    )
    begun = house.path.begin(action, pytest.fail)
    assert isinstance(begun, Outcome)
    assert begun.status is OutcomeStatus.OK
    if begun.again is not None:
        again = begun.again(f"a{next(house.ids)}", pytest.fail)
        assert isinstance(again, Outcome)
        assert again.status is OutcomeStatus.OK


async def test_a_call_that_comes_again_leaves_the_same_row_for_whoever_made_it(
    house: House,
) -> None:
    one, other = _direct("s-1"), _direct("s-2", "10.0.0.8")
    for _ in range(3):
        _tell(house, one, "get_status")
        _tell(house, other, "get_status")
        _tell(house, one, "list_profiles")
        _tell(house, one, "list_profiles", filter="psu")
        _tell(house, CALLER, "get_status")
    rows = await house.rows()
    assert [(row.route, row.session, row.remote, row.tool, row.parameters) for row in rows] == [
        *[("direct", "s-1", "10.0.0.7", "get_status", "{}")] * 2,
        *[("direct", "s-2", "10.0.0.8", "get_status", "{}")] * 2,
        *[("direct", "s-1", "10.0.0.7", "list_profiles", "{}")] * 2,
        ("direct", "s-1", "10.0.0.7", "list_profiles", '{"filter":"psu"}'),
        *[("rpc", "s-9", "10.0.0.7:99", "get_status", "{}")] * 2,
    ] * 3
    assert [row.action_id for row in rows] == [f"a{number}" for number in range(27)]
    assert {(row.phase, row.outcome) for row in rows} == {("end", "ok")}
    assert (await house.store.audit.verify()).is_intact


async def test_arguments_that_are_equal_and_not_the_same_stay_apart(house: House) -> None:
    for value in (1, True, 1.0, "1", 0, False, -0.0, 1, True):
        _tell(house, CALLER, "get_status", filter=value)
    told = [row.parameters for row in await house.rows()]
    assert told == [f'{{"filter":{text}}}' for text in SPELLED]


SPELLED = ("1", "true", "1.0", '"1"', "0", "false", "-0.0", "1", "true")


async def test_more_callers_than_are_remembered_each_have_their_rows(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edged.store.audit.chain.MOST", 4)
    monkeypatch.setattr("edged.store.audit.chain.MOST_TEXTS", 5)
    callers = [_direct(f"s-{number}") for number in range(7)]
    for caller in callers * 4 + callers[:2] * 4:
        _tell(house, caller, "get_status")
    sessions = [row.session for row in await house.rows()]
    expected = [caller.session_id for caller in callers * 4 + callers[:2] * 4 for _ in range(2)]
    assert sessions == expected
    assert (await house.store.audit.verify()).is_intact


@promise("sdk.stop-all-quiet")
@pytest.mark.parametrize(
    ("is_expected", "code", "rows"),
    [
        (False, ErrorCode.DISCONNECTED, 0),
        (False, ErrorCode.SDK_MISSING, 0),
        (False, ErrorCode.WRAPPER_FAILED, 1),
        (True, ErrorCode.DISCONNECTED, 1),
        (True, ErrorCode.SDK_MISSING, 1),
    ],
)
async def test_the_abort_of_a_wrapper_whose_device_was_never_there_leaves_no_row(
    house: House, is_expected: bool, code: ErrorCode, rows: int
) -> None:
    abort = CallWrapper(
        tool="bench__stop_all",
        caller=CALLER,
        action_id="a",
        wrapper="korad",
        spec_name="off",
        is_expected=is_expected,
    )
    error = Failed("It is not there.", code=code)
    house.record.conclude(abort, None, Outcome(status=OutcomeStatus.FAILED, error=error))
    assert len(await house.rows()) == rows


@promise("audit.parts")
async def test_a_row_of_the_engine_itself_names_its_part(house: House) -> None:
    house.store.audit.event("engine.started", "edged")
    house.store.audit.event("interlock.tripped", "too hot", part="interlock chamber")
    rows = await house.store.audit.list(AuditFilter(), limit=10)
    assert {row.route for row in rows} == {"internal"}
    assert {who_of(row.client, row.remote, row.subject, route=row.route) for row in rows} >= {
        "engine",
        "interlock chamber",
    }
