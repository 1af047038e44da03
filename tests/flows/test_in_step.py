"""The quick core of ``tests/faults/test_in_step.py``: an answer belongs to its question."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from edged_sim.wires.stream import WireKind
from tests.bench.numbered import TRANSPORTS, Numbered, Say
from tests.bench.numbered_trial import (
    Client,
    Trial,
    client_of,
    numbered_engine,
    rows_of,
    trials_on,
)
from tests.bench.waiting import HANGS_S
from tests.promises import promise

SEED = 5
QUESTIONS = 12
QUICK = ("nothing", "second line", "acknowledges OK", "block with 0x0A", "compound by lines")
LARGEST_STEP = 0.5
"""Volts; of the sweeps here 0.25 is due each time, and a loaded machine is late."""


def trials_everywhere() -> list[Trial]:
    """On every transport, behind one engine."""
    trials: list[Trial] = []
    for transport in TRANSPORTS:
        first = len(trials) + 1
        trials += trials_on(transport, faults=QUICK, clients=(4,), seed=SEED, first_unit=first)
    return trials


@promise("line.in-step")
async def test_what_is_left_over_is_nobodys_answer_and_in_step_none_fails(tmp_path: Path) -> None:
    trials = trials_everywhere()
    async with numbered_engine(tmp_path, trials, ("queue", "plain")) as bench:
        await bench.ask_all(QUESTIONS)
    wrong = [trial for trial in trials if trial.wrong]
    assert not wrong, "\n".join(rows_of(wrong, is_whole=True))
    failing = [trial for trial in trials if trial.fault == "nothing" and trial.failed]
    assert not failing, "\n".join(rows_of(failing, is_whole=True))


@contextlib.asynccontextmanager
async def units(directory: Path, *transports: str) -> AsyncIterator[list[tuple[Numbered, Client]]]:
    """A unit on each transport, and somebody who calls it."""
    trials: list[Trial] = []
    for unit, transport in enumerate(transports, 1):
        trials += trials_on(transport, faults=["nothing"], clients=(1,), first_unit=unit)[:1]
    async with numbered_engine(directory, trials, ("queue",)) as bench:
        clients = [await client_of(bench.engine, bench.words) for _ in trials]
        instruments = [station.instrument for station in bench.stations]
        try:
            yield list(zip(instruments, clients, strict=True))
        finally:
            for client in clients:
                await client.close()


def left_overs(text: str) -> dict[str, tuple[Say, ...]]:
    """What is said to raw lines; of each, ``text`` would be the answer to the next question."""
    left = text.encode() + b"\n"
    first = Say(data=b"0.5\n")
    return {
        "CURR?;VOLT?": (first, Say(data=left)),
        "CURR?": (first, Say(data=left, after_s=0.02, is_aside=True)),
        "CURR:TRIG": (Say(data=left),),
        "CURR:DATA?": (
            Say(data=b"#18ab\n", is_end=False),
            Say(data=left.rjust(6, b"0"), after_s=0.005),
        ),
    }


@promise("line.in-step")
async def test_a_sweep_starts_from_its_set_point_and_never_from_what_a_raw_line_left(
    tmp_path: Path,
) -> None:
    async with units(tmp_path, WireKind.SOCKET, WireKind.PROLOGIX) as pairs:
        await asyncio.gather(*(sweep_after_each(*pair) for pair in pairs))


async def sweep_after_each(instrument: Numbered, client: Client) -> None:
    """A raw line and a sweep, for each kind of left-over."""
    instrument.special |= left_overs("8.888")
    for number, line in enumerate(instrument.special):
        await send(client, instrument, line)
        before = instrument.level
        del instrument.received[:]
        target = 1.0 if number % 2 == 0 else 0.0
        await sweep(client, instrument, target)
        levels = [float(text[6:]) for text in instrument.received if text.startswith("LEVEL ")]
        steps = zip([before, *levels], levels, strict=False)
        assert levels, (line, instrument.received)
        assert all(abs(now - last) <= LARGEST_STEP for last, now in steps), (line, before, levels)
        assert instrument.level == target


async def send(client: Client, instrument: Numbered, line: str) -> None:
    name = f"n{instrument.unit}"
    await client.call("send_scpi", {"instrument_id": name, "scpi_command": line})


async def sweep(client: Client, instrument: Numbered, target: float) -> None:
    """A sweep from its beginning to its end."""
    arguments = {
        "instrument_id": f"n{instrument.unit}",
        "command_name": "set_level",
        "target_value": target,
        "sweep_rate": 5.0,
    }
    is_begun, told = await client.call("start_sweep", arguments)
    assert is_begun, told
    state = told
    async with asyncio.timeout(HANGS_S):
        # At its target it still reads back, and holds the unit meanwhile.
        while state["status"] == "running":
            await asyncio.sleep(0.05)
            _, state = await client.call("get_sweep_status", {"sweep_id": told["sweep_id"]})
    assert state["status"] == "completed", state


@promise("line.in-step")
async def test_an_output_is_told_on_or_off_by_its_own_answer_alone(tmp_path: Path) -> None:
    async with units(tmp_path, WireKind.SOCKET) as ((instrument, client),):
        instrument.special |= left_overs("0")
        for line in instrument.special:
            await send(client, instrument, line)
            is_done, told = await client.call(
                "execute_command",
                {"instrument_id": "n1", "command_name": "is_on", "parameters": {"number": 7}},
            )
            assert is_done, told
            assert told["data"] is True, (line, told)
