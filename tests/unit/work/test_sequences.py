import asyncio
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from edged.actions.action import Action, Purpose, RunCommand, RunSequence, SendScpi
from edged.actions.caller import Caller, Route
from edged.actions.cause import Cause
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.errors import Conflict, ErrorCode, Failed, Invalid, NotFound
from edged.profiles.model import (
    AbortStep,
    Changes,
    CommandStep,
    ForStep,
    PollStep,
    Profile,
    QueryStep,
    RowStep,
    Sequence,
    WaitStep,
)
from edged.profiles.unit_rules import UnitRules
from edged.runs.registry import Registry
from edged.runs.run_head import RunHead, RunKind
from edged.runs.sequences.registry import Sequences
from edged.runs.sequences.run import place_set
from edged.runs.sequences.steps import CHECKS_A_TURN
from edged.runs.wording import all_stopped_by, interlock_tripped
from edged.scpi.kinds import AnswerType
from tests.bench.context import NoNotes, NoPlan, bench_of
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.fake_instruments import FakeInstrument, FakePool
from tests.bench.sweep_bench import Notebook, Recorder
from tests.promises import promise
from tests.unit.profiles.test_raw import command
from tests.unit.profiles.test_raw import profile as supply_of

Answers = Callable[[RunCommand | SendScpi], Any]


class Lab:
    """Records what was performed and prechecked; answers as told."""

    def __init__(
        self,
        clock: DrivenClock,
        recorder: Any = None,
        profile: Profile | None = None,
    ) -> None:
        self.clock = clock
        self.performed: list[tuple[str, dict[str, Any], Purpose]] = []
        self.answers: dict[str, Any] = {}
        self.failing: dict[str, Failed] = {}
        self.refusing: dict[str, Invalid] = {}
        self.gate: dict[str, asyncio.Event] = {}
        self.arrived: dict[str, asyncio.Event] = {}
        self.pool = FakePool(FakeInstrument(id="psu", profile=profile))
        self.recorder = recorder or Recorder()
        ids = itertools.count()
        self.book = self.registry(self.perform, self.precheck, lambda: f"a{next(ids)}")

    def registry(
        self,
        perform: Any,
        precheck: Any,
        new_id: Any = lambda: "x",
        journal: Notebook | None = None,
    ) -> Sequences:
        self.runs = Registry(
            bench_of(
                self.clock,
                store={"journal": journal or Notebook()},
                pool=self.pool,
                new_id=new_id,
                perform=perform,
                precheck=precheck,
            ),
            recorder=self.recorder,
            notes=NoNotes(),
        )
        return Sequences(self.runs, new_plan=NoPlan)

    def precheck(self, action: Action) -> tuple[str, ...]:
        assert isinstance(action, RunCommand | SendScpi)
        name = action.command_name if isinstance(action, RunCommand) else action.scpi
        if name in self.refusing:
            raise self.refusing[name]
        return ()

    async def perform(self, action: Action) -> Outcome:
        assert isinstance(action, RunCommand | SendScpi)
        name = action.command_name if isinstance(action, RunCommand) else action.scpi
        parameters = dict(action.parameters) if isinstance(action, RunCommand) else {}
        self.performed.append((name, parameters, action.purpose))
        self.arrived.setdefault(name, asyncio.Event()).set()
        if name in self.gate:
            await self.gate[name].wait()
        if name in self.failing:
            return Outcome(status=OutcomeStatus.FAILED, error=self.failing[name], scpi=(name,))
        answer = self.answers.get(name)
        if isinstance(answer, list):
            answer = answer.pop(0)
        key = "data" if isinstance(action, RunCommand) else "response"
        return Outcome(status=OutcomeStatus.OK, data={key: answer}, scpi=(name,))

    async def reached(self, name: str) -> None:
        """Until that command is being performed."""
        async with asyncio.timeout(5):
            await self.arrived.setdefault(name, asyncio.Event()).wait()

    def names(self) -> list[str]:
        return [name for name, _, _ in self.performed]

    async def run(
        self, sequence: Sequence, *, alone_on: str = "", action_id: str = "outer", **values: Any
    ) -> Any:
        action = RunSequence(
            tool="execute_sequence",
            caller=Caller(route=Route.DIRECT, remote="127.0.0.1", client="claude-code 2.1"),
            action_id=action_id,
            instrument_id="psu",
            sequence_name=sequence.name,
        )
        return await self.book.run(action, sequence, values, alone_on=alone_on)


