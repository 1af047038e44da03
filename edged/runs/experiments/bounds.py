"""What bounds a run as a whole: its longest duration, all that it may send, and who allowed it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from edged.actions.caller import Approval
from edged.actions.envelope import Allowed, Envelope, EnvelopeRow, OpenEnvelope
from edged.clock import Clock
from edged.experiments.checked import LONGEST_H, MOST_SENT, Asked, Checked
from edged.instruments.instrument import Instrument
from edged.profiles.model import Command
from edged.runs.units import unit_of_instrument

SHORTEST_H: Final = 0.25
"""Unless the plan says ``at_most_h``: twice what it likely takes, within these."""


def hours_of(checked: Checked) -> float:
    """How long the run may take; so long last its lease and its approval.

    Nobody knows how long a person takes, so the time-outs of a plan that asks one are its bound.
    There is room for the longest pause.
    """
    given = checked.experiment.at_most_h
    if given is not None:
        return given
    span = checked.duration
    seconds = span.most if checked.is_asking else 2 * span.likely
    seconds += checked.experiment.pause_at_most_s
    # In whole quarters: what commands lately took makes no other question of an approval.
    quarters = math.ceil(seconds / 3600 / SHORTEST_H)
    return min(LONGEST_H, max(1, quarters) * SHORTEST_H)


def approval_told(approval: Approval | None, wall_ms: int) -> dict[str, Any]:
    """What a run's journal keeps of a person's yes, for ``approval_left``; empty: there is none."""
    if approval is None or not approval.approval_id or approval.envelope is None:
        return {}
    told = approval.envelope.to_json(wall_ms)
    return {"approval": {"id": approval.approval_id, "envelope": told["envelope"],
                         "until_ms": told["until_ms"]}}  # fmt: skip


def approval_left(
    payload: Mapping[str, Any],
    envelope: Envelope,
    instruments: Iterable[Instrument],
    clock: Clock,
) -> Approval | None:
    """The approval that what is resumed of a run may use; ``None``: a person has to be asked.

    Args:
        payload: of the run's row in the journal.
        envelope: of the plan as it is checked now.
        instruments: the units whose owners want to be asked; each must let it survive.
    """
    kept = payload.get("approval")
    if not isinstance(kept, Mapping):
        return None
    if not all(one.rules.approval_survives_crash for one in instruments):
        return None
    try:
        approved = Envelope.from_json(kept["envelope"])
        left_s = (int(kept["until_ms"]) - clock.wall_ms()) / 1000
        approval_id = str(kept["id"])
    except (LookupError, TypeError, ValueError, OverflowError):
        return None
    if approved.rows != envelope.rows or left_s <= 0:
        return None
    most_s = min(left_s, approved.most_s)
    opened = OpenEnvelope(replace(approved, most_s=most_s), clock.monotonic)
    return Approval(approval_id=approval_id, envelope=opened)


def envelope_of(plan_id: str, checked: Checked, instruments: Mapping[str, Instrument]) -> Envelope:
    """All that the run may send.

    Args:
        instruments: by id.
    """
    rows = tuple(
        row
        for asked in checked.envelope
        if (row := _row(asked, checked, instruments[asked.unit])) is not None
    )
    return Envelope(plan_id=plan_id, rows=rows, most_s=hours_of(checked) * 3600)


def _row(asked: Asked, checked: Checked, instrument: Instrument) -> EnvelopeRow | None:
    profile = instrument.profile
    command = profile.commands.get(asked.command) if profile is not None else None
    if command is None:
        return None
    moved = command.sweep.parameter if asked.rate is not None and command.sweep else ""
    return EnvelopeRow(
        unit=unit_of_instrument(instrument).key,
        called=instrument.called,
        command=asked.command,
        parameters=_parameters(asked, checked, command, moved),
        rate=asked.rate,
        most=0 if moved or asked.count >= MOST_SENT else round(asked.count),
        is_last=asked.is_last,
    )


def _parameters(asked: Asked, checked: Checked, command: Command, moved: str) -> dict[str, Allowed]:
    found: dict[str, Allowed] = {}
    for name, parameter in command.parameters.items():
        values: tuple[Any, ...] = asked.parameters.get(name, ())
        if not values and parameter.default is not None:
            values = (parameter.default,)
        bounds = checked.bounded.get((asked.unit, asked.command, name))
        if name == moved:
            values = (*values, *_everywhere(asked, checked, name))
            between = (min(values), max(values)) if values else None
            found[name] = Allowed(between=between, unit=parameter.unit)
        elif values or bounds:
            found[name] = replace(_set(values, bounds), unit=parameter.unit)
    return found


def _set(values: tuple[Any, ...], bounds: tuple[float, float] | None) -> Allowed:
    """What is set at once, or ramped to: a value that the plan names, or one within ``bounds``."""
    if bounds is None:
        return Allowed(values=values)
    return Allowed(values=tuple(one for one in values if not bounds[0] <= one <= bounds[1]),
                   between=bounds)  # fmt: skip


def why_no_target(
    checked: Checked, unit_id: str, command: str, parameter: str, value: float
) -> str:
    """Why a ramp may not go to a value, as a clause; empty: it may.

    Its steps lie in the envelope, which reaches from where it begins to all that is set anywhere.
    """
    bounds = checked.bounded.get((unit_id, command, parameter))
    if bounds is None:
        return ""
    ramped = (
        asked.parameters.get(parameter, ())
        for asked in checked.envelope
        if (asked.unit, asked.command) == (unit_id, command) and asked.rate is not None
    )
    allowed = _set(tuple(one for values in ramped for one in values), bounds)
    return "" if allowed.holds(value) else f"{parameter} {value:.12g} is not in {allowed.text}"


def _everywhere(asked: Asked, checked: Checked, name: str) -> tuple[Any, ...]:
    """What the same command is given elsewhere: a ramp begins where another step has left it."""
    bounds = checked.bounded.get((asked.unit, asked.command, name), ())
    same = (
        one.parameters.get(name, ())
        for one in checked.envelope
        if (one.unit, one.command) == (asked.unit, asked.command)
    )
    return (*bounds, *(value for values in same for value in values))
