"""A query that is asked again is judged by what is true now, whatever was remembered of it."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import itertools
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edged.actions.action import Action
from edged.actions.caller import Caller, Route
from edged.actions.cause import CALLER_CANCELLED
from edged.actions.outcome import Outcome, OutcomeStatus, Tell, Underway
from edged.actions.tool import ToolCall
from edged.auth.permissions import Grant, Permissions
from edged.changes import RULES
from edged.clock import SystemClock
from edged.commands.audit_record import AuditRecord
from edged.commands.budgets import BudgetControl
from edged.commands.policy import Policy
from edged.commands.preconditions import Leased, moment
from edged.commands.record import CountedRecord
from edged.commands.send_guard import SendGuards
from edged.commands.target import Catalog, Target
from edged.config.keys import RawScpi
from edged.errors import Conflict, EdgedError, ErrorCode, Failed, Refused
from edged.guards.budgets import Budget
from edged.instruments.conversation import Ask, Send
from edged.instruments.identity import Seat
from edged.instruments.instrument import Found, Instrument
from edged.instruments.line import NOBODY, BoundInstrument
from edged.instruments.line_state import LineState
from edged.instruments.mailbox import Waiter
from edged.instruments.pool import InstrumentPool
from edged.operations.table import static_tools
from edged.profiles.confirm import parse_confirm
from edged.profiles.match import parse_idn
from edged.profiles.model import Bound, Profile
from edged.profiles.owner_rules import tightened
from edged.profiles.unit_rules import UnitRules
from edged.runs.units import unit_of_instrument
from edged.sharing.leases import Holder, Leases
from edged.store.audit.chain import RepeatedRow
from edged.store.audit.row import Entry
from edged.store.database import Written
from edged.tools.dispatcher import ToolDispatcher
from edged.tools.registry import ToolRegistry
from edged.transports.address import parse_address
from tests.bench.command_path import (
    command_operations,
    command_path,
    not_guarded,
    not_interlocked,
)
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import PROFILE, toy_profile
from tests.bench.waiting import HANGS_S

CALLER = Caller(route=Route.DIRECT, remote="192.0.2.1", session_id="s")


class NoRows:
    """No budget was spent in a former life, and none is kept for another."""

    left: dict[Any, Any] = {}  # noqa: RUF012

    def note(self, _left: Any) -> None:
        return

    async def keep(self) -> None:
        return


READS = """
  read: {scpi: ":READ?", is_query: true, returns: {type: float, unit: V}}
  read_channel:
    scpi: ":READ? {channel}"
    is_query: true
    parameters: {channel: {type: int, min: 1, max: 4}}
    returns: {type: float, unit: V}