class Mistake(dict[str, Any]):
    """Answers of which one is a bug."""

    def get(self, name: str, default: Any = None) -> Any:
        return 1 / 0 if name == "measure" else default


def trigger_profile() -> Profile:
    """Of a unit whose READ? switches its output on."""
    read = replace(command("read", "READ?"), changes=Changes.OUTPUTS)
    return supply_of(read, command("level", "VOLT?"))


@pytest.fixture
def lab(driven_clock: DrivenClock) -> Lab:
    return Lab(driven_clock)


OFF = CommandStep(command="output_off", parameters={"channel": "{channel}"})
POINT = Sequence(
    name="point",
    steps=(
        CommandStep(command="set_voltage", parameters={"voltage": "{voltage}"}),
        CommandStep(command="output_on"),
        CommandStep(command="measure", save_as="v"),
    ),
    finally_steps=(OFF,),
    result={"voltage": "{v}"},
)


async def test_steps_run_in_order_and_the_result_holds_the_saved_answer(lab: Lab) -> None:
    lab.answers["measure"] = 4.98
    done = await lab.run(POINT, voltage=5.0, channel=1)
    assert lab.names() == ["set_voltage", "output_on", "measure", "output_off"]
    assert done.result == {"voltage": 4.98}
    assert done.steps_executed == 4
    assert lab.runs.running(RunKind.SEQUENCE) == ()


@promise("callers.conflict-names-who")
async def test_two_sequences_never_mix_their_steps_on_one_instrument(lab: Lab) -> None:
    lab.gate["measure"] = asyncio.Event()
    first = asyncio.create_task(lab.run(POINT, alone_on="PSU::1", voltage=5.0, channel=1))
    await lab.reached("measure")
    await lab.clock.advance(200)
    with pytest.raises(Conflict) as refused:
        await lab.run(POINT, alone_on="PSU::1", voltage=1.0, channel=1)
    held = "PSU::1 is held by seq-outer, started 3 min ago by claude-code 2.1 at 127.0.0.1, which"
    assert held in refused.value.message
    assert refused.value.code is ErrorCode.BUSY
    assert refused.value.data["who"] == "claude-code 2.1 at 127.0.0.1"
    assert lab.names() == ["set_voltage", "output_on", "measure"]
    asking = Sequence(name="asking", steps=(CommandStep(command="identify"),))
    await lab.run(asking, action_id="b")
    await lab.run(asking, alone_on="PSU::2", action_id="c")
    lab.gate["measure"].set()
    await first
    await lab.run(POINT, alone_on="PSU::1", voltage=1.0, channel=1)


async def test_finally_steps_overtake_what_waits_on_the_line(lab: Lab) -> None:
    await lab.run(POINT, voltage=5.0, channel=1)
    assert lab.performed[-1] == ("output_off", {"channel": 1}, Purpose.FINALLY_STEP)


async def test_a_failed_step_runs_finally_and_tells_what_was_sent(lab: Lab) -> None:
    lab.failing["output_on"] = Failed("no answer", code=ErrorCode.TIMEOUT)
    with pytest.raises(Failed, match="no answer") as failure:
        await lab.run(POINT, voltage=5.0, channel=1)
    assert lab.names() == ["set_voltage", "output_on", "output_off"]
    assert failure.value.code is ErrorCode.STEP_FAILED
    assert failure.value.sent == ("set_voltage", "output_on", "output_off")


async def test_a_failed_finally_step_fails_a_run_that_went_well(lab: Lab) -> None:
    lab.failing["output_off"] = Failed("pulled")
    with pytest.raises(Failed, match="finally steps failed"):
        await lab.run(POINT, voltage=5.0, channel=1)


