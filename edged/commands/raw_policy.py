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
from edged.profiles.raw import RawPart, identify

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
        if mode is not RawScpi.ALL and not (mode is RawScpi.QUERIES and _is_only_queries(line)):
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
    if mode is RawScpi.QUERIES and not part.is_query:
        raise _restricted(part.text, "only queries may be sent raw")
    command = part.command
    if command is None:
        if mode is RawScpi.KNOWN and not _is_harmless(part):
            raise _restricted(part.text, "only what the profile knows may be sent raw")
        return
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
    if part.is_unknown_value and (
        mode is RawScpi.KNOWN or instrument.rules.limits.get(command.name)
    ):
        raise _restricted(part.text, f"its value cannot be judged against {command.name}'s limits")
    if part.values and not part.is_unknown_value and _has_limits(instrument, command.name, mode):
        _, check = catalog.of(instrument).command(command.name)
        check.validate(part.values)


def _has_limits(instrument: Instrument, command_name: str, mode: RawScpi) -> bool:
    """The owner's limits always hold; the profile's own where raw SCPI is narrowed to known."""
    return mode is RawScpi.KNOWN or command_name in instrument.rules.limits


def _is_harmless(part: RawPart) -> bool:
    """IEEE 488.2's own queries, which no profile needs to list."""
    return part.is_query and part.text.lstrip().startswith("*")


def _is_only_queries(line: str) -> bool:
    return all(piece.split(" ", 1)[0].rstrip().endswith("?") for piece in line.strip().split(";"))


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
