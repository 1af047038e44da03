"""Which host an address leads to: names resolved once, off the loop, in bounded time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

import pytest

from edged.instruments import hosts as module
from edged.instruments.hosts import Hosts
from edged.transports.address import parse_address
from tests.promises import promise


class Names:
    """A name server that may change its mind, refuse or hang."""

    def __init__(self, **names: tuple[str, ...]) -> None:
        self.names = names
        self.asked: list[str] = []
        self.threads: set[str] = set()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def look_up(self, name: str) -> Iterable[str]:
        self.asked.append(name)
        self.threads.add(threading.current_thread().name)
        self.may_answer.wait(20)
        if name not in self.names:
            raise OSError("Name or service not known")
        return self.names[name]


async def of(hosts: Hosts, text: str) -> frozenset[str]:
    return await hosts.of(parse_address(text))


@promise("units.hosts-resolved")
async def test_a_name_and_its_number_are_one_host() -> None:
    names = Names(psu=("10.0.0.5", "fe80::1"))
    hosts = Hosts(names.look_up)
    by_name = await of(hosts, "TCPIP::PSU::5025::SOCKET")
    assert by_name & await of(hosts, "TCPIP0::10.0.0.5::hislip0::INSTR")
    assert not by_name & await of(hosts, "TCPIP0::10.0.0.6::hislip0::INSTR")
    assert names.asked == ["psu"]
    assert names.threads == {"edged-resolve"}


async def test_what_was_found_first_holds_whatever_the_name_server_says_later() -> None:
    names = Names(psu=("10.0.0.5",))
    hosts = Hosts(names.look_up)
    first = await of(hosts, "TCPIP::psu::5025::SOCKET")
    names.names = {"psu": ("10.0.0.6",)}
    assert await of(hosts, "TCPIP::psu::5026::SOCKET") == first


async def test_a_name_that_nobody_knows_is_a_host_of_its_own_and_stays_so() -> None:
    names = Names()
    hosts = Hosts(names.look_up)
    assert await of(hosts, "TCPIP::psu::5025::SOCKET") == {"psu"}
    names.names = {"psu": ("10.0.0.5",)}
    assert await of(hosts, "TCPIP::psu::5025::SOCKET") == {"psu"}


async def test_a_name_server_that_hangs_stops_neither_the_loop_nor_the_instrument() -> None:
    names = Names(psu=("10.0.0.5",))
    names.may_answer.clear()
    hosts = Hosts(names.look_up)
    try:
        asked = asyncio.create_task(of(hosts, "TCPIP::psu::5025::SOCKET"))
        assert await of(hosts, "TCPIP::10.0.0.9::5025::SOCKET") == {"10.0.0.9"}
        async with asyncio.timeout(2 * module.LIMIT_S + 5):
            assert await asked == {"psu"}
    finally:
        names.may_answer.set()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TCPIP::10.0.0.5::gpib0,5::INSTR", "TCPIP::10.0.0.5::gpib0,6::INSTR"),
        ("PRLGX-TCPIP::10.0.0.5::1234::5::INSTR", "PRLGX-TCPIP::10.0.0.5::1234::6::INSTR"),
        ("TCPIP::10.0.0.5::gpib0,5::INSTR", "TCPIP::10.0.0.5::5025::SOCKET"),
    ],
)
async def test_units_behind_one_adapter_are_no_ports_of_one_host(one: str, other: str) -> None:
    hosts = Hosts(Names().look_up)
    assert not await of(hosts, one) & await of(hosts, other)


async def test_a_port_in_an_address_is_no_part_of_its_host() -> None:
    hosts = Hosts(Names().look_up)
    for text in ("TCPIP::10.0.0.5::hislip0,4881::INSTR", "TCPIP::10.0.0.5,1024::inst0::INSTR"):
        assert await of(hosts, text) == {"10.0.0.5"}


@pytest.mark.parametrize("address", ["USB0::1::2::A1::INSTR", "ASRL1::INSTR", "GPIB0::5::INSTR"])
async def test_what_is_not_on_the_network_has_no_host(address: str) -> None:
    assert await of(Hosts(Names().look_up), address) == frozenset()
