"""What became of one instrument when everything was stopped, and what that is worth."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from edged.instruments.instrument import Instrument
from edged.profiles.abort_proof import Proof, proofs_of, unproved_outputs
from edged.profiles.outputs import ANYTHING, output_names
from edged.work.obey import Obeyed

__all__ = ["StopState", "Stopped"]

RAW_LINES: Final = "whatever raw lines set"
"""What is told in place of outputs that no profile knows."""


class StopState(enum.StrEnum):
    """Of one instrument.

    ``confirmed``: all that its abort switches off answered that it is off; ``taken``: it took the
    lines, and not all of it can be asked; ``trying``: it has not answered yet; ``failed``: it did
    not take them, or says that it is not off; ``nothing_to_send``: no abort is known for it;
    ``absent``: it was told to put something out, and is not here.
    """

    CONFIRMED = "confirmed"
    TAKEN = "taken"
    TRYING = "trying"
    FAILED = "failed"
    NOTHING_TO_SEND = "nothing_to_send"
    ABSENT = "absent"


@dataclass(slots=True, kw_only=True)
class Stopped:
    """One instrument.

    Attributes:
        told: which of its outputs had been told something when the stop was given, and in which
            turn.
        outputs: what its abort switches off; ``unproved``: those of which nobody can ask.
        settled: done once there is something to tell.
    """

    instrument: Instrument
    told: Mapping[str, int]
    lines: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()
    outputs: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()
    state: StopState = StopState.NOTHING_TO_SEND
    error: str = ""
    taken_ms: float | None = None
    asked: tuple[dict[str, Any], ...] = ()
    off: frozenset[str] = frozenset()
    confirmed_ms: float | None = None
    settled: asyncio.Future[None] = field(default_factory=lambda: asyncio.Future())

    @classmethod
    def of(cls, instrument: Instrument, told: Mapping[str, int]) -> Stopped:
        """Before anything was sent; the last profile that it had says how."""
        profile = instrument.safe_by
        if profile is None or not profile.abort:
            return cls(instrument=instrument, told=told, unproved=(RAW_LINES,) if told else ())
        return cls(
            instrument=instrument,
            told=told,
            lines=profile.abort_lines,
            proofs=proofs_of(profile, profile.abort),
            outputs=output_names(profile),
            unproved=unproved_outputs(profile),
            state=StopState.TRYING,
        )

    def settle(self) -> None:
        """There is something to tell."""
        if not self.settled.done():
            self.settled.set_result(None)

    def note_taken(self, after_ms: float) -> None:
        """It took the lines; called on the thread of its line."""
        if self.taken_ms is None:
            self.taken_ms = after_ms

    def note(self, obeyed: Obeyed, after_ms: float) -> None:
        """What came of a try."""
        self.asked, self.off = obeyed.verdict.asked, obeyed.verdict.off
        self.error = obeyed.error or obeyed.complaint
        if obeyed.error:
            self.state = StopState.FAILED
            return
        self.note_taken(after_ms)
        if self.proofs and not self.unproved:
            self.state, self.confirmed_ms = StopState.CONFIRMED, after_ms
        else:
            self.state = StopState.TAKEN

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """What was told to put something out, and has not answered that it is off."""
        is_all_off = bool(self.outputs) and self.off >= set(self.outputs)
        return tuple(
            output
            for output in self.told
            if not (output in self.off if output in self.outputs else is_all_off)
        )

    @property
    def is_believed(self) -> bool:
        """Whether nothing speaks against its being safe."""
        if self.state in {StopState.FAILED, StopState.TRYING}:
            return False
        return not self.unconfirmed

    def seen_off(self) -> dict[str, int]:
        """What of ``told`` is shown to be off."""
        left = self.unconfirmed
        return {output: turn for output, turn in self.told.items() if output not in left}

    def to_json(self) -> dict[str, Any]:
        """Its entry in the result."""
        return {
            "instrument_id": self.instrument.id,
            "alias": self.instrument.alias,
            "state": self.state.value,
            "scpi": list(self.lines),
            "taken_after_ms": self.taken_ms,
            "confirmed": list(self.asked),
            "confirmed_after_ms": self.confirmed_ms,
            "unconfirmed": self._unconfirmed_by_name(),
            "error": self.error or self._why_unanswered(),
        }

    def _unconfirmed_by_name(self) -> list[str]:
        """With the outputs that ``ANYTHING`` stands for."""
        left = list(self.unconfirmed)
        if ANYTHING not in left:
            return left
        doubtful = [output for output in self.outputs if output not in self.off]
        named = [output for output in left if output != ANYTHING]
        return list(dict.fromkeys([*named, *(doubtful or [RAW_LINES])]))

    def _why_unanswered(self) -> str | None:
        if self.state is StopState.TRYING:
            return "It has not answered yet; it goes on being tried."
        return None
