"""Which modules an engine that runs as a process has loaded."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.waiting import wait_for

# Lists them at SIGUSR1; otherwise `edged`.
LISTING = """
import os, pathlib, signal, sys
def list_modules(*_):
    place = pathlib.Path(os.environ["LIST_OF_MODULES"])
    draft = place.with_suffix(".draft")
    draft.write_text("\\n".join(name for name, module in sys.modules.items() if module))
    draft.replace(place)
signal.signal(signal.SIGUSR1, list_modules)
from edged.cli.main import main
sys.exit(main())
"""
LIST = "modules"


@contextmanager
def listing_engine(directory: Path, **options: Any) -> Iterator[EngineProcess]:
    """An engine process that ``modules_of`` can ask; ``options`` as for ``engine_process``."""
    with engine_process(
        directory,
        environment={"LIST_OF_MODULES": os.fspath(directory / LIST)},
        command=(sys.executable, "-c", LISTING),
        **options,
    ) as engine:
        yield engine


def modules_of(engine: EngineProcess) -> set[str]:
    """What ``sys.modules`` of a ``listing_engine`` holds now."""
    place = engine.log.parent / LIST
    place.unlink(missing_ok=True)
    engine.process.send_signal(signal.SIGUSR1)
    wait_for(place.exists)
    return set(place.read_text().split())
