"""The grammar of experiments as a JSON Schema, Draft 2020-12, and as a text for agents.

Both are made from the tables of the grammar. What a schema cannot say (names that must exist, loops
that must be there) stays the reader's to judge; whatever the reader takes, the schema takes.
"""

from __future__ import annotations

from typing import Any, Final

from edged.experiments.examples import EXAMPLES
from edged.experiments.grammar import (
    EXPERIMENT,
    LOG,
    ON_MISSING,
    PLOT,
    REPORT,
    RESUME,
    STEPS,
    TABLES,
    WATCH,
)
from edged.profiles.expr import FUNCTIONS
from edged.profiles.format.parameters import BOUND, PARAMETER
from edged.schema.json_schema import DRAFT, mapping_schema
from edged.schema.tables import Key, Schema, Table, reference

_HEAD: Final = f"""\
# Experiment plans, format 1

1. bench__check_experiment with the plan as `plan` (JSON) or `text` (YAML): all errors at once, each
with a remedy. 2. bench__start_experiment with its plan_id. 3. bench__control_run: status, answer.

Commands, parameters and fields: get_capabilities of the unit. role.command.field is one field of
an answer. A command that needs arguments: {{command: role.command, parameters: {{…}}}}.
Values: a number, a text, or "{{expression}}" over names: parameters, loops, and what let, read,
measure, ask and `as` have named. Expressions: + - * / ( ) == != < <= > >= and or not,
{", ".join(FUNCTIONS)}. `in`: [1, 2], {{lin: [from, to, number]}}, {{log: …}} or {{count: number}}.
A set-point that is worked out from readings needs `bounds`. `finally` always runs: ramp down, then
switch off.

## Keys of a plan (* required)
"""
_STEPS: Final = """
- bounds: {role.command.parameter: [low, high]}

## Steps: each has exactly one of these, with its keys
"""
_INNER: Final[tuple[Table[Any], ...]] = (LOG, WATCH, RESUME, ON_MISSING, PLOT, REPORT)


def experiment_schema() -> Schema:
    """The schema, Draft 2020-12."""
    tables: tuple[Table[Any], ...] = (*TABLES, PARAMETER, BOUND)
    return {
        "$schema": DRAFT,
        "title": "Experiment of edged, format 1",
        "description": "See docs/experiments.md.",
        **mapping_schema(EXPERIMENT),
        "$defs": {table.name: mapping_schema(table) for table in tables}
        | {"step": {"anyOf": [reference(table.name) for table in STEPS.values()]}},
    }


def grammar_text() -> str:
    """The grammar in Markdown: values, keys, steps, and one example that passes the check."""
    steps = "\n".join(_step(kind, table) for kind, table in STEPS.items())
    example = EXAMPLES["map"].partition("\n")[2]
    inner = "".join(f"\n- {table.name}: {_keys(table)}" for table in _INNER)
    keys = f"{_keys(EXPERIMENT)}\n{inner}"
    return f"{_HEAD}{keys}{_STEPS}{steps}\n\n## Example\n```yaml\n{example}```\n"


def _keys(table: Table[Any], but: str = "") -> str:
    return ", ".join(_key(key) for key in table.keys.values() if key.name != but)


def _key(key: Key) -> str:
    words = "|".join(key.kind.schema.get("enum", ()))
    return f"{key.name}{'*' if key.is_required else ''}{f' {words}' if words else ''}"


def _step(kind: str, table: Table[Any]) -> str:
    """One line: the key that names the step, its other keys, what it does."""
    others = _keys(table, but=kind)
    more = f"; {others}" if others else ""
    return f"- {kind}: {table.keys[kind].kind.word}{more}. {table.sentence}"
