"""The pages' path for somebody new, with SCPI servers that others wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.foreign_servers import FOREIGN
from tests.bench.newcomer import SAYS_IDN, follow
from tests.promises import promise


@promise("newcomer.foreign")
@pytest.mark.parametrize("name", SAYS_IDN)
def test_an_instrument_that_says_its_name_is_measured_within_minutes(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    follow(name, tmp_path, record_property)


def test_there_are_servers_of_six_others_at_least() -> None:
    assert len(FOREIGN) >= 6
