"""The RPC interface's own methods.

For the audit log, lockouts, leases, approvals and lines; for recordings, running streams and
pictures; and for what discovery has met.

One row each (``OWN_METHODS``): what it takes and gives, for checks and readers, and what runs it.
Its parameters have been checked by its row when it is called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from edged.actions.action import Check
from edged.actions.outcome import OutcomeStatus, Picture
from edged.commands.approvals import ApprovalControl
from edged.commands.leases import LeaseControl
from edged.commands.lockout import LockoutControl
from edged.discovery.loop import Discovery
from edged.errors import ErrorCode, NotFound
from edged.plot.artist import Artist
from edged.profiles.arguments import Given, compile_given, compile_schema
from edged.profiles.confirm import Way
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.points import as_base64
from edged.runs.recordings.figures import plot_wish, run_figure
from edged.runs.recordings.reader import export_run, list_runs, show_run
from edged.runs.recordings.registry import RunRegistry
from edged.runs.report.reports import Reports
from edged.runs.run_head import RunKind
from edged.runs.streams.registry import Streams
from edged.runs.streams.waveforms import WaveformRegistry
from edged.runs.units import unit_of_instrument
from edged.store.audit.queries import AuditFilter, ExportForm, export_rows

Params = Mapping[str, Any]
OwnMethod = Callable[[Params], Awaitable[Any]]
"""A method of the daemon's own: params in, result out; raises ``EdgedError``."""
Schema = dict[str, Any]
ANYTHING: Final[Schema] = {"type": "object", "additionalProperties": True}
T = TypeVar("T")
LISTED_UNLESS_ASKED: Final = 100
ROWS_UNLESS_ASKED: Final = 10
EXPORT_ROWS: Final = 2_000
"""Rows in one answer of audit.export: some megabytes at most."""


@record(kw_only=False)
class RpcMethod:
    """One method.

    Attributes:
        sentence: what it does.
        result: what it answers.
        schema: JSON Schema of its parameters.
        run: what does it; called with what its table says, and its parameters.
        check: that schema, compiled; raises ``Invalid``.
        given: takes out what is optional and null, before the check.
        leaves_row: a call is written down; else it is the row of the tool that it calls.
    """

    name: str
    sentence: str
    result: str
    schema: Schema
    run: Callable[..., Awaitable[Any]] | None
    check: Check = field(default=lambda _: None, compare=False)
    given: Given = field(default=lambda params: params, compare=False)
    leaves_row: bool = True


@record(kw_only=False)
class OwnParts:
    """What the daemon's own methods work with."""

    bench: Bench
    lockout: LockoutControl
    leases: LeaseControl
    approvals: ApprovalControl
    discovery: Discovery
    runs: RunRegistry
    artist: Artist
    reports: Reports
    streams: Streams
    waveforms: WaveformRegistry

    def methods(self) -> dict[str, OwnMethod]:
        """Those that need no more than this."""
        return {row.name: partial(row.run, self) for row in OWN_METHODS if row.run is not None}


def text_parameter(description: str, most: int = 500, **more: Any) -> Schema:
    """The schema of a text."""
    return {"type": "string", "maxLength": most, "description": description, **more}


def _whole(description: str, lowest: int, highest: int) -> Schema:
    return {"type": "integer", "minimum": lowest, "maximum": highest, "description": description}


INSTRUMENT: Final = text_parameter(
    "the instrument's id, alias, serial number or address", minLength=1
)
FAR_AHEAD: Final = 1 << 53
FILTER: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "instrument": text_parameter("only rows of the instrument with this id"),
        "since_ms": _whole("only rows from then on (Unix epoch, ms)", 0, FAR_AHEAD),
        "until_ms": _whole("only rows up to then (Unix epoch, ms)", 0, FAR_AHEAD),
        "caller": text_parameter(
            "a session, address, subject, client, route, sweep, stream or sequence"
        ),
        "tool": text_parameter("only rows of this tool or method"),
        "outcome": text_parameter(
            "only rows with this outcome", enum=["", *(status.value for status in OutcomeStatus)]
        ),
        "after": _whole("only rows with a greater number, oldest first", 0, FAR_AHEAD),
    }
)


