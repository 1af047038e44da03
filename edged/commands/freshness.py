"""Whether a fetched trace is fresh: a stopped oscilloscope gives its last one with success.

What the instrument is doing is asked in the same job as the trace. Where it is stopped that alone
does not tell a capture that has just ended by itself (``single``) from one of an hour ago; so it is
remembered which instrument was told to capture after it was last stopped.
"""

from __future__ import annotations

from typing import Final

from edged.patterns import found_in
from edged.profiles.model import Acquisition, Command, Profile
from edged.profiles.raw import identify

__all__ = ["Acquisitions", "notes_of"]

STOPPED: Final = "acquisition is stopped: this trace is from before"
WAITING: Final = "it waits for a trigger: this trace may be from before"


class Acquisitions:
    """Which instruments were told to capture and have not been stopped since, by their ids."""

    def __init__(self) -> None:
        self._started: set[str] = set()

    def note(self, instrument_id: str, profile: Profile | None, command: Command) -> None:
        """A command was carried out."""
        if profile is None or profile.acquisition is None:
            return
        if command.is_safe:
            self.note_stopped(instrument_id)
        elif command.name in profile.acquisition.started_by:
            self._started.add(instrument_id)

    def note_raw(self, instrument_id: str, profile: Profile | None, line: str) -> None:
        """A raw line was carried out."""
        if profile is None or profile.acquisition is None:
            return
        for part in identify(profile, line):
            for match in part.matches:
                self.note(instrument_id, profile, match.command)

    def note_stopped(self, instrument_id: str) -> None:
        """Its abort is on its way."""
        self._started.discard(instrument_id)

    def is_fresh(self, instrument_id: str, acquisition: Acquisition, answer: str) -> bool | None:
        """Whether what it holds is of now; ``None``: it waits, and nobody knows since when."""
        said = answer.strip()
        if found_in(said, acquisition.running) is not None:
            return True
        if found_in(said, acquisition.stopped) is None:
            return None
        return instrument_id in self._started


def notes_of(is_fresh: bool | None) -> list[str]:
    """What is to be said of a trace that is not, or may not be."""
    if is_fresh:
        return []
    return [WAITING if is_fresh is None else STOPPED]
