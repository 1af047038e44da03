"""From the names in an action to the thing they mean, or what to do instead.

Looks things up and judges nothing but whether they exist and fit together: what may be sent is the
``policy``'s to say, what stands in the way just now the ``preconditions``'.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from edged.actions.action import (
    CallWrapper,
    Purpose,
    RunCommand,
    RunSequence,
    SendLines,
    SendProgram,
    SendScpi,
    StartStream,
    StartSweep,
)
from edged.commands.target import Catalog, Target
from edged.errors import ErrorCode, Invalid, NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.profiles.arguments import ParameterCheck
from edged.profiles.model import Command, ImageAnswer, Profile
from edged.profiles.raw import (
    MAX_LINE,
    MAX_MESSAGES,
    KeptByProfile,
    RawPart,
    identify,
    identify_inside,
    is_always_let_pass,
    split_compound,
)
from edged.runs.sweeps.request import MeasureAsked, SweepRequest
from edged.scpi.line import messages
from edged.sdk.specs import WrapperSpec

__all__ = ["COMMON_READS", "MAX_RAW_LINE", "NOTHING", "FindSpec", "Resolver"]

NOTHING: Final = Target()
MAX_RAW_LINE: Final = 4096
_UNPRINTABLE: Final = re.compile(r"[^\t\x20-\x7e]")
"""Characters of one raw line; real instruments take a few hundred."""
COMMON_READS: Final = frozenset({"*IDN?", "*STB?", "*ESR?", "*ESE?", "*SRE?", "*OPC?", "*OPT?"})
"""IEEE 488.2's questions that change nothing but what has been read."""

FindSpec = Callable[[str, str], WrapperSpec]
"""Stem and name → one tool of an SDK wrapper; raises ``NotFound``."""


def _no_wrapper(stem: str, _name: str) -> WrapperSpec:
    raise NotFound(f"There is no SDK wrapper {stem[:100]!r}.", code=ErrorCode.UNKNOWN_COMMAND)


