"""Every scenario on every transport: right or an error, the others unaffected, well by itself."""

import pytest

from edged_sim.wires.stream import WireKind
from tests.bench.scenarios import EVERY, OF_THE_INSTRUMENT, QUICK, hold
from tests.bench.wired import NETWORK, Lines, wired
from tests.promises import promise


@promise("line.no-late-answer")
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", NETWORK)
async def test_a_network_transport_answers_right_or_fails_and_recovers(
    kind: WireKind, name: str
) -> None:
    async with wired(kind) as unit, wired(kind) as other:
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn, QUICK)
            await hold(EVERY[name], unit, line, lines.open(other.address, other.idn))
        finally:
            await lines.close()


@pytest.mark.parametrize("name", OF_THE_INSTRUMENT)
async def test_a_serial_port_answers_right_or_fails_and_recovers(name: str) -> None:
    async with wired(WireKind.SERIAL) as unit, wired(WireKind.SERIAL) as other:
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn, QUICK)
            await hold(OF_THE_INSTRUMENT[name], unit, line, lines.open(other.address, other.idn))
        finally:
            await lines.close()


@pytest.mark.parametrize("name", OF_THE_INSTRUMENT)
async def test_an_instrument_behind_an_adapter_does_not_spoil_its_neighbour(name: str) -> None:
    async with wired(WireKind.PROLOGIX, "unit", "other") as unit:
        other = unit.bench.station("other")
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn, QUICK)
            address = other.address.replace(str(other.port), str(unit.proxy.port))  # type: ignore[union-attr]
            neighbour = lines.open(address, other.instrument.idn)
            await hold(OF_THE_INSTRUMENT[name], unit, line, neighbour)
        finally:
            await lines.close()