sequences:"""
TOY = toy_profile(PROFILE.replace("\nsequences:", READS, 1))
OTHER_WORDS = toy_profile(PROFILE.replace("\nsequences:", READS.replace(":READ?", ":FETCH?"), 1))
FIRST, SECOND = (f"TCPIP::192.0.2.{host}::5025::SOCKET" for host in (10, 11))


class Talk:
    """A job on a line."""

    def __init__(self, line: Line, make: Callable[[], Any], waiter: Waiter) -> None:
        self.line = line
        self.make = make
        self.waiter = waiter
        self.is_withdrawn = False

    def withdraw(self) -> None:
        self.is_withdrawn = True
        self.line.talks.remove(self)

    def answer(self) -> None:
        self.line.talks.remove(self)
        conversation, answer = self.make(), None
        try:
            while True:
                match conversation.send(answer):
                    case Ask(text=text):
                        self.line.said.append(text)
                        answer = '0,"No error"' if "ERR" in text else self.line.answers
                    case Send(text=text):
                        self.line.said.append(text)
                        answer = None
        except StopIteration as end:
            self.waiter.set_result(end.value)
        except EdgedError as error:
            self.waiter.set_exception(error)


class Line:
    """Stands for an actor and its line: notes what it is asked for, answers when it is told to."""

    heard_at = 0.0
    openings = 1
    state = LineState.READY
    reason = ""
    is_silent = False

    def __init__(self, address: str) -> None:
        self.address = parse_address(address)
        self.bound = NOBODY
        self.answers = "1.5"
        self.is_full = False
        self.talks: list[Talk] = []
        self.said: list[object] = []

    @property
    def line(self) -> Line:
        return self

    def settle(self, bound: BoundInstrument) -> None:
        self.bound = bound

    def vacate(self) -> None:
        self.bound = NOBODY

    def recent(self) -> list[dict[str, object]]:
        return []

    def submit(self, make: Callable[[], Any], waiter: Waiter, **how: Any) -> Talk:
        if self.is_full:
            raise Conflict("Too many wait.", code=ErrorCode.BUSY)
        self.said.append((self.address.text, how))
        talk = Talk(self, make, waiter)
        self.talks.append(talk)
        return talk


LOOP = asyncio.new_event_loop()
"""For the calls of tests that are no coroutines."""


class Audit:
    """What the audit log is given."""

    def __init__(self) -> None:
        self.rows: list[Entry] = []
        self.intents: list[Written[None]] = []

    def intend(self, entry: Entry) -> Written[None]:
        self.rows.append(entry)
        self.intents.append(Written(loop=LOOP))
        return self.intents[-1]

    def commit(self) -> None:
        """The intents are on disk."""
        while self.intents:
            written = self.intents.pop(0)
            written.set_result(None)
            if written.then is not None:
                written.then(written)

    def note(self, entry: Entry) -> None:
        self.rows.append(entry)

    def note_again(
        self, told: Entry | RepeatedRow, action_id: str, duration_ms: float, *, time_ms: int = 0
    ) -> None:
        entry = told.entry if isinstance(told, RepeatedRow) else told
        self.rows.append(
            entry._replace(time_ms=time_ms, action_id=action_id, duration_ms=duration_ms)
        )


class Interlocks:
    """One that nothing of the bench can be read beside."""

    is_any = False

    def guards(self, _action: Action, _target: Target) -> bool:
        return False

    def __call__(self, _action: Action, _target: Target) -> None:
        if self.is_any:
            raise Refused("The door is open.", code=ErrorCode.INTERLOCK)


class Experience:
    """Counts."""

    def __init__(self) -> None:
        self.calls = 0

    def note(self, *_: object, **__: object) -> None:
        self.calls += 1


class Bench:
    """A pool, its tools and the path to them; one unit of the toy supply is there."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.pool = InstrumentPool(clock=clock)
        self.catalog = Catalog()
        permissions = Permissions(Grant(tools=None, danger=False))
        self.audit, self.experience, self.interlocks = Audit(), Experience(), Interlocks()
        self.ids = itertools.count()
        self.is_locked = False
        self.permissions = permissions
        # What is said of a lease or budget tells how long it has to wait.
        standing = DrivenClock()
        self.leases = Leases(most_s=3_600)
        self.leased = Leased(self.leases, standing)
        self.now = partial(moment, standing)
        budgets = BudgetControl(bench_of(standing, store={"budgets": NoRows()}, pool=self.pool))
        operations = command_operations(clock)
        self.record = CountedRecord(
            AuditRecord(
                audit=self.audit,  # type: ignore[arg-type]
                capability=self.experience,  # type: ignore[arg-type]
                clock=clock,
            )
        )
        self.path = command_path(
            self.pool,
            self.catalog,
            operations.table(),
            clock,
            permissions=permissions,
            policy=Policy(RawScpi.ALL, permissions, not_interlocked),
            record=self.record,
            interlocks=self.interlocks,
            preconditions=(self.not_locked, self.leased.permit, budgets),
            budgets=budgets,
            send_guards=SendGuards(not_guarded, not_guarded, self.leased, not_guarded),
        )
        self.lines = {address: Line(address) for address in (FIRST, SECOND)}
        self.arrive(FIRST, "0001", alias="psu1")
        self.registry = ToolRegistry(static=static_tools(), pool=self.pool, catalog=self.catalog)
        self.dispatcher = ToolDispatcher(
            registry=self.registry,
            path=self.path,
            permissions=permissions,
            on_first_call=None,
            keep=lambda _caller: None,
        )

    def not_locked(self, _action: Action, target: Target) -> None:
        if self.is_locked and target.is_write:
            raise Refused("Hands inside.", code=ErrorCode.LOCKED_OUT)

    def arrive(
        self,
        address: str,
        serial: str,
        *,
        alias: str = "",
        profile: Profile | None = TOY,
        rules: UnitRules | None = None,
    ) -> Instrument:
        found = self.found(serial, alias, profile, rules or UnitRules())
        seat = Seat(key=parse_address(address).key, transport=parse_address(address).transport)
        return self.pool.arrive(self.lines[address], found, seat)  # type: ignore[arg-type]

    def found(self, serial: str, alias: str, profile: Profile | None, rules: UnitRules) -> Found:
        idn = f"TOY,S1,{serial},1.0"
        narrowed = tightened(profile, rules) if profile is not None else None
        return Found(
            idn=idn,
            identity=parse_idn(idn),
            profile=narrowed,
            rules=rules,
            connection=TOY.connection,
            alias=alias,
        )

    def relearn(
        self,
        number: int = 0,
        *,
        alias: str | None = None,
        profile: Profile | None = TOY,
        **rules: Any,
    ) -> None:
        units = self.pool.known()
        unit = units[number % len(units)]
        key = unit.identity.serial if rules else ""
        called = unit.alias if alias is None else alias
        found = self.found(unit.identity.serial, called, profile, UnitRules(key=key, **rules))
        self.pool.relearn([(unit, found)])

    def lease(self) -> None:
        """Somebody else has all units to himself from now on."""
        units = {unit_of_instrument(unit).key for unit in self.pool.known()}
        if free := [unit for unit in units if self.leases.of(unit, self.now()) is None]:
            self.leases.reserve(
                free, holder=Holder("o", "olga", "", ""), purpose="", ttl_s=60, now=self.now()
            )

    def end_leases(self) -> None:
        for lease in self.leases.all(self.now()):
            self.leases.end(lease.lease_id, now=self.now())

    def depart(self) -> None:
        self.pool.depart(self.pool.known()[0].actor or self.lines[FIRST], is_kept=True)  # type: ignore[arg-type]

    def begin(self, name: str, arguments: Mapping[str, Any], tell: Tell) -> Outcome | Underway:
        call = ToolCall(
            name=name, arguments=dict(arguments), caller=CALLER, action_id=f"a{next(self.ids)}"
        )
        return self.dispatcher.begin(call, tell)


