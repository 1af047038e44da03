"""Reserving instruments: bench__reserve, bench__renew, bench__release.

What ends somebody else's lease is the owner's, and no tool.
"""

from __future__ import annotations

from typing import Final

from edged.actions.action import NamedAction
from edged.actions.outcome import Done
from edged.commands.leases import LeaseControl
from edged.commands.operation import Operation, Rows, bind
from edged.commands.static_tool import CALM, StaticTool, integer_of, parameters_of, text_of
from edged.commands.target import Target
from edged.record import record
from edged.sharing.leases import DEFAULT_TTL_S, LEAST_TTL_S, MOST_TTL_S

MOST_PURPOSE: Final = 200
LEASE_ID: Final = {"type": "string"}
NAMES: Final = {
    "type": "array",
    "items": {"type": "string"},
    "description": 'Ids or aliases, or "all".',
}
TTL_S: Final = {"type": "integer", "minimum": LEAST_TTL_S, "maximum": MOST_TTL_S}


@record
class LeaseOperations:
    """What they are run with."""

    control: LeaseControl

    def table(self) -> Rows:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    async def reserve(self, action: NamedAction, _target: Target, _began: float) -> Done:
        asked = action.arguments
        names = asked["instruments"]
        ttl_s = integer_of(asked, "ttl_s") if "ttl_s" in asked else DEFAULT_TTL_S
        purpose = text_of(asked, "purpose")
        return Done(
            data=await self.control.reserve(action.caller, names, ttl_s=ttl_s, purpose=purpose)
        )

    async def renew(self, action: NamedAction, _target: Target, _began: float) -> Done:
        asked = action.arguments
        ttl_s = integer_of(asked, "ttl_s") if "ttl_s" in asked else None
        return Done(data=await self.control.renew(text_of(asked, "lease_id"), ttl_s))

    async def release(self, action: NamedAction, _target: Target, _began: float) -> Done:
        return Done(data=await self.control.release(text_of(action.arguments, "lease_id")))


OPERATIONS: Final = (
    Operation(
        run=LeaseOperations.reserve,
        short_name="leases.reserve",
        tool=StaticTool(
            name="bench__reserve",
            title="Reserve instruments",
            description=(
                "Reserve instruments: others' writes are refused, reads and stops are not. Your "
                "calls and runs extend it. Outside of this session, or without one, give its "
                "lease_id as argument `lease` of every call."
            ),
            schema=parameters_of(
                ("instruments",),
                instruments=NAMES,
                ttl_s={**TTL_S, "default": DEFAULT_TTL_S},
                purpose={"type": "string", "maxLength": MOST_PURPOSE},
            ),
            accepts={"instruments": {**NAMES, "type": ["array", "string"]}},
            annotations=CALM,
            needs_instruments=True,
        ),
    ),
    Operation(
        run=LeaseOperations.renew,
        short_name="leases.renew",
        tool=StaticTool(
            name="bench__renew",
            title="Renew a lease",
            description="Extend a lease to ttl_s from now.",
            schema=parameters_of(("lease_id",), lease_id=LEASE_ID, ttl_s=TTL_S),
            annotations=CALM,
            needs_instruments=True,
        ),
    ),
    Operation(
        run=LeaseOperations.release,
        short_name="leases.release",
        tool=StaticTool(
            name="bench__release",
            title="End a lease",
            description="End a lease; its instruments are free.",
            schema=parameters_of(("lease_id",), lease_id=LEASE_ID),
            annotations=CALM,
            needs_instruments=True,
        ),
    ),
)
