"""The one judge of what may be sent: deny, danger, requires_sweep, limits and raw SCPI.

Every road asks it: a command with typed values, a sequence, a sweep and its measures, a raw line,
and a write that waited while the owner changed the bench file. It judges in steps, as more becomes
known: what is meant (``check_aim``: a raw line is judged whole), by what name (``check_name``), and
the values with the lines that they make (``check_values``). ``check_again`` is all of them at once,
by the rules of now.

What would go out is looked up in the profile message by message, however it is spelled
(``profiles.raw``), and each command that a message may be is judged by the same three rules:
denied, only by a sweep, outside of a limit. Many instruments set one thing in several ways, a
voltage alone or with the current: what the owner limited, denied or marked under one name is not
reached under another, by a typed command no more than by a raw line.

Source: docs/bench-file.md; docs/promises.md sections 4 and 5. What a profile may not even say (a
step of a sequence that requires a sweep) its format refuses when it is loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from edged.actions.action import (
    Action,
    CallWrapper,
    Purpose,
    RunCommand,
    RunSequence,
    SendProgram,
    SendScpi,
    StartStream,
    StartSweep,
)
from edged.actions.caller import Caller
from edged.auth.permissions import Permissions
from edged.commands.approvals import missing_yes
from edged.commands.budgets import counted
from edged.commands.target import ProfileChecks, Target
from edged.commands.telling import outputs_told
from edged.config.keys import RawScpi
from edged.errors import ErrorCode, Invalid, Refused
from edged.instruments.instrument import Instrument
from edged.profiles.arguments import ParameterCheck
from edged.profiles.model import Changes, Command, ParameterType
from edged.profiles.owner_rules import tightened
from edged.profiles.raw import (
    LineClass,
    RawMatch,
    RawPart,
    addresses_another,
    identify,
    in_its_unit,
    judged_parts,
    nearest_commands,
)
from edged.profiles.template import render_lines
from edged.profiles.unit_rules import ASK_THE_OWNER, UnitRules
from edged.profiles.watchdog import disarms
from edged.record import record
from edged.yaml.tree import Scalar

WITH_PARAMETERS: Final = RunCommand | RunSequence | StartStream | CallWrapper


class Policy:
    """Judges actions that have been resolved; see the module's own words.

    Args:
        raw_scpi: RAW_SCPI of the configuration.
        permissions: who may do what is dangerous.
        interlock_of: the name of an interlock that guards something of an instrument, or empty.
    """

    def __init__(
        self,
        raw_scpi: RawScpi,
        permissions: Permissions,
        interlock_of: Callable[[Instrument], str],
    ) -> None:
        self._raw_scpi = raw_scpi
        self._permissions = permissions
        self._interlock_of = interlock_of

    def check_danger(self, caller: Caller, target: Target, *, name: str = "") -> None:
        """Let something dangerous pass only for whom danger is allowed.

        Args:
            name: what to call it where it is no command: the tool.

        Raises:
            Refused: DANGEROUS.
        """
        if target.is_dangerous:
            self._permissions.authorize_danger(caller, target.command_name or name)

    def check_aim(self, action: Action, target: Target) -> None:
        """What can be judged as soon as it is known what is meant: raw lines, and measures.

        Raises:
            Refused, Invalid: see ``check_raw``; or a measure writes, or may only be ramped.
        """
        if isinstance(action, SendScpi):
            self.check_raw(action, target)
        if isinstance(action, StartStream) and target.command is not None:
            _check_measurable(target.command)
        for measure in target.inner:
            if measure.command is not None:
                _check_measurable(measure.command)

    def check_name(self, action: Action, target: Target) -> None:
        """What the owner's bench file denies, and what only a sweep may send.

        Raises:
            Refused: DENIED_BY_OWNER or REQUIRES_SWEEP.
        """
        instrument, command = target.instrument, target.command
        if instrument is not None and instrument.rules.deny:
            name = target.command_name
            if name and name in instrument.rules.deny:
                raise _denied(
                    f"The owner of this bench denies {name} on {instrument.called}.", name
                )
        if command is None:
            return
        if instrument is not None and command.changes is Changes.ANY:
            _check_changes(instrument.rules, command, f"{command.name} of {instrument.called}")
        if not command.requires_sweep:
            return
        if not isinstance(action, StartSweep) and not _is_ramped(action):
            raise _only_by_sweep(
                f"{command.name} may only be ramped, not set at once.",
                command.name,
                f"Call start_sweep with command_name {command.name!r}, target_value and "
                "sweep_rate.",
            )

    def check_raw(self, action: SendScpi, target: Target) -> None:
        """Check a raw line by its class, the owner's bench file, and the profile's limits.

        Raises:
            Refused: RAW_SCPI_RESTRICTED, DENIED_BY_OWNER, REQUIRES_SWEEP or DEAD_MAN.
            Invalid: a value outside of a limit.
        """
        instrument, rules = target.aimed_instrument(), target.aimed_instrument().rules
        profile, checks = instrument.profile, target.profile_checks
        is_imported = profile is not None and profile.is_imported
        # All hold at once: "queries" of the owner's does not undo the "known" of his limits.
        modes = rules.raw_scpi_rules(self._raw_scpi.value, is_imported=is_imported)
        target.is_unlimited = RawScpi.KNOWN not in modes
        judged: list[tuple[object, ...]] = []
        for part in target.parts:
            meaning = (part.kind, part.is_query, part.matches, part.beside)
            if part.kind is LineClass.COMMON or meaning in judged:
                continue
            judged.append(meaning)
            if RawScpi.OFF in modes:
                raise _restricted_by(part, self._ordered(instrument, {RawScpi.OFF}))
            if part.is_unknown:
                self._check_unknown(part, instrument, modes)
            elif RawScpi.QUERIES in modes and not part.is_harmless:
                raise _restricted_by(part, self._ordered(instrument, {RawScpi.QUERIES}))
            if checks is not None:
                _check_message(_Raw(rules, part, checks, is_known=RawScpi.KNOWN in modes), part)
                if isinstance(action, SendProgram) and not part.is_harmless:
                    _check_held(part, checks)
        _check_addressed(instrument, action.scpi)
        if rules.dead_man_s is not None or instrument.timer is not None:
            # The whole line: a header may continue the one before it.
            _check_dead_man(instrument, action.scpi, action.scpi)

    def _check_unknown(self, part: RawPart, instrument: Instrument, modes: Collection[str]) -> None:
        """Refuse an unknown part on every unit that a rule or an interlock restricts.

        Raises:
            Refused: RAW_SCPI_RESTRICTED, naming the rule and the nearest commands.
        """
        profile = instrument.profile
        rules = list(instrument.rules.restrictions)
        if interlock := self._interlock_of(instrument):
            rules.append(f"the interlock {interlock}")
        said = [f"the owner has set {' and '.join(rules)} for {instrument.called}"] if rules else []
        ordered = self._ordered(instrument, modes)
        rules += ordered
        said += ordered.values()
        if profile is not None and profile.is_imported:
            rules.append("imported")
            said.append(f"the profile {profile.key} is imported and nobody has reviewed it")
        if not rules:
            return
        whose = f"no command of {profile.key}" if profile is not None else "it has no profile"
        near = nearest_commands(profile, part) if profile is not None else ()
        named = f"The nearest commands are {', '.join(near)}. " if near else ""
        raise Refused(
            f"{part.text[:80]!r} was not sent: {whose}, so it may do anything, and "
            f"{' and '.join(said)}.",
            code=ErrorCode.RAW_SCPI_RESTRICTED,
            data={"rule": rules, "nearest": list(near)},
            remedy=f"{named}get_capabilities lists all. A line that is harmless can be listed by "
            "the owner under allow_raw in the bench file.",
        )

    def _ordered(self, instrument: Instrument, modes: Collection[str]) -> dict[str, str]:
        """Which of these modes of raw SCPI somebody set for a unit: as it is written → in words."""
        keys = (
            ("RAW_SCPI", self._raw_scpi.value, "in the configuration of the engine"),
            ("raw_scpi", instrument.rules.raw_scpi, f"for {instrument.called} in the bench file"),
        )
        return {
            f"{key}: {mode}": f"{key} is {mode} {where}"
            for key, mode, where in keys
            if mode in modes and mode != RawScpi.ALL
        }

    def check_values(self, action: Action, target: Target) -> Target:
        """The parameters within their limits, and what the lines that they make are besides.

        Returns:
            The target with ``values`` and ``lines``, and dangerous where what it sends is.

        Raises:
            Invalid: a parameter that is missing, unknown or outside of its limits; or a value
                outside of those of another command that sends the same, or not to be judged by
                them.
            Refused: the owner's word about another command holds for what this one sends; or it
                is dangerous by that, and the caller may not.
        """
        if isinstance(action, StartSweep):
            return _with_swept_value(action, target)
        if target.check is None or not isinstance(action, WITH_PARAMETERS):
            return target
        # The target is this action's own: one with a check is made anew for each.
        target.values = target.check.validate(action.parameters)
        target.lines = render_lines(target.command, target.values) if target.command else ()
        if isinstance(action, RunCommand) and action.purpose is not Purpose.FINALLY_STEP:
            was_dangerous = target.is_dangerous
            _check_typed_dead_man(target)
            _check_equivalents(action, target)
            if target.is_dangerous and not was_dangerous:
                self.check_danger(action.caller, target)
        return target

    def check_again(self, action: Action, target: Target) -> None:
        """Judge a write once more, by what its instrument's owner says now.

        The bench file may be written anew while a write waits for the disk, for its turn, for a
        line that comes back. What the new one forbids must not go out any more: so what was judged
        is judged once more, by the unit's present rules, with the very values and lines that are
        going out. Works on the line's thread too: it reads the instrument's present rules and
        profile, which are only ever replaced whole, compiles its own checks and shares nothing.

        Raises:
            Refused, Invalid: as the same call would be refused if it came now.
        """
        instrument = target.instrument
        if instrument is None:
            return
        try:
            if isinstance(action, SendScpi):
                self._check_raw_again(action, instrument)
            else:
                now = _as_of_now(target, instrument)
                self.check_name(action, now)
                if now.check is not None:
                    now.check.validate(target.values)
                if isinstance(action, RunCommand):
                    _check_typed_dead_man(now)
                    _check_equivalents(action, now)
                if now.is_dangerous and not target.is_dangerous:
                    self.check_danger(action.caller, now)
                _check_approved(action, dataclasses.replace(now, lines=target.lines))
            _check_covered(action, target, instrument)
        except (Refused, Invalid) as no:
            raise type(no)(
                f"The owner changed what may be done with {instrument.called} while this waited: "
                f"{no.message}",
                code=no.code,
                data=no.data,
                remedy=no.remedy,
            ) from no

    def _check_raw_again(self, action: SendScpi, instrument: Instrument) -> None:
        profile = instrument.profile
        checks = ProfileChecks(profile) if profile is not None else None
        parts = judged_parts(profile, action.scpi, instrument.rules.allow_raw)
        now = Target(instrument=instrument, parts=parts, profile_checks=checks, is_write=True)
        self.check_raw(action, now)
        matches = [match for part in parts for match in part.matches]
        now.is_dangerous = now.is_unknown or any(m.command.is_dangerous for m in matches)
        self.check_danger(action.caller, now, name=action.tool)
        _check_approved(action, dataclasses.replace(now, lines=(action.scpi.strip(),)))


def beyond_profile(part: RawPart, rules: UnitRules, checks: ProfileChecks) -> str:
    """Why the profile would not let a message pass that no limit is held to; empty: it would."""
    try:
        _check_message(_Raw(rules, part, checks, is_known=True), part)
    except (Invalid, Refused) as no:
        return no.message
    return ""


def _check_covered(action: Action, target: Target, instrument: Instrument) -> None:
    """Whether a write has what the guards of its unit give at its beginning, by the rules of now.

    Raises:
        Refused: BUDGET, it took no share; or DEAD_MAN, no timer is set going before it.
    """
    counts = counted(action, target)
    if len(target.share) < sum(counts.values()):
        raise Refused(
            f"It counts for the budget of {', '.join(counts)}, and has taken nothing of that.",
            code=ErrorCode.BUDGET,
            data={"command": next(iter(counts))},
            remedy="Call it again.",
        )
    needs_timer = instrument.rules.dead_man_s is not None and target.timer is None
    if needs_timer and outputs_told(action, target, instrument):
        raise Refused(
            "It may switch an output on, and its dead-man is not set going before it.",
            code=ErrorCode.DEAD_MAN,
            data={"dead_man_s": instrument.rules.dead_man_s},
            remedy="Call it again.",
        )


def _check_approved(action: Action, target: Target) -> None:
    """Whether a person has said yes, where the owner wants to be asked by now."""
    needed = missing_yes(action, target)
    if needed is not None:
        raise needed


def _check_measurable(command: Command) -> None:
    """Let pass what a stream or a sweep's ``measure`` may ask over and over.

    Raises:
        Invalid: it writes, or may only be ramped.
    """
    data = {"parameter": "command_name", "value": command.name}
    if command.requires_sweep:
        raise Invalid(
            f"{command.name} may only be ramped, never measured.",
            data=data,
            remedy="Call start_sweep to ramp it; measure with a query.",
        )
    if not command.is_query:
        raise Invalid(
            f"{command.name} is not a query, so there is nothing to measure.",
            data=data,
            remedy="get_capabilities says which commands have is_query; set values by "
            "execute_command.",
        )


# One message, by whichever road it comes


@record(kw_only=False)
class _Typed:
    """The lines of a command with its values: only the owner's word about others counts."""

    rules: UnitRules
    command: Command
    values: Mapping[str, Scalar]
    is_ramped: bool

    def denied(self, other: str) -> str:
        return f"{self.command.name} does what {other} does"

    def only_by_sweep(self, other: str) -> Refused:
        return _only_by_sweep(
            f"{self.command.name} sets what {other} sets, which may only be ramped here.",
            other,
            f"Call start_sweep with command_name {other!r}.",
        )

    def has_a_free_sender(self, _matches: tuple[RawMatch, ...]) -> bool:
        """It is what sends it, and ``check_name`` has let it pass."""
        return True

    def check_limits(self, match: RawMatch) -> None:
        for name in self.rules.limits.get(match.command.name, {}):
            self.check_limit(match, name)

    def check_limit(self, match: RawMatch, name: str) -> None:
        """Every value that one limited parameter may have."""
        for value in _values(match, name, self.values):
            _check_value(self.command.name, self.rules, match.command, name, value)


