"""``edged sim --transport NAME=usbtmc``: a USB device over usbip, where the kernel can.

What the kernel's side of usbip wants is asked here as the kernel asks it (``usbip_host``); on a
machine whose kernel has vhci_hcd the device is plugged into that as well.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edged.cli.main import main
from edged.clock import SystemClock
from edged.transports.link import Link, LinkTimeout
from edged.transports.visa import VisaLibrary
from edged_sim.bench import Bench, Order
from edged_sim.wires.stream import ByteLog, WireKind
from edged_sim.wires.usbtmc import KernelBus
from tests.bench.sim_bench import REPOSITORY, running_bench
from tests.bench.usb_backend import usb_bus
from tests.bench.usbip_host import UsbipBus, UsbipDevice
from tests.bench.waiting import HANGS_S
from tests.promises import promise

ADDRESS = "USB0::0x1209::0x0001::u1::INSTR"


@dataclass
class RunningBench:
    """A bench on a loop of its own thread."""

    bench: Bench
    log: ByteLog
    bus: UsbipBus
    do: Callable[[Coroutine[Any, Any, Any]], Any]

    def received(self) -> list[str]:
        heard = (entry for entry in self.log.entries() if entry.direction == "in")
        return [entry.data.decode("latin-1").strip() for entry in heard]

    @property
    def device(self) -> UsbipDevice:
        return next(iter(self.bus.devices.values()))


@pytest.fixture
def running() -> Iterator[RunningBench]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def do(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(HANGS_S)

    with usb_bus() as pretended, ByteLog(SystemClock()) as log:
        bus = UsbipBus(pretended)
        bench = Bench(clock=SystemClock(), log=log, usb_bus=bus)
        do(bench.add(Order(name="u1", model="generic_scpi", transport=WireKind.USBTMC)))
        bus.enumerate()
        try:
            yield RunningBench(bench, log, bus, do)
        finally:
            do(bench.stop())
            loop.call_soon_threadsafe(loop.stop)
            thread.join(HANGS_S)
            loop.close()


@pytest.fixture
def link(running: RunningBench) -> Iterator[Link]:
    library = VisaLibrary(clock=SystemClock(), is_on_loop=False)
    made = library.open_link(ADDRESS)
    made.open(HANGS_S)
    yield made
    made.release()
    library.close()
    assert running.bus.devices


def ask(link: Link, line: str) -> bytes:
    link.write(f"{line}\n".encode(), HANGS_S)
    return link.read_message(b"\n", HANGS_S)


@promise("sim.usbtmc")
def test_the_kernel_is_told_of_a_usbtmc_device_with_usb488(running: RunningBench) -> None:
    device = running.device
    told = device.control(0x80, 6, 0x0100, 18)
    assert struct.unpack_from("<HH", told, 8) == (0x1209, 0x0001)
    whole = device.control(0x80, 6, 0x0200, 255)
    assert struct.unpack_from("<H", whole, 2) == (len(whole),)
    assert tuple(whole[9 + 5 : 9 + 8]) == (0xFE, 3, 1)
    assert (whole[18 + 2], whole[25 + 2]) == (0x01, 0x82)
    assert device.text(3) == "u1"
    assert device.control(0x80, 6, 0x0200, 9) == whole[:9]
    with pytest.raises(Exception, match="Pipe"):
        device.control(0x80, 6, 0x0600, 10)


@promise("sim.usbtmc")
def test_questions_orders_long_lines_status_and_clear_go_over_it(
    running: RunningBench, link: Link
) -> None:
    assert ask(link, "*IDN?").startswith(b"Example Instruments,GX100,")
    link.write(b"LEV 2.5\n", HANGS_S)
    assert float(ask(link, "LEV?")) == 2.5
    assert b"," in ask(link, " " * 40_000 + "*IDN?")
    link.write(b"*IDN?\n", HANGS_S)
    while not (link.status_byte(HANGS_S) or 0) & 0x10:
        pass
    assert link.clear(HANGS_S)
    with pytest.raises(LinkTimeout):
        link.read_message(b"\n", 0.3)
    assert link.clear(HANGS_S)
    assert float(ask(link, "LEV?")) == 2.5
    assert "LEV 2.5" in running.received()


@promise("sim.usbtmc")
def test_probe_and_a_draft_find_what_there_is_over_usb(
    running: RunningBench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGED_STATE_DIR", str(tmp_path / "state"))
    assert main(["probe", ADDRESS]) == 0
    assert "connection: {timeout_ms: 2000}" in capsys.readouterr().out
    assert main(["profile", "new", "--from", ADDRESS, "--json"]) == 0
    met = json.loads(capsys.readouterr().out)
    # What asks nothing is looked after by the status byte, and never read in vain.
    assert (met["acknowledge"], met["unknown"]) == (None, [])
    assert met["error_query"] == "SYST:ERR?"
    assert len(met["headers"]) > 3
    assert "EDGED:NONE" in running.received()


@promise("sim.usbtmc")
def test_pulled_out_it_is_gone_for_the_kernel(running: RunningBench, link: Link) -> None:
    assert ask(link, "*IDN?")

    async def pull() -> None:
        running.bench.station("u1").power_off()

    running.do(pull())
    assert running.bus.devices == {}
    running.do(running.bench.clear("u1"))
    running.bus.enumerate()
    assert running.bus.devices


@promise("sim.usbtmc")
def test_a_kernel_that_cannot_is_told_in_words(tmp_path: Path) -> None:
    assert "modprobe vhci-hcd" in KernelBus(tmp_path).why_not()
    attach = tmp_path / "attach"
    attach.write_text("")
    assert KernelBus(tmp_path).why_not() == ""
    words = ["--instruments", "u1=generic_scpi", "--transport", "u1=usbtmc"]
    if KernelBus().why_not():
        done = subprocess.run(
            [sys.executable, "-m", "edged_sim.program", *words],
            capture_output=True, text=True, timeout=60, cwd=REPOSITORY, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert KernelBus().why_not() in done.stderr
        assert "Traceback" not in done.stderr
        return
    with running_bench(*words) as bench:
        library = VisaLibrary(clock=SystemClock(), is_on_loop=False)
        made = library.open_link(bench.address("u1"))
        made.open(HANGS_S)
        assert ask(made, "*IDN?").startswith(b"Example Instruments,GX100,")
        made.release()
        library.close()


def test_a_free_port_of_the_kernel_s_hub_is_taken(tmp_path: Path) -> None:
    (tmp_path / "attach").write_text("")
    (tmp_path / "detach").write_text("")
    (tmp_path / "status").write_text(
        "hub port sta spd dev      sockfd local_busid\n"
        "hs  0000 006 002 00010002 000003 1-1\n"
        "hs  0001 004 000 00000000 000000 0-0\n"
        "ss  0008 004 000 00000000 000000 0-0\n"
    )
    bus = KernelBus(tmp_path)
    with socket.socket() as connection:
        assert bus.plug(connection) == 1
        assert (tmp_path / "attach").read_text() == f"1 {connection.fileno()} 2 2"
    bus.unplug(1)
    assert (tmp_path / "detach").read_text() == "1"
