"""The profile format as a JSON Schema, for editors that complete and check while one types.

Made from the grammar's own tables. What a schema cannot say (names that must exist, queries that
must ask) stays the grammar's to judge; whatever the grammar takes, the schema takes.

``python -m edged.profiles.format.schema`` prints it; ``make docs`` keeps it in
docs/profile.schema.json.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from edged.profiles.format.commands import ABORT, COMMAND, SWEEP, VERIFY
from edged.profiles.format.connection import (
    COMPLETION,
    CONNECTION,
    ERRORS,
    IDENTIFY,
    MATCH,
    PRECONDITION,
    PROBE,
    WIRE,
)
from edged.profiles.format.kinds import QUESTION
from edged.profiles.format.parameters import BOUND, PARAMETER
from edged.profiles.format.profile import ACQUISITION, LIMITED, PROFILE, SETTING
from edged.profiles.format.returns import (
    ANSWER_FIELD,
    BIT,
    BITS,
    IMAGE,
    PACKETS,
    PREAMBLE,
    RETURNS,
    WAVEFORM,
)
from edged.profiles.format.sequences import SEQUENCE, STEPS
from edged.profiles.format.watchdog import TRIPPED, WATCHDOG
from edged.schema.json_schema import DRAFT, mapping_schema, schema_text
from edged.schema.tables import Schema, Table

TABLES: Final[tuple[Table[Any], ...]] = (
    PROFILE, MATCH, IDENTIFY, CONNECTION, WIRE, PROBE, ERRORS, QUESTION, ACQUISITION, LIMITED,
    COMMAND, PARAMETER, BOUND, ANSWER_FIELD, PREAMBLE, WAVEFORM, PACKETS, BITS, BIT, IMAGE,
    PRECONDITION, VERIFY, COMPLETION, SWEEP, ABORT, WATCHDOG, TRIPPED, SETTING, SEQUENCE,
)  # fmt: skip
UNIONS: Final = {"returns": RETURNS, "step": STEPS}
"""Mappings that are one of several, told by a key."""


def profile_schema() -> Schema:
    """The schema, Draft 2020-12."""
    return {
        "$schema": DRAFT,
        "title": "edged instrument profile, format 1",
        "description": "See docs/profiles.md.",
        **mapping_schema(PROFILE, is_inherited=True),
        "anyOf": [{"required": ["extends"]}, _alone()],
        "$defs": {table.name: mapping_schema(table) for table in TABLES if table is not PROFILE}
        | {
            name: {"oneOf": [mapping_schema(one) for one in tables.values()]}
            for name, tables in UNIONS.items()
        },
    }


def _alone() -> Schema:
    """What must be said where nothing is inherited."""
    required = [key.name for key in PARAMETER.required]
    entry = {"properties": {"parameters": _map_of({"required": required})}}
    return {
        "required": [key.name for key in PROFILE.required if not key.is_own],
        "properties": {name: _map_of(entry) for name in ("commands", "sequences")},
    }


def _map_of(entry: Schema) -> Schema:
    return {"type": "object", "additionalProperties": entry}


def main() -> int:
    """Print it."""
    sys.stdout.write(schema_text(profile_schema()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
