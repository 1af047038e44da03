from __future__ import annotations

import pytest

from edged.config.keys import Exposure
from edged.host import is_private
from edged.supervisor.proxy import wanted_addresses

MACHINE = (
    "127.0.0.1",
    "::1",
    "192.168.1.5",
    "10.8.0.2",
    "203.0.113.9",
    "fd00::5",
    "fe80::1%eth0",
    "2001:db8::1",
)
PRIVATE_ONES = {"192.168.1.5", "10.8.0.2", "fd00::5", "fe80::1%eth0"}


@pytest.mark.parametrize(
    ("expose", "is_port_shared", "wanted"),
    [
        ((Exposure.PRIVATE, Exposure.ANY), True, {"0.0.0.0", *PRIVATE_ONES}),
        ((Exposure.PRIVATE,), True, PRIVATE_ONES),
        ((Exposure.ANY,), True, {"0.0.0.0"}),
        ((), True, set()),
        ((Exposure.PRIVATE, Exposure.ANY), False, {"203.0.113.9", *PRIVATE_ONES}),
        ((Exposure.ANY,), False, {"192.168.1.5", "10.8.0.2", "203.0.113.9"}),
        ((Exposure.PRIVATE,), False, PRIVATE_ONES),
        ((), False, set()),
    ],
)
def test_where_the_proxy_listens(
    expose: tuple[Exposure, ...], is_port_shared: bool, wanted: set[str]
) -> None:
    assert wanted_addresses(MACHINE, expose, is_port_shared=is_port_shared) == wanted


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("172.16.0.1", True),
        ("172.32.0.1", False),
        ("100.64.0.1", True),
        ("169.254.1.1", True),
        ("8.8.8.8", False),
        ("fe80::1%eth0", True),
        ("2001:db8::1", False),
    ],
)
def test_which_addresses_are_of_a_private_network(address: str, private: bool) -> None:
    assert is_private(address) is private
