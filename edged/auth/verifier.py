"""Token → Claims, or a refusal that tells its sender nothing.

The order is chosen by cost: form and claims first (pure, and most bad tokens end there without a
key being touched), the signature last. What was verified is remembered by its hash until it expires
or the issuer's keys change.

A token whose signature does not verify is refused after ``REFUSED_AFTER_S``, whether the issuer's
keys were fetched for it or not: the time of the refusal says nothing about that.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import field
from typing import Final

import structlog

from edged.actions.caller import Claims
from edged.auth.claims import (
    BadTokenError,
    Door,
    NoKeysError,
    Token,
    check_claims,
    check_time,
    read_token,
    unreadable_entries,
)
from edged.auth.keys import KeyBook, KeySet
from edged.auth.signature import verify
from edged.clock import Clock
from edged.record import part, record

log = structlog.get_logger("edged.auth")

MAX_REMEMBERED: Final = 1_024
MAX_LOGGED: Final = 10
"""Entries of one token that cannot be read; the log has the number of all."""
REFUSED_AFTER_S: Final = 0.5
"""Long enough for an issuer on another continent to answer, so that the first token that is signed
with a new key passes."""


@record(kw_only=False)
class _Verified:
    claims: Claims
    generation: int


@part
class Verifier:
    """Verifies tokens.

    Attributes:
        keys: the issuer's.
        issuer: RELAY_ISSUER.
        clock: for exp and iat.
        refused_after_s: when a token is refused whose signature does not verify.
    """

    keys: KeyBook
    issuer: str
    clock: Clock
    refused_after_s: float = REFUSED_AFTER_S
    _remembered: OrderedDict[tuple[bytes, Door], _Verified] = field(default_factory=OrderedDict)

    async def verify(self, text: str, door: Door) -> Claims:
        """What the token says, now that it is known to be the issuer's, and meant for this door.

        Raises:
            BadTokenError: why it is refused; for the audit, not for its sender. ``NoKeysError``
                where nothing is wrong with it that can be seen without the issuer's keys.
        """
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), door
        known = self._remembered.get(key)
        if known is not None and known.generation == (await self.keys.current()).generation:
            check_time(known.claims, self.clock.wall_ms())
            return known.claims
        token = read_token(text)
        claims = check_claims(
            token.payload, issuer=self.issuer, door=door, now_ms=self.clock.wall_ms()
        )
        key_set = await self.keys.current()
        key_set = await self._check_signature(token, key_set, claims.sub)
        # Fetching keys took time.
        check_time(claims, self.clock.wall_ms())
        unreadable = unreadable_entries(token.payload)
        if unreadable:
            log.warning(
                "token_entries_ignored",
                subject=claims.sub,
                entries=unreadable[:MAX_LOGGED],
                count=len(unreadable),
            )
        self._remember(key, _Verified(claims, key_set.generation))
        return claims

    async def _check_signature(self, token: Token, key_set: KeySet, claimed: str) -> KeySet:
        """The key set that verifies it, fetched anew if need be."""
        if _is_signed(token, key_set):
            return key_set
        refusal = asyncio.ensure_future(self.clock.sleep(self.refused_after_s))
        try:
            newer = await self.keys.after_miss(key_set, token.kid, refusal)
            if newer.generation != key_set.generation and _is_signed(token, newer):
                return newer
            await refusal
        finally:
            refusal.cancel()
        if not newer.generation:
            raise NoKeysError(
                f"The token claims to be of {claimed}; its issuer's keys could not be fetched: "
                f"{self.keys.last_error}"
            )
        why = "its signature does not verify" if token.kid in newer.keys else "its kid is unknown"
        raise BadTokenError(f"The token claims to be of {claimed}, but {why}.")

    def _remember(self, key: tuple[bytes, Door], verified: _Verified) -> None:
        while len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        self._remembered[key] = verified


def _is_signed(token: Token, key_set: KeySet) -> bool:
    key = key_set.keys.get(token.kid)
    return key is not None and verify(key, token.signed, token.signature)
