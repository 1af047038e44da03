"""A port of the engine on the machine's other addresses, carried to its loopback port.

Two traps of sharing one port number (docs/promises.md section 2): while the engine is down a
connection to 127.0.0.1 lands on our wildcard socket, so we connect only to an engine that is known
to listen, and turn away what comes from a socket of our own; and addresses come and go, so the
private ones are looked at every few seconds. Where a port cannot be shared, each address is bound
by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Final

import structlog

from edged.clock import Clock
from edged.config.keys import Exposure
from edged.config.kinds import IpNetwork
from edged.host import LOOPBACK, WILDCARD, is_loopback, is_private, machine_addresses
from edged.http.accepting import claim_port
from edged.http.pulse import Pulse
from edged.record import part, record
from edged.supervisor.peer_header import peer_value
from edged.supervisor.proxied import CarriedConnection, ClientSide, Refusal, Switchboard

log = structlog.get_logger("edged.proxy")

BACKLOG: Final = 1_024
LOOK_AGAIN_S: Final = 3.0
CONNECT_WITHIN_S: Final = 1.0
MAX_CONNECTIONS: Final = 8_000
SLOW_HEAD_S: Final = 30.0

NOT_ALLOWED: Final = Refusal(403, "Your network is not among ALLOWED_NETWORKS of this edge.")
FULL: Final = Refusal(503, "Too many connections are open; close some and try again.")
OURSELVES: Final = Refusal(
    503, "The engine is not running; it is being started again.", is_soon_over=True
)

MakeSide = Callable[[Switchboard], asyncio.Protocol]
"""Makes a ``CarriedConnection`` of one accepted connection."""


@record
class ProxySettings:
    """What the owner configures.

    Attributes:
        is_port_shared: one socket may listen on all addresses beside the engine's own (Linux).
    """

    expose: tuple[Exposure, ...]
    allowed_networks: tuple[IpNetwork, ...]
    peer_secret: str
    is_port_shared: bool = sys.platform == "linux"


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


@part
class PortProxy:
    """Listens, and connects clients with the engine.

    Attributes:
        settings: see there.
        engine_port: where the engine listens on loopback now; ``None`` while it does not.
        pulse: when it was heard.
        changed: is told the addresses that are bound, after each change.
        clock: for limits.
        make_side: what is spoken on the port: HTTP unless said otherwise.
        addresses: lists this machine's addresses.
        is_loopback: tells which of them are not to be bound.
    """

    settings: ProxySettings
    engine_port: Callable[[], int | None]
    pulse: Pulse
    changed: Callable[[tuple[str, ...]], None]
    clock: Clock
    make_side: MakeSide = ClientSide
    addresses: Callable[[], Iterable[str]] = machine_addresses
    is_loopback: Callable[[str], bool] = is_loopback
    _servers: dict[str, asyncio.Server] = field(default_factory=dict)
    _clients: set[CarriedConnection] = field(default_factory=set)
    _own_ports: set[int] = field(default_factory=set)
    _connecting: set[asyncio.Task[bool]] = field(default_factory=set)
    _complained: set[str] = field(default_factory=set)
    _allowed: dict[str, bool] = field(default_factory=dict)
    port: int = 0

    def __post_init__(self) -> None:
        self.pulse.join(self)

    @property
    def listening(self) -> tuple[str, ...]:
        """The addresses that are bound."""
        return tuple(sorted(self._servers))

    @property
    def connection_count(self) -> int:
        """Clients that are connected."""
        return len(self._clients)

    async def run(self, port: int) -> None:
        """Listen on that port until cancelled, on the addresses as they come and go."""
        self.port = port
        while True:
            await self.look()
            self._cut_slow()
            await self.clock.sleep(LOOK_AGAIN_S)

    async def look(self) -> None:
        """Listen where it is wanted now, and nowhere else."""
        before = self.listening
        wanted = wanted_addresses(
            self.addresses(),
            self.settings.expose,
            is_port_shared=self.settings.is_port_shared,
            is_loopback=self.is_loopback,
        )
        for address in self._servers.keys() - wanted:
            self._servers.pop(address).close()
            log.info("proxy_closed", address=address)
        for address in sorted(wanted - self._servers.keys()):
            await self._listen(address)
        if self.listening != before:
            self.changed(self.listening)

    def close_door(self) -> None:
        """Accept no more; open connections stay."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    async def stop(self) -> None:
        """Close every listener and connection."""
        self.close_door()
        for client in tuple(self._clients):
            client.abort()
        for task in tuple(self._connecting):
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        # Aborted transports close in the loop's next turn.
        await self.clock.sleep(0)

    # for the pulse: see ``pulse.Road``

    def waits_since(self, heard_s: float) -> bool:
        return any(True for _ in self._asked_since(heard_s))

    def refuse_since(self, heard_s: float) -> None:
        for client in tuple(self._asked_since(heard_s)):
            client.refuse_unanswered()

    def _asked_since(self, heard_s: float) -> Iterator[CarriedConnection]:
        return (c for c in self._clients if c.asked_s is not None and c.asked_s > heard_s)

    # for its connections: see ``proxied.Switchboard``

    def opened(self, client: CarriedConnection, host: str, port: int) -> Refusal | None:
        self._clients.add(client)
        if host == LOOPBACK and port in self._own_ports:
            return OURSELVES
        if len(self._clients) > MAX_CONNECTIONS:
            return FULL
        return None if self._is_allowed(host) else NOT_ALLOWED

    def closed(self, client: CarriedConnection) -> None:
        self._clients.discard(client)

    def peer_value(self, host: str) -> str:
        return peer_value(self.settings.peer_secret, host)

    def connect(self, made: Callable[[], asyncio.Protocol]) -> asyncio.Task[bool] | None:
        port = self.engine_port()
        if port is None:
            return None
        task = asyncio.create_task(self._connect(made, port), name="proxy connect")
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return task

    def now(self) -> float:
        return self.clock.monotonic()

    async def _connect(self, made: Callable[[], asyncio.Protocol], port: int) -> bool:
        loop = asyncio.get_running_loop()
        line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        line.setblocking(False)
        own_port = 0
        try:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Bound first: our number must be known before a listener of ours could see it.
            line.bind((LOOPBACK, 0))
            own_port = line.getsockname()[1]
            self._own_ports.add(own_port)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_WITHIN_S):
                    await loop.sock_connect(line, (LOOPBACK, port))
            # Raises where it is not connected. After a time-out it may be: on a busy machine it is
            # we who were held up, and not the engine.
            line.getpeername()
            await loop.create_connection(made, sock=line)
        except OSError:
            line.close()
            return False
        except asyncio.CancelledError:
            line.close()
            raise
        finally:
            # A listener of ours has seen the connection by now, or never will.
            loop.call_later(CONNECT_WITHIN_S, self._own_ports.discard, own_port)
        return True

    async def _listen(self, address: str) -> None:
        try:
            listening = self._bind(address)
        except OSError as error:
            if address not in self._complained:
                self._complained.add(address)
                reason = _why(error)
                log.warning("proxy_not_listening", address=address, reason=reason)
            return
        self._complained.discard(address)
        self._servers[address] = await asyncio.get_running_loop().create_server(
            lambda: self.make_side(self), sock=listening, backlog=BACKLOG
        )
        log.info("proxy_listening", address=address, port=self.port)

    def _bind(self, address: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            claim_port(listening, is_shared=self.settings.is_port_shared)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            target = socket.getaddrinfo(
                address, self.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )[0][4]
            listening.bind(target)
        except OSError:
            listening.close()
            raise
        return listening

    def _is_allowed(self, host: str) -> bool:
        known = self._allowed.get(host)
        if known is None:
            try:
                ip = ipaddress.ip_address(host)
            except ValueError:
                return False
            networks = self.settings.allowed_networks
            known = any(ip.version == network.version and ip in network for network in networks)
            if len(self._allowed) >= MAX_CONNECTIONS:
                self._allowed.clear()
            self._allowed[host] = known
        return known

    def _cut_slow(self) -> None:
        """Break off requests whose head never ends, and connections that never made one."""
        before_s = self.clock.monotonic() - SLOW_HEAD_S
        for client in tuple(self._clients):
            if client.head_since_s is not None and client.head_since_s <= before_s:
                client.cut_slow()


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there"
    return str(error.strerror or error)
