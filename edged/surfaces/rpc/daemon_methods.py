"""The RPC interface's own methods for the record, lockouts and lines.

Their parameters have been checked against ``reference.METHOD_TABLE`` when they are called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from edged.commands.lockout import LockoutDesk
from edged.errors import ErrorCode, NotFound
from edged.instruments.pool import InstrumentPool
from edged.store.audit import Audit
from edged.store.audit_queries import AuditFilter, ExportForm, export_rows
from edged.store.told_on import ToldOn
from edged.surfaces.rpc.methods import OwnMethod
from edged.work.units import unit_of_instrument

__all__ = ["daemon_methods"]

Params = Mapping[str, Any]
LISTED_UNLESS_ASKED: Final = 100
EXPORT_ROWS: Final = 2_000
"""Rows in one answer of audit.export: some megabytes at most."""


def daemon_methods(
    *, audit: Audit, lockout: LockoutDesk, pool: InstrumentPool, told_on: ToldOn
) -> dict[str, OwnMethod]:
    """``audit.*``, ``lockout.*``, ``stop.seen_off`` and ``trace``."""

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

    async def lockout_set(params: Params) -> Any:
        return await lockout.set(params["instrument_id"], reason=params["reason"], by=params["by"])

    async def lockout_clear(params: Params) -> Any:
        return await lockout.clear(params["instrument_id"])

    async def lockout_list(_params: Params) -> Any:
        return {"lockouts": lockout.list()}

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
                data={"instrument_id": name, "told_on": told_on.told()},
                remedy="get_status lists what is, under told_on.",
            )
        audit.event("stop.seen_off", f"{by} has seen off: {', '.join(outputs)}", instrument=name)
        return {"instrument_id": name, "outputs": outputs}

    async def trace(params: Params) -> Any:
        name = params["instrument_id"]
        return {"instrument_id": name, "exchanges": pool.trace(name)}

    return {
        "audit.list": audit_list,
        "audit.verify": audit_verify,
        "audit.export": audit_export,
        "stop.seen_off": seen_off,
        "lockout.set": lockout_set,
        "lockout.clear": lockout_clear,
        "lockout.list": lockout_list,
        "trace": trace,
    }


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
