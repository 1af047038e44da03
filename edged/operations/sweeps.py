"""Sweeps: starting one, how it stands, ending it; and the profile's own lines that they send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from edged.actions.action import Action, Check, Purpose, RunCommand, SendLines, StartSweep
from edged.actions.outcome import Done, Picture
from edged.actions.tool import ToolCall
from edged.commands.memory import Memory
from edged.commands.operation import Failure, Operation, bind
from edged.commands.rehearsal import Rehearsal, Spoken, spoken
from edged.commands.resolve import Resolver
from edged.commands.run import PRIORITY
from edged.commands.static_tool import (
    CALM,
    INSTRUMENT_ID,
    NUMBER,
    READ,
    STRING,
    WORK,
    Schema,
    StaticTool,
    command_of,
    integer_of,
    parameters_of,
    result_of,
    text_of,
)
from edged.commands.target import Target
from edged.errors import ErrorCode, Fault, NotFound
from edged.instruments.conversation import abort_conversation, raw_conversation
from edged.instruments.mailbox import Priority
from edged.plot.artist import Artist
from edged.plot.figure import Figure
from edged.record import record
from edged.runs.recordings.figures import table_figure
from edged.runs.sweeps.beginning import check_request
from edged.runs.sweeps.ramp import READBACK_EVERY_S
from edged.runs.sweeps.ramp_plan import RampPlan, SweptThing, next_step, steps_left
from edged.runs.sweeps.registry import Sweeps
from edged.runs.sweeps.request import Measure, SweepRequest
from edged.yaml.tree import Scalar


@record
class ReadSweep(Action):
    """Say how a sweep stands, with at most ``points`` rows."""

    sweep_id: str
    points: int = 0


@record
class DrawSweep(Action):
    """What ``ReadSweep`` says, and a picture of all rows besides."""

    sweep_id: str
    points: int = 0


@record
class StopSweep(Action):
    """End a sweep: park it (``hold``) or abort it."""

    sweep_id: str
    hold: bool = False


SWEEP_ID: Final[Schema] = {"type": "string", "description": "As start_sweep returned it."}


def start_sweep(call: ToolCall, check: Check) -> Action:
    """Scope is the command's name."""
    return StartSweep(**call.asked(check), **command_of(call.arguments))


def get_sweep_status(call: ToolCall, check: Check) -> Action:
    """State of a sweep; as png with a picture, which takes its time."""
    make = DrawSweep if call.arguments.get("format") == "png" else ReadSweep
    return make(
        **call.asked(check),
        sweep_id=text_of(call.arguments, "sweep_id"),
        points=integer_of(call.arguments, "points"),
    )


def stop_sweep(call: ToolCall, check: Check) -> Action:
    """Hold or abort."""
    return StopSweep(
        **call.asked(check),
        sweep_id=text_of(call.arguments, "sweep_id"),
        hold=call.arguments.get("hold") is True,
    )


MOST_DRAWN: Final = 10_000
"""Rows of a sweep; as many as are kept of one in memory."""
ABORT_S: Final = 4.0
"""What an abort may take, opening the line anew included; stopping the daemon waits 5 s in all."""
SLOWER: Final = "more and smaller ones where the instrument is slow, all within these values"
GRACE_S: Final = 30.0
"""A set-point is asked behind what waits on the line already."""


