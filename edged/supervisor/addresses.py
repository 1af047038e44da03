"""The addresses of this machine: which are listened on, and which one to name to others."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from edged.config.keys import Exposure

__all__ = [
    "LOOPBACK",
    "WILDCARD",
    "address_of",
    "is_loopback",
    "is_private",
    "machine_addresses",
    "reached_at",
    "wanted_addresses",
]

LOOPBACK: Final = "127.0.0.1"
WILDCARD: Final = "0.0.0.0"  # noqa: S104 - what EXPOSE: any means
PRIVATE: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "fc00::/7",
        "fe80::/10",
    )
)


def is_private(address: str) -> bool:
    """Whether an address belongs to a private network (RFC 1918, 6598, 3927, 4193)."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return any(ip.version == network.version and ip in network for network in PRIVATE)


def machine_addresses() -> tuple[str, ...]:
    """The addresses that this machine has now; link-local ones of IPv6 with their zone."""
    import psutil  # here, because `edged expose` and tests load this module without it

    return tuple(
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in {socket.AF_INET, socket.AF_INET6}
    )


def address_of(bound: Sequence[str], addresses: Sequence[str]) -> str:
    """The address to name: a private one that is listened on, of IPv4 first; else loopback.

    Args:
        bound: where the supervisor listens.
        addresses: those of this machine.
    """
    open_ones = [a for a in addresses if a in bound or (WILDCARD in bound and ":" not in a)]
    # Link-local addresses of IPv6 end in a zone, which means nothing elsewhere.
    private = [a for a in open_ones if is_private(a) and "%" not in a]
    return min(private, key=lambda address: ":" in address, default=LOOPBACK)


def reached_at(bound: Sequence[str]) -> str:
    """The address by which this machine is reached where these are listened on."""
    return address_of(bound, machine_addresses()) if bound else LOOPBACK


def is_loopback(address: str) -> bool:
    """Whether an address never leaves this machine."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def wanted_addresses(
    addresses: Iterable[str],
    expose: tuple[Exposure, ...],
    *,
    is_port_shared: bool,
    is_loopback: Callable[[str], bool] = is_loopback,
) -> frozenset[str]:
    """Where to listen on a machine with those addresses.

    The wildcard stands for every IPv4 address where a port can be shared; elsewhere each is bound.
    """
    others = [address for address in addresses if not is_loopback(address)]
    wanted = {address for address in others if is_private(address)}
    if Exposure.PRIVATE not in expose:
        wanted.clear()
    if Exposure.ANY in expose:
        wanted.update((WILDCARD,) if is_port_shared else (a for a in others if ":" not in a))
    return frozenset(wanted)
