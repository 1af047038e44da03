"""How a run is named where it is in somebody's way, and why it ended: one form for every kind.

``reason`` tells an end that somebody or the run's own plan wanted; what went wrong is its error.

Source: docs/promises.md section 15, "A sweep that ended as it was asked to".
"""

from __future__ import annotations

from typing import Final

from edged.clock import ago

__all__ = [
    "ALL_STEPS_DONE",
    "CLIENT_GONE",
    "DAEMON_STOPPED",
    "DEAD_MAN",
    "DURATION_REACHED",
    "LEASE_END",
    "LOCKED_OUT",
    "MADE_SAFE",
    "TARGET_REACHED",
    "all_stopped_by",
    "held_by",
    "interlock_tripped",
    "parked_by",
    "stopped_by",
]

TARGET_REACHED: Final = "target reached"
DURATION_REACHED: Final = "duration reached"
ALL_STEPS_DONE: Final = "all steps done"
CLIENT_GONE: Final = "its client went away"
DAEMON_STOPPED: Final = "the daemon stopped"
LOCKED_OUT: Final = "the instrument was locked out"
DEAD_MAN: Final = "its dead-man switched the outputs off"
LEASE_END: Final = "the end of its lease"
"""What stops or parks a run: takes the place of a name."""
MADE_SAFE: Final = "a safe command was given to what it swept"


def held_by(run_id: str, who: str, for_s: float) -> str:
    """``held by sweep-404d, started 3 min ago by claude-code 2.1 at 127.0.0.1``."""
    return f"held by {run_id}, started {ago(for_s)} by {who}"


def interlock_tripped(name: str) -> str:
    """``the interlock chamber tripped``."""
    return f"the interlock {name} tripped"


def stopped_by(who: str) -> str:
    """``stopped by claude-code 2.1 at 127.0.0.1``."""
    return f"stopped by {who}"


def parked_by(who: str) -> str:
    """``parked by claude-code 2.1 at 127.0.0.1``."""
    return f"parked by {who}"


def all_stopped_by(who: str) -> str:
    """``everything was stopped by claude-code 2.1 at 127.0.0.1``."""
    return f"everything was stopped by {who}"
