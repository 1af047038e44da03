"""The DNS-rebinding guard: which ``Host`` and ``Origin`` may speak to the endpoint.

A web page can make a browser send requests to this machine under the page's own name, once that
name resolves to this address; it cannot make the browser say another name. So a Host that is an
address, or a name nobody else can own, is proof enough. An Origin must be that of the request
itself (its scheme, its Host and port), or of a program on loopback that is no browser: a browser
tells by Sec-Fetch-Site whose page it was, and pages of another port are another's.

Source: SPEC.md section 3, "DNS rebinding", as amended in SPEC-2.md.
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
SAME_ORIGIN: Final = "same-origin"
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What is allowed beyond addresses and loopback names; all in lower case.

    Attributes:
        hosts: names (``bench7``, ``bench7.lab.example``, with or without a port).
        origins: origins as browsers write them (``https://tools.example``, no path).
        scheme: what clients reach this endpoint by.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    scheme: str = "http"

    @classmethod
    def of(
        cls,
        *,
        host_name: str,
        qualified_name: str = "",
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        scheme: str = "http",
    ) -> Guard:
        """The guard of a machine: its names bare, fully qualified and ``.local``, and the owner's.

        Args:
            host_name: as the system gives it, bare or qualified.
            qualified_name: fully qualified, empty when there is none.
            allowed_hosts: ``ALLOWED_HOSTS``.
            allowed_origins: ``ALLOWED_ORIGINS``.
            scheme: what clients reach this endpoint by.
        """
        names = {_plain_name(name) for name in (host_name, qualified_name) if name}
        bare = {name.split(".")[0] for name in names}
        mine = names | bare | {f"{name}.local" for name in bare}
        return cls(
            hosts=frozenset(mine | {_plain_name(host) for host in allowed_hosts}) - {""},
            origins=frozenset(_plain_origin(origin) for origin in allowed_origins) - {""},
            scheme=scheme,
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

    def allows_origin(self, value: str, *, host: str, fetch_site: str | None) -> bool:
        """Whether an ``Origin`` header may come with a request; ``null`` may not.

        Args:
            value: the header.
            host: the request's ``Host``, which is allowed.
            fetch_site: its ``Sec-Fetch-Site``; ``None`` where none was sent, as by programs that
                are no browser, and by browsers to plain http on another machine.
        """
        if _plain_origin(value) in self.origins:
            return True
        # Matched as a whole: a prefix match lets http://localhost:8767@evil.example in.
        origin = _ORIGIN.fullmatch(value)
        if origin is None or origin["scheme"].lower() not in _DEFAULT_PORTS:
            return False
        if self._is_own(origin, host):
            return fetch_site is None or fetch_site.lower() == SAME_ORIGIN
        if fetch_site is not None:
            return False
        if origin["six"] is not None:
            return _is_loopback(origin["six"])
        return _plain_name(origin["name"]) in _LOOPBACK_NAMES or _is_loopback(origin["name"])

    def _is_own(self, origin: re.Match[str], host: str) -> bool:
        """Whether an origin is that of the request: scheme, name and port."""
        own = _HOST.fullmatch(host)
        if own is None or origin["scheme"].lower() != self.scheme:
            return False
        return _place(origin, self.scheme) == _place(own, self.scheme)


def _place(authority: re.Match[str], scheme: str) -> tuple[str, int]:
    """Name or address, and port, of a matched Host or Origin."""
    name = authority["six"] or _plain_name(authority["name"])
    return name.lower(), int(authority["port"] or _DEFAULT_PORTS[scheme])


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
