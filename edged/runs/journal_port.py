"""What every kind of long work writes into the journal alike.

A row says who began it, which unit it was, where it answered, and the lines that make it safe; what
finds it after a crash is ``crash_recovery.py``.
"""

from __future__ import annotations

from typing import Any, Final

from edged.actions.caller import Caller
from edged.instruments.instrument import Instrument
from edged.profiles.format.connection_facts import connection_facts

HEARTBEAT_S: Final = 20.0
"""How often the journal hears of work that has nothing to write: its age is what counts after a
crash (ABORT_AFTER_CRASH_SEC)."""


def work_of(caller: Caller, instrument: Instrument) -> dict[str, Any]:
    """Who began it, where the instrument answered, and how to speak to it there."""
    return {
        "caller": caller.to_json(),
        "alias": instrument.alias,
        "address": instrument.address,
        "profile": instrument.profile.key if instrument.profile else "",
        "connection": connection_facts(instrument.connection),
    }
