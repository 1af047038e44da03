"""The tools of the whole bench, which are there while any instrument is registered.

They are listed with every choice of ``tools=``, beside the static ones.
"""

from __future__ import annotations

from edged.actions.action import Action, Check, StopAll
from edged.tools.tool import (
    BOOLEAN,
    CALM,
    LIST,
    NO_ARGUMENTS,
    NUMBER,
    Tool,
    ToolCall,
    entry,
    result_of,
)

__all__ = ["bench_tools"]


def stop_all(call: ToolCall, check: Check) -> Action:
    """Everything, at once."""
    return StopAll(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
    )


def bench_tools() -> tuple[Tool, ...]:
    """The tools that are there while any instrument is registered."""
    return (
        entry(
            "bench__stop_all",
            "Make the whole bench safe",
            "Stop everything at once: ends every sweep, stream and sequence and runs the abort of "
            "each sweep, instrument and SDK wrapper (outputs off), ahead of whatever is on the "
            "lines. Within a second it reports for each instrument what was sent and what it "
            "confirmed: is_confirmed is true only if all that was told to put something out "
            "answered that it is off. Use it whenever something looks wrong; it is never refused "
            "for danger, conflicts or lockouts. No substitute for an emergency switch.",
            schema=NO_ARGUMENTS,
            output=result_of(
                is_confirmed=BOOLEAN,
                took_ms=NUMBER,
                instruments=LIST,
                unproved=LIST,
                sweeps=LIST,
            ),
            annotations=CALM,
            make=stop_all,
        ),
    )
