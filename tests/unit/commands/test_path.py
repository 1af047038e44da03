import asyncio
import gc
import itertools
import weakref
from dataclasses import replace
from typing import Any

import pytest

from edged.actions.action import (
    Action,
    MemoryAction,
    Purpose,
    RunCommand,
    RunSequence,
    SendScpi,
)
from edged.actions.caller import Caller, Claims, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.auth.permissions import Grant, Permissions
from edged.commands.policy import Policy
from edged.commands.static_tool import NO_ARGUMENTS
from edged.commands.target import Catalog, Target
from edged.config.keys import RawScpi
from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.instruments.mailbox import Priority
from edged.profiles.arguments import compile_schema
from edged.profiles.bench_file import parse_bench
from edged.profiles.library import ProfileLibrary
from edged.profiles.model import Changes
from edged.profiles.owner_rules import tighten
from edged.profiles.unit_rules import UnitRules
from edged.runs.registry import Late, Registry
from edged.runs.sequences.registry import Sequences
from tests.bench.command_path import (
    bench_operations,
    command_operations,
    command_path,
    not_interlocked,
)
from tests.bench.context import NoNotes, NoPlan, bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakeInstrument, FakePool, toy_profile
from tests.bench.sweep_bench import Notebook, Recorder
from tests.promises import promise

DIRECT = Caller(route=Route.DIRECT)


