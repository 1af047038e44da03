"""Notes which outputs an action is about to tell something, before its intent is written down.

The mark and the intent go to disk together, so that not even a killed daemon forgets that it had
something switched on; ``runs/stop_all.py`` believes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from edged.actions.action import Action, RunCommand, SendScpi, StartStream, StartSweep
from edged.commands.target import Target
from edged.instruments.dead_man import Timer
from edged.instruments.instrument import Instrument
from edged.profiles.abort import ANYTHING, told_by, told_raw
from edged.profiles.model import Profile
from edged.profiles.template import render_lines
from edged.runs.units import unit_of_instrument, unit_of_wrapper

NoteTold = Callable[[Action, Target], None]
"""Told of every write that is no safe one, before anything is sent. Never waits; raises ``Refused``
where nothing may be put out."""

Note = Callable[[str, str, frozenset[str], str], None]
"""Unit, instrument id, outputs, why nobody knows their state; ``store.told_on.ToldOn.note``."""


Before = Callable[[Instrument], Timer | None]
"""What has to run in the instrument before it puts something out; raises ``Refused``."""


def noting_tellings(note: Note, before: Before) -> NoteTold:
    """What the command path tells of its writes.

    Args:
        before: asked of a unit whose owner wants its dead-man used, in the same breath.
    """

    def note_told(action: Action, target: Target) -> None:
        instrument, spec = target.instrument, target.spec
        if instrument is not None:
            outputs = outputs_told(action, target, instrument)
            if outputs:
                if instrument.timer is not None or instrument.rules.dead_man_s is not None:
                    target.timer = before(instrument)
                why = _why_unknown(target, instrument) if ANYTHING in outputs else ""
                note(unit_of_instrument(instrument).key, instrument.id, outputs, why)
        elif spec is not None and spec.is_dangerous:
            why = f"{spec.name} was called, which is dangerous"
            note(unit_of_wrapper(spec).key, spec.wrapper_id, frozenset({ANYTHING}), why)

    return note_told


def _why_unknown(target: Target, instrument: Instrument) -> str:
    """Why the state of every output of a unit is not known any more, a clause."""
    if target.is_unknown and instrument.profile is None:
        return "a raw line was sent, and no profile says what it does"
    if target.is_unknown:
        return "a raw line that no command of its profile matches was sent"
    names = [part.command.name for part in target.parts if part.command is not None]
    sent = target.command_name or ", ".join(dict.fromkeys(names)) or "a command"
    return f"{sent} was sent, which can change any output"


def outputs_told(action: Action, target: Target, instrument: Instrument) -> frozenset[str]:
    """Which outputs an action tells to put something out."""
    profile = instrument.profile or instrument.safe_by
    # A write is asked several times on its way: the same, unless its profile was read again.
    known = target.told
    if known is None or known[0] is not profile or known[1] is not target.lines:
        outputs = _outputs_told(action, target, profile)
        known = target.told = profile, target.lines, outputs
    return known[2]


def _outputs_told(action: Action, target: Target, profile: Profile | None) -> frozenset[str]:
    match action:
        case SendScpi():
            return told_raw(profile, target.parts)
        case RunCommand() | StartStream() if target.command is not None and profile is not None:
            return told_by(profile, target.command, target.lines)
        case StartSweep() if target.command is not None and profile is not None:
            # Its steps have no intent of their own on disk; the swept value is that of its target.
            return told_by(profile, target.command, render_lines(target.command, target.values))
        case _:
            return frozenset()
