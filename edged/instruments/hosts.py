"""Which host an address on the network leads to: names resolved, once for the life of the daemon.

Two units that tell one serial number are told apart by their hosts (``identity.py``), so a name
server that answers now this and now that must not make one unit two, or two one: what was found
first holds. The operating system resolves, in a thread, because it may take as long as it likes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from edged.transports.address import TRANSPORTS, Address, Transport

LIMIT_S: Final = 2.0
"""How long an instrument that has answered waits for its host's name to be resolved."""
BEHIND_GATEWAY: Final = re.compile(r"[a-z]+[0-9]*,[0-9,]+")
"""VXI-11's name for a device on another bus, such as ``gpib0,5``."""
LookUp = Callable[[str], Iterable[str]]
"""A host's name → its addresses. Runs in a thread, may block; raises OSError for none."""

log = structlog.get_logger(__name__)


def look_up(name: str) -> Iterable[str]:
    """As the operating system resolves it."""
    return {str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}


class Hosts:
    """What each host's name was resolved to; lives on the event loop."""

    def __init__(self, look_up: LookUp = look_up) -> None:
        self._look_up = look_up
        self._known: dict[str, frozenset[str]] = {}

    async def of(self, address: Address) -> frozenset[str]:
        """See ``Seat.hosts``; empty for what is not on the network. Takes ``LIMIT_S`` at most."""
        if not TRANSPORTS[address.transport].is_on_network:
            return frozenset()
        fields = address.key.split("::")[1:]
        # pyvisa-py takes the port of a VXI-11 server as "host,port".
        name, _, _ = fields[0].casefold().partition(",")
        hosts = await self._resolved(name.rstrip("."))
        place = _place_behind(address.transport, fields)
        return frozenset(f"{host} {place}" for host in hosts) if place else hosts

    async def _resolved(self, name: str) -> frozenset[str]:
        number = _number(name)
        if number:
            return frozenset({number})
        if name not in self._known:
            found = await self._ask(name)
            # Somebody may have asked meanwhile: the first answer holds.
            self._known.setdefault(name, found)
        return self._known[name]

    async def _ask(self, name: str) -> frozenset[str]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[frozenset[str]] = loop.create_future()

        def run() -> None:
            found = self._found(name)
            try:
                loop.call_soon_threadsafe(_deliver, answer, found)
            except RuntimeError:
                # The loop has been closed: nobody is left to hear it.
                return

        threading.Thread(target=run, name="edged-resolve", daemon=True).start()
        try:
            async with asyncio.timeout(LIMIT_S):
                return await answer
        except TimeoutError:
            log.warning("host_not_resolved", host=name, reason=f"no answer in {LIMIT_S:g} s")
            return frozenset({name})

    def _found(self, name: str) -> frozenset[str]:
        try:
            numbers = frozenset(filter(None, map(_number, self._look_up(name))))
        except (OSError, UnicodeError) as error:
            log.warning("host_not_resolved", host=name, reason=str(error))
            numbers = frozenset()
        return numbers or frozenset({name})


def _deliver(answer: asyncio.Future[frozenset[str]], found: frozenset[str]) -> None:
    if not answer.done():
        answer.set_result(found)


def _number(text: str) -> str:
    """An IP address in one form; empty for what is none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _place_behind(transport: Transport, fields: list[str]) -> str:
    """Which of the units behind an adapter or gateway; empty where the host is the unit."""
    if transport is Transport.PROLOGIX:
        return "::".join(fields[1:])
    if transport is Transport.VXI11 and BEHIND_GATEWAY.fullmatch(fields[1]):
        return fields[1]
    return ""
