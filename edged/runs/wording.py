"""How a run is named where it is in somebody's way, and why it ended: one form for every kind.

``reason`` tells an end that somebody or the run's own plan wanted; what went wrong is its error.

Source: docs/promises.md section 15, "A sweep that ended as it was asked to".
"""

from __future__ import annotations

from typing import Final

from edged.actions.cause import Cause
from edged.clock import ago

TARGET_REACHED: Final = "target reached"
DURATION_REACHED: Final = "duration reached"
ALL_STEPS_DONE: Final = "all steps done"
DEAD_MAN: Final = "its dead-man switched the outputs off"
LEASE_END: Final = "the end of its lease"
"""What stops or parks a run: takes the place of a name."""
MADE_SAFE: Final = Cause(
    "by a safe command for what it swept", "a safe command was given to what it swept"
)
ASK_FIRST: Final = "Somebody stopped it to make it safe: ask before you start again."


def held_by(run_id: str, who: str, for_s: float) -> str:
    """``held by sweep-404d, started 3 min ago by claude-code 2.1 at 127.0.0.1``."""
    return f"held by {run_id}, started {ago(for_s)} by {who}"


def interlock_tripped(name: str) -> Cause:
    """``the interlock chamber tripped``."""
    return Cause(f"by interlock {name}", f"the interlock {name} tripped", is_safe_only=True)


def dead_man_tripped(unit: str) -> Cause:
    """``its dead-man switched the outputs off``; ``unit`` is what people call the instrument."""
    return Cause(f"by dead-man of {unit}", DEAD_MAN)


def locked_out(unit: str) -> Cause:
    """``the instrument was locked out``; ``unit`` is what people call it."""
    return Cause(f"by lockout of {unit}", "the instrument was locked out")


def stopped_by(who: str) -> Cause:
    """``stopped by claude-code 2.1 at 127.0.0.1``."""
    return Cause(f"by {who}", f"stopped by {who}")


def parked_by(who: str) -> Cause:
    """``parked by claude-code 2.1 at 127.0.0.1``."""
    return Cause(f"by {who}", f"parked by {who}")


def all_stopped_by(who: str) -> Cause:
    """``everything was stopped by claude-code 2.1 at 127.0.0.1``."""
    why = f"everything was stopped by {who}"
    return Cause(f"by stop all of {who}", why, is_safe_only=True)
