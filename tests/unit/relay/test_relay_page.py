"""docs/relay.md says what the tests run with, and names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.bench.nats_server import JETSTREAM_USERS, NKEY_USERS, USERS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "relay.md").read_text(encoding="utf-8")


def test_the_permissions_on_the_page_are_those_of_the_tests() -> None:
    assert USERS.strip() in PAGE
    assert NKEY_USERS.strip() in PAGE
    assert JETSTREAM_USERS.strip() in PAGE


def test_every_test_that_the_threat_table_names_is_there() -> None:
    named = re.findall(r"`(tests/[^`]+)`", PAGE)
    assert len(named) >= 15
    for name in named:
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), name
