"""What sweeps hold: one sweep a parameter of an instrument, and no other writer meanwhile.

Whether a line may change the value that a sweep holds. Pure.

The swept command under any spelling is one; so is a command that has the same parameter under a
header that goes on from the swept one (``:SOUR:LEV:AUTO``) or sets all at once (``:APPL``), and
whatever declares that it changes more than it names, questions too. What the profile does not know
may be anything: while a sweep runs only what cannot set a value passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edged.clock import Clock
from edged.errors import Conflict, ErrorCode
from edged.profiles.raw import RawMatch, RawPart, identify
from edged.profiles.template import placeholders, render
from edged.record import record
from edged.runs.states import RunState
from edged.runs.sweeps.ramp_plan import SweptThing
from edged.runs.sweeps.sweep import Sweep
from edged.runs.wording import held_by
from edged.scpi.line import Message, messages
from edged.scpi.words import match_header, same_word

RESETTING: Final = ("*RST", "*RCL")
"""IEEE 488.2's own commands that set everything at once."""
HARMLESS: Final = ("*CLS", "*ESE", "*SRE", "*OPC", "*WAI")
HARMLESS_ROOTS: Final = ("STATus", "DISPlay", "ABORt")
ALL_AT_ONCE: Final = "APPLy"
SWITCHES: Final = ("OUTPut", "INPut", "STATe")
"""Where a zero means off; anywhere else it may be a value, and a jump to it."""


def may_change(thing: SweptThing, line: str, *, is_raw: bool) -> bool:
    """Whether a line may change what is swept.

    Args:
        is_raw: it was written by a caller; else it is a command of the profile.
    """
    if thing.profile is None:
        return is_raw
    return any(_part_may(thing, part, is_raw=is_raw) for part in identify(thing.profile, line))


def _part_may(thing: SweptThing, part: RawPart, *, is_raw: bool) -> bool:
    if part.text.strip(" :").upper().startswith(RESETTING):
        return True
    acting = [match for match in part.matches if match.changes is not None]
    if any(not match.command.is_safe for match in acting):
        # What it changes does not stand in it.
        return True
    if part.is_query and not any(match.command.is_write for match in part.matches):
        return False
    if not part.matches:
        is_known_end = thing.profile is not None and part.text in thing.profile.abort_lines
        return is_raw and not is_known_end and not _is_harmless(part.text)
    return any(_is_rival(thing, part, match) for match in part.matches)


def _is_rival(thing: SweptThing, part: RawPart, match: RawMatch) -> bool:
    command = match.command
    if command.name != thing.command.name and not (
        thing.plan.parameter in command.parameters and _reaches(thing, part)
    ):
        return False
    return not match.readings or not all(map(thing.is_elsewhere, match.readings))


def _reaches(thing: SweptThing, part: RawPart) -> bool:
    """Whether the header of a message sets all at once, or is the swept one or goes on from it."""
    headers = _swept_headers(thing)
    for message in messages(part.text):
        nodes = message.path + message.nodes
        if any(same_word(ALL_AT_ONCE, node.rstrip("0123456789")) for node in nodes):
            return True
        for length in range(1, len(nodes) + 1):
            if any(match_header(header, nodes[:length]) is not None for header in headers):
                return True
    return False


def _swept_headers(thing: SweptThing) -> list[tuple[str, ...]]:
    command, name = thing.command, thing.plan.parameter
    return [
        message.nodes
        for template in command.scpi
        if name in {hole.name for hole in placeholders(template)}
        for message in messages(render(template, command.parameters, thing.values))
        if message.arguments and not message.is_query
    ]


def _is_harmless(text: str) -> bool:
    return all(_sets_nothing(message) for message in messages(text))


def _sets_nothing(message: Message) -> bool:
    if not message.nodes:
        return True
    root = message.nodes[0]
    if _switches_off(message):
        # What switches off is not held up by not being known.
        return True
    return root.upper() in HARMLESS or any(same_word(word, root) for word in HARMLESS_ROOTS)


def _switches_off(message: Message) -> bool:
    last = message.arguments[-1].upper() if message.arguments else ""
    if last == "0":
        node = message.nodes[-1].rstrip("0123456789")
        return any(same_word(switch, node) for switch in SWITCHES)
    return last == "OFF"


@record(kw_only=False)
class _Holder:
    """Who holds a parameter; from before its set-point is asked until nothing more is sent.

    ``since_s`` is monotonic.
    """

    sweep_id: str
    thing: SweptThing
    who: str
    since_s: float


class SweepClaims:
    """The parameters that are held, each by one sweep.

    Args:
        find: gives the sweep with an id; none while it is still about to begin.
        clock: for how long it has been held.
    """

    def __init__(self, find: Callable[[str], Sweep | None], clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self.held: dict[tuple[str, str], _Holder] = {}

    def take(self, thing: SweptThing, sweep_id: str, who: str) -> None:
        """Hold a parameter for a sweep that is about to begin; ``who`` started it, for people.

        Raises:
            Conflict: SWEEP_CONFLICT, another sweep holds it.
        """
        holder = self.held.get(thing.key)
        if holder is not None and self._still_holds(holder):
            raise self._conflict(holder)
        self.held[thing.key] = _Holder(sweep_id, thing, who, self._clock.monotonic())

    def drop(self, thing: SweptThing, sweep_id: str) -> None:
        """That sweep holds it no longer; another one may already."""
        holder = self.held.get(thing.key)
        if holder is not None and holder.sweep_id == sweep_id:
            del self.held[thing.key]

    def refuse_writer(
        self, instrument_id: str, lines: tuple[str, ...], on_behalf_of: str, *, is_raw: bool
    ) -> None:
        """Let no other writer to what is swept on an instrument pass.

        Args:
            lines: what it would send.
            is_raw: they were written by a caller.
            on_behalf_of: the sweep it comes from, if it comes from one.

        Raises:
            Conflict: SWEEP_CONFLICT, naming the sweep.
        """
        for holder in self.held.values():
            is_other = holder.thing.instrument.id == instrument_id
            if not is_other or holder.sweep_id == on_behalf_of or not self._still_holds(holder):
                continue
            if any(may_change(holder.thing, line, is_raw=is_raw) for line in lines):
                raise self._conflict(holder)

    def holds_on(self, instrument_id: str) -> bool:
        """Whether anything is swept on an instrument."""
        return any(
            holder.thing.instrument.id == instrument_id and self._still_holds(holder)
            for holder in self.held.values()
        )

    def _still_holds(self, holder: _Holder) -> bool:
        """What is over holds nothing, though its last words may not be written yet."""
        sweep = self._find(holder.sweep_id)
        return sweep is None or not sweep.ended.is_set() or sweep.is_active

    def _conflict(self, holder: _Holder) -> Conflict:
        sweep = self._find(holder.sweep_id)
        state = sweep.status if sweep else "about to begin"
        thing = holder.thing
        is_parked = sweep is not None and sweep.state is RunState.PAUSED
        wait = "It does not end by itself:" if is_parked else "Wait for its end, or"
        held = held_by(holder.sweep_id, holder.who, self._clock.monotonic() - holder.since_s)
        return Conflict(
            f"{thing.plan.parameter} of {thing.instrument.called} ({thing.setpoint_query}) is "
            f"{held}, which is {state}.",
            code=ErrorCode.SWEEP_CONFLICT,
            data={"sweep_id": holder.sweep_id, "status": state, "who": holder.who},
            remedy=f"{wait} call stop_sweep with sweep_id {holder.sweep_id!r}, "
            "which makes it safe.",
        )