@record(kw_only=False)
class _Raw:
    """One message of a raw line: everything that it may be counts."""

    rules: UnitRules
    part: RawPart
    checks: ProfileChecks
    is_known: bool
    is_ramped: bool = False

    def denied(self, other: str) -> str:
        return f"{self.part.text!r} is {other}"

    def only_by_sweep(self, other: str) -> Refused:
        return _only_by_sweep(
            f"{self.part.text!r} is {other}, which may only be ramped.",
            other,
            f"Use start_sweep with command_name {other!r}.",
        )

    def has_a_free_sender(self, matches: tuple[RawMatch, ...]) -> bool:
        """Whether it certainly is what a command sends that need not be ramped."""
        return any(self._may_send(match) for match in matches)

    def _may_send(self, match: RawMatch) -> bool:
        if match.command.requires_sweep or not match.is_certain:
            return False
        _, check = self.checks.command(match.command.name)
        try:
            for values in match.readings:
                check.validate(values)
        except Invalid:
            return False
        return True

    def check_limits(self, match: RawMatch) -> None:
        """Every value that it may carry, of a command that the owner limited or where all count."""
        name, text = match.command.name, self.part.text
        if not self.is_known and name not in self.rules.limits:
            return
        if not match.is_certain:
            why = f"its value cannot be judged against {name}'s limits"
            raise _restricted(text, why, ["limits"])
        _, check = self.checks.command(name)
        for values in match.readings:
            check.validate(values)
        for values in match.unitless:
            try:
                check.validate(values)
            except Invalid as error:
                raise Invalid(
                    f"{text!r} is within its limits only with its unit, which some instruments "
                    f"ignore: {error.message}",
                    code=error.code,
                    data=error.data,
                    remedy="Write the number in the base unit, without a suffix.",
                ) from error

    def check_limit(self, match: RawMatch, name: str) -> None:
        """Every value that one limited parameter may have, with its unit and without."""
        for values in (*match.readings, *match.unitless):
            _check_value(repr(self.part.text), self.rules, match.command, name, values.get(name))


