"""Where the bench is and who asks: an argument, the environment, or an engine on this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyvisa

from pyvisa_edged.wire import Bench

DEFAULT_URL = "http://127.0.0.1:8767/mcp"
BARE = "edged"


def bench_at(library_path: str) -> Bench:
    """The bench that a resource manager means.

    Args:
        library_path: what stands before ``@edged``; else EDGED_URL, else the engine of this
            machine, else the usual port.
    """
    given = library_path if library_path != BARE else ""
    url = given or os.environ.get("EDGED_URL", "") or _running() or DEFAULT_URL
    return Bench(
        url=url if "://" in url else f"http://{url}",
        # As a file gives them, with the end of its line.
        token=os.environ.get("EDGED_TOKEN", "").strip(),
        lease=os.environ.get("EDGED_LEASE", "").strip(),
        program=program_name(),
        version=f"PyVISA {pyvisa.__version__}",
    )


def program_name() -> str:
    """The file name of the script that runs, as the record of the bench shall call it."""
    name = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-", "-c", "-m") else ""
    if name.startswith("ipykernel") or "ipykernel" in sys.modules:
        return "notebook"
    return name or "python"


def _running() -> str:
    """The URL of an engine that runs on this machine; empty where none does."""
    for directory in _state_dirs():
        try:
            told = json.loads((directory / "engine.json").read_text(encoding="utf-8"))
            port, path = int(told["mcp_port"]), str(told["mcp_path"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        return f"http://127.0.0.1:{port}{path}"
    return ""


def _state_dirs() -> Iterator[Path]:
    """Where an engine leaves word, one's own first."""
    named = os.environ.get("STATE_DIR")
    if named:
        yield Path(named)
    elif sys.platform == "win32":
        yield Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData")) / "edged" / "state"
    else:
        state = os.environ.get("XDG_STATE_HOME", "")
        yield (Path(state) if state.startswith("/") else Path.home() / ".local/state") / "edged"
        yield Path("/var/lib/edged")
