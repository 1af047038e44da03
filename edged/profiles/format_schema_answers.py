"""The part of the format's JSON Schema that describes ``returns``."""

from __future__ import annotations

from typing import Any

from edged.profiles.format_schema_parts import (
    EXPRESSION,
    NAME,
    NUMBER,
    TEMPLATE,
    TEXT,
    bounded,
    closed,
    list_of,
    map_of,
    one_of,
    ref,
)
from edged.profiles.grammar_blocks import DTYPES, PREAMBLE_KEYS, WAVEFORM_KEYS
from edged.profiles.grammar_returns import BIT_KEYS, BITS_KEYS, IMAGE_KEYS, RETURN_KEYS
from edged.profiles.model import AnswerType

__all__ = ["answer_field", "returns"]

Schema = dict[str, Any]


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
