"""Addresses of instruments behind an adapter."""

import pytest

from edged.errors import ErrorCode, Invalid
from edged.transports.address import Transport, parse_address
from edged.transports.prologix import adapter_place


def test_an_address_names_the_adapters_socket_and_the_gpib_address() -> None:
    place = adapter_place("PRLGX-TCPIP0::192.168.1.30::1234::5::INSTR")
    assert (place.adapter, place.gpib) == ("TCPIP::192.168.1.30::1234::SOCKET", "5")
    assert adapter_place("PRLGX-TCPIP::gw::1234::5:96::INSTR").gpib == "5 96"
    assert (
        parse_address("PRLGX-TCPIP::gw::1234::5::INSTR").key
        == parse_address("prlgx-tcpip0::GW::1234::5::instr").key
    )
    assert parse_address("PRLGX-TCPIP::gw::1234::5::INSTR").transport is Transport.PROLOGIX


@pytest.mark.parametrize(
    "address", ["PRLGX-TCPIP::gw::1234::INTFC", "PRLGX-TCPIP::gw::1234::31::INSTR", "PRLGX-ASRL::x"]
)
def test_anything_else_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(Invalid) as caught:
        adapter_place(address)
    assert caught.value.code is ErrorCode.BAD_CONFIG
    assert "PRLGX-TCPIP::" in caught.value.remedy
