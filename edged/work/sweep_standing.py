"""Whether what a sweep left at a value still stands there: asked where its line was opened anew.

A unit that lost power has lost its set-point too. From there the next step would be a jump, and
what a parked sweep tells would not be so.
"""

from __future__ import annotations

from edged.actions.action import Purpose
from edged.actions.outcome import Outcome
from edged.errors import ErrorCode, Failed
from edged.work.ports import Perform
from edged.work.sweep import Sweep
from edged.work.sweep_reach import setpoint_from

__all__ = ["ask_anew", "why_strayed"]


async def ask_anew(perform: Perform, action_id: str, sweep: Sweep, value: float) -> Outcome:
    """Ask a unit that was connected anew what it holds.

    Args:
        value: may be held besides the last that was confirmed: whether a step that was pushed off
            the line had been taken is not known.

    Raises:
        Failed: INSTRUMENT_ERROR, it holds another value; BAD_ANSWER.
    """
    thing = sweep.thing
    asked = await perform(sweep.lines(action_id, (thing.setpoint_query,), Purpose.MEASURE))
    if asked.error is not None:
        return asked
    unit = thing.parameter.unit
    answer = str(asked.data["answer"] or "")
    held = setpoint_from(answer, unit, thing.setpoint_query, thing.plan.pattern)
    if all(abs(held - known) > 1.01 * sweep.tolerance for known in (sweep.confirmed, value)):
        raise Failed(
            f"{thing.instrument.id} was connected anew and holds {held:g} {unit}, where "
            f"{sweep.confirmed:g} {unit} was set: it may have been switched off and on.",
            code=ErrorCode.INSTRUMENT_ERROR,
            sent=(thing.setpoint_query,),
        )
    return asked


async def why_strayed(perform: Perform, action_id: str, sweep: Sweep) -> str:
    """Why a parked unit no longer stands where it was left; empty where nothing says so."""
    meeting = sweep.thing.instrument.meeting
    if meeting == sweep.meeting:
        return ""
    try:
        asked = await ask_anew(perform, action_id, sweep, sweep.confirmed)
    except Failed as error:
        # An answer that cannot be read says nothing yet; it is asked again.
        return str(error) if error.code is ErrorCode.INSTRUMENT_ERROR else ""
    if asked.error is None:
        sweep.meeting = meeting
    return ""
