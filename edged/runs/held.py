"""How a run that has what somebody else wants is named: one form, whatever kind of run it is."""

from __future__ import annotations

from edged.clock import ago

__all__ = ["held_by"]


def held_by(run_id: str, who: str, for_s: float) -> str:
    """``held by sweep-404d, started 3 min ago by claude-code 2.1 at 127.0.0.1``."""
    return f"held by {run_id}, started {ago(for_s)} by {who}"
