"""A table as a JSON Schema, Draft 2020-12, for editors that complete and check while one types.

What a schema cannot say (names that must exist, queries that must ask) stays the reader's to judge;
whatever the reader takes, the schema takes.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from edged.schema.tables import Key, Schema, Table

_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def mapping_schema(table: Table[Any], *, is_inherited: bool = False) -> Schema:
    """A mapping with exactly the table's keys; ``null`` takes an inherited entry away.

    Args:
        is_inherited: a key that is no ``is_own`` one may come from elsewhere.
    """
    schema: Schema = {
        "type": ["object", "null"] if table.is_merged else "object",
        "additionalProperties": False,
        "properties": {name: _described(key) for name, key in table.keys.items()},
    }
    required = [key.name for key in table.required if key.is_own or not is_inherited]
    if required and not table.is_merged:
        schema["required"] = required
    if table.needs_one:
        schema["anyOf"] = [{"required": [name]} for name in table.needs_one]
    return schema if table.other is None else {"anyOf": [table.other, schema]}


def _described(key: Key) -> Schema:
    # An editor shows plain text.
    sentence = _LINK.sub(r"\1", key.sentence).replace("`", "")
    return {"description": sentence, **key.kind.schema} if sentence else key.kind.schema


def schema_text(schema: Schema) -> str:
    """The schema as it lies in docs/ and is printed."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
