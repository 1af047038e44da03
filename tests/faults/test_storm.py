"""18,000 calls over three transports under random faults: no answer is ever stale or another's."""

import asyncio
import random
from collections import Counter

import pytest

from edged.errors import Failed
from edged.profiles.model import Connection
from edged_sim.faults import FaultKind
from edged_sim.wires.stream import WireKind
from tests.bench.fault_proxy import FaultProxy, How, Spoil
from tests.bench.scenarios import GARBLED, PATIENT_S
from tests.bench.waiting import HANGS_S
from tests.bench.wired import NETWORK, Line, Lines, Wired, wired
from tests.promises import promise

CLIENTS = 5
# Many where one that was caught saying more than it was asked is asked slowly; HiSLIP's ids tell.
UNITS = {WireKind.SOCKET: 50, WireKind.VXI11: 50, WireKind.HISLIP: 1}
CALLS = {WireKind.SOCKET: 4_000, WireKind.VXI11: 4_000, WireKind.HISLIP: 10_000}
ANSWER_S = 0.08
REFUSED_S = 0.1
"""Between calls to a line that is being reopened: there are hundreds of clients."""
SEED = 20_261_121

SPOILS = (
    Spoil(How.DELAY, seconds=0.1),
    Spoil(How.LOSE),
    Spoil(How.CUT),
    Spoil(How.DROP),
    Spoil(How.RESET),
    Spoil(How.DOUBLE),
    Spoil(How.GARBLE),
    Spoil(How.SPLIT, seconds=0.0005),
    Spoil(How.STRAY),
)
KINDS = (
    FaultKind.TIMEOUT,
    FaultKind.LATE,
    FaultKind.GARBAGE,
    FaultKind.DROP,
    FaultKind.DOUBLE,
    FaultKind.SPLIT,
    FaultKind.STRAY,
    FaultKind.RESET,
)


class Told:
    """What came of the calls to one unit."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._due = 0
        self._is_due = asyncio.Event()

    def note(self, outcome: str) -> None:
        self.counts[outcome] += 1
        if self.counts.total() >= self._due:
            self._is_due.set()

    async def more(self, calls: int) -> None:
        """Wait until so many more are over."""
        self._due = self.counts.total() + calls
        self._is_due.clear()
        await self._is_due.wait()


async def client(line: Line, name: int, calls: int, told: Told) -> None:
    number = 0
    while number < calls:
        nonce = f"{name}.{number}"
        try:
            answer = await line.echo(nonce, answer_s=ANSWER_S, timeout_s=20.0)
        except Failed as error:
            if not error.sent:
                # A line that is being reopened refuses in no time, and no call has been made.
                await asyncio.sleep(REFUSED_S)
                continue
            number += 1
            told.note(error.code.value)
            continue
        number += 1
        if GARBLED in answer:
            told.note("garbled")
            continue
        assert answer == nonce, f"{answer!r} came for {nonce!r}"
        told.note("right")


async def trouble(unit: Wired, proxy: FaultProxy, chance: random.Random, told: Told) -> None:
    """Something new every few calls."""
    while True:
        await told.more(chance.randint(5, 60))
        roll = chance.random()
        if roll < 0.5:
            proxy.next(chance.choice(SPOILS))
        elif roll < 0.94:
            unit.fault(chance.choice(KINDS), seconds=0.1)
        elif roll < 0.98:
            proxy.reset_all()
        else:
            proxy.refuse()
            await asyncio.sleep(0.02)
            await proxy.listen()


async def answers(line: Line, word: str) -> None:
    """Wait until it does; a busy machine takes longer than a question may."""
    async with asyncio.timeout(HANGS_S):
        while True:
            try:
                assert await line.echo(word, answer_s=PATIENT_S, timeout_s=PATIENT_S) == word
                break
            except Failed:
                await asyncio.sleep(0.05)


async def storm(lines: Lines, kind: WireKind, seed: int, calls: int, told: Counter[str]) -> None:
    """One unit in trouble, and its clients."""
    async with wired(kind) as unit:
        assert unit.proxy is not None
        line = lines.open(unit.address, unit.idn, Connection(timeout_ms=1000))
        await answers(line, "ready")
        here = Told()
        troubling = asyncio.create_task(trouble(unit, unit.proxy, random.Random(seed), here))
        try:
            each = calls // CLIENTS
            await asyncio.gather(*(client(line, n, each, here) for n in range(CLIENTS)))
        finally:
            troubling.cancel()
            await asyncio.gather(troubling, return_exceptions=True)
        told += here.counts
        await unit.proxy.heal()
        await unit.clear()
        await answers(line, "after")
        assert await line.actor.stop(5.0)


@promise("line.no-crossed-answer")
@pytest.mark.parametrize("kind", NETWORK)
async def test_no_answer_of_thousands_is_stale_or_crossed(kind: WireKind) -> None:
    told: Counter[str] = Counter()
    calls = CALLS[kind] // UNITS[kind]
    lines = Lines()
    try:
        async with asyncio.TaskGroup() as storms:
            for n in range(UNITS[kind]):
                storms.create_task(storm(lines, kind, SEED + n, calls, told))
    finally:
        await lines.close()
    assert sum(told.values()) == CALLS[kind]
    # How many are right in time is a matter of the machine; that some are shows that it asked.
    assert told["right"] > 100, told
    assert sum(told.values()) - told["right"] > 50, told
