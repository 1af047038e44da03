"""Every unit judged anew, because profiles or the owner's bench file were changed.

Units keep their lines and their ids; what a new profile wants asked (``probe``) or sent at
connection is done now where the unit answers, and at its next connection where it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from edged.config_instruments import InstrumentEntry
from edged.errors import EdgedError
from edged.instruments.conversation import greet, raw_conversation
from edged.instruments.instrument import Found, Instrument
from edged.instruments.mailbox import Priority
from edged.instruments.pool import InstrumentPool
from edged.instruments.scan import Knowledge, judge_again
from edged.profiles.model import Connection

__all__ = ["SecondLook"]

EntryOf = Callable[[Instrument], tuple[InstrumentEntry, tuple[int, int] | None]]
PATIENCE_S: Final = 3.0
MORE_THAN_ONE: Final = 2

log = structlog.get_logger(__name__)


class SecondLook:
    """Judges units that are known already.

    Args:
        pool: where they are.
        entry_of: what the owner wrote of a unit's address, and its USB id.
    """

    def __init__(self, pool: InstrumentPool, *, entry_of: EntryOf) -> None:
        self._pool = pool
        self._entry_of = entry_of

    async def take(self, knowledge: Knowledge, before: Callable[[], None]) -> list[str]:
        """See ``Discovery.learn``; whatever is asked is asked before anything changes."""
        judged = []
        for instrument in self._pool.known():
            entry, usb_id = self._entry_of(instrument)
            found = judge_again(instrument, entry, knowledge, usb_id)
            if found is not None:
                judged.append((instrument, await self._confirmed(instrument, found)))
        greeted = [
            (instrument, found.connection)
            for instrument, found in judged
            if found.connection.on_connect != instrument.connection.on_connect
        ]
        before()
        self._pool.relearn(judged)
        for instrument, connection in greeted:
            await _greet(instrument, connection)
        return [instrument.id for instrument, _ in judged]

    def at_joined(self, instrument: Instrument, knowledge: Knowledge) -> None:
        """What the owner says under each name of a unit's addresses holds for it at all of them.

        Its profile and how it is spoken to stay as they were found.
        """
        if len(instrument.seats) < MORE_THAN_ONE:
            return
        entry, usb_id = self._entry_of(instrument)
        found = judge_again(instrument, entry, knowledge, usb_id)
        if found is None:
            return
        own = instrument.connection
        profile = replace(found.profile, connection=own) if found.profile else None
        if instrument.profile is None:
            profile = None
        found = replace(found, connection=own, profile=profile)
        had = (instrument.profile, instrument.rules, instrument.alias)
        if had != (found.profile, found.rules, found.alias):
            self._pool.relearn([(instrument, found)])

    async def _confirmed(self, instrument: Instrument, found: Found) -> Found:
        """With its new profile, if the profile's own question is answered as it must be."""
        profile, had = found.profile, instrument.profile
        probe = found.connection.probe
        is_known = had is not None and profile is not None and had.key == profile.key
        if profile is None or probe is None or is_known or not instrument.is_connected:
            return found
        try:
            reply = await instrument.converse(
                lambda: raw_conversation(
                    lines=(probe.query,), asks=True, connection=found.connection
                ),
                priority=Priority.PROBE,
                timeout_s=PATIENCE_S + found.connection.timeout_ms / 1000,
                name=probe.query,
            )
            is_confirmed = re.search(probe.expect, (reply.answer or "")[:1000]) is not None
        except EdgedError:
            is_confirmed = False
        if is_confirmed:
            return found
        remark = f"{profile.key} fits the name, but its probe question was answered otherwise."
        return replace(
            found, profile=None, tied=(), remark=remark, connection=instrument.connection
        )


async def _greet(instrument: Instrument, connection: Connection) -> None:
    """Say what the new profile wants said at connection; a unit that is away hears it later."""
    if not instrument.is_connected:
        return
    try:
        await instrument.converse(
            lambda: greet(connection),
            priority=Priority.PROBE,
            timeout_s=PATIENCE_S + connection.timeout_ms * len(connection.on_connect) / 1000,
            name="greeting",
        )
    except EdgedError as error:
        log.warning("greeting_failed", id=instrument.id, reason=str(error))
