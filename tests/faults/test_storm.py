"""10,000 calls of 8 clients under random faults: no answer is ever stale or another's."""

import asyncio
import random
from collections import Counter

import pytest

from edged.errors import Failed
from edged.profiles.model import Connection
from edged.sim.faults import FaultKind
from edged.sim.wire import WireKind
from tests.bench.fault_proxy import FaultProxy, How, Spoil
from tests.bench.scenarios import GARBLED
from tests.bench.wired import NETWORK, Line, Lines, Wired, wired
from tests.promises import promise

CLIENTS = 8
CALLS = {WireKind.SOCKET: 10_000, WireKind.VXI11: 10_000, WireKind.HISLIP: 10_000}
ANSWER_S = 0.08
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


async def client(line: Line, name: int, calls: int, told: Counter[str]) -> None:
    number = 0
    while number < calls:
        nonce = f"{name}.{number}"
        try:
            answer = await line.echo(nonce, answer_s=ANSWER_S, timeout_s=20.0)
        except Failed as error:
            if not error.sent:
                # A line that is being reopened refuses in no time, and no call has been made.
                await asyncio.sleep(0.02)
                continue
            number += 1
            told[error.code.value] += 1
            continue
        number += 1
        if GARBLED in answer:
            told["garbled"] += 1
            continue
        assert answer == nonce, f"{answer!r} came for {nonce!r}"
        told["right"] += 1


async def trouble(
    unit: Wired, proxy: FaultProxy, chance: random.Random, told: Counter[str]
) -> None:
    """Something new every few calls."""
    while True:
        due = told.total() + chance.randint(5, 60)
        while told.total() < due:
            await asyncio.sleep(0.001)
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


@promise("line.no-crossed-answer")
@pytest.mark.timeout(150)
@pytest.mark.parametrize("kind", NETWORK)
async def test_no_answer_of_ten_thousand_is_stale_or_crossed(kind: WireKind) -> None:
    told: Counter[str] = Counter()
    async with wired(kind) as unit:
        assert unit.proxy is not None
        lines = Lines()
        troubling = None
        try:
            line = lines.open(unit.address, unit.idn, Connection(timeout_ms=300))
            await line.echo("ready")
            troubling = asyncio.create_task(trouble(unit, unit.proxy, random.Random(SEED), told))
            each = CALLS[kind] // CLIENTS
            await asyncio.gather(*(client(line, n, each, told) for n in range(CLIENTS)))
            troubling.cancel()
            await asyncio.gather(troubling, return_exceptions=True)
            await unit.proxy.heal()
            await unit.clear()
            async with asyncio.timeout(10):
                while True:
                    try:
                        assert await line.echo("after") == "after"
                        break
                    except Failed:
                        await asyncio.sleep(0.05)
        finally:
            if troubling is not None:
                troubling.cancel()
                await asyncio.gather(troubling, return_exceptions=True)
            await lines.close()
    assert sum(told.values()) == CALLS[kind]
    assert told["right"] > CALLS[kind] // 4, told
    assert sum(told.values()) - told["right"] > 50, told
