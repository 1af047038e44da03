"""Every sort of token that must be refused, by the name of what is wrong with it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.bench.token_issuer import TokenIssuer, b64

WRONG_CLAIMS: dict[str, dict[str, Any]] = {
    **{
        f"{name} missing": {name: ...}
        for name in (
            "iss",
            "aud",
            "sub",
            "exp",
            "iat",
            "edge_id",
            "tools_allow",
            "danger_allow",
        )
    },
    **{
        f"{name} null": {name: None}
        for name in (
            "iss",
            "aud",
            "sub",
            "exp",
            "iat",
            "edge_id",
            "tools_allow",
            "danger_allow",
            "nbf",
        )
    },
    "iss of another": {"iss": "https://issuer.example.evil.example"},
    "iss with a slash": {"iss": "https://issuer.example/"},
    "iss a list": {"iss": ["https://issuer.example"]},
    "aud another edge": {"aud": "edge:edge-2"},
    "aud without prefix": {"aud": "edge-1"},
    "aud a list": {"aud": ["edge:edge-1"]},
    "aud a longer id": {"aud": "edge:edge-11"},
    "edge_id another": {"edge_id": "edge-2"},
    "edge_id a list": {"edge_id": ["edge-1"]},
    "sub without user": {"sub": "ada"},
    "sub nobody": {"sub": "user:"},
    "sub a number": {"sub": 7},
    "sub with a line end": {"sub": "user:ada\nuser:bob"},
    "sub too long": {"sub": "user:" + "a" * 300},
    "tools_allow a string": {"tools_allow": "get_status,execute_command"},
    "tools_allow an object": {"tools_allow": {"get_status": True}},
    "tools_allow true": {"tools_allow": True},
    "tools_allow endless": {"tools_allow": [f"t{i}" for i in range(1_001)]},
    "danger_allow a string": {"danger_allow": "false"},
    "danger_allow a number": {"danger_allow": 1},
    "danger_allow a list": {"danger_allow": []},
}

WRONG_HEADERS: dict[str, dict[str, Any]] = {
    "alg missing": {"alg": ...},
    "alg null": {"alg": None},
    "alg lower case": {"alg": "rs256"},
    "alg none, signed": {"alg": "none"},
    "alg a list": {"alg": ["RS256"]},
    "alg RS384, said": {"alg": "RS384"},
    "alg PS256, said": {"alg": "PS256"},
    "kid missing": {"kid": ...},
    "kid null": {"kid": None},
    "kid empty": {"kid": ""},
    "kid a number": {"kid": 1},
    "kid a path": {"kid": "../../dev/null"},
    "kid unknown": {"kid": "k9"},
    "kid of the EC key": {"kid": "ec"},
    "kid of the secret key": {"kid": "oct"},
    "kid of the encryption key": {"kid": "enc"},
    "kid of the RS512 key": {"kid": "rs512"},
    "kid of the small key": {"kid": "small"},
    "kid too long": {"kid": "k" * 500},
    "crit empty": {"crit": []},
    "crit exp": {"crit": ["exp"]},
    "crit unknown": {"crit": ["x"], "x": 1},
    "crit b64": {"crit": ["b64"], "b64": False},
    "b64 false": {"b64": False},
    "zip": {"zip": "DEF"},
    "jku": {"jku": "http://127.0.0.1:9/jwks"},
    "x5u": {"x5u": "http://127.0.0.1:9/cert"},
    "x5c": {"x5c": ["MIIB"]},
    "typ JWE": {"typ": "JWE"},
    "typ a number": {"typ": 1},
}


def wrong_times(now_s: int) -> dict[str, dict[str, Any]]:
    return {
        "expired by a second": {"exp": now_s - 1, "iat": now_s - 200},
        "expired this moment": {"exp": now_s, "iat": now_s - 200},
        "expired long ago": {"exp": 1_000, "iat": 900},
        "iat 31 s ahead": {"iat": now_s + 31, "exp": now_s + 200},
        "iat an hour ahead": {"iat": now_s + 3_600, "exp": now_s + 3_700},
        "lives 301 s": {"iat": now_s, "exp": now_s + 301},
        "lives an hour": {"iat": now_s, "exp": now_s + 3_600},
        "lives ten years": {"iat": now_s, "exp": now_s + 315_360_000},
        "over before it began": {"iat": now_s + 20, "exp": now_s + 10},
        "exp a string": {"exp": str(now_s + 100)},
        "exp a float": {"exp": now_s + 100.5},
        "exp huge": {"exp": 10**30},
        "exp huge float": {"exp": 1e300},
        "exp true": {"exp": True},
        "exp negative": {"exp": -1},
        "iat a string": {"iat": str(now_s)},
        "iat true": {"iat": True},
        "iat negative": {"iat": -5},
        "iat a float": {"iat": now_s + 0.5},
        "nbf in the future": {"nbf": now_s + 60},
        "nbf a string": {"nbf": "0"},
    }


def bad_tokens(issuer: TokenIssuer) -> dict[str, str]:
    """What is wrong → the token. ``issuer`` is the good one, whose kid is ``k1``."""
    made = {name: issuer.mint(**claims) for name, claims in WRONG_CLAIMS.items()}
    made |= {name: issuer.mint(**claims) for name, claims in wrong_times(issuer.now_s).items()}
    made |= {name: issuer.mint(header) for name, header in WRONG_HEADERS.items()}
    return made | _forged(issuer) | _malformed(issuer) | _doubled(issuer)


def extra_jwks(issuer: TokenIssuer) -> list[dict[str, Any]]:
    """Keys that stand in the key set and may verify nothing of ours."""
    return [
        {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "x": "AA", "y": "AA"},
        {"kty": "oct", "kid": "oct", "k": b64(b"secret"), "alg": "HS256"},
        issuer.jwk(kid="enc", use="enc"),
        issuer.jwk(kid="rs512", alg="RS512"),
        {"kty": "RSA", "kid": "small", "n": b64(b"\xc5" * 64), "e": "AQAB"},
    ]


def _forged(issuer: TokenIssuer) -> dict[str, str]:
    good = issuer.mint()
    head, body, signature = good.split(".")
    foreign = TokenIssuer(kid="k1", key="foreign", now_s=issuer.now_s)
    more = b64(json.dumps(issuer.claims(danger_allow=True)).encode())
    none = b64(json.dumps(issuer.header(alg="none")).encode())
    raw = bytearray(base64.urlsafe_b64decode(signature + "=="))
    raw[0] ^= 1
    return {
        "foreign key, our kid": foreign.mint(),
        "foreign key, embedded as jwk": foreign.mint({"jwk": foreign.jwk()}),
        "our key, embedded as jwk": issuer.mint({"jwk": issuer.jwk()}),
        "foreign key, jku": foreign.mint({"jku": "http://127.0.0.1:9/jwks"}),
        "payload exchanged": f"{head}.{more}.{signature}",
        "signature of one bit more": f"{head}.{body}.{b64(bytes(raw))}",
        "signature cut": f"{head}.{body}.{signature[:-4]}",
        "signature doubled": f"{head}.{body}.{signature}{signature}",
        "signature of zeros": f"{head}.{body}.{b64(bytes(256))}",
        "alg none, unsigned": f"{none}.{body}.",
        "alg none, our signature": f"{none}.{body}.{signature}",
        "HS256 with our PEM": _hmac(issuer, issuer.public(serialization.Encoding.PEM)),
        "HS256 with our DER": _hmac(issuer, issuer.public(serialization.Encoding.DER)),
        "HS256 with our modulus": _hmac(issuer, issuer.jwk()["n"].encode()),
        "RS384 by our key": _rsa(issuer, "RS384", padding.PKCS1v15(), hashes.SHA384()),
        "RS384 by our key, said RS256": _rsa(issuer, "RS256", padding.PKCS1v15(), hashes.SHA384()),
        "PS256 by our key": _rsa(issuer, "PS256", _pss(), hashes.SHA256()),
        "PS256 by our key, said RS256": _rsa(issuer, "RS256", _pss(), hashes.SHA256()),
        "ES256": _es256(issuer),
    }


def _malformed(issuer: TokenIssuer) -> dict[str, str]:
    good = issuer.mint()
    head, body, signature = good.split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    header = json.dumps(issuer.header())
    return {
        "empty": "",
        "blank": " ",
        "one word": "token",
        "two parts": f"{head}.{body}",
        "four parts": f"{good}.{signature}",
        "five parts, a JWE": f"{head}.{body}.{signature}.{body}.{signature}",
        "with Bearer": f"Bearer {good}",
        "with a blank after it": f"{good} ",
        "with a line end": f"{good}\n",
        "with padding": f"{good}==",
        "two tokens": f"{good},{good}",
        "standard base64 alphabet": f"{head}.{body}.{_with_plus(raw)}",
        "signature not canonical": good[:-1] + _next(good[-1]),
        "not ASCII": good[:-1] + "é",
        "a NUL in it": good[:20] + "\0" + good[20:],
        "header no JSON": issuer.sign("{", json.dumps(issuer.claims())),
        "header a list": issuer.sign("[]", json.dumps(issuer.claims())),
        "header not UTF-8": issuer.sign(b'{"alg":"RS256","kid":"\xff"}', "{}"),
        "header UTF-16": issuer.sign(header.encode("utf-16"), json.dumps(issuer.claims())),
        "payload no JSON": issuer.sign(header, "no"),
        "payload a string": issuer.sign(header, '"claims"'),
        "payload null": issuer.sign(header, "null"),
        "payload deep": issuer.sign(header, "[" * 5_000),
        "payload with NaN": issuer.sign(header, json.dumps(issuer.claims(x=float("nan")))),
        "payload with a long number": issuer.sign(header, f'{{"exp": {"9" * 6_000}}}'),
        "oversized": issuer.mint(x="a" * 20_000),
        "huge": "a" * 30_000,
    }


def _doubled(issuer: TokenIssuer) -> dict[str, str]:
    header, claims = json.dumps(issuer.header()), json.dumps(issuer.claims())
    return {
        "alg twice": issuer.sign('{"alg":"none",' + header[1:], claims),
        "kid twice": issuer.sign('{"kid":"k9",' + header[1:], claims),
        "danger_allow twice": issuer.sign(header, '{"danger_allow":true,' + claims[1:]),
        "exp twice": issuer.sign(header, '{"exp":1,' + claims[1:]),
        "a twice deep inside": issuer.sign(header, '{"x":{"a":1,"a":2},' + claims[1:]),
    }


def _hmac(issuer: TokenIssuer, secret: bytes) -> str:
    signed = f"{b64(json.dumps(issuer.header(alg='HS256')).encode())}.{_body(issuer)}"
    return f"{signed}.{b64(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def _rsa(issuer: TokenIssuer, said: str, pad: Any, digest: hashes.HashAlgorithm) -> str:
    signed = f"{b64(json.dumps(issuer.header(alg=said)).encode())}.{_body(issuer)}"
    return f"{signed}.{b64(issuer.key.sign(signed.encode(), pad, digest))}"


def _pss() -> padding.PSS:
    return padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)


def _es256(issuer: TokenIssuer) -> str:
    signed = f"{b64(json.dumps(issuer.header(alg='ES256', kid='ec')).encode())}.{_body(issuer)}"
    key = ec.generate_private_key(ec.SECP256R1())
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{b64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _body(issuer: TokenIssuer) -> str:
    return b64(json.dumps(issuer.claims()).encode())


def _with_plus(raw: bytes) -> str:
    text = base64.b64encode(raw).decode().rstrip("=")
    return text if "+" in text or "/" in text else f"+{text[1:]}"


def _next(character: str) -> str:
    """The neighbour in the alphabet, which differs in bits that no byte of the value has."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return alphabet[alphabet.index(character) ^ 1]
