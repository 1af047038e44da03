"""What of ``finally`` is done once everything was stopped, also inside of other steps."""

from __future__ import annotations

import asyncio

import pytest

from edged.errors import Failed
from edged.experiments.model import IfStep, RepeatStep
from edged.profiles.model import CommandStep, ForStep, Sequence, Step
from edged.runs.wording import all_stopped_by
from tests.bench.driven_clock import DrivenClock
from tests.unit.work.test_sequences import OFF, Lab, safe_profile

DOWN = CommandStep(command="set_voltage", parameters={"voltage": 0})
BOTH: tuple[Step, ...] = (DOWN, OFF)


@pytest.mark.parametrize(
    ("step", "sent"),
    [
        (IfStep(condition="channel == 1", then=BOTH), ["output_off"]),
        (IfStep(condition="channel == 2", then=BOTH), []),
        (ForStep(name="n", kind="count", values=(2,), steps=BOTH), ["output_off"] * 2),
        # It would wait between what is safe, or move something itself.
        (ForStep(name="n", kind="count", values=(2,), steps=BOTH, wait_s=1), []),
        (RepeatStep(name="n", at_most=2, until="n > 5", steps=BOTH), []),
    ],
)
async def test_after_stop_all_the_safe_commands_inside_a_step_of_finally_are_sent(
    driven_clock: DrivenClock, step: Step, sent: list[str]
) -> None:
    lab = Lab(driven_clock, profile=safe_profile())
    lab.gate["measure"] = asyncio.Event()
    sequence = Sequence(
        name="s", steps=(CommandStep(command="measure"),), finally_steps=(step, OFF)
    )
    task = asyncio.create_task(lab.run(sequence, channel=1))
    await lab.reached("measure")

    await lab.runs.stop_all(all_stopped_by("alice"))

    with pytest.raises(Failed, match="was stopped"):
        await task
    assert lab.names()[1:] == [*sent, "output_off"]
