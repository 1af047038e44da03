"""Asks many numbered instruments at once through a real engine's MCP endpoint, and judges answers.

One trial is one unit with one fault; its questions are asked by so many clients at once, typed or
by send_scpi, between what spoils the line. ``python -m tests.bench.numbered_trial`` prints the
table of what came back wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from edged_sim.wires.prologix import SimulatedAdapter
from edged_sim.wires.stream import WireKind
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.mcp_client import Connection, McpClient
from tests.bench.numbered import (
    CONNECTIONS,
    TRANSPORTS,
    USB,
    Habits,
    Numbered,
    Station,
    numbered_bench,
    profile_text,
    usb_engine,
    value_of,
)

CLIENTS: Final = (1, 4, 16)
ROADS: Final = ("typed", "raw")
WITH_MESSAGES: Final = (WireKind.VXI11, WireKind.HISLIP, WireKind.PROLOGIX, USB)
NAMES: Final = re.compile(r"[^ ]*::[^ ]*|'code': |'message': |[0-9]+")
"""What differs between failures of one kind."""
REASON: Final = 160
SENDS_MORE: Final = "It sends more than it was asked for"
"""In the warning of a unit that is caught; a busy machine causes others."""
LOOK_S: Final = 0.2
"""Between two looks at what list_instruments warns of."""
HERE_WITHIN_S: Final = 20.0
"""Longer than it takes from one unit to the next."""
PATIENCE_MS: Final = 10_000
SLOWNESS: Final = 3.0
"""Of an engine that begins with hundreds of instruments at once."""
MOST_ON_BUS: Final = 60
"""Of a simulated USB bus, where each that is opened is looked for among all."""
SPOILT: Final = 0.3
"""Share of the calls that spoil the line, where a call does so."""
MOST_EXAMPLES: Final = 3
AT_ONCE: Final = 12
"""Units that are asked at once: of more, none is asked fast enough to meet a late line."""
SLOW_AT_ONCE: Final = 64
"""Of those whose every answer is followed by a pause, once they are known."""
SLOWER: Final = 3
"""Such a unit is asked so many times fewer questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of left-over.

    Attributes:
        lines: sent by send_scpi in between; ``{a}`` and ``{b}`` are numbers of their own.
        writes: lines that ask nothing are in between, on the trial's own road.
        is_lenient: it comes by itself, so that the first one of a unit cannot be told from an
            answer; what is wrong counts from the moment on at which the unit was caught.
        is_slow: once it is known, each question takes a pause or a time-out.
        may_fail: share of the calls that need not succeed; what is right and never answers is of
            no use either. With a unit that is late, a busy machine decides how many do.
    """

    habits: Habits = field(default_factory=Habits)
    lines: tuple[str, ...] = ()
    writes: bool = False
    is_lenient: bool = False
    is_slow: bool = False
    may_fail: float = 0.0


RAW_LINES: Final = ("READ? {a};READ? {b}", "TRACE? {a}", "LIE? {a}", "ARM {a}", "TWO? {a}")
FAULTS: Final = {
    "nothing": Fault(writes=True),
    # What comes at once is an error, and on a busy machine all of it may come at once.
    "second line": Fault(habits=Habits(second=1.0), is_lenient=True, is_slow=True, may_fail=1.0),
    "second line, now and then": Fault(
        habits=Habits(second=0.3), is_lenient=True, is_slow=True, may_fail=0.5
    ),
    "acknowledges OK": Fault(
        habits=Habits(acknowledges="OK"), writes=True, is_slow=True, may_fail=0.5
    ),
    "acknowledges 0": Fault(
        habits=Habits(acknowledges="0"), writes=True, is_slow=True, may_fail=0.5
    ),
    "acknowledges by the value": Fault(
        habits=Habits(acknowledges="{}"), writes=True, is_slow=True, may_fail=0.5
    ),
    "acknowledges, no error query": Fault(
        habits=Habits(acknowledges="OK", profile="plain"), writes=True, is_slow=True, may_fail=0.5
    ),
    "acknowledges, as declared": Fault(
        habits=Habits(acknowledges="OK", profile="declared"), writes=True
    ),
    "compound by lines": Fault(lines=RAW_LINES[:1]),
    "block with 0x0A": Fault(lines=RAW_LINES[1:2]),
    "block that lies": Fault(lines=RAW_LINES[2:3], may_fail=0.4),
    "line that answers": Fault(lines=RAW_LINES[3:4], may_fail=0.4),
    "line that answers, no error query": Fault(
        habits=Habits(profile="plain"), lines=RAW_LINES[3:4], may_fail=0.4
    ),
    "question with two lines": Fault(lines=RAW_LINES[4:], may_fail=0.4),
    "late": Fault(habits=Habits(late=0.2), is_slow=True, may_fail=0.8),
    "late, clear stops nothing": Fault(
        habits=Habits(late=0.2, clears=False), is_slow=True, may_fail=0.8
    ),
    "echo in lower case": Fault(
        habits=Habits(echo="lower"), is_lenient=True, is_slow=True, may_fail=1.0
    ),
    "echo that comes late": Fault(
        habits=Habits(echo="late"), is_lenient=True, is_slow=True, may_fail=1.0
    ),
    "everything": Fault(
        habits=Habits(second=0.3, late=0.1, acknowledges="OK", clears=False),
        lines=RAW_LINES,
        writes=True,
        is_lenient=True,
        is_slow=True,
        may_fail=1.0,
    ),
}


@dataclass(slots=True, kw_only=True)
class Trial:
    """One unit, how it is asked, and what came of it.

    Attributes:
        is_odd: on transports with messages the instrument keeps its output queue; on HiSLIP it
            marks all its answers alike too.
        caught_at: since when list_instruments warns of what it sends besides its answers.
        asked: questions with a number; ``calls`` are those and what was said in between.
        trace: the last exchanges on its line when the first wrong answer came.
        early: wrong answers to calls that had begun before that.
        wrong: wrong answers otherwise; none may be.
    """

    unit: int
    transport: str
    fault: str
    road: str
    clients: int
    is_odd: bool
    seed: int
    asked: int = 0
    calls: int = 0
    failed: int = 0
    early: int = 0
    wrong: int = 0
    caught_at: float = float("inf")
    warning: str = ""
    examples: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    trace: dict[str, Any] = field(default_factory=dict)

    @property
    def alias(self) -> str:
        return f"n{self.unit}"

    @property
    def habits(self) -> Habits:
        habits = FAULTS[self.fault].habits
        if not self.is_odd:
            return habits
        marks = self.transport == WireKind.HISLIP
        return replace(habits, keeps_output=True, marks_alike=marks)

    @property
    def name(self) -> str:
        odd = {WireKind.HISLIP: ", ids alike"}.get(self.transport, ", keeps its output")  # type: ignore[call-overload]
        return (
            f"{self.transport}, {self.fault}{odd if self.is_odd else ''}: {self.road}, "
            f"{self.clients} clients"
        )

    def note_wrong(self, *, began: float, question: str, told: str) -> None:
        is_early = FAULTS[self.fault].is_lenient and began <= self.caught_at
        if is_early:
            self.early += 1
        else:
            self.wrong += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(f"{question} gave {told}{' (early)' if is_early else ''}")


def trials_on(
    transport: str,
    *,
    faults: Sequence[str] = tuple(FAULTS),
    clients: Sequence[int] = CLIENTS,
    seed: int = 0,
    first_unit: int = 1,
) -> list[Trial]:
    """Every combination on one transport."""
    odd = (False, True) if transport in WITH_MESSAGES else (False,)
    combinations = itertools.product(faults, odd, clients, ROADS)
    return [
        Trial(
            unit=unit,
            transport=transport,
            fault=fault,
            is_odd=is_odd,
            clients=count,
            road=road,
            seed=seed,
        )
        for unit, (fault, is_odd, count, road) in enumerate(combinations, first_unit)
    ]


@dataclass
class Client:
    """One client: a connection that is kept."""

    words: McpClient
    connection: Connection

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
        """Whether it succeeded, and what it told."""
        message = self.words.message("tools/call", {"name": tool, "arguments": arguments})
        self.connection.send(self.words.bytes_of("POST", json.dumps(message).encode()))
        reply = (await self.connection.read_answer()).messages()[-1]
        if "error" in reply:
            return False, reply["error"]
        told = json.loads(reply["result"]["content"][0]["text"])
        return not reply["result"].get("isError"), told

    async def close(self) -> None:
        await self.connection.close()


async def client_of(engine: EngineProcess, words: McpClient) -> Client:
    return Client(words, await Connection.to(engine.ports["mcp_port"]))


class Asker:
    """Asks one unit its questions, by all the trial's clients."""

    def __init__(self, trial: Trial, questions: int, engine: EngineProcess) -> None:
        self._trial = trial
        self._engine = engine
        self._left = questions
        self._numbers = itertools.count(10)
        self._dice = random.Random(f"{trial.seed}:{trial.unit}:asked")

    async def run(self, words: McpClient) -> None:
        await asyncio.gather(*(self._be_client(words) for _ in range(self._trial.clients)))

    async def _be_client(self, words: McpClient) -> None:
        client = await client_of(self._engine, words)
        try:
            while self._left > 0:
                self._left -= 1
                await self._spoil(client)
                await self._ask(client)
        finally:
            await client.close()

    async def _spoil(self, client: Client) -> None:
        fault = FAULTS[self._trial.fault]
        if fault.lines and self._dice.random() < SPOILT:
            a, b = next(self._numbers), next(self._numbers)
            await self._send(client, self._dice.choice(fault.lines).format(a=a, b=b), (a, b))
        if fault.writes and self._dice.random() < SPOILT:
            number = next(self._numbers)
            if self._trial.road == "typed":
                await self._command(client, "note", number)
            else:
                await self._send(client, f"NOTE {number}", (number,))

    async def _ask(self, client: Client) -> None:
        number = next(self._numbers)
        self._trial.asked += 1
        if self._trial.road == "typed":
            await self._command(
                client, self._dice.choice(("read", "read", "is_on", "label")), number
            )
        else:
            head = self._dice.choice(("READ", "READ", "STATE", "LABEL", "ODD"))
            await self._send(client, f"{head}? {number}", (number,))

    async def _command(self, client: Client, command: str, number: int) -> None:
        arguments = {
            "instrument_id": self._trial.alias,
            "command_name": command,
            "parameters": {"number": number},
        }
        began = time.monotonic()
        self._trial.calls += 1
        is_done, told = await client.call("execute_command", arguments)
        if not (is_done and told["success"]):
            self._fail(told)
            return
        unit = self._trial.unit
        expected = {
            "read": value_of(unit, number),
            "is_on": bool(number % 2),
            "label": f"unit {unit} number {number}",
        }.get(command, told["data"])
        data = told["data"]
        if data != expected or isinstance(data, bool) != isinstance(expected, bool):
            await self._wrong(client, began, f"{command} {number}", data)

    async def _send(self, client: Client, line: str, numbers: tuple[int, ...]) -> None:
        began = time.monotonic()
        self._trial.calls += 1
        is_done, told = await client.call(
            "send_scpi", {"instrument_id": self._trial.alias, "scpi_command": line}
        )
        if not is_done or told.get("error"):
            self._fail(told)
            return
        if not _is_own(self._trial.unit, line, numbers, told["response"]):
            await self._wrong(client, began, line, told["response"])

    async def _wrong(self, client: Client, began: float, question: str, told: object) -> None:
        self._trial.note_wrong(began=began, question=question, told=repr(told))
        if self._trial.wrong and not self._trial.trace:
            name = self._trial.alias
            self._trial.trace = await asyncio.to_thread(
                self._engine.rpc, "trace", instrument_id=name
            )
        await _look(client, {self._trial.alias: self._trial})

    def _fail(self, told: Any) -> None:
        self._trial.failed += 1
        self._trial.reasons[NAMES.sub("…", str(told.get("error") or told))[:REASON]] += 1


