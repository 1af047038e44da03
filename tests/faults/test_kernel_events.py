"""The kernel's own hot-plug events, real ones: needs root, and says so."""

import asyncio
import os
import socket

import pytest

from edged.clock import SystemClock
from edged.discovery.hotplug import pick_monitor, start_monitor
from edged.discovery.hotplug_linux import KERNEL_GROUP, KOBJECT_UEVENT, KernelMonitor
from tests.bench.kernel_event import make_event, why_not
from tests.bench.waiting import HANGS_S, OwnTime
from tests.promises import promise

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no kernel event: {why_not()}")


@promise("hotplug.kernel")
async def test_the_monitor_hears_the_kernel_within_a_tenth_of_a_second() -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def nothing() -> frozenset[str]:
        return frozenset()

    clock = SystemClock()
    picked = start_monitor(pick_monitor(nothing, clock), heard.put_nowait, nothing, clock)
    assert picked.name == "kernel"
    try:
        for action in ("add", "remove"):
            with OwnTime() as own:
                make_event(action)
                async with asyncio.timeout(HANGS_S):
                    device = await heard.get()
                assert own.seconds() < 0.1
            assert "ttyS0" in device
    finally:
        make_event("add")
        await picked.monitor.stop()


async def test_an_event_that_a_program_forged_is_not_believed() -> None:
    heard: list[str] = []
    monitor = KernelMonitor()
    monitor.start(heard.append)
    path = "/devices/pci0000:00/usb1/1-4"
    forged = f"add@{path}\0ACTION=add\0DEVPATH={path}\0SUBSYSTEM=usb\0".encode()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, KOBJECT_UEVENT) as forger:
            forger.bind((0, 0))
            try:
                forger.sendto(forged, (0, KERNEL_GROUP))
            except OSError as error:
                pytest.skip(f"this kernel takes no forged event (uid {os.getuid()}): {error}")
            # A real one after it: when that was heard, the forged one has been read.
            make_event("add")
            async with asyncio.timeout(HANGS_S):
                while not heard:
                    await asyncio.sleep(0.01)
    finally:
        await monitor.stop()
    assert all("ttyS0" in device for device in heard)