async def test_a_mistake_of_our_own_in_a_step_leaves_finally_run(lab: Lab) -> None:
    lab.answers = Mistake()
    with pytest.raises(Failed, match="made a mistake") as failure:
        await lab.run(POINT, voltage=5.0, channel=1)
    assert failure.value.code is ErrorCode.STEP_FAILED
    assert lab.names() == ["set_voltage", "output_on", "measure", "output_off"]


async def test_every_finally_step_is_tried_also_after_one_that_failed(lab: Lab) -> None:
    lab.failing["first"] = Failed("no")
    sequence = Sequence(
        name="s",
        steps=(),
        finally_steps=(CommandStep(command="first"), CommandStep(command="second")),
    )
    with pytest.raises(Failed):
        await lab.run(sequence)
    assert lab.names() == ["first", "second"]


async def test_a_step_that_would_be_refused_is_found_before_the_first_is_sent(lab: Lab) -> None:
    lab.refusing["output_off"] = Invalid("channel 9 is over the maximum 3")
    with pytest.raises(Invalid, match="channel 9"):
        await lab.run(POINT, voltage=5.0, channel=9)
    assert lab.performed == []


async def test_a_client_that_goes_away_leaves_finally_run(lab: Lab) -> None:
    lab.gate["measure"] = asyncio.Event()
    task = asyncio.create_task(lab.run(POINT, voltage=5.0, channel=1))
    await lab.reached("measure")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lab.names()[-1] == "output_off"


async def test_a_client_that_goes_away_during_finally_does_not_stop_it(lab: Lab) -> None:
    lab.gate["output_off"] = asyncio.Event()
    task = asyncio.create_task(lab.run(POINT, voltage=5.0, channel=1))
    await lab.reached("output_off")
    task.cancel()
    await asyncio.sleep(0)
    lab.gate["output_off"].set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lab.runs.running(RunKind.SEQUENCE) == ()


def safe_profile() -> Profile:
    """Of a unit with one safe command."""
    off = replace(command("output_off", "OUTP OFF"), is_safe=True)
    return supply_of(off, command("set_voltage", "VOLT 1"), command("measure", "VOLT?"))


@pytest.mark.parametrize("cause", [all_stopped_by("alice"), interlock_tripped("lid")])
async def test_after_stop_all_and_a_trip_only_safe_commands_of_finally_run(
    driven_clock: DrivenClock, cause: Cause
) -> None:
    lab = Lab(driven_clock, profile=safe_profile())
    lab.gate["measure"] = asyncio.Event()
    down = CommandStep(command="set_voltage", parameters={"voltage": 0})
    loop = ForStep(name="channel", kind="list", values=(1, 2), steps=(down, OFF))
    last = QueryStep(query="VOLT?", save_as="rest", type=AnswerType.FLOAT)
    sequence = replace(POINT, finally_steps=(down, loop, last, OFF))
    task = asyncio.create_task(lab.run(sequence, voltage=5.0, channel=1))
    await lab.reached("measure")

    await lab.runs.stop_all(cause)

    with pytest.raises(Failed, match="was stopped") as failure:
        await task
    assert lab.names()[3:] == ["output_off"] * 3
    assert "not sent of its finally steps: set_voltage, VOLT?" in failure.value.message
    (over,) = lab.runs.runs()
    assert over.notes == (f"{cause.reason}: not sent of its finally steps: set_voltage, VOLT?",)


async def test_a_finally_step_that_waits_when_all_is_stopped_is_not_sent_any_more(
    driven_clock: DrivenClock,
) -> None:
    lab = Lab(driven_clock, profile=safe_profile())
    lab.gate["set_voltage"] = asyncio.Event()
    down = CommandStep(command="set_voltage", parameters={"voltage": 0})
    sequence = Sequence(name="s", steps=(), finally_steps=(down, OFF))
    task = asyncio.create_task(lab.run(sequence, channel=1))
    await lab.reached("set_voltage")

    await lab.runs.stop_all(all_stopped_by("alice"))

    with pytest.raises(Failed, match="was stopped"):
        await task
    assert lab.names() == ["set_voltage", "output_off"]


