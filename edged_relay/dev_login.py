"""Logging in at ``edged dev-issuer``: OAuth 2.1 with PKCE, for trials. NOT FOR PRODUCTION.

Whoever presses the button is the user of ``--login``: no password is asked. Clients register
themselves (RFC 7591), are public, and must use S256; a code works once, a refresh token once. What
a token is for follows from the resource that the client names: ``…/mcp/<edge_id>`` or ``…/mcp``.
The exchange is a value here, without sockets; ``dev_issuer`` serves it on loopback.

Source: OAuth 2.1 draft; RFC 7591, 7636, 8414, 8707, 9207.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from edged.clock import Clock
from edged.record import record

MOST: Final = 256
"""Clients, codes and refresh tokens that are remembered, each."""
CODE_S: Final = 60.0
RESOURCE: Final = re.compile(r"/mcp(?:/([A-Za-z0-9][A-Za-z0-9_-]{0,63}))?/?")
VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>edged dev-issuer</title>
<h1>Development login</h1><p>{client} wants to work {resource} as {user}.</p>
<form method="post" action="/authorize">{fields}<button>Log in as {user}</button></form></html>"""

Mint = Callable[[str | None], str]
"""A token for an edge, by its id; ``None``: for the fleet."""


@record(kw_only=False)
class LoginAnswer:
    """What is answered: a status, a body with its type, and perhaps a place to go on to."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    location: str = ""


@record
class _Grant:
    client_id: str
    redirect_uri: str
    resource: str
    challenge: str
    until_s: float


class _RefusedError(Exception):
    """An error of OAuth: its code, and why in words."""


class DevLogin:
    """Everything between a client's registration and its token.

    Args:
        issuer: its URL.
        user: who everybody is.
        mint: makes tokens.
        clock: for how long a code works.
    """

    def __init__(self, issuer: str, *, user: str, mint: Mint, clock: Clock) -> None:
        self._issuer = issuer
        self._user = user
        self._mint = mint
        self._clock = clock
        self._clients: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._codes: OrderedDict[str, _Grant] = OrderedDict()
        self._refreshes: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def get(self, path: str, query: str) -> LoginAnswer | None:
        """A GET; ``None`` where nothing is."""
        if path == "/.well-known/oauth-authorization-server":
            return _json(200, self._metadata())
        if path != "/authorize":
            return None
        asked = dict(parse_qsl(query))
        try:
            self._check(asked)
        except _RefusedError as refused:
            return _refusal(refused)
        fields = "".join(
            f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
            for name, value in asked.items()
        )
        page = PAGE.format(
            client=html.escape(urlsplit(asked["redirect_uri"]).netloc),
            resource=html.escape(asked["resource"]),
            user=html.escape(self._user),
            fields=fields,
        )
        return LoginAnswer(200, page.encode(), "text/html; charset=utf-8")

    def post(self, path: str, body: bytes) -> LoginAnswer | None:
        """A POST; ``None`` where nothing is."""
        todo = {"/register": self._register, "/authorize": self._allow, "/token": self._token}
        if path not in todo:
            return None
        try:
            return todo[path](body.decode("utf-8"))
        except (_RefusedError, UnicodeDecodeError) as refused:
            return _refusal(refused)

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self._issuer,
            "authorization_endpoint": f"{self._issuer}/authorize",
            "token_endpoint": f"{self._issuer}/token",
            "registration_endpoint": f"{self._issuer}/register",
            "jwks_uri": f"{self._issuer}/jwks.json",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }

    def _register(self, text: str) -> LoginAnswer:
        try:
            asked = json.loads(text)
            uris = asked["redirect_uris"]
        except (ValueError, TypeError, KeyError):
            raise _RefusedError("invalid_client_metadata", "redirect_uris are missing.") from None
        if not isinstance(uris, list) or not uris or not all(map(_can_be_sent_to, uris)):
            raise _RefusedError("invalid_redirect_uri", "Loopback or https, and no fragment.")
        client_id = secrets.token_urlsafe(12)
        _keep(self._clients, client_id, tuple(uris))
        told = {
            "client_id": client_id,
            "redirect_uris": uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        return _json(201, told)

    def _check(self, asked: Mapping[str, str]) -> None:
        """Raises what is wrong with a request to /authorize; nobody is sent on by it."""
        if asked.get("redirect_uri") not in self._clients.get(asked.get("client_id", ""), ()):
            raise _RefusedError(
                "invalid_client", "This client is not registered with these values."
            )
        if asked.get("response_type") != "code":
            raise _RefusedError("unsupported_response_type", "Only code.")
        if asked.get("code_challenge_method") != "S256" or not asked.get("code_challenge"):
            raise _RefusedError("invalid_request", "PKCE with S256 is needed.")
        if RESOURCE.fullmatch(urlsplit(asked.get("resource", "")).path) is None:
            raise _RefusedError("invalid_target", "resource must be …/mcp/<edge_id> or …/mcp.")

    def _allow(self, text: str) -> LoginAnswer:
        asked = dict(parse_qsl(text))
        self._check(asked)
        code = secrets.token_urlsafe(24)
        grant = _Grant(
            client_id=asked["client_id"],
            redirect_uri=asked["redirect_uri"],
            resource=asked["resource"],
            challenge=asked["code_challenge"],
            until_s=self._clock.monotonic() + CODE_S,
        )
        _keep(self._codes, code, grant)
        told = {"code": code, "iss": self._issuer}
        if "state" in asked:
            told["state"] = asked["state"]
        mark = "&" if urlsplit(asked["redirect_uri"]).query else "?"
        return LoginAnswer(303, location=f"{asked['redirect_uri']}{mark}{urlencode(told)}")

    def _token(self, text: str) -> LoginAnswer:
        asked = dict(parse_qsl(text))
        match asked.get("grant_type"):
            case "authorization_code":
                resource = self._by_code(asked)
            case "refresh_token":
                resource = self._by_refresh(asked)
            case _:
                raise _RefusedError("unsupported_grant_type", "A code, or a refresh token.")
        if asked.get("resource", resource) != resource:
            raise _RefusedError("invalid_target", "The code was given for another resource.")
        found = RESOURCE.fullmatch(urlsplit(resource).path)
        refresh = secrets.token_urlsafe(24)
        _keep(self._refreshes, refresh, (asked.get("client_id", ""), resource))
        told = {
            "access_token": self._mint(found[1] if found else None),
            "token_type": "Bearer",
            "expires_in": 300,
            "refresh_token": refresh,
        }
        return _json(200, told)

    def _by_code(self, asked: Mapping[str, str]) -> str:
        # Taken whatever comes of it: a code works once.
        grant = self._codes.pop(asked.get("code", ""), None)
        verifier = asked.get("code_verifier", "")
        if (
            grant is None
            or self._clock.monotonic() > grant.until_s
            or grant.client_id != asked.get("client_id")
            or grant.redirect_uri != asked.get("redirect_uri")
            or VERIFIER.fullmatch(verifier) is None
            or not hmac.compare_digest(_s256(verifier), grant.challenge.encode("utf-8"))
        ):
            raise _RefusedError(
                "invalid_grant", "This code is unknown, or was given to another client."
            )
        return grant.resource

    def _by_refresh(self, asked: Mapping[str, str]) -> str:
        client_id, resource = self._refreshes.pop(asked.get("refresh_token", ""), ("", ""))
        if not resource or client_id != asked.get("client_id"):
            raise _RefusedError(
                "invalid_grant", "This refresh token is unknown, or was given to another client."
            )
        return resource


def _s256(verifier: str) -> bytes:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")


def _can_be_sent_to(uri: object) -> bool:
    if not isinstance(uri, str):
        return False
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    is_here = parts.scheme == "http" and parts.hostname in LOOPBACK
    return not parts.fragment and (is_here or parts.scheme == "https")


def _keep(kept: OrderedDict[str, Any], key: str, value: object) -> None:
    kept[key] = value
    if len(kept) > MOST:
        kept.popitem(last=False)


def _json(status: int, told: Mapping[str, Any]) -> LoginAnswer:
    return LoginAnswer(status, json.dumps(told).encode("ascii"))


def _refusal(refused: Exception) -> LoginAnswer:
    code, *words = refused.args if isinstance(refused, _RefusedError) else ("invalid_request",)
    return _json(400, {"error": code, "error_description": " ".join(words)})