def _check_message(road: _Typed | _Raw, part: RawPart) -> None:
    """Every command that a message may be, with every value it may carry, must be allowed."""
    for match in part.matches:
        name = match.command.name
        if name in road.rules.deny:
            raise _denied(f"{road.denied(name)}, which the owner of this bench denies.", name)
        if match.changes is not None:
            _check_changes(road.rules, match.command, f"{road.denied(name)}, which")
    if not part.is_harmless and not road.is_ramped:
        _check_ramped(road, part)
    for match in part.matches:
        road.check_limits(match)
    for match in part.beside:
        # In the order of the bench file: which limit a refusal names is the same in each process.
        for name in road.rules.limits.get(match.command.name, ()):
            if name in match.holes:
                road.check_limit(match, name)


def _check_changes(rules: UnitRules, command: Command, called: str) -> None:
    """No command loads values that nobody typed past what the owner restricts.

    Raises:
        Refused: DENIED_BY_OWNER.
    """
    keys = rules.keys_against(command)
    if keys:
        raise Refused(
            f"{called} can load values that nobody typed, and the owner of this bench restricts "
            f"what is set by {', '.join(keys)}. Nothing was sent.",
            code=ErrorCode.DENIED_BY_OWNER,
            data={"command": command.name, "changes": command.changes, "restricted_by": keys},
            remedy="Set the values by the commands that name them. The owner allows it with "
            f"allow_changes: [{command.name}] in the unit's entry of the bench file.",
        )


