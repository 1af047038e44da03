import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from edged.errors import ErrorCode, Failed
from edged.profiles.abort import Proof
from edged.runs.crash_recovery import AfterCrash
from edged.runs.left_work import Clean, LeftWork, is_still_there
from edged.store.journal import JournalEntry, JournalKind
from tests.bench.context import bench_of
from tests.bench.driven_clock import START_WALL_MS, DrivenClock
from tests.bench.sweep_bench import Notebook
from tests.promises import promise

IDN = "TOY,R1,0001,1.0"
PAYLOAD = {
    "address": "TCPIP::h::1::SOCKET",
    "profile": "toy_ramp",
    "command": "set_voltage",
    "unit": "V",
    "target": 5.0,
    "setpoint": ":VOLT?",
    "abort": [":OUTP CH1,OFF"],
    "last_step": 2.0,
    "reach": 0.6,
    "tolerance": 0.001,
}


def entry(
    *, age_s: float = 5, kind: JournalKind = JournalKind.SWEEP, **payload: Any
) -> JournalEntry:
    return JournalEntry(
        id="sweep-1",
        kind=kind,
        instrument_id="TCPIP::h::1::SOCKET",
        unit="TOY|R1|0001",
        payload={**PAYLOAD, **payload},
        begun_ms=START_WALL_MS - 3_600_000,
        updated_ms=START_WALL_MS - round(age_s * 1000),
    )


