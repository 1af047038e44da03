"""From the names in an action to the thing they mean, or what to do instead.

Looks things up and judges nothing but whether they exist and fit together: what may be sent is the
``policy``'s to say, what stands in the way just now the ``preconditions``'.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
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
from edged.instruments.pool import InstrumentPool
from edged.profiles.model import ImageAnswer
from edged.profiles.raw import (
    MAX_LINE,
    MAX_MESSAGES,
    LineClass,
    RawPart,
    judged_parts,
)
from edged.record import part
from edged.runs.sweeps.request import MeasureAsked, SweepRequest
from edged.scpi.line import messages
from edged.sdk.specs import WrapperSpec

NOTHING: Final = Target()
MAX_RAW_LINE: Final = 4096
_UNPRINTABLE: Final = re.compile(r"[^\t\x20-\x7e]")
"""Characters of one raw line; real instruments take a few hundred."""
FindSpec = Callable[[str, str], WrapperSpec]
"""Stem and name → one tool of an SDK wrapper; raises ``NotFound``."""


def _no_wrapper(stem: str, _name: str) -> WrapperSpec:
    raise NotFound(f"There is no SDK wrapper {stem[:100]!r}.", code=ErrorCode.UNKNOWN_COMMAND)


@part
class Resolver:
    """Looks up what actions mean: a method for each way in which an operation is aimed.

    They raise ``NotFound`` for an instrument, command or sequence that does not exist, and
    ``Invalid`` where what the caller expects contradicts the profile, or for raw SCPI (BAD_SCPI)
    that is empty, too long, or holds a line end or control character.

    Attributes:
        pool: the instruments.
        catalog: their compiled checks.
        find_spec: the tools of SDK wrappers.
    """

    pool: InstrumentPool
    catalog: Catalog
    find_spec: FindSpec = _no_wrapper

    def command(self, action: RunCommand) -> Target:
        """A command of an instrument."""
        instrument, run_id = self.pool.get(action.instrument_id), action.caller.on_behalf_of
        ends_work = action.purpose is Purpose.FINALLY_STEP
        checks = self.catalog.of(instrument, run_id, ends_work=ends_work)
        command, check = checks.command(action.command_name, self._having)
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

    def _having(self, name: str) -> tuple[str, ...]:
        """What the instruments are called that have a command of this name to offer."""
        return tuple(
            i.called
            for i in self.pool.all()
            if i.profile is not None and name in i.profile.commands and name not in i.rules.deny
        )

    def stream(self, action: StartStream) -> Target:
        """A query of an instrument, again and again."""
        instrument, run_id = self.pool.get(action.instrument_id), action.caller.on_behalf_of
        checks = self.catalog.of(instrument, run_id)
        command, check = checks.command(action.command_name, self._having)
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
        instrument, run_id = self.pool.get(action.instrument_id), action.caller.on_behalf_of
        checks = self.catalog.of(instrument, run_id)
        command, check = checks.command(action.command_name, self._having)
        if command.sweep is None:
            able = [
                c.name for c in self.catalog.of(instrument).profile.commands.values() if c.sweep
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
        instrument = self.pool.get(asked.instrument_id)
        command, check = self.catalog.of(instrument).command(asked.command_name, self._having)
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
            instrument=self.pool.get(action.instrument_id),
            is_safe=is_abort,
            is_write=is_abort,
            lines=action.lines,
        )

    def unit(self, instrument_id: str) -> Target:
        """An instrument that is only asked how it is: a lockout does not hold that back."""
        return Target(instrument=self.pool.get(instrument_id), is_let_through=True)

    def wrapper(self, action: CallWrapper) -> Target:
        """A tool of an SDK wrapper."""
        spec = self.find_spec(action.wrapper, action.spec_name)
        return Target(
            spec=spec,
            check=spec.check,
            is_dangerous=spec.is_dangerous,
            is_safe=spec.is_safe,
            is_write=spec.is_dangerous or not spec.is_query,
        )

    def sequence(self, action: RunSequence) -> Target:
        """A sequence of an instrument."""
        instrument, run_id = self.pool.get(action.instrument_id), action.caller.on_behalf_of
        sequence, check = self.catalog.of(instrument, run_id).sequence(action.sequence_name)
        return Target(
            instrument=instrument,
            sequence=sequence,
            check=check,
            is_dangerous=sequence.is_dangerous,
            is_write=True,
        )

    def raw(self, action: SendScpi) -> Target:
        """Raw SCPI is dangerous, but for a query inside a sequence that the profile knows."""
        _check_text(action.scpi)
        target = self._line(action, action.caller.on_behalf_of)
        is_known_read = bool(action.caller.outer_tool) and all(p.is_harmless for p in target.parts)
        target.is_dangerous = target.is_write = not is_known_read
        target.lines = (action.scpi.strip(),)
        return target

    def program(self, action: SendProgram) -> Target:
        """A program's message: dangerous as the known commands in it are, what is unknown always.

        A block is part of the unit in which it stands: nobody but a command with a place for one
        takes it as data, and no template has such a place.
        """
        _check_program(action.scpi)
        target = self._line(action)
        parts = target.parts
        target.is_write = not all(part.is_harmless for part in parts)
        target.is_dangerous = any(part.is_unknown or _is_dangerous(part) for part in parts)
        target.is_one_command = len(parts) == 1 or not any(part.is_query for part in parts)
        return target

    def _line(self, action: SendScpi, run_id: str = "") -> Target:
        instrument = self.pool.get(action.instrument_id)
        has_profile = instrument.profile is not None
        checks = self.catalog.of(instrument, run_id) if has_profile else None
        profile = checks.profile if checks is not None else None
        parts = judged_parts(profile, action.scpi, instrument.rules.allow_raw)
        return Target(
            instrument=instrument,
            is_let_through=bool(parts) and all(map(_only_reads_or_makes_safe, parts)),
            is_one_command=len(parts) == 1 and not parts[0].is_unknown,
            lines=(action.scpi,),
            parts=parts,
            profile_checks=checks,
        )


def _check_program(text: str) -> None:
    """Let pass what can be judged whole."""
    bad, count = _UNPRINTABLE.search(text), _count(text)
    if bad is not None or len(text) > MAX_LINE or not 0 < count <= MAX_MESSAGES:
        what = f"the character {bad.group()!r}" if bad is not None else f"{count} commands"
        raise Invalid(
            f"{text[:80]!r} was not sent: it holds {what} in {len(text)} characters, and a message "
            f"is at most {MAX_LINE} printable ones of ASCII and {MAX_MESSAGES} commands, its "
            "blocks apart.",
            code=ErrorCode.BAD_SCPI,
            remedy="Send it in several messages.",
        )


def _count(text: str) -> int:
    """The message units of a line, as far as they are counted: one more than it may have."""
    return sum(1 for _ in itertools.islice(messages(text[: MAX_LINE + 1]), MAX_MESSAGES + 1))


def _is_dangerous(part: RawPart) -> bool:
    return any(match.command.is_dangerous for match in part.matches)


def _only_reads_or_makes_safe(part: RawPart) -> bool:
    """Whether a unit certainly changes nothing but what waits to be read, or makes safe."""
    if part.kind is LineClass.KNOWN and not part.is_query:
        return part.makes_safe
    return part.kind is LineClass.COMMON or part.is_harmless


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
    count = _count(line)
    if not count:
        raise Invalid("scpi_command holds no command.", code=ErrorCode.BAD_SCPI)
    if count > MAX_MESSAGES:
        # What is not judged whole may be anything that the owner forbids.
        raise Invalid(
            f"scpi_command holds {count} commands; {MAX_MESSAGES} are allowed in a line.",
            code=ErrorCode.BAD_SCPI,
            remedy="Send it in several lines.",
        )
