"""The bench file's keys, and what is made of one entry: see ``bench_file.py`` for the whole file.

From the tables come the reader, ``edged bench schema`` and the tables of docs/bench-file.md and
docs/guards.md.
"""

from __future__ import annotations

from typing import Any, Final

from edged.profiles.interlocks import INTERLOCK, MOST, WHEN
from edged.profiles.unit_rules import BUDGET, LIMIT, UNIT
from edged.schema.fields import FORMAT
from edged.schema.json_schema import DRAFT, mapping_schema
from edged.schema.tables import (
    Key,
    Kind,
    Schema,
    Table,
    array,
)

INTERLOCKS: Final = "interlocks"
MOST_UNITS: Final = 10_000
BENCH: Final[Table[dict[str, Any]]] = Table(
    "bench",
    dict,
    "The bench file. Every other key is a unit.",
    Key("format", Kind("1", {"const": FORMAT}), "The version of the format.", is_required=True),
    Key(INTERLOCKS, array(INTERLOCK.link._replace(word="[interlock](guards.md#interlock)"), MOST),
        "Conditions on readings of the bench."),
)  # fmt: skip
TABLES: Final[tuple[Table[Any], ...]] = (BENCH, UNIT, LIMIT, BUDGET, INTERLOCK, WHEN)


def bench_schema() -> Schema:
    """The schema, Draft 2020-12."""
    return {
        "$schema": DRAFT,
        "title": "Bench file of edged, format 1",
        "description": "See docs/bench-file.md.",
        **mapping_schema(BENCH),
        "additionalProperties": UNIT.link.schema,
        "maxProperties": MOST_UNITS,
        "$defs": {table.name: mapping_schema(table) for table in TABLES if table is not BENCH},
    }