async def _audit_list(own: OwnParts, params: Params) -> Any:
    rows = await own.bench.store.audit.list(
        _filter(params), limit=params.get("limit", LISTED_UNLESS_ASKED)
    )
    return {"rows": [row.to_json() for row in rows]}


async def _audit_verify(own: OwnParts, _params: Params) -> Any:
    return (await own.bench.store.audit.verify()).to_json()


async def _audit_export(own: OwnParts, params: Params) -> Any:
    form = ExportForm(params.get("format", ExportForm.JSONL))
    wanted = _filter({"after": 0, **params})
    rows = await own.bench.store.audit.list(wanted, limit=EXPORT_ROWS)
    is_first = not wanted.after
    return {
        "text": export_rows(form, rows, with_header=is_first),
        "next_after": rows[-1].seq if len(rows) == EXPORT_ROWS else None,
    }


async def _lockout_set(own: OwnParts, params: Params) -> Any:
    return await own.lockout.set(params["instrument_id"], reason=params["reason"], by=params["by"])


async def _lockout_clear(own: OwnParts, params: Params) -> Any:
    return await own.lockout.clear(params["instrument_id"])


async def _lockout_list(own: OwnParts, _params: Params) -> Any:
    return {"lockouts": own.lockout.list()}


async def _lease_list(own: OwnParts, _params: Params) -> Any:
    return {"leases": own.leases.listed(with_ids=True)}


async def _lease_break(own: OwnParts, params: Params) -> Any:
    return await own.leases.break_(params["lease_id"], reason=params["reason"], by=params["by"])


async def _approval_list(own: OwnParts, _params: Params) -> Any:
    return {"approvals": own.approvals.listed()}


async def _approval_show(own: OwnParts, params: Params) -> Any:
    return own.approvals.shown(params["approval_id"], params.get("offset", 0))


async def _approve(own: OwnParts, params: Params) -> Any:
    name, by = params["approval_id"], params["by"]
    return await own.approvals.answer(name, is_yes=True, way=Way.CLI, by=by)


async def _deny(own: OwnParts, params: Params) -> Any:
    name, by = params["approval_id"], params["by"]
    return await own.approvals.answer(name, is_yes=False, way=Way.CLI, by=by)


async def _seen_off(own: OwnParts, params: Params) -> Any:
    name, by = params["instrument_id"], params["by"]
    told_on = own.bench.store.told_on
    names = {name}
    with contextlib.suppress(NotFound):
        instrument = own.bench.pool.get(name)
        names |= {instrument.id, unit_of_instrument(instrument).key}
    outputs = told_on.forget(names)
    if not outputs:
        raise NotFound(
            f"Nothing of {name} is waiting to be seen off.",
            code=ErrorCode.UNKNOWN_INSTRUMENT,
            data={"instrument_id": name, "told_on": [*told_on.told().values()]},
            remedy="get_status lists what is, under told_on.",
        )
    own.bench.store.audit.event(
        "stop.seen_off", f"{by} has seen off: {', '.join(outputs)}", instrument=name
    )
    return {"instrument_id": name, "outputs": outputs}


async def _trace(own: OwnParts, params: Params) -> Any:
    name = params["instrument_id"]
    return {"instrument_id": name, "exchanges": own.bench.pool.trace(name)}


async def _run_list(own: OwnParts, params: Params) -> Any:
    limit, kind = params.get("limit", LISTED_UNLESS_ASKED), params.get("kind", "")
    found = await own.runs.read(list_runs, limit, kind, params.get("instrument", ""))
    return {"runs": [_as_it_stands(own.runs, run) for run in found]}