def _is_own(unit: int, line: str, numbers: tuple[int, ...], response: str | None) -> bool:
    """Whether a raw response can be the answer to its line; of long ones the number tells."""
    values = [f"{value_of(unit, number):.1f}" for number in numbers]
    match line.partition(" ")[0]:
        case "NOTE" | "ARM":
            # What is told of an acknowledgement or of an answer that nobody expects is its own.
            return response in {None, *values, "OK", "0", str(numbers[0])}
        case "STATE?":
            return response == str(numbers[0] % 2)
        case "LABEL?":
            return response == f"unit {unit} number {numbers[0]}"
        case "ODD?":
            return response == values[0]
        case "READ?" if ";" not in line:
            return response == values[0]
        case _:
            return response is not None and values[0] in response


async def _watch(engine: EngineProcess, words: McpClient, trials: Sequence[Trial]) -> None:
    """Note which units the engine warns of."""
    client = await client_of(engine, words)
    try:
        while True:
            await _look(client, {trial.alias: trial for trial in trials})
            await asyncio.sleep(LOOK_S)
    finally:
        await client.close()


async def _look(client: Client, known: Mapping[str, Trial]) -> None:
    _, listed = await client.call("list_instruments", {})
    for entry in listed:
        trial = known.get(entry["alias"])
        if trial is None or not entry["warning"]:
            continue
        trial.warning = entry["warning"]
        if SENDS_MORE in entry["warning"]:
            trial.caught_at = min(trial.caught_at, time.monotonic())


