"""The profile format as a JSON Schema, for editors that complete and check while one types.

Made from the grammar's own tables. What a schema cannot say (names that must exist, queries that
must ask) stays the grammar's to judge; whatever the grammar takes, the schema takes.

``python -m edged.profiles.format.schema`` prints it; ``make docs`` keeps it in
docs/profile.schema.json.
"""

from __future__ import annotations

import json
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
from edged.profiles.format.tables import QUESTION, Key, Schema, Table
from edged.profiles.format.watchdog import TRIPPED, WATCHDOG

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
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "edged instrument profile, format 1",
        "description": "See docs/profiles.md.",
        **_mapping(PROFILE),
        "anyOf": [{"required": ["extends"]}, _alone()],
        "$defs": {table.name: _mapping(table) for table in TABLES if table is not PROFILE}
        | {
            name: {"oneOf": [_mapping(one) for one in tables.values()]}
            for name, tables in UNIONS.items()
        },
    }


def _mapping(table: Table[Any]) -> Schema:
    """A mapping with exactly the table's keys; ``null`` takes an inherited entry away."""
    schema: Schema = {
        "type": ["object", "null"] if table.is_merged else "object",
        "additionalProperties": False,
        "properties": {name: _described(key) for name, key in table.keys.items()},
    }
    is_inherited = table is PROFILE
    required = [key.name for key in _required(table) if key.is_own or not is_inherited]
    if required and not table.is_merged:
        schema["required"] = required
    if table.needs_one:
        schema["anyOf"] = [{"required": [name]} for name in table.needs_one]
    return schema if table.other is None else {"anyOf": [table.other, schema]}


def _described(key: Key) -> Schema:
    # An editor shows plain text.
    sentence = key.sentence.replace("`", "")
    return {"description": sentence, **key.kind.schema} if sentence else key.kind.schema


def _required(table: Table[Any]) -> list[Key]:
    return [key for key in table.keys.values() if key.is_required]


def _alone() -> Schema:
    """What must be said where nothing is inherited."""
    required = [key.name for key in _required(PARAMETER)]
    entry = {"properties": {"parameters": _map_of({"required": required})}}
    return {
        "required": [key.name for key in _required(PROFILE) if not key.is_own],
        "properties": {name: _map_of(entry) for name in ("commands", "sequences")},
    }


def _map_of(entry: Schema) -> Schema:
    return {"type": "object", "additionalProperties": entry}


def schema_text() -> str:
    """The schema as it lies in docs/."""
    return json.dumps(profile_schema(), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Print it."""
    sys.stdout.write(schema_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