Begin = Callable[[Tell], Outcome | Underway | None]


def seen(bench: Bench, begin: Begin) -> tuple[tuple[object, ...], Outcome]:
    """All that comes of a call, but for its time and its id; and its outcome."""
    return LOOP.run_until_complete(seen_here(bench, begin))


async def seen_here(bench: Bench, begin: Begin) -> tuple[tuple[object, ...], Outcome]:
    """The same on the loop of a test."""
    told: list[Outcome | None] = []
    rows, experience = len(bench.audit.rows), bench.experience.calls
    for line in bench.lines.values():
        line.said.clear()
    begun = begin(told.append)
    async with asyncio.timeout(HANGS_S):
        while True:
            bench.audit.commit()
            while talks := [line.talks[0] for line in bench.lines.values() if line.talks]:
                for talk in talks:
                    talk.answer()
            if isinstance(begun, Outcome) or told:
                break
            # The share of a budget is on the disk a turn later.
            await asyncio.sleep(0)
    outcome = begun if isinstance(begun, Outcome) else told.pop()
    assert outcome is not None
    assert not told
    data = {**outcome.data} if isinstance(outcome.data, dict) else outcome.data
    if isinstance(data, dict):
        data.pop("execution_time_ms", None)
        # What the other of the two set.
        data.pop("previous", None)
    error = outcome.error
    if error is not None and isinstance(data, dict):
        data.pop("error", None)
    entries = [
        entry._replace(time_ms=0, action_id="", duration_ms=0.0)
        for entry in bench.audit.rows[rows:]
    ]
    said = [*bench.lines[FIRST].said, *bench.lines[SECOND].said]
    why = (error.code, error.message, error.data) if error is not None else None
    counted = bench.experience.calls - experience
    return (outcome.status, why, data, outcome.scpi, said, entries, counted), outcome


