"""Addresses that discovery knows of: who told of each, and what came of asking it.

Only the bookkeeping: who is asked when, ``discovery.py`` decides.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from edged.config_instruments import InstrumentEntry
from edged.errors import EdgedError
from edged.instruments.actor import Actor
from edged.instruments.address import parse_address

__all__ = ["Place", "place_key"]


@dataclass(eq=False, slots=True, kw_only=True)
class Place:
    """One address, and what came of asking it.

    Attributes:
        actor: its line; ``None`` when the address cannot be opened at all.
        is_configured: the owner gave it; it stays whatever the buses tell.
        sources: names of the buses that list it now.
        plug: changes when what is there was plugged in anew.
        open_as: what VISA is given.
        due_at: monotonic seconds; when it is asked next, if nobody is known there.
        refusals: how often in a row nobody was there.
        reason: why nobody is known here; empty while somebody is.
        remedy: what to do about that.
        is_aside: something is there that hangs, is no instrument or cannot be opened.
        asking: the task that asks now.
    """

    entry: InstrumentEntry
    actor: Actor | None = None
    is_configured: bool = False
    sources: set[str] = field(default_factory=set)
    usb_id: tuple[int, int] | None = None
    plug: str = ""
    open_as: str = ""
    due_at: float = 0.0
    refusals: int = 0
    reason: str = ""
    remedy: str = ""
    is_aside: bool = False
    since_ms: int = 0
    asking: asyncio.Task[None] | None = None

    def told(self) -> dict[str, Any]:
        """Its entry in get_status's ``set_aside`` and the doctor's report."""
        return {
            "address": self.entry.address,
            "name": self.entry.name or "",
            "reason": self.reason,
            "remedy": self.remedy,
            "is_set_aside": self.is_aside,
            "since_ms": self.since_ms,
        }

    def forgive(self) -> None:
        """What is there was plugged in anew: it is asked as if nothing had been."""
        self.due_at, self.refusals, self.is_aside = 0.0, 0, False


def place_key(address: str) -> str:
    """What tells places apart: the canonical address, or the text where it is none."""
    try:
        return parse_address(address).key
    except EdgedError:
        return address
