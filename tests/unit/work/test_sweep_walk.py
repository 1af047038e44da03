"""Sweeps walked at random: whatever happens in whatever order, the table and the rate hold."""

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edged.errors import ErrorCode, Failed
from edged.instruments.pool import Left
from edged.runs.states import SWEEP, next_state
from edged.runs.sweeps.registry import SweepChanged
from tests.bench.driven_clock import DrivenClock
from tests.bench.sweep_bench import SweepHouse

RATE = 1.0
TROUBLES = st.sampled_from(
    [ErrorCode.TIMEOUT, ErrorCode.PREEMPTED, ErrorCode.DISCONNECTED, ErrorCode.INSTRUMENT_ERROR]
)
STATES = {word: state for state, word in SWEEP.states.items()}


class SweepWalk(RuleBasedStateMachine):
    """One parameter, swept again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = DrivenClock()
        self.house = SweepHouse(self.clock)
        self.ids: list[str] = []
        self.walked: dict[str, list[str]] = {}
        self.house.sweeps.subscribe(self._note)

    def _note(self, news: SweepChanged) -> None:
        self.walked.setdefault(news.sweep_id, []).append(str(news.told["status"]))

    def go(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def during(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What comes of ``work`` while time passes."""

        async def done() -> Any:
            going = asyncio.create_task(work)
            while not going.done():
                await self.clock.advance(0.1)
            return going.result()

        return self.go(done())

    @rule(value=st.floats(0, 3).map(lambda v: round(v, 3)))
    def start(self, value: float) -> None:
        outcome = self.during(self.house.ask_start(value, RATE))
        if outcome.error is None:
            self.ids.append(outcome.data["sweep_id"])

    @rule(seconds=st.floats(0.01, 2))
    def wait(self, seconds: float) -> None:
        self.go(self.clock.advance(seconds))

    @precondition(lambda self: self.ids)
    @rule(hold=st.booleans())
    def stop(self, *, hold: bool) -> None:
        self.during(self.house.stop(self.ids[-1], hold=hold))

    @rule(code=TROUBLES, is_sent=st.booleans())
    def trouble(self, code: ErrorCode, *, is_sent: bool) -> None:
        sent = (":SOUR1:VOLT 1",) if is_sent else ()
        self.house.supply.troubles = [Failed("Trouble.", code=code, sent=sent)]

    @rule()
    def stubborn_abort(self) -> None:
        self.house.supply.abort_troubles = [Failed("No.", code=ErrorCode.TIMEOUT)]

    @rule(latency_s=st.sampled_from([0.0, 0.0, 0.3]))
    def slow(self, latency_s: float) -> None:
        self.house.supply.latency_s = latency_s

    @rule()
    def safe(self) -> None:
        self.during(self.house.command("all_off"))

    @rule()
    def leave(self) -> None:
        async def left() -> None:
            self.house.sweeps.hear(Left(instrument=self.house.supply))  # type: ignore[arg-type]
            await self.clock.advance(0.01)

        self.go(left())

    @rule(is_broken=st.booleans())
    def disk(self, *, is_broken: bool) -> None:
        self.house.journal.is_broken = is_broken

    @invariant()
    def no_write_is_too_far_or_too_fast(self) -> None:
        at, value = self.clock.monotonic() - 1e9, 0.0
        for then, written in self.house.supply.writes():
            assert abs(written - value) <= RATE * 0.1 + 1e-9
            assert abs(written - value) <= RATE * (then - at) + 1e-6
            at, value = then, written

    @invariant()
    def states_follow_the_table(self) -> None:
        for states in self.walked.values():
            assert states[0] == "running"
            for before, after in itertools.pairwise(states):
                state = STATES[before]
                reachable = {
                    next_state(SWEEP, state, event, is_clean_up_failed=failed)
                    for event, failed in itertools.product(SWEEP.row(state), (False, True))
                }
                assert STATES[after] in {state, *reachable}

    @invariant()
    def what_has_stopped_has_had_its_abort(self) -> None:
        for told in self.house.sweeps.listed():
            if told["status"] == "stopped":
                assert told["abort"]["state"] == "done"

    def teardown(self) -> None:
        self.go(self.house.sweeps.close(0.2))
        self.loop.close()


TestSweepWalk = SweepWalk.TestCase
