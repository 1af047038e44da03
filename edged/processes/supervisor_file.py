"""What the supervisor leaves in STATE_DIR about itself, and how others read it.

``supervisor.json`` has the addresses at which the port proxy listens, and how the connection to the
relay is: ``relay.link.LinkStatus`` as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

__all__ = ["SUPERVISOR_FILE", "read_supervisor_file", "relay_link"]

SUPERVISOR_FILE: Final = "supervisor.json"
MAX_PID: Final = 2**31 - 1
OFF: Final = {"state": "off", "since_ms": 0, "last_error": "", "last_error_ms": 0}


def read_supervisor_file(state_dir: Path) -> dict[str, Any]:
    """The file; empty while no supervisor works with this state directory. Blocks."""
    try:
        facts = json.loads((state_dir / SUPERVISOR_FILE).read_bytes())
        pid = int(facts["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    import psutil  # here: most readers find no file

    # One that was killed leaves its file behind.
    return facts if 0 < pid <= MAX_PID and psutil.pid_exists(pid) else {}


def relay_link(facts: dict[str, Any]) -> dict[str, Any]:
    """The connection to the relay, by the supervisor's file."""
    found = facts.get("relay")
    if isinstance(found, dict):
        return {**OFF, **found}
    return {**OFF, "last_error": "" if facts else "No supervisor is running."}
