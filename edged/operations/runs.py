"""What was measured: the list of runs, the rows of one, its picture, and its end by one id.

A run is any sweep, stream or sequence, under way or over; its rows are on the disk, and how it
stands is known best by those who have it in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edged.actions.action import Action, Check
from edged.actions.caller import Caller
from edged.actions.outcome import Done, Picture
from edged.actions.tool import ToolCall
from edged.commands.operation import Operation, bind
from edged.commands.static_tool import (
    BOOLEAN,
    CALM,
    READ,
    STRING,
    Schema,
    StaticTool,
    fitting,
    parameters_of,
    text_of,
)
from edged.commands.target import Target
from edged.errors import ErrorCode, Invalid, NotFound
from edged.plot.artist import Artist
from edged.record import record
from edged.runs.recordings.figures import described, plot_wish, run_figure
from edged.runs.recordings.reader import list_runs, page_of_run, tables_of, view_of_run
from edged.runs.recordings.registry import RunRegistry
from edged.runs.recordings.table import PageWish
from edged.runs.registry import Registry
from edged.runs.run_head import RunKind, RunNow
from edged.runs.streams.waveforms import WaveformRegistry


@record
class ReadRuns(Action):
    """List the runs, or give rows of one."""


@record
class PlotRun(Action):
    """Draw a run or a waveform."""


@record
class StopRun(Action):
    """End a run, whatever it is."""

    run_id: str
    hold: bool = False


def stop_run(call: ToolCall, check: Check) -> Action:
    """The end of a run."""
    return StopRun(
        **call.asked(check),
        run_id=text_of(call.arguments, "run_id"),
        hold=call.arguments.get("hold") is True,
    )


RUNS_UNLESS_ASKED: Final = 20
ROWS_UNLESS_ASKED: Final = 100
MOST_RUNS: Final = 1_000
MOST_ROWS: Final = 10_000
RUN_ID: Final[Schema] = {"type": "string", "description": "sweep_id, stream_id or run_id."}
COLUMN: Final[Schema] = {"type": "string"}
COLUMNS: Final[Schema] = {"type": "array", "items": COLUMN}


@record
class RunOperations:
    """What they are run with."""

    runs: RunRegistry
    registry: Registry
    waveforms: WaveformRegistry
    artist: Artist

    def table(self) -> dict[type[Action], Operation]:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    async def read(self, action: ReadRuns, _target: Target, _began: float) -> Done:
        """The newest runs, or rows of one."""
        run_id = action.arguments.get("run_id")
        if run_id is None:
            return Done(data=await self._listed(action.caller, action.arguments))
        return Done(data=await self._rows(action.caller, str(run_id), action.arguments))

    async def plot(self, action: PlotRun, _target: Target, _began: float) -> Done:
        """A picture, and a line of what it shows."""
        asked = action.arguments
        names = [str(asked[key]) for key in ("run_id", "stream_id") if key in asked]
        if len(names) != 1:
            raise Invalid("Say which: either run_id or stream_id.", data={"parameter": "run_id"})
        wish = plot_wish(asked)
        last = None if wish.x or wish.y else self.waveforms.last(names[0], action.caller)
        if last is not None:
            figure = await self.waveforms.figure(names[0], last, wish.title)
        else:
            await self.runs.written(names[0])
            figure = await self.runs.read_run(action.caller, run_figure, names[0], wish)
        picture = await self.artist.draw(figure)
        return Done(data=described(figure), pictures=(Picture(mime="image/png", data=picture),))

    async def stop(self, action: StopRun, _target: Target, _began: float) -> Done:
        """As its own stop does."""
        kind, told = await self._stopped(action.run_id, action.caller.who, hold=action.hold)
        return Done(data={"run_id": action.run_id, "kind": kind.value, **told})

    async def _stopped(
        self, run_id: str, who: str, *, hold: bool
    ) -> tuple[RunKind, Mapping[str, Any]]:
        now = {run.head.run_id: run for run in self.registry.runs()}.get(run_id)
        if now is None:
            raise NotFound(
                f"There is no run {run_id[:100]!r} that could be stopped.",
                code=ErrorCode.UNKNOWN_RUN,
                data={"run_id": run_id[:100]},
                remedy="bench__runs without run_id lists them.",
            )
        kind = now.head.kind
        book = await self.registry.kinds[kind].come()
        return kind, await book.stop_run(run_id, who, hold=hold)

    async def _listed(self, caller: Caller, asked: Mapping[str, Any]) -> dict[str, Any]:
        limit = int(asked.get("limit", RUNS_UNLESS_ASKED))
        kind = str(asked.get("kind", ""))
        on_disk = await self.runs.read(list_runs, limit + 1, kind, "", caller.only_subject)
        known = self._known(caller)
        now = {key: run for key, run in known.items() if kind in ("", run.head.kind)}
        told = [_recorded(run, now.pop(str(run["run_id"]), None)) for run in on_disk]
        told += [_unrecorded(run) for run in now.values()]
        told.sort(key=lambda run: run["started_ms"] or 0, reverse=True)
        runs = told[:limit] if "limit" in asked else fitting(told[:limit], {"runs": [], "more": 0})
        return {"runs": runs, "more": len(told) > len(runs)}

    async def _rows(self, caller: Caller, run_id: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        wish = PageWish(
            first=int(asked.get("from_row", 0)),
            most=int(asked.get("rows", ROWS_UNLESS_ASKED)),
            every=int(asked.get("every", 1)),
            columns=tuple(asked.get("columns") or ()),
            table=str(asked.get("table") or ""),
        )
        # Before its rows are written: what ends in between would be told without its last row.
        now = self._known(caller).get(run_id)
        recording = await self.runs.written(run_id)
        try:
            page = await self.runs.read_run(caller, page_of_run, run_id, wish)
        except NotFound:
            if now is None:
                raise
            return _without_rows(now)
        if recording is not None and not wish.table:
            page["statistics"] = recording.statistics.told()
        statistics = page["statistics"] or {}
        meta = page["meta"]
        state, reason, error = _state_of(meta, now, is_open=recording is not None)
        summary = meta.get("summary") or {}
        notes = summary.get("notes") if now is None else now.notes
        columns, rows, total = page["columns"], page["rows"], page["total_rows"]
        told = {
            "run_id": run_id,
            "kind": meta.get("kind"),
            "parameters": meta.get("parameters"),
            **_result(meta.get("kind"), summary.get("result") if now is None else now.result),
            "columns": columns,
            "units": page["units"],
            "rows": rows,
            "total_rows": total,
            "next_row": total,
            "statistics": {name: statistics[name] for name in columns if name in statistics},
            "state": state,
            "reason": reason or None,
            "error": error or None,
            "notes": list(notes or ()),
        }
        if meta.get("kind") == RunKind.EXPERIMENT:
            view = await self.runs.read_run(caller, view_of_run, run_id)
            told |= {"verdict": view["verdict"], "tested": view["tested"]}
            told |= {"tables": tables_of(meta), "folder": page["path"]}
        if "rows" not in asked:
            told["rows"] = rows = fitting(rows, {**told, "rows": []})
        following = wish.first + len(rows) * wish.every
        told["next_row"] = following if following < total else None
        return told

    def _known(self, caller: Caller) -> dict[str, RunNow]:
        """Every run in memory that this caller is shown."""
        return {
            run.head.run_id: run
            for run in self.registry.runs()
            if caller.is_shown(run.head.caller.route.value, run.head.caller.subject)
        }


def _recorded(run: Mapping[str, Any], now: RunNow | None) -> dict[str, Any]:
    """A run of the list, from its recording."""
    state = str(run["status"]) if now is None else now.state
    return {
        "run_id": run["run_id"],
        "kind": run["kind"],
        "state": "failed" if now is None and state == "running" else state,
        "who": run["who"],
        "instrument_id": run["instrument_id"],
        "command": run["command_name"],
        "started_ms": run["started_ms"],
        "rows": max(run["rows"] or 0, now.rows if now is not None else 0),
        "columns": [column["name"] for column in run.get("columns") or ()],
    }


def _unrecorded(now: RunNow) -> dict[str, Any]:
    """A run of the list that has no recording yet, or was refused one."""
    head = now.head
    return {
        "run_id": head.run_id,
        "kind": head.kind.value,
        "state": now.state,
        "who": head.caller.who,
        "instrument_id": head.instrument_id,
        "command": head.command_name,
        "started_ms": now.started_ms,
        "rows": now.rows,
        "columns": [column.name for column in head.columns],
    }


def _result(kind: str | None, result: Mapping[str, Any] | None) -> dict[str, Any]:
    """{result} of a sequence, null until it has one; nothing of others."""
    return {"result": result or None} if kind == RunKind.SEQUENCE else {}


def _without_rows(now: RunNow) -> dict[str, Any]:
    """One that has no recording: its first row has not come, or the recording was refused."""
    missing = f"Its {now.rows} rows were not recorded." if now.rows else ""
    return {
        "run_id": now.head.run_id,
        "kind": now.head.kind.value,
        "parameters": dict(now.head.parameters),
        **_result(now.head.kind, now.result),
        "columns": [column.name for column in now.head.columns],
        "units": [column.unit for column in now.head.columns],
        "rows": [],
        "total_rows": 0,
        "next_row": None,
        "statistics": {},
        "state": now.state,
        "reason": now.reason or None,
        "error": f"{now.error} {missing}".strip() or None,
        "notes": list(now.notes),
    }


def _state_of(
    meta: Mapping[str, Any], now: RunNow | None, *, is_open: bool
) -> tuple[str, str, str]:
    """State, reason and error of a run: what is in memory knows more than its recording."""
    harm = str(meta.get("error") or "")
    if now is not None:
        return now.state, now.reason, " ".join(filter(None, (now.error, harm)))
    summary = meta.get("summary") or {}
    state = str(meta.get("status"))
    error = " ".join(filter(None, (str(summary.get("error") or ""), harm)))
    if state == "running" and not is_open:
        # As a sweep that is found after a crash (``states.SWEEP``).
        state = "failed"
    return state, str(summary.get("reason") or ""), error


OPERATIONS: Final = (
    Operation(
        action=ReadRuns,
        run=RunOperations.read,
        tool=StaticTool(
            name="bench__runs",
            title="Recorded data",
            description=(
                "Data of any run, also while it runs and after a "
                "restart. Without run_id: the newest runs; with it: rows from from_row on "
                "(lists along columns), state, statistics of all rows. every: n gives each n-th "
                "row."
            ),
            schema=parameters_of(
                run_id=RUN_ID,
                kind={"type": "string", "enum": [kind.value for kind in RunKind]},
                limit={"type": "integer", "minimum": 1, "maximum": MOST_RUNS, "default": 20},
                from_row={"type": "integer", "minimum": 0},
                rows={"type": "integer", "minimum": 0, "maximum": MOST_ROWS, "default": 100},
                columns=COLUMNS,
                every={"type": "integer", "minimum": 1, "default": 1},
                table={**STRING, "description": "A log of an experiment, or checks."},
            ),
            annotations=READ,
            needs_instruments=True,
            answers_alone=True,
        ),
    ),
    Operation(
        action=PlotRun,
        run=RunOperations.plot,
        tool=StaticTool(
            name="bench__plot",
            title="Picture of a run",
            description=(
                "A PNG of a run (also while it runs) or of a stream's newest waveform, and a "
                "line about it. x, y: columns; default: set-point or time, and all that was "
                "measured."
            ),
            schema=parameters_of(
                run_id=STRING,
                stream_id=STRING,
                x=COLUMN,
                y=COLUMNS,
                log_x=BOOLEAN,
                log_y=BOOLEAN,
                title={"type": "string", "maxLength": 200},
            ),
            accepts={"y": {**COLUMNS, "type": ["array", "string"]}},
            annotations=READ,
            needs_instruments=True,
            answers_alone=True,
        ),
    ),
    Operation(
        action=StopRun,
        run=RunOperations.stop,
        tool=StaticTool(
            name="bench__stop_run",
            title="Stop a run",
            description="End any sweep, stream or sequence; a sweep as stop_sweep does.",
            schema=parameters_of(
                ("run_id",),
                run_id=RUN_ID,
                hold={"type": "boolean", "description": ("A sweep: leave its output.")},
            ),
            annotations=CALM,
            make=stop_run,
            needs_instruments=True,
        ),
    ),
)