async def test_after_any_other_end_the_whole_finally_runs(driven_clock: DrivenClock) -> None:
    lab = Lab(driven_clock, profile=safe_profile())
    lab.gate["measure"] = asyncio.Event()
    down = CommandStep(command="set_voltage", parameters={"voltage": 0})
    task = asyncio.create_task(lab.run(replace(POINT, finally_steps=(down, OFF)), voltage=1,
                                       channel=1))  # fmt: skip
    await lab.reached("measure")

    await lab.book.stop("seq-outer", "alice")

    with pytest.raises(Failed, match="was stopped"):
        await task
    assert lab.names()[3:] == ["set_voltage", "output_off"]


async def test_stop_all_ends_a_run_as_a_failure_that_says_so(driven_clock: DrivenClock) -> None:
    lab = Lab(driven_clock, profile=safe_profile())
    lab.gate["measure"] = asyncio.Event()
    task = asyncio.create_task(lab.run(POINT, voltage=5.0, channel=1))
    await lab.reached("measure")
    await lab.runs.stop_all(all_stopped_by("alice"))
    with pytest.raises(Failed, match="was stopped") as failure:
        await task
    assert failure.value.data["state"] == "stopped"
    assert lab.names()[-1] == "output_off"


async def test_a_run_that_is_stopped_while_its_steps_are_judged_sends_nothing(lab: Lab) -> None:
    """A long sequence is judged in turns with others."""
    steps = (CommandStep(command="output_on"),) * CHECKS_A_TURN * 2
    task = asyncio.create_task(lab.run(Sequence(name="long", steps=steps)))
    await asyncio.sleep(0)
    assert [run["sequence_name"] for run in lab.runs.running(RunKind.SEQUENCE)] == ["long"]
    await lab.runs.stop_all(all_stopped_by("alice"))
    with pytest.raises(Failed, match="long did not begin, because everything was stopped"):
        await task
    assert lab.names() == []


async def test_finally_steps_that_hang_are_given_up_at_their_deadline(lab: Lab) -> None:
    lab.gate["output_off"] = asyncio.Event()
    sequence = Sequence(name="s", steps=(), finally_steps=(OFF,), finally_timeout_ms=20)
    with pytest.raises(Failed, match="20 ms"):
        await lab.run(sequence, channel=1)


async def test_a_loop_makes_rows_with_expressions(lab: Lab) -> None:
    lab.answers["measure"] = [0.1, 0.2, 0.3]
    sequence = Sequence(
        name="iv",
        steps=(
            ForStep(
                name="v",
                kind="lin",
                values=(0, "{stop}", 3),
                steps=(
                    CommandStep(command="set_voltage", parameters={"voltage": "{v}"}),
                    CommandStep(command="measure", save_as="i"),
                    RowStep(columns={"v": "{v}", "i_ma": "i * 1000"}),
                ),
            ),
        ),
    )
    done = await lab.run(sequence, stop=2)
    assert [row["v"] for row in done.result["rows"]] == [0, 1, 2]
    assert [row["i_ma"] for row in done.result["rows"]] == pytest.approx([100, 200, 300])


async def test_every_turn_of_a_loop_is_checked_before_the_first_is_sent(lab: Lab) -> None:
    seen: list[Any] = []

    def precheck(action: Action) -> tuple[str, ...]:
        assert isinstance(action, RunCommand)
        seen.append(action.parameters["voltage"])
        if action.parameters["voltage"] > 30:
            raise Invalid("voltage 40 is over the maximum 30")
        return ()

    lab.book = lab.registry(lab.perform, precheck)
    step = CommandStep(command="set_voltage", parameters={"voltage": "{v}"})
    loop = ForStep(name="v", kind="list", values=(10, 20, 40), steps=(step,))
    with pytest.raises(Invalid):
        await lab.run(Sequence(name="s", steps=(loop,)))
    assert seen == [10, 20, 40]
    assert lab.performed == []


