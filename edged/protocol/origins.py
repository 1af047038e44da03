"""The DNS-rebinding guard: which ``Host`` and ``Origin`` may speak to the endpoint.

A web page can make a browser send requests to this machine under the page's own name, once that
name resolves to this address; it cannot make the browser say another name. So a Host that is an
address, or a name nobody else can own, is proof enough, and an Origin must be of this machine.

Source: SPEC.md section 3, "DNS rebinding".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["Guard"]

_LOOPBACK_NAMES: Final = frozenset(
    {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}
)
_AUTHORITY: Final = r"(?:\[(?P<six>[0-9a-f:.]+(?:%[0-9a-z._~%-]+)?)\]|(?P<name>[0-9a-z._-]+))"
_HOST: Final = re.compile(_AUTHORITY + r"(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)
_ORIGIN: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://" + _AUTHORITY + r"(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What is allowed beyond addresses and loopback names; all in lower case.

    Attributes:
        hosts: names (``bench7``, ``bench7.lab.example``, with or without a port).
        origins: origins as browsers write them (``https://tools.example``, no path).
    """

    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def of(
        cls,
        *,
        host_name: str,
        qualified_name: str = "",
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
    ) -> Guard:
        """The guard of a machine: its names bare, fully qualified and ``.local``, and the owner's.

        Args:
            host_name: as the system gives it, bare or qualified.
            qualified_name: fully qualified, empty when there is none.
            allowed_hosts: ``ALLOWED_HOSTS``.
            allowed_origins: ``ALLOWED_ORIGINS``.
        """
        names = {_plain_name(name) for name in (host_name, qualified_name) if name}
        bare = {name.split(".")[0] for name in names}
        mine = names | bare | {f"{name}.local" for name in bare}
        return cls(
            hosts=frozenset(mine | {_plain_name(host) for host in allowed_hosts}) - {""},
            origins=frozenset(_plain_origin(origin) for origin in allowed_origins) - {""},
        )

    def allows_host(self, value: str) -> bool:
        """Whether a ``Host`` header is of this machine."""
        host = _HOST.fullmatch(value)
        if host is None:
            return False
        if host["six"] is not None:
            return _is_address(host["six"], version=6)
        name, port = _plain_name(host["name"]), host["port"]
        return (
            _is_address(name, version=4)
            or name in _LOOPBACK_NAMES
            or name in self.hosts
            or (port is not None and f"{name}:{port}" in self.hosts)
        )

    def allows_origin(self, value: str) -> bool:
        """Whether an ``Origin`` header is of this machine or the owner's list; ``null`` is not."""
        if _plain_origin(value) in self.origins:
            return True
        # Matched as a whole: a prefix match lets http://localhost:8767@evil.example in.
        origin = _ORIGIN.fullmatch(value)
        if origin is None or origin["scheme"].lower() not in _DEFAULT_PORTS:
            return False
        if origin["six"] is not None:
            return _is_loopback(origin["six"])
        return _plain_name(origin["name"]) in _LOOPBACK_NAMES or _is_loopback(origin["name"])


def _plain_name(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _plain_origin(origin: str) -> str:
    """An origin in lower case, without a port that its scheme implies, without a last slash."""
    plain = origin.strip().lower().removesuffix("/")
    scheme, _, _ = plain.partition("://")
    return plain.removesuffix(f":{_DEFAULT_PORTS.get(scheme, '-')}")


def _is_address(text: str, *, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False
