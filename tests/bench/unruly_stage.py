"""Simulated stages that overshoot by a third and then drift, in place of the usual ones."""

from __future__ import annotations

import math

import pytest

from edged_sim.models.families.stage import Stage

RADIANS_PER_S = 0.01
DAMPING = 0.3
DRIFT_K = 0.1
DRIFT_S = 7_000.0
STEP_S = 5.0


def unruly_stages(patch: pytest.MonkeyPatch) -> None:
    """Have every stage be one, as long as the patch lasts."""
    # stage → seconds, kelvin per second
    moving: dict[int, tuple[float, float]] = {}

    def warm(stage: Stage, target: float, passed_s: float) -> None:
        now, speed = moving.get(id(stage), (0.0, 0.0))
        steps = max(1, math.ceil(passed_s / STEP_S))
        step_s = passed_s / steps
        for _ in range(steps):
            now += step_s
            wanted = target + DRIFT_K * math.sin(2 * math.pi * now / DRIFT_S)
            pull = RADIANS_PER_S**2 * (wanted - stage.kelvin)
            speed += (pull - 2 * DAMPING * RADIANS_PER_S * speed) * step_s
            stage.kelvin += speed * step_s
        moving[id(stage)] = (now, speed)

    patch.setattr(Stage, "warm", warm)
