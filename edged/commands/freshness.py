"""Whether a fetched trace is fresh: a stopped oscilloscope gives its last one with success.

What the instrument is doing is asked in the same job as the trace. Where it is stopped that alone
does not tell a capture that has just ended by itself (``single``) from one of an hour ago; so it is
remembered which instrument was told to capture after it was last stopped, and what was fetched of
that capture: fetched once more it is from before, whatever was set up in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from edged.patterns import found_in
from edged.profiles.model import Acquisition, Command, Profile
from edged.profiles.raw import identify
from edged.yaml.tree import Scalar

STOPPED: Final = "acquisition is stopped: this {} is from before"
WAITING: Final = "it waits for a trigger: this {} may be from before"
MEASUREMENT: Final = "measurement"
STALE_NOTES: Final = frozenset(text.format(MEASUREMENT) for text in (STOPPED, WAITING))
"""What is said of a measurement that is not, or may not be, of now."""

Fetched = tuple[str, tuple[tuple[str, Scalar], ...]]
"""A command that fetches, and its values."""


class Acquisitions:
    """Which instruments were told to capture and have not been stopped since, by their ids."""

    def __init__(self) -> None:
        # What has been fetched of that capture.
        self._started: dict[str, set[Fetched]] = {}

    def note(
        self, instrument_id: str, profile: Profile | None, command: Command, lines: Sequence[str]
    ) -> None:
        """A command was carried out.

        Args:
            lines: its own, rendered: one with a parameter may be what ``single`` is.
        """
        if profile is None or profile.acquisition is None or not command.is_write:
            return
        known = [profile.commands[name] for name in profile.acquisition.started_by]
        if command in known or any(tuple(lines) == start.scpi for start in known):
            self._started[instrument_id] = set()
        elif command.is_safe or _headers(command) & set().union(*map(_headers, known)):
            self.note_stopped(instrument_id)

    def note_raw(self, instrument_id: str, profile: Profile | None, line: str) -> None:
        """A raw line was carried out."""
        if profile is None or profile.acquisition is None:
            return
        started_by = profile.acquisition.started_by
        for part in identify(profile, line):
            commands = [match.command for match in part.matches]
            # The first is the likeliest, but where one line is several commands' it may start.
            commands.sort(key=lambda command: command.name not in started_by)
            if commands:
                self.note(instrument_id, profile, commands[0], ())

    def note_stopped(self, instrument_id: str) -> None:
        """Its abort is on its way."""
        self._started.pop(instrument_id, None)

    def is_fresh(
        self,
        instrument_id: str,
        acquisition: Acquisition,
        answer: str,
        command: Command,
        values: Mapping[str, Scalar],
    ) -> bool | None:
        """Whether what a command has fetched is of now; ``None``: it waits, nobody knows how long.

        Args:
            answer: what the instrument was doing.
        """
        is_now = self.is_now(instrument_id, acquisition, answer)
        fetched = self._started.get(instrument_id)
        if not is_now or fetched is None:
            return is_now
        what = (command.name, tuple(sorted(values.items())))
        if what in fetched:
            return False
        fetched.add(what)
        return True

    def is_now(self, instrument_id: str, acquisition: Acquisition, answer: str) -> bool | None:
        """Whether what an instrument shows is of now, however often it was fetched.

        As ``is_fresh`` for what is measured in a trace: that may be measured again and again.
        """
        said = answer.strip()
        if found_in(said, acquisition.running) is not None:
            # Whoever stops it then, it is no capture that ends by itself.
            self.note_stopped(instrument_id)
            return True
        if found_in(said, acquisition.stopped) is None:
            return None
        return instrument_id in self._started


def notes_of(is_fresh: bool | None, what: str = "trace") -> list[str]:
    """What is to be said of a trace, picture or measurement that is not, or may not be."""
    if is_fresh:
        return []
    return [(WAITING if is_fresh is None else STOPPED).format(what)]


def _headers(command: Command) -> set[str]:
    return {line.partition(" ")[0] for line in command.scpi}
