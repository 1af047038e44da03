"""How soon a safe command reaches an instrument whose line hangs in a 30 s query, by transport.

Thirty tries each, on real lines to simulated instruments over loopback, a pty and a simulated USB
bus: from the call to the bytes at the instrument. Serial: the instrument is busy for 0.3 s, as a
serial line has nothing to end a query with; what counts is when the bytes are there.
"""

from __future__ import annotations

import asyncio
import sys
import time

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from edged_sim.wires.stream import WireKind
from tests.bench.usb_backend import UsbInstrument, usb_bus
from tests.bench.wired import SIMULATED, Line, Lines, wired

TRIES = 30
BOUND_MS = 500
SAFE = "OUTP OFF"


async def simulated(kind: WireKind) -> tuple[list[float], list[float]]:
    """Milliseconds to the safe command's arrival, and to the next right answer after it."""
    query = "DIAG:DELAY? 0.3" if kind is WireKind.SERIAL else "DIAG:DELAY? 30"
    arrived, recovered = [], []
    async with wired(kind) as unit:
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn)
            await line.echo("ready")
            for number in range(1, TRIES + 1):
                hung = asyncio.create_task(line.ask(query, answer_s=30, timeout_s=40))
                await unit.heard(query, number)
                began = time.monotonic()
                await line.make_safe(SAFE)
                await unit.heard(SAFE, number)
                arrived.append(1000 * (time.monotonic() - began))
                await asyncio.gather(hung, return_exceptions=True)
                await line.echo(number)
                recovered.append(1000 * (time.monotonic() - began))
        finally:
            await lines.close()
    return arrived, recovered


async def usb() -> tuple[list[float], list[float]]:
    arrived, recovered = [], []
    with usb_bus() as bus:
        unit = bus.plug(UsbInstrument())
        lines = Lines()
        try:
            line: Line = lines.open(unit.address, unit.idn)
            await line.ask("ECHO? ready")
            for _ in range(TRIES):
                unit.received.clear()
                hung = asyncio.create_task(line.ask("DELAY? 30", answer_s=30, timeout_s=40))
                await asyncio.to_thread(unit.heard, "DELAY? 30")
                began = time.monotonic()
                await line.make_safe(SAFE)
                await asyncio.to_thread(unit.heard, SAFE)
                arrived.append(1000 * (time.monotonic() - began))
                await asyncio.gather(hung, return_exceptions=True)
                await line.ask("ECHO? next")
                recovered.append(1000 * (time.monotonic() - began))
        finally:
            await lines.close()
    return arrived, recovered


async def measure() -> list[Figure]:
    figures = []
    for name, run in [(k.value, simulated(k)) for k in SIMULATED] + [("usbtmc", usb())]:
        arrived, recovered = await run
        figures += [
            Figure(name=f"{name}, p50", value=percentile(arrived, 0.5), unit="ms"),
            Figure(name=f"{name}, p99", value=percentile(arrived, 0.99), unit="ms", bound=BOUND_MS),
            Figure(name=f"{name}, next answer p99", value=percentile(recovered, 0.99), unit="ms"),
        ]
    return figures


def main() -> int:
    as_json = parse_json_flag(__doc__ or "")
    return tell("a safe command beside a hung query", asyncio.run(measure()), as_json=as_json)


if __name__ == "__main__":
    sys.exit(main())
