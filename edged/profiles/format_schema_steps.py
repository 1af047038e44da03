"""The part of the format's JSON Schema that describes sequences and their steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edged.profiles.format_schema_parts import (
    EXPRESSION,
    SCALAR,
    TEMPLATE,
    TEXT,
    TIMEOUT,
    TRUTH,
    bounded,
    closed,
    described,
    list_of,
    map_of,
    one_of,
    ref,
)
from edged.profiles.grammar_connection import MAX_TIMEOUT_MS
from edged.profiles.grammar_sequences import STEP_KEYS
from edged.profiles.model import AnswerType

__all__ = ["sequence", "steps"]

Schema = dict[str, Any]


def steps() -> Iterator[Schema]:
    """One schema for each kind of step."""
    inner = list_of(ref("step"))
    ends = {"type": "array", "minItems": 3, "maxItems": 3}
    described_by: dict[str, Schema] = {
        "command": {"command": TEXT, "parameters": map_of(SCALAR), "as": TEXT},
        "query": {"query": TEMPLATE, "as": TEXT, "type": one_of(AnswerType)},
        "wait_ms": {"wait_ms": SCALAR},
        "poll": {
            "poll": TEMPLATE,
            "parameters": map_of(SCALAR),
            "until": EXPRESSION,
            "every_ms": bounded("integer", 10, MAX_TIMEOUT_MS),
            "timeout_ms": bounded("integer", 1, 24 * MAX_TIMEOUT_MS),
        },
        "for": {
            "for": TEXT,
            "in": {
                "oneOf": [
                    {"type": "array"},
                    *(
                        {"type": "object", "properties": {kind: ends}, "required": [kind],
                         "additionalProperties": False}
                        for kind in ("lin", "log")
                    ),
                ]
            },
            "steps": inner,
        },
        "row": {"row": {**map_of(SCALAR), "minProperties": 1}},
    }  # fmt: skip
    needed = {"query": ("query", "as"), "poll": ("poll", "until"), "for": ("for", "in", "steps")}
    for kind, keys in STEP_KEYS.items():
        yield closed(f"{kind} step", keys, described_by[kind], required=needed.get(kind, (kind,)))


def sequence() -> Schema:
    """A sequence's keys."""
    steps = list_of(ref("step"))
    return {
        "description": TEXT,
        "parameters": ref("parameters"),
        "checks": list_of(EXPRESSION),
        "steps": {**steps, "minItems": 1},
        "finally": described("Always runs, whatever happened before.", steps),
        "finally_timeout_ms": TIMEOUT,
        "result": map_of(SCALAR),
        "essential": TRUTH,
        "is_dangerous": TRUTH,
    }
