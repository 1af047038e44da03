"""The RPC interface's own methods for the record, lockouts and lines.

Their parameters have been checked against ``reference.METHOD_TABLE`` when they are called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edged.commands.lockout import LockoutDesk
from edged.instruments.pool import InstrumentPool
from edged.store.audit import Audit
from edged.store.audit_queries import AuditFilter, ExportForm, export_rows
from edged.surfaces.rpc.methods import OwnMethod

__all__ = ["daemon_methods"]

Params = Mapping[str, Any]
LISTED_UNLESS_ASKED: Final = 100
EXPORT_ROWS: Final = 2_000
"""Rows in one answer of audit.export: some megabytes at most."""


def daemon_methods(
    *, audit: Audit, lockout: LockoutDesk, pool: InstrumentPool
) -> dict[str, OwnMethod]:
    """``audit.*``, ``lockout.*`` and ``trace``."""

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

    async def trace(params: Params) -> Any:
        name = params["instrument_id"]
        return {"instrument_id": name, "exchanges": pool.trace(name)}

    return {
        "audit.list": audit_list,
        "audit.verify": audit_verify,
        "audit.export": audit_export,
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
