"""The page on a phone of the private network, through the supervisor."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.engine_process import REPOSITORY
from tests.promises import promise


@promise("page.stop")
@promise("page.supervised")
@promise("page.again")
def test_a_cold_phone_stops_all_in_two_taps_also_while_the_engine_is_begun_anew(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-m", "tests.browser.phone", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    log = tmp_path / "supervisor.log"
    assert done.returncode == 0, done.stderr + (log.read_text()[-4_000:] if log.exists() else "")
    seen = json.loads(done.stdout)
    # Plain http from another machine: a browser sends no Sec-Fetch-Site then.
    assert seen["secure"] is False
    assert "psu1: confirmed off" in seen["stopped"]
    width, height, is_in_sight = seen["button"]
    assert width >= 44
    assert height >= 44
    assert is_in_sight
    assert seen["wider than the phone"] is False
    assert seen["other engine"]
    assert seen["opened while away"]
    assert seen["opened by itself"]