async def test_a_wait_takes_its_time(lab: Lab) -> None:
    task = asyncio.create_task(
        lab.run(Sequence(name="s", steps=(WaitStep(wait_ms="{ms}"),)), ms=200)
    )
    await lab.clock.advance(0.199)
    assert not task.done()
    await lab.clock.advance(0.002)
    await task


async def test_a_poll_asks_until_it_holds(lab: Lab) -> None:
    lab.answers["STAT?"] = ["0", "0", "1"]
    poll = PollStep(poll="STAT?", until="value == 1", is_command=False, every_ms=100)
    task = asyncio.create_task(lab.run(Sequence(name="s", steps=(poll,))))
    await lab.clock.advance(0.25)
    await task
    assert lab.names() == ["STAT?"] * 3


@pytest.mark.parametrize("answer", ["1TS000033", "1_000", "1.5 V", "\u0661"])
async def test_a_poll_whose_answer_cannot_be_judged_is_a_bad_answer_that_shows_it(
    lab: Lab, answer: str
) -> None:
    lab.answers["STAT?"] = answer
    poll = PollStep(poll="STAT?", until="value == 33", is_command=False)
    with pytest.raises(Failed, match=re.escape(f'"STAT?" answered "{answer}"')) as failed:
        await lab.run(Sequence(name="s", steps=(poll,)))
    assert "until" in failed.value.message


async def test_a_poll_that_never_holds_fails_with_the_last_answer(lab: Lab) -> None:
    lab.answers["STAT?"] = "0"
    poll = PollStep(poll="STAT?", until="value == 1", is_command=False, timeout_ms=300)
    task = asyncio.create_task(lab.run(Sequence(name="s", steps=(poll,))))
    await lab.clock.advance(1)
    with pytest.raises(Failed, match="answered 0"):
        await task


UNFIT = (
    (PollStep(poll="STAT?", until="value > 1", is_command=False), {}),
    (RowStep(columns={"twice": "2 * v"}), {}),
    (WaitStep(wait_ms="v"), {}),
    (ForStep(name="n", kind="lin", values=("v", 2, 2), steps=(OFF,)), {}),
    (OFF, {"twice": "{2 * v}"}),
)


@promise("call.sent-is-failed")
@pytest.mark.parametrize(("step", "result"), UNFIT, ids=["until", "row", "wait", "for", "result"])
async def test_an_expression_that_does_not_fit_an_answer_is_a_failed_run_that_tells_what_was_sent(
    lab: Lab, step: Any, result: dict[str, str]
) -> None:
    lab.answers["STAT?"] = "ST33"
    lab.answers["measure"] = "overload"
    asked = CommandStep(command="measure", save_as="v")
    unfit = Sequence(name="s", steps=(asked, step), finally_steps=(OFF,), result=result)
    with pytest.raises(Failed, match="did not complete") as failed:
        await lab.run(unfit, channel=1)
    assert failed.value.code is ErrorCode.STEP_FAILED
    assert failed.value.sent[0] == "measure"
    assert failed.value.sent[-1] == "output_off"


async def test_a_raw_query_is_saved_with_its_type(lab: Lab) -> None:
    lab.answers["MEAS? CH2"] = "1.25"
    sequence = Sequence(
        name="s",
        steps=(QueryStep(query="MEAS? CH{channel}", save_as="v", type=AnswerType.FLOAT),),
        result={"v": "{v}"},
    )
    done = await lab.run(sequence, channel=2)
    assert done.result == {"v": 1.25}


async def test_nested_actions_carry_the_outer_tool_and_name_their_parent(lab: Lab) -> None:
    seen: list[Action] = []

    async def perform(action: Action) -> Outcome:
        seen.append(action)
        return Outcome(status=OutcomeStatus.OK, data={"data": None})

    lab.book = lab.registry(perform, lab.precheck)
    await lab.run(Sequence(name="s", steps=(CommandStep(command="c"),)))
    assert seen[0].parent_id == "outer"
    assert seen[0].caller.outer_tool == "execute_sequence"
    assert seen[0].caller.outer_scope == "s"
    assert seen[0].caller.on_behalf_of == "seq-outer"


