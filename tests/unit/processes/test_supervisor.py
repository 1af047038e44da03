"""The supervisor where no engine can be started; its lives with real ones are in tests/faults."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edged.config.load import load_config, this_machine
from edged.service import Notifier
from edged.supervisor.supervisor import Supervisor, ready_within_s
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise

WITHIN_S = 20.0
NO_SYSTEM_TAKES = "x" * (4 * 1024 * 1024)
"""An argument so long that starting a process with it is refused, as it is without memory."""


def supervisor_of(state_dir: Path, clock: DrivenClock, *engine_arguments: str) -> Supervisor:
    config = load_config(
        places=this_machine(),
        environ={},
        file=None,
        flags=[("STATE_DIR", str(state_dir), "--state-dir"), ("MCP_ENABLED", "false", "--set")],
    ).config
    return Supervisor(
        config,
        engine_arguments=engine_arguments,
        is_port_shared=False,
        notifier=Notifier({}),
        clock=clock,
    )


async def test_an_engine_that_cannot_be_started_is_tried_again_and_ends_nothing(
    tmp_path: Path, driven_clock: DrivenClock
) -> None:
    supervisor = supervisor_of(tmp_path, driven_clock, NO_SYSTEM_TAKES)
    asked = asyncio.Event()
    running = asyncio.create_task(supervisor.run(asked))
    async with asyncio.timeout(WITHIN_S):
        while supervisor.restarts < 3:
            await driven_clock.advance(1.0)
            assert not running.done()
        asked.set()
        assert await running == 0


class NeverReady:
    """Stands for ``EngineChild``: an engine that is still starting whenever one looks."""

    is_ours, pid, output, last_words = True, 1, None, ""

    def __init__(self, *_: object, **__: object) -> None:
        self._gone = asyncio.Event()

    async def start(self) -> None:
        """Nothing is started."""

    async def ready(self) -> None:
        await asyncio.Event().wait()

    async def ended(self) -> int:
        await self._gone.wait()
        return -9

    async def kill(self) -> None:
        self._gone.set()

    stop = kill


@promise("supervisor.slow-start")
async def test_a_start_after_one_that_took_too_long_has_twice_the_time(
    tmp_path: Path, driven_clock: DrivenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edged.supervisor.supervisor.EngineChild", NeverReady)
    supervisor = supervisor_of(tmp_path, driven_clock)
    asked = asyncio.Event()
    running = asyncio.create_task(supervisor.run(asked))
    lasted_s = []
    async with asyncio.timeout(WITHIN_S):
        for life in range(3):
            began_s = driven_clock.monotonic()
            while supervisor.restarts == life:
                await driven_clock.advance(1.0)
            lasted_s.append(driven_clock.monotonic() - began_s)
        asked.set()
        assert await running == 0
    assert [round(life_s / 60) for life_s in lasted_s] == [1, 2, 4]


def test_the_time_for_a_start_doubles_up_to_a_bound() -> None:
    assert [ready_within_s(count) for count in range(5)] == [60.0, 120.0, 240.0, 480.0, 480.0]
    assert ready_within_s(10_000) == 480.0