def _check_held(part: RawPart, checks: ProfileChecks) -> None:
    """A program's line within the profile's own bounds, as far as it says how much of something.

    It may be one of several commands, and a value may not stand in it (the channel that was chosen
    before): what one of them allows passes, for the instrument's own ratings tell them apart. What
    its owner limited must hold for all, and is judged besides.

    Raises:
        Invalid: it is outside of all bounds that it may be held to.
        Refused: RAW_SCPI_RESTRICTED, nobody can read how much it would set (``VOLT MAX``).
    """
    outside: Invalid | Refused | None = None
    for match in part.matches:
        bounded = match.holes & _amounts(match.command)
        try:
            if bounded & match.unknown:
                name = match.command.name
                why = f"its value cannot be judged against {name}'s limits"
                raise _restricted(part.text, why, ["limits"])
            if bounded and match.is_certain:
                _, check = checks.command(match.command.name)
                _check_any(check, match.readings)
        except (Invalid, Refused) as no:
            outside = outside or no
        else:
            if bounded:
                return
    if outside is not None:
        raise outside


def _check_any(check: ParameterCheck, readings: Sequence[Mapping[str, Scalar]]) -> None:
    """Raise ``Invalid`` where none of the values that it may carry is within the bounds."""
    outside: Invalid | None = None
    for values in readings:
        try:
            check.validate(values)
        except Invalid as error:
            outside = outside or error
        else:
            return
    if outside is not None:
        raise outside


