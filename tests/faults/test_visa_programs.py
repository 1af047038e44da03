"""Programs that know VISA beside an agent on one unit: no answer is another's, whatever breaks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pyvisa
from pyvisa.constants import StatusCode
from pyvisa.resources import MessageBasedResource

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.fault_proxy import FaultProxy, How, Spoil
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.mcp_client import McpClient
from tests.promises import promise

PROFILE = """
format: 1
profile_key: acme_numbered
version: 1
manufacturer: ACME
model: PSU1
instrument_class: power_supply
source: made for tests
match: {idn: 'acme,psu1'}
connection: {errors: {kind: queue, query: "SYST:ERR?"}}
commands:
  echo:
    scpi: "ECHO? {number}"
    is_query: true
    parameters: {number: {type: int}}
    returns: {type: int}
"""
QUESTIONS = 3_400
"""Of each of the three."""


@contextlib.asynccontextmanager
async def bench(directory: Path) -> AsyncIterator[tuple[EngineProcess, LoopbackInstrument]]:
    (directory / "profiles").mkdir(exist_ok=True)
    (directory / "profiles" / "acme_numbered.yaml").write_text(PROFILE)
    async with LoopbackInstrument() as unit:
        config = {
            "PROFILE_DIRS": [str(directory / "profiles")],
            "INSTRUMENTS": [{"address": unit.address, "name": "psu1"}],
        }
        made = engine_process(directory, sim=False, config=config)
        engine = await asyncio.to_thread(made.__enter__)
        try:
            yield engine, unit
        finally:
            await asyncio.to_thread(made.__exit__, None, None, None)


async def program(url: str, count: int, first: int) -> Process:
    return await started("visa_asker", url, "psu1", str(count), str(first))


async def attacker(how: str, url: str) -> Process:
    return await started("visa_attacker", how, url)


async def started(program: str, *words: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"tests.bench.{program}",
        *words,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


async def told(process: Process) -> dict[str, Any]:
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-2_000:]
    found: dict[str, Any] = json.loads(out)
    return found


async def ask_as_agent(engine: EngineProcess, count: int, first: int) -> list[Any]:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-06-18")
    crossed = []
    for number in range(first, first + count):
        result = await client.call(
            "execute_command",
            {"instrument_id": "psu1", "command_name": "echo", "parameters": {"number": number}},
        )
        found = result["structuredContent"]
        if found["data"] != number:
            crossed.append([number, found])
    return crossed


@promise("visa.not-crossed")
async def test_two_programs_and_an_agent_ask_ten_thousand_together_and_none_is_crossed(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as (engine, _unit):
        programs = [await program(engine.mcp_url, QUESTIONS, n * 1_000_000) for n in (1, 2)]
        agents, *askers = await asyncio.gather(
            ask_as_agent(engine, QUESTIONS, 3_000_000), *map(told, programs)
        )
    assert agents == []
    assert askers == [{"right": QUESTIONS, "crossed": []}] * 2


@promise("visa.not-crossed")
async def test_programs_that_are_killed_in_the_middle_cross_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as (engine, _unit):
        asking = asyncio.create_task(ask_as_agent(engine, 1_500, 3_000_000))
        steady = await program(engine.mcp_url, 1_500, 1_000_000)
        for _ in range(4):
            doomed = await program(engine.mcp_url, 100_000, 2_000_000)
            await asyncio.sleep(1.0)
            doomed.send_signal(signal.SIGKILL)
            await doomed.communicate()
        assert await asking == []
        assert (await told(steady))["crossed"] == []


@promise("visa.not-crossed")
async def test_an_instrument_that_says_more_than_it_is_asked_crosses_nothing(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as (engine, unit):
        # Each answer is followed by a line that nobody asked for.
        unit.after = b"999999\n"
        # A second line that comes at once is an error, and no question gets another's answer.
        steady = await program(engine.mcp_url, 25, 1_000_000)
        others = await ask_as_agent(engine, 25, 3_000_000)
        assert [answer for _, answer in others if answer["data"] is not None] == []
        assert (await told(steady))["crossed"] == []


@promise("visa.client-gone")
async def test_garbage_of_a_program_hurts_nobody(tmp_path: Path) -> None:
    async with bench(tmp_path) as (engine, _unit):
        client = McpClient(engine.ports["mcp_port"])
        await client.initialize("2025-06-18")

        async def asked(method: str, **params: Any) -> Any:
            return (await client.request(f"edged/visa.{method}", params)).json()

        number = (await asked("open", resource="psu1"))["result"]["session"]
        garbage: list[dict[str, Any]] = [
            {"session": "x", "text": "*IDN?"},
            {"session": number},
            {"session": number, "text": "é"},
            {"session": number, "hex": "%%%"},
            {"session": number, "text": "*IDN?", "timeout_ms": -1},
            {"session": number, "text": "*IDN?", "timeout_ms": "soon"},
            {"session": number, "text": "X #99"},
            {"session": number, "text": "X #19123"},
            {"session": number, "text": ";" * 70_000 + "?"},
            {"session": number, "text": "A?;" * 100},
            {"session": number, "text": "\x00\x07\x1b[2J?"},
            {"session": True, "text": "*IDN?"},
        ]
        for params in garbage:
            answer = await asked("write", **params)
            assert "error" in answer, params
            assert "Traceback" not in json.dumps(answer)
        for count in (0, -1, "all", True, 1 << 40):
            answer = await asked("read", session=number, count=count)
            assert "error" in answer
        await asked("clear", session=number)
        last = await asked("write", session=number, text="ECHO? 5", wait_ms=1_000)
        assert last["result"]["text"] == "5\n"
        assert await ask_as_agent(engine, 20, 100) == []


@promise("visa.not-crossed")
async def test_sixteen_threads_with_one_manager_get_each_their_own_answers(tmp_path: Path) -> None:
    async with bench(tmp_path) as (engine, _unit):
        found = await told(await attacker("threads", engine.mcp_url))
    assert found == {"right": 1_600, "crossed": [[]] * 16}


@promise("visa.not-crossed")
async def test_a_forked_child_has_a_session_of_its_own_and_none_of_its_parents_answers(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as (engine, _unit):
        found = await told(await attacker("forks", engine.mcp_url))
        leases = (await asyncio.to_thread(engine.rpc, "leases.list"))["leases"]
    assert "forked off: what was asked is gone" in found["child"]["asked"]
    assert "forked off: its lock is gone" in found["child"]["locked"]
    assert found["crossed_in_child"] == [[]] * 3
    assert (found["answer"], found["crossed"], found["status"]) == ("1", [], 0)
    assert leases == []


@promise("visa.client-gone")
async def test_a_thousand_opens_and_closes_leave_nothing_behind(tmp_path: Path) -> None:
    async with bench(tmp_path) as (engine, _unit):
        before = files_of(engine)
        await told(await attacker("threads", engine.mcp_url))
        found = await told(await attacker("opens", engine.mcp_url))
        async with asyncio.timeout(10):
            while files_of(engine) > before:
                await asyncio.sleep(0.05)
    assert found["after"] == found["before"]
    assert found["at_last"] == {"sockets": 0, "threads": 1}


def files_of(engine: EngineProcess) -> int:
    """How many the engine has open, connections among them."""
    return len(list(Path(f"/proc/{engine.process.pid}/fd").iterdir()))


@promise("visa.not-crossed")
async def test_after_ctrl_c_in_a_question_the_next_gets_its_own_answer(tmp_path: Path) -> None:
    async with bench(tmp_path) as (engine, unit):
        process = await attacker("broken_off", engine.mcp_url)
        await unit.heard("DELAY? 1")
        process.send_signal(signal.SIGINT)
        assert await told(process) == {"is_broken": True, "answers": list("01234")}
        found = await told(await attacker("breaks", engine.mcp_url))
    assert found["crossed"] == []
    assert found["broken"] > 30


@promise("visa.client-gone")
@pytest.mark.parametrize("how", ["ends", "fails", "vanishes"])
async def test_a_program_that_ends_without_closing_anything_keeps_nothing(
    tmp_path: Path, how: str
) -> None:
    async with bench(tmp_path) as (engine, _unit):
        process = await attacker(how, engine.mcp_url)
        await process.communicate()
        assert process.returncode == (1 if how == "fails" else 0)
        assert await ask_as_agent(engine, 5, 100) == []
        leases = (await asyncio.to_thread(engine.rpc, "leases.list"))["leases"]
    # Who could say nothing keeps its lock for the rest of its minute.
    assert len(leases) == (1 if how == "vanishes" else 0)


@promise("visa.client-gone")
async def test_programs_that_were_killed_with_all_that_may_be_open_leave_room_for_others(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as (engine, _unit):
        for _ in range(6):
            process = await attacker("vanishes_with_much", engine.mcp_url)
            await process.communicate()
            assert process.returncode == 0
        found = await told(await attacker("threads", engine.mcp_url))
    assert found["right"] == 1_600


SPOILS = {
    "cut in its first line": Spoil(How.CUT, part=0.02),
    "cut in its head": Spoil(How.CUT, part=0.4),
    "cut before its last byte": Spoil(How.CUT, part=0.997),
    "dropped": Spoil(How.DROP),
    "reset": Spoil(How.RESET),
    "garbled": Spoil(How.GARBLE),
    "stray": Spoil(How.STRAY),
    "doubled": Spoil(How.DOUBLE),
    "in single bytes": Spoil(How.SPLIT, seconds=0),
}
COME_THROUGH = ("doubled", "in single bytes")


@promise("visa.not-crossed")
async def test_half_an_answer_and_a_hang_up_are_a_lost_connection_and_no_later_answer(
    tmp_path: Path,
) -> None:
    async with (
        bench(tmp_path) as (engine, _unit),
        FaultProxy(engine.ports["mcp_port"]) as proxy,
    ):
        url = f"http://127.0.0.1:{proxy.port}/mcp"
        rm = pyvisa.ResourceManager(f"{url}@edged")
        unit = await asyncio.to_thread(rm.open_resource, "psu1", read_termination="\n")
        assert isinstance(unit, MessageBasedResource)
        number = 0
        for name, spoil in SPOILS.items():
            for _ in range(5):
                number += 2
                proxy.always = spoil
                if name in COME_THROUGH:
                    assert await asyncio.to_thread(unit.query, f"ECHO? {number}") == str(number)
                else:
                    with pytest.raises(pyvisa.VisaIOError, match=url) as lost:
                        await asyncio.to_thread(unit.query, f"ECHO? {number}")
                    assert lost.value.error_code == StatusCode.error_connection_lost, name
                await proxy.heal()
                answer = await asyncio.to_thread(unit.query, f"ECHO? {number + 1}")
                assert answer == str(number + 1), name
        await asyncio.to_thread(rm.close)
        assert await ask_as_agent(engine, 5, 100) == []


@promise("visa.client-gone")
async def test_a_program_that_only_seemed_to_be_gone_goes_on_once_its_unit_was_closed(
    tmp_path: Path,
) -> None:
    async with (
        bench(tmp_path) as (engine, _unit),
        FaultProxy(engine.ports["mcp_port"]) as proxy,
    ):
        rm = pyvisa.ResourceManager(f"http://127.0.0.1:{proxy.port}/mcp@edged")
        unit = await asyncio.to_thread(rm.open_resource, "psu1", read_termination="\n")
        assert isinstance(unit, MessageBasedResource)
        assert await asyncio.to_thread(unit.query, "ECHO? 1") == "1"
        proxy.close_all()
        for _ in range(6):
            process = await attacker("vanishes_with_much", engine.mcp_url)
            await process.communicate()
        assert await asyncio.to_thread(unit.query, "ECHO? 2") == "2"
        await asyncio.to_thread(rm.close)
