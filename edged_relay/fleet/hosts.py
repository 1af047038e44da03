"""At which host an edge may say that its page and its metrics are: by the owner's word alone. Pure.

A front knows an edge by the subject on which it speaks, and not by its address: that the NATS
server does not tell. So the host comes from the front's configuration, FLEET_HOSTS, and from the
edge only the port and the path. An edge for which there is no entry has no page and no metrics
here: otherwise whoever has the credentials of one edge could have Prometheus ask any address.

Source: docs/fleet.md, "Where an edge can be reached".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from edged.auth.claims import EVERY_EDGE
from edged.config.kinds import IpNetwork
from edged.relay.announcement import Said

# Services of clouds that give credentials to whoever asks; those of IPv4 are link-local, but this.
METADATA: Final = frozenset({"100.100.100.200", "fd00:ec2::254"})


class FleetHosts:
    """The hosts of the edges.

    Args:
        hosts: FLEET_HOSTS: an edge's id, or ``*`` for those without an entry → its host; or a
            network, of which the edge may name any address.
    """

    def __init__(self, hosts: Mapping[str, str | IpNetwork]) -> None:
        self._hosts = hosts

    def checked(self, edge_id: str, said: Said) -> Said:
        """An announcement with the page and the metrics at the edge's own host, or without."""
        return replace(
            said,
            page=self._at_its_host(edge_id, said.page),
            metrics=self._at_its_host(edge_id, f"http://{said.metrics}").removeprefix("http://")
            if said.metrics
            else "",
        )

    def _at_its_host(self, edge_id: str, url: str) -> str:
        host = self._hosts.get(edge_id, self._hosts.get(EVERY_EDGE))
        if host is None or not url:
            return ""
        try:
            parts = urlsplit(url)
            told, port = parts.hostname or "", parts.port
        except ValueError:
            return ""
        if not isinstance(host, str):
            if not _is_of(told, host):
                return ""
            host = told
        named = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{named}{f':{port}' if port else ''}{parts.path}"


NO_HOSTS: Final = FleetHosts({})


def _is_of(told: str, network: IpNetwork) -> bool:
    """Whether this is the address of another machine, in that network."""
    try:
        address = ipaddress.ip_address(told)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        return False
    is_special = (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or address.compressed in METADATA
    )
    return not is_special and address.version == network.version and address in network
