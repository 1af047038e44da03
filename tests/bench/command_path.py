"""The command path as tests make it: what a test does not say is open, quiet or not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edged.actions.action import Action
from edged.auth.permissions import Permissions
from edged.clock import Clock, SystemClock
from edged.commands.approvals import missing_yes
from edged.commands.freshness import Acquisitions
from edged.commands.memory import Memory
from edged.commands.operation import Operation
from edged.commands.path import CommandPath
from edged.commands.policy import Policy
from edged.commands.preconditions import Leased
from edged.commands.record import LogRecord
from edged.commands.resolve import Resolver
from edged.commands.send_guard import SendGuards
from edged.commands.target import Catalog, Target
from edged.config.keys import RawScpi
from edged.errors import Fault
from edged.operations.bench import BenchOperations, InstrumentList
from edged.operations.commands import CommandOperations
from edged.sharing.leases import Leases
from tests.bench.context import bench_of


def not_interlocked(_instrument: Any) -> str:
    """A bench without interlocks."""
    return ""


def no_leases(clock: Clock) -> Leased:
    """A bench of which nobody has reserved anything."""
    return Leased(Leases(most_s=0, called=str), clock)


class NoInterlocks:
    """Nothing is guarded."""

    is_any = False

    def __call__(self, _action: Action, _target: Target) -> None:
        return


class NoBudgets:
    """Nothing is counted."""

    def take(self, _action: Action, _target: Target) -> None:
        return

    def over(self, _target: Target) -> None:
        return


class NobodyToAsk:
    """Nobody is here who could say yes."""

    async def obtain(self, action: Action, target: Target, *_lines: Any) -> Any:
        raise missing_yes(action, target) or Fault("There is nobody here who could be asked.")


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
        "present_tool": lambda _instrument_id, _plain_name: "",
        "send_guards": SendGuards(not_guarded, not_guarded, no_leases(clock), not_guarded),
        "note_told": not_guarded,
        "approvals": NobodyToAsk(),
        "interlocks": NoInterlocks(),
        "budgets": NoBudgets(),
    }
    return CommandPath(
        permissions=permissions, operations=operations, clock=clock, **{**usual, **more}
    )


def not_guarded(_action: Action, _target: Target) -> None:
    return


def command_operations(clock: Clock, **more: Any) -> CommandOperations:
    """The operations on commands, where nothing else has to do with them."""
    usual: dict[str, Any] = {
        "sequences": None,
        "captures": None,
        "acquisitions": Acquisitions(),
        "memory": Memory(lambda _instrument, _output: None),
        "on_safe": lambda *_: None,
    }
    return CommandOperations(clock=clock, **{**usual, **more})


def bench_operations(pool: Any, catalog: Catalog, **more: Any) -> BenchOperations:
    """The operations on a bench with an empty library, where nothing was tried or locked out.

    Args:
        more: what ``BenchOperations`` is to be given besides, or instead of this.
    """
    books = {"lockout_of": lambda _: None, "experience_of": lambda _: {}}
    bench = bench_of(SystemClock(), store=books, pool=pool)
    usual: dict[str, Any] = {
        "discovery": None,
        "profiles": dict,
        "status": dict,
        "listing": InstrumentList(
            bench,
            lambda _: None,
        ),
        "make_safe": None,
        "verified_on": lambda _key: (),
        "wrappers": list,
    }
    return BenchOperations(bench=bench, catalog=catalog, **{**usual, **more})
