"""A safe command beside a query that hangs for 30 s, on every transport."""

import asyncio

import pytest

from edged.errors import ErrorCode, Failed
from edged_sim.bench import Order
from edged_sim.wires.stream import WireKind
from tests.bench.scenarios import QUICK
from tests.bench.usb_backend import UsbInstrument, usb_bus
from tests.bench.waiting import HANGS_S, OwnTime
from tests.bench.wired import NETWORK, Lines, wired
from tests.promises import promise

BOUND_S = 0.5
"""docs/promises.md section 13, in seconds that the process has a processor; for the median."""
WORST_S = 2.5
TRIES = 9


@promise("line.safe-overtakes")
@pytest.mark.parametrize("kind", [*NETWORK, WireKind.PROLOGIX])
async def test_a_safe_command_overtakes_a_hung_query(kind: WireKind) -> None:
    took = []
    async with wired(kind) as unit:
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn)
            for number in range(1, TRIES + 1):
                hung = asyncio.create_task(line.ask("DIAG:DELAY? 30", answer_s=30, timeout_s=40))
                await unit.heard("DIAG:DELAY? 30", number)
                with OwnTime() as own:
                    await line.make_safe("OUTP OFF")
                    await unit.heard("OUTP OFF", number)
                    took.append(own.seconds())
                with pytest.raises(Failed) as caught:
                    await hung
                assert caught.value.code is ErrorCode.PREEMPTED
                assert await line.echo(number) == str(number)
        finally:
            await lines.close()
    assert sorted(took)[TRIES // 2] < BOUND_S, took
    assert max(took) < WORST_S, took


async def test_a_serial_instrument_gets_a_safe_command_while_it_is_busy() -> None:
    async with wired(WireKind.SERIAL) as unit:
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn, QUICK)
            await line.echo("ready")
            hung = asyncio.create_task(line.ask("DIAG:DELAY? 2", answer_s=30, timeout_s=40))
            await unit.heard("DIAG:DELAY? 2")
            with OwnTime() as own:
                await line.make_safe("OUTP OFF")
                await unit.heard("OUTP OFF")
                assert own.seconds() < BOUND_S * 2
            with pytest.raises(Failed) as caught:
                await hung
            assert caught.value.code is ErrorCode.PREEMPTED
        finally:
            await lines.close()


async def test_an_instrument_that_takes_one_session_is_reopened_in_time() -> None:
    for kind in NETWORK:
        async with wired(kind) as unit:
            order = Order(name="one", model="generic_scpi", transport=kind, is_single_session=True)
            single = await unit.bench.add(order)
            lines = Lines()
            try:
                line = lines.open(single.address, single.instrument.idn)
                hung = asyncio.create_task(line.ask("DIAG:DELAY? 30", answer_s=30, timeout_s=40))
                async with asyncio.timeout(HANGS_S):
                    while line.actor.exchanges()[-1:] == [] or b"DELAY" not in (
                        line.actor.exchanges()[-1].data
                    ):
                        await asyncio.sleep(0.01)
                with OwnTime() as own:
                    await line.make_safe("OUTP OFF")
                    assert own.seconds() < WORST_S
                await asyncio.gather(hung, return_exceptions=True)
            finally:
                await lines.close()


async def test_a_usb_instrument_is_cleared_for_a_safe_command() -> None:
    with usb_bus() as bus:
        unit = bus.plug(UsbInstrument())
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn)
            await line.ask("ECHO? ready")
            hung = asyncio.create_task(line.ask("DELAY? 30", answer_s=30, timeout_s=40))
            assert await asyncio.to_thread(unit.heard, "DELAY? 30")
            with OwnTime() as own:
                await line.make_safe("OUTP OFF")
                assert await asyncio.to_thread(unit.heard, "OUTP OFF")
                assert own.seconds() < BOUND_S * 2
            await asyncio.gather(hung, return_exceptions=True)
            assert unit.clears == 1
            assert unit.opened == 1
        finally:
            await lines.close()
