"""How the supervisor tells the engine whose connection it forwards: a word with a secret.

Over HTTP it is a header; over HiSLIP a vendor's message in front of the client's first one.

The secret lies in STATE_DIR, readable for this user alone, and both processes read it there:
whichever starts first makes it. A header without it is somebody's invention and counts for nothing.
What the relay's carrier brought it marks: a token for the fleet counts there alone.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from edged.files import keep_secret

PEER_HEADER: Final = "Edged-Peer"
PEER_MESSAGE: Final = 0xED
"""The type of HiSLIP message; those from 128 on are a vendor's."""
SECRET_FILE: Final = "peer_secret"  # noqa: S105 - the name of a file
SECRET_CHARS: Final = 43
MAX_PEER_CHARS: Final = 100
RELAYED: Final = "relay "


def keep_peer_secret(state_dir: Path) -> str:
    """The secret of this state directory, made if there is none.

    Raises:
        OSError: the directory can be neither read nor written.
    """
    kept = keep_secret(
        state_dir / SECRET_FILE,
        of=lambda held: held.strip() if len(held.strip()) == SECRET_CHARS else b"",
        make=lambda: secrets.token_urlsafe(32).encode("ascii"),
    )
    return kept.decode("ascii", "replace")


def peer_value(secret: str, address: str) -> str:
    """The value of the header."""
    return f"{secret} {address}"


def relayed_value(secret: str, address: str) -> str:
    """The value of the header of what came over NATS; the address is the front's word."""
    return f"{secret} {RELAYED}{address}"


def peer_in(value: str, secret: str) -> str:
    """The address in a header's or message's value; empty when somebody has invented it."""
    given, _, address = value.partition(" ")
    is_ours = hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode("ascii"))
    return address[:MAX_PEER_CHARS] if is_ours else ""


def peer_reader(secret: str) -> Callable[[Mapping[str, str], str], str]:
    """Headers and the socket's peer → the address that the audit shall name.

    Of the headers by name in lower case, or by a mapping to which case is nothing.
    """
    read = _reader(secret)
    return lambda headers, peername: read(headers).removeprefix(RELAYED) or peername


def relayed_reader(secret: str) -> Callable[[Mapping[str, str]], bool]:
    """Headers → whether the supervisor brought it from NATS; they are read as a peer's are."""
    read = _reader(secret)
    return lambda headers: read(headers).startswith(RELAYED)


def _reader(secret: str) -> Callable[[Mapping[str, str]], str]:
    """What the supervisor said, or empty where it said nothing."""
    name = PEER_HEADER.lower()

    def read(headers: Mapping[str, str]) -> str:
        value = headers.get(name)
        if value is None:
            return ""
        return peer_in(value, secret)

    return read
