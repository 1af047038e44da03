"""``Executors.table()``: action type → how it is run. The only list of what the daemon can do.

Each executor gets a judged action and its target, does it through the rooms below, and puts the
result into the tool's own shape. Failures of each tool have a shape too: ``failure_shape``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from edged.actions.action import (
    Action,
    CachedState,
    CallWrapper,
    Purpose,
    ReadState,
    RunCommand,
    RunSequence,
    Scan,
    SendScpi,
    StartStream,
    StartSweep,
)
from edged.clock import Clock
from edged.commands.capabilities import capabilities_of
from edged.commands.capture import Captures
from edged.commands.executors.streams import failed_stream
from edged.commands.executors.sweeps import failed_sweep
from edged.commands.freshness import Acquisitions
from edged.commands.path import Done, Executor
from edged.commands.run import ask, at_one_meeting, read_reply, run_command, send_raw
from edged.commands.target import Catalog, Target
from edged.discovery.loop import Discovery
from edged.errors import EdgedError, Failed, Fault
from edged.instruments.actor import Talk
from edged.instruments.conversation import Reply
from edged.instruments.instrument import Instrument
from edged.instruments.mailbox import Waiter
from edged.instruments.pool import InstrumentPool
from edged.profiles.format.sequences import is_sequence_writing
from edged.profiles.model import ImageAnswer, ProfileHead, WaveformAnswer
from edged.runs.sequences.book import SequenceBook
from edged.store.experience import CommandKnowledge
from edged.store.lockouts import Lockout

__all__ = ["Executors", "failure_shape"]


OnSafe = Callable[[str, Mapping[str, object], str], None]


def _nobody_minds(_instrument_id: str, _values: Mapping[str, object], _on_behalf_of: str) -> None:
    return


def _nobody_tried(_profile_key: str) -> Sequence[Mapping[str, Any]]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Executors:
    """The rooms that executors work with.

    Attributes:
        captures: runs commands that answer with a block.
        profiles: gives the heads of the library as it is now.
        verified_on: gives the units on which a profile was tried, by its key.
        status: gives get_status's result; the composition root knows all that it tells of.
        experience: gives what is known of an instrument's commands, by their names.
        lockout: gives the lockout of an instrument, or none.
        on_safe: told of each safe command before it is sent: instrument, values, on whose behalf.
        wrappers: gives what get_capabilities tells of SDK wrappers.
        acquisitions: told of what is carried out, so that a capture can say whether it is fresh.
        more: the executors of other modules, which are part of the table.
    """

    pool: InstrumentPool
    discovery: Discovery
    catalog: Catalog
    sequences: SequenceBook
    captures: Captures
    profiles: Callable[[], Mapping[str, ProfileHead]]
    status: Callable[[], dict[str, Any]]
    experience: Callable[[Instrument], Mapping[str, CommandKnowledge]]
    lockout: Callable[[Instrument], Lockout | None]
    clock: Clock
    on_safe: OnSafe = _nobody_minds
    verified_on: Callable[[str], Sequence[Mapping[str, Any]]] = _nobody_tried
    wrappers: Callable[[], list[dict[str, Any]]] = list
    acquisitions: Acquisitions = field(default_factory=Acquisitions)
    more: Mapping[type[Action], Executor] = field(default_factory=dict)

    def table(self) -> dict[type[Action], Executor]:
        """Action type → its function, bound to these parts."""
        return {
            RunCommand: self._run_command,
            RunSequence: self._run_sequence,
            SendScpi: self._send_scpi,
            Scan: self._scan,
            ReadState: self._read_state,
            **self.more,
        }

    async def _run_command(self, action: RunCommand, target: Target, began: float) -> Done:
        instrument, command = target.aimed_command()
        if command.is_safe:
            self.on_safe(instrument.id, target.values, action.caller.on_behalf_of)
        if action.purpose is Purpose.SWEEP_STEP:
            return await self._run_step(action, target, began)
        if isinstance(command.returns, WaveformAnswer | ImageAnswer):
            captured = await self.captures.run(action, instrument, command, target)
            part, sent, links = captured.part, captured.sent, captured.links
        else:
            links = ()
            part, sent = await run_command(
                instrument,
                command,
                target.values,
                target.lines,
                action.purpose,
                guard=target.send_guard,
            )
        self.acquisitions.note(instrument.id, instrument.profile, command)
        data = {
            "success": True,
            **part,
            "scpi_command": "\n".join(target.lines),
            "execution_time_ms": self._since_ms(began),
        }
        return Done(data=data, scpi=sent, links=links)

    def ask(self, target: Target, waiter: Waiter) -> Talk:
        """See ``pending.Asking``."""
        instrument, command = target.aimed_command()
        return ask(instrument, command, target.values, target.lines, waiter)

    def answered(self, target: Target, reply: Reply, began: float) -> Done:
        """See ``pending.Asking``."""
        part = read_reply(reply)
        data = {
            "success": True,
            **part,
            "scpi_command": "\n".join(target.lines),
            "execution_time_ms": self._since_ms(began),
        }
        return Done(data=data, scpi=reply.sent)

    async def _run_step(self, action: RunCommand, target: Target, began: float) -> Done:
        """One step of a sweep, with the moment by which it had gone out."""
        instrument, command = target.aimed_command()
        written: list[float] = []
        part, sent = await run_command(
            instrument,
            command,
            target.values,
            target.lines,
            action.purpose,
            guard=at_one_meeting(action, instrument, target.send_guard),
            note_written=lambda: written.append(self.clock.monotonic()),
        )
        data = {
            "success": True,
            **part,
            "scpi_command": "\n".join(target.lines),
            "execution_time_ms": self._since_ms(began),
        }
        return Done(data=data, scpi=sent, written_at=max(written, default=0.0))

    async def _run_sequence(self, action: RunSequence, target: Target, began: float) -> Done:
        instrument, sequence = target.aimed_instrument(), target.aimed_sequence()
        steps = (*sequence.steps, *sequence.finally_steps)
        commands = instrument.profile.commands if instrument.profile is not None else {}
        done = await self.sequences.run(
            action,
            sequence,
            target.values,
            alone_on=instrument.id if is_sequence_writing(steps, commands) else "",
        )
        data = {
            "result": done.result,
            "steps_executed": done.steps_executed,
            "execution_time_ms": self._since_ms(began),
        }
        if done.recording is not None:
            data["recording"] = done.recording
        return Done(data=data, scpi=done.sent)

    async def _send_scpi(self, action: SendScpi, target: Target, began: float) -> Done:
        instrument = target.aimed_instrument()
        reply = await send_raw(
            instrument,
            target.lines,
            action.purpose,
            is_known=target.is_one_command,
            guard=target.send_guard,
        )
        for line in target.lines:
            self.acquisitions.note_raw(instrument.id, instrument.profile, line)
        data = {
            "response": reply.answer,
            "error": None,
            "execution_time_ms": self._since_ms(began),
        }
        return Done(data=data, scpi=reply.sent)

    async def _scan(self, _action: Scan, _target: Target, _began: float) -> Done:
        return Done(data=[self._summary(found) for found in await self.discovery.scan()])

    def _read_state(self, action: ReadState, _target: Target, _began: float) -> Done:
        match action.state:
            case CachedState.INSTRUMENTS:
                return Done(data=self._instruments(str(action.arguments.get("filter", ""))))
            case CachedState.CAPABILITIES:
                return Done(data=self._capabilities(action.arguments))
            case CachedState.PROFILES:
                return Done(data=self._profiles())
            case CachedState.STATUS:
                return Done(data=self.status())
        assert_never(action.state)

    def _instruments(self, wanted: str) -> list[dict[str, Any]]:
        """Entries in which some field holds the text, whatever its case."""
        entries = [self._summary(instrument) for instrument in self.pool.all()]
        text = wanted.casefold()
        return [e for e in entries if not text or _holds(e, text)]

    def _summary(self, instrument: Instrument) -> dict[str, Any]:
        lockout = self.lockout(instrument)
        return {**instrument.summary(), "lockout": lockout.to_json() if lockout else None}

    def _capabilities(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        wanted_id, wanted_class = arguments.get("instrument_id"), arguments.get("instrument_class")
        wrappers = self.wrappers()
        if wanted_id:
            named = [one for one in wrappers if one["instrument_id"] == wanted_id]
            if named:
                return named
            wrappers = []
        instruments = [self.pool.get(wanted_id)] if wanted_id else self.pool.all()
        entries = [
            capabilities_of(instrument, self.catalog, self.experience(instrument))
            for instrument in instruments
            if not wanted_class or instrument.instrument_class == wanted_class
        ]
        return entries + [
            one for one in wrappers if not wanted_class or one["instrument_class"] == wanted_class
        ]

    def _profiles(self) -> list[dict[str, Any]]:
        counts = Counter(i.profile.key for i in self.pool.all() if i.profile is not None)
        return [
            {
                "key": profile.key,
                "count": counts[profile.key],
                "manufacturer": profile.manufacturer,
                "model": profile.model,
                "instrument_class": profile.instrument_class,
                "version": profile.version,
                "commands": profile.command_count,
                "sequences": profile.sequence_count,
                "verified_on": list(self.verified_on(profile.key)),
            }
            for profile in self.profiles().values()
        ]

    def _since_ms(self, began: float) -> float:
        return round((self.clock.monotonic() - began) * 1000, 3)


def failure_shape(action: Action, target: Target | None, error: EdgedError, spent_ms: float) -> Any:
    """The data of a failed call in its tool's own shape; ``None`` where the tool has none.

    ``error`` is {message, remedy, sent} but for send_scpi, whose ``error`` is a text. A refusal is
    told by its error alone, and of send_scpi with what its callers read of every answer besides.
    """
    time_ms = round(spent_ms, 3)
    if not isinstance(error, Failed | Fault):
        if isinstance(action, SendScpi):
            return {"response": None, "error": _refusal(error), "execution_time_ms": time_ms}
        return None
    sent = list(error.sent) if isinstance(error, Failed) else []
    told = {"message": error.message, "remedy": error.remedy, "sent": sent}
    match action:
        case RunCommand():
            return {
                "success": False,
                "data": None,
                "scpi_command": "\n".join(target.lines) if target else "",
                "execution_time_ms": time_ms,
                "error": told,
            }
        case RunSequence():
            return {
                "result": None,
                "steps_executed": error.data.get("steps_executed", 0),
                "execution_time_ms": time_ms,
                "error": told,
            }
        case CallWrapper():
            return {
                "success": False,
                "data": None,
                "execution_time_ms": time_ms,
                "error": told,
            }
        case SendScpi():
            return {"response": None, "error": str(error), "execution_time_ms": time_ms}
        case StartStream():
            return failed_stream(error, told)
        case StartSweep():
            return failed_sweep(told)
        case _:
            return {"error": told}


def _refusal(error: EdgedError) -> dict[str, Any]:
    told: dict[str, Any] = {
        "code": error.code.value,
        "message": error.message,
        "remedy": error.remedy,
    }
    return {**told, "data": error.data} if error.data else told


def _holds(value: Any, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(inner, text) for inner in value.values())
    if isinstance(value, list | tuple):
        return any(_holds(inner, text) for inner in value)
    return text in str(value).casefold()