def _amounts(command: Command) -> frozenset[str]:
    """The parameters that say how much of something, and how far they may go."""
    return frozenset(
        name
        for name, parameter in command.parameters.items()
        if parameter.type is ParameterType.FLOAT
        and (parameter.min is not None or parameter.max is not None)
    )


def _check_ramped(road: _Typed | _Raw, part: RawPart) -> None:
    """The profile's requires_sweep binds its command, the owner's all that send the line."""
    swept = (m for m in part.beside if m.command.sweep and m.command.sweep.parameter in m.holes)
    sent = [match.command.name for match in (*part.matches, *swept)]
    bound = [match.command.name for match in part.matches if match.command.requires_sweep]
    by_owner = [name for name in sent if name in road.rules.requires_sweep]
    if by_owner or (bound and not road.has_a_free_sender(part.matches)):
        raise road.only_by_sweep((by_owner or bound)[0])


def _check_equivalents(action: Action, target: Target) -> None:
    """What the owner's word about other commands says of what a typed command sends.

    Costs a fraction of a millisecond, and only on a unit about which the bench file says something.
    """
    instrument, command = target.instrument, target.command
    if instrument is None or instrument.profile is None or not instrument.rules.key:
        return
    if command is None or not command.is_write or command.is_safe:
        return
    rules = instrument.rules
    spoken_of = {*rules.limits, *rules.deny, *rules.is_dangerous, *rules.requires_sweep}
    spoken_of |= {
        other.name for other in instrument.profile.commands.values() if rules.keys_against(other)
    }
    others = spoken_of - {command.name}
    if not others:
        return
    road = _Typed(rules, command, target.values, _is_ramped(action))
    for template, line in zip(command.scpi, target.lines, strict=True):
        for sent in identify(instrument.profile, line):
            part = in_its_unit(sent, command, template)
            matches, beside = (
                tuple(match for match in found if match.command.name in others)
                for found in (part.matches, part.beside)
            )
            _check_message(road, dataclasses.replace(part, matches=matches, beside=beside))
            is_marked = any(match.command.name in rules.is_dangerous for match in matches)
            target.is_dangerous = target.is_dangerous or is_marked


