from __future__ import annotations

import json

import pytest

from edged.store.audit.row import COLUMNS, GENESIS, AuditRow, row_hash, texts_of
from tests.bench.store_bench import entry


def test_a_field_cannot_be_moved_into_its_neighbour() -> None:
    one = texts_of(entry(tool="a", scope="bc"))
    other = texts_of(entry(tool="ab", scope="c"))
    assert row_hash(GENESIS, (1, *one)) != row_hash(GENESIS, (1, *other))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("duration_ms", float("inf")),
        ("duration_ms", "soon"),
        ("time_ms", b"\xff"),
        ("tool", None),
        ("parameters", '{"a": NaN}'),
        ("parameters", '{"a": 1e999}'),
        ("parameters", "[" * 100_000),
        ("parameters", None),
    ],
)
def test_a_row_that_somebody_has_been_at_can_still_be_told(column: str, value: object) -> None:
    values = dict.fromkeys(COLUMNS, "") | {"seq": 1, "time_ms": 1, column: value}
    told = AuditRow.of([values[name] for name in COLUMNS]).to_json()
    json.dumps(told, allow_nan=False)