@record
class SweepOperations:
    """What they are run with.

    Attributes:
        note_stopped: told of each instrument whose abort is on its way.
        memory: what is known of settings; an abort sets some.
    """

    sweeps: Sweeps
    artist: Artist
    memory: Memory
    note_stopped: Callable[[str], None]

    def table(self) -> dict[type[Action], Operation]:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    async def start(self, action: StartSweep, target: Target, _began: float) -> Done:
        """Begin one, and return."""
        thing, request, measures = _wanted(action, target)
        return Done(data=await self.sweeps.start(action, thing, request, measures))

    async def rehearse(self, action: StartSweep, target: Target, rehearsal: Rehearsal) -> None:
        """What it would say: the question where it stands, its steps, and what it measures.

        From where it would ramp only the instrument can tell. A dry run asks it nothing: steps and
        duration are not known then, and the last step stands for all.
        """
        thing, request, measures = _wanted(action, target)
        check_request(thing, request, measures)
        fastest = thing.fastest
        bound = "" if fastest is None else f"{fastest:g} at most"
        rehearsal.check(f"sweep_rate {request.rate_per_s:g} {thing.parameter.unit}/s", bound)
        rehearsal.say(Spoken((thing.setpoint_query,)), target)
        rehearsal.check("present value", _ramp_told(thing, request), is_ok=None)
        readings = 1
        if rehearsal.asks_instrument:
            legs = await self.sweeps.forecast(action, thing, request)
            readings = _rehearse_ramp(action, thing, legs, rehearsal)
            readings = readings if request.points is None else len(legs) + 1
        else:
            rehearsal.step(_step(action, thing.command.name, thing.values, Purpose.SWEEP_STEP))
        for measure in measures:
            values, name = measure.parameters, measure.command.name
            rehearsal.check_values(measure.command.parameters, values)
            asked = _step(action, name, values, Purpose.MEASURE)
            rehearsal.step(replace(asked, instrument_id=measure.instrument.id), times=readings)
        self._rehearse_end(action, target, thing, request, rehearsal)
        rehearsal.steps = rehearsal.duration_s = None

    def _rehearse_end(
        self,
        action: StartSweep,
        target: Target,
        thing: SweptThing,
        request: SweepRequest,
        rehearsal: Rehearsal,
    ) -> None:
        """What it would say besides its steps: the last readback, and the abort where wanted."""
        if thing.plan.readback is not None:
            known, name = thing.profile, thing.plan.readback
            wanted = known.commands[name].parameters if known is not None else {}
            given = {key: value for key, value in thing.values.items() if key in wanted}
            rehearsal.step(_step(action, name, given, Purpose.MEASURE))
        lines = tuple(step.send for step in thing.abort_steps())
        wish = request.stop_when
        if wish is not None:
            sent = f": {', '.join(lines)}" if wish.then == "abort" else ""
            met = f"stop_when {wish.column} {wish.op} {wish.value:g}"
            rehearsal.check(met, f"{wish.then} then{sent}", is_ok=None)
        if request.is_abort_last and lines:
            connection = thing.instrument.connection
            asks = [proof.question for proof in thing.abort_proofs()]
            quiet = replace(connection, acknowledge=None)
            rehearsal.say(spoken(abort_conversation(lines, quiet, asks), connection), target)

    async def read(self, action: ReadSweep, _target: Target, _began: float) -> Done:
        """How one stands."""
        return Done(data=self.sweeps.read(action.sweep_id, action.points))

    async def draw(self, action: DrawSweep, _target: Target, _began: float) -> Done:
        """The same with a picture of all rows."""
        rows = self.sweeps.read(action.sweep_id, MOST_DRAWN)
        if not rows["columns"]:
            raise NotFound(
                f"{action.sweep_id} was found after a crash; its rows are in its recording.",
                code=ErrorCode.UNKNOWN_POINT,
                remedy="bench__plot draws them.",
            )
        figure = await asyncio.to_thread(_figure, rows)
        picture = await self.artist.draw(figure)
        data = self.sweeps.read(action.sweep_id, action.points)
        return Done(data=data, pictures=(Picture(mime="image/png", data=picture),))

    async def stop(self, action: StopSweep, _target: Target, _began: float) -> Done:
        """Park or abort one."""
        return Done(
            data=await self.sweeps.stop(action.sweep_id, action.caller.who, hold=action.hold)
        )

    async def send_lines(self, action: SendLines, target: Target, _began: float) -> Done:
        """The profile's own lines: an abort, a set-point query."""
        if action.purpose is Purpose.ABORT:
            self.note_stopped(target.instrument_id)
            return await self._abort(action, target)
        return await _ask(action, target)

    async def _abort(self, action: SendLines, target: Target) -> Done:
        """An abort goes before everything."""
        instrument = target.aimed_instrument()
        connection = instrument.connection
        asks = [question.question for question in action.asks]
        writing = self.memory.begin_abort(instrument, target.lines)
        try:
            obeyed = await instrument.converse(
                lambda: abort_conversation(target.lines, connection, asks, action.note_taken),
                priority=Priority.SAFE,
                timeout_s=ABORT_S,
                name=action.purpose.value,
                cause=action.cause,
                is_repeatable=True,
            )
            writing.done()
        finally:
            writing.over()
        self.memory.heard_answers(instrument, action.asks, obeyed.answers)
        return Done(data={"answer": None, "answers": list(obeyed.answers)}, scpi=obeyed.sent)


