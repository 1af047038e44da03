"""From the names in an action to the thing they mean, or what to do instead.

Looks things up and judges nothing but whether they exist and fit together; holding back (lockout,
sweeps, the owner's denials) is ``holds.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from edged.actions.action import (
    AT_ONCE,
    Action,
    CallWrapper,
    DrawSweep,
    FetchWaveform,
    Purpose,
    ReadPicture,
    ReadProfile,
    ReadRun,
    ReadState,
    ReadStream,
    ReadSweep,
    RunCommand,
    RunSequence,
    Scan,
    SendLines,
    SendScpi,
    StartStream,
    StartSweep,
    StopAll,
    StopStream,
    StopSweep,
)
from edged.commands.owner_policy import check_raw_scpi, is_one_command, only_reads_or_makes_safe
from edged.commands.target import Catalog, Target
from edged.config.keys import RawScpi
from edged.errors import ErrorCode, Invalid, NotFound
from edged.instruments.pool import InstrumentPool
from edged.profiles.model import Command, ImageAnswer
from edged.profiles.raw import RawPart
from edged.runs.sweeps.request import MeasureAsked, SweepRequest
from edged.sdk.specs import WrapperSpec

__all__ = ["FindSpec", "Resolver", "check_measurable"]

NOTHING = Target()
FindSpec = Callable[[str, str], WrapperSpec]
"""Stem and name → one tool of an SDK wrapper; raises ``NotFound``."""


def _no_wrapper(stem: str, _name: str) -> WrapperSpec:
    raise NotFound(f"There is no SDK wrapper {stem[:100]!r}.", code=ErrorCode.UNKNOWN_COMMAND)


class Resolver:
    """Looks up what actions mean.

    Args:
        pool: the instruments.
        catalog: their compiled checks.
        raw_scpi: RAW_SCPI of the configuration.
        find_spec: the tools of SDK wrappers.
    """

    def __init__(
        self,
        *,
        pool: InstrumentPool,
        catalog: Catalog,
        raw_scpi: RawScpi,
        find_spec: FindSpec = _no_wrapper,
    ) -> None:
        self._pool = pool
        self._catalog = catalog
        self._raw_scpi = raw_scpi
        self._find_spec = find_spec

    def resolve(self, action: Action) -> Target:
        """What the action is aimed at.

        Raises:
            NotFound: an instrument, command or sequence that does not exist.
            Invalid: what the caller expects contradicts the profile; or raw SCPI that cannot be.
            Refused: raw SCPI that may not be sent.
        """
        if type(action) in AT_ONCE:
            return NOTHING
        match action:
            case RunCommand():
                return self._command(action)
            case RunSequence():
                return self._sequence(action)
            case SendScpi():
                return self._raw(action)
            case ReadState() | ReadProfile() | ReadStream() | ReadRun() | Scan():
                return NOTHING
            case StartStream():
                return self._stream(action)
            case StartSweep():
                return self._sweep(action)
            case StopAll():
                return Target(is_safe=True, is_write=True)
            case SendLines():
                return self._lines(action)
            case CallWrapper():
                return self._wrapper(action)
            case ReadSweep() | DrawSweep() | StopSweep() | StopStream():
                return NOTHING
            case FetchWaveform() | ReadPicture():
                return NOTHING
            case _:
                assert_never(action)

    def _command(self, action: RunCommand) -> Target:
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        ends_work = action.purpose is Purpose.FINALLY_STEP
        checks = self._catalog.of(instrument, run_id, ends_work=ends_work)
        command, check = checks.command(action.command_name)
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
            is_write=command.is_dangerous or not command.is_query,
        )

    def _stream(self, action: StartStream) -> Target:
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        command, check = self._catalog.of(instrument, run_id).command(action.command_name)
        check_measurable(command)
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
            is_write=command.is_dangerous,
        )

    def _sweep(self, action: StartSweep) -> Target:
        """The command that is swept, and the measures; danger is that of all of them."""
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        command, check = self._catalog.of(instrument, run_id).command(action.command_name)
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
        command, check = self._catalog.of(instrument).command(asked.command_name)
        check_measurable(command)
        return Target(
            instrument=instrument,
            command=command,
            check=check,
            is_dangerous=command.is_dangerous,
            values=asked.parameters,
        )

    def _lines(self, action: SendLines) -> Target:
        """The profile's own lines: nothing in them is the caller's but values that were judged."""
        is_abort = action.purpose is Purpose.ABORT
        return Target(
            instrument=self._pool.get(action.instrument_id),
            is_safe=is_abort,
            is_write=is_abort,
            lines=action.lines,
        )

    def _wrapper(self, action: CallWrapper) -> Target:
        spec = self._find_spec(action.wrapper, action.spec_name)
        return Target(
            spec=spec,
            check=spec.check,
            is_dangerous=spec.is_dangerous,
            is_safe=spec.is_safe,
            is_write=spec.is_dangerous or not spec.is_query,
        )

    def _sequence(self, action: RunSequence) -> Target:
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        sequence, check = self._catalog.of(instrument, run_id).sequence(action.sequence_name)
        return Target(
            instrument=instrument,
            sequence=sequence,
            check=check,
            is_dangerous=sequence.is_dangerous,
            is_write=True,
        )

    def _raw(self, action: SendScpi) -> Target:
        """Raw SCPI is dangerous, but for a query inside a sequence that the profile knows."""
        instrument, run_id = self._pool.get(action.instrument_id), action.caller.on_behalf_of
        has_profile = instrument.profile is not None
        checks = self._catalog.of(instrument, run_id) if has_profile else None
        parts = check_raw_scpi(instrument, action.scpi, checks, self._raw_scpi)
        is_known_read = (
            bool(action.caller.outer_tool)
            and bool(parts)
            and all(part.is_query and not _is_dangerous(part) for part in parts)
        )
        return Target(
            instrument=instrument,
            is_dangerous=not is_known_read,
            is_write=not is_known_read,
            is_let_through=only_reads_or_makes_safe(action.scpi, parts),
            is_one_command=is_one_command(action.scpi, parts, instrument.connection.errors.query),
            lines=(action.scpi.strip(),),
        )


def _is_dangerous(part: RawPart) -> bool:
    return any(match.command.is_dangerous for match in part.matches)


def check_measurable(command: Command) -> None:
    """Let pass what a stream or a sweep's ``measure`` may ask over and over.

    Raises:
        Invalid: it writes, or may only be ramped.
    """
    if command.requires_sweep:
        raise Invalid(
            f"{command.name} may only be ramped, never measured.",
            data={"parameter": "command_name", "value": command.name},
            remedy="Call start_sweep to ramp it; measure with a query.",
        )
    if not command.is_query:
        raise Invalid(
            f"{command.name} is no query, so there is nothing to measure.",
            data={"parameter": "command_name", "value": command.name},
            remedy="get_capabilities says which commands have is_query; set values by "
            "execute_command.",
        )