async def _run_show(own: OwnParts, params: Params) -> Any:
    run_id = params["run_id"]
    shown = await _read(own.runs, show_run, run_id, params.get("rows", ROWS_UNLESS_ASKED))
    return {**shown, "meta": {**shown["meta"], **own.runs.counted(run_id)}}


async def _run_export(own: OwnParts, params: Params) -> Any:
    form, offset = params.get("format", "csv"), params.get("offset", 0)
    return await _read(own.runs, export_run, params["run_id"], form, offset)


async def _run_draw(own: OwnParts, params: Params) -> Any:
    run_id = params["run_id"]
    data = await own.artist.draw(await _read(own.runs, run_figure, run_id, plot_wish(params)))
    return {"run_id": run_id, **picture_told(Picture(mime="image/png", data=data))}


async def _run_report(own: OwnParts, params: Params) -> Any:
    run_id = params["run_id"]
    await own.runs.written(run_id)
    with _remedied():
        page = await own.reports.make(run_id)
    return {
        "run_id": run_id,
        "format": "html",
        "name": f"{run_id}.html",
        **picture_told(Picture(mime="text/html", data=page)),
    }


async def _run_status(own: OwnParts, _params: Params) -> Any:
    return own.runs.status()


async def _stream_show(own: OwnParts, params: Params) -> Any:
    return own.streams.show(params["stream_id"], params.get("after", 0))


async def _picture_show(own: OwnParts, params: Params) -> Any:
    picture_id = params["picture_id"]
    told = await own.waveforms.read_picture(own.waveforms.picture(picture_id))
    return {
        "picture_id": picture_id,
        "mime": told["mime"],
        "encoding": told["encoding"],
        "content": told["image"],
    }


async def _discovery_report(own: OwnParts, _params: Params) -> Any:
    return own.discovery.report()


async def _read(runs: RunRegistry, function: Callable[..., T], run_id: str, *arguments: Any) -> T:
    # What a run has measured until now is there for whoever asks right after it.
    await runs.written(run_id)
    with _remedied():
        return await runs.read(function, run_id, *arguments)


def _as_it_stands(runs: RunRegistry, run: dict[str, Any]) -> dict[str, Any]:
    run_id = run["run_id"]
    counted = runs.counted(run_id)
    told = {name: counted.get(name, value) for name, value in run.items()}
    return {**told, "status": runs.ends_as(run_id) or run["status"]}


def _filter(params: Params) -> AuditFilter:
    return AuditFilter(
        instrument=params.get("instrument", ""),
        since_ms=params.get("since_ms"),
        until_ms=params.get("until_ms"),
        caller=params.get("caller", ""),
        tool=params.get("tool", ""),
        outcome=params.get("outcome", ""),
        after=params.get("after"),
    )


@contextlib.contextmanager
def _remedied() -> Iterator[None]:
    """Who asks here has the command line, and perhaps no tools."""
    try:
        yield
    except NotFound as unknown:
        near = unknown.data.get("nearest")
        meant = f"Did you mean {near}? " if near else ""
        unknown.remedy = f"{meant}`edged runs list` lists them."
        raise


def picture_told(picture: Picture) -> dict[str, Any]:
    """{mime, encoding, content}: a picture as the RPC interface hands it out."""
    return {"mime": picture.mime, "encoding": "base64", "content": as_base64(picture.data)}


def method_of(
    name: str,
    run: Callable[..., Awaitable[Any]] | None,
    sentence: str,
    result: str,
    /,
    *required: str,
    **properties: Schema,
) -> RpcMethod:
    """A row of a method with these parameters and no others."""
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    check, given = compile_schema(name, schema), compile_given(schema)
    return RpcMethod(name, sentence, result, schema, run, check, given)


def _answer(name: str, run: Callable[..., Awaitable[Any]], meaning: str) -> RpcMethod:
    return method_of(
        name,
        run,
        f"{meaning} There is no tool for this: a person does it, at the edge itself. The first "
        "answer counts.",
        "the question, with `verdict`",
        "approval_id",
        "by",
        approval_id=text_parameter("of the question", minLength=1),
        by=text_parameter("who says so", 100, minLength=1),
    )


