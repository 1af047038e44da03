"""What can befall an instrument and the way to it, each told once for every transport.

A scenario does something to the wire while questions are asked. Whatever it does: an answer is the
one to its own question or there is an error, and afterwards the line is well again by itself.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Final

from edged.errors import Failed
from edged.profiles.model import Connection
from edged_sim.faults import FaultKind
from tests.bench.fault_proxy import FaultProxy, How, Spoil
from tests.bench.waiting import HANGS_S, OwnTime
from tests.bench.wired import Line, Wired

Scenario = Callable[["Trial"], Awaitable[None]]

LIMIT_S: Final = 0.15
"""How long an answer may take in a scenario."""
LATE_S: Final = 0.25
QUICK: Final = Connection(timeout_ms=400, open_timeout_ms=400)
RECOVERY_S: Final = 12.0
PATIENT_S: Final = 20.0
"""For answers that come: a busy machine is no reason for a time-out."""
GARBLED: Final = "\ufffd"


class Trial:
    """One scenario's instrument, its line, and the judge of every answer."""

    def __init__(self, wired: Wired, line: Line) -> None:
        self.wired = wired
        self.line = line
        self.errors = 0
        self.right = 0
        self._nonces = itertools.count()

    @property
    def proxy(self) -> FaultProxy:
        assert self.wired.proxy is not None
        return self.wired.proxy

    async def ask(self, answer_s: float = LIMIT_S) -> bool:
        """Ask for a nonce: True when it came, False for an error; anything else is a stale one."""
        nonce = f"nonce {next(self._nonces)}"
        try:
            answer = await self.line.echo(nonce, answer_s=answer_s, timeout_s=answer_s + 8.0)
        except Failed:
            self.errors += 1
            return False
        if GARBLED in answer:
            self.errors += 1
            return False
        assert answer == nonce, f"{answer!r} came for {nonce!r}"
        self.right += 1
        return True

    async def must_answer(self, answer_s: float = PATIENT_S) -> None:
        assert await self.ask(answer_s)

    async def is_up(self) -> None:
        """A first answer: on a busy machine a connection may take longer than a line allows."""
        async with asyncio.timeout(HANGS_S):
            while not await self.ask(PATIENT_S):
                await asyncio.sleep(0.05)
        self.errors = 0

    async def recovers(self) -> None:
        """Right again, by itself, and then for good."""
        async with asyncio.timeout(RECOVERY_S):
            while not await self.ask(1.0):
                await asyncio.sleep(0.05)
        for _ in range(3):
            await self.must_answer()

    async def fetch(self, length: int, answer_s: float | None = None) -> bool:
        """A binary block of that length: True when whole, False for an error."""
        body = (b"\n\r#\x00;" * (length // 5 + 1))[:length]
        block = b"#%d%d" % (len(str(length)), length) + body
        self.wired.special[b"WAV?"] = block + b"\n"
        try:
            got = await self.line.fetch("WAV?", answer_s=answer_s)
        except Failed:
            self.errors += 1
            return False
        assert got == block
        return True


# What befalls the way to it (a proxy's doing)


def spoiled(*spoils: Spoil) -> Scenario:
    """The next answers come spoiled, one question each."""

    async def run(trial: Trial) -> None:
        for spoil in spoils:
            await trial.recovers()
            trial.proxy.next(spoil)
            await trial.ask()
            await trial.ask()

    return run


async def delayed_within_its_limit(trial: Trial) -> None:
    trial.proxy.next(Spoil(How.DELAY, seconds=0.05))
    await trial.must_answer()


async def late_ten_times(trial: Trial) -> None:
    for _ in range(10):
        trial.proxy.next(Spoil(How.DELAY, seconds=0.06))
        await trial.ask(0.03)
        await trial.ask(1.0)
        trial.proxy.reset_spoils()


async def hangs_and_heals(trial: Trial) -> None:
    trial.proxy.hang()
    await trial.ask()
    await trial.ask()
    await trial.proxy.heal()


async def half_open(trial: Trial) -> None:
    trial.proxy.half_open()
    await trial.ask()
    await trial.proxy.heal()


async def power_cycle(trial: Trial) -> None:
    trial.proxy.refuse()
    await trial.ask()
    await trial.ask()
    await trial.proxy.listen()


async def flaps(trial: Trial) -> None:
    trial.proxy.flap(up_s=0.05, down_s=0.05, times=3)
    for _ in range(8):
        await trial.ask()
        await asyncio.sleep(0.03)


async def slow_requests(trial: Trial) -> None:
    trial.proxy.delay_requests_s = 0.03
    await trial.must_answer()
    await trial.proxy.heal()


async def requests_slower_than_the_limit(trial: Trial) -> None:
    trial.proxy.delay_requests_s = LATE_S
    await trial.ask()
    await trial.proxy.heal()


async def reset_while_idle(trial: Trial) -> None:
    trial.proxy.reset_all()
    await trial.ask()


async def closed_while_idle(trial: Trial) -> None:
    trial.proxy.close_all()
    await trial.ask()


async def silent_port_after_a_reset(trial: Trial) -> None:
    trial.proxy.is_black_hole = True
    trial.proxy.reset_all()
    await trial.ask()
    await trial.proxy.heal()
    trial.proxy.reset_all()


def block_spoiled(spoil: Spoil, place: int, length: int = 200_000) -> Scenario:
    """A block whose ``place``-th chunk is spoiled."""

    async def run(trial: Trial) -> None:
        trial.proxy.next(*[Spoil(How.PASS)] * place, spoil)
        await trial.fetch(length)
        trial.proxy.reset_spoils()
        await trial.ask()

    return run


async def preempted_while_nothing_comes(trial: Trial) -> None:
    # What a header is looked at for once must not meet the silence in its place.
    await trial.ask()
    trial.proxy.hang()
    asked = asyncio.create_task(trial.line.echo("hung", answer_s=20.0, timeout_s=20.0))
    await trial.wired.heard('DIAG:ECHO? "hung"')
    safe = asyncio.create_task(trial.line.make_safe("OUTP OFF"))
    await asyncio.sleep(0.05)
    await trial.proxy.heal()
    await asyncio.gather(safe, return_exceptions=True)
    try:
        assert await asked == "hung"
    except Failed:
        trial.errors += 1


async def cancelled_while_nothing_comes(trial: Trial) -> None:
    # What a header is looked at for once must not meet the silence in its place.
    await trial.ask()
    trial.proxy.hang()
    asked = asyncio.create_task(trial.line.echo("hung", answer_s=20.0, timeout_s=20.0))
    await trial.wired.heard('DIAG:ECHO? "hung"')
    asked.cancel()
    await trial.proxy.heal()
    await asyncio.gather(asked, return_exceptions=True)
    await trial.ask(1.0)


# What befalls the instrument itself


def faulty(kind: FaultKind, *, seconds: float | None = None, times: int = 3) -> Scenario:
    """The instrument's next answers have a fault, with a good question after each."""

    async def run(trial: Trial) -> None:
        for _ in range(times):
            await trial.recovers()
            trial.wired.fault(kind, seconds=seconds)
            await trial.ask()
            await trial.ask()

    return run


async def instrument_hangs(trial: Trial) -> None:
    trial.wired.fault(FaultKind.HANG, count=None)
    await trial.ask()
    await trial.ask()
    await trial.wired.clear()


async def instrument_freezes(trial: Trial) -> None:
    trial.wired.fault(FaultKind.FREEZE, count=None)
    await trial.ask()
    await trial.wired.clear()


async def instrument_is_switched_off_and_on(trial: Trial) -> None:
    trial.wired.fault(FaultKind.REFUSE, count=None)
    await trial.ask()
    await trial.ask()
    await trial.wired.clear()


async def instrument_speaks_unasked(trial: Trial) -> None:
    await trial.wired.station.say(b"surprise\n")
    await asyncio.sleep(0.05)
    await trial.ask()


async def a_write_is_never_repeated(trial: Trial) -> None:
    before = trial.wired.received().count("LEV 5")
    trial.wired.fault(FaultKind.RESET)
    try:
        await trial.line.ask("LEV 5;:LEV?", answer_s=LIMIT_S)
    except Failed:
        trial.errors += 1
    await trial.recovers()
    assert trial.wired.received().count("LEV 5;:LEV?") <= 1
    assert trial.wired.received().count("LEV 5") == before


def whole_block(length: int) -> Scenario:
    """A block comes whole, and the line is in step after it."""

    async def run(trial: Trial) -> None:
        assert await trial.fetch(length, PATIENT_S)
        await trial.must_answer()

    return run


def block_with(kind: FaultKind, length: int = 20_020) -> Scenario:
    """The instrument spoils a block."""

    async def run(trial: Trial) -> None:
        trial.wired.fault(kind)
        await trial.fetch(length)
        await trial.ask()

    return run


OF_THE_WAY: Final[dict[str, Scenario]] = {
    "delayed within its limit": delayed_within_its_limit,
    "delayed beyond its limit": spoiled(Spoil(How.DELAY, seconds=LATE_S)),
    "late ten times": late_ten_times,
    "lost": spoiled(Spoil(How.LOSE)),
    "lost twice": spoiled(Spoil(How.LOSE), Spoil(How.LOSE)),
    "cut at its beginning": spoiled(Spoil(How.CUT, part=0.1)),
    "cut in the middle": spoiled(Spoil(How.CUT)),
    "cut at its end": spoiled(Spoil(How.CUT, part=0.95)),
    "closed instead": spoiled(Spoil(How.DROP)),
    "reset instead": spoiled(Spoil(How.RESET)),
    "doubled": spoiled(Spoil(How.DOUBLE), Spoil(How.DOUBLE)),
    "garbled": spoiled(Spoil(How.GARBLE)),
    "byte by byte": spoiled(Spoil(How.SPLIT, seconds=0.001)),
    "byte by byte, too slow": spoiled(Spoil(How.SPLIT, seconds=0.03)),
    "a stray line end before": spoiled(Spoil(How.STRAY)),
    "hangs and heals": hangs_and_heals,
    "half open": half_open,
    "refused for a while": power_cycle,
    "flaps": flaps,
    "slow requests": slow_requests,
    "requests slower than the limit": requests_slower_than_the_limit,
    "reset while idle": reset_while_idle,
    "closed while idle": closed_while_idle,
    "a port that accepts and is silent": silent_port_after_a_reset,
    "a block cut": block_spoiled(Spoil(How.CUT), 1),
    "a block reset": block_spoiled(Spoil(How.RESET), 1),
    "a block with a gap": block_spoiled(Spoil(How.DELAY, seconds=0.1), 1),
    "a block that loses a piece": block_spoiled(Spoil(How.LOSE), 1),
    "pre-empted while nothing comes": preempted_while_nothing_comes,
    "cancelled while nothing comes": cancelled_while_nothing_comes,
}
OF_THE_INSTRUMENT: Final[dict[str, Scenario]] = {
    "an answer is lost": faulty(FaultKind.TIMEOUT),
    "an answer is late": faulty(FaultKind.LATE, seconds=LATE_S),
    "an answer is garbage": faulty(FaultKind.GARBAGE),
    "an answer is cut short": faulty(FaultKind.DROP),
    "an answer comes twice": faulty(FaultKind.DOUBLE),
    "an answer comes in pieces": faulty(FaultKind.SPLIT, seconds=0.005),
    "an empty line comes first": faulty(FaultKind.STRAY),
    "it breaks off": faulty(FaultKind.RESET),
    "it hangs": instrument_hangs,
    "it freezes": instrument_freezes,
    "it is switched off and on": instrument_is_switched_off_and_on,
    "it speaks unasked": instrument_speaks_unasked,
    "a write is never repeated": a_write_is_never_repeated,
    "a block of 1,199 bytes": whole_block(1_199),
    "a block of 20,020 bytes": whole_block(20_020),
    "a block of 1,048,576 bytes": whole_block(1_048_576),
    "a block cut short": block_with(FaultKind.DROP),
    "a block in pieces": block_with(FaultKind.SPLIT),
    "a block twice": block_with(FaultKind.DOUBLE),
}
EVERY: Final = {**OF_THE_WAY, **OF_THE_INSTRUMENT}


class Neighbour:
    """Another instrument's line, asked all the time: nothing of a scenario may reach it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        # In seconds of this process: another's load is no fault of the line's.
        self.slowest_s = 0.0
        self.asked = 0
        self._task = asyncio.get_running_loop().create_task(self._ask())

    async def has_answered(self) -> None:
        """At least once: a quick scenario is over before its first answer."""
        async with asyncio.timeout(HANGS_S):
            while not self.asked and not self._task.done():
                await asyncio.sleep(0.001)

    async def stop(self) -> None:
        self._task.cancel()
        results = await asyncio.gather(self._task, return_exceptions=True)
        errors = [r for r in results if not isinstance(r, asyncio.CancelledError)]
        assert not errors, errors

    async def _ask(self) -> None:
        with OwnTime() as own:
            while True:
                began = own.seconds()
                nonce = f"neighbour {self.asked}"
                answer = await self._line.echo(nonce, answer_s=PATIENT_S, timeout_s=PATIENT_S)
                assert answer == nonce
                self.slowest_s = max(self.slowest_s, own.seconds() - began)
                self.asked += 1
                await asyncio.sleep(0.005)


async def hold(scenario: Scenario, wired: Wired, line: Line, neighbour: Line) -> Trial:
    """Run a scenario and everything that must hold around it."""
    trial = Trial(wired, line)
    await trial.is_up()
    # Before the second it was looked whether more follows the first; from then on none is held up.
    await trial.must_answer()
    other = Neighbour(neighbour)
    try:
        await scenario(trial)
        await trial.recovers()
        await other.has_answered()
    finally:
        await other.stop()
    # As long as a scenario takes; a machine under load has taken more than a second of it.
    assert other.slowest_s < 5.0
    return trial