@dataclass
class Bench:
    """One instrument behind an address, and what was sent to it."""

    clock: DrivenClock
    idn: str = IDN
    setpoint: str = "2.000"
    output: str = "OFF"
    troubles: list[Failed] = field(default_factory=list)
    asked: int = 0
    questions: list[Sequence[str]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    events: list[tuple[str, str, str, str]] = field(default_factory=list)
    journal: Notebook = field(default_factory=Notebook)
    visited: dict[str, LeftWork] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def visit(self, address: str, journal: Mapping[str, Any]) -> AsyncIterator["Bench"]:
        assert (address, journal["profile"]) == ("TCPIP::h::1::SOCKET", "toy_ramp")
        yield self

    async def identify(self) -> str:
        self.asked += 1
        if self.troubles:
            raise self.troubles.pop(0)
        return self.idn

    async def ask(self, query: str) -> str:
        assert query == ":VOLT?"
        return self.setpoint

    async def abort(
        self, lines: tuple[str, ...], asks: Sequence[Sequence[str]] = ()
    ) -> tuple[str, ...]:
        self.sent += lines
        self.questions += asks
        return tuple(self.output for _ in asks)

    async def found(self, *entries: JournalEntry) -> AfterCrash:
        self.journal.left = entries
        after = AfterCrash(
            bench=bench_of(
                self.clock,
                store={"journal": self.journal},
                tell=lambda *event: self.events.append(event),
            ),
            visit=self.visit,
            visited=self.visited,
        )
        cleaning = asyncio.create_task(after.clean_up())
        while not cleaning.done():
            await self.clock.advance(0.25)
        await cleaning
        return after


@pytest.fixture
def bench(driven_clock: DrivenClock) -> Bench:
    return Bench(driven_clock)


@promise("crash.rule")
async def test_a_young_journal_of_the_same_unit_has_its_abort_sent(bench: Bench) -> None:
    bench.setpoint = "7.7"
    after = await bench.found(entry())
    assert bench.sent == [":OUTP CH1,OFF"]
    told = after.found[0].told()
    assert (told["status"], told["needs_attention"]) == ("failed", False)
    assert bench.journal.left == ()
    assert bench.events[0][0] == "sweep.after_crash"


@promise("crash.who")
@pytest.mark.parametrize(
    ("caller", "who"),
    [
        (
            {"route": "direct", "client": "claude-code 2.1", "remote": "::1"},
            "claude-code 2.1 at ::1",
        ),
        ({"route": "relay", "subject": "alice", "remote": "10.0.0.7"}, "alice at 10.0.0.7"),
        ({"route": "internal"}, "edged itself"),
        (["spoiled"], "somebody"),
        (None, "somebody"),
    ],
)
async def test_what_was_left_tells_who_had_begun_it(bench: Bench, caller: Any, who: str) -> None:
    for kind in JournalKind:
        after = await bench.found(entry(kind=kind, caller=caller))
        assert after.found[0].told()["who"] == who
        assert after.found[0].as_run().head.caller.who == who


@pytest.mark.parametrize(("output", "needs_attention"), [("OFF", False), ("ON", True)])
async def test_an_abort_after_a_crash_counts_only_where_the_unit_says_that_it_is_off(
    bench: Bench, output: str, *, needs_attention: bool
) -> None:
    bench.output = output
    proofs = [{"query": ":OUTP? CH1", "wanted": "OFF", "expect": ""}]
    after = await bench.found(entry(proofs=proofs))
    assert bench.sent == [":OUTP CH1,OFF"]
    told = after.found[0].told()
    assert told["needs_attention"] is needs_attention
    assert ("answers 'ON'" in told["error"]) is needs_attention
    assert "Nothing was sent" not in told["error"]


@promise("crash.rule")
async def test_an_abort_after_a_crash_selects_again_what_each_question_is_about(
    bench: Bench,
) -> None:
    bench.output = "ON"
    proofs = [Proof("OUTP?", "OFF", selecting=(line,)) for line in ("INST:NSEL 1", "INST:NSEL 2")]
    after = await bench.found(entry(proofs=[proof.to_json() for proof in proofs]))
    assert bench.questions == [("INST:NSEL 1", "OUTP?"), ("INST:NSEL 2", "OUTP?")]
    assert "INST:NSEL 1; OUTP? answers 'ON'" in after.found[0].told()["error"]


@promise("crash.rule")
@pytest.mark.parametrize("setpoint", ["2.000", "2.6", "1.9995"])
async def test_an_old_journal_is_acted_on_only_where_the_set_point_still_is_its_step(
    bench: Bench, setpoint: str
) -> None:
    bench.setpoint = setpoint
    await bench.found(entry(age_s=4000))
    assert bench.sent == [":OUTP CH1,OFF"]


@promise("crash.rule")
@pytest.mark.parametrize("setpoint", ["1.9", "2.7", "0", "nonsense"])
async def test_an_old_journal_whose_set_point_has_moved_wants_a_person(
    bench: Bench, setpoint: str
) -> None:
    bench.setpoint = setpoint
    after = await bench.found(entry(age_s=4000))
    assert bench.sent == []
    assert after.found[0].told()["needs_attention"]
    assert bench.journal.left != ()
    await after.made_safe("TOY|R1|0001")
    assert not after.found[0].needs_attention
    assert bench.journal.left == ()


@pytest.mark.parametrize(
    "change",
    [
        {"idn": "TOY,R1,0002,1.0"},
        {"troubles": [Failed("Nobody is there.", code=ErrorCode.DISCONNECTED)] * 3},
        {"troubles": [Failed("It says who it is not.", code=ErrorCode.BAD_ANSWER)]},
    ],
)
async def test_another_unit_or_none_gets_nothing(bench: Bench, change: dict[str, Any]) -> None:
    for name, value in change.items():
        setattr(bench, name, value)
    after = await bench.found(entry())
    assert bench.sent == []
    assert after.found[0].needs_attention


async def test_another_unit_made_safe_at_that_address_does_not_stand_for_the_one_left(
    bench: Bench,
) -> None:
    bench.idn = "TOY,R1,0002,1.0"
    after = await bench.found(entry())
    await after.made_safe("TOY|R1|0002")
    assert after.found[0].needs_attention
    assert bench.journal.left != ()


@promise("units.twins")
async def test_a_twin_made_safe_does_not_stand_for_the_one_left(bench: Bench) -> None:
    bench.setpoint = "2.7"
    left = entry(age_s=4000)
    after = await bench.found(left)
    await after.made_safe("TOY|R1|0001", instrument_id="TCPIP::127.0.0.2::1::SOCKET")
    assert after.found[0].needs_attention
    await after.made_safe("TOY|R1|0001", instrument_id=left.instrument_id)
    assert not after.found[0].needs_attention


async def test_a_unit_that_is_busy_with_what_the_dead_daemon_asked_is_asked_again(
    bench: Bench,
) -> None:
    bench.troubles = [
        Failed("It did not answer.", code=ErrorCode.TIMEOUT),
        Failed("It is not connected.", code=ErrorCode.DISCONNECTED),
    ]
    after = await bench.found(entry())
    assert bench.asked == 3
    assert bench.sent == [":OUTP CH1,OFF"]
    assert not after.found[0].needs_attention


@pytest.mark.parametrize("done", list(Clean))
async def test_what_first_aid_has_visited_is_told_of_and_not_visited_again(
    bench: Bench, done: Clean
) -> None:
    bench.visited["sweep-1"] = LeftWork(entry=entry(), done=done, reason="" if done else "why")
    after = await bench.found(entry())
    assert bench.sent == []
    assert after.found[0].needs_attention is (done is Clean.LEFT_ALONE)
    assert (bench.journal.left == ()) is (done is Clean.ABORTED)
    assert bench.events[0][0] == "sweep.after_crash"


async def test_a_clock_that_jumped_back_does_not_make_a_journal_young(bench: Bench) -> None:
    bench.setpoint = "9"
    await bench.found(entry(age_s=-50))
    assert bench.sent == []


async def test_a_sequence_is_cleaned_up_by_its_age_alone(bench: Bench) -> None:
    sequence = replace(entry(kind=JournalKind.SEQUENCE), payload={**PAYLOAD, "setpoint": None})
    await bench.found(sequence)
    assert bench.sent == [":OUTP CH1,OFF"]
    bench.sent.clear()
    await bench.found(replace(sequence, updated_ms=START_WALL_MS - 200_000))
    assert bench.sent == []


@pytest.mark.parametrize("payload", [{"abort": []}, {"address": None}])
async def test_a_spoiled_journal_sends_nothing_and_says_so(
    bench: Bench, payload: dict[str, Any]
) -> None:
    after = await bench.found(entry(**payload))
    assert bench.sent == []
    assert "does not say how" in after.found[0].error


def test_a_falling_sweep_is_looked_for_below_its_last_step() -> None:
    falling = {**PAYLOAD, "target": 0.0}
    assert is_still_there(falling, "1.5")
    assert not is_still_there(falling, "2.1")


async def test_what_may_stay_on_is_left_out_and_said(bench: Bench) -> None:
    after = await bench.found(entry(stays=["RANGE 1,0"]))
    assert bench.sent == [":OUTP CH1,OFF"]
    error = after.found[0].error
    assert error.endswith(
        "What makes it safe was sent at the next start. Its owner lets it stay on, so these were "
        "left out: RANGE 1,0."
    )


async def test_where_all_may_stay_on_nothing_is_sent_and_nobody_has_to_look(bench: Bench) -> None:
    after = await bench.found(entry(abort=[], stays=["RANGE 1,0"]))
    assert (bench.sent, bench.asked) == ([], 0)
    told = after.found[0].told()
    assert not told["needs_attention"]
    assert "Nothing was sent at the next start. Its owner lets it stay on" in told["error"]
    assert bench.journal.left == ()