class Recorded:
    """A record that remembers, and can be made to refuse intents."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []
        self.is_broken = False

    async def intend(self, action: Action, target: Target) -> None:
        if self.is_broken:
            raise Failed("The disk is full.", code=ErrorCode.STORE_FAILED)
        self.rows.append(("intent", action.tool, " ".join(target.lines)))

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        self.rows.append(("end", action.tool, outcome.status.value))

    def again(self, action: Action, target: Target) -> None: ...

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        self.rows.append(("refused", tool, error.code.value))


class House:
    """The command path over fake instruments."""

    def __init__(
        self, clock: DrivenClock, *, raw: RawScpi = RawScpi.ALL, grant: Grant | None = None
    ) -> None:
        self.supply = FakeInstrument(id="S::1", profile=toy_profile(), alias="psu1")
        self.record = Recorded()
        self.ids = itertools.count()
        pool, catalog = FakePool(self.supply), Catalog()
        runs = Registry(
            bench_of(
                clock,
                store={"journal": Notebook()},
                pool=pool,
                new_id=lambda: f"n{next(self.ids)}",
                perform=lambda action: self.path.perform(action),
                precheck=lambda action: self.path.precheck(action),
            ),
            recorder=Recorder(),
            notes=NoNotes(),
        )
        self.book = Sequences(runs, new_plan=NoPlan)
        commands = command_operations(
            clock,
            sequences=Late.of(runs, self.book),
        )
        bench = bench_operations(pool, catalog)
        permissions = Permissions(grant) if grant else Permissions()
        self.path = command_path(
            pool,
            catalog,
            {**bench.table(), **commands.table()},
            clock,
            permissions=permissions,
            policy=Policy(raw, permissions, not_interlocked),
            record=self.record,
        )

    async def command(
        self, name: str, *, caller: Caller = DIRECT, purpose: Purpose = Purpose.CALL, **given: Any
    ) -> Outcome:
        return await self.path.perform(
            RunCommand(
                tool="execute_command",
                scope=name,
                caller=caller,
                action_id="a",
                instrument_id="psu1",
                command_name=name,
                parameters=given,
                purpose=purpose,
            )
        )

    async def scpi(self, line: str, *, caller: Caller = DIRECT) -> Outcome:
        return await self.path.perform(
            SendScpi(
                tool="send_scpi", caller=caller, action_id="a", instrument_id="psu1", scpi=line
            )
        )

    async def sequence(self, *, caller: Caller = DIRECT, **given: Any) -> Outcome:
        return await self.path.perform(
            RunSequence(
                tool="execute_sequence",
                scope="point",
                caller=caller,
                action_id="a",
                instrument_id="psu1",
                sequence_name="point",
                parameters=given,
            )
        )


@pytest.fixture
def house(driven_clock: DrivenClock) -> House:
    return House(driven_clock)


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


async def test_a_setter_is_sent_checked_verified_and_told(house: House) -> None:
    house.supply.answers[":VOLT?"] = "5.000"
    outcome = await house.command("set_voltage", voltage=5)
    assert outcome.status is OutcomeStatus.OK
    assert outcome.data["data"] == {"set": {"channel": 1, "voltage": 5}, "readback": 5.0}
    assert house.supply.sent == [":VOLT 5.000", "SYST:ERR?", ":VOLT?"]
    assert house.record.rows == [
        ("intent", "execute_command", ":VOLT 5.000"),
        ("end", "execute_command", "ok"),
    ]


async def test_a_sequence_that_changes_something_has_its_instrument_to_itself(
    house: House,
) -> None:
    house.supply.answers.update({":VOLT?": "5.000", ":MEAS?": "5"})
    both = await asyncio.gather(house.sequence(voltage=5), house.sequence(voltage=5))
    assert [outcome.status for outcome in both] == [OutcomeStatus.OK, OutcomeStatus.REFUSED]
    assert both[1].error is not None
    assert both[1].error.code is ErrorCode.BUSY
    assert (await house.sequence(voltage=5)).status is OutcomeStatus.OK


async def test_a_verify_that_misses_is_an_instrument_failure_in_the_tools_shape(
    house: House,
) -> None:
    house.supply.answers[":VOLT?"] = "3.3"
    outcome = await house.command("set_voltage", voltage=5)
    assert outcome.status is OutcomeStatus.FAILED
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.VERIFY_FAILED
    assert outcome.data["success"] is False
    assert outcome.data["data"] is None
    assert outcome.data["error"]["sent"]


async def test_a_query_returns_its_value_and_unit_and_leaves_no_intent(house: House) -> None:
    house.supply.answers[":MEAS?"] = "1.25"
    outcome = await house.command("measure")
    assert (outcome.data["data"], outcome.data["unit"]) == (1.25, "V")
    assert [row[0] for row in house.record.rows] == ["end"]


async def test_a_dangerous_query_has_its_intent_recorded(house: House) -> None:
    await house.command("arm_and_read")
    assert house.record.rows[0][0] == "intent"


@promise("limits.nothing-sent")
@pytest.mark.parametrize(
    "given",
    [
        {"voltage": 31},
        {"voltage": float("nan")},
        {"voltage": True},
        {"channel": 2, "voltage": 6},
        {"voltage": 5, "volts": 1},
        {},
    ],
)
async def test_what_fails_validation_sends_nothing_and_is_recorded_as_refused(
    house: House, given: dict[str, Any]
) -> None:
    outcome = await house.command("set_voltage", **given)
    assert outcome.status is OutcomeStatus.REFUSED
    assert isinstance(outcome.error, Invalid)
    assert house.supply.sent == []
    assert house.record.rows == [("end", "execute_command", "refused")]


async def test_a_limit_that_depends_on_another_parameter_holds(house: House) -> None:
    house.supply.answers[":VOLT?"] = "5"
    assert (await house.command("set_voltage", channel=2, voltage=5)).error is None
    refused = await house.command("set_voltage", channel=2, voltage=5.5)
    assert refused.error is not None
    assert "5" in refused.error.message


@promise("callers.named")
async def test_only_a_call_that_was_carried_out_makes_its_caller_the_last_user(
    house: House,
) -> None:
    def user(name: str) -> Caller:
        return Caller(route=Route.DIRECT, client=name)

    await house.command("set_voltage", caller=user("one"), channel=2, voltage=5.5)
    assert house.supply.used_by is None
    await house.command("set_voltage", caller=user("two"), voltage=1)
    await house.command("set_voltage", caller=user("three"), channel=2, voltage=5.5)
    house.supply.failing = Failed("It is gone.", code=ErrorCode.DISCONNECTED)
    await house.command("set_voltage", caller=user("four"), voltage=1)
    assert house.supply.used_by == user("two")
    house.supply.failing = Failed("No answer.", code=ErrorCode.TIMEOUT, sent=(":VOLT 1",))
    await house.command("set_voltage", caller=user("five"), voltage=1)
    assert house.supply.used_by == user("five")


@promise("requires-sweep.every-road")
async def test_a_requires_sweep_command_is_refused_by_every_road(house: House) -> None:
    for purpose in (Purpose.CALL, Purpose.SEQUENCE_STEP, Purpose.STREAM_POINT, Purpose.MEASURE):
        outcome = await house.command("ramp_voltage", purpose=purpose, voltage=10)
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.REQUIRES_SWEEP
        assert "start_sweep" in outcome.error.remedy
    for line in (":HV 10", "hv 10", " :HV\t10.0", "*CLS;:HV 500", ":VOLT 1;:HV 5"):
        outcome = await house.scpi(line)
        assert outcome.error is not None, line
        assert outcome.error.code is ErrorCode.REQUIRES_SWEEP, line
    assert house.supply.sent == []


async def test_what_the_caller_expects_must_agree_with_the_profile(house: House) -> None:
    outcome = await house.path.perform(
        RunCommand(
            tool="execute_command",
            scope="measure",
            caller=DIRECT,
            action_id="a",
            instrument_id="psu1",
            command_name="measure",
            expects_query=False,
        )
    )
    assert isinstance(outcome.error, Invalid)
    assert "is_query" in outcome.error.message


async def test_an_unknown_command_names_the_nearest(house: House) -> None:
    outcome = await house.command("set_voltige")
    assert outcome.error is not None
    assert "set_voltage" in outcome.error.remedy


@promise("store.broken-refuses-writes-only")
async def test_without_a_record_writes_are_refused_and_safe_commands_and_reads_go_on(
    house: House,
) -> None:
    house.record.is_broken = True
    refused = await house.command("set_voltage", voltage=1)
    assert refused.error is not None
    assert refused.error.code is ErrorCode.STORE_FAILED
    assert house.supply.sent == []
    assert (await house.command("output_off")).status is OutcomeStatus.OK
    assert (await house.command("measure")).status is OutcomeStatus.OK


async def test_safe_commands_and_finally_steps_go_first_in_the_mailbox(house: House) -> None:
    await house.command("output_off")
    await house.command("measure", purpose=Purpose.STREAM_POINT)
    await house.command("measure")
    assert house.supply.priorities == [Priority.SAFE, Priority.MEASURE, Priority.COMMAND]


@promise("auth.tool-before-lookup")
async def test_a_refused_tool_is_judged_before_anything_is_looked_up(house: House) -> None:
    outcome = await house.command("no_such_command", caller=relay("get_status", danger=True))
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.NOT_ALLOWED


async def test_danger_is_judged_on_commands_sequences_and_raw_scpi(house: House) -> None:
    caller = relay("execute_command", "execute_sequence", "send_scpi", danger=False)
    for outcome in (
        await house.command("output_on", caller=caller),
        await house.sequence(caller=caller, voltage=1),
        await house.scpi("*IDN?", caller=caller),
    ):
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.DANGEROUS
    assert house.supply.sent == []
    allowed = await house.command("measure", caller=caller)
    assert allowed.status is OutcomeStatus.OK


async def test_a_token_for_one_sequence_is_enough_for_its_steps(house: House) -> None:
    house.supply.answers[":VOLT?"] = "1"
    outcome = await house.sequence(caller=relay("execute_sequence:point", danger=True), voltage=1)
    assert outcome.status is OutcomeStatus.OK
    assert outcome.data["steps_executed"] == 4
    assert ":OUTP OFF" in house.supply.sent


@promise("direct.bounded-by-owner")
async def test_the_owner_can_bound_the_direct_route(driven_clock: DrivenClock) -> None:
    house = House(driven_clock, grant=Grant(tools=frozenset({"execute_command"}), danger=False))
    assert (await house.command("measure")).status is OutcomeStatus.OK
    for outcome in (await house.command("output_on"), await house.scpi("*IDN?")):
        assert outcome.status is OutcomeStatus.REFUSED


async def test_a_sequence_whose_step_would_be_refused_sends_nothing(house: House) -> None:
    house.supply.rules = UnitRules(deny=frozenset({"output_on"}))
    outcome = await house.sequence(voltage=1)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.DENIED_BY_OWNER
    assert "owner's bench file" in outcome.error.remedy
    assert house.supply.sent == []


async def test_a_sequence_that_the_owner_denies_is_refused_by_its_own_name(house: House) -> None:
    house.supply.rules = UnitRules(deny=frozenset({"point"}))
    outcome = await house.sequence(voltage=1)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.DENIED_BY_OWNER
    assert "denies point on" in outcome.error.message
    assert house.supply.sent == []


async def test_a_line_end_or_control_character_never_gets_into_raw_scpi(house: House) -> None:
    for line in ("*IDN?\n:OUTP ON", "*IDN?\r", "\x00", "", "   ", "é", "x" * 5000):
        outcome = await house.scpi(line)
        assert isinstance(outcome.error, Invalid), line
    assert house.supply.sent == []


@promise("raw.owner-limits-hold")
@pytest.mark.parametrize(
    "line",
    [
        ":VOLT 20",
        "VOLT 20",
        "volt 20",
        "VOLTAGE 20",
        ":volt   20.0",
        ":VOLT\t2.0E1",
        ":VOLT 20V",
        ":VOLT MAX",
        "*CLS;:VOLT 20",
        ":OUTP OFF;:VOLT 20",
        ":VOLT:LEV 20",
        ":VOLT 1;:VOLT 20",
        ":NEW:HEADER 3",
    ],
)
async def test_raw_scpi_is_no_road_round_the_owners_limits(house: House, line: str) -> None:
    text = "format: 1\n'0001': {limits: {set_voltage: {voltage: {max: 10}}}}\n"
    library = ProfileLibrary(profiles={"toy_supply": toy_profile()})
    rules = parse_bench(text, "bench.yaml", library).rules_for("0001")
    house.supply.rules = rules
    house.supply.profile = tighten(toy_profile(), rules)
    outcome = await house.scpi(line)
    assert outcome.status is OutcomeStatus.REFUSED, line
    assert house.supply.sent == []
    assert (await house.scpi(":VOLT 4")).status is OutcomeStatus.OK
    assert (await house.scpi("*IDN?")).status is OutcomeStatus.OK


@pytest.mark.parametrize(
    ("mode", "line", "passes"),
    [
        (RawScpi.ALL, ":ANY:THING 1", True),
        (RawScpi.KNOWN, ":ANY:THING 1", False),
        (RawScpi.KNOWN, ":VOLT 1", True),
        (RawScpi.KNOWN, ":VOLT 31", False),
        (RawScpi.QUERIES, ":VOLT 1", False),
        (RawScpi.QUERIES, ":ANY:THING?", False),
        (RawScpi.QUERIES, ":VOLT?", True),
        (RawScpi.ALL, ":ANY:THING?", True),
        (RawScpi.OFF, ":ANY:THING?", False),
        (RawScpi.OFF, "*IDN?", True),
        (RawScpi.OFF, "*CLS;:SYSTem:ERRor:NEXT?", True),
        (RawScpi.OFF, "*IDN?;:VOLT?", False),
        (RawScpi.QUERIES, "*CLS", True),
        (RawScpi.KNOWN, "SYST:ERR?", True),
    ],
)
async def test_raw_scpi_is_narrowed_by_configuration(
    driven_clock: DrivenClock, mode: RawScpi, line: str, passes: bool
) -> None:
    outcome = await House(driven_clock, raw=mode).scpi(line)
    assert (outcome.status is OutcomeStatus.OK) is passes


@promise("raw.unknown-is-refused-where-guarded")
@pytest.mark.parametrize("line", [":VOLT 1", ":ANY:THING 1", ":ANY:THING?"])
@pytest.mark.parametrize(
    ("engines", "owners", "named", "words"),
    [
        ("off", None, ["RAW_SCPI: off"], "RAW_SCPI is off in the configuration of the engine"),
        ("all", "off", ["raw_scpi: off"], "raw_scpi is off for psu1 in the bench file"),
        ("queries", None, ["RAW_SCPI: queries"], "RAW_SCPI is queries in the configuration"),
        ("all", "queries", ["raw_scpi: queries"], "raw_scpi is queries for psu1 in the bench"),
        ("off", "off", ["RAW_SCPI: off", "raw_scpi: off"], "and raw_scpi is off for psu1"),
    ],
)
async def test_a_refusal_says_whose_rule_about_raw_lines_it_is(
    driven_clock: DrivenClock, line: str, engines: str, owners: str, named: list[str], words: str
) -> None:
    house = House(driven_clock, raw=RawScpi(engines))
    house.supply.rules = UnitRules(key="k", raw_scpi=owners, deny=frozenset({"recall"}))
    error = (await house.scpi(line)).error
    assert error is not None
    assert error.code is ErrorCode.RAW_SCPI_RESTRICTED
    assert [rule for rule in error.data["rule"] if rule != "deny"] == named
    assert words in error.message
    assert house.supply.sent == []


@promise("changes.query-is-write")
async def test_where_only_queries_are_allowed_one_that_acts_is_refused(
    driven_clock: DrivenClock,
) -> None:
    house = House(driven_clock, raw=RawScpi.QUERIES)
    assert house.supply.profile is not None
    commands = dict(house.supply.profile.commands)
    measure = commands["measure"]
    house.supply.profile = replace(
        house.supply.profile,
        commands={**commands, "measure": replace(measure, changes=Changes.SETTINGS)},
    )
    error = (await house.scpi(measure.scpi[-1])).error
    assert error is not None
    assert error.data["rule"] == ["RAW_SCPI: queries"]
    assert "measure" in error.message
    assert (await house.scpi(":VOLT?")).error is None


async def test_an_instrument_failure_tells_what_had_been_sent(house: House) -> None:
    house.supply.failing = Failed("No answer.", code=ErrorCode.TIMEOUT, sent=(":VOLT 1.000",))
    outcome = await house.command("set_voltage", voltage=1)
    told = {"code": "timeout", "message": "No answer.", "remedy": "", "sent": [":VOLT 1.000"]}
    assert outcome.data["error"] == told
    assert outcome.data["scpi_command"] == ":VOLT 1.000"
    raw = await house.scpi("*IDN?")
    assert raw.data["response"] is None
    assert raw.data["error"] == told


async def test_a_bug_is_a_fault_with_an_id_and_takes_nobody_along(house: House) -> None:
    house.supply.failing = ZeroDivisionError("ours")
    outcome = await house.command("measure")
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INTERNAL
    assert outcome.error.data["fault_id"] == "a"
    assert "ours" not in str(outcome.error)


async def test_a_caller_that_goes_away_is_recorded(house: House) -> None:
    task = asyncio.create_task(house.sequence(voltage=1))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert house.record.rows[-1] == ("end", "execute_sequence", "failed")


@pytest.mark.parametrize("grant", [None, Grant(tools=frozenset(), danger=True)])
@pytest.mark.parametrize("arguments", [{}, {"x": 1}])
async def test_what_is_read_at_once_is_judged_and_recorded_like_anything_else(
    driven_clock: DrivenClock, grant: Grant | None, arguments: dict[str, Any]
) -> None:
    house = House(driven_clock, grant=grant)
    action = MemoryAction(
        operation="get_status",
        tool="get_status",
        caller=DIRECT,
        action_id="a",
        arguments=arguments,
        check=compile_schema("get_status", NO_ARGUMENTS),
    )
    begun = house.path.begin(action, pytest.fail)
    assert isinstance(begun, Outcome)
    outcomes = [begun, await house.path.perform(action)]
    codes = {outcome.error.code if outcome.error else None for outcome in outcomes}
    expected = ErrorCode.NOT_ALLOWED if grant else ErrorCode.BAD_ARGUMENTS if arguments else None
    assert codes == {expected}
    assert house.record.rows == [("end", "get_status", outcomes[0].status.value)] * 2


async def test_each_action_that_may_change_something_is_marked_at_its_beginning_and_its_end(
    house: House,
) -> None:
    before = house.path.performed
    await house.command("measure")
    assert house.path.performed == before + 2


def test_what_is_done_again_is_recorded_and_keeps_no_client(house: House) -> None:
    class Client:
        """It holds the connection that the first call came by."""

    client = Client()
    is_alive = weakref.ref(client)
    action = MemoryAction(
        operation="get_status",
        tool="get_status",
        caller=DIRECT,
        action_id="first",
        check=compile_schema("get_status", NO_ARGUMENTS),
        client=client,  # type: ignore[arg-type]
    )
    begun = house.path.begin(action, pytest.fail)
    assert isinstance(begun, Outcome)
    again = begun.again
    del action, client, begun
    gc.collect()
    assert is_alive() is None
    assert again is not None
    found = again("second", pytest.fail)
    assert isinstance(found, Outcome)
    assert found.status is OutcomeStatus.OK
    assert house.record.rows == [("end", "get_status", "ok")] * 2
