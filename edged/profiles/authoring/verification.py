"""What came of trying a profile on an instrument: the report, and where reports are kept.

A report is one JSON file in a directory that the daemon reads besides the profiles; list_profiles
tells of it as ``verified_on``. It belongs to the text of the profile that was tried: when that is
changed, the report stays and says so.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from edged.files import read_bytes
from edged.profiles.model import ProfileHead
from edged.record import record

FOLDER: Final = "verified"
"""Where reports are kept, in the state directory of the daemon that is to tell of them."""
MAX_REPORT_BYTES: Final = 4 * 1024 * 1024
MOST_REPORTS: Final = 1_000
MOST_TOLD: Final = 20


@record
class Trial:
    """One trial of a profile.

    Attributes:
        on: the day, ISO 8601.
        digest: of the files that the profile was read from, as ``digest_of`` gives it.
        passed, refused, failed, skipped: how many commands were.
        by: who says so.
        results: one entry a command: command, arguments, verdict, answer, ms.
    """

    profile_key: str
    on: str
    digest: str
    idn: str
    manufacturer: str
    model: str
    serial: str
    firmware: str
    is_simulated: bool
    edged_version: str
    passed: int
    refused: int
    failed: int
    skipped: int
    by: str = ""
    results: tuple[Mapping[str, Any], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | {
            "results": list(self.results)
        }

    def told(self, *, is_current: bool) -> dict[str, Any]:
        """Its entry under ``verified_on``."""
        names = ("on", "by", "model", "serial", "firmware", "is_simulated")
        counts = ("passed", "refused", "failed")
        return {
            **{name: getattr(self, name) for name in (*names, *counts)},
            "is_current": is_current,
        }


def digest_of(head: ProfileHead) -> str:
    """What tells whether a profile is still the one that was tried; empty if it cannot be read.

    Of every file that it was read from.
    """
    digest = hashlib.sha256()
    try:
        for path in sorted(head.files):
            digest.update(Path(path).read_bytes())
    except OSError:
        return ""
    return digest.hexdigest()


def report_name(trial: Trial) -> str:
    """A file for each unit on which a profile was tried, and one for its simulation."""
    unit = "simulated" if trial.is_simulated else f"{trial.model}-{trial.serial}"
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", unit).strip("_.")[:80] or "unit"
    return f"{trial.profile_key}--{plain}.json"


def load_reports(directory: Path) -> Mapping[str, tuple[Trial, ...]]:
    """Every report of a directory by profile_key, the newest first. Never raises."""
    found: dict[str, list[Trial]] = {}
    try:
        paths = sorted(directory.glob("*.json"))[:MOST_REPORTS]
    except OSError:
        return {}
    for path in paths:
        trial = _read(path)
        if trial is not None:
            found.setdefault(trial.profile_key, []).append(trial)
    return {
        key: tuple(sorted(trials, key=lambda trial: trial.on, reverse=True)[:MOST_TOLD])
        for key, trials in found.items()
    }


def _read(path: Path) -> Trial | None:
    """One report without its results, or nothing where the file is none."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_REPORT_BYTES:
            return None
        return _trial(json.loads(read_bytes(path)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _trial(told: Mapping[str, Any]) -> Trial:
    def text(name: str) -> str:
        return str(told[name])[:200]

    return Trial(
        profile_key=text("profile_key"),
        on=text("on"),
        digest=text("digest"),
        idn=text("idn"),
        manufacturer=text("manufacturer"),
        model=text("model"),
        serial=text("serial"),
        firmware=text("firmware"),
        is_simulated=told["is_simulated"] is True,
        edged_version=text("edged_version"),
        passed=int(told["passed"]),
        refused=int(told["refused"]),
        failed=int(told["failed"]),
        skipped=int(told["skipped"]),
        by=str(told.get("by", ""))[:200],
    )