@dataclass
class Bench:
    """An engine and the instruments of its trials."""

    engine: EngineProcess
    words: McpClient
    stations: list[Station]
    trials: list[Trial]

    async def are_all_here(self) -> None:
        """Wait until each unit has answered; a bus of many takes its time.

        Who never answers is asked in vain later, and its questions fail.
        """
        client = await client_of(self.engine, self.words)
        here = 0
        give_up = time.monotonic() + HERE_WITHIN_S
        while here < len(self.trials) and time.monotonic() < give_up:
            await asyncio.sleep(LOOK_S)
            _, listed = await client.call("list_instruments", {})
            before, here = here, sum(entry["is_connected"] for entry in listed)
            if here > before:
                give_up = time.monotonic() + HERE_WITHIN_S
        await client.close()

    async def ask_all(self, questions: int, *, at_once: int = AT_ONCE) -> None:
        """So many questions for each unit (fewer for slow ones), so many units at once."""
        watching = asyncio.create_task(_watch(self.engine, self.words, self.trials))
        places = {False: asyncio.Semaphore(at_once), True: asyncio.Semaphore(SLOW_AT_ONCE)}

        async def ask(trial: Trial) -> None:
            is_slow = FAULTS[trial.fault].is_slow
            async with places[is_slow]:
                count = questions // SLOWER if is_slow else questions
                await Asker(trial, count, self.engine).run(self.words)

        try:
            await asyncio.gather(*(ask(trial) for trial in self.trials))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def _patience(trial: Trial, patience_ms: int) -> dict[str, int]:
    """A unit that is never late has the time of a busy machine for its answers."""
    return {} if FAULTS[trial.fault].habits.late else {"timeout_ms": patience_ms}


