"""What it costs to judge the worst raw lines of the longest length, over every shipped profile.

Processor time of one judgement, the tree of headers made before; the bound is that of
docs/raw-scpi.md. A storm of such lines beside a stop is in tests/flows/test_raw_storm.py.
"""

from __future__ import annotations

import gc
import sys
import time

from benchmarks.figures import Figure, parse_json_flag, tell
from edged.profiles.model import Profile
from edged.profiles.raw import identify
from tests.bench.shipped import shipped_library
from tests.unit.profiles.test_raw_classes import WORST

ROUNDS = 5
BOUND_MS = 5.0
LONG = "DATA " + ",".join(["0.123456"] * 7_200)
"""A message of a VISA program of nearly 64 KiB."""


def main() -> int:
    as_json = parse_json_flag(__doc__ or "")
    profiles = shipped_library().profiles
    worst = {
        f"line {number}": max(map(_cost_ms, [line] * len(profiles), profiles.values()))
        for number, line in enumerate((*WORST, LONG))
    }
    figures = tuple(
        Figure(name=f"{name}, costliest profile", value=value, unit="ms", bound=BOUND_MS)
        for name, value in worst.items()
    )
    return tell("judging raw lines", figures, as_json=as_json)


def _cost_ms(line: str, profile: Profile) -> float:
    """The least of some rounds: a judgement is pure, and what disturbs it is not its own."""
    identify(profile, "*IDN?;FOO 1")
    gc.disable()
    try:
        return min(_once_ms(line, profile) for _ in range(ROUNDS))
    finally:
        gc.enable()


def _once_ms(line: str, profile: Profile) -> float:
    identify.found.clear()
    before = time.process_time()
    identify(profile, line)
    return (time.process_time() - before) * 1_000


if __name__ == "__main__":
    sys.exit(main())
