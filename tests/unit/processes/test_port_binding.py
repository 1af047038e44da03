"""A port that is in use at the start is tried again, at first often."""

from __future__ import annotations

import asyncio

from edged.engine.binding import SOON_FOR_S, PortBinding
from edged.errors import ErrorCode, Failed
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise


class Port:
    """A port that another program holds until it is freed."""

    def __init__(self, clock: DrivenClock) -> None:
        self._clock = clock
        self.is_free = False
        self.tried_s: list[float] = []

    async def bind(self) -> None:
        self.tried_s.append(self._clock.monotonic())
        if not self.is_free:
            raise Failed("The port is held by another program.", code=ErrorCode.BIND_FAILED)


@promise("ports.again")
async def test_a_taken_port_is_tried_each_second_for_a_minute_and_then_more_rarely(
    driven_clock: DrivenClock,
) -> None:
    port, bound = Port(driven_clock), asyncio.Event()
    binding = PortBinding("rpc", bind=port.bind, port=lambda: 8766, again_s=300, clock=driven_clock)
    began_s = driven_clock.monotonic()
    await binding.start(bound.set)
    assert "held by another program" in binding.error
    for _ in range(1200):
        await driven_clock.advance(1)
    tried = [at_s - began_s for at_s in port.tried_s]
    soon = [at_s for at_s in tried if at_s <= SOON_FOR_S]
    assert soon == [float(second) for second in range(61)]
    assert tried[len(soon) :] == [360.0, 660.0, 960.0]
    port.is_free = True
    await driven_clock.advance(300)
    assert bound.is_set()
    assert binding.error == ""
    await binding.stop()


@promise("ports.again")
async def test_a_port_that_is_freed_soon_is_bound_within_a_second(
    driven_clock: DrivenClock,
) -> None:
    port, bound = Port(driven_clock), asyncio.Event()
    binding = PortBinding("mcp", bind=port.bind, port=lambda: 8767, again_s=300, clock=driven_clock)
    await binding.start(bound.set)
    await driven_clock.advance(1)
    assert not bound.is_set()
    port.is_free = True
    await driven_clock.advance(1)
    assert bound.is_set()
    await binding.stop()