@contextlib.asynccontextmanager
async def numbered_engine(
    directory: Path,
    trials: list[Trial],
    profiles: Sequence[str],
    *,
    adapters: Iterable[SimulatedAdapter] = (),
    patience_ms: int = PATIENCE_MS,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> AsyncIterator[Bench]:
    """An engine on all of these units, each by its transport.

    Args:
        patience_ms: how long a unit that is never late is waited for.
        more: is configured besides.
    """
    folder = directory / "profiles"
    folder.mkdir()
    for key in profiles:
        (folder / f"numbered_{key}.yaml").write_text(profile_text(key))
    on_wires = [trial for trial in trials if trial.transport != USB]
    wired = [(Numbered(t.unit, t.habits, seed=t.seed), WireKind(t.transport)) for t in on_wires]
    on_bus = [(t.unit, t.habits) for t in trials if t.transport == USB]
    command, environment, addresses = usb_engine(on_bus, trials[0].seed)
    async with numbered_bench(wired, adapters=adapters) as stations:
        addresses |= {s.instrument.unit: s.address for s in stations}
        config = {
            "INSTRUMENTS": [
                {
                    "address": addresses[trial.unit],
                    "name": trial.alias,
                    **_patience(trial, patience_ms),
                }
                for trial in trials
            ],
            "PROFILE_DIRS": [str(folder)],
            "MAX_SESSIONS": 10,
            **more,
        }
        engine = engine_process(
            directory,
            sim=False,
            config=config,
            command=command,
            environment=environment,
            slowness=SLOWNESS,
        )
        async with _in_a_thread(engine) as running:
            words = McpClient(running.ports["mcp_port"])
            await words.initialize()
            bench = Bench(running, words, stations, trials)
            await bench.are_all_here()
            yield bench


async def ask_all_of(
    trials: list[Trial],
    directory: Path,
    profiles: Sequence[str],
    questions: int,
    *,
    at_once: int = AT_ONCE,
) -> None:
    """The questions of all units of one transport, behind as many engines as it takes."""
    most = MOST_ON_BUS if trials[0].transport == USB else len(trials)
    for start in range(0, len(trials), most):
        own = directory / str(start)
        own.mkdir()
        async with numbered_engine(own, trials[start : start + most], profiles) as bench:
            await bench.ask_all(questions, at_once=at_once)


@contextlib.asynccontextmanager
async def _in_a_thread(
    engine: contextlib.AbstractContextManager[EngineProcess],
) -> AsyncIterator[EngineProcess]:
    """The loop serves the instruments meanwhile."""
    running = await asyncio.to_thread(engine.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(engine.__exit__, None, None, None)


def rows_of(trials: Sequence[Trial], *, is_whole: bool = False) -> Iterator[str]:
    """A table: a row for each fault on each transport, or for each trial."""
    yield "| transport | fault | asked | failed | early | wrong | first wrong one | caught by |"
    yield "|---|---|---|---|---|---|---|---|"

    def key(trial: Trial) -> tuple[str, ...]:
        if is_whole:
            return trial.transport, trial.name.partition(", ")[2]
        return trial.transport, trial.name.partition(", ")[2].partition(":")[0]

    for (transport, fault), group in itertools.groupby(sorted(trials, key=key), key=key):
        some = list(group)
        examples = [f"{t.road} {t.clients}: {e}" for t in some for e in t.examples]
        strict = [example for example in examples if "(early)" not in example]
        counts = " | ".join(
            str(sum(getattr(trial, what) for trial in some))
            for what in ("asked", "failed", "early", "wrong")
        )
        caught = next((trial.warning for trial in some if trial.warning), "")
        first = (strict or examples or [""])[0]
        yield f"| {transport} | {fault} | {counts} | {first} | {caught} |".replace("\n", " ")


def _reasons_of(trials: Sequence[Trial]) -> list[tuple[tuple[str, str], int]]:
    counts: Counter[tuple[str, str]] = Counter()
    for trial in trials:
        name = trial.name.partition(":")[0]
        counts.update({(name, reason): times for reason, times in trial.reasons.items()})
    return counts.most_common()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.numbered_trial")
    parser.add_argument("--transport", action="append", choices=TRANSPORTS)
    parser.add_argument("--fault", action="append", choices=tuple(FAULTS))
    parser.add_argument("--questions", type=int, default=36, help="of each quick unit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--whole", action="store_true", help="a row for each unit")
    parser.add_argument("--reasons", action="store_true", help="why calls failed")
    parser.add_argument("--traces", action="store_true", help="how lines came out of step")
    parser.add_argument("--without", action="append", default=[], choices=tuple(CONNECTIONS))
    options = parser.parse_args()
    profiles = [key for key in CONNECTIONS if key not in options.without]
    faults = [name for name in options.fault or FAULTS if FAULTS[name].habits.profile in profiles]

    async def run(transport: str) -> list[Trial]:
        trials = trials_on(transport, faults=faults, seed=options.seed)
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            place, count = Path(directory), options.questions
            await ask_all_of(trials, place, profiles, count, at_once=options.at_once)
        sys.stderr.write(f"{transport}: {time.monotonic() - began:.1f} s\n")
        return trials

    done = [trial for name in options.transport or TRANSPORTS for trial in asyncio.run(run(name))]
    sys.stdout.write("\n".join(rows_of(done, is_whole=options.whole)) + "\n")
    if options.reasons:
        for (name, reason), times in _reasons_of(done):
            sys.stdout.write(f"{times:5}  {name}: {reason}\n")
    if options.traces:
        for trial in done:
            if trial.trace:
                sys.stdout.write(f"{trial.name}: {trial.examples}\n{json.dumps(trial.trace)}\n")
    wrong = sum(trial.wrong for trial in done)
    asked = sum(trial.asked for trial in done)
    sys.stdout.write(f"\n{asked} asked, {sum(t.early for t in done)} early, {wrong} wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
