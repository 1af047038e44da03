"""The profile format as a JSON Schema, for editors that complete and check while one types.

Made from the same tables as the grammar: a key that the grammar learns and that has no entry here
stops the making. What a schema cannot say (names that must exist, queries that must ask) stays the
grammar's to judge; whatever the grammar takes, the schema takes.

``python -m edged.profiles.format.schema`` prints it; ``make docs`` keeps it in
docs/profile.schema.json.

The part of the format's JSON Schema that describes ``returns``.

The small pieces from which ``format_schema`` builds.

The part of the format's JSON Schema that describes sequences and their steps.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from edged.errors import ErrorCode, Fault
from edged.profiles.format.commands import ABORT_KEYS, COMMAND_KEYS, SWEEP_KEYS, VERIFY_KEYS
from edged.profiles.format.connection import (
    COMPLETION_KEYS,
    CONNECTION_KEYS,
    ENCODINGS,
    ERROR_KEYS,
    FLOWS,
    MATCH_KEYS,
    MAX_PAUSE_MS,
    MAX_TIMEOUT_MS,
    PARITIES,
    PRECONDITION_KEYS,
    PROBE_KEYS,
    STOP_BITS,
)
from edged.profiles.format.parameters import BOUND_KEYS, PARAMETER_KEYS
from edged.profiles.format.profile import ACQUISITION_KEYS, FORMAT, PROFILE_KEYS, SETTING_KEYS
from edged.profiles.format.returns import (
    BIT_KEYS,
    BITS_KEYS,
    DTYPES,
    FIELD_KEYS,
    IMAGE_KEYS,
    PREAMBLE_KEYS,
    RETURN_KEYS,
    WAVEFORM_KEYS,
)
from edged.profiles.format.sequences import SEQUENCE_KEYS, STEP_KEYS
from edged.profiles.model import ParameterType
from edged.scpi.answer_text import AnswerType, ErrorKind

__all__ = [
    "EXPRESSION",
    "NAME",
    "NUMBER",
    "SCALAR",
    "TEMPLATE",
    "TEXT",
    "TIMEOUT",
    "TRUTH",
    "answer_field",
    "bounded",
    "closed",
    "described",
    "list_of",
    "map_of",
    "named",
    "one_of",
    "profile_schema",
    "ref",
    "returns",
    "schema_text",
    "sequence",
    "steps",
]

Schema = dict[str, Any]

# A plain scalar that looks like a number is text all the same where text belongs (model: 2450).
TEXT: Final[Schema] = {"type": ["string", "number"]}
TEMPLATE: Final[Schema] = {"type": ["string", "number"], "minLength": 1}
EXPRESSION: Final[Schema] = {"type": ["string", "number", "boolean"]}
NUMBER: Final[Schema] = {"type": "number"}
SCALAR: Final[Schema] = {"type": ["string", "number", "boolean"]}
TRUTH: Final[Schema] = {"type": "boolean"}
NAME_PATTERN: Final = "^(?!.*__)[a-z][a-z0-9_]*$"
NAME: Final[Schema] = {"type": "string", "pattern": NAME_PATTERN}
TIMEOUT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_MS}


def bounded(kind: str, least: float, most: float | None = None) -> Schema:
    """A number within bounds."""
    schema: Schema = {"type": kind, "minimum": least}
    return schema if most is None else {**schema, "maximum": most}


def one_of(words: Iterable[str]) -> Schema:
    """One of a few words."""
    return {"enum": [str(word) for word in words]}


def list_of(schema: Schema, *, least: int = 0) -> Schema:
    """A list of these."""
    found: Schema = {"type": "array", "items": schema}
    return {**found, "minItems": least} if least else found


def map_of(schema: Schema) -> Schema:
    """A mapping whose keys are the file's own."""
    return {"type": "object", "additionalProperties": schema}


def named(schema: Schema) -> Schema:
    """A mapping whose keys are names as commands and parameters have them."""
    return {**map_of(schema), "propertyNames": {"pattern": NAME_PATTERN}}


def described(sentence: str, schema: Schema) -> Schema:
    """With what an editor shows beside the key."""
    return {"description": sentence, **schema}


def ref(name: str) -> Schema:
    """What stands under ``$defs``."""
    return {"$ref": f"#/$defs/{name}"}


