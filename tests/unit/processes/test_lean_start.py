"""What an engine must not load before it answers: each of these takes a twentieth of a second."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import edged.cli.engine, edged.engine.engine
print(*sorted(set(sys.argv[1:]) & set(sys.modules)))
"""
LATER = ("jsonschema", "pyvisa", "rich", "ruamel.yaml", "zeroconf", "edged.profiles.loading")


def test_an_engine_starts_without_what_it_needs_later_or_never() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *LATER],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == []
