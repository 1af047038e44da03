"""How an engine proves to a client on the same machine that it is the one of a state directory.

After an engine was killed, any program can listen on its port. A client that has a secret to send
(INBOUND_AUTH_TOKEN, the id of a lease) first asks ``/proof`` with a number that it made up. Only
who can read the key in the state directory has the answer. The port is part of it, so a program on
another port cannot pass the question on to the engine. Pure but for the key's file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from edged.files import keep_secret, read_secret

PROOF_PATH: Final = "/proof"
KEY_FILE: Final = "rpc_key"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 32
DIGITS: Final = frozenset(b"0123456789abcdef")


def keep_rpc_key(state_dir: Path) -> bytes:
    """The key of a state directory, for its owner alone; made if there is none.

    Raises:
        OSError: it can be neither read nor made.
    """
    return keep_secret(
        state_dir / KEY_FILE, of=_key_in, make=lambda: os.urandom(KEY_BYTES).hex().encode("ascii")
    )


def read_rpc_key(state_dir: Path) -> bytes:
    """The key; empty where there is none.

    Raises:
        OSError: it may not be read.
    """
    return read_secret(state_dir / KEY_FILE, of=_key_in)


def make_nonce() -> str:
    """A number that nobody has asked with before."""
    return os.urandom(NONCE_BYTES).hex()


def is_nonce(text: str) -> bool:
    """Whether it is one of ``make_nonce``."""
    return len(text) == 2 * NONCE_BYTES and set(text.encode("utf-8", "replace")) <= DIGITS


def proof_of(key: bytes, port: int, nonce: str) -> str:
    """What the engine on that port of 127.0.0.1 answers."""
    import hmac  # with OpenSSL: most calls of the command line have no secret to send

    return hmac.new(key, f"edged-rpc 127.0.0.1:{port} {nonce}".encode(), "sha256").hexdigest()


def _key_in(held: bytes) -> bytes:
    kept = held.strip()
    return kept if len(kept) == 2 * KEY_BYTES and set(kept) <= DIGITS else b""
