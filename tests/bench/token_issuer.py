"""An issuer for tests: makes good tokens, and whatever bad one it is told to."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ISSUER = "https://issuer.example"
EDGE = "edge-1"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


@functools.cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """One key a name; making one costs a tenth of a second."""
    del name
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


class TokenIssuer:
    """Signs what it is told to.

    Args:
        kid: names its key; the same kid of the same test run is the same key.
        now_s: the Unix time its tokens are made at.
    """

    __test__ = False

    def __init__(self, kid: str = "k1", *, now_s: int, key: str = "") -> None:
        self.kid = kid
        self.now_s = now_s
        self.key = rsa_key(key or kid)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Good claims with changes; a change to ``...`` leaves the claim out."""
        claims = {
            "iss": ISSUER,
            "aud": f"edge:{EDGE}",
            "sub": "user:ada",
            "exp": self.now_s + 240,
            "iat": self.now_s,
            "edge_id": EDGE,
            "tools_allow": ["get_status"],
            "danger_allow": False,
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not ...}

    def header(self, **changes: Any) -> dict[str, Any]:
        header = {"alg": "RS256", "kid": self.kid, "typ": "JWT", **changes}
        return {name: value for name, value in header.items() if value is not ...}

    def mint(self, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A token; well signed, whatever it says."""
        return self.sign(
            json.dumps(self.header(**(header or {}))), json.dumps(self.claims(**claims))
        )

    def sign(self, header: str | bytes, payload: str | bytes) -> str:
        """Sign these very texts."""
        parts = [part.encode() if isinstance(part, str) else part for part in (header, payload)]
        signed = ".".join(b64(part) for part in parts)
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{b64(signature)}"

    def jwk(self, **changes: Any) -> dict[str, Any]:
        numbers = self.key.public_key().public_numbers()
        jwk = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": self.kid,
            "n": b64(numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8, "big")),
            "e": b64(numbers.e.to_bytes(3, "big")),
            **changes,
        }
        return {name: value for name, value in jwk.items() if value is not ...}

    def public(self, encoding: serialization.Encoding) -> bytes:
        return self.key.public_key().public_bytes(
            encoding, serialization.PublicFormat.SubjectPublicKeyInfo
        )


def key_set(*jwks: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": list(jwks)}).encode()
