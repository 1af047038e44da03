"""The official conformance suites, run against a server; and what docs/conformance.md excuses."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.engine_process import REPOSITORY
from tests.bench.sdk_session import NODE_PACKAGES, node_binary

SUITES = {"0.1": "conformance-stable", "0.2 (pre-release)": "conformance-next"}
RUN_WITHIN_S = 180
PAGE = REPOSITORY / "docs" / "conformance.md"
EXCUSES_BEGIN, EXCUSES_END = "<!-- does not apply -->", "<!-- end -->"
FOLDER = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[0-9-]+Z")
QUOTED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one scenario; ``ok`` unless the suite calls it a failure."""

    scenario: str
    name: str
    ok: bool
    message: str

    @property
    def full_name(self) -> str:
        return f"{self.scenario}:{self.name}"


def run_suite(suite: str, version: str, url: str, folder: Path) -> list[Check]:
    """Every check of a run.

    Args:
        suite: a key of ``SUITES``.
        version: the revision on the wire; empty for each scenario's own, extensions included.
    """
    program = NODE_PACKAGES.resolve() / "node_modules" / SUITES[suite] / "dist" / "index.js"
    chosen = ["--spec-version", version] if version else []
    words = ["server", "--url", url, "--suite", "all", "-o", str(folder), *chosen]
    done = subprocess.run(
        [str(node_binary()), str(program), *words],
        capture_output=True,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
    )
    checks = [check for file in sorted(folder.glob("*/checks.json")) for check in _checks_in(file)]
    assert checks, f"the suite did nothing: {done.stdout}\n{done.stderr}"
    return checks


def _checks_in(file: Path) -> Iterator[Check]:
    found = FOLDER.fullmatch(file.parent.name)
    assert found is not None, file
    for check in json.loads(file.read_text(encoding="utf-8")):
        yield Check(
            scenario=found["scenario"],
            name=check["id"],
            ok=check["status"] != "FAILURE",
            message=str(check.get("errorMessage", "")),
        )


def excuses() -> dict[str, str]:
    """Scenario, or scenario:check → why it does not apply; from the table of the page."""
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition(EXCUSES_BEGIN)[2].partition(EXCUSES_END)[0]
    told: dict[str, str] = {}
    for line in table.strip().splitlines()[2:]:
        names, why = (cell.strip() for cell in line.strip("|").split("|", 1))
        assert why.rstrip("|").strip(), f"no reason in {line!r}"
        told.update(dict.fromkeys(QUOTED.findall(names), why))
    return told


def unexcused(checks: list[Check]) -> list[str]:
    """The failures that nothing on the page excuses, with what the suite says."""
    known = excuses()
    return [
        f"{check.full_name}: {check.message}"
        for check in checks
        if not check.ok and check.scenario not in known and check.full_name not in known
    ]


@contextlib.contextmanager
def fixture_server() -> Iterator[str]:
    """The URL of ``fixture_server.py``, running in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.fixture_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        text=True,
    )
    with process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        yield f"http://127.0.0.1:{port}/mcp"
