"""Writes that were judged and wait: stopped, locked out or swept meanwhile, they are not sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from edged.actions.action import Action, SendScpi, StopAll
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.auth.permissions import Grant, Permissions
from edged.commands.record import LogRecord
from edged.commands.send_guard import guarded
from edged.commands.target import Target
from edged.errors import ErrorCode, Failed, Invalid, Refused
from edged.instruments.conversation import Answer, Ask, Conversation, Send
from edged.profiles.budget import Budget
from edged.profiles.confirm import parse_confirm
from edged.profiles.model import Bound
from edged.profiles.owner_rules import tightened
from edged.profiles.unit_rules import UnitRules
from edged.store.lockouts import Lockout
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

LOCKOUT = Lockout(instrument_id="S::psu1", unit="", reason="hands inside", by="anna", since_ms=1)


class SlowDisk(LogRecord):
    """A record whose intents wait until ``may_write`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def intend(self, action: Action, target: Target) -> None:
        await self.may_write.wait()
        await super().intend(action, target)


@pytest.fixture
async def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
async def house(driven_clock: DrivenClock, disk: SlowDisk) -> SweepHouse:
    return SweepHouse(driven_clock, record=disk)


async def stop_all(house: SweepHouse) -> Outcome:
    return await house.perform(
        StopAll(tool="bench__stop_all", caller=DIRECT, action_id=house.new_id())
    )


def code(outcome: Outcome) -> ErrorCode | None:
    return outcome.error.code if outcome.error else None


@promise("stop-all.everything")
@pytest.mark.parametrize("waits_for", ["the line", "the disk"])
async def test_what_waited_when_everything_was_stopped_is_not_sent_afterwards(
    house: SweepHouse, disk: SlowDisk, driven_clock: DrivenClock, waits_for: str
) -> None:
    if waits_for == "the line":
        house.supply.latency_s = 1.0
    else:
        disk.may_write.clear()
    switching = asyncio.ensure_future(house.command("output_on", channel=1))
    await settle()
    house.supply.latency_s = 0.0
    stopped = await stop_all(house)
    disk.may_write.set()
    await driven_clock.advance(2.0)
    outcome = await switching
    assert stopped.data["is_confirmed"]
    assert (outcome.status, code(outcome)) == (OutcomeStatus.FAILED, ErrorCode.PREEMPTED)
    assert outcome.scpi == ()
    assert house.supply.outputs == {"CH1": "OFF", "CH2": "OFF"}


async def test_what_is_called_after_a_stop_is_sent(house: SweepHouse) -> None:
    await stop_all(house)
    assert (await house.command("output_on", channel=1)).error is None
    assert house.supply.outputs["CH1"] == "ON"


async def test_once_the_daemon_stops_only_what_makes_safe_is_begun(house: SweepHouse) -> None:
    sweep_id = await house.start(10)
    house.send_guards.close()
    for refused in (
        await house.command("output_on", channel=2),
        await house.scpi(":OUTP CH2,ON"),
        await house.ask_start(1.0, command="set_hv"),
    ):
        assert code(refused) is ErrorCode.CANCELLED
    assert (await house.command("measure_voltage", channel=1)).error is None
    assert (await house.command("output_off", channel=2)).error is None
    await house.sweeps.close(0.5)
    assert (await house.status(sweep_id))["status"] == "stopped"
    assert house.supply.outputs["CH1"] == "OFF"


@promise("lockout.refuses-writes")
@pytest.mark.parametrize("waits_for", ["the line", "the disk"])
async def test_what_waited_when_its_instrument_was_locked_out_is_refused(
    house: SweepHouse, disk: SlowDisk, driven_clock: DrivenClock, waits_for: str
) -> None:
    if waits_for == "the line":
        house.supply.latency_s = 1.0
    else:
        disk.may_write.clear()
    switching = asyncio.ensure_future(house.command("output_on", channel=1))
    raw = asyncio.ensure_future(
        house.perform(
            SendScpi(
                tool="send_scpi",
                caller=DIRECT,
                action_id=house.new_id(),
                instrument_id="psu1",
                scpi=":OUTP CH2,ON",
            )
        )
    )
    safe = asyncio.ensure_future(house.command("output_off", channel=1))
    await settle()
    house.lockout = LOCKOUT
    disk.may_write.set()
    await driven_clock.advance(2.0)
    for outcome in (await switching, await raw):
        assert (outcome.status, code(outcome)) == (OutcomeStatus.REFUSED, ErrorCode.LOCKED_OUT)
    assert (await safe).error is None
    assert not [text for _, text in house.supply.log if text.endswith(",ON")]


def say(house: SweepHouse, rules: UnitRules) -> None:
    """The bench file is read anew, as a hot reload does: rules and profile are replaced whole."""
    supply = house.supply
    assert supply.safe_by is not None
    supply.rules, supply.profile = rules, tightened(supply.safe_by, rules)


VOLTS = {"set_voltage": {"voltage": Bound(max=5)}}
ONCE = {"set_voltage": Budget(per_hour=1)}
CHANGED = "The owner changed what may be done with psu1 while this waited: "


async def waiting(house: SweepHouse, road: str) -> Outcome:
    """A write of 12 V to channel 1 by one of the roads that lead to it, or its output on."""
    match road:
        case "typed":
            return await house.command("set_voltage", voltage=12)
        case "another command":
            return await house.command("set_both", voltage=12, current=1)
        case "raw":
            return await house.scpi(":SOUR1:VOLT 12")
        case "switching":
            return await house.command("output_on", channel=1)
        case "raw switching":
            return await house.scpi(":OUTP CH1,ON")
        case _:
            raise AssertionError(road)


@promise("owner.asked-when-it-goes-out")
@pytest.mark.parametrize(
    ("road", "rules", "why"),
    [
        ("typed", UnitRules(key="0001", limits=VOLTS), ErrorCode.BAD_ARGUMENTS),
        ("typed", UnitRules(key="0001", deny=frozenset({"set_voltage"})), None),
        (
            "typed",
            UnitRules(key="0001", requires_sweep=frozenset({"set_voltage"})),
            ErrorCode.REQUIRES_SWEEP,
        ),
        ("another command", UnitRules(key="0001", limits=VOLTS), ErrorCode.BAD_ARGUMENTS),
        ("another command", UnitRules(key="0001", deny=frozenset({"set_voltage"})), None),
        ("typed", UnitRules(key="0001", budget=ONCE), ErrorCode.BUDGET),
        ("another command", UnitRules(key="0001", budget=ONCE), ErrorCode.BUDGET),
        ("raw", UnitRules(key="0001", budget=ONCE), ErrorCode.BUDGET),
        ("switching", UnitRules(key="0001", dead_man_s=10), ErrorCode.DEAD_MAN),
        ("raw switching", UnitRules(key="0001", dead_man_s=10), ErrorCode.DEAD_MAN),
        ("raw", UnitRules(key="0001", limits=VOLTS), ErrorCode.BAD_ARGUMENTS),
        ("raw", UnitRules(key="0001", deny=frozenset({"set_voltage"})), None),
        ("raw", UnitRules(key="0001", raw_scpi="off"), ErrorCode.RAW_SCPI_RESTRICTED),
        ("raw", UnitRules(key="0001", raw_scpi="queries"), ErrorCode.RAW_SCPI_RESTRICTED),
    ],
)
@pytest.mark.parametrize("waits_for", ["the line", "the disk"])
async def test_what_the_owner_forbade_while_it_waited_is_refused(
    house: SweepHouse,
    disk: SlowDisk,
    driven_clock: DrivenClock,
    waits_for: str,
    road: str,
    rules: UnitRules,
    why: ErrorCode | None,
) -> None:
    if waits_for == "the line":
        house.supply.latency_s = 1.0
    else:
        disk.may_write.clear()
    writing = asyncio.ensure_future(waiting(house, road))
    await settle()
    say(house, rules)
    disk.may_write.set()
    await driven_clock.advance(2.0)
    outcome = await writing
    assert (outcome.status, code(outcome)) == (
        OutcomeStatus.REFUSED,
        why or ErrorCode.DENIED_BY_OWNER,
    )
    assert str(outcome.error).startswith(CHANGED)
    assert house.supply.log == []


@promise("owner.asked-when-it-goes-out")
@pytest.mark.parametrize("name", ["set_voltage", "set_both"])
async def test_what_the_owner_calls_dangerous_while_it_waits_needs_leave_for_that(
    driven_clock: DrivenClock, name: str
) -> None:
    permissions = Permissions(Grant(tools=None, danger=False))
    house = SweepHouse(driven_clock, permissions=permissions)
    house.supply.latency_s = 1.0
    given = {"voltage": 4} if name == "set_voltage" else {"voltage": 4, "current": 1}
    writing = asyncio.ensure_future(house.command(name, **given))
    await settle()
    say(house, UnitRules(key="0001", is_dangerous=frozenset({"set_voltage"})))
    await driven_clock.advance(2.0)
    outcome = await writing
    assert code(outcome) is ErrorCode.DANGEROUS
    assert house.supply.writes() == []


@promise("owner.asked-when-it-goes-out")
async def test_what_the_owner_still_allows_goes_out_though_the_file_was_changed(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supply.latency_s = 1.0
    writing = [
        asyncio.ensure_future(house.command("set_voltage", voltage=4)),
        asyncio.ensure_future(house.command("set_bias", voltage=5)),
        asyncio.ensure_future(house.scpi(":SOUR2:VOLT 3")),
        asyncio.ensure_future(house.command("output_off", channel=1)),
    ]
    await settle()
    say(house, UnitRules(key="0001", limits=VOLTS, deny=frozenset({"output_on"})))
    await driven_clock.advance(2.0)
    assert [(await outcome).error for outcome in writing] == [None] * 4


@promise("owner.asked-when-it-goes-out")
async def test_a_step_of_a_sweep_that_waits_is_not_sent_beyond_a_new_limit(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(10, 1.0)
    await driven_clock.advance(6.0)
    house.supply.latency_s = 0.7
    await driven_clock.advance(1.2)
    before = len(house.supply.writes())
    say(house, UnitRules(key="0001", limits=VOLTS))
    await driven_clock.advance(5.0)
    assert house.supply.writes()[before:] == []
    assert (await house.status(sweep_id))["status"] in {"parked", "stopped", "failed"}


@promise("sweep.one-writer")
async def test_a_write_that_waits_for_the_disk_while_a_sweep_begins_is_refused(
    house: SweepHouse, disk: SlowDisk
) -> None:
    """Else the sweep would go on from a value that is not set any more."""
    disk.may_write.clear()
    starting = asyncio.ensure_future(house.ask_start(1.0, 1.0))
    setting = asyncio.ensure_future(house.command("set_voltage", voltage=20))
    await settle()
    disk.may_write.set()
    assert (await starting).error is None
    assert code(await setting) is ErrorCode.SWEEP_CONFLICT
    assert house.supply.held[":SOUR1:VOLT"] == 0.0
    await house.sweeps.close(0.5)


def two_lines() -> Conversation[str]:
    yield Ask("STAT?")
    yield Send("A 1")
    yield Send("B 1")
    answer = yield Ask("VERIFY?")
    return str(answer)


class Says:
    """a guard: one verdict for each time it is asked."""

    def __init__(self, *verdicts: Exception | None) -> None:
        self.verdicts: Iterator[Exception | None] = iter(verdicts)

    def __call__(self) -> None:
        verdict = next(self.verdicts)
        if verdict is not None:
            raise verdict


def drive(conversation: Conversation[str], answer: Answer = "done") -> tuple[list[str], str]:
    said: list[str] = []
    given: Answer = None
    while True:
        try:
            step = conversation.send(given)
        except StopIteration as end:
            return said, end.value
        assert isinstance(step, Send | Ask)
        said.append(step.text)
        given = answer if isinstance(step, Ask) else None


def test_only_its_own_lines_are_asked_for_and_its_result_is_given() -> None:
    conversation = guarded(two_lines(), ("A 1", "B 1"), Says(None, None))
    assert drive(conversation) == (["STAT?", "A 1", "B 1", "VERIFY?"], "done")


def test_a_refusal_before_its_first_line_stays_one() -> None:
    refused = Refused("no", code=ErrorCode.LOCKED_OUT)
    with pytest.raises(Refused):
        drive(guarded(two_lines(), ("A 1", "B 1"), Says(refused)))


@pytest.mark.parametrize(
    "no", [Refused("no", code=ErrorCode.LOCKED_OUT), Invalid("no", code=ErrorCode.BAD_ARGUMENTS)]
)
def test_a_refusal_after_its_first_line_is_a_failure_for_part_of_it_is_done(
    no: Refused | Invalid,
) -> None:
    with pytest.raises(Failed) as failed:
        drive(guarded(two_lines(), ("A 1", "B 1"), Says(None, no)))
    assert failed.value.code is no.code


@promise("approval.every-road")
@pytest.mark.parametrize("road", ["typed", "another command", "raw"])
@pytest.mark.parametrize("waits_for", ["the line", "the disk"])
async def test_what_the_owner_wants_to_be_asked_about_by_now_is_not_sent_unasked(
    house: SweepHouse, disk: SlowDisk, driven_clock: DrivenClock, waits_for: str, road: str
) -> None:
    rule = parse_confirm("set_voltage.voltage > 5")
    assert rule is not None
    if waits_for == "the line":
        house.supply.latency_s = 1.0
    else:
        disk.may_write.clear()
    writing = asyncio.ensure_future(waiting(house, road))
    await settle()
    say(house, UnitRules(key="0001", confirm=(rule,)))
    disk.may_write.set()
    await driven_clock.advance(2.0)
    assert code(await writing) is ErrorCode.NEEDS_APPROVAL
    assert not [text for _, text in house.supply.log if "12" in text]
