"""What an action is aimed at, once its names have been looked up.

The compiled checks of every instrument's commands and sequences, made once a profile.

An instrument's profile is already tightened by the owner's bench file, so two units of one model
may have different checks; a profile object that is swapped (hot reload) gets new ones.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from edged.actions.action import Action
from edged.clock import Clock
from edged.errors import ErrorCode, Fault, NotFound
from edged.instruments.conversation import Ask
from edged.instruments.dead_man import Timer
from edged.instruments.instrument import Instrument
from edged.profiles.arguments import ParameterCheck, compile_parameters
from edged.profiles.model import Command, Profile, Sequence
from edged.profiles.owner_rules import tightened
from edged.profiles.raw import LineClass, RawMatch, RawPart, identify, in_its_unit
from edged.profiles.template import optional_names
from edged.profiles.unit_rules import UnitRules
from edged.record import record
from edged.runs.units import unit_of_instrument
from edged.sdk.specs import WrapperSpec
from edged.sharing.leases import Moment
from edged.store.audit.chain import RepeatedRow
from edged.store.audit.row import Entry
from edged.yaml.tree import Scalar

SendGuard = Callable[[], None]
"""Raises ``EdgedError`` if a write that was judged must not be sent any more; from any thread."""
HavingIt = Callable[[str], tuple[str, ...]]
"""The name of a command → what the instruments are called that have it."""
MOST_NAMED: Final = 12


@record(frozen=False)
class Target:
    """The thing behind the names of an action. Made for every one, so not frozen.

    Attributes:
        is_dangerous: it, or something inside it, is marked dangerous (raw SCPI always is).
        is_write: bytes may go out that change something, so the intent is recorded first.
        is_safe: it makes things safe; nothing holds it back.
        is_let_through: raw, and yet it only reads or makes safe: a lockout does not hold it back.
        is_one_command: raw, and one command of the profile at most: it is known what answers it.
        is_unlimited: raw, and the limits of the profile do not hold for it, as RAW_SCPI stands.
        check: of the command's or sequence's own parameters.
        values: the parameters after ``check``, defaults filled in.
        lines: the SCPI that will be sent, where it is known beforehand.
        parts: raw, and what each of its messages is in ``profile_checks``' profile.
        profile_checks: raw, and what it is judged by; ``None`` where there is no profile.
        spec: one tool of an SDK wrapper, where that is what was called.
        inner: what else it will run, chosen by the caller: a sweep's measures.
        send_guard: asked before each line of a write goes out.
        share: what it has taken of its owner's budgets.
        planned: the row of its run's envelope that it is counted in.
        timer: what has to run in the instrument before the first of them does.
        judged_at: what ``RULES`` was when a call was judged that may come again.
        row: what the audit log says of such a query that was answered, but for time and action.
        limits_s: what its job may take in all, and by itself.
        ask: all that its job says, where that is one question.
        teaches: its answer may change what is known of settings.
        told: the outputs that it tells to put something out, by which profile and lines.
        intent: what the audit log says of it before it is sent.
    """

    instrument: Instrument | None = None
    command: Command | None = None
    sequence: Sequence | None = None
    is_dangerous: bool = False
    is_write: bool = False
    is_safe: bool = False
    is_let_through: bool = False
    is_one_command: bool = False
    is_unlimited: bool = False
    check: ParameterCheck | None = None
    values: Mapping[str, Scalar] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    parts: tuple[RawPart, ...] = ()
    profile_checks: ProfileChecks | None = None
    spec: WrapperSpec | None = None
    inner: tuple[Target, ...] = ()
    send_guard: SendGuard | None = None
    share: tuple[int, ...] = ()
    planned: int | None = None
    timer: Timer | None = None
    judged_at: str | None = None
    row: RepeatedRow | None = None
    limits_s: tuple[float, float] | None = None
    ask: Ask | None = None
    teaches: bool = True
    told: tuple[Profile | None, tuple[str, ...], frozenset[str]] | None = None
    intent: Entry | None = None

    def of_another_call(self) -> Target:
        """What was judged of a command's write, for a call in the same words."""
        return Target(
            instrument=self.instrument,
            command=self.command,
            is_dangerous=self.is_dangerous,
            is_write=self.is_write,
            check=self.check,
            values=self.values,
            lines=self.lines,
            told=self.told,
        )

    @property
    def is_aimed(self) -> bool:
        """There is something that it could be held back from: an instrument, or a wrapper."""
        return self.instrument is not None or self.spec is not None

    @property
    def instrument_id(self) -> str:
        """The instrument's or wrapper's id, or empty."""
        if self.instrument:
            return self.instrument.id
        return self.spec.wrapper_id if self.spec else ""

    @property
    def unit_key(self) -> str:
        """The physical unit that is meant, whatever it is called; of a wrapper its id."""
        return unit_of_instrument(self.instrument).key if self.instrument else self.instrument_id

    @property
    def called(self) -> str:
        """What people call the instrument or wrapper."""
        return self.instrument.called if self.instrument else self.instrument_id

    @property
    def command_name(self) -> str:
        """The command's, wrapper tool's or sequence's name, or empty."""
        if self.command:
            return self.command.name
        if self.spec:
            return self.spec.name
        return self.sequence.name if self.sequence else ""

    @property
    def is_unknown(self) -> bool:
        """It is a raw line that may do anything."""
        return any(part.is_unknown for part in self.parts)

    @property
    def is_reading(self) -> bool:
        """It is a raw line, each message of which is common or only asks."""
        return all(part.kind is LineClass.COMMON or part.is_harmless for part in self.parts)

    @property
    def clears_status(self) -> bool:
        """It clears a queue that somebody else may want to read: ``*CLS``."""
        return any(part.kind is LineClass.COMMON and not part.is_query for part in self.parts)

    def aimed_instrument(self) -> Instrument:
        """The instrument; resolving has put one there for every action that needs one."""
        if self.instrument is None:
            raise Fault("An action reached its executor without an instrument.")
        return self.instrument

    def aimed_command(self) -> tuple[Instrument, Command]:
        """The instrument and the command."""
        if self.command is None:
            raise Fault("An action reached its executor without a command.")
        return self.instrument or self.aimed_instrument(), self.command

    def aimed_spec(self) -> WrapperSpec:
        """The tool of an SDK wrapper."""
        if self.spec is None:
            raise Fault("An action reached its executor without a wrapper's tool.")
        return self.spec

    def aimed_sequence(self) -> Sequence:
        """The sequence."""
        if self.sequence is None:
            raise Fault("An action reached its executor without a sequence.")
        return self.sequence


