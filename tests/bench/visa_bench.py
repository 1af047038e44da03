"""A desk for programs that know VISA, on loopback instruments: the parts of an engine, no ports."""

from __future__ import annotations

import itertools
from typing import Any

from edged.actions.action import Action
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, Tell
from edged.auth.permissions import Grant, Permissions
from edged.clock import SystemClock
from edged.commands.leases import LeaseStanding
from edged.commands.pending import Pending
from edged.commands.policy import Policy
from edged.commands.target import Catalog
from edged.config.keys import RawScpi
from edged.surfaces.visa.desk import VisaDesk
from edged.surfaces.visa.session import VisaSession, VisaWork
from tests.bench.command_path import command_operations, command_path, not_interlocked
from tests.bench.lab import Lab


class NoLeases:
    """Nobody has anything, or somebody else all."""

    standing_now = LeaseStanding.FREE

    def standing(self, _caller: Caller, _instrument: Any) -> LeaseStanding:
        return self.standing_now


class VisaBench:
    """The desk over a lab's instruments.

    Attributes:
        actions: what was begun.
    """

    def __init__(
        self, lab: Lab, *, raw: RawScpi = RawScpi.ALL, grant: Grant | None = None, **path: Any
    ) -> None:
        clock, ids = SystemClock(), itertools.count()
        permissions = Permissions(grant) if grant else Permissions()
        self.actions: list[Action] = []
        self.leases = NoLeases()
        commands = command_operations(clock)
        usual = {"policy": Policy(raw, permissions, not_interlocked), "permissions": permissions}
        self.path = command_path(lab.pool, Catalog(), commands.table(), clock, **{**usual, **path})
        self.desk = VisaDesk(
            lab.pool,
            self.path.authorize,
            VisaWork(
                begin=self.begin,
                judge=self.path.precheck,
                leases=self.leases,  # type: ignore[arg-type]
                clock=clock,
                new_id=lambda: f"v{next(ids)}",
            ),
        )

    def begin(self, action: Action, tell: Tell) -> Outcome | Pending:
        self.actions.append(action)
        return self.path.begin(action, tell)

    def session(self, name: str, program: str = "script.py", **more: Any) -> VisaSession:
        caller = Caller(route=Route.DIRECT, session_id=f"s-{program}", remote="127.0.0.1")
        return self.desk.open(name, program=program, caller=caller, **more)


async def query(session: VisaSession, text: str) -> str:
    """Ask and read all of the answer."""
    await session.write(text.encode())
    answer, is_last = await session.read(1 << 20)
    assert is_last
    return answer.decode().rstrip("\n")
