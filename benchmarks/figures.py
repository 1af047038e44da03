"""How benchmarks tell their figures: a table for people, JSON for programs."""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure; ``bound`` is what it must not exceed, where something promises that."""

    name: str
    value: float
    unit: str
    bound: float | None = None

    @property
    def is_kept(self) -> bool:
        return self.bound is None or self.value <= self.bound


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest measured value that ``share`` (0 to 1) of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def parse_json_flag(description: str) -> bool:
    """The one flag that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    return bool(parser.parse_args().json)


def tell(title: str, figures: Sequence[Figure], *, as_json: bool) -> int:
    """Print them; returns 1 if a bound was exceeded."""
    is_kept = all(figure.is_kept for figure in figures)
    if as_json:
        machine = {"python": platform.python_version(), "machine": platform.machine()}
        told = {"title": title, **machine, "figures": [asdict(figure) for figure in figures]}
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
        return 0 if is_kept else 1
    sys.stdout.write(f"{title}\n")
    for figure in figures:
        bound = "" if figure.bound is None else f"at most {figure.bound:g} {figure.unit}"
        verdict = "" if figure.bound is None else ("kept" if figure.is_kept else "EXCEEDED")
        line = f"  {figure.name:<46}{figure.value:>12.3f} {figure.unit:<11} {bound:<22} {verdict}"
        sys.stdout.write(f"{line.rstrip()}\n")
    return 0 if is_kept else 1