def closed(
    owner: str,
    keys: Collection[str],
    properties: Schema,
    *,
    required: Iterable[str] = (),
    is_nullable: bool = False,
) -> Schema:
    """A mapping with exactly the grammar's keys; ``null`` takes an inherited entry away."""
    if set(keys) != set(properties):
        odd = ", ".join(sorted(set(keys) ^ set(properties)))
        raise Fault(f"The schema of a {owner} and its grammar disagree about {odd}.",
                    code=ErrorCode.INTERNAL)  # fmt: skip
    schema: Schema = {
        "type": ["object", "null"] if is_nullable else "object",
        "additionalProperties": False,
        "properties": properties,
    }
    needed = list(required)
    return {**schema, "required": needed} if needed else schema


def answer_field() -> Schema:
    """One named piece of an answer."""
    return {
        "name": NAME,
        "type": one_of(AnswerType),
        "unit": TEXT,
        "map": map_of(TEXT),
        "scale": EXPRESSION,
        "index": bounded("integer", 0, 10_000),
        "key": TEXT,
        "pattern": TEXT,
    }


def returns() -> Schema:
    """How an answer is read, one of five kinds."""
    fields = list_of(ref("answer_field"), least=1)
    bit = {
        "name": NAME,
        "mask": bounded("integer", 1),
        "map": map_of(TEXT),
    }
    count = {
        "anyOf": [
            bounded("integer", 1),
            {"type": "array", "items": bounded("integer", 1), "minItems": 2, "maxItems": 2},
        ]
    }
    preamble = {
        "query": {"anyOf": [TEMPLATE, list_of(TEMPLATE)]},
        "fields": fields,
        "separator": {"type": "string", "minLength": 1, "maxLength": 8},
        "count": count,
    }
    bits = {
        "base": {"enum": [10, 16]},
        "fields": list_of(closed("bit", BIT_KEYS, bit, required=("name", "mask")), least=1),
    }
    entries: Schema = {
        "type": one_of(AnswerType),
        "unit": TEXT,
        "map": map_of(TEXT),
        "scale": EXPRESSION,
        "sentinels": list_of(NUMBER),
        "fields": fields,
        "separator": preamble["separator"],
        "primary": TEXT,
        "count": count,
        "extra_lines": bounded("integer", 0, 16),
        "bits": closed("bits", BITS_KEYS, bits, required=("fields",)),
        "waveform": closed(
            "waveform",
            WAVEFORM_KEYS,
            _waveform(closed("preamble", PREAMBLE_KEYS, preamble, required=("query", "fields"))),
            required=("data", "dtype"),
        ),
        "image": closed("image", IMAGE_KEYS, {"mime": {"type": "string", "pattern": "^image/"},
                                               "data": TEMPLATE}, required=IMAGE_KEYS),
    }  # fmt: skip
    # In this order and not that of a set, so that the file is the same each time it is written.
    kinds = [
        closed(
            f"returns: {kind}",
            keys,
            {key: entry for key, entry in entries.items() if key in keys},
            required=(kind,),
        )
        for kind, keys in RETURN_KEYS.items()
    ]
    return {"oneOf": kinds}


def _waveform(preamble: Schema) -> Schema:
    return {
        "setup": list_of(TEMPLATE),
        "preamble": preamble,
        "data": TEMPLATE,
        "dtype": one_of(DTYPES),
        "byte_order": one_of(("little", "big")),
        "chunk_points": bounded("integer", 1, 100_000_000),
        "trailing_bytes": bounded("integer", 0, 16),
        "x_increment": EXPRESSION,
        "x_unit": TEXT,
        "y_unit": TEXT,
        "scale": EXPRESSION,
    }


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


REQUIRED: Final = ("format", "profile_key", "model", "match")
REQUIRED_ALONE: Final = ("manufacturer", "instrument_class", "source", "commands")
"""What only a profile may leave out that extends another one."""
_PAUSE: Final = bounded("integer", 0, MAX_PAUSE_MS)


