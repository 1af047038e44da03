"""Instruments that do not know ``*IDN?``, whose owner says what they are.

An entry of INSTRUMENTS that names a profile is the owner's word. Where such an instrument is silent
or answers nonsense to ``*IDN?``, the profile's ``probe`` takes its place; without one the word
stands alone: a line that opens counts as the instrument. That is less than an answer, so a unit
that is switched off or exchanged is noticed only by what its commands come to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edged.instruments.conversation import Ask, Conversation, Listen
from edged.profiles.match import Identity
from edged.profiles.model import Connection, Profile
from edged.profiles.patterns import found_in

__all__ = ["OWNERS_WORD", "vouched", "vouched_identity"]

OWNERS_WORD: Final = "known by its owner's word"
"""Stands for the answer to ``*IDN?`` where there is none."""
MOST_PASSED_OVER: Final = 4


def vouched(connection: Connection) -> Callable[[], Conversation[str]]:
    """The question that takes the place of ``*IDN?``; comes to ``OWNERS_WORD`` when all is well."""

    def prove() -> Conversation[str]:
        probe = connection.probe
        if probe is None:
            return OWNERS_WORD
        answer = yield Ask(probe.query)
        for _ in range(MOST_PASSED_OVER):
            if not isinstance(answer, str) or not answer:
                break
            if found_in(answer, probe.expect, any_case=False):
                return OWNERS_WORD
            # On a line that keeps old answers they come first.
            answer = yield Listen()
        return "something else than the probe expects"

    return prove


def vouched_identity(profile: Profile) -> Identity:
    """Who it is by its profile; without a serial number, so its address tells it apart."""
    return Identity(manufacturer=profile.manufacturer, model=profile.model)
