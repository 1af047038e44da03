"""The owner's word as it is now, for a write that was judged by what it was before.

The bench file may be written anew while a write waits for the disk, for its turn, for a line that
comes back. What the new one forbids must not go out any more: so what was judged is judged once
more, by the unit's present rules, with the very values and lines that are going out.

Works on the line's thread too: it reads the instrument's present rules and profile, which are only
ever replaced whole, compiles its own checks and shares nothing.
"""

from __future__ import annotations

import dataclasses

from edged.actions.action import Action, Purpose, RunCommand, SendScpi
from edged.auth.permissions import Permissions
from edged.commands.catalog import ProfileChecks
from edged.commands.holds import Hold, hold_denied, hold_unswept
from edged.commands.other_roads import check_other_roads
from edged.commands.raw_policy import check_raw_scpi
from edged.commands.target import Target
from edged.config_keys import RawScpi
from edged.errors import Invalid, Refused
from edged.instruments.instrument import Instrument
from edged.profiles.tighten import tightened

__all__ = ["owner_allows"]


def owner_allows(configured: RawScpi, permissions: Permissions) -> Hold:
    """The hold that judges a write again by what its instrument's owner says now.

    Args:
        configured: RAW_SCPI.
        permissions: who may do what the owner calls dangerous now.
    """

    def hold(action: Action, target: Target) -> None:
        """Raises ``Refused`` or ``Invalid``, as the same call would be refused if it came now."""
        instrument = target.instrument
        if instrument is None:
            return
        try:
            if isinstance(action, SendScpi):
                _judge_line(action, instrument, configured)
            else:
                now = _judge_values(action, target, instrument)
                if now.is_dangerous and not target.is_dangerous:
                    name = target.command_name
                    permissions.authorize_danger(action.caller, name, is_dangerous=True)
        except (Refused, Invalid) as no:
            raise type(no)(
                f"The owner changed what may be done with {instrument.id} while this waited: "
                f"{no.message}",
                code=no.code,
                data=no.data,
                remedy=no.remedy,
            ) from no

    return hold


def _judge_line(action: SendScpi, instrument: Instrument, configured: RawScpi) -> None:
    profile = instrument.profile
    checks = ProfileChecks(profile) if profile is not None else None
    check_raw_scpi(instrument, action.scpi, checks, configured)


def _judge_values(action: Action, target: Target, instrument: Instrument) -> Target:
    """The command or sequence that was judged, under what holds now; also whether it is dangerous.

    That one and not its namesake of today: a run goes on with the profile that it began with.
    """
    now = _tightened(target, instrument)
    hold_denied(action, now)
    hold_unswept(action, now)
    if now.check is not None:
        now.check.validate(target.values)
    if isinstance(action, RunCommand):
        check_other_roads(now, is_ramped=action.purpose is Purpose.SWEEP_STEP)
    return now


def _tightened(target: Target, instrument: Instrument) -> Target:
    """A copy of the target, its command or sequence narrowed by the present rules."""
    profile = instrument.profile or instrument.safe_by
    if profile is None:
        return dataclasses.replace(target)
    commands, sequences = dict(profile.commands), dict(profile.sequences)
    if target.command is not None:
        commands[target.command.name] = target.command
    if target.sequence is not None:
        sequences[target.sequence.name] = target.sequence
    judged = dataclasses.replace(profile, commands=commands, sequences=sequences)
    checks = ProfileChecks(tightened(judged, instrument.rules))
    if target.command is not None:
        command, check = checks.command(target.command.name)
        is_dangerous = target.is_dangerous or command.is_dangerous
        return dataclasses.replace(target, command=command, check=check, is_dangerous=is_dangerous)
    if target.sequence is not None:
        sequence, check = checks.sequence(target.sequence.name)
        is_dangerous = target.is_dangerous or sequence.is_dangerous
        return dataclasses.replace(
            target, sequence=sequence, check=check, is_dangerous=is_dangerous
        )
    return dataclasses.replace(target)
