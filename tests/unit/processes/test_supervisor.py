"""The supervisor where no engine can be started; its lives with real ones are in tests/faults."""

from __future__ import annotations

import asyncio
from pathlib import Path

from edged.config.load import load_config, this_machine
from edged.service import Notifier
from edged.supervisor.supervisor import Supervisor
from tests.bench.driven_clock import DrivenClock

WITHIN_S = 20.0
NO_SYSTEM_TAKES = "x" * (4 * 1024 * 1024)
"""An argument so long that starting a process with it is refused, as it is without memory."""


async def test_an_engine_that_cannot_be_started_is_tried_again_and_ends_nothing(
    tmp_path: Path, driven_clock: DrivenClock
) -> None:
    config = load_config(
        places=this_machine(),
        environ={},
        file=None,
        flags=[("STATE_DIR", str(tmp_path), "--state-dir"), ("MCP_ENABLED", "false", "--set")],
    ).config
    supervisor = Supervisor(
        config,
        engine_arguments=[NO_SYSTEM_TAKES],
        is_port_shared=False,
        notifier=Notifier({}),
        clock=driven_clock,
    )
    asked = asyncio.Event()
    running = asyncio.create_task(supervisor.run(asked))
    async with asyncio.timeout(WITHIN_S):
        while supervisor.restarts < 3:
            await driven_clock.advance(1.0)
            assert not running.done()
        asked.set()
        assert await running == 0