async def _ask(action: SendLines, target: Target) -> Done:
    """The profile's own question, in its turn."""
    instrument = target.aimed_instrument()
    connection = instrument.connection
    reply = await instrument.converse(
        lambda: raw_conversation(lines=target.lines, asks=True, connection=connection),
        priority=PRIORITY[action.purpose],
        timeout_s=connection.timeout_ms / 1000 + GRACE_S,
        name=target.lines[-1],
    )
    return Done(data={"answer": reply.answer}, scpi=reply.sent)


def _figure(told: Mapping[str, Any]) -> Figure:
    columns = [(str(column["name"]), str(column["unit"])) for column in told["columns"]]
    title = f"{told['sweep_id']}: {told['command_name']} of {told['instrument_id']}"
    return table_figure(title, columns, (tuple(row.values()) for row in told["points"]))


def failed_sweep(failure: Failure) -> dict[str, Any]:
    """start_sweep's result when nothing was started."""
    return {"sweep_id": "", "status": "failed", "error": failure.told}


def _wanted(
    action: StartSweep, target: Target
) -> tuple[SweptThing, SweepRequest, tuple[Measure, ...]]:
    """What is swept, how, and what is measured beside it.

    Raises:
        Invalid: see ``SweepRequest.read``.
    """
    instrument, command = target.aimed_command()
    if command.sweep is None:
        raise Fault("A command that cannot be swept reached the sweeps.")
    thing = SweptThing(
        instrument=instrument,
        command=command,
        plan=command.sweep,
        values=target.values,
        profile=instrument.profile,
    )
    return thing, SweepRequest.read(action.arguments), tuple(map(_measure, target.inner))


def _ramp_told(thing: SweptThing, request: SweepRequest) -> str:
    """How it goes from there, for people."""
    unit = f" {thing.parameter.unit}" if thing.parameter.unit else ""
    step = request.rate_per_s * thing.plan.interval_ms / 1000
    told = (
        f"queried first; then to {request.target_value:g}{unit} in steps of about {step:g}{unit} "
        f"every {thing.plan.interval_ms} ms, of which would_send has the last"
    )
    if request.points is not None:
        spacing = "log" if request.points.is_log else "linear"
        told += f"; read at {request.points.count} set-points only, {spacing} from there"
    return f"{told}; each is read after {request.rest_s:g} s" if request.rest_s else told


def _rehearse_ramp(
    action: StartSweep, thing: SweptThing, legs: Sequence[RampPlan], rehearsal: Rehearsal
) -> int:
    """The first and the last step of a ramp, which bound all between them; returns how many."""
    outgoing = rehearsal.outgoing
    start, target = legs[0].start, legs[-1].target
    outgoing.ramp = (min(start, target), max(start, target))
    outgoing.later["the number of its steps"] = SLOWER
    if thing.plan.readback is not None:
        outgoing.later[thing.plan.readback] = f"asked every {READBACK_EVERY_S:g} s at most"
    count = sum(steps_left(leg, leg.start) for leg in legs)
    firsts = (next_step(leg, leg.start) for leg in legs)
    first = next((value for value in firsts if value is not None), target)
    for value, times in ((first, count - 1), (target, min(count, 1))):
        if times > 0:
            values = thing.at(value)
            step = _step(action, thing.command.name, values, Purpose.SWEEP_STEP)
            rehearsal.step(step, times=times)
    return count


def _step(
    action: StartSweep, name: str, values: Mapping[str, Scalar], purpose: Purpose
) -> RunCommand:
    """A step of a sweep that is rehearsed, as ``Ramp`` makes those of one that runs."""
    return RunCommand(
        tool=action.tool,
        caller=action.caller.nested(
            tool=action.tool, scope=action.command_name, on_behalf_of=action.action_id
        ),
        action_id=action.action_id,
        parent_id=action.action_id,
        instrument_id=action.instrument_id,
        command_name=name,
        parameters=values,
        purpose=purpose,
    )


def _measure(target: Target) -> Measure:
    instrument, command = target.aimed_command()
    return Measure(instrument=instrument, command=command, parameters=target.values)


SWEEP: Final = (
    "sweep_id", "status", "instrument_id", "alias", "command_name", "parameter", "unit",
    "parameters", "start_value", "current_value", "set_value", "target_value", "sweep_rate",
    "elapsed_s", "behind_s", "why_late", "steps", "steps_left", "rows", "reason", "notes",
    "needs_attention", "abort", "started_ms", "who", "recording", "columns", "points",
)  # fmt: skip
"""The members of get_sweep_status's result."""


