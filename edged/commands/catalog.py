"""The compiled checks of every instrument's commands and sequences, made once a profile.

An instrument's profile is already tightened by the owner's bench file, so two units of one model
may have different checks; a profile object that is swapped (hot reload) gets new ones.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from edged.errors import ErrorCode, NotFound
from edged.instruments.instrument import Instrument
from edged.profiles.model import Command, Profile, Sequence
from edged.profiles.render import optional_names
from edged.profiles.schema import ParameterCheck, compile_parameters
from edged.profiles.tighten import tightened
from edged.profiles.unit_rules import UnitRules

__all__ = ["Catalog", "ProfileChecks"]


class ProfileChecks:
    """One profile with its checks, each compiled at first use."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._commands: dict[str, ParameterCheck] = {}
        self._sequences: dict[str, ParameterCheck] = {}

    def command(self, name: str) -> tuple[Command, ParameterCheck]:
        """A command and its check.

        Raises:
            NotFound: UNKNOWN_COMMAND, naming the nearest.
        """
        command = self.profile.commands.get(name)
        if command is None:
            raise _unknown("command", name, self.profile, tuple(self.profile.commands))
        check = self._commands.get(name)
        if check is None:
            check = self._commands[name] = compile_parameters(
                f"{self.profile.key}.{name}",
                command.parameters,
                command.checks,
                optional_names(command.scpi),
                encoding=self.profile.connection.encoding,
            )
        return command, check

    def sequence(self, name: str) -> tuple[Sequence, ParameterCheck]:
        """A sequence and its check.

        Raises:
            NotFound: UNKNOWN_SEQUENCE, naming the nearest.
        """
        sequence = self.profile.sequences.get(name)
        if sequence is None:
            raise _unknown("sequence", name, self.profile, tuple(self.profile.sequences))
        check = self._sequences.get(name)
        if check is None:
            check = self._sequences[name] = compile_parameters(
                f"{self.profile.key}.{name}",
                sequence.parameters,
                sequence.checks,
                encoding=self.profile.connection.encoding,
            )
        return sequence, check


class Catalog:
    """The checks of every instrument that has a profile."""

    def __init__(self) -> None:
        self._checks: dict[str, ProfileChecks] = {}
        # Run id → instrument id → what held when the run began; of runs that saw a profile change.
        self._kept: dict[str, Mapping[str, _Kept]] = {}

    def keep_for(self, run_ids: Iterable[str], instruments: Iterable[Instrument]) -> None:
        """Profiles are about to change: these runs go on with what they began with.

        Those of runs that are over by now are forgotten.
        """
        now = {i.id: _Kept(self.of(i), i.rules) for i in instruments if i.profile is not None}
        self._kept = {run_id: self._kept.get(run_id, now) for run_id in run_ids}

    def of(
        self, instrument: Instrument, run_id: str = "", *, ends_work: bool = False
    ) -> ProfileChecks:
        """The checks of one instrument's profile, as it is now or was when a run began.

        What the owner has narrowed since holds for a run as for everybody.

        Args:
            instrument: whose.
            run_id: of the sweep, stream or sequence that asks; empty where none does.
            ends_work: it is what a run does last, to leave things safe; as it was begun.

        Raises:
            NotFound: the instrument has no profile.
        """
        kept = self._kept.get(run_id, {}).get(instrument.id) if run_id else None
        if kept is not None:
            return kept.begun if ends_work else kept.under(instrument.rules)
        profile = instrument.profile
        if profile is None:
            raise NotFound(
                f"{instrument.id} has no profile, so it has no commands. {instrument.remark}",
                code=ErrorCode.UNKNOWN_COMMAND,
                remedy="Use send_scpi, or write a profile for it.",
            )
        checks = self._checks.get(instrument.id)
        if checks is None or checks.profile is not profile:
            checks = self._checks[instrument.id] = ProfileChecks(profile)
        return checks


class _Kept:
    """The checks that a run began with, narrowed by what the owner says now."""

    def __init__(self, begun: ProfileChecks, rules: UnitRules) -> None:
        self.begun = begun
        self._now = begun
        self._rules = rules

    def under(self, rules: UnitRules) -> ProfileChecks:
        """The checks under the rules that hold now; made when those change."""
        if rules is not self._rules:
            if rules != self._rules:
                self._now = ProfileChecks(tightened(self.begun.profile, rules))
            self._rules = rules
        return self._now


def _unknown(kind: str, name: str, profile: Profile, known: tuple[str, ...]) -> NotFound:
    name = name[:100]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    code = ErrorCode.UNKNOWN_COMMAND if kind == "command" else ErrorCode.UNKNOWN_SEQUENCE
    return NotFound(
        f"{profile.key} has no {kind} {name!r}.",
        code=code,
        data={kind: name, "near": near},
        remedy=f"Did you mean {', '.join(near)}?"
        if near
        else "get_capabilities lists what it has.",
    )
