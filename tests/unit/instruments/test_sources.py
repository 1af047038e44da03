import errno
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import usb.core
from hypothesis import given
from hypothesis import strategies as st
from usb.backend import IBackend

from edged.discovery.buses import printable
from edged.discovery.lan import _CALL, _REPLY, XID, Announced, LanSource, _tells_a_port
from edged.discovery.serial import SerialSource, known_usb_ids
from edged.discovery.usb import UsbSource
from edged.errors import EdgedError
from edged.transports.address import parse_address
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import toy_profile
from tests.promises import promise

RIGOL = (0x1AB1, 0x0E11)


@dataclass
class Device:
    vendor: int = RIGOL[0]
    product: int = RIGOL[1]
    address: int = 1
    serial: str | None = "DP8A1"
    interface: tuple[int, int] = (0xFE, 0x03)
    refusal: Exception | None = None


class Devices(IBackend):  # type: ignore[misc]
    """As much of a pyusb backend as being looked at needs."""

    def __init__(self, *devices: Device) -> None:
        self.devices = list(devices)
        self.opened = 0

    def enumerate_devices(self) -> Any:
        return iter(self.devices)

    def get_device_descriptor(self, dev: Device) -> Any:
        return SimpleNamespace(
            bLength=18, bDescriptorType=1, bcdUSB=0x200, bDeviceClass=0, bDeviceSubClass=0,
            bDeviceProtocol=0, bMaxPacketSize0=64, idVendor=dev.vendor, idProduct=dev.product,
            bcdDevice=1, iManufacturer=0, iProduct=0, iSerialNumber=3 if dev.serial is not None
            else 0, bNumConfigurations=1, address=dev.address, bus=1, port_number=1,
            port_numbers=(1,), speed=3,
        )  # fmt: skip

    def get_configuration_descriptor(self, dev: Device, config: int) -> Any:
        if config:
            raise IndexError
        return SimpleNamespace(
            bLength=9, bDescriptorType=2, wTotalLength=32, bNumInterfaces=1,
            bConfigurationValue=1, iConfiguration=0, bmAttributes=0x80, bMaxPower=50,
            extra_descriptors=[],
        )  # fmt: skip

    def get_interface_descriptor(self, dev: Device, intf: int, alt: int, config: int) -> Any:
        if intf or alt:
            raise IndexError
        kind, subkind = dev.interface
        return SimpleNamespace(
            bLength=9, bDescriptorType=4, bInterfaceNumber=0, bAlternateSetting=0, bNumEndpoints=0,
            bInterfaceClass=kind, bInterfaceSubClass=subkind, bInterfaceProtocol=1, iInterface=0,
            extra_descriptors=[],
        )  # fmt: skip

    def open_device(self, dev: Device) -> Any:
        self.opened += 1
        if dev.refusal is not None:
            raise dev.refusal
        return dev

    def close_device(self, dev_handle: Any) -> None:
        pass

    def ctrl_transfer(
        self, dev_handle: Device, type_: int, request: int, value: int, *rest: Any
    ) -> int:
        data = rest[1]
        text = struct.pack("<H", 0x0409)
        if value & 0xFF:
            text = (dev_handle.serial or "").encode("utf-16-le")
        answer = bytes([len(text) + 2, 3]) + text
        size = min(len(answer), len(data) * data.itemsize)
        data[:size] = type(data)("B", answer[:size])
        return size


def test_usb_instruments_are_listed_with_their_ids_and_serial_numbers() -> None:
    printer = Device(interface=(7, 1), address=9)
    (found,) = UsbSource(Devices(Device(), printer)).list_now().candidates
    assert found.entry.address == "USB0::0x1AB1::0x0E11::DP8A1::INSTR"
    assert found.usb_id == RIGOL
    assert found.problem == ""
    decimal = parse_address("USB0::6833::3601::DP8A1::0::INSTR")
    assert parse_address(found.entry.address).key == decimal.key


def test_a_device_that_is_known_is_not_opened_again() -> None:
    backend = Devices(Device())
    source = UsbSource(backend)
    source.list_now()
    opened = backend.opened
    source.list_now()
    assert backend.opened == opened
    backend.devices = [Device(address=2)]
    (found,) = source.list_now().candidates
    assert found.plug == "1-2"
    assert backend.opened > opened


@promise("discovery.ids-normalised")
def test_nul_bytes_in_a_serial_number_are_not_in_its_id_but_it_can_be_opened() -> None:
    (found,) = UsbSource(Devices(Device(serial="DS1\0A\0\0"))).list_now().candidates
    assert found.entry.address == "USB0::0x1AB1::0x0E11::DS1A::INSTR"
    assert found.open_as == "USB0::0x1AB1::0x0E11::DS1?A??::INSTR"


@pytest.mark.parametrize(
    ("device", "why"),
    [
        (Device(refusal=usb.core.USBError("Access denied", 13, errno.EACCES)), "udev"),
        (Device(serial=None), "no serial number"),
        (Device(serial=""), "no serial number"),
    ],
)
def test_a_device_that_cannot_be_addressed_is_told_with_the_reason(
    device: Device, why: str
) -> None:
    (found,) = UsbSource(Devices(device)).list_now().candidates
    assert why in found.problem


