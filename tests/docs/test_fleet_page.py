"""docs/fleet.md and the login of docs/relay.md, pasted into a shell on a machine of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.pages import NOT_RUN
from tests.promises import promise

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^(?:<!-- ([^\n]+) -->\n)?```sh\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
ALL_OF_IT_S = 480
"""Half a minute on an idle machine; where ten engines wait for others, some are begun twice."""
LAST_WORDS = 600


def script(page: str) -> str:
    """The page's commands: what runs for ever in the background, the rest one after the other."""
    lines = ["set -eu", "ip link set lo up", "trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT"]
    for number, (mark, commands) in enumerate(BLOCK.findall(page)):
        if mark == "a terminal of its own":
            lines.append(f"(\n{commands}) > terminal-{number}.log 2>&1 &")
            # The next commands want what this one serves.
            lines.append("sleep 1")
        else:
            assert mark == "" or mark.startswith(NOT_RUN)
            lines.append(commands.replace("$3", "${3:-}"))
    return "\n".join(lines)


def pasted(page: str, place: Path) -> subprocess.CompletedProcess[str]:
    """What came of the page's commands, which all succeed."""
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin"
    assert shutil.which("edged", path=path)
    try:
        done = subprocess.run(
            ["unshare", "-rnp", "--fork", "--kill-child", "bash", "-c", script(page)],
            cwd=place,
            capture_output=True,
            text=True,
            timeout=ALL_OF_IT_S,
            check=False,
            env={**os.environ, "PATH": path, "HOME": str(place)},
        )
    except subprocess.TimeoutExpired as late:
        logs = sorted(place.glob("*-trial/*.log"))
        ends = "\n".join(f"{log.name}: {log.read_text()[-LAST_WORDS:]}" for log in logs)
        pytest.fail(f"{late.stdout!r}\n{ends}")
    assert done.returncode == 0, done.stderr[-2_000:]
    return done


@promise("fleet.page-of-commands")
def test_ten_benches_are_found_called_and_stopped_by_the_commands_of_the_page(
    tmp_path: Path,
) -> None:
    done = pasted((ROOT / "docs" / "fleet.md").read_text(encoding="utf-8"), tmp_path)
    answers: list[Any] = [json.loads(line) for line in done.stdout.splitlines() if line]
    found, called, history, stopped = (answer["result"]["structuredContent"] for answer in answers)
    assert {row["edge_id"] for row in found["instruments"]} == {f"edge-{n}" for n in range(1, 11)}
    assert all(row["is_free"] for row in found["instruments"])
    assert called["edge_id"] == "edge-3"
    assert called["result"]["instruments"]
    assert all(edge["is_answered"] for edge in history["edges"]), history["edges"]
    assert len(stopped["edges"]) == 10
    assert stopped["is_confirmed"] is True


@promise("login.told")
def test_the_commands_of_the_guide_set_up_a_login_that_a_client_finds(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "relay.md").read_text(encoding="utf-8")
    _, heading, rest = page.partition("### Try the login on one machine\n")
    assert heading
    section = rest.partition("\n## ")[0]
    challenge, metadata = pasted(section, tmp_path).stdout.strip().splitlines()
    place = "http://127.0.0.1:8768/.well-known/oauth-protected-resource/mcp/edge-1"
    assert challenge.endswith(f'Bearer resource_metadata="{place}"')
    assert json.loads(metadata)["authorization_servers"] == ["http://127.0.0.1:8769"]