class Sink:
    """A recorder, and its only recording."""

    def __init__(self) -> None:
        self.heads: list[RunHead] = []
        self.rows: list[tuple[Any, ...]] = []
        self.ends: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.is_ending = asyncio.Event()

    async def open(self, head: RunHead) -> "Sink":
        self.heads.append(head)
        return self

    def append(self, row: Any) -> None:
        self.rows.append(tuple(row))

    def append_samples(self, name: str, type_code: str, samples: bytes) -> None:
        raise AssertionError("no samples here")

    def told(self) -> dict[str, Any]:
        run_id = self.heads[0].run_id
        return {"run_id": run_id, "path": "/x", "rows": len(self.rows), "error": ""}

    async def close(self, status: str, summary: Any = None) -> None:
        self.is_ending.set()
        await self.may_end.wait()
        self.ends.append(status)


async def test_the_table_of_a_sequence_is_recorded_row_by_row(driven_clock: DrivenClock) -> None:
    sink = Sink()
    lab = Lab(driven_clock, sink)
    sequence = Sequence(
        name="table",
        steps=(
            ForStep(
                name="v",
                kind="list",
                values=(1, 2),
                steps=(RowStep(columns={"v": "{v}", "twice": "v * 2"}),),
            ),
        ),
    )
    done = await lab.run(sequence)
    assert [column.name for column in sink.heads[0].columns] == ["v", "twice"]
    assert sink.rows == [(1, 2), (2, 4)]
    assert sink.ends == ["completed"]
    assert done.recording is not None
    assert done.recording["run_id"] == sink.heads[0].run_id


async def test_a_caller_that_goes_while_the_recording_ends_leaves_nothing_running(
    driven_clock: DrivenClock,
) -> None:
    sink = Sink()
    sink.may_end.clear()
    lab = Lab(driven_clock, sink)
    sequence = Sequence(name="table", steps=(RowStep(columns={"v": "1"}),))
    task = asyncio.create_task(lab.run(sequence))
    await sink.is_ending.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lab.runs.running(RunKind.SEQUENCE) == ()
    sink.may_end.set()
    await settle()
    assert sink.ends == ["completed"]


class Sheet:
    """A recording in memory."""

    def __init__(self, head: RunHead) -> None:
        self.head = head
        self.rows: list[tuple[Any, ...]] = []
        self.ended: tuple[str, Any] | None = None

    def append(self, row: Any) -> None:
        self.rows.append(tuple(row))

    def append_samples(self, name: str, type_code: str, samples: bytes | bytearray) -> None:
        raise AssertionError((name, type_code, samples))

    def told(self) -> dict[str, Any]:
        return {"run_id": self.head.run_id}

    async def close(self, status: str, summary: Any = None) -> None:
        self.ended = (status, summary)


class Shelf:
    """Every recording that was begun."""

    def __init__(self) -> None:
        self.sheets: list[Sheet] = []
        self.may_open = asyncio.Event()
        self.may_open.set()

    async def open(self, head: RunHead) -> Sheet:
        await self.may_open.wait()
        self.sheets.append(Sheet(head))
        return self.sheets[-1]


TABLE = Sequence(
    name="table",
    steps=(
        CommandStep(command=":VOLT 5"),
        CommandStep(command=":OUTP CH1,ON"),
        CommandStep(command="measure?", save_as="v"),
        RowStep(columns={"v": "v"}),
        CommandStep(command="wait?"),
    ),
    finally_steps=(CommandStep(command=":OUTP CH1,OFF"),),
)


@promise("runs.on-disk-at-once")
async def test_a_sequence_without_rows_is_recorded_from_its_beginning_with_who_asked(
    driven_clock: DrivenClock,
) -> None:
    shelf = Shelf()
    lab = Lab(driven_clock, shelf)
    lab.gate["measure"] = asyncio.Event()
    begun_ms = driven_clock.wall_ms()
    running = asyncio.create_task(lab.run(POINT, voltage=5.0, channel=1))
    await lab.reached("measure")
    await driven_clock.advance(7)
    (sheet,) = shelf.sheets
    assert (sheet.head.run_id, sheet.ended) == ("seq-outer", None)
    assert sheet.head.caller.who == "claude-code 2.1 at 127.0.0.1"
    assert sheet.head.started_ms == begun_ms
    lab.gate["measure"].set()
    assert (await running).recording is None
    await settle()
    assert sheet.ended is not None
    assert (sheet.ended[0], len(shelf.sheets)) == ("completed", 1)


