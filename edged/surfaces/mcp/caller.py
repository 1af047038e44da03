"""Who a request is from: the mere presence of ``Edge-Caller-JWT`` puts it on the relay route.

From there is no way back to the direct route, whatever is wrong with the token. Its sender learns
only that it was not accepted, or cannot be judged now; why stands in the audit.

Source: docs/promises.md section 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from edged.actions.caller import Caller, Claims, Route
from edged.auth.claims import BadTokenError, Door, NoKeysError
from edged.clock import Clock
from edged.errors import EdgedError, ErrorCode, Failed, Refused
from edged.surfaces.mcp.seams import CallerHead, DirectGuard

MAX_ASKED_CHARS: Final = 128
ROWS_AT_ONCE: Final = 200
ROWS_A_SECOND: Final = 5.0
"""Refusals beyond are counted into the next row: whoever has no token must not fill the disk."""

Refuse = Callable[[Caller, str, EdgedError], None]
"""Writes a refused attempt into the audit: who, which tool or method, why."""


class TokenVerifier(Protocol):
    """Verifies tokens."""

    async def verify(self, text: str, door: Door) -> Claims:
        """What the token says, if it is meant for that door.

        Raises:
            BadTokenError: why not.
        """
        ...


class RelayGuard:
    """Implements ``CallerGuard`` for both routes.

    Args:
        verifier: verifies tokens; ``None`` where no issuer is configured: no token is accepted.
        door: what tokens are taken here.
        relayed: what is taken of what came over NATS, where that is more.
        refuse: takes note of what is refused.
        clock: for how many refusals are noted one by one.
    """

    def __init__(
        self,
        *,
        verifier: TokenVerifier | None,
        door: Door,
        refuse: Refuse,
        clock: Clock,
        relayed: Door | None = None,
    ) -> None:
        self._verifier = verifier
        self._door = door
        self._relayed = relayed or door
        self._refuse = refuse
        self._clock = clock
        self._direct = DirectGuard()
        self.direct = self._direct.direct
        self._rows_left = float(ROWS_AT_ONCE)
        self._counted_s = clock.monotonic()
        self._not_noted = 0

    async def guard(self, head: CallerHead) -> Caller:
        if not head.tokens:
            return await self._direct.guard(head)
        try:
            claims = await self._claims(head)
        except BadTokenError as bad:
            self._note(head.remote, await head.asked(), str(bad))
            # Not `from bad`: nothing of it may travel with what the caller sees.
            raise (_not_now() if isinstance(bad, NoKeysError) else _refusal()) from None
        return Caller(route=Route.RELAY, remote=head.remote, subject=claims.sub, claims=claims)

    def _note(self, remote: str, asked: str, reason: str) -> None:
        """Write a refusal down; in a flood only some, with the number of the others."""
        now_s = self._clock.monotonic()
        gained = (now_s - self._counted_s) * ROWS_A_SECOND
        self._rows_left = min(ROWS_AT_ONCE, self._rows_left + gained)
        self._counted_s = now_s
        if self._rows_left < 1:
            self._not_noted += 1
            return
        self._rows_left -= 1
        if self._not_noted:
            reason = f"{reason} {self._not_noted} more refusals were not written one by one."
            self._not_noted = 0
        caller = Caller(route=Route.RELAY, remote=remote)
        error = Refused(reason, code=ErrorCode.NOT_AUTHENTICATED)
        self._refuse(caller, asked[:MAX_ASKED_CHARS], error)

    async def _claims(self, head: CallerHead) -> Claims:
        tokens = head.tokens
        if len(tokens) != 1:
            raise BadTokenError(f"There are {len(tokens)} tokens.")
        if self._verifier is None:
            raise BadTokenError("No issuer is configured (RELAY_ISSUER, RELAY_JWKS_URL).")
        return await self._verifier.verify(
            tokens[0].strip(), self._relayed if head.is_relayed else self._door
        )


def _not_now() -> Failed:
    return Failed(
        "This call came by the relay route and cannot be authenticated now: the keys of its issuer "
        "cannot be had.",
        code=ErrorCode.NO_KEYS,
        remedy="Try again in some seconds.",
    )


def _refusal() -> Refused:
    return Refused(
        "This call came by the relay route and could not be authenticated.",
        code=ErrorCode.NOT_AUTHENTICATED,
        remedy="Sign in again, or ask whoever issued the access for a new one.",
    )
