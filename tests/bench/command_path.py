"""The command path as tests make it: what a test does not say is open, quiet or not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edged.actions.action import Action
from edged.auth.permissions import Permissions
from edged.clock import Clock, SystemClock
from edged.commands.operation import Operation
from edged.commands.path import CommandPath
from edged.commands.policy import Policy
from edged.commands.record import LogRecord
from edged.commands.resolve import Resolver
from edged.commands.target import Catalog
from edged.config.keys import RawScpi
from edged.instruments.unit_state import UnitState
from edged.operations.bench import BenchOperations
from edged.operations.instrument_list import InstrumentList


def not_interlocked(_instrument: Any) -> str:
    """A bench without interlocks."""
    return ""


def command_path(
    pool: Any,
    catalog: Catalog,
    operations: Mapping[type[Action], Operation],
    clock: Clock,
    *,
    permissions: Permissions | None = None,
    **more: Any,
) -> CommandPath:
    """A path on which everybody may do everything, nothing stands in the way and the log is kept.

    Args:
        more: what ``CommandPath`` is to be given besides, or instead of this.
    """
    permissions = permissions or Permissions()
    usual: dict[str, Any] = {
        "resolver": Resolver(pool=pool, catalog=catalog),
        "policy": Policy(RawScpi.ALL, permissions, not_interlocked),
        "preconditions": (),
        "record": LogRecord(),
    }
    return CommandPath(
        permissions=permissions, operations=operations, clock=clock, **{**usual, **more}
    )


def bench_operations(pool: Any, catalog: Catalog, **more: Any) -> BenchOperations:
    """The operations on a bench with an empty library, where nothing was tried or locked out.

    Args:
        more: what ``BenchOperations`` is to be given besides, or instead of this.
    """
    usual: dict[str, Any] = {
        "discovery": None,
        "profiles": dict,
        "status": dict,
        "experience": lambda _: {},
        "listing": InstrumentList(
            pool=pool,
            lockout=lambda _: None,
            lease=lambda _: None,
            state_of=lambda _: UnitState.READY,
            clock=SystemClock(),
        ),
        "make_safe": None,
    }
    return BenchOperations(pool=pool, catalog=catalog, **{**usual, **more})