CHANGES: Mapping[str, Callable[[Bench], object]] = {
    "nothing": lambda _bench: None,
    "denied": lambda bench: bench.relearn(deny=frozenset({"read"})),
    "limited": lambda bench: bench.relearn(limits={"read_channel": {"channel": Bound(max=1)}}),
    "dangerous": lambda bench: bench.relearn(is_dangerous=frozenset({"read"})),
    "not exposed": lambda bench: bench.relearn(expose=("none",)),
    "free": lambda bench: bench.relearn(),
    "a timer": lambda bench: bench.relearn(dead_man_s=5.0),
    "other words": lambda bench: bench.relearn(profile=OTHER_WORDS),
    "no profile": lambda bench: bench.relearn(profile=None),
    "called otherwise": lambda bench: bench.relearn(alias="supply"),
    "called as before": lambda bench: bench.relearn(alias="psu1"),
    "the other called so": lambda bench: bench.relearn(1, alias="psu1"),
    "a name given away": lambda bench: bench.pool.reserve({"psu1": "the one on the shelf"}),
    "its number given away": lambda bench: bench.pool.reserve({"0001": "another one"}),
    "no name given away": lambda bench: bench.pool.reserve({}),
    "another": lambda bench: bench.arrive(SECOND, "0002"),
    "the same elsewhere": lambda bench: bench.arrive(SECOND, "0001"),
    "away": lambda bench: bench.depart(),
    "back": lambda bench: bench.arrive(FIRST, "0001", alias="psu1"),
    "set to less": lambda bench: bench.relearn(limits={"set_voltage": {"voltage": Bound(max=1)}}),
    "dangerous to set": lambda bench: bench.relearn(is_dangerous=frozenset({"set_voltage"})),
    "not to be set": lambda bench: bench.relearn(deny=frozenset({"set_voltage"})),
    "locked": lambda bench: setattr(bench, "is_locked", True),
    "not locked": lambda bench: setattr(bench, "is_locked", False),
    "leased": lambda bench: bench.lease(),
    "not leased": lambda bench: bench.end_leases(),
    # Each call is made twice.
    "budgeted": lambda bench: bench.relearn(budget={"set_voltage": Budget(per_hour=4)}),
    "interlocked": lambda bench: setattr(bench.interlocks, "is_any", True),
    "not interlocked": lambda bench: setattr(bench.interlocks, "is_any", False),
    "full": lambda bench: setattr(bench.lines[FIRST], "is_full", True),
    "not full": lambda bench: setattr(bench.lines[FIRST], "is_full", False),
    "garbled": lambda bench: setattr(bench.lines[FIRST], "answers", "what?"),
    "readable": lambda bench: setattr(bench.lines[FIRST], "answers", "2.5"),
}
QUERIES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("execute_command", {"instrument_id": "psu1", "command_name": "read"}),
    ("execute_command", {"instrument_id": FIRST, "command_name": "read"}),
    ("execute_command", {"instrument_id": "0001", "command_name": "read"}),
    (
        "execute_command",
        {"instrument_id": "psu1", "command_name": "read_channel", "parameters": {"channel": 2}},
    ),
    ("toy_supply__read", {}),
    ("toy_supply__read_channel", {"channel": 1}),
    ("toy_supply__read_channel", {"channel": True}),
)
WRITE = (
    "execute_command",
    {"instrument_id": "psu1", "command_name": "set_voltage", "parameters": {"voltage": 1.5}},
)
CALLS = (*QUERIES, WRITE, ("toy_supply__set_voltage", {"voltage": 1.5, "channel": 2}))


def remembered(bench: Bench, known: Any, anew: Begin, tell: Tell) -> Outcome | Underway | None:
    """As a session asks what it was asked before."""
    begun = known(f"r{next(bench.ids)}", tell) if known is not None else None
    return anew(tell) if begun is None else begun


@settings(deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(sorted(CHANGES)), st.booleans()), min_size=1, max_size=8
    )
)
def test_what_was_remembered_changes_no_verdict_no_line_and_no_row(
    steps: list[tuple[str, bool]],
) -> None:
    bench = Bench()
    again: dict[int, Any] = {}
    for change, is_first in [("nothing", True), *steps]:
        CHANGES[change](bench)
        for number, (name, arguments) in enumerate(CALLS):
            anew = partial(bench.begin, name, arguments)
            both: list[Begin] = [partial(remembered, bench, again.get(number), anew), anew]
            if not is_first:
                both.reverse()
            (one, first), (other, second) = [seen(bench, begin) for begin in both]
            assert one == other, (change, name, arguments)
            # The newest counts, as in a session.
            latest = next((o.again for o in (first, second) if o.again is not None), None)
            if latest is not None:
                again[number] = latest


def remembered_read(bench: Bench) -> Any:
    _, outcome = seen(bench, lambda tell: bench.begin(*QUERIES[0], tell))
    assert outcome.again is not None
    return outcome.again


