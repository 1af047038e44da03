"""RS256 signatures over python-jose, fenced: the algorithm is fixed here and the key comes by kid.

The one module that imports jose. Its JWT functions are not used, because of what they let through;
only its RSA key does work here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from jose import jwk
from jose.exceptions import JOSEError

from edged.auth.claims import ALGORITHM

MAX_KEYS: Final = 100
MIN_MODULUS_BITS: Final = 2048
"""What is smaller is no signature to rely on."""
MAX_MODULUS_CHARS: Final = 1366
"""8192 bits; verifying with more would cost too much time."""
MAX_EXPONENT_CHARS: Final = 8


class PublicKey(Protocol):
    """An RSA public key."""

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """Whether the signature is of that message; raises on no input."""
        ...


def verify(key: PublicKey, signed: bytes, signature: bytes) -> bool:
    """Whether this key made that signature by RS256."""
    try:
        return key.verify(signed, signature)
    except JOSEError:
        return False


def read_keys(body: bytes) -> dict[str, PublicKey]:
    """The keys of a JWKS that may verify RS256, by kid; all others are left out.

    Raises:
        ValueError: it is no key set, has no such key, or two of its keys have one kid.
    """
    try:
        found = json.loads(body.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("It is not JSON.") from error
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise ValueError("It is not a JSON Web Key Set.")
    keys: dict[str, PublicKey] = {}
    for entry in entries:
        if not isinstance(entry, dict) or not _is_ours(entry):
            continue
        if entry["kid"] in keys:
            raise ValueError(f"It has two keys of kid {entry['kid']!r}.")
        key = _make(entry)
        if key is not None:
            keys[entry["kid"]] = key
    if not keys:
        raise ValueError("It has no RSA key of 2048 to 8192 bits that could verify a token.")
    return keys


def _is_ours(entry: Mapping[str, Any]) -> bool:
    modulus, exponent = entry.get("n"), entry.get("e")
    return (
        entry.get("kty") == "RSA"
        and entry.get("use", "sig") == "sig"
        and entry.get("alg", ALGORITHM) == ALGORITHM
        and _may_verify(entry.get("key_ops"))
        and isinstance(entry.get("kid"), str)
        and bool(entry["kid"])
        and isinstance(modulus, str)
        and len(modulus.rstrip("=")) <= MAX_MODULUS_CHARS
        and isinstance(exponent, str)
        and 0 < len(exponent) <= MAX_EXPONENT_CHARS
    )


def _may_verify(operations: Any) -> bool:
    return operations is None or (isinstance(operations, list) and "verify" in operations)


def _make(entry: Mapping[str, Any]) -> PublicKey | None:
    # Only the public numbers, whatever else the entry holds.
    public = {"kty": "RSA", "n": entry["n"], "e": entry["e"]}
    try:
        # By its value: zeros in front make a small modulus long.
        modulus = base64.urlsafe_b64decode(entry["n"].rstrip("=") + "==")
        if int.from_bytes(modulus).bit_length() < MIN_MODULUS_BITS:
            return None
        made: PublicKey = jwk.construct(public, algorithm=ALGORITHM)
    except (JOSEError, ValueError, TypeError):
        return None
    return made
