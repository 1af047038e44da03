"""The simulated servers against pyvisa-py's own client; ``edged sim --transport`` as a program."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import pyvisa

from edged_sim.wires.hislip import HislipWire
from edged_sim.wires.stream import WireKind
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import HANGS_S
from tests.bench.wired import Lines, wired

HANGS_MS = round(HANGS_S * 1000)


def in_thread(work: Callable[[Any], Any], address: str) -> Any:
    manager = pyvisa.ResourceManager("@py")
    try:
        resource: Any = manager.open_resource(address, open_timeout=HANGS_MS)
        resource.timeout = HANGS_MS
        resource.read_termination = resource.write_termination = "\n"
        try:
            return work(resource)
        finally:
            resource.close()
    finally:
        manager.close()


@pytest.mark.parametrize("kind", [WireKind.VXI11, WireKind.HISLIP, WireKind.SERIAL])
async def test_pyvisas_own_client_is_answered(kind: WireKind) -> None:
    async with wired(kind) as unit:
        unit.special[b"WAV?"] = b"#6100000" + bytes(100_000) + b"\n"

        def talk(resource: Any) -> tuple[str, str, int]:
            resource.write("LEV 2.5")
            block = resource.query_binary_values("WAV?", datatype="B", container=bytes)
            return resource.query("*IDN?"), resource.query("LEV?"), len(block)

        idn, level, length = await asyncio.to_thread(in_thread, talk, unit.station.address)
    assert (idn, float(level), length) == (unit.idn, 2.5, 100_000)


@pytest.mark.parametrize("kind", [WireKind.VXI11, WireKind.HISLIP])
async def test_pyvisas_device_clear_ends_what_runs(kind: WireKind) -> None:
    async with wired(kind) as unit:

        def talk(resource: Any) -> str:
            resource.write("DIAG:DELAY? 30")
            resource.clear()
            return str(resource.query('DIAG:ECHO? "after"'))

        assert await asyncio.to_thread(in_thread, talk, unit.station.address) == "after"


async def test_an_overlapped_instrument_is_asked_to_answer_one_by_one() -> None:
    async with wired(WireKind.HISLIP) as unit:
        wire = unit.station._wire
        assert isinstance(wire, HislipWire)
        wire.is_overlapped = True
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn)
            assert await line.echo("one") == "one"
            assert not wire.is_overlapped
        finally:
            await lines.close()


def test_the_program_offers_each_instrument_over_the_wire_it_is_told() -> None:
    wires = {"a": "hislip", "b": "vxi11", "c": "serial", "d": "prologix", "e": "prologix"}
    flags = [word for name, kind in wires.items() for word in ("--transport", f"{name}={kind}")]
    orders = ",".join(f"{name}=generic_scpi" for name in (*wires, "f"))
    with running_bench("--instruments", orders, *flags) as bench:
        addresses = {name: bench.address(name) for name in (*wires, "f")}
    assert "::hislip0," in addresses["a"]
    assert addresses["b"].endswith("::inst0::INSTR")
    assert addresses["c"].startswith("ASRL/")
    assert addresses["d"].startswith("PRLGX-TCPIP::")
    assert addresses["e"].replace("::2::", "::1::") == addresses["d"]
    assert addresses["f"].endswith("::SOCKET")
