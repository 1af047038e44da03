"""What raw SCPI may be sent: RAW_SCPI, the owner's bench file, and the profile's own limits.

A raw line is taken apart and each part is looked up in the profile (``profiles.raw``), so that
whatever the owner limited is limited on this road too, however it is spelled.

Source: docs/bench-file.md; docs/promises.md sections 4 and 5.

The owner's word about one command, held for every command of the profile that sends the same.

Many instruments set one thing in several ways: a voltage alone, or with the current. What the owner
limited, denied or marked under one name must not be reached under another, so the lines of a
command that writes are looked up like raw SCPI. Costs a fraction of a millisecond, and only on a
unit about which the bench file says something.

Source: docs/promises.md section 5; docs/bench-file.md.

The owner's word as it is now, for a write that was judged by what it was before.

The bench file may be written anew while a write waits for the disk, for its turn, for a line that
comes back. What the new one forbids must not go out any more: so what was judged is judged once
more, by the unit's present rules, with the very values and lines that are going out.

Works on the line's thread too: it reads the instrument's present rules and profile, which are only
ever replaced whole, compiles its own checks and shares nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from edged.actions.action import Action, Purpose, RunCommand, SendScpi
from edged.auth.permissions import Permissions
from edged.commands.holds import Hold, hold_denied, hold_unswept
from edged.commands.target import ProfileChecks, Target
from edged.config.keys import RawScpi
from edged.errors import ErrorCode, Invalid, Refused
from edged.instruments.instrument import Instrument
from edged.profiles.model import Bound, Command, Scalar
from edged.profiles.owner_rules import ASK_THE_OWNER, UnitRules, tightened
from edged.profiles.raw import (
    RawMatch,
    RawPart,
    classify,
    identify,
    means_another_unit,
    split_compound,
)

__all__ = [
    "MAX_LINE",
    "check_other_roads",
    "check_raw_scpi",
    "is_one_command",
    "only_reads_or_makes_safe",
    "owner_allows",
]

MAX_LINE: Final = 4096
"""Characters of one raw line; real instruments take a few hundred."""
COMMON_READS: Final = frozenset({"*IDN?", "*STB?", "*ESR?", "*ESE?", "*SRE?", "*OPC?", "*OPT?"})
"""IEEE 488.2's questions that change nothing but what has been read."""


def check_raw_scpi(
    instrument: Instrument, line: str, checks: ProfileChecks | None, configured: RawScpi
) -> tuple[RawPart, ...]:
    """Let a raw line pass, and say which profile commands it is.

    Args:
        instrument: where it is to go.
        line: what somebody wants to send.
        checks: of the profile that it is to be judged by; ``None`` where there is none.
        configured: RAW_SCPI.

    Raises:
        Invalid: BAD_SCPI, a line that is empty, too long, or holds a line end or control character.
        Refused: RAW_SCPI_RESTRICTED, DENIED_BY_OWNER or REQUIRES_SWEEP.
        Invalid: a value outside of a limit.
    """
    _check_text(line)
    # All of them hold at once: "queries" of the owner's does not undo the "known" of his limits.
    modes = instrument.rules.raw_scpi_rules(configured.value)
    if RawScpi.OFF in modes:
        raise _restricted(line, "raw SCPI is switched off here")
    if checks is None:
        if RawScpi.KNOWN in modes:
            raise _restricted(line, "only known raw SCPI may be sent, and it has no profile")
        if RawScpi.QUERIES in modes and not classify(line).is_only_queries:
            raise _restricted(line, "only queries may be sent raw")
        return ()
    parts = identify(checks.profile, line)
    for part in parts:
        _check_part(instrument, part, checks, modes)
    return parts


def only_reads_or_makes_safe(line: str, parts: tuple[RawPart, ...]) -> bool:
    """Whether a raw line certainly changes nothing, or makes safe.

    A ``?`` alone is no proof: there are questions that switch an output on.

    Args:
        parts: what the profile knows it as; none where there is no profile.
    """
    if not parts:
        texts = split_compound(line)
        return bool(texts) and all(_is_common_read(text) for text in texts)
    return all(_is_common_read(p.text) or _is_known_harmless(p) for p in parts)


