"""A run to be reported: what a recording of a sweep says, whole, and the report of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

from edged.plot.figure import Curve, Figure, Panel
from edged.runs.report.facts import (
    DataFile,
    Extract,
    Material,
    Standing,
    report_of,
)
from edged.runs.report.parts import FactList, FactTable, Note, ReportDocument
from edged.store.audit.run_row import RunRow, RunRows

BEGUN_MS = 1_790_000_000_000
STANDING = Standing(
    now_ms=BEGUN_MS + 3_600_000,
    version="9.9.9",
    zone=timezone(timedelta(hours=2), "CEST"),
)
FIGURE = Figure(
    title="sweep-1: 3 rows",
    x_label="set",
    x_unit="V",
    panels=(Panel(label="i", unit="A", lines=(Curve(label="i", x=[0, 1], low=[0, 1]),)),),
)


def meta_of(**more: Any) -> dict[str, Any]:
    return {
        "run_id": "sweep-1",
        "kind": "sweep",
        "status": "completed",
        "edged_version": "9.9.8",
        "started_ms": BEGUN_MS,
        "ended_ms": BEGUN_MS + 61_500,
        "instrument_id": "TCPIP::psu",
        "command_name": "set_voltage",
        "parameters": {"channel": 1, "voltage": 5},
        "details": {
            "target_value": 5,
            "sweep_rate": 0.5,
            "points": None,
            "measure": [
                {
                    "instrument_id": "TCPIP::dmm",
                    "command_name": "measure",
                    "parameters": {"range": "auto"},
                }
            ],
        },
        "columns": [{"name": "t", "unit": "s"}, {"name": "set", "unit": "V"}],
        "caller": {"who": "anna", "route": "mcp", "client": "a notebook", "remote": "10.0.0.7:1"},
        "instruments": [
            unit_of("TCPIP::psu", "psu1", calibration_due="2026-01-31"),
            unit_of("TCPIP::dmm", "dmm1", calibration_due="2027-01-31"),
        ],
        "clock": {"is_synchronized": True, "source": "adjtimex"},
        "host": "bench7",
        "error": "",
        "summary": {"reason": "target reached", "error": None, "notes": ["a limit was reached"]},
        "statistics": {"set": {"n": 3, "mean": 2.5, "std": 1, "min": 0, "max": 5}},
        **more,
    }


def unit_of(name: str, alias: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "alias": alias,
        "idn": f"MAKER,{alias},SER-{alias},1.0",
        "manufacturer": "MAKER",
        "model": f"model of {alias}",
        "serial": f"SER-{alias}",
        "firmware": "1.0",
        "location": "rack 2",
        "profile": {"key": "maker_psu", "version": 3},
        "limits": {
            "other": {"level": {"max": 3}},
            "set_voltage": {"voltage": {"min": 0, "max": 12}, "mode": {"options": ["CV", "CC"]}},
        },
        "settings": [
            {"name": "output", "for": {"channel": 1}, "unit": "", "value": True},
            {"name": "output", "for": {"channel": 2}, "unit": "", "value": False},
            {"name": "current", "for": {}, "unit": "A", "error": "no answer"},
        ],
        **more,
    }


def material_of(**more: Any) -> Material:
    row = RunRow(7, BEGUN_MS, "outcome", "a", "start_sweep", "", "ok", "ab" * 32)
    whole = Material(
        run_id="sweep-1",
        meta=meta_of(),
        path="/data/runs/2026-09-21/sweep-1",
        figures=(FIGURE,),
        extract=Extract(
            columns=("t", "set"), first=(("0.1", "0"), ("0.2", "2.5")), last=(("9", "5"),), total=30
        ),
        files=(DataFile(path=Path("data.csv"), size=1234, sha256="cd" * 32),),
        record=RunRows(first=(row,), total=1, digest="ef" * 32, head_seq=99, head_hash="01" * 32),
    )
    return replace(whole, **more)


def section_of(report: ReportDocument, heading: str) -> str:
    """The text of a section, a line each."""
    found = next(section for section in report.sections if section.heading == heading)
    lines: list[str] = []
    for part in found.parts:
        match part:
            case FactList():
                lines += [f"{name}: {value}" for name, value in part.rows]
            case FactTable():
                lines += [part.caption, " | ".join(part.columns), *map(" | ".join, part.rows)]
            case Note():
                lines.append(f"{'! ' if part.is_warning else ''}{part.text}")
            case _:
                lines.append(part.caption)
    return "\n".join(lines)


def headings(report: ReportDocument) -> list[str]:
    return [section.heading for section in report.sections]


def whole_report(**more: Any) -> ReportDocument:
    return report_of(material_of(**more), STANDING)