def profile_schema() -> Schema:
    """The schema, Draft 2020-12.

    Raises:
        Fault: the grammar knows a key that is not described here, or the other way round.
    """
    schema = closed("profile", PROFILE_KEYS, _head(), required=REQUIRED)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "edged instrument profile, format 1",
        "description": "See docs/profiles.md.",
        **schema,
        "anyOf": [{"required": ["extends"]}, _alone()],
        "$defs": {
            "bound": closed("bound", BOUND_KEYS, _bound()),
            "parameter": closed("parameter", PARAMETER_KEYS, _parameter(), is_nullable=True),
            "parameters": named(ref("parameter")),
            "errors": _errors(),
            "complete": _complete(),
            "connection": closed("connection", CONNECTION_KEYS, _connection()),
            "answer_field": closed(
                "answer field", FIELD_KEYS, answer_field(), required=("name", "type")
            ),
            "returns": returns(),
            "abort": _abort(),
            "sweep": closed("sweep", SWEEP_KEYS, _sweep(), required=("parameter", "setpoint")),
            "verify": closed("verify", VERIFY_KEYS, _verify(), required=("query",)),
            "command": closed("command", COMMAND_KEYS, _command(), is_nullable=True),
            "step": {"oneOf": [*steps()]},
            "sequence": closed("sequence", SEQUENCE_KEYS, sequence(), is_nullable=True),
            "setting": closed("setting", SETTING_KEYS, _setting(), is_nullable=True),
        },
    }


def _alone() -> Schema:
    """What must be said where nothing is inherited."""
    typed = map_of({"properties": {"parameters": map_of({"required": ["type"]})}})
    return {
        "required": list(REQUIRED_ALONE),
        "properties": {"commands": typed, "sequences": typed},
    }


def _head() -> Schema:
    commands = named(ref("command"))
    return {
        "format": {"const": FORMAT},
        "profile_key": described("Begins every tool name.", NAME),
        "version": bounded("integer", 0, 1_000_000),
        "manufacturer": TEXT,
        "model": TEXT,
        "instrument_class": described("power_supply, multimeter, oscilloscope, …",
                                      NAME),
        "source": described("Where the commands come from: manual, driver, capture.", TEXT),
        "match": closed("match", MATCH_KEYS, _match(), required=("idn",)),
        "connection": ref("connection"),
        "abort": described("What makes the whole instrument safe.", list_of(ref("abort"))),
        "abort_excludes": described(
            "Command → why abort has nothing to do with what it puts out.",
            named({"type": ["string", "number", "null"]}),
        ),
        "acquisition": closed("acquisition", ACQUISITION_KEYS, _acquisition(),
                              required=("ask", "running", "stopped")),
        "sim": described("The simulated instrument that stands for it.", TEXT),
        "commands": {**commands, "minProperties": 1},
        "settings": named(ref("setting")),
        "sequences": named(ref("sequence")),
        "extends": described("The profile_key of the family that this one differs from.", TEXT),
        "unverified": described(
            "What nobody has tried on the real instrument.",
            {"anyOf": [{"const": "all"}, list_of(TEXT)]},
        ),
    }  # fmt: skip


def _match() -> Schema:
    return {
        "idn": described("Regular expression, searched in the whole *IDN? answer.", TEXT),
        "usb": list_of({"type": "string", "pattern": "^(0x)?[0-9a-fA-F]{4}:(0x)?[0-9a-fA-F]{4}$"}),
        "examples": described("Real answers to *IDN?.", list_of(TEXT)),
    }


ACKNOWLEDGE: Final = described(
    'Regular expression of what answers a line that asks nothing; "none": nothing does.', TEXT
)


def _connection() -> Schema:
    termination = {"type": "string", "maxLength": 4}
    return {
        "read_termination": termination,
        "write_termination": termination,
        "encoding": one_of(ENCODINGS),
        "timeout_ms": TIMEOUT,
        "open_timeout_ms": bounded("integer", 1, MAX_PAUSE_MS),
        "after_write_ms": _PAUSE,
        "min_gap_ms": _PAUSE,
        "chunk_bytes": bounded("integer", 16, 64 * 1024 * 1024),
        "baud_rate": bounded("integer", 50, 10_000_000),
        "data_bits": bounded("integer", 5, 8),
        "parity": one_of(PARITIES),
        "stop_bits": {"enum": list(STOP_BITS)},
        "flow": one_of(FLOWS),
        "errors": ref("errors"),
        "acknowledge": ACKNOWLEDGE,
        "on_connect": described("Sent on connecting; never touches an output.", list_of(TEMPLATE)),
        "on_connect_serial": list_of(TEMPLATE),
        "on_release": list_of(TEMPLATE),
        "probe": closed(
            "probe", PROBE_KEYS, {"query": TEMPLATE, "expect": TEXT}, required=PROBE_KEYS
        ),
    }


