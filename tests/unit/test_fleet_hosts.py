"""Where an edge's page and metrics may be, by the owner's word."""

from __future__ import annotations

import ipaddress

import pytest

from edged.relay.announcement import Said
from edged_relay.fleet.hosts import FleetHosts
from tests.promises import promise


def shown(host: str, metrics: str, page: str = "") -> tuple[str, str]:
    allowed = ipaddress.ip_network(host) if "/" in host else host
    said = FleetHosts({"edge-1": allowed}).checked(
        "edge-1", Said(version="1", metrics=metrics, page=page)
    )
    return said.metrics, said.page


def test_the_owner_s_host_takes_the_place_of_whatever_is_announced() -> None:
    told = "169.254.169.254:80/latest", "https://evil.example:444/bench"
    assert shown("bench.lab", *told) == ("bench.lab:80/latest", "https://bench.lab:444/bench")
    assert shown("fd00::7", *told) == ("[fd00::7]:80/latest", "https://[fd00::7]:444/bench")
    assert shown("bench.lab", "", "http://evil.example/bench") == ("", "http://bench.lab/bench")
    assert shown("bench.lab", "a:99999/metrics", "http://a:b/bench") == ("", "")
    assert shown("bench.lab", "", "") == ("", "")


@promise("fleet.own-host")
@pytest.mark.parametrize(
    ("network", "address", "is_shown"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "10.1.2.3.evil.example", False),
        ("10.0.0.0/8", "0xa.1.2.3", False),
        ("10.0.0.0/8", "167838211", False),
        ("10.0.0.0/8", "[::ffff:10.1.2.3]", False),
        ("0.0.0.0/0", "127.0.0.1", False),
        ("0.0.0.0/0", "169.254.169.254", False),
        ("0.0.0.0/0", "100.100.100.200", False),
        ("0.0.0.0/0", "0.0.0.0", False),
        ("0.0.0.0/0", "224.0.0.1", False),
        ("0.0.0.0/0", "192.168.7.7", True),
        ("::/0", "[::1]", False),
        ("::/0", "[fe80::1]", False),
        ("::/0", "[fd00:ec2::254]", False),
        ("::/0", "[::ffff:127.0.0.1]", False),
        ("fd00::/8", "[fd12::1]", True),
    ],
)
def test_of_a_network_an_edge_names_an_address_of_another_machine(
    network: str, address: str, is_shown: bool
) -> None:
    place = f"{address}:8767/metrics"
    assert shown(network, place)[0] == (place if is_shown else "")


def test_who_is_not_named_is_nowhere_unless_there_is_an_entry_for_all() -> None:
    said = Said(version="1", metrics="10.1.2.3:1/metrics", page="http://10.1.2.3:1/bench")
    assert FleetHosts({"edge-1": "a"}).checked("edge-2", said) == Said(version="1")
    network = ipaddress.ip_network("10.0.0.0/8")
    everywhere = FleetHosts({"edge-1": "a", "*": network})
    assert everywhere.checked("edge-2", said) == said
    assert everywhere.checked("edge-1", said).metrics == "a:1/metrics"