@pytest.mark.parametrize("change", sorted(CHANGES.keys() - {"nothing"}))
def test_it_is_judged_anew_once_a_rule_has_changed(change: str) -> None:
    bench = Bench()
    again, mark = remembered_read(bench), RULES.mark()
    CHANGES[change](bench)
    begun = again("r", lambda _: None)
    is_rule = change not in {
        *("full", "not full", "garbled", "readable", "locked", "not locked", "not interlocked"),
        *("leased", "not leased"),
    }
    assert (begun is None) is is_rule
    assert (RULES.mark() != mark) is (is_rule and change != "interlocked")


@pytest.mark.parametrize("change", ["locked", "not to be set", "set to less", "away", "leased"])
def test_a_write_in_the_same_words_is_judged_each_time(change: str) -> None:
    bench = Bench()
    (_, _, _, sent, said, *_), outcome = seen(bench, lambda tell: bench.begin(*WRITE, tell))
    assert sent == (":VOLT 1.500", ":VOLT?")
    again = outcome.again
    assert again is not None
    (*_, said_again, entries, _), outcome = seen(bench, lambda tell: again("second", tell))
    assert said_again == said
    assert [entry.phase for entry in entries] == ["intent", "end"]
    assert outcome.again is None
    CHANGES[change](bench)
    refused = seen(bench, partial(remembered, bench, again, partial(bench.begin, *WRITE)))
    (status, why, _, _, said, *_), _ = refused
    assert why is not None
    assert status in {OutcomeStatus.REFUSED, OutcomeStatus.FAILED}
    assert said == []


async def test_a_write_in_the_same_words_is_not_sent_unasked_once_somebody_wants_to_be_asked() -> (
    None
):
    bench = Bench()
    _, outcome = await seen_here(bench, lambda tell: bench.begin(*WRITE, tell))
    assert outcome.again is not None
    bench.relearn(confirm=(parse_confirm("set_voltage"),))
    bench.lines[FIRST].said.clear()
    anew = partial(bench.begin, *WRITE)
    for begin in (partial(remembered, bench, outcome.again, anew), anew):
        told: list[Outcome] = []
        begun = begin(told.append)
        async with asyncio.timeout(HANGS_S):
            while not isinstance(begun, Outcome) and not told:
                bench.audit.commit()
                await asyncio.sleep(0)
        refused = begun if isinstance(begun, Outcome) else told[0]
        assert refused.error is not None
        assert refused.error.code is ErrorCode.NEEDS_APPROVAL
    assert bench.lines[FIRST].said == []


def test_a_write_in_the_same_words_needs_its_permission_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    _, outcome = seen(bench, lambda tell: bench.begin(*WRITE, tell))
    again = outcome.again
    assert again is not None
    narrower = Grant(tools=frozenset({"get_status"}), danger=False)
    monkeypatch.setattr(bench.permissions, "_direct", narrower)
    (_, why, _, _, said, entries, _), _ = seen(bench, lambda tell: again("second", tell))
    assert isinstance(why, tuple)
    assert why[0] is ErrorCode.NOT_ALLOWED
    assert said == []
    assert [entry.phase for entry in entries] == ["refusal"]


def test_writes_in_the_same_words_that_wait_at_once_have_rows_and_guards_of_their_own() -> None:
    bench = Bench()
    _, outcome = seen(bench, lambda tell: bench.begin(*WRITE, tell))
    assert outcome.again is not None
    told: list[Any] = []
    rows = len(bench.audit.rows)
    outcome.again("w0", told.append)
    bench.audit.commit()
    bench.path._send_guards.stop(CALLER_CANCELLED)
    outcome.again("w1", told.append)
    bench.audit.commit()
    for _ in range(2):
        bench.lines[FIRST].talks[0].answer()
    stopped, sent = told
    assert stopped.error.code is ErrorCode.PREEMPTED
    assert sent.status is OutcomeStatus.OK
    assert [(row.phase, row.action_id) for row in bench.audit.rows[rows:]] == [
        ("intent", "w0"),
        ("intent", "w1"),
        ("end", "w0"),
        ("end", "w1"),
    ]