def test_a_missing_libusb_is_a_remark_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_options: object) -> None:
        raise usb.core.NoBackendError("No backend available")

    monkeypatch.setattr(usb.core, "find", none)
    listing = UsbSource(load=lambda: None).list_now()
    assert listing.candidates == ()
    assert "libusb" in listing.remark


def port(device: str, usb_id: tuple[int, int] | None = None) -> SimpleNamespace:
    vid, pid = usb_id or (None, None)
    return SimpleNamespace(device=device, vid=vid, pid=pid, location="1-4", serial_number="X")


@promise("discovery.serial-unasked")
def test_only_ports_of_the_owner_and_of_known_usb_ids_are_ever_asked() -> None:
    ports = [
        port("/dev/ttyS0"), port("/dev/ttyS1"), port("/dev/ttyUSB0", (0x0403, 0x6001)),
        port("/dev/ttyUSB1", RIGOL),
    ]  # fmt: skip
    listing = SerialSource(["/dev/ttyS1"], frozenset({RIGOL}), lambda: ports).list_now()
    addresses = [c.entry.address for c in listing.candidates]
    assert addresses == ["ASRL/dev/ttyS1::INSTR", "ASRL/dev/ttyUSB1::INSTR"]
    assert [c.usb_id for c in listing.candidates] == [None, RIGOL]
    assert "/dev/ttyUSB0 (0403:6001)" in listing.remark
    assert "ttyS0" not in listing.remark
    assert listing.usb_ids == {(0x0403, 0x6001), RIGOL}


@pytest.mark.parametrize("spelling", ["COM3", "ASRLCOM3::INSTR", "asrlCOM3"])
def test_a_serial_port_may_be_spelled_as_the_system_or_as_visa_does(spelling: str) -> None:
    listing = SerialSource([spelling], frozenset(), lambda: [port("COM3")]).list_now()
    assert [c.entry.address for c in listing.candidates] == ["ASRLCOM3::INSTR"]


def test_a_port_that_the_owner_names_by_a_link_is_asked_under_that_name(tmp_path: Path) -> None:
    real, link = tmp_path / "ttyUSB7", tmp_path / "by-id"
    real.touch()
    link.symlink_to(real)
    for listed in ([port(str(real))], []):
        listing = SerialSource([str(link)], frozenset(), lambda: listed).list_now()  # noqa: B023
        assert [c.entry.address for c in listing.candidates] == [f"ASRL{link}::INSTR"]
    os.unlink(real)  # noqa: PTH108
    assert SerialSource([str(link)], frozenset(), list).list_now().candidates == ()


def test_usb_ids_of_profiles_are_known() -> None:
    assert known_usb_ids([toy_profile()]) == frozenset()


def test_one_address_for_each_host_and_the_best_service() -> None:
    heard = [
        Announced("_scpi-raw._tcp.local.", "10.0.0.5", 5025),
        Announced("_hislip._tcp.local.", "10.0.0.5", 4880),
        Announced("_vxi-11._tcp.local.", "10.0.0.5", 111),
        Announced("_scpi-raw._tcp.local.", "10.0.0.6", 5555),
        Announced("_hislip._tcp.local.", "10.0.0.7", 4881),
        Announced("_ipp._tcp.local.", "10.0.0.8", 631),
        Announced("_hislip._tcp.local.", "evil::INSTR", 1),
    ]
    source = LanSource(
        DrivenClock(), browse=lambda *_: heard, call=lambda *_: ["10.0.0.9", "10.0.0.6"]
    )
    assert [c.entry.address for c in source.list_now().candidates] == [
        "TCPIP0::10.0.0.5::hislip0::INSTR",
        "TCPIP0::10.0.0.6::inst0::INSTR",
        "TCPIP0::10.0.0.7::hislip0,4881::INSTR",
        "TCPIP0::10.0.0.9::inst0::INSTR",
    ]


def test_a_network_that_takes_no_broadcast_is_a_remark() -> None:
    def refuse(*_: object) -> list[Any]:
        raise OSError("Network is unreachable")

    listing = LanSource(DrivenClock(), browse=refuse, call=refuse).list_now()
    assert listing.candidates == ()
    assert "no mDNS" in listing.remark
    assert "no VXI-11" in listing.remark


def test_a_port_mapper_s_answer_is_told_from_noise() -> None:
    good = (XID, 1, 0, 0, 0, 0, 1024)
    assert _tells_a_port(_REPLY.pack(*good))
    for place, wrong in ((0, 1), (1, 0), (2, 1), (4, 8), (5, 1), (6, 0), (6, 70_000)):
        bad = list(good)
        bad[place] = wrong
        assert not _tells_a_port(_REPLY.pack(*bad))
    assert len(_CALL) == 56


@given(st.binary(max_size=64))
def test_no_datagram_makes_the_call_fail(data: bytes) -> None:
    assert _tells_a_port(data) in {True, False}


@given(st.text(max_size=40))
def test_what_a_device_calls_itself_never_breaks_an_address(serial: str) -> None:
    clean = printable(serial)
    if clean:
        address = parse_address(f"USB0::0x1::0x2::{clean}::INSTR")
        assert "\0" not in address.text
    else:
        with pytest.raises(EdgedError):
            parse_address(f"USB0::0x1::0x2::{clean}::INSTR")
