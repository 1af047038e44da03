"""Commands, sequences and raw lines of one instrument."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from edged.actions.action import (
    Action,
    Check,
    Purpose,
    RunCommand,
    RunSequence,
    SendProgram,
    SendScpi,
)
from edged.actions.outcome import Done
from edged.actions.tool import ToolCall
from edged.clock import Clock
from edged.commands.capture import Captures, would_capture
from edged.commands.freshness import MEASUREMENT, Acquisitions, notes_of
from edged.commands.memory import Memory, Remembering, Use, Writing
from edged.commands.operation import Failure, Operation, bind
from edged.commands.pending import Running
from edged.commands.policy import beyond_profile
from edged.commands.rehearsal import Rehearsal
from edged.commands.resolve import Resolver
from edged.commands.run import CommandJob, ProgramJob, RawJob, answer_form, at_one_meeting
from edged.commands.static_tool import (
    BOOLEAN,
    INSTRUMENT_ID,
    PARAMETERS,
    WORK,
    StaticTool,
    command_of,
    mapping_of,
    parameters_of,
    result_of,
    text_of,
)
from edged.commands.target import Target
from edged.errors import Failed, Invalid
from edged.instruments.conversation import Reply, only_question
from edged.instruments.instrument import Instrument
from edged.profiles.answers import parse_answer
from edged.profiles.expr import compile_expression
from edged.profiles.model import Command, ImageAnswer, WaveformAnswer, is_sequence_writing
from edged.profiles.raw import RawPart, asks
from edged.profiles.template import render_lines
from edged.record import record
from edged.runs.registry import Late
from edged.scpi.answer_text import clean_text, escaped
from edged.yaml.tree import Scalar

if TYPE_CHECKING:
    from edged.runs.sequences.registry import Sequences

UNCHECKED: Final = "not checked for raw lines; `RAW_SCPI: known` in the configuration checks them"

NOTED: Final = frozenset({Purpose.CALL, Purpose.MEASURE, Purpose.STREAM_POINT})
"""Why a measurement is run whose notes somebody sees."""
OVERLOADS: Final[Mapping[str, str]] = {
    "over_range": "over range: what was measured is larger than the range",
    "under_range": "under range: what was measured is below the range",
}
"""What is noted of a value that the instrument itself marks as an overload, by its flag."""

OnSafe = Callable[[str, Mapping[str, object], str], None]


def execute_command(call: ToolCall, check: Check) -> Action:
    """Scope is the command's name."""
    expects = call.arguments.get("is_query")
    return RunCommand(
        **call.asked(check),
        **command_of(call.arguments),
        expects_query=expects if isinstance(expects, bool) else None,
    )


def execute_sequence(call: ToolCall, check: Check) -> Action:
    """Scope is the sequence's name."""
    sequence_name = text_of(call.arguments, "sequence_name")
    return RunSequence(
        **call.asked(check),
        scope=sequence_name,
        instrument_id=text_of(call.arguments, "instrument_id"),
        sequence_name=sequence_name,
        parameters=mapping_of(call.arguments, "parameters"),
        is_detached=call.arguments.get("detach") is True,
    )


def send_scpi(call: ToolCall, check: Check) -> Action:
    """One raw line."""
    expects = call.arguments.get("expect_answer")
    return SendScpi(
        **call.asked(check),
        instrument_id=text_of(call.arguments, "instrument_id"),
        scpi=text_of(call.arguments, "scpi_command"),
        expects_answer=expects if isinstance(expects, bool) else None,
    )