RESTART: Final = (
    "{state: none, waiting, restarting, given_up or cancelled; under_way: [text], left_s}"
)

OWN_METHODS: Final = (
    method_of(
        "leases.list",
        _lease_list,
        "Lists what is reserved, with the ids: who has one has the instruments.",
        "{leases: [{lease_id, who, purpose, instruments, granted_ms, expires_ms}]}",
    ),
    method_of(
        "leases.break",
        _lease_break,
        "Ends a lease without its holder. There is no tool for this: only the owner does "
        "it, at the edge itself.",
        "{instruments, who}: what was ended",
        "lease_id",
        "reason",
        "by",
        lease_id=text_parameter("its id, or an instrument that it reserves", minLength=1),
        reason=text_parameter("why; written to the audit log", minLength=1),
        by=text_parameter("who says so", 100, minLength=1),
    ),
    method_of(
        "approvals.list",
        _approval_list,
        "Lists what waits for a person's yes. `text` is what that person is shown "
        "everywhere: every line, or ranges that describe every line.",
        "{approvals: [{approval_id, instrument_id, instrument, tool, text, line_count, "
        "digest, who, ways, remark, expires_ms}]}; `remark` says why it cannot be answered "
        "by a way that the owner named",
    ),
    method_of(
        "approvals.show",
        _approval_show,
        "Gives every line of one question, 1000 at a time. A line that stands for many "
        "steps of a sweep says so.",
        "the question, with `lines`; `next_offset` where there are more",
        "approval_id",
        approval_id=text_parameter("of the question", minLength=1),
        offset=_whole("the first line, from 0", 0, 1_000_000),
    ),
    _answer(
        "approvals.approve", _approve, "Lets what was asked about go out, exactly so and once."
    ),
    _answer("approvals.deny", _deny, "Refuses what was asked about."),
    method_of(
        "audit.list",
        _audit_list,
        "Lists rows of the audit log, oldest first: the newest that fit, unless `after` is given.",
        "{rows}",
        limit=_whole("how many at most (100)", 1, 10_000),
        **FILTER,
    ),
    method_of(
        "audit.verify",
        _audit_verify,
        "Walks the whole chain and says whether it is intact.",
        "{is_intact, rows, first_seq, last_seq, head_hash, problem_count, problems}",
    ),
    method_of(
        "audit.export",
        _audit_export,
        "Gives rows as text, a page at a time: ask again with `after` = `next_after`.",
        "{text, next_after: number or null}",
        format=text_parameter("jsonl (the default) or csv", enum=["jsonl", "csv"]),
        **FILTER,
    ),
    method_of(
        "lockout.set",
        _lockout_set,
        "Locks an instrument out at once, then stops what runs on it. Until that is "
        "cleared every write but safe commands is refused with the reason. Units that tell "
        "one serial number are locked out together.",
        "{instrument_id, unit, reason, by, since_ms, instrument_ids, is_present, "
        "is_persisted, remark, stopped, failures}",
        "instrument_id",
        "reason",
        "by",
        instrument_id=INSTRUMENT,
        reason=text_parameter("the reason; shown to everybody who is refused", minLength=1),
        by=text_parameter("who says so", 100, minLength=1),
    ),
    method_of(
        "lockout.clear",
        _lockout_clear,
        "Lifts a lockout. There is no tool for this: whoever locked it out does it here, "
        "at the edge itself.",
        "{instrument_id, unit, reason, by, since_ms, still_locked}: what was lifted",
        "instrument_id",
        instrument_id=INSTRUMENT,
    ),
    method_of(
        "stop.seen_off",
        _seen_off,
        "Takes back the doubt about an instrument that was told to switch an output on "
        "and cannot report that it is off: a person has looked. There is no tool for "
        "this.",
        "{instrument_id, outputs}: what was in doubt",
        "instrument_id",
        "by",
        instrument_id=INSTRUMENT,
        by=text_parameter("who has looked", 100, minLength=1),
    ),
    method_of(
        "discovery",
        _discovery_report,
        "How the buses are looked at, what was set aside and why, which profiles tie, "
        "which units tell one serial number, and every unit met since the start.",
        "{buses, hotplug, scans, rescan_interval_s, ties, twins, warnings, set_aside, "
        "seen: [{instrument_id, serial, serial_told, names, profile_name}]}",
    ),
    method_of(
        "restart.begin",
        None,
        "Restarts engine and supervisor as soon as nothing is under way; gives that up "
        "after a while. Only with a supervisor.",
        RESTART,
        within_s=_whole("give up after so many seconds (3600)", 1, 86_400),
    ),
    method_of(
        "restart.status",
        None,
        "How far that is; answers when it has changed, or after `wait_s`.",
        RESTART,
        wait_s=_whole("how long to wait for a change (0)", 0, 60),
    ),
    method_of("restart.cancel", None, "Takes it back.", RESTART),
    method_of(
        "relay.refresh_keys",
        None,
        "Fetches the issuer's keys now; one that is withdrawn there is no longer valid.",
        "{keys, age_s, error}",
    ),
    method_of("lockout.list", _lockout_list, "Lists what is locked out.", "{lockouts}"),
    method_of(
        "trace",
        _trace,
        "The last exchanges on an instrument's line, oldest first.",
        "{instrument_id, exchanges: [{timestamp_ms, direction, text, bytes}]}",
        "instrument_id",
        instrument_id=INSTRUMENT,
    ),
    method_of(
        "runs.list",
        _run_list,
        "Lists recordings, newest first.",
        "{runs}",
        limit=_whole("how many at most (100)", 1, 10_000),
        kind=text_parameter(
            "sweep, stream, sequence or experiment", enum=["", *(kind.value for kind in RunKind)]
        ),
        instrument=text_parameter("only recordings of this instrument"),
    ),
    method_of(
        "runs.show",
        _run_show,
        "One recording: what its meta.json says, and its last rows.",
        "the recording",
        "run_id",
        run_id=text_parameter("its id"),
        rows=_whole("how many rows at most (10)", 0, 10_000),
    ),
    method_of(
        "runs.export",
        _run_export,
        "A recording's data, a piece at a time: ask again with `offset`.",
        "the piece",
        "run_id",
        run_id=text_parameter("its id"),
        format=text_parameter("csv (the default), jsonl, npz, nc, junit or openhtf"),
        offset=_whole("where to go on", 0, 1 << 62),
    ),
    method_of(
        "runs.draw",
        _run_draw,
        "A recording as a picture: its rows, or the newest of its waveforms.",
        "{run_id, mime, encoding, content}",
        "run_id",
        run_id=text_parameter("its id"),
        x=text_parameter("the column along the bottom"),
        y={"type": "array", "items": {"type": "string"}, "description": "columns to draw"},
    ),
    method_of(
        "runs.report",
        _run_report,
        "A recording as one file for those who were not there: plots, units, settings, "
        "limits, who and when, the hashes of its data and of its rows in the audit log. At "
        "most 16 MiB.",
        "{run_id, format, name, mime, encoding, content}",
        "run_id",
        run_id=text_parameter("its id"),
        format=text_parameter("html, the only one", enum=["html"]),
    ),
    method_of("runs.status", _run_status, "How recording is: budget, what is open.", "the status"),
    method_of(
        "streams.show",
        _stream_show,
        "State of a stream, with its newest points.",
        "the stream",
        "stream_id",
        stream_id=text_parameter("its id"),
        after=_whole("only points with a greater number", 0, 1 << 62),
    ),
    method_of(
        "pictures.show",
        _picture_show,
        "A captured picture that was too large for a tool's result.",
        "{picture_id, mime, encoding, content}",
        "picture_id",
        picture_id=text_parameter("its id, which the result told"),
    ),
)
"""Without a function: the engine gives it."""