def _values(match: RawMatch, name: str, known: Mapping[str, Scalar]) -> Iterator[Scalar | None]:
    """What the parameter may be: every reading that agrees with the values that were given."""
    agreeing = [
        reading
        for reading in match.readings
        if all(known.get(other, value) == value for other, value in reading.items())
    ]
    for reading in agreeing or match.readings:
        yield None if name in match.unknown else reading.get(name)


def _check_value(
    called: str, rules: UnitRules, limited: Command, name: str, value: Scalar | None
) -> None:
    bound, unit = rules.limits[limited.name][name], limited.parameters[name].unit
    words = f"the limits that the owner set for {limited.name}.{name}"
    data = {"parameter": name, "value": value}
    if value is None:
        raise Invalid(f"What {called} sends cannot be judged by {words}.", data=data)
    if bound.options is not None and value not in bound.options:
        options = ", ".join(bound.options)
        raise Invalid(f"{called}: {value!r} is outside of {words}: {options}.", data=data)
    if isinstance(value, str):
        return
    for key, limit, is_outside in (
        ("maximum", bound.max, bound.max is not None and value > bound.max),
        ("minimum", bound.min, bound.min is not None and value < bound.min),
    ):
        if is_outside:
            raise Invalid(
                f"{called}: {value:g} {unit} is outside of {words}: the {key} is "
                f"{limit:g} {unit}.".replace(" .", ".").replace("  ", " "),
                data={**data, key: limit, "unit": unit},
            )