async def test_a_disk_that_hangs_keeps_no_sequence_without_rows_from_its_end(
    driven_clock: DrivenClock,
) -> None:
    shelf = Shelf()
    shelf.may_open.clear()
    lab = Lab(driven_clock, shelf)
    done = await lab.run(POINT, voltage=5.0, channel=1)
    assert done.steps_executed == 4
    shelf.may_open.set()
    await settle()
    assert shelf.sheets[0].ended is not None
    assert shelf.sheets[0].ended[0] == "completed"


async def test_one_that_is_refused_before_its_first_step_leaves_no_recording(
    driven_clock: DrivenClock,
) -> None:
    shelf = Shelf()
    lab = Lab(driven_clock, shelf)
    lab.refusing["output_on"] = Invalid("over the limit")
    with pytest.raises(Invalid):
        await lab.run(POINT, voltage=5.0, channel=1)
    assert (shelf.sheets, lab.runs.runs()) == ([], ())


@promise("sequence.client-gone-tells")
async def test_what_was_measured_before_the_client_went_and_what_is_left_is_told(
    driven_clock: DrivenClock,
) -> None:
    shelf = Shelf()
    lab = Lab(driven_clock, shelf)
    lab.answers["measure?"] = 1.5
    lab.gate["wait?"] = asyncio.Event()
    running = asyncio.create_task(lab.run(TABLE))
    await lab.reached("wait?")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    sheet = shelf.sheets[0]
    assert sheet.rows == [(1.5,)]
    assert sheet.ended is not None
    state, summary = sheet.ended
    assert state == "cancelled"
    assert summary["left"] == [":VOLT 5", ":OUTP CH1,OFF"]
    assert summary["reason"] == "its client went away after 4 steps"
    assert summary["error"] == "It set the following, and did not undo it: :VOLT 5; :OUTP CH1,OFF."
    (told,) = lab.runs.runs()
    assert (told.state, told.rows, told.error) == ("cancelled", 1, summary["error"])


@promise("sequence.client-gone-tells")
async def test_a_query_that_sets_something_is_told_as_left_set(driven_clock: DrivenClock) -> None:
    shelf = Shelf()
    lab = Lab(driven_clock, shelf, trigger_profile())
    lab.gate["wait?"] = asyncio.Event()
    steps = (CommandStep(command="READ?"), CommandStep(command="VOLT?"))
    sequence = Sequence(name="acting", steps=(*steps, CommandStep(command="wait?")))
    running = asyncio.create_task(lab.run(sequence))
    await lab.reached("wait?")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert shelf.sheets[0].ended is not None
    assert shelf.sheets[0].ended[1]["left"] == ["READ?"]


@promise("sequence.detach")
async def test_a_detached_one_is_told_at_once_and_goes_on_by_itself(
    driven_clock: DrivenClock,
) -> None:
    shelf = Shelf()
    lab = Lab(driven_clock, shelf)
    lab.gate["measure"] = asyncio.Event()
    action = RunSequence(
        tool="execute_sequence",
        caller=Caller(route=Route.DIRECT),
        action_id="outer",
        instrument_id="psu",
        sequence_name=POINT.name,
    )
    values = {"voltage": 5.0, "channel": 1}
    run_id = await lab.book.detach(action, POINT, values, alone_on="PSU::1")
    assert run_id == "seq-outer"
    await lab.reached("measure")
    assert [run.state for run in lab.runs.runs()] == ["running"]
    with pytest.raises(Conflict):
        await lab.run(POINT, alone_on="PSU::1", voltage=1.0, channel=1)
    lab.gate["measure"].set()
    await settle()
    assert [run.state for run in lab.runs.runs()] == ["completed"]
    # What has no table is a run, too.
    assert [(sheet.head.run_id, sheet.ended and sheet.ended[0]) for sheet in shelf.sheets] == [
        (run_id, "completed")
    ]


