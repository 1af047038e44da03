"""What RELAY_CREDENTIALS holds, as NATS wants it: a password, a key of one's own, or a signed pass.

Keys and passes (nkeys, `.creds` files) never travel: the server sends a number, and gets it back
signed. The signing is done here with ``cryptography``, which tokens need anyway; nats-py would want
one more package for it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from edged.errors import ErrorCode, Invalid
from edged.record import record

SEED: Final = 18 << 3
USER: Final = 20 << 3
SEED_BYTES: Final = 36
PASS: Final = re.compile(r"-{3,}BEGIN NATS USER JWT-{3,}\s+(\S+)\s+-{3,}END NATS USER JWT-{3,}")
PASS_SEED: Final = re.compile(r"-{3,}BEGIN USER NKEY SEED-{3,}\s+(\S+)\s")

Sign = Callable[[str], bytes]
"""The server's number → its signature in base64."""


@record(kw_only=False)
class Password:
    """A user and a password."""

    user: str
    password: str


@record(kw_only=False)
class Nkey:
    """A key that the server knows by its public half."""

    public: str
    sign: Sign


@record(kw_only=False)
class Pass:
    """A pass (JWT) that an account signed, and the key that it was made out to."""

    jwt: str
    sign: Sign


def read_credentials(text: str) -> Password | Nkey | Pass:
    """Whatever the file holds.

    Raises:
        Invalid: BAD_CONFIG, it is none of the three; nothing of it is quoted.
    """
    text = text.strip()
    if "BEGIN NATS USER JWT" in text:
        found, seed = PASS.search(text), PASS_SEED.search(text + "\n")
        if found is None or seed is None:
            raise _bad("holds a pass without its key, or the other way round")
        return Pass(found[1], _signer(_seed_of(seed[1])))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if len(lines) == 1 and re.fullmatch(r"SU[A-Z2-7]{56}", lines[0]):
        seed_bytes = _seed_of(lines[0])
        return Nkey(public_nkey(seed_bytes), _signer(seed_bytes))
    user, colon, password = lines[0].partition(":") if len(lines) == 1 else ("", "", "")
    if not colon or not user:
        raise _bad("is neither one line user:password, nor a user's nkey seed, nor a .creds file")
    return Password(user, password)


def public_nkey(seed: bytes) -> str:
    """The public half of a user's key, as the server's configuration names it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PrivateKey.from_private_bytes(seed).public_key()
    # public_bytes_raw is younger than the cryptography of Debian bookworm.
    public = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    body = bytes([USER]) + public
    return base64.b32encode(body + _checksum(body)).decode("ascii").rstrip("=")


def _seed_of(text: str) -> bytes:
    """The 32 secret bytes of a user's seed: two bytes of kind, the secret, a checksum."""
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):
        raise _bad("holds a key that is not an nkey seed") from None
    is_seed = len(raw) == SEED_BYTES and raw[0] & 0xF8 == SEED
    is_user = is_seed and ((raw[0] & 7) << 5 | raw[1] >> 3) == USER
    if not is_user or _checksum(raw[:-2]) != raw[-2:]:
        raise _bad("holds a key that is not a user's nkey seed")
    return raw[2:-2]


def _signer(seed: bytes) -> Sign:
    # Loaded where it is needed: a password needs none of it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(seed)
    return lambda number: base64.b64encode(key.sign(number.encode()))


def _checksum(data: bytes) -> bytes:
    """CRC-16/XMODEM, low byte first."""
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")


def _bad(how: str) -> Invalid:
    return Invalid(
        f"The file of RELAY_CREDENTIALS {how}.",
        code=ErrorCode.BAD_CONFIG,
        remedy="docs/relay.md shows the three forms.",
    )
