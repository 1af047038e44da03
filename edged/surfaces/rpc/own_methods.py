"""The RPC interface's own methods.

For the audit log, lockouts, leases, approvals and lines; for recordings, running streams and
pictures; and for what discovery has met.

Their parameters have been checked against ``reference.METHOD_TABLE`` when they are called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

from edged.actions.caller import Caller
from edged.actions.outcome import Picture
from edged.commands.approvals import ApprovalControl
from edged.commands.leases import LeaseControl
from edged.commands.lockout import LockoutControl
from edged.discovery.loop import Discovery
from edged.errors import EdgedError, ErrorCode, NotFound
from edged.instruments.pool import InstrumentPool
from edged.plot.artist import Artist
from edged.profiles.confirm import Way
from edged.runs.bench import Bench
from edged.runs.points import as_base64
from edged.runs.recordings.figures import plot_wish, run_figure
from edged.runs.recordings.reader import export_run, list_runs, show_run
from edged.runs.recordings.registry import RunRegistry
from edged.runs.report.reports import Reports
from edged.runs.streams.registry import Streams
from edged.runs.streams.waveforms import WaveformRegistry
from edged.runs.units import unit_of_instrument
from edged.store.audit.book import Audit
from edged.store.audit.queries import AuditFilter, ExportForm, export_rows
from edged.store.told_on import ToldOn

Params = Mapping[str, Any]
OwnMethod = Callable[[Params], Awaitable[Any]]
"""A method of the daemon's own: params in, result out; raises ``EdgedError``."""
T = TypeVar("T")
LISTED_UNLESS_ASKED: Final = 100
ROWS_UNLESS_ASKED: Final = 10
EXPORT_ROWS: Final = 2_000
"""Rows in one answer of audit.export: some megabytes at most."""


class MethodRecord(Protocol):
    """Where a call of the daemon's own methods is written down."""

    def __call__(
        self,
        caller: Caller,
        name: str,
        params: Params,
        *,
        action_id: str,
        error: EdgedError | None,
        duration_ms: float,
    ) -> None:
        """Never raises, never waits."""
        ...


def daemon_methods(
    bench: Bench, lockout: LockoutControl, leases: LeaseControl, approvals: ApprovalControl
) -> dict[str, OwnMethod]:
    """``audit.*``, ``lockout.*``, ``leases.*``, ``approvals.*``, ``stop.*`` and ``trace``."""
    return {
        **_audit_methods(bench.store.audit),
        **_owner_methods(lockout, leases, approvals),
        **_line_methods(bench.store.audit, bench.pool, bench.store.told_on),
    }


def _audit_methods(audit: Audit) -> dict[str, OwnMethod]:
    async def audit_list(params: Params) -> Any:
        rows = await audit.list(_filter(params), limit=params.get("limit", LISTED_UNLESS_ASKED))
        return {"rows": [row.to_json() for row in rows]}

    async def audit_verify(_params: Params) -> Any:
        return (await audit.verify()).to_json()

    async def audit_export(params: Params) -> Any:
        form = ExportForm(params.get("format", ExportForm.JSONL))
        wanted = _filter({"after": 0, **params})
        rows = await audit.list(wanted, limit=EXPORT_ROWS)
        is_first = not wanted.after
        return {
            "text": export_rows(form, rows, with_header=is_first),
            "next_after": rows[-1].seq if len(rows) == EXPORT_ROWS else None,
        }

    return {
        "audit.list": audit_list,
        "audit.verify": audit_verify,
        "audit.export": audit_export,
    }


def _owner_methods(
    lockout: LockoutControl, leases: LeaseControl, approvals: ApprovalControl
) -> dict[str, OwnMethod]:
    """What a person decides."""

    async def lockout_set(params: Params) -> Any:
        return await lockout.set(params["instrument_id"], reason=params["reason"], by=params["by"])

    async def lockout_clear(params: Params) -> Any:
        return await lockout.clear(params["instrument_id"])

    async def lockout_list(_params: Params) -> Any:
        return {"lockouts": lockout.list()}

    async def lease_list(_params: Params) -> Any:
        return {"leases": leases.listed(with_ids=True)}

    async def lease_break(params: Params) -> Any:
        return await leases.break_(params["lease_id"], reason=params["reason"], by=params["by"])

    async def approval_list(_params: Params) -> Any:
        return {"approvals": approvals.listed()}

    async def approval_show(params: Params) -> Any:
        return approvals.shown(params["approval_id"], params.get("offset", 0))

    async def approve(params: Params) -> Any:
        name, by = params["approval_id"], params["by"]
        return await approvals.answer(name, is_yes=True, way=Way.CLI, by=by)

    async def deny(params: Params) -> Any:
        name, by = params["approval_id"], params["by"]
        return await approvals.answer(name, is_yes=False, way=Way.CLI, by=by)

    return {
        "lockout.set": lockout_set,
        "lockout.clear": lockout_clear,
        "lockout.list": lockout_list,
        "leases.list": lease_list,
        "leases.break": lease_break,
        "approvals.list": approval_list,
        "approvals.show": approval_show,
        "approvals.approve": approve,
        "approvals.deny": deny,
    }


