"""NATS keys and passes, as `nk` and `nsc` would make them: operator, account, users.

A pass (JWT) of NATS is signed by an Ed25519 key ("nkey"); keys are written in base32 with a letter
of their kind in front: O operator, A account, U user, S for the secret half.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KINDS = {"O": 14 << 3, "A": 0, "U": 20 << 3}
SEED = 18 << 3


class NatsKey:
    """A key of one kind; the same name always gives the same key."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.secret = hashlib.sha256(f"{kind} {name}".encode()).digest()
        self._key = Ed25519PrivateKey.from_private_bytes(self.secret)

    @property
    def public(self) -> str:
        # public_bytes_raw is younger than the cryptography of Debian bookworm.
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return _text(bytes([KINDS[self.kind]]) + public)

    @property
    def seed(self) -> str:
        prefix = KINDS[self.kind]
        return _text(bytes([SEED | prefix >> 5, (prefix & 31) << 3]) + self.secret)

    def certify(self, holder: NatsKey, nats: dict[str, Any]) -> str:
        """A pass for ``holder``, signed by this key."""
        now_s = int(time.time())  # noqa: TID251
        claims = {
            "jti": f"{holder.name}-{now_s}",
            "iat": now_s,
            "exp": now_s + 3600,
            "iss": self.public,
            "name": holder.name,
            "sub": holder.public,
            "nats": {**nats, "version": 2},
        }
        parts = [_b64(json.dumps(part).encode()) for part in (HEADER, claims)]
        signature = self._key.sign(".".join(parts).encode())
        return ".".join([*parts, _b64(signature)])


HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
NO_LIMITS = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
OPERATOR, ACCOUNT = NatsKey("O", "lab"), NatsKey("A", "bench")


def operator_config() -> str:
    """What a server needs that trusts the operator, with one account."""
    operator = OPERATOR.certify(OPERATOR, {"type": "operator"})
    limits = {**NO_LIMITS, "wildcards": True}
    account = OPERATOR.certify(ACCOUNT, {"type": "account", "limits": limits})
    return (
        f"operator: {operator}\nresolver: MEMORY\n"
        f"resolver_preload: {{ {ACCOUNT.public}: {account} }}\n"
    )


def creds(user: str, publish: str, subscribe: str) -> str:
    """The `.creds` file of a user who may do only that."""
    key = NatsKey("U", user)
    rights = {
        "type": "user",
        "pub": {"allow": [publish]},
        "sub": {"allow": [subscribe]},
        **{name: NO_LIMITS[name] for name in ("subs", "data", "payload")},
    }
    return (
        "-----BEGIN NATS USER JWT-----\n"
        f"{ACCOUNT.certify(key, rights)}\n"
        "------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        "-----BEGIN USER NKEY SEED-----\n"
        f"{key.seed}\n"
        "------END USER NKEY SEED------\n"
    )


def _text(body: bytes) -> str:
    checked = body + binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
