"""A person's answers on the page: a yes, a no, the end of somebody's lease.

Whoever can reach the port can load the page; to answer wants the page's key, which lies in
STATE_DIR and is told by ``edged open --full`` alone. An agent that has the URL has no key.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from edged.errors import ErrorCode, Invalid, NotFound, Refused
from edged.files import keep_secret, read_secret
from edged.record import record

KEY_HEADER: Final = "Edged-Page-Key"
KEY_FILE: Final = "page_key"
REDIRECT_FILE: Final = "open.html"
"""Leads a browser to the page with its key; see ``edged open --full``."""
KEY_BYTES: Final = 16
KEY_CHARS: Final = 2 * KEY_BYTES
MOST_CHARS: Final = 500
Answer = Callable[..., Awaitable[dict[str, Any]]]


def keep_page_key(state_dir: Path) -> str:
    """The page's key, 32 hexadecimal digits; made if there is none.

    Raises:
        OSError: the directory can be neither read nor written.
    """
    made = keep_secret(
        state_dir / KEY_FILE,
        of=_key_in,
        make=lambda: secrets.token_hex(KEY_BYTES).encode("ascii"),
    )
    return made.decode("ascii")


def read_page_key(state_dir: Path) -> str:
    """The key; empty where there is none, or what is there is no key."""
    return read_secret(state_dir / KEY_FILE, of=_key_in).decode("ascii")


def _key_in(held: bytes) -> bytes:
    kept = held.strip()
    return kept if len(kept) == KEY_CHARS and set(kept) <= set(b"0123456789abcdef") else b""


@record
class OwnerAnswers:
    """What a person may say.

    Attributes:
        is_full: BENCH_PAGE is full; else nothing is answered on the page.
        state_dir: where the key lies.
        approve, deny: of (approval_id, by); break_lease: of (lease_id, reason, by).
    """

    is_full: bool
    state_dir: Path
    approve: Answer
    deny: Answer
    break_lease: Answer

    def check(self, given: str | None) -> None:
        """Let the holder of the key pass. From the disk: the owner may have made a new one.

        Raises:
            Refused: NOT_ALLOWED, nothing is answered here; NOT_AUTHENTICATED.
        """
        if not self.is_full:
            raise Refused(
                "Nothing is answered on this page: BENCH_PAGE is read.",
                code=ErrorCode.NOT_ALLOWED,
                remedy="Answer with `edged approve` or `edged deny`, or set BENCH_PAGE: full.",
            )
        key = read_page_key(self.state_dir)
        said = (given or "").strip().encode("utf-8", "surrogateescape")
        if not key or not hmac.compare_digest(said, key.encode("ascii")):
            raise Refused(
                "Only who has the page's key can answer here."
                if given is None
                else "This is not the page's key.",
                code=ErrorCode.NOT_AUTHENTICATED,
                remedy="Open the page with `edged open --full` on the computer of the bench, or "
                "answer with `edged approve`.",
            )

    async def answer(self, what: str, body: bytes, by: str) -> dict[str, Any]:
        """Take one answer; the key was checked.

        Args:
            what: approve, deny or break.
            body: a JSON object.
            by: who says so, for the record.

        Raises:
            NotFound: there is no such answer, question or lease.
            EdgedError: it cannot be taken.
        """
        if what not in _FIELDS:
            raise NotFound(
                f"There is no answer {what[:40]!r}; there are {', '.join(_FIELDS)}.",
                code=ErrorCode.UNKNOWN_METHOD,
            )
        told = _told(body, _FIELDS[what])
        match what:
            case "approve":
                return await self.approve(told["id"], by)
            case "deny":
                return await self.deny(told["id"], by)
        return await self.break_lease(told["lease"], told["reason"], by)


_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"approve": ("id",), "deny": ("id",), "break": ("lease", "reason")}
)


def _told(body: bytes, fields: tuple[str, ...]) -> dict[str, str]:
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    names = " and ".join(fields)
    if not isinstance(told, dict):
        raise Invalid(f"Send a JSON object with {names}.")
    found = {}
    for name in fields:
        text = told.get(name)
        if not isinstance(text, str) or not 0 < len(text.strip()) <= MOST_CHARS:
            raise Invalid(
                f"{name} must be a text of 1 to {MOST_CHARS} characters.", data={"parameter": name}
            )
        found[name] = text.strip()
    return found
