"""What raw SCPI may be sent: RAW_SCPI, the owner's bench file, and the profile's own limits.

A raw line is taken apart and each part is looked up in the profile (``profiles.raw``), so that
whatever the owner limited is limited on this road too, however it is spelled.

Source: PROFILE-FORMAT.md, "The owner's bench file"; SPEC.md sections 4 and 5.
"""

from __future__ import annotations

from typing import Final

from edged.commands.catalog import ProfileChecks
from edged.config_keys import RawScpi
from edged.errors import ErrorCode, Invalid, Refused
from edged.instruments.instrument import Instrument
from edged.profiles.raw import RawMatch, RawPart, classify, identify, split_compound
from edged.profiles.unit_rules import ASK_THE_OWNER

__all__ = ["MAX_LINE", "check_raw_scpi", "is_one_command", "only_reads_or_makes_safe"]

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