Precondition = Callable[[Action, Target], object]
"""Raises ``EdgedError`` if something stands in the way of an action just now, or lets it pass."""


@record(kw_only=False)
class CompiledChecks:
    """What has been compiled of a profile's commands and sequences, by their names."""

    commands: dict[str, ParameterCheck] = field(default_factory=dict)
    sequences: dict[str, ParameterCheck] = field(default_factory=dict)


class ProfileChecks:
    """One profile with its checks, each compiled at first use.

    Args:
        beside: of other instruments. Those of one model under the same limits have the very same
            commands, however they are connected, and share what is compiled of them: it is ten
            times as large as what says which instrument a tool works.
    """

    def __init__(self, profile: Profile, beside: Iterable[ProfileChecks] = ()) -> None:
        self.profile = profile
        alike = (other.compiled for other in beside if _is_checked_alike(other.profile, profile))
        self.compiled: CompiledChecks = next(alike, None) or CompiledChecks()

    def command(self, name: str, others: HavingIt | None = None) -> tuple[Command, ParameterCheck]:
        """A command and its check.

        Args:
            others: gives the other instruments that have a command of that name.

        Raises:
            NotFound: UNKNOWN_COMMAND, naming who has it, or the nearest.
        """
        command = self.profile.commands.get(name)
        if command is None:
            raise _unknown_command(name, self.profile, others)
        check = self.compiled.commands.get(name)
        if check is None:
            check = self.compiled.commands[name] = compile_parameters(
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
            NotFound: UNKNOWN_SEQUENCE, naming those that there are.
        """
        sequence = self.profile.sequences.get(name)
        if sequence is None:
            raise _unknown_sequence(name, self.profile)
        check = self.compiled.sequences.get(name)
        if check is None:
            check = self.compiled.sequences[name] = compile_parameters(
                f"{self.profile.key}.{name}",
                sequence.parameters,
                sequence.checks,
                encoding=self.profile.connection.encoding,
            )
        return sequence, check


def _is_checked_alike(one: Profile, other: Profile) -> bool:
    """All that a check is compiled of is the same."""
    return (
        one.commands is other.commands
        and one.sequences is other.sequences
        and one.key == other.key
        and one.connection.encoding == other.connection.encoding
    )


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
                f"{instrument.called} has no profile, so it has no commands. {instrument.remark}",
                code=ErrorCode.UNKNOWN_COMMAND,
                remedy="Use send_scpi, or write a profile for it.",
            )
        checks = self._checks.get(instrument.id)
        if checks is None or checks.profile is not profile:
            checks = self._checks[instrument.id] = ProfileChecks(profile, self._checks.values())
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


def _unknown_command(name: str, profile: Profile, others: HavingIt | None) -> NotFound:
    shown = name[:100]
    near: list[str] = []
    if name in profile.sequences:
        remedy = f"{shown} is a sequence: execute_sequence runs it."
    elif others is not None and (having := others(name)):
        remedy = f"{_listed(having)} {'have' if len(having) > 1 else 'has'} it."
    elif near := difflib.get_close_matches(shown.lower(), profile.commands, n=3, cutoff=0.6):
        remedy = f"Did you mean {', '.join(near)}?"
    else:
        remedy = "get_capabilities lists what it has."
    return NotFound(
        f"{profile.key} has no command {shown!r}.",
        code=ErrorCode.UNKNOWN_COMMAND,
        data={"command": shown, "near": near},
        remedy=remedy,
    )


def _unknown_sequence(name: str, profile: Profile) -> NotFound:
    shown = name[:100]
    if name in profile.commands:
        remedy = f"{shown} is a command: execute_command runs it."
    else:
        listed = list(profile.sequences)[:MOST_NAMED]
        remedy = f"Its sequences: {', '.join(listed)}." if listed else "It has no sequences."
    return NotFound(
        f"{profile.key} has no sequence {shown!r}.",
        code=ErrorCode.UNKNOWN_SEQUENCE,
        data={
            "sequence": shown,
            "near": difflib.get_close_matches(shown, profile.sequences, n=3, cutoff=0.6),
        },
        remedy=remedy,
    )


def _listed(names: tuple[str, ...]) -> str:
    """Such as: psu1, smu1 and dmm1."""
    *most, last = names[:MOST_NAMED]
    return f"{', '.join(most)} and {last}" if most else last


def moment(clock: Clock) -> Moment:
    """The time at which a guard decides."""
    return Moment(clock.monotonic(), clock.wall_ms())


def matches_of(target: Target, instrument: Instrument) -> Iterator[tuple[RawMatch, ...]]:
    """The commands that each message that goes out may be."""
    return (part.matches for part in sent_parts(target, instrument))


def sent_parts(target: Target, instrument: Instrument) -> Iterator[RawPart]:
    """Each message that goes out, with the commands that it may be."""
    command = target.command
    if command is None or instrument.profile is None:
        yield from target.parts
        return
    for template, line in zip(command.scpi, target.lines, strict=False):
        for part in identify(instrument.profile, line):
            yield in_its_unit(part, command, template)
