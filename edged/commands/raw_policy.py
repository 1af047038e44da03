"""What raw SCPI may be sent: RAW_SCPI, the owner's bench file, and the profile's own limits.

A raw line is taken apart and each part is looked up in the profile (``profiles.raw``), so that
whatever the owner limited is limited on this road too, however it is spelled.

Source: PROFILE-FORMAT.md, "The owner's bench file"; SPEC.md sections 4 and 5.
"""

from __future__ import annotations

from typing import Final

from edged.commands.catalog import Catalog
from edged.config_keys import RawScpi
from edged.errors import ErrorCode, Invalid, Refused
from edged.instruments.instrument import Instrument
from edged.profiles.raw import RawMatch, RawPart, classify, identify

__all__ = ["MAX_LINE", "check_raw_scpi"]

MAX_LINE: Final = 4096
"""Characters of one raw line; real instruments take a few hundred."""


_STRICTNESS: Final = (RawScpi.ALL, RawScpi.KNOWN, RawScpi.QUERIES, RawScpi.OFF)


def check_raw_scpi(
    instrument: Instrument, line: str, catalog: Catalog, configured: RawScpi
) -> tuple[RawPart, ...]:
    """Let a raw line pass, and say which profile commands it is.

    Raises:
        Invalid: BAD_SCPI, a line that is empty, too long, or holds a line end or control character.
        Refused: RAW_SCPI_RESTRICTED, DENIED_BY_OWNER or REQUIRES_SWEEP.
        Invalid: a value outside of a limit.
    """
    _check_text(line)
    mode = _strictest(configured, instrument)
    if mode is RawScpi.OFF:
        raise _restricted(line, "raw SCPI is switched off here")
    if instrument.profile is None:
        if mode is not RawScpi.ALL and not (
            mode is RawScpi.QUERIES and classify(line).is_only_queries
        ):
            raise _restricted(line, f"only {mode} raw SCPI may be sent, and it has no profile")
        return ()
    parts = identify(instrument.profile, line)
    for part in parts:
        _check_part(instrument, part, catalog, mode)
    return parts


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


def _check_part(instrument: Instrument, part: RawPart, catalog: Catalog, mode: RawScpi) -> None:
    """Every command that the message may be, with every value it may carry, must be allowed."""
    if mode is RawScpi.QUERIES and not part.is_query:
        raise _restricted(part.text, "only queries may be sent raw")
    if not part.matches and mode is RawScpi.KNOWN and not _is_harmless(part):
        raise _restricted(part.text, "only what the profile knows may be sent raw")
    for match in part.matches:
        _check_match(instrument, part, match, catalog, mode)


def _check_match(
    instrument: Instrument, part: RawPart, match: RawMatch, catalog: Catalog, mode: RawScpi
) -> None:
    command = match.command
    if command.name in instrument.rules.deny:
        raise Refused(
            f"{part.text!r} is {command.name}, which the owner of this bench denies.",
            code=ErrorCode.DENIED_BY_OWNER,
        )
    if command.requires_sweep and not part.is_query:
        raise Refused(
            f"{part.text!r} is {command.name}, which may only be ramped.",
            code=ErrorCode.REQUIRES_SWEEP,
            data={"command": command.name},
            remedy=f"Use start_sweep with command_name {command.name!r}.",
        )
    if mode is not RawScpi.KNOWN and command.name not in instrument.rules.limits:
        return
    if not match.is_certain:
        raise _restricted(part.text, f"its value cannot be judged against {command.name}'s limits")
    _, check = catalog.of(instrument).command(command.name)
    for values in match.readings:
        check.validate(values)


def _is_harmless(part: RawPart) -> bool:
    """IEEE 488.2's own queries, which no profile needs to list."""
    return part.is_query and part.text.lstrip().startswith("*")


def _strictest(configured: RawScpi, instrument: Instrument) -> RawScpi:
    """The configuration, the bench file, and `known` wherever the owner set limits."""
    modes = [configured]
    if instrument.rules.raw_scpi:
        modes.append(RawScpi(instrument.rules.raw_scpi))
    if instrument.rules.limits:
        modes.append(RawScpi.KNOWN)
    return max(modes, key=_STRICTNESS.index)


def _restricted(what: str, why: str) -> Refused:
    return Refused(
        f"{what!r} was not sent, because {why}.",
        code=ErrorCode.RAW_SCPI_RESTRICTED,
        remedy="Use execute_command; get_capabilities lists the commands.",
    )