def is_one_command(line: str, parts: tuple[RawPart, ...], error_query: str) -> bool:
    """Whether it is known by how many lines a raw line is answered: it is one known command.

    Args:
        parts: as for ``only_reads_or_makes_safe``.
        error_query: what the instrument's errors are asked by; empty where they are not.
    """
    texts = [part.text for part in parts] or split_compound(line)
    if len(texts) != 1:
        return False
    text = texts[0].upper()
    if text in COMMON_READS or text.lstrip(":") == error_query.upper().lstrip(":"):
        return True
    return any(match.command.is_query == part.is_query for part in parts for match in part.matches)


def _is_common_read(text: str) -> bool:
    return text.upper() in COMMON_READS


def _is_known_harmless(part: RawPart) -> bool:
    commands = [match.command for match in part.matches]
    if part.is_query:
        return bool(commands) and not any(command.is_dangerous for command in commands)
    return part.is_certain and all(command.is_safe for command in commands)


def _check_text(line: str) -> None:
    if not line.strip():
        raise Invalid("scpi_command is empty.", code=ErrorCode.BAD_SCPI)
    if len(line) > MAX_LINE:
        raise Invalid(
            f"scpi_command has {len(line)} characters; {MAX_LINE} are allowed.",
            code=ErrorCode.BAD_SCPI,
        )
    bad = next((c for c in line if (ord(c) < 32 and c != "\t") or ord(c) >= 127), None)
    if bad is not None:
        raise Invalid(
            f"scpi_command holds the character {bad!r}; one line of printable ASCII is allowed.",
            code=ErrorCode.BAD_SCPI,
            data={"parameter": "scpi_command", "value": bad},
            remedy="Send one line, without a line end: the daemon adds it.",
        )


def _check_part(
    instrument: Instrument, part: RawPart, checks: ProfileChecks, modes: frozenset[str]
) -> None:
    """Every command that the message may be, with every value it may carry, must be allowed."""
    if RawScpi.QUERIES in modes and not part.is_query:
        raise _restricted(part.text, "only queries may be sent raw")
    if not part.matches and RawScpi.KNOWN in modes and not _is_harmless(part):
        raise _restricted(part.text, "only what the profile knows may be sent raw")
    if not part.is_query:
        _check_ramped(instrument, part, checks)
    for match in part.matches:
        _check_match(instrument, part, match, checks, modes)


def _check_ramped(instrument: Instrument, part: RawPart, checks: ProfileChecks) -> None:
    """The profile's requires_sweep binds its command, the owner's all that send the line."""
    bound = [match.command for match in part.matches if match.command.requires_sweep]
    by_owner = [c for c in bound if c.name in instrument.rules.requires_sweep]
    if not bound or (not by_owner and any(_may_send(match, checks) for match in part.matches)):
        return
    command = (by_owner or bound)[0]
    raise Refused(
        f"{part.text!r} is {command.name}, which may only be ramped.",
        code=ErrorCode.REQUIRES_SWEEP,
        data={"command": command.name},
        remedy=f"Use start_sweep with command_name {command.name!r}.",
    )


def _may_send(match: RawMatch, checks: ProfileChecks) -> bool:
    """Whether a message certainly is what a command sends that need not be ramped."""
    if match.command.requires_sweep or not match.is_certain:
        return False
    _, check = checks.command(match.command.name)
    try:
        for values in match.readings:
            check.validate(values)
    except Invalid:
        return False
    return True


def _check_match(
    instrument: Instrument,
    part: RawPart,
    match: RawMatch,
    checks: ProfileChecks,
    modes: frozenset[str],
) -> None:
    command = match.command
    if command.name in instrument.rules.deny:
        raise Refused(
            f"{part.text!r} is {command.name}, which the owner of this bench denies.",
            code=ErrorCode.DENIED_BY_OWNER,
            remedy=ASK_THE_OWNER,
        )
    if RawScpi.KNOWN not in modes and command.name not in instrument.rules.limits:
        return
    if not match.is_certain:
        raise _restricted(part.text, f"its value cannot be judged against {command.name}'s limits")
    _, check = checks.command(command.name)
    for values in match.readings:
        check.validate(values)
    for values in match.unitless:
        try:
            check.validate(values)
        except Invalid as error:
            raise Invalid(
                f"{part.text!r} is within its limits only with its unit, which some instruments "
                f"ignore: {error.message}",
                code=error.code,
                data=error.data,
                remedy="Write the number in the base unit, without a suffix.",
            ) from error


