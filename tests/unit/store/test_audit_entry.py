from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.store.audit.row import (
    GENESIS,
    PARAMETER_BYTES,
    SEPARATOR,
    TEXT_COLUMNS,
    bounded_arguments,
    row_hash,
    texts_of,
)
from tests.bench.store_bench import entry
from tests.promises import promise

TEXTS = st.text(max_size=300) | st.text(alphabet="\ud800\udfff\x00\x1f\n;a", max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)
PARAMETERS_AT = TEXT_COLUMNS.index("parameters")


@given(arguments=st.dictionaries(TEXTS, JSON, max_size=8), tool=TEXTS, error=TEXTS, line=TEXTS)
def test_whatever_was_sent_makes_a_row_that_can_be_stored_and_read_unambiguously(
    arguments: dict[str, object], tool: str, error: str, line: str
) -> None:
    stored = texts_of(
        entry(arguments=bounded_arguments(arguments), tool=tool, error=error, scpi=(line, line))
    )
    for value in stored:
        text = str(value)
        text.encode("utf-8")
        assert SEPARATOR not in text
        assert "\x00" not in text
    assert len(stored[PARAMETERS_AT]) <= PARAMETER_BYTES
    json.loads(stored[PARAMETERS_AT])
    assert len(row_hash(GENESIS, (1, *stored))) == 32


@promise("audit.no-secrets")
@pytest.mark.parametrize(
    "more",
    [
        {"arguments": {"token": "tell-tale"}},
        {"arguments": {"headers": {"Authorization": "Bearer tell-tale"}}},
        {"arguments": {"note": "use Bearer tell-tale for it"}},
        {"arguments": {"Edge-Caller-JWT": "tell-tale"}},
        {"error": "the peer said Bearer tell-tale"},
        {"tool": "Bearer tell-tale"},
        {"scpi": ("DIAG 'Bearer tell-tale'",)},
        {"subject": "eyJhbGciOiJub25l.eyJzdWIiOiJ0ZWxsLXRhbGUifQ.tell-tale"},
    ],
)
def test_no_secret_gets_into_a_row(more: dict[str, object]) -> None:
    assert "tell-tale" not in repr(texts_of(entry(**more)))


def test_long_arguments_are_cut_with_a_mark_and_stay_json() -> None:
    arguments = bounded_arguments({"text": "\\" * 5_000_000, "list": list(range(100_000))})
    stored = texts_of(entry(arguments=arguments))[PARAMETERS_AT]
    assert len(stored) <= PARAMETER_BYTES
    assert "cut" in json.loads(stored)


def test_small_arguments_are_not_copied() -> None:
    arguments = {"channel": 1, "voltage": 3.3, "mode": "DC", "is_on": True}
    assert bounded_arguments(arguments) is arguments


def test_what_waits_in_memory_is_bounded_however_large_the_call_was() -> None:
    nested: object = "x" * 100_000
    for _ in range(50):
        nested = {"deeper": nested}
    kept = bounded_arguments({"nested": nested, **{f"k{i}" * 200: i for i in range(10_000)}})
    assert len(repr(kept)) < 64 * 1024


def test_long_names_of_arguments_are_cut_as_well() -> None:
    kept = bounded_arguments({"n" * 4_000_000: 1})
    assert len(repr(kept)) < 500