OPERATIONS: Final = (
    Operation(
        action=StartSweep,
        run=SweepOperations.start,
        rehearse=SweepOperations.rehearse,
        aim=Resolver.sweep,
        failed=failed_sweep,
        tool=StaticTool(
            name="start_sweep",
            title="Ramp a set-point",
            description=(
                "Ramp one set-point from its present value to target_value at sweep_rate in "
                "small checked steps; returns at once. get_sweep_status follows it, stop_sweep "
                "ends it. `measure` reads at each step (an IV curve is one call), with `points` "
                "only at that many set-points (log: a Bode plot); `stop_when` ends it on a "
                "reading. The only way for commands marked requires_sweep."
            ),
            schema=parameters_of(
                ("instrument_id", "command_name", "target_value", "sweep_rate"),
                instrument_id=INSTRUMENT_ID,
                command_name={"type": "string", "description": "The setter to sweep."},
                target_value={"type": "number", "description": "In the parameter's own unit."},
                sweep_rate={"type": "number", "minimum": 0, "description": "Units per second."},
                parameters={
                    "type": "object",
                    "description": "The other parameters, such as the channel.",
                },
                measure={
                    "type": "array",
                    "maxItems": 32,
                    "description": "Queries; each adds a column.",
                    "items": parameters_of(
                        ("instrument_id", "command_name"),
                        instrument_id=STRING,
                        command_name=STRING,
                        parameters={"type": "object"},
                    ),
                },
                settle_ms={
                    "type": "number",
                    "minimum": 0,
                    "maximum": 3_600_000,
                    "description": "After each step.",
                },
                stop_when=parameters_of(
                    ("column", "op", "value", "then"),
                    column={
                        "type": "string",
                        "description": "set, or a measure's command_name (alias.command_name if "
                        "two share it), .field behind it.",
                    },
                    op={"type": "string", "enum": ["<", "<=", ">", ">=", "==", "!="]},
                    value=NUMBER,
                    then={"type": "string", "enum": ["hold", "abort"]},
                ),
                points=parameters_of(
                    ("count",),
                    count={"type": "integer", "minimum": 2, "maximum": 10_000},
                    spacing={"type": "string", "enum": ["linear", "log"], "default": "linear"},
                ),
                dwell_ms={
                    "type": "number",
                    "minimum": 0,
                    "maximum": 3_600_000,
                    "description": "At each set-point before it is read.",
                },
                then={
                    "type": "string",
                    "enum": ["hold", "abort"],
                    "default": "hold",
                    "description": "At the target: leave the output, or make it safe.",
                },
            ),
            accepts={"sweep_rate": {"type": "number", "exclusiveMinimum": 0}},
            output=result_of("sweep_id", "status"),
            annotations=WORK,
            make=start_sweep,
            takes_dry_run=True,
        ),
    ),
    Operation(
        action=ReadSweep,
        run=SweepOperations.read,
        tool=StaticTool(
            name="get_sweep_status",
            title="State of a sweep",
            description=(
                "A sweep's status, current value, delay (behind_s, why_late), why it ended "
                "(reason) or failed (error); points: n adds at most n of its rows, evenly "
                "spread. Sends nothing."
            ),
            schema=parameters_of(
                ("sweep_id",),
                sweep_id=SWEEP_ID,
                points={"type": "integer", "minimum": 0, "maximum": 10_000},
                format={
                    "type": "string",
                    "enum": ["json", "png"],
                    "default": "json",
                    "description": "png adds a picture of all rows.",
                },
            ),
            output=result_of(*SWEEP),
            annotations=READ,
            make=get_sweep_status,
        ),
    ),
    Operation(action=DrawSweep, run=SweepOperations.draw),
    Operation(
        action=StopSweep,
        run=SweepOperations.stop,
        tool=StaticTool(
            name="stop_sweep",
            description=(
                "End a sweep now, from any session. hold: true leaves the output at its value; "
                "otherwise its abort makes it safe, before all other work on the line, also if "
                "it has completed (aborted says whether it did). still_on lists what is on."
            ),
            schema=parameters_of(
                ("sweep_id",),
                sweep_id=SWEEP_ID,
                hold={"type": "boolean", "description": "Leave the output as it is."},
            ),
            output=result_of(
                "sweep_id", "status", "was", "current_value", "reason", "aborted", "still_on", "who"
            ),
            annotations=CALM,
            make=stop_sweep,
        ),
    ),
    Operation(action=SendLines, run=SweepOperations.send_lines, aim=Resolver.own_lines),
)