def _with_swept_value(action: StartSweep, target: Target) -> Target:
    """A sweep's parameters with the target in its place, and those of each measure."""
    sweep = target.command.sweep if target.command else None
    if target.check is None or sweep is None:
        return target
    if action.parameters.get(sweep.parameter) is not None:
        raise Invalid(
            f"{sweep.parameter} is what is swept: it is given as target_value, not in parameters.",
            data={"parameter": sweep.parameter},
        )
    wanted = {**action.parameters, sweep.parameter: action.arguments.get("target_value")}
    measures = [
        dataclasses.replace(inner, values=inner.check.validate(inner.values))
        for inner in target.inner
        if inner.check is not None
    ]
    return dataclasses.replace(target, values=target.check.validate(wanted), inner=tuple(measures))


def _as_of_now(target: Target, instrument: Instrument) -> Target:
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


def _is_ramped(action: Action) -> bool:
    """It is a step of a sweep that was judged as one."""
    return isinstance(action, RunCommand) and action.is_ramp_step


def _check_typed_dead_man(target: Target) -> None:
    """The same of a command; one that makes safe is held back where it would clear a trip."""
    instrument = target.instrument
    if instrument is None or (instrument.rules.dead_man_s is None and instrument.timer is None):
        return
    if target.is_safe and not (instrument.timer is not None and instrument.timer.is_tripped):
        return
    for line in target.lines:
        # It switches all outputs off, and whatever switches one on sets the timer going anew.
        if line.strip().upper() != "*RST":
            _check_dead_man(instrument, line, target.command_name)


def _check_dead_man(instrument: Instrument, line: str, called: str) -> None:
    """Let pass what leaves the timer in the instrument as the daemon has set it going.

    Raises:
        Refused: DEAD_MAN.
    """
    profile = instrument.profile or instrument.safe_by
    if profile is None:
        return
    matches = (match for part in identify(profile, line) for match in part.matches)
    if not disarms(profile, line) and all(match.changes is not Changes.ANY for match in matches):
        return
    raise Refused(
        f"{called[:200]!r} was not sent: it would stop, change or clear the dead-man of "
        f"{instrument.called}, which its owner wants used.",
        code=ErrorCode.DEAD_MAN,
        data={"line": line[:200], "dead_man_s": instrument.rules.dead_man_s},
        remedy="Once it has switched off, a person clears it at the instrument. Without "
        "dead_man_s in the bench file everybody may do that.",
    )


def _check_addressed(instrument: Instrument, line: str) -> None:
    """Refuse a line for another unit of the same port: that has rules and a lease of its own.

    Raises:
        Refused: RAW_SCPI_RESTRICTED.
    """
    other = "" if instrument.profile is None else addresses_another(instrument.profile, line)
    if other:
        raise Refused(
            f"{other[:80]!r} was not sent: it may be for another unit of the port that "
            f"{instrument.called} shares.",
            code=ErrorCode.RAW_SCPI_RESTRICTED,
            data={"rule": ["shared"]},
            remedy="Name the other unit as the instrument; edged addresses it by itself.",
        )


def _denied(message: str, name: str) -> Refused:
    return Refused(
        message,
        code=ErrorCode.DENIED_BY_OWNER,
        data={"command": name},
        remedy=ASK_THE_OWNER,
    )


def _only_by_sweep(message: str, name: str, remedy: str) -> Refused:
    return Refused(message, code=ErrorCode.REQUIRES_SWEEP, data={"command": name}, remedy=remedy)


def _restricted_by(part: RawPart, ordered: Mapping[str, str]) -> Refused:
    acts = ""
    if part.command is not None and part.command.is_write and part.is_query:
        acts = f"{part.command.name} does more than ask, and "
    return _restricted(part.text, f"{acts}{' and '.join(ordered.values())}", list(ordered))


def _restricted(what: str, why: str, rule: Sequence[str]) -> Refused:
    return Refused(
        f"{what!r} was not sent, because {why}.",
        code=ErrorCode.RAW_SCPI_RESTRICTED,
        data={"rule": rule},
        remedy="Use execute_command; get_capabilities lists the commands.",
    )