async def test_a_detached_one_that_is_refused_is_refused_at_once(lab: Lab) -> None:
    lab.refusing["output_on"] = Invalid("over the limit")
    action = RunSequence(
        tool="execute_sequence",
        caller=Caller(route=Route.DIRECT),
        action_id="outer",
        instrument_id="psu",
        sequence_name=POINT.name,
    )
    with pytest.raises(Invalid, match="over the limit"):
        await lab.book.detach(action, POINT, {"voltage": 5.0, "channel": 1})
    assert lab.names() == []
    assert lab.runs.running(RunKind.SEQUENCE) == ()


async def test_one_of_several_is_stopped_by_its_id(lab: Lab) -> None:
    lab.gate["measure"] = asyncio.Event()
    running = asyncio.create_task(lab.run(POINT, voltage=5.0, channel=1))
    await lab.reached("measure")
    assert (await lab.book.stop("seq-outer", "alice"))["status"] == "stopped"
    with pytest.raises(Failed, match="was stopped"):
        await running
    assert (await lab.book.stop("seq-outer", "alice"))["status"] == "stopped"
    with pytest.raises(NotFound):
        await lab.book.stop("seq-nobody", "alice")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (":SOUR1:VOLT 5", ":SOUR1:VOLT "),
        (":OUTP CH1,ON", ":OUTP CH1"),
        ("VOLT 5,(@1)", "VOLT (@1)"),
        ("OUTP ON,(@1,2)", "OUTP (@1,2)"),
        ("*RST", "*RST "),
    ],
)
def test_what_a_line_sets_is_all_of_it_but_the_value(line: str, place: str) -> None:
    assert place_set(line) == place


@promise("approval.shown")
async def test_a_forecast_names_each_step_of_a_loop_whose_values_are_not_known_yet(
    lab: Lab,
) -> None:
    inner = ForStep(
        name="i", kind="list", values=(1, 2), steps=(CommandStep(command="set_current"),)
    )
    loop = ForStep(
        name="v",
        kind="lin",
        values=(0, "{measured}", 3),
        steps=(CommandStep(command="set_voltage"), WaitStep(wait_ms=1), inner),
    )
    sequence = Sequence(name="s", steps=(CommandStep(command="measure", save_as="measured"), loop))
    action = RunSequence(
        tool="execute_sequence",
        caller=Caller(route=Route.DIRECT),
        action_id="outer",
        instrument_id="psu",
        sequence_name="s",
    )
    forecast = await lab.book.rehearse(action, sequence, {}, lab.precheck)
    assert list(forecast.later) == ["for v: set_voltage, for i: set_current"]


async def test_the_journal_leaves_out_what_may_stay_on_as_the_owner_says_now(
    driven_clock: DrivenClock,
) -> None:
    on = replace(command("output_on", "OUTP ON"), is_dangerous=True)
    profile = replace(supply_of(on, command("measure", "VOLT?")),
                      abort=(AbortStep(send="OUTP OFF"), AbortStep(send="VOLT 0")))  # fmt: skip
    lab = Lab(driven_clock, profile=profile)
    unit = lab.pool.get("psu")
    unit.rules = UnitRules(key="psu", may_stay_on=frozenset({"output_on"}))
    journal = Notebook()
    lab.book = lab.registry(lab.perform, lab.precheck, itertools.count().__next__, journal)
    lab.gate["measure"] = asyncio.Event()
    sequence = replace(POINT, finally_steps=(CommandStep(command="measure"),))
    task = asyncio.create_task(lab.run(sequence, voltage=1, channel=1))
    await lab.reached("measure")
    (row,) = journal.open.values()
    assert (row["abort"], row["stays"]) == (["VOLT 0"], ["OUTP OFF"])

    unit.rules = UnitRules(key="psu")
    await driven_clock.advance(21)

    assert (row["abort"], row["stays"]) == (["OUTP OFF", "VOLT 0"], [])
    lab.gate["measure"].set()
    await task
