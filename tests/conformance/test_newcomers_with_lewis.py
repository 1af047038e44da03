"""The pages' path for somebody new, with simulators made with Lewis: none of them is SCPI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.newcomer import LEWIS, follow
from tests.promises import promise


@promise("newcomer.foreign")
@pytest.mark.parametrize("name", LEWIS)
def test_an_instrument_of_lewis_is_measured_within_minutes(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    follow(name, tmp_path, record_property)