def _is_harmless(part: RawPart) -> bool:
    """IEEE 488.2's own queries, which no profile needs to list."""
    return part.is_query and part.text.lstrip().startswith("*")


def _restricted(what: str, why: str) -> Refused:
    return Refused(
        f"{what!r} was not sent, because {why}.",
        code=ErrorCode.RAW_SCPI_RESTRICTED,
        remedy="Use execute_command; get_capabilities lists the commands.",
    )


def check_other_roads(target: Target, *, is_ramped: bool = False) -> None:
    """Let pass what the owner's word about other commands lets pass.

    Args:
        target: a command with its values and lines. Becomes dangerous where what it sends is.
        is_ramped: it is a step of a sweep.

    Raises:
        Refused: DENIED_BY_OWNER or REQUIRES_SWEEP.
        Invalid: a value outside of the owner's limits, or one that cannot be judged by them.
    """
    instrument, command = target.instrument, target.command
    if instrument is None or command is None or command.is_query or command.is_safe:
        return
    rules = instrument.rules
    if not rules.key or instrument.profile is None:
        return
    spoken_of = {*rules.limits, *rules.deny, *rules.is_dangerous, *rules.requires_sweep}
    if not spoken_of - {command.name}:
        return
    for template, line in zip(command.scpi, target.lines, strict=True):
        for part in identify(instrument.profile, line):
            for match in part.matches:
                other = match.command
                if other.name not in spoken_of or other.name == command.name:
                    continue
                if not means_another_unit(command, template, other):
                    _check(target, command, match, rules, is_ramped=is_ramped)


def _check(
    target: Target, command: Command, match: RawMatch, rules: UnitRules, *, is_ramped: bool
) -> None:
    other = match.command.name
    if other in rules.deny:
        raise Refused(
            f"{command.name} does what {other} does, which the owner of this bench denies.",
            code=ErrorCode.DENIED_BY_OWNER,
            data={"command": other},
            remedy=ASK_THE_OWNER,
        )
    if other in rules.requires_sweep and not is_ramped:
        raise Refused(
            f"{command.name} sets what {other} sets, which may only be ramped here.",
            code=ErrorCode.REQUIRES_SWEEP,
            data={"command": other},
            remedy=f"Call start_sweep with command_name {other!r}.",
        )
    for name, bound in rules.limits.get(other, {}).items():
        unit = match.command.parameters[name].unit
        for value in _values(match, name, target.values):
            _check_value(command, f"{other}.{name}", bound, value, unit)
    target.is_dangerous = target.is_dangerous or other in rules.is_dangerous


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
    command: Command, limited: str, bound: Bound, value: Scalar | None, unit: str
) -> None:
    words = f"the limits that the owner set for {limited}"
    data = {"parameter": limited.rpartition(".")[2], "value": value}
    if value is None:
        raise Invalid(f"What {command.name} sends cannot be judged by {words}.", data=data)
    if bound.options is not None and value not in bound.options:
        options = ", ".join(bound.options)
        raise Invalid(f"{command.name}: {value!r} is outside of {words}: {options}.", data=data)
    if isinstance(value, str):
        return
    for key, limit, is_outside in (
        ("maximum", bound.max, bound.max is not None and value > bound.max),
        ("minimum", bound.min, bound.min is not None and value < bound.min),
    ):
        if is_outside:
            raise Invalid(
                f"{command.name}: {value:g} {unit} is outside of {words}: the {key} is "
                f"{limit:g} {unit}.".replace(" .", ".").replace("  ", " "),
                data={**data, key: limit, "unit": unit},
            )


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
