"""One life of an engine: the locks on its directories, first aid, and then everything else.

What makes the bench safe after a crash comes before the modules of the daemon are even loaded,
which takes a small machine seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from edged.clock import SystemClock
from edged.config import Config
from edged.errors import EdgedError, Invalid
from edged.host import ExitStatus
from edged.lean_imports import without_authorities
from edged.processes.first_aid import first_aid
from edged.processes.memory import keep_no_media_types, share_one_heap
from edged.processes.sim_child import SimChild
from edged.processes.state_lock import StateLock, lock_data
from edged.processes.urgency import calm

if TYPE_CHECKING:
    from edged.work.left_work import Left

__all__ = ["run"]


def run(config: Config, *, sim: SimChild | None = None, supervised: bool = False) -> int:
    """Run the engine until it is asked to stop.

    Args:
        config: the whole configuration.
        sim: the simulated bench to work, launched already; it is ended here.
        supervised: the supervisor listens on the same port (SPEC.md section 2).

    Returns:
        The exit status.
    """
    lock = StateLock(config.state_dir)
    data_lock: StateLock | None = None
    try:
        lock.take()
        # Before anything there is touched: what lies there may be another engine's.
        data_lock = lock_data(config.data_dir, config.state_dir)
        return _live(config, sim, is_supervised=supervised)
    except Invalid as error:
        sys.stderr.write(f"edged: {error}\n")
        return ExitStatus.CONFIG
    except EdgedError as error:
        sys.stderr.write(f"edged: {error}\n")
        return ExitStatus.UNAVAILABLE
    finally:
        if sim is not None:
            sim.end()
        if data_lock is not None:
            data_lock.release()
        lock.release()


def _live(config: Config, sim: SimChild | None, *, is_supervised: bool) -> int:
    visited: Mapping[str, Left] = {}
    # A simulated bench of our own has ended with the life that worked it.
    if sim is None:
        visited = first_aid(
            config.state_dir,
            visa_library=config.visa_library,
            abort_within_s=config.abort_after_crash_sec,
            clock=SystemClock(),
        )
    if is_supervised:
        calm()
    share_one_heap()
    keep_no_media_types()
    # Only the relay's issuer is ever asked for anything over TLS.
    with contextlib.nullcontext() if config.relay_jwks_url else without_authorities():
        from edged.processes import engine

    return asyncio.run(engine.main(config, sim, is_supervised=is_supervised, visited=visited))
