"""What every kind of long work writes into the journal alike.

A row says who began it, which unit it was, where it answered, and the lines that make it safe; what
finds it after a crash is ``crash_recovery.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from edged.actions.caller import Caller
from edged.instruments.instrument import Instrument
from edged.profiles.abort import not_staying, proofs_of
from edged.profiles.format.connection_facts import connection_facts
from edged.profiles.model import AbortStep, Profile
from edged.profiles.owner_rules import UnitRules

HEARTBEAT_S: Final = 20.0
"""How often the journal hears of work that has nothing to write: its age is what counts after a
crash (ABORT_AFTER_CRASH_SEC)."""


def clean_up_of(
    profile: Profile | None, rules: UnitRules, steps: Sequence[AbortStep]
) -> dict[str, Any]:
    """What makes it safe after a crash: the lines but for what its owner lets stay on, and proofs.

    Args:
        steps: what is sent to make it safe in this life.
    """
    left = not_staying(profile, steps, rules.may_stay_on)
    proofs = proofs_of(profile, left) if profile is not None else ()
    return {
        "abort": [step.send for step in left],
        "stays": [step.send for step in steps if step not in left],
        "proofs": [proof.to_json() for proof in proofs],
    }


def work_of(caller: Caller, instrument: Instrument) -> dict[str, Any]:
    """Who began it, where the instrument answered, and how to speak to it there."""
    return {
        "caller": caller.to_json(),
        "alias": instrument.alias,
        "address": instrument.address,
        "profile": instrument.profile.key if instrument.profile else "",
        "connection": connection_facts(instrument.connection),
    }