def test_a_write_in_the_same_words_is_judged_again_when_its_intent_is_on_disk() -> None:
    bench = Bench()
    _, outcome = seen(bench, lambda tell: bench.begin(*WRITE, tell))
    assert outcome.again is not None
    told: list[Outcome] = []
    bench.lines[FIRST].said.clear()
    outcome.again("second", told.append)
    bench.is_locked = True
    bench.audit.commit()
    assert [one.error.code for one in told if one.error] == [ErrorCode.LOCKED_OUT]
    assert bench.lines[FIRST].said == []


def test_it_is_not_judged_anew_while_none_has() -> None:
    bench = Bench()
    again = remembered_read(bench)
    judged: list[Action] = []
    bench.path._judge = lambda action: judged.append(action)  # type: ignore[method-assign, assignment, misc]
    for _ in range(3):
        _, outcome = seen(bench, lambda tell: again("r", tell))
        assert outcome.status is OutcomeStatus.OK
    assert not judged


@pytest.mark.parametrize(
    ("name", "arguments"), [QUERIES[-1], ("execute_command", {"instrument_id": "none"})]
)
def test_what_was_refused_is_not_remembered(name: str, arguments: Mapping[str, Any]) -> None:
    bench = Bench()
    _, outcome = seen(bench, lambda tell: bench.begin(name, arguments, tell))
    assert outcome.error is not None
    assert outcome.again is None


def test_what_was_asked_under_a_lease_is_not_remembered() -> None:
    bench = Bench()
    leased = dataclasses.replace(CALLER, lease="l")
    call = ToolCall(name="toy_supply__read", arguments={}, caller=leased, action_id="l")
    _, outcome = seen(bench, lambda tell: bench.dispatcher.begin(call, tell))
    assert outcome.status is OutcomeStatus.OK
    assert outcome.again is None


def test_its_row_is_there_before_it_is_told() -> None:
    bench = Bench()
    again = remembered_read(bench)
    rows: list[int] = []
    before = len(bench.audit.rows)
    for begin in (partial(again, "r"), partial(bench.begin, *QUERIES[0])):
        begin(lambda _: rows.append(len(bench.audit.rows) - before))
        bench.lines[FIRST].talks[0].answer()
    assert rows == [1, 2]


def test_it_can_be_cancelled_as_any_other() -> None:
    bench = Bench()
    again = remembered_read(bench)
    told: list[Outcome | None] = []
    begun = again("r", told.append)
    talk = bench.lines[FIRST].talks[0]
    assert bench.dispatcher.in_flight == 1
    begun.cancel(CALLER_CANCELLED)
    assert talk.is_withdrawn
    assert told == [None]
    assert bench.dispatcher.in_flight == 0
    assert bench.audit.rows[-1].code == ErrorCode.CANCELLED.value
    assert bench.audit.rows[-1].action_id == "r"


def test_several_of_one_may_wait_at_once() -> None:
    bench = Bench()
    again = remembered_read(bench)
    told: list[Any] = []
    for number in range(3):
        again(f"r{number}", told.append)
    for answer in ("1", "2", "3"):
        bench.lines[FIRST].answers = answer
        bench.lines[FIRST].talks[0].answer()
    assert [outcome.data["data"] for outcome in told] == [1.0, 2.0, 3.0]
    assert [row.action_id for row in bench.audit.rows[-3:]] == ["r0", "r1", "r2"]


def test_one_that_fails_has_a_row_of_its_own() -> None:
    bench = Bench()
    again = remembered_read(bench)
    bench.lines[FIRST].answers = "what?"
    _, failed = seen(bench, lambda tell: again("bad", tell))
    assert isinstance(failed.error, Failed)
    row = bench.audit.rows[-1]
    assert (row.action_id, row.outcome, row.code) == ("bad", "failed", "bad_answer")
    bench.lines[FIRST].answers = "2"
    _, good = seen(bench, lambda tell: again("good", tell))
    assert good.data["data"] == 2.0
    assert (bench.audit.rows[-1].action_id, bench.audit.rows[-1].code) == ("good", "")


def test_it_keeps_no_client() -> None:
    class Client:
        """It holds the connection that the first call came by."""

    bench, client = Bench(), Client()
    is_alive = weakref.ref(client)
    call = ToolCall(
        name="toy_supply__read",
        arguments={},
        caller=CALLER,
        action_id="first",
        client=client,  # type: ignore[arg-type]
    )
    _, outcome = seen(bench, partial(bench.dispatcher.begin, call))
    again = outcome.again
    del call, client, outcome
    gc.collect()
    assert again is not None
    assert is_alive() is None
