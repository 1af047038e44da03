import asyncio
import errno
import socket
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.discovery.hotplug import Settling, pick_monitor, start_monitor
from edged.discovery.hotplug_linux import KernelMonitor, device_of, is_kernels, parse_event
from edged.discovery.hotplug_windows import ListMonitor
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_bus import FakeMonitor
from tests.promises import promise

PORT = "/devices/pci0000:00/0000:00:14.0/usb1/1-4"


def event(path: str, action: str = "add", subsystem: str = "usb") -> bytes:
    fields = (f"{action}@{path}", f"ACTION={action}", f"DEVPATH={path}", f"SUBSYSTEM={subsystem}")
    return "\0".join(fields).encode() + b"\0"


@pytest.mark.parametrize(
    "path", [PORT, f"{PORT}/1-4:1.0", f"{PORT}/1-4:1.0/ttyUSB0/tty/ttyUSB0", f"{PORT}/1-4:1.1/usb"]
)
def test_a_device_and_all_that_hangs_on_it_settle_together(path: str) -> None:
    assert device_of(parse_event(event(path))) == "1-4"


def test_a_device_behind_a_hub_is_not_the_hub() -> None:
    assert device_of(parse_event(event(f"{PORT}/1-4.2/1-4.2:1.0"))) == "1-4.2"


def test_a_serial_port_that_is_not_on_usb_is_told_by_its_path() -> None:
    path = "/devices/virtual/tty/ttyS0"
    assert device_of(parse_event(event(path, subsystem="tty"))) == path


@pytest.mark.parametrize("subsystem", ["net", "block", "power_supply", ""])
def test_events_of_other_subsystems_are_not_heard(subsystem: str) -> None:
    assert device_of(parse_event(event(PORT, subsystem=subsystem))) == ""


@given(st.binary(max_size=300))
def test_no_datagram_makes_the_monitor_fail(data: bytes) -> None:
    assert isinstance(device_of(parse_event(data)), str)


@promise("hotplug.kernel-only")
@pytest.mark.parametrize(
    ("sender", "is_genuine"),
    [((0, 1), True), ((4711, 1), False), ((-1, 1), False), (None, False), ("", False)],
)
def test_only_the_kernel_is_believed(sender: object, is_genuine: bool) -> None:
    assert is_kernels(sender) is is_genuine


def test_a_device_is_looked_at_once_it_is_quiet() -> None:
    settling = Settling()
    for now in (0.0, 0.1, 0.2):
        settling.note("1-4", now)
        assert not settling.take_settled(now)
    assert settling.take_settled(0.4)
    assert not settling.take_settled(9.0)


def test_a_device_that_chatters_delays_no_other_and_is_looked_at_all_the_same() -> None:
    settling = Settling()
    settling.note("quiet", 0.0)
    looks = []
    for step in range(20):
        now = step * 0.05
        settling.note("chatty", now)
        if settling.take_settled(now):
            looks.append(now)
    assert looks[0] < 0.25
    assert len(looks) >= 2


def test_a_storm_of_devices_is_bounded() -> None:
    settling = Settling()
    for number in range(10_000):
        settling.note(f"device {number}", 0.0)
    assert len(settling._devices) <= 256
    assert settling.take_settled(1.0)


async def nothing() -> frozenset[str]:
    return frozenset()


@pytest.mark.parametrize(
    ("platform", "kind"),
    [("linux", KernelMonitor), ("win32", ListMonitor), ("sunos5", ListMonitor)],
)
def test_the_picker_takes_what_the_platform_has_and_says_why(
    platform: str, kind: type, driven_clock: DrivenClock
) -> None:
    picked = pick_monitor(nothing, driven_clock, platform)
    assert isinstance(picked.monitor, kind)
    assert picked.why


async def test_where_the_kernel_does_not_tell_lists_are_compared_and_it_is_said(
    driven_clock: DrivenClock,
) -> None:
    broken = FakeMonitor(OSError(errno.EPROTONOSUPPORT, "no such family"))
    picked = broken.pick(nothing, driven_clock)
    running = start_monitor(picked, lambda _device: None, nothing, driven_clock)
    assert running.name == "lists"
    assert "no such family" in running.why
    await running.monitor.stop()
    await running.monitor.stop()


async def test_comparing_lists_tells_what_came_and_went_every_two_seconds(
    driven_clock: DrivenClock,
) -> None:
    things: list[frozenset[str] | None] = [frozenset({"a"})]
    heard: list[str] = []

    async def now() -> frozenset[str] | None:
        return things[-1]

    monitor = ListMonitor(now, driven_clock)
    monitor.start(heard.append)
    await driven_clock.advance(2.0)
    assert heard == []
    things.append(frozenset({"a", "b"}))
    await driven_clock.advance(1.9)
    assert heard == []
    await driven_clock.advance(0.1)
    assert heard == ["b"]
    # A list that cannot be had is no departure.
    things.append(None)
    await driven_clock.advance(2.0)
    things.append(frozenset({"b"}))
    await driven_clock.advance(2.0)
    assert heard == ["b", "a"]
    await monitor.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="netlink is Linux's")
async def test_what_another_program_sends_is_not_taken_for_the_kernel_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[str] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with theirs:
        ours.setblocking(False)
        monkeypatch.setattr("edged.discovery.hotplug_linux._open_socket", lambda: ours)
        monitor = KernelMonitor()
        monitor.start(heard.append)
        theirs.send(event(PORT))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await monitor.stop()
        await monitor.stop()
    assert heard == []
