"""Reads a dashboard by Grafana's own types, and prints what of it they do not know."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def unknown(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    if isinstance(ours, dict):
        for key, value in ours.items():
            if not isinstance(theirs, dict) or key not in theirs:
                yield f"{place}/{key}"
            else:
                yield from unknown(value, theirs[key], f"{place}/{key}")
    elif isinstance(ours, list):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from unknown(one, other, f"{place}/{number}")
    elif ours != theirs:
        yield f"{place}: {ours!r} became {theirs!r}"


given = json.loads(Path(sys.argv[1]).read_text())
read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(given)))
json.dump(list(unknown(given, read)), sys.stdout)
