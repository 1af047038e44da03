"""A real supervisor with its engine, for benchmarks that outlive the engine."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CONFIG = "edged.yaml"
LOG = "log"
END_WITHIN_S = 20.0


@contextlib.contextmanager
def supervised(directory: Path, settings: Mapping[str, Any]) -> Iterator[None]:
    """Run one with these settings; its configuration and its log are in ``directory``."""
    config = directory / CONFIG
    # JSON is YAML, so no YAML writer is needed here.
    config.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in settings.items()))
    with (directory / LOG).open("ab") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "edged", "supervisor", "--config", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            supervisor.send_signal(signal.SIGTERM)
            try:
                supervisor.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                supervisor.kill()
                supervisor.wait()
