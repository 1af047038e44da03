"""The record that is the audit: turns actions, targets and outcomes into its rows.

What is appended here is written by the store thread; only an intent is waited for. Whatever came of
a command is counted for the capability tracking too. The log gets the lines that ``LogRecord``
writes, quiet ones only when it listens at debug.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from edged.actions.action import (
    Action,
    CallWrapper,
    Purpose,
    RunCommand,
    RunSequence,
    SendLines,
    SendScpi,
    StartStream,
    StartSweep,
)
from edged.actions.caller import Caller
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.clock import Clock
from edged.commands.record import Again, LogRecord
from edged.commands.target import Target
from edged.errors import EdgedError, ErrorCode, Failed, Fault
from edged.instruments.instrument import Instrument
from edged.profiles.match import Identity
from edged.runs.stop_all import NOBODY_THERE
from edged.runs.units import unit_of_instrument, unit_of_wrapper
from edged.scpi.errors import says_undefined
from edged.sdk.specs import wrapper_id
from edged.store.audit.book import Audit
from edged.store.audit.chain import RepeatedRow
from edged.store.audit.row import ERROR_CHARS, SCPI_CHARS, Entry, Phase, bounded_arguments, clip
from edged.store.experience import CapabilityBook, Unit

MAX_LINES: Final = 64
LOOKS: Final = frozenset(
    {
        "get_status",
        "list_instruments",
        "get_capabilities",
        "get_sweep_status",
        "bench__history",
        "bench__runs",
        "bench__plot",
        "fetch_waveform",
    }
)
"""What a page looks at: tools that ask no instrument and change nothing."""
NOT_KEPT: Final = "lease_id"
"""The argument that opens what somebody has reserved."""
NOTHING: Final[Mapping[str, Any]] = {}
AT_NOTHING: Final = ("", "", NOTHING)
NO_UNIT: Final = Unit("")
NOT_TRIED: Final = frozenset({OutcomeStatus.REFUSED, OutcomeStatus.DRY_RUN})
NOT_YET: Final = Outcome(status=OutcomeStatus.OK)
"""Stands for the outcome in the row of an intent."""
TOLD: Final = Outcome(status=OutcomeStatus.OK)
# What failed without the instrument having been asked, or having had a chance to answer.
NOT_ITS_FAULT: Final = frozenset(
    {
        ErrorCode.STORE_FAILED,
        ErrorCode.CANCELLED,
        ErrorCode.PREEMPTED,
        ErrorCode.BUSY,
        ErrorCode.INTERNAL,
    }
)


class AuditRecord:
    """Implements ``record.Record``.

    Args:
        audit: where rows go.
        capability: where experience is counted.
        clock: for the times of rows.
        log: where log lines go besides.
        id_of: the id behind a name of an instrument, or the name itself; for what was refused
            before it was looked up.
    """

    def __init__(
        self,
        *,
        audit: Audit,
        capability: CapabilityBook,
        clock: Clock,
        log: LogRecord | None = None,
        id_of: Callable[[str], str] = str,
    ) -> None:
        self._audit = audit
        self._capability = capability
        self._clock = clock
        self._log = log or LogRecord()
        self._id_of = id_of
        # By instrument id; there are as many as the pool has ever met.
        self._units: dict[str, tuple[Identity | None, Unit]] = {}
        self._level = logging.getLogger("edged.record")

    def intend(self, action: Action, target: Target) -> Awaitable[None] | None:
        """See ``Record``. A sweep's steps are in its journal, which is on disk at its start."""
        if isinstance(action, RunCommand) and action.is_ramp_step:
            return None
        intent = target.intent = self._entry(Phase.INTENT, action, target, target.lines)
        self._log.note_intent(action, intent.instrument, intent.command, target.lines)
        return self._audit.intend(intent)

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        # What an interlock reads all the time is told where it trips or refuses.
        if isinstance(action, RunCommand) and action.purpose is Purpose.INTERLOCK:
            return
        if outcome.error is not None and _is_of_nobody(action, outcome.error):
            return
        if action.caller.is_look and action.tool in LOOKS and outcome.status is OutcomeStatus.OK:
            return
        if (
            target is not None
            and target.judged_at is not None
            and not target.is_write
            and self._note_query(action, target, outcome)
        ):
            return
        # The line first: a row wakes the store thread, and the two would get in each other's way.
        is_quiet = outcome.status is OutcomeStatus.OK and (target is None or not target.is_write)
        if not is_quiet or self._level.isEnabledFor(logging.DEBUG):
            self._log.conclude(action, target, outcome)
        phase = Phase.REFUSAL if outcome.status is OutcomeStatus.REFUSED else Phase.END
        self._audit.note(self._entry(phase, action, target, outcome.scpi, outcome))
        if target is not None and target.instrument is not None and target.command is not None:
            self._count(self._unit(target.instrument), target.command.name, outcome)
        elif target is not None and target.spec is not None:
            self._count(unit_of_wrapper(target.spec), target.spec.name, outcome)

    def _note_query(self, action: Action, target: Target, outcome: Outcome) -> bool:
        """Write the row of a query that may be asked again; false: it is to be written as any."""
        instrument, command = target.instrument, target.command
        if instrument is None or command is None:
            return False
        if outcome.status is not OutcomeStatus.OK or outcome.scpi != target.lines:
            return False
        if target.row is None:
            if self._level.isEnabledFor(logging.DEBUG):
                return False
            target.row = RepeatedRow(self._entry(Phase.END, action, target, outcome.scpi, outcome))
        self._audit.note_again(target.row, action.action_id, outcome.execution_time_ms)
        self._capability.note(
            self._unit(instrument),
            command.name,
            is_ok=True,
            duration_ms=outcome.execution_time_ms,
        )
        return True

    def again(self, action: Action, target: Target) -> Again | None:
        if action.caller.is_look or self._level.isEnabledFor(logging.DEBUG):
            return None
        row = RepeatedRow(self._entry(Phase.END, action, target, (), TOLD))
        return partial(self._audit.note_again, row)

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        self._audit.note(
            Entry(
                time_ms=self._clock.wall_ns() // 1_000_000,
                phase=Phase.REFUSAL,
                tool=clip(tool),
                route=caller.route.value,
                session=clip(caller.session_id),
                remote=clip(caller.remote),
                subject=clip(caller.subject),
                client=caller.client,
                outcome=OutcomeStatus.REFUSED.value,
                code=error.code.value,
                error=clip(error.message, ERROR_CHARS),
            )
        )
        self._log.refuse(caller, tool, error)

    def method(
        self,
        caller: Caller,
        name: str,
        params: Mapping[str, Any],
        *,
        action_id: str,
        error: EdgedError | None,
        duration_ms: float,
    ) -> None:
        """Write down that a surface was asked something that is no tool (RPC's own methods)."""
        is_tried = error is None or isinstance(error, Failed | Fault)
        outcome = OutcomeStatus.FAILED if is_tried else OutcomeStatus.REFUSED
        instrument = params.get("instrument_id")
        self._audit.note(
            Entry(
                time_ms=self._clock.wall_ns() // 1_000_000,
                phase=Phase.END if is_tried else Phase.REFUSAL,
                action_id=action_id,
                tool=clip(name),
                route=caller.route.value,
                session=clip(caller.session_id),
                remote=clip(caller.remote),
                client=caller.client,
                instrument=clip(self._id_of(instrument)) if isinstance(instrument, str) else "",
                arguments=_kept(params),
                outcome=(outcome if error else OutcomeStatus.OK).value,
                code=error.code.value if error else "",
                error=clip(error.message, ERROR_CHARS) if error else "",
                duration_ms=duration_ms,
            )
        )

    def _entry(
        self,
        phase: Phase,
        action: Action,
        target: Target | None,
        lines: tuple[str, ...],
        outcome: Outcome = NOT_YET,
    ) -> Entry:
        """What is known of an action, before it or after it."""
        caller, error, now_ms = action.caller, outcome.error, self._clock.wall_ns() // 1_000_000
        status = "" if outcome is NOT_YET else outcome.status._value_
        code = error.code._value_ if error else ""
        told, scpi = clip(error.message, ERROR_CHARS) if error else "", _lines(lines)
        intent = target.intent if target is not None else None
        if intent is not None and intent.action_id == action.action_id:
            weighty, spent_ms = phase is not Phase.REFUSAL, outcome.execution_time_ms
            asked, known = intent[2:13], intent[18:20]
            return Entry(
                now_ms, phase._value_, *asked, scpi, status, code, told, weighty, *known, spent_ms
            )
        instrument_id, command, arguments = AT_NOTHING
        if target is None or target.command is None or not action.arguments:
            instrument_id, command, arguments = _aim(action)
        is_weighty = False
        if target is not None:
            # What was found has names of ours, which are short.
            instrument_id = target.instrument_id or clip(instrument_id)
            command = target.command_name or clip(command)
            is_weighty = phase is not Phase.REFUSAL and (target.is_write or target.is_safe)
        elif instrument_id or command:
            instrument_id = clip(self._id_of(instrument_id)) if instrument_id else ""
            command = clip(command)
        # By position, in the order of its fields: this is done for every call. What the caller
        # object and the tool hold anyway need not be bounded here; ``texts_of`` does it.
        return Entry(
            now_ms,
            phase._value_,
            action.tool,
            action.parent_id,
            caller.on_behalf_of,
            caller.route._value_,
            caller.session_id,
            caller.remote,
            caller.subject,
            caller.client,
            clip(action.scope) if action.scope else "",
            instrument_id,
            command,
            scpi,
            status,
            code,
            told,
            is_weighty,
            _kept(action.arguments or arguments),
            action.action_id,
            outcome.execution_time_ms,
        )

    def _count(self, unit: Unit, command: str, outcome: Outcome) -> None:
        error = outcome.error
        is_ok = outcome.status is OutcomeStatus.OK
        if outcome.status in NOT_TRIED or (error and error.code in NOT_ITS_FAULT):
            return
        self._capability.note(
            unit,
            command,
            is_ok=is_ok,
            duration_ms=outcome.execution_time_ms,
            error=error.message if error else "",
            is_undefined=error is not None and says_undefined(error),
        )

    def _unit(self, instrument: Instrument) -> Unit:
        """``unit_of_instrument``, worked out once for each identity that an instrument shows."""
        identity, unit = self._units.get(instrument.id, (None, NO_UNIT))
        if identity is not instrument.identity:
            unit = unit_of_instrument(instrument)
            self._units[instrument.id] = (instrument.identity, unit)
        return unit


def _is_of_nobody(action: Action, error: EdgedError) -> bool:
    """An abort of a wrapper whose device is not there, and was not since the engine started."""
    is_forgiven = isinstance(action, CallWrapper) and not action.is_expected
    return is_forgiven and error.code in NOBODY_THERE


def _aim(action: Action) -> tuple[str, str, Mapping[str, Any]]:
    """Instrument, command and parameters as the action names them, resolved or not.

    Before the schema has passed they may be of any type.
    """
    if action.answers_at_once:
        return AT_NOTHING
    match action:
        case RunCommand() | StartSweep() | StartStream():
            return str(action.instrument_id), str(action.command_name), _mapping(action.parameters)
        case RunSequence():
            return str(action.instrument_id), str(action.sequence_name), _mapping(action.parameters)
        case SendScpi():
            return str(action.instrument_id), "", {"scpi_command": action.scpi}
        case SendLines():
            return str(action.instrument_id), action.purpose.value, {}
        case CallWrapper():
            return wrapper_id(action.wrapper), action.spec_name, _mapping(action.parameters)
        case _:
            return AT_NOTHING


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict | Mapping) else NOTHING


def _kept(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the record keeps of arguments."""
    if NOT_KEPT in arguments:
        arguments = {**arguments, NOT_KEPT: "(not kept)"}
    return bounded_arguments(arguments)


def _lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    """SCPI lines, bounded: they may wait in memory."""
    if len(lines) <= MAX_LINES:
        for line in lines:
            if len(line) > SCPI_CHARS:
                break
        else:
            return lines
    return tuple(clip(line, SCPI_CHARS) for line in lines[:MAX_LINES])