def _errors() -> Schema:
    inner = {"query": TEMPLATE, "kind": one_of(ErrorKind), "detail": TEMPLATE}
    return {"anyOf": [{"const": "none"}, closed("errors", ERROR_KEYS, inner, required=("kind",))]}


def _complete() -> Schema:
    inner = {
        "poll": TEMPLATE,
        "until": EXPRESSION,
        "every_ms": bounded("integer", 10, MAX_PAUSE_MS),
        "timeout_ms": TIMEOUT,
    }
    polled = closed("complete", COMPLETION_KEYS, inner, required=("poll", "until"))
    return {"anyOf": [one_of(("none", "opc")), polled]}


def _bound() -> Schema:
    return {"min": NUMBER, "max": NUMBER, "options": list_of(TEXT)}


def _parameter() -> Schema:
    return {
        **_bound(),
        "type": one_of(ParameterType),
        "default": SCALAR,
        "unit": TEXT,
        "map": described("Label → what goes onto the wire.", map_of(SCALAR)),
        "description": TEXT,
        "step": described("Resolution, in the parameter's unit.", {"type": "number",
                                                                  "exclusiveMinimum": 0}),
        "by": described("Other parameter → its value → the bound that then holds too.",
                        map_of(map_of(ref("bound")))),
    }  # fmt: skip


def _sweep() -> Schema:
    return {
        "parameter": TEXT,
        "setpoint": TEMPLATE,
        "pattern": TEXT,
        "readback": described("The query command that measures it.", TEXT),
        "interval_ms": bounded("integer", 10, MAX_TIMEOUT_MS),
        "step": {"type": "number", "exclusiveMinimum": 0},
        "abort": list_of(ref("abort")),
    }


def _abort() -> Schema:
    step = {
        "send": TEMPLATE,
        "ask": described("The question whose answer shows that it was obeyed, or none.", TEMPLATE),
        "expect": described("Regular expression, searched in the answer.", TEXT),
    }
    return {"anyOf": [TEMPLATE, closed("abort", ABORT_KEYS, step, required=("send", "ask"))]}


def _acquisition() -> Schema:
    return {
        "ask": described("What the instrument is doing; asked before every capture.", TEMPLATE),
        "running": described("Regular expression: it captures anew all the time.", TEXT),
        "stopped": described("Regular expression: it captures nothing.", TEXT),
        "started_by": described("Commands after which what it holds is new.", list_of(TEXT)),
    }


def _verify() -> Schema:
    return {
        "query": TEMPLATE,
        "parameter": TEXT,
        "tolerance": {"type": "number", "minimum": 0},
        "pattern": TEXT,
    }


def _command() -> Schema:
    precondition = {"query": TEMPLATE, "expect": TEXT, "hint": TEXT}
    return {
        "scpi": described("One line, or a list that nothing interrupts.",
                          {"anyOf": [TEMPLATE, list_of(TEMPLATE, least=1)]}),
        "description": TEXT,
        "parameters": ref("parameters"),
        "checks": list_of(EXPRESSION),
        "is_query": TRUTH,
        "returns": ref("returns"),
        "precondition": closed("precondition", PRECONDITION_KEYS, precondition,
                                required=("query", "expect")),
        "verify": ref("verify"),
        "complete": ref("complete"),
        "errors": ref("errors"),
        "acknowledge": ACKNOWLEDGE,
        "timeout_ms": TIMEOUT,
        "after_write_ms": _PAUSE,
        "is_dangerous": described("It gives energy, or may.", TRUTH),
        "is_safe": described("It makes things safe, and is never refused.", TRUTH),
        "requires_sweep": described("Only start_sweep may run it.", TRUTH),
        "essential": described("One of the few for short tool lists.", TRUTH),
        "sweep": ref("sweep"),
    }  # fmt: skip


def _setting() -> Schema:
    return {
        "get": TEMPLATE,
        "set": TEXT,
        "for": map_of({"type": "array", "minItems": 1}),
        "unit": TEXT,
        "type": one_of(AnswerType),
    }


def schema_text() -> str:
    """The schema as it lies in docs/."""
    return json.dumps(profile_schema(), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Print it."""
    sys.stdout.write(schema_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