def _line_methods(audit: Audit, pool: InstrumentPool, told_on: ToldOn) -> dict[str, OwnMethod]:
    """What is known of one instrument's line and outputs."""

    async def seen_off(params: Params) -> Any:
        name, by = params["instrument_id"], params["by"]
        names = {name}
        with contextlib.suppress(NotFound):
            instrument = pool.get(name)
            names |= {instrument.id, unit_of_instrument(instrument).key}
        outputs = told_on.forget(names)
        if not outputs:
            raise NotFound(
                f"Nothing of {name} is waiting to be seen off.",
                code=ErrorCode.UNKNOWN_INSTRUMENT,
                data={"instrument_id": name, "told_on": [*told_on.told().values()]},
                remedy="get_status lists what is, under told_on.",
            )
        audit.event("stop.seen_off", f"{by} has seen off: {', '.join(outputs)}", instrument=name)
        return {"instrument_id": name, "outputs": outputs}

    async def trace(params: Params) -> Any:
        name = params["instrument_id"]
        return {"instrument_id": name, "exchanges": pool.trace(name)}

    return {"stop.seen_off": seen_off, "trace": trace}


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


def run_methods(runs: RunRegistry, artist: Artist, reports: Reports) -> dict[str, OwnMethod]:
    """``runs.…``."""

    async def read(function: Callable[..., T], run_id: str, *arguments: Any) -> T:
        # What a run has measured until now is there for whoever asks right after it.
        await runs.written(run_id)
        with _remedied():
            return await runs.read(function, run_id, *arguments)

    def as_it_stands(run: dict[str, Any]) -> dict[str, Any]:
        run_id = run["run_id"]
        counted = runs.counted(run_id)
        told = {name: counted.get(name, value) for name, value in run.items()}
        return {**told, "status": runs.ends_as(run_id) or run["status"]}

    async def list_(params: Params) -> Any:
        limit, kind = params.get("limit", LISTED_UNLESS_ASKED), params.get("kind", "")
        found = await runs.read(list_runs, limit, kind, params.get("instrument", ""))
        return {"runs": [as_it_stands(run) for run in found]}

    async def show(params: Params) -> Any:
        run_id = params["run_id"]
        shown = await read(show_run, run_id, params.get("rows", ROWS_UNLESS_ASKED))
        return {**shown, "meta": {**shown["meta"], **runs.counted(run_id)}}

    async def export(params: Params) -> Any:
        form, offset = params.get("format", "csv"), params.get("offset", 0)
        return await read(export_run, params["run_id"], form, offset)

    async def draw(params: Params) -> Any:
        run_id = params["run_id"]
        data = await artist.draw(await read(run_figure, run_id, plot_wish(params)))
        return {"run_id": run_id, **picture_told(Picture(mime="image/png", data=data))}

    async def report(params: Params) -> Any:
        run_id = params["run_id"]
        await runs.written(run_id)
        with _remedied():
            page = await reports.make(run_id)
        return {
            "run_id": run_id,
            "format": "html",
            "name": f"{run_id}.html",
            **picture_told(Picture(mime="text/html", data=page)),
        }

    async def status(_params: Params) -> Any:
        return runs.status()

    return {
        "runs.list": list_,
        "runs.show": show,
        "runs.export": export,
        "runs.draw": draw,
        "runs.report": report,
        "runs.status": status,
    }


def stream_methods(streams: Streams, waveforms: WaveformRegistry) -> dict[str, OwnMethod]:
    """``streams.show`` and ``pictures.show``."""

    async def stream(params: Params) -> Any:
        return streams.show(params["stream_id"], params.get("after", 0))

    async def picture(params: Params) -> Any:
        picture_id = params["picture_id"]
        told = await waveforms.read_picture(waveforms.picture(picture_id))
        return {
            "picture_id": picture_id,
            "mime": told["mime"],
            "encoding": told["encoding"],
            "content": told["image"],
        }

    return {"streams.show": stream, "pictures.show": picture}


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


def discovery_methods(discovery: Discovery) -> dict[str, OwnMethod]:
    """``discovery``: the buses, the hot-plug monitor, what was set aside and why, ties."""

    async def report(_params: Mapping[str, Any]) -> Any:
        return discovery.report()

    return {"discovery": report}


def picture_told(picture: Picture) -> dict[str, Any]:
    """{mime, encoding, content}: a picture as the RPC interface hands it out."""
    return {"mime": picture.mime, "encoding": "base64", "content": as_base64(picture.data)}
