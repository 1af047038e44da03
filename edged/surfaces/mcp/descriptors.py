"""Descriptor numbers: clients get high ones, so that the low ones stay free for instruments.

pyvisa-py waits with ``select()``, which cannot take a descriptor of 1,024 or above: with a thousand
streams open, no instrument could be opened any more (measured). Removable once pyvisa-py polls.
On Windows descriptors are handles, and there is nothing to do.
"""

from __future__ import annotations

import socket
import sys
from typing import Final

if sys.platform != "win32":
    import fcntl
    import resource

__all__ = ["connection_limit", "move_high", "raise_limit"]

SELECT_LIMIT: Final = 1_024
ENOUGH_DESCRIPTORS: Final = 65_536
"""A hard limit can be a billion, and some libraries close every number up to the soft one."""
KEPT_FOR_OTHERS: Final = 256
"""Above 1,024: listening sockets, the store, recorded data, pipes of workers."""
FEWEST_CONNECTIONS: Final = 64


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
