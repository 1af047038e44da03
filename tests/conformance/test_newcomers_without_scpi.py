"""The pages' path for somebody new, with other instruments that are no SCPI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.newcomer import OTHERS, follow
from tests.promises import promise


@promise("newcomer.foreign")
@pytest.mark.parametrize("name", OTHERS)
def test_an_instrument_that_is_no_scpi_is_measured_within_minutes(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    follow(name, tmp_path, record_property)