@record
class CommandOperations:
    """What they are run with.

    Attributes:
        captures: runs commands that answer with a block.
        acquisitions: told of what is carried out, so that a capture can say whether it is fresh.
        memory: what is known of settings, so that a result can say what it replaced.
        on_safe: told of each safe command before it is sent: instrument, values, on whose behalf.
    """

    sequences: Late[Sequences]
    captures: Captures
    clock: Clock
    acquisitions: Acquisitions
    memory: Memory
    on_safe: OnSafe

    def table(self) -> dict[type[Action], Operation]:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    def run_command(self, action: RunCommand, target: Target, began: float) -> Running:
        """One command: a question, a capture, a setting, or a step of a sweep."""
        instrument, command = target.aimed_command()
        if instrument.timer is not None and not command.is_safe:
            instrument.timer.check_pace(command)
        if command.is_safe:
            self.on_safe(instrument.id, target.values, action.caller.on_behalf_of)
        if isinstance(command.returns, WaveformAnswer | ImageAnswer):
            return self._capture(action, target, began)
        remembers = None
        if target.is_write:
            remembers = Remembering(partial(self.memory.begin, instrument, command, target.lines))
        elif target.teaches:
            self.memory.begin_question(instrument, command)
        written: list[float] = []
        is_step = action.is_ramp_step

        doing: list[str] = []
        profile = instrument.profile
        is_acquiring = profile is not None and profile.acquisition is not None
        question = _what_it_does(instrument, command) if is_acquiring else ""
        held: list[str] = []
        limit_query = (
            self._limit_query(action, instrument, command, target) if command.is_query else ""
        )

        def finish(part: Mapping[str, Any], reply: Reply) -> Done:
            writing = None if remembers is None else remembers.writing
            part = self._with_memory(instrument, command, target, part, reply, writing)
            if target.is_write:
                self._note_writer(action, instrument, target)
            if held or part.get("flag") is not None:
                part = _with_limits(target, part, held)
            if doing:
                part = self._with_freshness(instrument, part, doing[-1])
            done = self._done(instrument, command, target.lines, began, part, reply.sent)
            # The moment by which a step of a ramp had gone out.
            done.written_at = max(written) if written else 0.0
            return done

        guard = target.send_guard
        job = CommandJob(
            instrument,
            command,
            target.values,
            target.lines,
            # A step that went before all others would break off what is on the line each time.
            Purpose.SWEEP_STEP if is_step else action.purpose,
            guard=at_one_meeting(action, instrument, guard) if is_step else guard,
            timer=target.timer,
            limits_s=target.limits_s,
            ask=target.ask,
            note_written=(lambda: written.append(self.clock.monotonic())) if is_step else None,
            finish=finish,
            remembers=remembers,
            asks_first=(question, doing.append) if question else None,
            asks_last=(limit_query, held.append) if limit_query else None,
        )
        if target.judged_at is not None and target.limits_s is None and not target.is_write:
            target.limits_s = job.limits_s
            target.ask = only_question(target.lines, command, instrument.connection)
            target.teaches = self.memory.learns_from(instrument, command, target.lines)
        return job.finished_by_any_line() if command.is_safe and instrument.others else job

    def _with_memory(
        self,
        instrument: Instrument,
        command: Command,
        target: Target,
        part: Mapping[str, Any],
        reply: Reply,
        writing: Writing | None,
    ) -> Mapping[str, Any]:
        """The result with what is known of what was there before, or is off."""
        if writing is not None:
            writing.done(None if command.is_query else part["data"]["readback"])
            return {**part, "previous": writing.previous} if writing.previous else part
        notes = self.memory.notes(instrument, command, target.values)
        if target.teaches and not self.memory.heard_output(instrument, target.lines, reply.answer):
            self.memory.heard(instrument, command, target.lines, part["data"])
        return {**part, "notes": notes} if notes else part

    def _limit_query(
        self, action: RunCommand, instrument: Instrument, command: Command, target: Target
    ) -> str:
        """The query whether a limit holds back what is measured; empty: it is not asked.

        Sequences have steps of their own for that.
        """
        profile = instrument.profile
        if profile is None or profile.limited is None or action.purpose not in NOTED:
            return ""
        telling = profile.commands[profile.limited.command]
        if command is telling or not telling.parameters.keys() <= target.values.keys():
            return ""
        if not self.memory.measures_on(instrument, command, target.values):
            return ""
        values = {name: target.values[name] for name in telling.parameters}
        return render_lines(telling, values)[-1]

    def _with_freshness(
        self, instrument: Instrument, part: Mapping[str, Any], doing: str
    ) -> Mapping[str, Any]:
        """The result with whether what was measured in a trace is of now."""
        profile = instrument.profile
        if profile is None or profile.acquisition is None:
            return part
        is_now = self.acquisitions.is_now(instrument.id, profile.acquisition, doing)
        notes = notes_of(is_now, MEASUREMENT)
        return {**part, "notes": [*part.get("notes", ()), *notes]} if notes else part

    async def _capture(self, action: RunCommand, target: Target, began: float) -> Done:
        instrument, command = target.aimed_command()
        writing = None
        if target.is_write:
            writing = self.memory.begin(instrument, command, target.lines)
        else:
            self.memory.begin_question(instrument, command)
        try:
            captured = await self.captures.run(action, instrument, command, target)
        finally:
            if writing is not None:
                writing.over()
        done = self._done(instrument, command, target.lines, began, captured.part, captured.sent)
        done.links = captured.links
        done.pictures = captured.pictures
        return done

    def _done(
        self,
        instrument: Instrument,
        command: Command,
        lines: tuple[str, ...],
        began: float,
        part: Mapping[str, Any],
        sent: tuple[str, ...],
    ) -> Done:
        if instrument.profile is not None and instrument.profile.acquisition is not None:
            self.acquisitions.note(instrument.id, instrument.profile, command, lines)
        data = {
            "success": True,
            **part,
            "scpi_command": "\n".join(lines),
            "execution_time_ms": round((self.clock.monotonic() - began) * 1000, 3),
        }
        return Done(data=data, scpi=sent)

    async def run_sequence(self, action: RunSequence, target: Target, began: float) -> Done:
        """One sequence, to its end; a detached one until it is under way."""
        sequence, alone_on = target.aimed_sequence(), _alone_on(target)
        sequences = await self.sequences.come()
        if action.is_detached:
            run_id = await sequences.detach(action, sequence, target.values, alone_on=alone_on)
            under_way = {"run_id": run_id, "status": "running", "result": None, "steps_executed": 0}
            return Done(data={**under_way, "execution_time_ms": self._since_ms(began)})
        done = await sequences.run(action, sequence, target.values, alone_on=alone_on)
        data: dict[str, Any] = {
            "run_id": done.run_id,
            "status": "completed",
            "result": done.result,
            "steps_executed": done.steps_executed,
            "execution_time_ms": self._since_ms(began),
        }
        if done.recording is not None:
            data["recording"] = done.recording
        if done.notes:
            data["notes"] = list(done.notes)
        return Done(data=data, scpi=done.sent)

    def send_scpi(self, action: SendScpi, target: Target, began: float) -> Running:
        """One raw line."""
        instrument = target.aimed_instrument()
        remembers = Remembering(lambda: self.memory.begin_raw(instrument, target.parts))

        def finish(reply: Reply) -> Done:
            self._note_raw(action, target, remembers, reply.answer)
            data: dict[str, Any] = {
                "response": reply.answer,
                "error": None,
                "execution_time_ms": self._since_ms(began),
            }
            if reply.unasked:
                data["warning"] = _unasked(reply.unasked, instrument)
            return Done(data=data, scpi=reply.sent)

        return RawJob(
            instrument,
            target.lines,
            action.purpose,
            is_known=target.is_one_command,
            form=answer_form(target),
            asks=action.expects_answer,
            guard=target.send_guard,
            timer=target.timer,
            finish=finish,
            remembers=remembers,
        )

    def send_program(self, action: SendProgram, target: Target, _began: float) -> Running:
        """One message of a program that knows VISA; what it is answered is bytes."""
        instrument = target.aimed_instrument()
        remembers = Remembering(lambda: self.memory.begin_raw(instrument, target.parts))

        def finish(reply: Reply) -> Done:
            answer = None if reply.block is None else bytes(reply.block).decode("latin-1")
            self._note_raw(action, target, remembers, answer)
            data = {
                "block": reply.block,
                "stale_errors": reply.stale_errors,
                "came": reply.came,
                "may_answer": reply.may_answer,
            }
            return Done(data=data, scpi=reply.sent)

        return ProgramJob(
            action,
            target,
            asks=asks(instrument.profile, action.scpi),
            finish=finish,
            remembers=remembers,
        )

    def _note_raw(
        self, action: SendScpi, target: Target, remembers: Remembering, answer: str | None
    ) -> None:
        """Remember what a raw line has done, and what it was answered about an output."""
        instrument = target.aimed_instrument()
        if remembers.writing is not None:
            remembers.writing.done()
        self.memory.heard_output(instrument, _as_the_profile_writes(target), answer)
        self._note_writer(action, instrument, target)
        self.acquisitions.note_raw(instrument.id, instrument.profile, action.scpi)

    def rehearse_command(self, action: RunCommand, target: Target, rehearsal: Rehearsal) -> None:
        """What ``run_command`` would say."""
        instrument, command = target.aimed_command()
        self._rehearse_outputs(action, target, rehearsal)
        if isinstance(command.returns, WaveformAnswer | ImageAnswer):
            rehearsal.say(would_capture(instrument, command, target.values), target)
            return
        question = _what_it_does(instrument, command)
        limit_query = (
            self._limit_query(action, instrument, command, target) if command.is_query else ""
        )
        job = CommandJob(
            instrument,
            command,
            target.values,
            target.lines,
            action.purpose,
            guard=None,
            finish=_nothing_done,
            asks_first=(question, _nothing_heard) if question else None,
            asks_last=(limit_query, _nothing_heard) if limit_query else None,
        )
        rehearsal.set_going(action, target)
        rehearsal.say(job.would_say(), target)

    async def rehearse_sequence(
        self, action: RunSequence, target: Target, rehearsal: Rehearsal
    ) -> None:
        """What ``run_sequence`` would say, as far as it hangs on no answer."""
        sequence = target.aimed_sequence()
        sequences = await self.sequences.come()
        held = sequences.held_by(sequence, _alone_on(target))
        if held is not None:
            rehearsal.conflicts.append(held)
        told = await sequences.rehearse(action, sequence, target.values, rehearsal.step)
        rehearsal.steps = told.steps
        if rehearsal.duration_s is not None:
            rehearsal.duration_s += told.waits_s
        for what, why in told.later.items():
            rehearsal.check(what, why, is_ok=None)
        rehearsal.outgoing.later.update(told.later)

    def rehearse_raw(self, action: SendScpi, target: Target, rehearsal: Rehearsal) -> None:
        """What ``send_scpi`` would say."""
        instrument = target.aimed_instrument()
        for part in target.parts:
            self._rehearse_part(part, target, rehearsal)
        self._rehearse_outputs(action, target, rehearsal)
        if target.is_unlimited and not target.is_reading:
            rehearsal.check("the profile's limits", UNCHECKED, is_ok=None)
        job = RawJob(
            instrument,
            target.lines,
            action.purpose,
            is_known=target.is_one_command,
            asks=action.expects_answer,
            guard=None,
            finish=_nothing_done,
        )
        rehearsal.set_going(action, target)
        rehearsal.say(job.would_say(), target)

    def rehearse_program(self, action: SendProgram, target: Target, rehearsal: Rehearsal) -> None:
        """What ``send_program`` would say."""
        profile = target.aimed_instrument().profile
        job = ProgramJob(action, target, asks=asks(profile, action.scpi), finish=_nothing_done)
        rehearsal.set_going(action, target)
        rehearsal.say(job.would_say(), target)
        rehearsal.outgoing.add_data(action.data)

    def _rehearse_part(self, part: RawPart, target: Target, rehearsal: Rehearsal) -> None:
        """What one message of a raw line is, and what the profile would say of it."""
        instrument, checks = target.aimed_instrument(), target.profile_checks
        names = ", ".join(match.command.name for match in part.matches)
        # Nobody knows what it does, or whether it is answered; or nobody holds it to a limit.
        is_judged = bool(names) and (part.is_harmless or not target.is_unlimited)
        known = names or "the profile does not know it"
        rehearsal.check(part.text, known, is_ok=True if is_judged else None)
        if names and checks is not None and not is_judged:
            beyond = beyond_profile(part, instrument.rules, checks)
            if beyond:
                rehearsal.check(f"{part.text} as the profile has it", beyond, is_ok=None)

    def _rehearse_outputs(
        self, action: RunCommand | SendScpi, target: Target, rehearsal: Rehearsal
    ) -> None:
        """How the outputs stand that it is about, and who else has set them."""
        instrument, use = target.aimed_instrument(), self._use(action)
        for command, values in _writes_of(target):
            for known in self.memory.outputs(instrument, command, values):
                rehearsal.check(f"{known} now", "as last known", is_ok=None)
            for name, last in self.memory.set_by_others(instrument, command, values, use):
                minutes = (use.at_ms - last.at_ms) // 60_000
                message = f"{name} is on, and {last.who} set it {minutes} min ago."
                data = {"output": name, "who": last.who, "since_ms": last.at_ms}
                rehearsal.information[message] = data

    def _note_writer(
        self, action: RunCommand | SendScpi, instrument: Instrument, target: Target
    ) -> None:
        """Keep who has set something, for the dry runs of others."""
        use = self._use(action)
        for command, values in _writes_of(target):
            self.memory.note_writer(instrument, command, values, use)

    def _use(self, action: Action) -> Use:
        return Use(action.caller.who, self.clock.wall_ns() // 1_000_000)

    def _since_ms(self, began: float) -> float:
        return round((self.clock.monotonic() - began) * 1000, 3)


def _unasked(came: Sequence[tuple[str, bytes]], instrument: Instrument) -> str:
    """The warning about what came that nobody expected."""
    answered, behind = [], []
    for line, data in came:
        text = data.decode(instrument.connection.encoding, errors="replace").strip()
        shown = clean_text(escaped(text))
        if asks(instrument.profile, line):
            behind.append(f'"{shown}" came behind the answer to "{line[:200]}".')
        else:
            answered.append(f'"{line[:200]}" was answered by "{shown}"')
    if answered:
        behind.insert(
            0,
            f"{'; '.join(answered)}, though no answer was expected. Pass expect_answer true to get "
            "it as response.",
        )
    return " ".join(behind)


def _writes_of(target: Target) -> list[tuple[Command, Mapping[str, Scalar]]]:
    """The commands in a call that set something, with their values."""
    found: list[tuple[Command, Mapping[str, Scalar]]] = []
    if target.command is not None and target.is_write:
        found.append((target.command, target.values))
    for part in target.parts:
        writing = [match for match in part.matches if match.command.is_write]
        found += [(match.command, values) for match in writing for values in match.readings[:1]]
    return found


def _with_limits(target: Target, part: Mapping[str, Any], held: Sequence[str]) -> Mapping[str, Any]:
    """The result with what held its value back: its own flag, or what the instrument says.

    Args:
        held: the answer to ``_limit_query``, if that was asked.
    """
    flag = part.get("flag")
    flags = {*flag.values()} if isinstance(flag, Mapping) else {flag}
    notes = [note for name, note in OVERLOADS.items() if name in flags]
    profile = target.aimed_instrument().profile
    if held and profile is not None and profile.limited is not None:
        limited = profile.limited
        # What cannot be read tells nothing; the measurement itself is good.
        with contextlib.suppress(Failed, Invalid):
            told = parse_answer(profile.commands[limited.command].returns, held[-1]).value
            names = told if isinstance(told, Mapping) else {"value": told}
            if compile_expression(limited.when).is_true({**target.values, **names}):
                notes.append(limited.note)
    return {**part, "notes": [*part.get("notes", ()), *notes]} if notes else part


def _as_the_profile_writes(target: Target) -> tuple[str, ...]:
    """The lines of a raw query in the spelling of its command; others as they are."""
    if len(target.parts) == 1 and target.parts[0].is_query and len(target.parts[0].matches) == 1:
        (match,) = target.parts[0].matches
        if match.is_certain and len(match.readings) == 1 and len(match.command.scpi) == 1:
            return render_lines(match.command, match.readings[0])
    return target.lines


def _what_it_does(instrument: Instrument, command: Command) -> str:
    """The question whether an oscilloscope captures, where that makes a measurement one of now.

    By its name: what measures in a trace has no other mark in a profile.
    """
    profile = instrument.profile
    if profile is None or profile.acquisition is None or not command.is_query:
        return ""
    return profile.acquisition.ask if command.name.startswith("measure_") else ""


def _nothing_heard(_answer: str) -> None:
    """Of a rehearsal nothing is heard."""


def _nothing_done(*_came: object) -> Done:
    """Of a rehearsal nothing comes."""
    return Done(data=None)


def _alone_on(target: Target) -> str:
    """On which instrument no other such sequence may run meanwhile; empty where any may."""
    instrument, sequence = target.aimed_instrument(), target.aimed_sequence()
    steps = (*sequence.steps, *sequence.finally_steps)
    commands = instrument.profile.commands if instrument.profile is not None else {}
    return instrument.id if is_sequence_writing(steps, commands) else ""


def failed_command(failure: Failure) -> dict[str, Any]:
    """execute_command's result."""
    return {
        "success": False,
        "data": None,
        "scpi_command": "\n".join(failure.target.lines) if failure.target else "",
        "execution_time_ms": failure.time_ms,
        "error": failure.told,
    }


RUN_KEYS: Final = ("run_id", "left")


def failed_sequence(failure: Failure) -> dict[str, Any]:
    """execute_sequence's result."""
    known: dict[str, Any] = {
        key: failure.error.data[key] for key in RUN_KEYS if key in failure.error.data
    }
    return {
        **known,
        "result": None,
        "steps_executed": failure.error.data.get("steps_executed", 0),
        "execution_time_ms": failure.time_ms,
        "error": failure.told,
    }


def failed_raw(failure: Failure) -> dict[str, Any]:
    """send_scpi's result, of a refusal as of a failure."""
    return {"response": None, "error": failure.told, "execution_time_ms": failure.time_ms}


COMMAND_RESULT: Final = (
    "success", "data", "unit", "flag", "primary", "previous", "notes", "scpi_command",
    "execution_time_ms",
)  # fmt: skip
"""The members of execute_command's result."""
SEQUENCE_RESULT: Final = (
    "run_id", "status", "result", "notes", "left", "recording", "steps_executed",
    "execution_time_ms",
)  # fmt: skip
"""The members of execute_sequence's result."""


OPERATIONS: Final = (
    Operation(
        action=RunCommand,
        run=CommandOperations.run_command,
        rehearse=CommandOperations.rehearse_command,
        aim=Resolver.command,
        failed=failed_command,
        tool=StaticTool(
            name="execute_command",
            title="Run one command",
            description=(
                "Run one profile command on one instrument, checked against the profile's "
                "limits before anything is sent. Commands marked requires_sweep need "
                "start_sweep."
            ),
            schema=parameters_of(
                ("instrument_id", "command_name"),
                instrument_id=INSTRUMENT_ID,
                command_name={"type": "string", "description": "As get_capabilities lists it."},
                parameters=PARAMETERS,
                is_query=BOOLEAN,
            ),
            output=result_of(*COMMAND_RESULT),
            annotations=WORK,
            make=execute_command,
            takes_dry_run=True,
        ),
    ),
    Operation(
        action=RunSequence,
        run=CommandOperations.run_sequence,
        rehearse=CommandOperations.rehearse_sequence,
        aim=Resolver.sequence,
        failed=failed_sequence,
        tool=StaticTool(
            name="execute_sequence",
            title="Run a sequence",
            description=(
                "Run a sequence of the profile: a whole measurement that leaves the instrument "
                "safe, also when a step fails or you disconnect. With detach it goes on without "
                "you; bench__runs has its data."
            ),
            schema=parameters_of(
                ("instrument_id", "sequence_name"),
                instrument_id=INSTRUMENT_ID,
                sequence_name={"type": "string", "description": "As get_capabilities lists it."},
                parameters=PARAMETERS,
                detach={"type": "boolean", "description": "Return at once with run_id."},
            ),
            output=result_of(*SEQUENCE_RESULT),
            annotations=WORK,
            make=execute_sequence,
            cancels_on_disconnect=True,
            takes_dry_run=True,
        ),
    ),
    Operation(
        action=SendScpi,
        run=CommandOperations.send_scpi,
        rehearse=CommandOperations.rehearse_raw,
        aim=Resolver.raw,
        failed=failed_raw,
        refused=failed_raw,
        tool=StaticTool(
            name="send_scpi",
            title="Send raw SCPI",
            description=(
                "Send one raw SCPI line. By default (RAW_SCPI: all) NO limit of the profile is "
                "checked, only the owner's bench file holds; RAW_SCPI: known checks them. "
                "Commands marked requires_sweep are refused; where the owner has rules for the "
                "unit, so are unknown lines. Dangerous: prefer execute_command."
            ),
            schema=parameters_of(
                ("instrument_id", "scpi_command"),
                instrument_id=INSTRUMENT_ID,
                scpi_command={"type": "string", "maxLength": 4096},
                expect_answer={**BOOLEAN, "description": "Default: if it has a ?"},
            ),
            accepts={"scpi_command": {"type": "string", "minLength": 1, "maxLength": 4096}},
            output=result_of("response", "warning", "execution_time_ms"),
            annotations=WORK,
            make=send_scpi,
            takes_dry_run=True,
        ),
    ),
    Operation(
        action=SendProgram,
        run=CommandOperations.send_program,
        rehearse=CommandOperations.rehearse_program,
        aim=Resolver.program,
    ),
)