class Resolver:
    """Looks up what actions mean: a method for each way in which an operation is aimed.

    They raise ``NotFound`` for an instrument, command or sequence that does not exist, and
    ``Invalid`` where what the caller expects contradicts the profile, or for raw SCPI (BAD_SCPI)
    that is empty, too long, or holds a line end or control character.

    Args:
        pool: the instruments.
        catalog: their compiled checks.
        find_spec: the tools of SDK wrappers.
    """

    def __init__(
        self,
        *,
        pool: InstrumentPool,
        catalog: Catalog,
        find_spec: FindSpec = _no_wrapper,
    ) -> None:
        self._pool = pool
        self._catalog = catalog
        self._find_spec = find_spec

    def command(self, action: RunCommand) -> Target:
        """A command of an instrument."""
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        ends_work = action.purpose is Purpose.FINALLY_STEP
        command, check = self._command(instrument, action.command_name, run_id, ends_work=ends_work)
        # What its owner marks as dangerous is that for callers; an interlock reads it all the same.
        is_reading = command.is_query and command.changes is None
        is_read_anyway = is_reading and action.purpose is Purpose.INTERLOCK
        if action.expects_query is not None and action.expects_query is not command.is_query:
            kind = "a query" if command.is_query else "no query"
            raise Invalid(
                f"is_query is {str(action.expects_query).lower()}, but {command.name} is {kind}.",
                data={"parameter": "is_query", "value": action.expects_query},
                remedy="Leave is_query out, or read get_capabilities again.",
            )
        return Target(
            instrument=instrument,
            command=command,
            check=check,
            is_dangerous=command.is_dangerous,
            is_safe=command.is_safe,
            is_write=command.is_write and not is_read_anyway,
        )

    def _command(
        self, instrument: Instrument, name: str, run_id: str = "", *, ends_work: bool = False
    ) -> tuple[Command, ParameterCheck]:
        checks = self._catalog.of(instrument, run_id, ends_work=ends_work)
        return checks.command(name, self._having)

    def _having(self, name: str) -> tuple[str, ...]:
        """What the instruments are called that have a command of this name to offer."""
        return tuple(
            i.called
            for i in self._pool.all()
            if i.profile is not None and name in i.profile.commands and name not in i.rules.deny
        )

    def stream(self, action: StartStream) -> Target:
        """A query of an instrument, again and again."""
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        command, check = self._command(instrument, action.command_name, run_id)
        if isinstance(command.returns, ImageAnswer):
            raise Invalid(
                f"{command.name} gives a picture; a stream measures values or waveforms.",
                data={"parameter": "command_name", "value": command.name},
                remedy="Call execute_command.",
            )
        return Target(
            instrument=instrument,
            command=command,
            check=check,
            is_dangerous=command.is_dangerous,
            is_write=command.is_write,
        )

    def sweep(self, action: StartSweep) -> Target:
        """The command that is swept, and the measures; danger is that of all of them."""
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        command, check = self._command(instrument, action.command_name, run_id)
        if command.sweep is None:
            able = [
                c.name for c in self._catalog.of(instrument).profile.commands.values() if c.sweep
            ]
            raise Invalid(
                f"{command.name} cannot be swept: its profile does not say how.",
                data={"parameter": "command_name", "value": command.name, "sweepable": able},
                remedy=f"These can: {', '.join(able)}." if able else "",
            )
        measures = tuple(map(self._measure, SweepRequest.measures_asked(action.arguments)))
        return Target(
            instrument=instrument,
            command=command,
            check=check,
            is_dangerous=command.is_dangerous or any(m.is_dangerous for m in measures),
            is_write=True,
            inner=measures,
        )

    def _measure(self, asked: MeasureAsked) -> Target:
        instrument = self._pool.get(asked.instrument_id)
        command, check = self._command(instrument, asked.command_name)
        return Target(
            instrument=instrument,
            command=command,
            check=check,
            is_dangerous=command.is_dangerous,
            is_write=command.is_write,
            values=asked.parameters,
        )

    def own_lines(self, action: SendLines) -> Target:
        """The profile's own lines: nothing in them is the caller's but values that were judged."""
        is_abort = action.purpose is Purpose.ABORT
        return Target(
            instrument=self._pool.get(action.instrument_id),
            is_safe=is_abort,
            is_write=is_abort,
            lines=action.lines,
        )

    def unit(self, instrument_id: str) -> Target:
        """An instrument that is only asked how it is: a lockout does not hold that back."""
        return Target(instrument=self._pool.get(instrument_id), is_let_through=True)

    def wrapper(self, action: CallWrapper) -> Target:
        """A tool of an SDK wrapper."""
        spec = self._find_spec(action.wrapper, action.spec_name)
        return Target(
            spec=spec,
            check=spec.check,
            is_dangerous=spec.is_dangerous,
            is_safe=spec.is_safe,
            is_write=spec.is_dangerous or not spec.is_query,
        )

    def sequence(self, action: RunSequence) -> Target:
        """A sequence of an instrument."""
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        sequence, check = self._catalog.of(instrument, run_id).sequence(action.sequence_name)
        return Target(
            instrument=instrument,
            sequence=sequence,
            check=check,
            is_dangerous=sequence.is_dangerous,
            is_write=True,
        )

    def raw(self, action: SendScpi) -> Target:
        """Raw SCPI is dangerous, but for a query inside a sequence that the profile knows."""
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        has_profile = instrument.profile is not None
        checks = self._catalog.of(instrument, run_id) if has_profile else None
        _check_text(action.scpi)
        parts = identify(checks.profile, action.scpi) if checks is not None else ()
        is_known_read = (
            bool(action.caller.outer_tool)
            and bool(parts)
            and all(part.is_query and not _is_write(part) for part in parts)
        )
        return Target(
            instrument=instrument,
            is_dangerous=not is_known_read,
            is_write=not is_known_read,
            is_let_through=_only_reads_or_makes_safe(action.scpi, parts),
            is_one_command=_is_one_command(action.scpi, parts, instrument.connection.errors.query),
            lines=(action.scpi.strip(),),
            parts=parts,
            profile_checks=checks,
        )

    def program(self, action: SendProgram) -> Target:
        """A program's message: dangerous as the known commands in it are, what is unknown always.

        A block in it is told by its length. What stands inside is looked at all the same: to an
        instrument that knows no block there it would be lines.
        """
        instrument = self._pool.get(action.instrument_id)
        checks = self._catalog.of(instrument) if instrument.profile is not None else None
        profile = checks.profile if checks is not None else None
        kind = _program_kind(profile, action.scpi, instrument.connection.errors.query)
        inside = identify_inside(profile, action.inside) if profile is not None else ()
        parts, is_read = (*kind.parts, *inside), kind.is_read and not inside
        return Target(
            instrument=instrument,
            is_dangerous=kind.is_dangerous or any(map(_is_dangerous, inside)),
            is_write=not is_read,
            is_let_through=is_read or _only_reads_or_makes_safe(action.scpi, parts),
            is_one_command=kind.is_one_command,
            lines=(action.scpi,),
            parts=parts,
            profile_checks=checks,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProgramKind:
    """What a program's message is, whoever sends it.

    Attributes:
        parts: as ``Target`` has them.
        is_read: it only reads.
        is_dangerous: as the known commands in it are; what is unknown always.
        is_one_command: whether one question, or lines that ask nothing, are answered by more than
            they should is looked at once for each header; several questions may have a line each.
    """

    parts: tuple[RawPart, ...]
    is_read: bool
    is_dangerous: bool
    is_one_command: bool


@KeptByProfile
def _program_kind(profile: Profile | None, text: str, error_query: str) -> _ProgramKind:
    """The kind of a message.

    Raises:
        Invalid: BAD_SCPI, it cannot be judged whole.
    """
    found = tuple(messages(text))
    _check_program(text, len(found))
    parts = identify(profile, text) if profile is not None else ()
    known = parts or tuple(RawPart(text=m.text, is_query=m.is_query) for m in found)
    others = [
        part
        for message, part in zip(found, known, strict=True)
        if not is_always_let_pass(message, error_query)
    ]
    return _ProgramKind(
        parts=parts,
        is_read=all(part.is_query for part in known) and all(map(_is_known_read, others)),
        is_dangerous=any(not part.matches or _is_dangerous(part) for part in others),
        is_one_command=len(found) == 1 or not any(message.is_query for message in found),
    )


def _check_program(text: str, count: int) -> None:
    """Let pass what can be judged whole."""
    bad = _UNPRINTABLE.search(text)
    if bad is not None or len(text) > MAX_LINE or count > MAX_MESSAGES:
        what = f"the character {bad.group()!r}" if bad is not None else f"{count} commands"
        raise Invalid(
            f"{text[:80]!r} was not sent: it holds {what} in {len(text)} characters, and a message "
            f"is at most {MAX_LINE} printable ones of ASCII and {MAX_MESSAGES} commands, its "
            "blocks apart.",
            code=ErrorCode.BAD_SCPI,
            remedy="Send it in several messages.",
        )


def _is_known_read(part: RawPart) -> bool:
    return _is_common_read(part.text) or _is_known_harmless(part)


def _is_dangerous(part: RawPart) -> bool:
    return any(match.command.is_dangerous for match in part.matches)


def _is_write(part: RawPart) -> bool:
    return any(match.command.is_write for match in part.matches)


def _check_text(line: str) -> None:
    if not line.strip():
        raise Invalid("scpi_command is empty.", code=ErrorCode.BAD_SCPI)
    if len(line) > MAX_RAW_LINE:
        raise Invalid(
            f"scpi_command has {len(line)} characters; {MAX_RAW_LINE} are allowed.",
            code=ErrorCode.BAD_SCPI,
        )
    bad = _UNPRINTABLE.search(line)
    if bad is not None:
        raise Invalid(
            f"scpi_command holds the character {bad.group()!r}; one line of printable ASCII is "
            "allowed.",
            code=ErrorCode.BAD_SCPI,
            data={"parameter": "scpi_command", "value": bad.group()},
            remedy="Send one line, without a line end: the daemon adds it.",
        )
    count = sum(1 for _ in messages(line))
    if count > MAX_MESSAGES:
        # What is not judged whole may be anything that the owner forbids.
        raise Invalid(
            f"scpi_command holds {count} commands; {MAX_MESSAGES} are allowed in a line.",
            code=ErrorCode.BAD_SCPI,
            remedy="Send it in several lines.",
        )


def _only_reads_or_makes_safe(line: str, parts: tuple[RawPart, ...]) -> bool:
    """Whether a raw line certainly changes nothing, or makes safe.

    A ``?`` alone is no proof: there are questions that switch an output on.

    Args:
        parts: what the profile knows it as; none where there is no profile.
    """
    if not parts:
        texts = split_compound(line)
        return bool(texts) and all(_is_common_read(text) for text in texts)
    return all(_is_common_read(p.text) or _is_known_harmless(p) for p in parts)


def _is_one_command(line: str, parts: tuple[RawPart, ...], error_query: str) -> bool:
    """Whether it is known by how many lines a raw line is answered: it is one known command.

    Args:
        parts: as for ``_only_reads_or_makes_safe``.
        error_query: what the instrument's errors are asked by; empty where they are not.
    """
    texts = [part.text for part in parts] or split_compound(line)
    if len(texts) != 1:
        return False
    text = texts[0].upper()
    if text in COMMON_READS or text.lstrip(":") == error_query.upper().lstrip(":"):
        return True
    return any(
        part.is_declared or any(match.command.is_query == part.is_query for match in part.matches)
        for part in parts
    )


def _is_common_read(text: str) -> bool:
    return text.upper() in COMMON_READS


def _is_known_harmless(part: RawPart) -> bool:
    commands = [match.command for match in part.matches]
    if part.is_query:
        return bool(commands) and not any(command.is_write for command in commands)
    return part.is_certain and all(command.is_safe for command in commands)
