import pytest

from edged.errors import ErrorCode, Invalid
from edged.transports.address import Transport, parse_address


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TCPIP::10.0.0.5::5025::SOCKET", "TCPIP0::10.0.0.5::5025::socket"),
        ("USB0::6833::3601::AB12::0::INSTR", "USB::0x1AB1::0x0E11::AB12::INSTR"),
        ("TCPIP::Scope.lan::INSTR", "tcpip0::scope.LAN::INSTR"),
        ("USB::62700::5136::SPD1\x00\x00::INSTR", "USB0::0xF4EC::0x1410::SPD1::0::INSTR"),
    ],
)
def test_two_spellings_of_one_address_have_one_key(one: str, other: str) -> None:
    assert parse_address(one).key == parse_address(other).key


def test_serial_numbers_keep_their_case() -> None:
    one = parse_address("USB0::1::2::ab::INSTR")
    assert one.key != parse_address("USB0::1::2::AB::INSTR").key


@pytest.mark.parametrize(
    ("text", "transport"),
    [
        ("TCPIP::h::5025::SOCKET", Transport.SOCKET),
        ("TCPIP::h::inst0::INSTR", Transport.VXI11),
        ("TCPIP::h::hislip0,4880::INSTR", Transport.HISLIP),
        ("TCPIP::hislip-gw::inst0::INSTR", Transport.VXI11),
        ("USB::1::2::S::INSTR", Transport.USBTMC),
        ("USB::1::2::S::RAW", Transport.OTHER),
        ("ASRL/dev/ttyUSB0::INSTR", Transport.SERIAL),
        ("GPIB0::7::INSTR", Transport.GPIB),
        ("PRLGX-TCPIP::h::1234::INTFC", Transport.PROLOGIX),
        ("VICP::h::INSTR", Transport.OTHER),
    ],
)
def test_the_transport_is_told_from_the_address(text: str, transport: Transport) -> None:
    assert parse_address(text).transport is transport


def test_only_usb_and_serial_tell_of_a_departure() -> None:
    plugged = {transport for transport in Transport if transport.is_plugged}
    assert plugged == {Transport.USBTMC, Transport.SERIAL}


@pytest.mark.parametrize("text", ["", "TCPIP", "http://x", "TCPIP::", "TCPIP::a::::SOCKET", "x::y"])
def test_what_is_no_resource_string_is_refused_with_a_way_to_write_one(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_address(text)
    assert caught.value.code is ErrorCode.BAD_CONFIG
    assert "TCPIP::" in caught.value.remedy
