"""Listening sockets of this engine, and what is accepted on them.

Descriptor numbers: clients get high ones, so that the low ones stay free for instruments.

pyvisa-py waits with ``select()``, which cannot take a descriptor of 1,024 or above: with a thousand
streams open, no instrument could be opened any more (measured). Removable once pyvisa-py polls.
On Windows descriptors are handles, and there is nothing to do.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from edged.clock import Clock
from edged.errors import ErrorCode, Failed

if sys.platform != "win32":
    import fcntl
    import resource


SELECT_LIMIT: Final = 1_024
ENOUGH_DESCRIPTORS: Final = 65_536
"""A hard limit can be a billion, and some libraries close every number up to the soft one."""
KEPT_FOR_OTHERS: Final = 256
"""Above 1,024: listening sockets, the store, recorded data, pipes of workers."""
FEWEST_CONNECTIONS: Final = 64
READ_BYTES: Final = 65_536


def limit_reads(transport: asyncio.BaseTransport) -> None:
    """Read less at once: of asyncio's 256 KiB the allocator maps and unmaps memory for each read.

    Reading 11 kB took 13 us so, and takes 1.2. Loops without such a bound are left as they are.
    """
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES


def raise_limit() -> None:
    """Raise the soft limit of open files towards the hard one; a refusal leaves it as it is."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard == resource.RLIM_INFINITY:
            wanted = ENOUGH_DESCRIPTORS
        else:
            wanted = min(hard, ENOUGH_DESCRIPTORS)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            except (OSError, ValueError):
                return


def connection_limit(wanted: int) -> int:
    """How many client connections the open-file limit leaves room for, at most ``wanted``."""
    if sys.platform != "win32":
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            room = soft - SELECT_LIMIT - KEPT_FOR_OTHERS
            return min(wanted, max(room, FEWEST_CONNECTIONS))
    return wanted


def move_high(accepted: socket.socket) -> socket.socket:
    """The same connection under a descriptor of 1,024 or above, where the platform has such.

    The given socket is closed if it was moved. Where the limit leaves no high number, it stays.
    """
    moved = accepted
    if sys.platform != "win32" and accepted.fileno() < SELECT_LIMIT:
        try:
            high = fcntl.fcntl(accepted.fileno(), fcntl.F_DUPFD_CLOEXEC, SELECT_LIMIT)
        except OSError:
            return accepted
        moved = socket.socket(accepted.family, accepted.type, accepted.proto, fileno=high)
        moved.setblocking(False)
        accepted.close()
    return moved


BACKLOG: Final = 1_024
ACCEPT_AGAIN_S: Final = 0.2
"""After the system was out of descriptors or memory; connections wait in the backlog meanwhile."""
SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def listening_socket(host: str, port: int, *, name: str, is_port_shared: bool) -> socket.socket:
    """Bind and listen.

    Args:
        host, port: where; port 0 takes any free one.
        name: what the port is called in errors and in its configuration key: ``mcp``.
        is_port_shared: another process of the same user listens on the same port on other
            addresses (SO_REUSEPORT); docs/promises.md section 2.

    Raises:
        Failed: BIND_FAILED, with the reason.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        claim_port(listening, is_shared=is_port_shared)
        listening.setblocking(False)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as unbound:
        listening.close()
        raise _bind_failure(host, port, name, unbound) from unbound
    return listening


def claim_port(listening: socket.socket, *, is_shared: bool) -> None:
    """Before it is bound: say who else may listen on its port.

    Args:
        is_shared: see ``is_port_shared`` of ``listening_socket``.
    """
    if sys.platform == "win32":
        # There SO_REUSEADDR lets two programs listen on one port.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def _bind_failure(host: str, port: int, name: str, unbound: OSError) -> Failed:
    is_taken = unbound.errno in {errno.EADDRINUSE, errno.EACCES} and port >= 1024
    why = "another program holds it" if is_taken else str(unbound.strerror or unbound)
    name = name.upper()
    return Failed(
        f"The {name} port {port} on {host} cannot be bound: {why}.",
        code=ErrorCode.BIND_FAILED,
        data={"host": host, "port": port},
        remedy=f"Stop the program that holds it, or set {name}_PORT to another port.",
    )


async def accept_all(
    listening: socket.socket,
    welcome: Callable[[socket.socket], Awaitable[None]],
    *,
    name: str,
    clock: Clock,
) -> None:
    """Hand each connection to ``welcome``, until cancelled; it owns the socket that it is given."""
    log = structlog.get_logger(f"edged.{name}")
    loop = asyncio.get_running_loop()
    shortage, is_failing = f"{name}_accept_failed", False
    while True:
        try:
            accepted, _ = await loop.sock_accept(listening)
        except OSError as failed:
            if failed.errno not in SHORTAGES:
                continue
            if not is_failing:
                log.warning(shortage, reason=str(failed.strerror))
            is_failing = True
            await clock.sleep(ACCEPT_AGAIN_S)
            continue
        is_failing = False
        await welcome(move_high(accepted))


KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""Seconds, seconds, times: who vanished without a word is noticed after a minute."""


def keep_alive(connection: socket.socket) -> None:
    """Of a session's connection, which may be quiet for hours: notice when nobody is there."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
