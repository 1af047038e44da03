"""Every scenario of ``tests/bench/scenarios.py`` on a raw socket; others by ``make faults``."""

import pytest

from edged_sim.wires.stream import WireKind
from tests.bench.scenarios import EVERY, QUICK, hold
from tests.bench.wired import Lines, wired
from tests.promises import promise


@promise("line.no-late-answer")
@pytest.mark.parametrize("name", EVERY)
async def test_a_raw_socket_answers_right_or_fails_and_recovers(name: str) -> None:
    async with wired(WireKind.SOCKET) as unit, wired(WireKind.SOCKET) as other:
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn, QUICK)
            await hold(EVERY[name], unit, line, lines.open(other.address, other.idn))
        finally:
            await lines.close()
